#!/usr/bin/env python3
"""Trains a small mixture of experts (Qwen3-MoE's shape, 14 million weights, 4 layers of 32 experts, 4 used) on the source of
Python's standard library, and writes it as a Hugging Face folder.

    tests/bench/mixture.py OUT [--steps 700] [--seed 1] [--wide N]

Routers with random weights have no locality, so a tree's experts must be measured on a trained model. --wide N writes each
expert N times as wide: the added weights are 0, so the model computes the same, but a forward reads N times the bytes. Needs
torch (1.13 or later) and tokenizers. The same seed, text and library give the same weights. Text that was not trained on is
written to OUT/prompts.jsonl: beginnings of every twentieth file.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import sysconfig
import time

import torch
import torch.nn.functional as F

D, LAYERS, HEADS, HEAD, EXPERTS, USED, FF, VOCAB, LENGTH, BATCH = 256, 4, 4, 64, 32, 4, 128, 2048, 256, 8
EPS, THETA, BALANCE = 1e-6, 10000.0, 0.01
END = "<|endoftext|>"


def texts():
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    skipped = {"test", "tests", "site-packages", "dist-packages", "idlelib", "__pycache__"}
    files = [f for f in sorted(root.rglob("*.py")) if not skipped & set(f.relative_to(root).parts) and f.stat().st_size < 200000]
    read = [f.read_text(encoding="utf-8", errors="ignore") for f in files]
    return [t for i, t in enumerate(read) if i % 20], [t for i, t in enumerate(read) if not i % 20]


def tokenizer_of(train):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(train, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=[END], show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def norm(x, w):
    return w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)


def turned(x, cos, sin):  # rotary positions, halves
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def new_weights():
    def matrix(*shape, scale=0.02):
        return (torch.randn(*shape) * scale).requires_grad_()
    deep = 0.02 / math.sqrt(2 * LAYERS)
    w = {"embed": matrix(VOCAB, D), "norm": torch.ones(D, requires_grad=True), "head": matrix(VOCAB, D)}
    for i in range(LAYERS):
        for n in "qkv":
            w[f"{i}.{n}"] = matrix(HEADS * HEAD, D)
        w[f"{i}.o"] = matrix(D, HEADS * HEAD, scale=deep)
        for n, size in ("norm1", D), ("norm2", D), ("q_norm", HEAD), ("k_norm", HEAD):
            w[f"{i}.{n}"] = torch.ones(size, requires_grad=True)
        w[f"{i}.router"] = matrix(EXPERTS, D)
        w[f"{i}.gate_up"], w[f"{i}.down"] = matrix(EXPERTS, 2 * FF, D), matrix(EXPERTS, D, FF, scale=deep)
    return w


def mixture(w, i, x):
    """The layer's output, and its balancing loss: experts * sum of (share of the choices * mean probability)."""
    chances = F.softmax(x @ w[f"{i}.router"].T, -1)
    share, best = chances.topk(USED, -1)
    share = share / share.sum(-1, keepdim=True)
    out, taken = torch.zeros_like(x), []
    for e in range(EXPERTS):
        row, rank = (best == e).nonzero(as_tuple=True)
        taken.append(row.numel())
        if row.numel():
            gate, up = (x[row] @ w[f"{i}.gate_up"][e].T).chunk(2, -1)
            out = out.index_add(0, row, (F.silu(gate) * up) @ w[f"{i}.down"][e].T * share[row, rank, None])
    of_all = torch.tensor(taken, dtype=torch.float) / (x.shape[0] * USED)
    return out, EXPERTS * (of_all * chances.mean(0)).sum()


def forward(w, ids):
    n = ids.shape[1]
    angle = torch.arange(n)[:, None] * THETA ** (-torch.arange(0, HEAD, 2) / HEAD)
    cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
    sees = torch.full((n, n), -math.inf).triu(1)
    x, balance = w["embed"][ids], 0
    for i in range(LAYERS):
        y = norm(x, w[f"{i}.norm1"])
        q, k, v = ((y @ w[f"{i}.{m}"].T).view(*ids.shape, HEADS, HEAD).transpose(1, 2) for m in "qkv")
        q, k = turned(norm(q, w[f"{i}.q_norm"]), cos, sin), turned(norm(k, w[f"{i}.k_norm"]), cos, sin)
        a = F.softmax(q @ k.transpose(2, 3) / math.sqrt(HEAD) + sees, -1) @ v
        x = x + a.transpose(1, 2).reshape(*ids.shape, -1) @ w[f"{i}.o"].T
        y, uneven = mixture(w, i, norm(x, w[f"{i}.norm2"]).view(-1, D))
        x, balance = x + y.view(x.shape), balance + uneven
    return norm(x, w["norm"]) @ w["head"].T, balance / LAYERS


def train(ids, steps, seed):
    torch.manual_seed(seed)
    w = new_weights()
    optimizer = torch.optim.AdamW(w.values(), lr=1, betas=(0.9, 0.95), weight_decay=0.01)
    start = time.time()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * min((step + 1) / 50, 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        at = torch.randint(ids.numel() - LENGTH - 1, (BATCH,))
        rows = torch.stack([ids[a:a + LENGTH + 1] for a in at.tolist()])
        logits, balance = forward(w, rows[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        (loss + BALANCE * balance).backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        optimizer.step()
        if step % 20 == 0 or step + 1 == steps:
            print(f"step {step}: loss {loss.item():.3f} nats, balance {balance.item():.2f}, {time.time() - start:.0f} s", flush=True)
    return w


def wider(x, dim, n):
    """Zeros behind x, so that it is n times as long in that dimension."""
    if n == 1:
        return x
    shape = list(x.shape)
    shape[dim] *= n - 1
    return torch.cat((x, torch.zeros(shape)), dim)


def write(w, out, wide):
    t = {"model.embed_tokens.weight": w["embed"], "model.norm.weight": w["norm"], "lm_head.weight": w["head"]}
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        for mine, theirs in (("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm"), ("router", "mlp.gate"),
                             *((m, f"self_attn.{m}_proj") for m in "qkvo"), *((f"{m}_norm", f"self_attn.{m}_norm") for m in "qk")):
            t[p + theirs + ".weight"] = w[f"{i}.{mine}"]
        for e in range(EXPERTS):
            gate, up = w[f"{i}.gate_up"][e].chunk(2, 0)
            for name, x, dim in ("gate", gate, 0), ("up", up, 0), ("down", w[f"{i}.down"][e], 1):
                t[p + f"mlp.experts.{e}.{name}_proj.weight"] = wider(x, dim, wide)
    header, data, at = {}, [], 0
    for name, x in t.items():
        raw = x.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(x.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    (out / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    (out / "config.json").write_text(json.dumps({
        "model_type": "qwen3_moe", "hidden_size": D, "intermediate_size": FF * wide, "moe_intermediate_size": FF * wide,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD, "num_experts": EXPERTS,
        "num_experts_per_tok": USED, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": VOCAB,
        "max_position_embeddings": 4096, "rms_norm_eps": EPS, "rope_theta": THETA, "hidden_act": "silu", "tie_word_embeddings": False,
        "attention_bias": False, "bos_token_id": 0, "eos_token_id": 0}, indent=1))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out", type=pathlib.Path)
    a.add_argument("--steps", type=int, default=700)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--wide", type=int, default=1)
    o = a.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    o.out.mkdir(parents=True, exist_ok=True)
    kept = o.out / "trained.pt"  # only written again: --wide
    learnt, held = texts()
    if not kept.exists():
        tokenizer = tokenizer_of(learnt)
        tokenizer.save(str(o.out / "tokenizer.json"))
        (o.out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer", "eos_token": END}))
        ids = torch.tensor([i for e in tokenizer.encode_batch(learnt) for i in [0, *e.ids]])
        print(f"{ids.numel()} tokens", flush=True)
        torch.save(train(ids, o.steps, o.seed), kept)
    with open(o.out / "prompts.jsonl", "w") as f:
        for i, t in enumerate(t for t in held if len(t) > 4000):
            f.write(json.dumps({"question_id": i, "category": "code", "turns": [t[1000:2600]]}) + "\n")
    write(torch.load(kept), o.out, o.wide)


if __name__ == "__main__":
    main()
