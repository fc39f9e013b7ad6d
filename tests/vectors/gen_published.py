#!/usr/bin/env python3
"""Makes tests/vectors/published.json: what the authors' own programs do on seeded inputs.

Usage: gen_published.py FOLDER [SECTION ...], where FOLDER/OWNER+NAME/repo is a git clone of each program; without sections,
all are made again. The functions named here are read from the clone at COMMITS and run as they are; nothing of them is kept
in this tree. Needs torch (2.13, from `lookahead` on 2.15), g++ and rustc.
"""
import argparse
import ast
import contextlib
import io
import json
import random
import subprocess
import sys
import tempfile

import torch

COMMITS = {"maxholsman/fsd": "e92a157", "FasterDecoding/Medusa": "e2a5d20", "SafeAILab/EAGLE": "cb7e084",
           "hkr04/RACER": "fc494a3", "apoorvumang/prompt-lookup-decoding": "cada4fe",
           "Luowaterbi/TokenRecycling": "1b4c05c", "hao-ai-lab/LookaheadDecoding": "eed010d",
           "smart-lty/LogitSpec": "659bba9", "snowflakedb/ArcticInference": "9d46438", "FasterDecoding/REST": "50a5fc1",
           "Kaffaljidhmah2/SpecDec_pp": "9c52edc", "AMD-AGI/FLy": "6667ae8"}
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


def pld():
    """Texts, the root last, and what Saxena's program copies: ten tokens or none."""
    text = source("apoorvumang/prompt-lookup-decoding", "README.md")
    space = {"torch": torch}
    exec(text[text.index("def find_candidate"):].split("```")[0], space)
    torch.manual_seed(4)
    cases = []
    for i in range(60):
        ids = torch.randint(4 + i // 6, (1, 50))
        cases.append({"text": ids[0].tolist(), "copied": space["find_candidate_pred_tokens"](ids).tolist()})
    return cases


def recycle():
    """The tree of Token Recycling: ranks on each path."""
    f = functions("Luowaterbi/TokenRecycling", "model/recycling/tree_template_.py", ["choose_tree_template"], {})
    return [{"ranks": f["choose_tree_template"]("2.2.2")}]


# Three prompts that the automaton decodes one after the other, on a target whose choice is a function of the last
# token and the prompt. Each line: the root, the drafts' number, the sum of the hashes of their paths, how many were accepted.
RACER_RUN = """
#include <cstdio>
#include <cstdlib>
static const int V = 97;
static int prompt;
static std::vector<int> best(int x) {
    std::vector<int> v;
    for (int j = 0; j < 8; j++) v.push_back((x * 5 + 3 + prompt * 2 + j * j) % V);
    return v;
}
int main(int, char **arg) {
    const int rows = atoi(arg[2]), gram = 10;
    Automaton ac(atoi(arg[1]));
    ac.init_logits(V, 8);
    for (prompt = 0; prompt < 3; prompt++) {
        std::vector<int> ids, at;
        for (int i = 0; i < V + 90; i++) ids.push_back(i < V || i % 13 == 0 ? (i * 31 + prompt) % V : best(ids[i - 1])[0]);
        std::vector<std::vector<int>> adj;
        for (size_t i = 0; i < ids.size(); i++) adj.push_back(best(ids[i]));
        ac.update(ids, adj);
        for (size_t i = 0; i + gram <= ids.size(); i++) ac.insert({ids.begin() + i, ids.begin() + i + gram});
        ac.build();
        for (int step = 0; step < 60; step++) {
            const int root = best(ids.back())[0];
            DraftBuffer b = ac.retrieve(root, rows);
            std::vector<int> tokens = b.tree_candidates, longest{root};
            std::set<std::vector<int>> paths;
            for (auto &c : b.candidates) {
                std::vector<int> path;
                size_t good = 1;
                for (size_t i = 0; i < c.size(); i++) {
                    path.push_back(c[i]);
                    if (i) paths.insert(path);
                    if (i && good == i && c[i] == best(c[i - 1])[0]) good++;
                }
                if (good > longest.size()) longest.assign(c.begin(), c.begin() + good);
            }
            unsigned sum = 0;
            for (auto &p : paths) {
                unsigned h = 1;
                for (size_t i = 1; i < p.size(); i++) h = h * 31 + p[i] + 1;
                sum += h * h;
            }
            printf("[%d, %zu, %u, %zu]\\n", root, paths.size(), sum, longest.size() - 1);
            adj.clear();
            for (int token : tokens) adj.push_back(best(token));
            ac.update(tokens, adj);
            ids.insert(ids.end(), longest.begin(), longest.end());
            const int n = ids.size(), more = longest.size() - 1;
            for (int i = 0; i <= more; i++)
                if (n - i >= gram) ac.insert({ids.begin() + n - i - gram, ids.begin() + n - i});
            if (more) ac.trans_tokens({ids.end() - more, ids.end()});
        }
    }
}
"""


def racer():
    """The drafts of RACER's automaton, step by step; with few nodes it loses some."""
    cases = []
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/run.cpp", "w", encoding="utf-8") as file:
            file.write(source("hkr04/RACER", "racer/automaton/src/automaton.cpp") + RACER_RUN)
        subprocess.run(["g++", "-std=c++17", "-O1", "-DNDEBUG", "-w", f"{d}/run.cpp", "-o", f"{d}/run"], check=True)
        for nodes, rows in ((10000, 64), (10000, 16), (600, 64)):
            run = subprocess.run([f"{d}/run", str(nodes), str(rows)], check=True, capture_output=True, text=True).stdout
            cases.append({"nodes": nodes, "rows": rows, "steps": [json.loads(line) for line in run.splitlines()]})
    return cases


class Lcg:
    """Pseudo-random numbers that the test draws, too."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 1103515245 + 12345) % 2**31
        return (self.state >> 16) % n


def paths_sum(paths):
    """As paths_sum of test_published.c: the sum of the squared hashes of the paths, without their root."""
    total = 0
    for path in paths:
        h = 1
        for token in path:
            h = (h * 31 + token + 1) % 2**32
        total = (total + h * h) % 2**32
    return total


def prefixes(path):
    return [tuple(path[:n]) for n in range(1, len(path) + 1)]


LOOKAHEAD_VOCAB, LOOKAHEAD_STEPS = 13, 70


def lookahead_next(before, last, prompt):
    return (5 * last + 3 * before + before * last + prompt) % LOOKAHEAD_VOCAB


class LookaheadModel:
    """A target whose choice after a row is a function of the two tokens before it, as the program's own mask has them.

    Its keys are the tokens, so the program's copies of keys show which tokens it believes to be committed."""

    def __init__(self, decoding, modeling, prompt):
        self.prompt, self.vocab_size, self.jforward = prompt, LOOKAHEAD_VOCAB, modeling["jforward_multilevel"]
        self.make_mask = modeling["j_make_causal_mask_multilevel"]
        self.config = argparse.Namespace(is_encoder_decoder=False, pretraining_tp=1, output_attentions=False,
                                         output_hidden_states=False, use_return_dict=True)
        self.generation_config = argparse.Namespace(pad_token_id=None, eos_token_id=None, output_scores=False,
                                                    output_attentions=False, output_hidden_states=False,
                                                    return_dict_in_generate=False)
        self.model = argparse.Namespace(layers=[], LlamaModeljforward=self.forward)
        self.steps = []

    def lm_head(self, chosen):
        return torch.nn.functional.one_hot(chosen, LOOKAHEAD_VOCAB).float()

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids, "position_ids": torch.arange(input_ids.shape[1])[None], "attention_mask": attention_mask}

    def _update_model_kwargs_for_generation(self, outputs, kwargs, **_):
        mask = kwargs["attention_mask"]
        return {"attention_mask": torch.cat([mask, torch.ones(1, 1, dtype=mask.dtype)], 1), "past_key_values": outputs.past_key_values}

    def forward(self, input_ids, position_ids, past_key_values, level_sizes, is_prefill, guess, guess_size, **_):
        old = past_key_values[0][0][0, 0, :, 0].long() if past_key_values else torch.zeros(0, dtype=torch.long)
        tokens = torch.cat([old, input_ids[0]])
        places = torch.cat([torch.arange(len(old)), position_ids[0]])
        mask = self.make_mask(level_sizes, is_prefill, 0, guess, guess_size, False, False, input_ids.shape, torch.float32, 0,
                              "cpu", len(old))[0, 0]
        chosen, paths = [], set()
        committed = len(tokens) - sum(level_sizes) - len(guess or [])
        for row in range(input_ids.shape[1]):
            seen = (mask[row] == 0).nonzero()[:, 0]
            seen = seen[places[seen].argsort()]
            assert places[seen].tolist() == list(range(len(seen)))  # one token at each place
            path = tokens[seen].tolist()
            chosen.append(lookahead_next(path[-2] if len(path) > 1 else 0, path[-1], self.prompt))
            if len(old) + row >= committed:
                paths.add(tuple(path[committed:]))
        self.steps.append([int(tokens[committed - 1]), len(paths), paths_sum(paths)])
        keys = tokens[None, None, :, None].float()
        result = argparse.Namespace(past_key_values=[(keys, keys.clone())], hidden_states=None, attentions=None)
        return type("Out", (), {"__getitem__": lambda _, i: torch.tensor(chosen)[None], **vars(result)})()

    def jforward_multilevel(self, **inputs):
        return self.jforward(self, **inputs)


def lookahead():
    """The rows of Lookahead decoding, step by step: the root, their number and the sum of their paths' hashes, and how many
    drafts the program accepted. Its first guesses are those of ours, not random ones."""
    decoding = functions("hao-ai-lab/LookaheadDecoding", "lade/decoding.py", ["jacobi_greedy_search_multilevel", "update_token_map"],
                         {"torch": torch, "CONFIG_MAP": {"LEVEL": 5, "WINDOW_SIZE": 15, "GUESS_SET_SIZE": 15},
                          "LogitsProcessorList": list, "StoppingCriteriaList": list, "COLOR_PRINT": 0})
    modeling = functions("hao-ai-lab/LookaheadDecoding", "lade/models/modeling_llama.py",
                         ["j_make_causal_mask_multilevel", "LlamaForCausalLM"],
                         {"torch": torch, "CausalLMOutputWithPast": lambda **k: argparse.Namespace(**k),
                          "LlamaPreTrainedModel": object, "add_start_docstrings_to_model_forward": lambda _: lambda f: f,
                          "replace_return_docstrings": lambda **_: lambda f: f, "LLAMA_INPUTS_DOCSTRING": "",
                          "_CONFIG_FOR_DOC": ""})
    modeling["jforward_multilevel"] = modeling["LlamaForCausalLM"].jforward_multilevel
    cases, choice = [], random.choice
    for prompt in range(3):
        draw, guesses = Lcg(prompt + 1), iter(range(1, 99))
        ids = [draw.below(LOOKAHEAD_VOCAB) for _ in range(30)]
        model = LookaheadModel(decoding, modeling, prompt)

        class Enough(list):
            def __call__(self, input_ids, scores):
                made.append(input_ids.shape[1])
                return len(made) == LOOKAHEAD_STEPS

        made = [len(ids)]
        random.choice = lambda old: old[next(guesses) * 7 % (len(ids) - 1)]  # pylint: disable=cell-var-from-loop
        with torch.no_grad():
            decoding["jacobi_greedy_search_multilevel"](model, torch.tensor([ids]), stopping_criteria=Enough(),
                                                        attention_mask=torch.ones(1, len(ids), dtype=torch.long))
        steps = [step + [made[i + 1] - made[i] - 1] for i, step in enumerate(model.steps[:LOOKAHEAD_STEPS - 1])]
        cases.append({"prompt": prompt, "steps": steps})
    random.choice = choice
    return cases


def logitspec():
    """The drafts of LogitSpec, step by step: the root, their number and the sum of their paths' hashes, guesses that share a
    token included, and how many tokens were accepted. The last logits hold (root + 7 j) % 101 at rank j."""
    f = functions("smart-lty/LogitSpec", "model/logitspec/generate_drafts_util.py",
                  ["Pool", "get_draft_length_via_rank", "generate_draft_tokens"], {"torch": torch})
    cases = []
    for prompt in range(3):
        draw, steps = Lcg(prompt + 1), []
        text = [draw.below(4 + 3 * prompt) for _ in range(60)]
        pool = f["Pool"](list(text), 3, 20)
        for _ in range(60):
            root, accepted = draw.below(4 + 3 * prompt), draw.below(4)
            logits = torch.full((1, 101), -1000.0)
            for j in range(101):
                logits[0, (root + 7 * j) % 101] = -j
            _, chains, n = f["generate_draft_tokens"](pool.pool, torch.tensor([text]), logits)
            assert n == sum(map(len, chains))
            steps.append([root, n, paths_sum(p for chain in chains for p in prefixes(chain)), accepted])
            new = [root] + [draw.below(4 + 3 * prompt) for _ in range(accepted)]
            text += new
            pool.update_pool(new)
        cases.append({"prompt": prompt, "steps": steps})
    return cases


# Four requests of 50 steps on a text that repeats itself. Each line: the root, the drafts of SuffixDecodingCache.speculate
# (use_tree_spec) from trees that lack the root, and as the program has them, with it: their number, the sum of their paths'
# hashes, the sum of their probabilities.
SUFFIX_RUN = """
#include <cstdio>
static unsigned state = 1;
static int below(int n) {
    state = (state * 1103515245u + 12345u) & 0x7FFFFFFFu;
    return (int)(state >> 16) % n;
}
static int next(const std::vector<int> &ids, int request) {
    const int n = ids.size();
    return n < 2 || below(4) == 0 ? below(7) : (3 * ids[n - 1] + 5 * ids[n - 2] + request) % 7;
}
static void tell(SuffixTree &local, SuffixTree &global, const std::vector<int> &ids, const char *end) {
    const size_t n = ids.size() < 64 ? ids.size() : 64;
    const std::span<const int> context(ids.data() + ids.size() - n, n);
    Draft one = local.speculate(context, 63, 1, 0, 0.1f, true), two = global.speculate(context, 63, 1, 0, 0.1f, true);
    const Draft &d = one.score >= two.score ? one : two;
    std::vector<unsigned> hash;
    unsigned sum = 0;
    for (size_t i = 0; i < d.token_ids.size(); i++) {
        hash.push_back((d.parents[i] < 0 ? 1 : hash[d.parents[i]]) * 31 + d.token_ids[i] + 1);
        sum += hash[i] * hash[i];
    }
    printf("%zu, %u, %.5f%s", hash.size(), sum, d.score, end);
}
int main() {
    SuffixTree global(64), global_late(64);
    for (int request = 0; request < 4; request++) {
        SuffixTree local(64), local_late(64);
        std::vector<int> ids;
        for (int i = 0; i < 40; i++) ids.push_back(next(ids, request));
        local.extend(0, ids), local_late.extend(0, ids);
        for (int step = 0; step < 50; step++) {
            ids.push_back(next(ids, request));
            local.append(0, ids.back()), global.append(request, ids.back());
            printf("[%d, ", ids.back());
            tell(local_late, global_late, ids, ", ");
            tell(local, global, ids, "]\\n");
            local_late.append(0, ids.back()), global_late.append(request, ids.back());
        }
    }
}
"""


def suffix():
    """The drafts of Arctic Inference's suffix trees, step by step."""
    with tempfile.TemporaryDirectory() as d:
        for name in ("suffix_tree.cc", "suffix_tree.h", "int32_map.h"):
            with open(f"{d}/{name}", "w", encoding="utf-8") as file:
                file.write(source("snowflakedb/ArcticInference", f"csrc/suffix_decoding/{name}"))
        with open(f"{d}/run.cc", "w", encoding="utf-8") as file:
            file.write('#include "suffix_tree.cc"\n' + SUFFIX_RUN)
        subprocess.run(["g++", "-std=c++20", "-O1", "-w", f"{d}/run.cc", "-o", f"{d}/run"], check=True)
        run = subprocess.run([f"{d}/run"], check=True, capture_output=True, text=True).stdout
        return [json.loads(line) for line in run.splitlines()]


# What stands for the crates of REST's retriever, so that rustc alone builds its search.
REST_SHIMS = """
use std::collections::HashSet as AHashSet;
struct LittleEndian;
impl LittleEndian { fn read_i32(b: &[u8]) -> i32 { i32::from_le_bytes([b[0], b[1], b[2], b[3]]) }
                    fn read_u16(b: &[u8]) -> u16 { u16::from_le_bytes([b[0], b[1]]) } }
trait ReadBytesExt: Read {
    fn read_i32<T>(&mut self) -> std::io::Result<i32> { let mut b = [0; 4]; self.read_exact(&mut b)?; Ok(i32::from_le_bytes(b)) }
    fn read_u32<T>(&mut self) -> std::io::Result<u32> { let mut b = [0; 4]; self.read_exact(&mut b)?; Ok(u32::from_le_bytes(b)) }
}
impl<R: Read> ReadBytesExt for R {}
struct Mutex<T>(std::sync::Mutex<T>);
impl<T> Mutex<T> { fn new(t: T) -> Self { Mutex(std::sync::Mutex::new(t)) }
                   fn lock(&self) -> std::sync::MutexGuard<'_, T> { self.0.lock().unwrap() } }
trait Par<T> { fn par_iter_mut(&mut self) -> std::slice::IterMut<'_, T>; }
impl<T> Par<T> for Vec<T> { fn par_iter_mut(&mut self) -> std::slice::IterMut<'_, T> { self.iter_mut() } }
type PyResult<T> = Result<T, Box<dyn std::error::Error>>;
struct Item(i32);
impl Item { fn extract(&self) -> PyResult<i32> { Ok(self.0) } }
type PyList = Vec<Item>;
mod exceptions { pub struct PyValueError; impl PyValueError { pub fn new_err(s: &str) -> Box<dyn std::error::Error> { s.into() } } }
"""
REST_MAIN = """
fn main() {
    let mut reader = Reader::new(&std::env::args().nth(1).unwrap()).unwrap();
    for line in std::io::stdin().lines() {
        let query: PyList = line.unwrap().split(' ').map(|x| Item(x.parse().unwrap())).collect();
        println!("{:?}", reader.search(&query, None, None, None).map_or(Vec::new(), |found| found.0));
    }
}
"""
REST_TOKENS, REST_VOCAB = 4000, 30


def rest():
    """Endings of a text, and the whole paths that REST's search drafts after their longest known ending. Where the program
    breaks ties by the order of its hash tables, it drafts something else each time; such endings are left out."""
    code = source("FasterDecoding/REST", "DraftRetriever/src/lib.rs")
    uses = [line for line in code.splitlines() if line.startswith("use std")]
    body = code[code.index("struct SubIndex"):code.index("#[pymodule]")]
    for mark in ("#[pyclass]", "#[pymethods]", "#[new]"):
        body = body.replace(mark, "")
    draw, corpus = Lcg(1), []
    for _ in range(REST_TOKENS):
        corpus.append(draw.below(REST_VOCAB) if len(corpus) < 2 or draw.below(3) == 0 else
                      (3 * corpus[-1] + 5 * corpus[-2]) % 7)
    cases = []
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/rest.rs", "w", encoding="utf-8") as file:
            file.write("\n".join(uses) + REST_SHIMS + body + REST_MAIN)
        subprocess.run(["rustc", "-O", "-A", "warnings", "-o", f"{d}/rest", f"{d}/rest.rs"], check=True)
        order = sorted(range(REST_TOKENS), key=lambda at: corpus[at:])
        with open(f"{d}/index", "wb") as file:
            file.write((2 * REST_TOKENS).to_bytes(4, "little") + b"".join(t.to_bytes(2, "little") for t in corpus)
                       + (4 * REST_TOKENS).to_bytes(4, "little") + b"".join(at.to_bytes(4, "little") for at in order))
        for i in range(500):
            at, n = draw.below(REST_TOKENS - 20), 2 + draw.below(5)
            ending = [draw.below(REST_VOCAB) for _ in range(16 - n)] + corpus[at:at + n]
            spans = [" ".join(map(str, ending[-span:])) for span in range(16, 1, -1)]
            found = subprocess.run([f"{d}/rest", f"{d}/index"], input="\n".join(spans * 8), check=True, capture_output=True,
                                   text=True).stdout.splitlines()
            tries = [next(({p for path in json.loads(line) for p in prefixes([t for t in path if t != -2])}
                           for line in found[k * 15:k * 15 + 15] if line != "[]"), set()) for k in range(8)]
            if all(paths == tries[0] for paths in tries) and (len(tries[0]) != 10 or i < 40):
                whole = [p for p in tries[0] if not any(len(q) > len(p) and q[:len(p)] == p for q in tries[0])]
                cases.append({"ending": ending, "rows": len(tries[0]), "paths": sorted(map(list, whole))})
    return cases


def specdec():
    """How many drafts SpecDec++ keeps whose acceptance its head believes to be p, for a threshold; between 2 and 20."""
    tree = ast.parse(source("Kaffaljidhmah2/SpecDec_pp", "specdec_pp/hf_generation.py"))
    loop = next(node for node in reversed([n for n in ast.walk(tree) if isinstance(n, ast.While)])
                if "cum_acc_prob" in ast.unparse(node))
    torch.manual_seed(5)
    cases = []
    for i in range(40):
        p = [1.0] + [round(v, 3) for v in (1 - torch.rand(30) ** 2 * (0.1 + 0.02 * i)).tolist()]
        threshold = (0.3, 0.7, 0.9)[i % 3]

        def draft(ids, **_):
            said = torch.tensor(p[len(seen)])  # pylint: disable=cell-var-from-loop
            seen.append(ids)  # pylint: disable=cell-var-from-loop
            hidden = (said.reshape(1, 1, 1),)
            return argparse.Namespace(logits=torch.zeros(1, 1, 4), past_key_values=[[torch.zeros(1, 1, len(seen), 1)]],  # pylint: disable=cell-var-from-loop
                                      get=lambda _: hidden)

        seen = []
        draft.config = argparse.Namespace(is_encoder_decoder=False)
        ids = torch.zeros(1, 1, dtype=torch.long)
        space = {"torch": torch, "num_assistant_tokens_schedule": "ada", "assist_steps": 0, "assistant_model": draft,
                 "model_kwargs": {}, "candidate_input_ids": ids, "assistant_kv_indexing": 0, "logits_processor": [],
                 "logits_warper": [], "do_sample": False, "eos_token_id_tensor": None, "stop_threshold": threshold,
                 "assist_acc_head": lambda said: torch.cat([1 - said, said]).log(), "cum_acc_prob": 1.0, "bound": (2, 20)}
        exec(compile(ast.Module([loop], []), "specdec", "exec"), space)
        cases.append({"threshold": threshold, "p": p[1:], "kept": space["candidate_input_ids"].shape[1] - 1})
    return cases


def fly():
    """Chains of ten drafts: the target's logits, and how many drafts FLy accepts."""
    f = functions("AMD-AGI/FLy", "fly/models/FLy.py", ["SPDGenerate", "sample_with_temperature"],
                  {"torch": torch, "F": torch.nn.functional, "time": __import__("time"),
                   "cached_property": __import__("functools").cached_property})
    torch.manual_seed(6)
    cases, k = [], 10

    class Fake:
        device, dtype = "cpu", torch.float32

        def __init__(self, logits):
            self.logits, self.at = logits, 0

        def eval(self):
            return self

        def crop(self, n):
            pass

        def __call__(self, input_ids, **_):
            n = input_ids.shape[1] if self.at else 1  # of the prompt the last row alone
            self.at += n
            return argparse.Namespace(past_key_values=self, logits=self.logits[None, self.at - n:self.at])

    for i in range(48):
        target = torch.randn(k + 1, VOCAB) * (1 + 0.3 * (i % 4))
        draft = target.clone()
        for row in range(k):
            if row == i % k or torch.rand(1) < 0.05:
                draft[row, draft[row].argmax()] = -9  # its second choice
        options = {"k": k, "total_gen_tok": 1, "enable_fly": True, "win_len": 6, "entropy_thre": 0.3}
        blank = torch.zeros(1, VOCAB)
        run = f["SPDGenerate"](Fake(torch.cat([blank, draft])), Fake(torch.cat([blank, target])),
                               argparse.Namespace(eos_token_id=-1), argparse.Namespace(info=lambda _: None), options)
        out = run.generate_chunks(torch.zeros(1, 2, dtype=torch.long), 0)
        cases.append({"target": values(target), "tokens": draft[:k].argmax(-1).tolist(), "accepted": out.shape[1] - 3})
    return cases


def main():
    made = [fuzzy, typical, medusa, eagle, racer, pld, recycle, lookahead, logitspec, suffix, rest, specdec, fly]
    with open("tests/vectors/published.json", encoding="utf-8") as file:
        out = json.load(file)
    out["commits"] = COMMITS
    for section in made:
        if not sys.argv[2:] or section.__name__ in sys.argv[2:]:
            out[section.__name__] = section()
    with open("tests/vectors/published.json", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f'"{k}": ' + ("[\n" + ",\n".join(map(json.dumps, v)) + "\n]" if isinstance(v, list)
                                                    else json.dumps(v)) for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main()
