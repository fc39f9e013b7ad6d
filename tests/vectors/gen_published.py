#!/usr/bin/env python3
"""Makes tests/vectors/published.json: what the authors' own programs do on seeded inputs.

Usage: gen_published.py FOLDER, where FOLDER/OWNER+NAME/repo is a git clone of each program. The functions named here are
read from the clone at COMMITS and run as they are; nothing of them is kept in this tree. Needs torch (made with 2.13).
"""
import argparse
import ast
import contextlib
import io
import json
import subprocess
import sys

import torch

COMMITS = {"maxholsman/fsd": "e92a157", "FasterDecoding/Medusa": "e2a5d20", "SafeAILab/EAGLE": "cb7e084"}
VOCAB = 8


def source(repo, path):
    git = f"{sys.argv[1]}/{repo.replace('/', '+')}/repo"
    return subprocess.run(["git", "-C", git, "show", f"{COMMITS[repo]}:{path}"], check=True, capture_output=True, text=True).stdout


def functions(repo, path, names, known):
    """The named functions and assignments of a file of the authors, without the rest of it."""
    tree = ast.parse(source(repo, path))
    tree.body = [n for n in tree.body if getattr(n, "name", None) in names
                 or isinstance(n, ast.Assign) and n.targets[0].id in names]
    space = dict(known)
    exec("from __future__ import annotations\n" + ast.unparse(tree), space)
    return space


def values(t, digits=6):
    return [float(f"{v:.{digits}g}") for v in t.flatten().tolist()]


def fuzzy():
    """Chains of five drafts: the target's and the drafts' logits, and where each divergence stops."""
    f = functions("maxholsman/fsd", "fsd_utils.py", ["_speculative_backoff_sampling"], {"torch": torch, "time": __import__("time")})
    torch.manual_seed(1)
    cases = []
    for kind in ("js_div", "kl_div", "tv_div"):
        for i in range(8):
            draft = torch.randn(1, 5, VOCAB) * 2
            target = torch.cat([draft, torch.randn(1, 1, VOCAB)], 1) + torch.randn(1, 6, VOCAB) * (0.2 + 0.3 * i)
            tokens = torch.multinomial(draft[0].softmax(-1), 1).T
            with contextlib.redirect_stdout(io.StringIO()):
                r = f["_speculative_backoff_sampling"](tokens, draft, draft, 5, target, target, False, 0.1, kind, True, None,
                                                       None, [], 0, 99)
            cases.append({"kind": kind, "draft": values(draft), "target": values(target), "tokens": tokens[0].tolist(),
                          "divergence": values(r[4]), "accepted at 0.1": int(r[1])})
    return cases


def typical():
    """Full trees of widths 3, 2 and 2 below the root, with the logits after each row, and the accepted path."""
    f = functions("FasterDecoding/Medusa", "medusa/model/utils.py", ["evaluate_posterior"], {"torch": torch})
    torch.manual_seed(2)
    widths, cases = (3, 2, 2), []
    for i in range(24):
        parents, level = [-1], [0]
        tokens = [int(torch.randint(VOCAB, (1,)))]
        for width in widths:
            below = []
            for row in level:
                for token in torch.randperm(VOCAB)[:width].tolist():
                    below.append(len(parents))
                    parents.append(row)
                    tokens.append(token)
            level = below
        logits = torch.randn(len(parents), VOCAB) * 1.5
        paths = []
        for leaf in level:
            path = [leaf]
            while path[0]:
                path.insert(0, parents[path[0]])
            paths.append(path)
        rows = torch.tensor(paths)
        temperature = (0.0, 0.5, 1.0, 2.0)[i % 4]
        best, n = f["evaluate_posterior"](logits[rows], torch.tensor(tokens)[rows], temperature, 0.09, 0.3)
        cases.append({"temperature": temperature, "parents": parents, "tokens": tokens, "logits": values(logits),
                      "path": paths[int(best)][:int(n) + 1]})
    return cases


def medusa():
    """Each published tree over the ten best tokens of four heads, and the tree that each base model's name chooses."""
    names = functions("FasterDecoding/Medusa", "medusa/model/medusa_choices.py", ["mc_sim_7b_63"], {})
    text = source("FasterDecoding/Medusa", "medusa/model/medusa_choices.py")
    exec(text, names)
    f = functions("FasterDecoding/Medusa", "medusa/model/utils.py",
                  ["TOPK", "pad_path", "generate_medusa_buffers", "generate_candidates"], {"torch": torch})
    model = functions("FasterDecoding/Medusa", "medusa/model/medusa_model.py", ["MedusaModelABC"],
                      {"torch": torch, "nn": torch.nn, "warnings": argparse.Namespace(warn=print), **names})["MedusaModelABC"]
    torch.manual_seed(3)
    cases = []
    for name, choices in names.items():
        if not isinstance(choices, list):
            continue
        heads = torch.randn(4, 1, 1, 100)
        buffers = f["generate_medusa_buffers"]([list(c) for c in choices], device="cpu")
        paths, _ = f["generate_candidates"](heads, torch.randn(1, 1, 100), buffers["tree_indices"], buffers["retrieve_indices"])
        tree = {tuple(path[1:n].tolist()) for path, rows in zip(paths, buffers["retrieve_indices"])
                for n in range(2, int((rows >= 0).sum()) + 1)}
        cases.append({"tree": name, "heads": heads[:, 0, 0].topk(10, -1).indices.tolist(), "paths": sorted(map(list, tree))})
    bases = ["lmsys/vicuna-7b-v1.3", "lmsys/vicuna-13b-v1.5", "lmsys/vicuna-33b-v1.3", "HuggingFaceH4/zephyr-7b-beta", "x/vicuna", "x/llama-7b"]
    with contextlib.redirect_stdout(io.StringIO()):
        chosen = [model.get_medusa_choice(None, base) for base in bases]
    cases.append({"base": {base: next(k for k, v in names.items() if v is c) for base, c in zip(bases, chosen)}})
    return cases


class EagleModel:
    """What topK_genrate asks of its model: a seeded recurrent layer, whose rows are noted by their path of tokens."""

    def __init__(self, seed, total, depth, top_k, width=24, vocab=60):
        torch.manual_seed(seed)
        self.total_tokens, self.depth, self.top_k = total - 1, depth, top_k
        self.config = argparse.Namespace(vocab_size=vocab, draft_vocab_size=vocab)
        self.embed_tokens = torch.nn.Embedding(vocab, width)
        self.mix, self.lm_head = torch.nn.Linear(width, width), torch.nn.Linear(width, vocab)
        self.lm_head.weight.data *= 4
        self.logsoftmax, self.norm = torch.nn.LogSoftmax(-1), lambda x: x
        self.tree_mask_init = torch.eye(top_k)[None, None]
        self.position_ids = torch.zeros(top_k, dtype=torch.long)
        self.path, self.rows = {}, []

    def reset(self):
        pass

    def __call__(self, hidden, input_ids, past_key_values=None, **_):
        out = torch.tanh(self.mix(hidden) + self.embed_tokens(input_ids))
        below = past_key_values is not None
        for i in range(out.shape[1]) if below else [-1]:
            path = self.path[hidden[0, i].numpy().tobytes()] + [int(input_ids[0, i])] if below else []
            self.path[out[0, i].numpy().tobytes()] = path
            p = torch.softmax(self.lm_head(out[0, i]), -1).topk(min(10, self.top_k))
            self.rows.append({"path": path, "ids": p.indices.tolist(), "p": values(p.values)})
        return out, ()


def eagle():
    """The rows that EAGLE's draft model sees, with its best tokens there, and the tree."""
    f = functions("SafeAILab/EAGLE", "eagle/model/cnets.py", ["Model"], {"torch": torch, "nn": torch.nn})
    cases = []
    for seed, (total, depth, top_k) in enumerate([(60, 5, 10), (60, 5, 10), (32, 8, 4), (60, 8, 10)]):
        m = EagleModel(seed, total, depth, top_k)
        with torch.no_grad():
            tokens, retrieve, _, _ = f["Model"].topK_genrate(m, torch.randn(1, 5, 24), torch.randint(60, (1, 6)), None, None)
        paths = {tuple(tokens[0, row].item() for row in path[1:n] if row >= 0) for path in retrieve.tolist()
                 for n in range(2, len(path) + 1)}
        assert len(paths) == total - 1 and len(m.rows) == 1 + depth * top_k
        cases.append({"rows": total, "depth": depth, "width": top_k, "root": int(tokens[0, 0]), "seen": m.rows,
                      "tree": sorted(map(list, paths))})
    return cases


def main():
    out = {"commits": COMMITS, "fuzzy": fuzzy(), "typical": typical(), "medusa": medusa(), "eagle": eagle()}
    with open("tests/vectors/published.json", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f'"{k}": ' + ("[\n" + ",\n".join(map(json.dumps, v)) + "\n]" if isinstance(v, list)
                                                    else json.dumps(v)) for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main()
