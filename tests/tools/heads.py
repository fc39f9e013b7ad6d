#!/usr/bin/env python3
"""Writes a tiny seeded target model and trained heads for it, and what the published programs compute with these heads.

    tests/tools/heads.py DIR     -> DIR/target, DIR/eagle3, DIR/eagle3-own, DIR/eagle, DIR/medusa, DIR/medusa2
                                    (config.json, model.safetensors), DIR/eagle3.gguf, DIR/eagle3-own.gguf and DIR/heads.json

The forwards below follow eagle/model/cnets.py (EAGLE-3), eagle/model/cnets1.py (EAGLE, EAGLE-2) of SafeAILab/EAGLE and
medusa/model/medusa_model.py of FasterDecoding/Medusa, row by row and in double precision, with nothing but the standard
library. heads.json has, for each head, the values that stand for the target's hidden states and what came out.
"""
import json
import math
import os
import struct
import sys
from operator import mul

import folders
import tiny

TARGET = {**tiny.BASE, "model_type": "llama", "num_hidden_layers": 8}
D, V, DRAFTED = TARGET["hidden_size"], TARGET["vocab_size"], 96
LAYER = {"model_type": "llama", "num_hidden_layers": 1, "hidden_act": "silu", "rms_norm_eps": 1e-5, "vocab_size": V,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
HEADS = {
    # reduced vocabulary, the target's embedding, heads wider than hidden_size / heads
    "eagle3": (tiny.F32, {**LAYER, "hidden_size": D, "intermediate_size": 160, "head_dim": 32, "draft_vocab_size": DRAFTED,
                          "rope_theta": 500000.0}),
    # whole vocabulary, an embedding and a width of its own, other layers
    "eagle3-own": (tiny.F16, {**LAYER, "hidden_size": 96, "target_hidden_size": D, "intermediate_size": 128, "num_attention_heads": 3,
                              "num_key_value_heads": 1, "draft_vocab_size": V, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 3, 6]}}),
    # the first format, with every bias there is
    "eagle": (tiny.BF16, {**LAYER, "hidden_size": D, "intermediate_size": 128, "num_key_value_heads": 4}),
    "medusa": (tiny.F32, {"medusa_num_heads": 4, "medusa_num_layers": 1, "base_model_name_or_path": "target"}),
    "medusa2": (tiny.BF16, {"medusa_num_heads": 2, "medusa_num_layers": 2, "base_model_name_or_path": "target"}),
}
MEDUSA = {"medusa": (4, 1), "medusa2": (3, 2)}  # heads, which may be more than config.json says, and residual blocks
TOP, TOP_K, DEPTH = 8, 4, 3


# ---- files

def write(path, config, tensors):
    """tensors: name -> (shape, type of safetensors, bytes)."""
    os.makedirs(path, exist_ok=True)
    header, data = {}, b""
    for name, (shape, kind, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


class Weights:
    """Random tensors by name: matrices as lists of rows, vectors as lists, as the file holds them."""

    def __init__(self, seed, kind):
        self.random, self.kind, self.raw, self.values = tiny.Random(seed), kind, {}, {}

    def add(self, name, *shape, scale=None, offset=0.0):
        n = math.prod(shape)
        scale = scale or (2.0 / math.sqrt(shape[1]) if len(shape) == 2 else 0.3)
        raw, values = tiny.to_type(self.random.values(n, scale, offset), self.kind)
        self.raw[name] = (shape, {tiny.F32: "F32", tiny.F16: "F16", tiny.BF16: "BF16"}[self.kind], raw)
        rows = [values[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])] if len(shape) == 2 else values
        self.values[name] = rows

    def norm(self, name, n):
        self.add(name, n, scale=0.3, offset=1.0)


def target(path):
    w = Weights(50, tiny.F32)
    hd, ff = D // TARGET["num_attention_heads"], TARGET["intermediate_size"]
    w.add("model.embed_tokens.weight", V, D, scale=1.0)
    for i in range(TARGET["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for part, n in (("q", TARGET["num_attention_heads"] * hd), ("k", TARGET["num_key_value_heads"] * hd),
                        ("v", TARGET["num_key_value_heads"] * hd)):
            w.add(p + f"self_attn.{part}_proj.weight", n, D)
        w.add(p + "self_attn.o_proj.weight", D, TARGET["num_attention_heads"] * hd)
        w.add(p + "mlp.gate_proj.weight", ff, D)
        w.add(p + "mlp.up_proj.weight", ff, D)
        w.add(p + "mlp.down_proj.weight", D, ff)
        w.norm(p + "input_layernorm.weight", D)
        w.norm(p + "post_attention_layernorm.weight", D)
    w.norm("model.norm.weight", D)
    w.add("lm_head.weight", V, D)
    write(path, TARGET, w.raw)
    folders.tokenizer(path, V)
    return w.values


def eagle(path, name, seed):
    kind, c = HEADS[name]
    third = name.startswith("eagle3")
    w = Weights(seed, kind)
    h, ff, heads, kv = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], c["num_key_value_heads"]
    hd = c.get("head_dim", h // heads)
    p, wide = ("midlayer.", 2 * h) if third else ("layers.0.", h)
    w.add("fc.weight", h, 3 * c.get("target_hidden_size", h) if third else 2 * h)
    for part, n in (("q", heads * hd), ("k", kv * hd), ("v", kv * hd)):
        w.add(p + f"self_attn.{part}_proj.weight", n, wide)
        if not third:
            w.add(p + f"self_attn.{part}_proj.bias", n)
    w.add(p + "self_attn.o_proj.weight", h, heads * hd)
    w.add(p + "mlp.gate_proj.weight", ff, h)
    w.add(p + "mlp.up_proj.weight", ff, h)
    w.add(p + "mlp.down_proj.weight", h, ff)
    w.norm(p + "post_attention_layernorm.weight", h)
    if third:
        w.norm(p + "hidden_norm.weight", h)
        w.norm(p + "input_layernorm.weight", h)
        w.norm("norm.weight", h)
        w.add("lm_head.weight", c["draft_vocab_size"], h)
    else:
        w.add("fc.bias", h)
    if "target_hidden_size" in c:
        w.add("embed_tokens.weight", V, h, scale=1.0)
    if third and c["draft_vocab_size"] < V:
        ids = [i * V // DRAFTED for i in range(DRAFTED)]
        w.raw["d2t"] = ((DRAFTED,), "I64", struct.pack(f"<{DRAFTED}q", *(t - i for i, t in enumerate(ids))))
        w.raw["t2d"] = ((V,), "BOOL", bytes(i in ids for i in range(V)))
        w.values["d2t"] = [t - i for i, t in enumerate(ids)]
    write(path, c, w.raw)
    if third:
        write_gguf(path + ".gguf", kind, c, {n.removeprefix(p): v for n, v in w.values.items()})
    return {n.removeprefix(p): v for n, v in w.values.items()}


GGUF = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "input_layernorm": "blk.0.attn_norm", "hidden_norm": "blk.0.attn_norm_2",
        "self_attn.q_proj": "blk.0.attn_q", "self_attn.k_proj": "blk.0.attn_k", "self_attn.v_proj": "blk.0.attn_v", "self_attn.o_proj": "blk.0.attn_output",
        "post_attention_layernorm": "blk.0.ffn_norm", "mlp.gate_proj": "blk.0.ffn_gate", "mlp.up_proj": "blk.0.ffn_up", "mlp.down_proj": "blk.0.ffn_down"}


def write_gguf(path, kind, c, weights):
    """As llama.cpp's converter: rotary pairs side by side, d2t with the target's ids, and inputs of layers by number."""
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    layers = [i + 1 for i in c["eagle_config"]["eagle_aux_hidden_state_layer_ids"]] if "eagle_config" in c else [2, 4, 5]
    hd = c.get("head_dim", c["hidden_size"] // heads)
    meta = {"block_count": 1, "embedding_length": c["hidden_size"], "feed_forward_length": c["intermediate_size"], "attention.head_count": heads,
            "attention.head_count_kv": kv, "context_length": c["max_position_embeddings"], "attention.layer_norm_rms_epsilon": c["rms_norm_eps"],
            "rope.freq_base": c.get("rope_theta", 10000.0), "rope.dimension_count": hd, "attention.key_length": hd, "attention.value_length": hd,
            "vocab_size": c["vocab_size"], "extract_layers": layers, "target_hidden_size": c.get("target_hidden_size", c["hidden_size"])}
    out = []
    for name, rows in weights.items():
        matrix = isinstance(rows[0], list)
        shape, values = ((len(rows), len(rows[0])), [v for row in rows for v in row]) if matrix else ((len(rows),), rows)
        if name == "d2t":
            out.append((name, shape, [i + v for i, v in enumerate(values)], tiny.I64))
            continue
        if ".q_proj" in name or ".k_proj" in name:
            values = tiny.paired(values, shape, heads if ".q_proj" in name else kv)
        part = name.removesuffix(".weight")
        out.append((GGUF.get(part, part) + ".weight", shape, values, kind if matrix else tiny.F32))
    tiny.write_gguf_file(path, {"general.architecture": "eagle3"} | {"eagle3." + k: v for k, v in meta.items()}, out)


def medusa(path, name, seed):
    kind, c = HEADS[name]
    w = Weights(seed, kind)
    heads, blocks = MEDUSA[name]
    for i in range(heads):
        for b in range(blocks):
            w.add(f"{i}.{b}.linear.weight", D, D)
            w.add(f"{i}.{b}.linear.bias", D)
        w.add(f"{i}.{blocks}.weight", V, D)
    write(path, c, w.raw)
    return w.values


# ---- the published forwards

def matvec(w, x, bias=None):
    out = [sum(map(mul, row, x)) for row in w]
    return [a + b for a, b in zip(out, bias)] if bias else out


def rms_norm(x, weight, eps):
    scale = 1 / math.sqrt(sum(map(mul, x, x)) / len(x) + eps)
    return [a * scale * b for a, b in zip(x, weight)]


def silu(x):
    return x / (1 + math.exp(-x))


def softmax(x):
    top = max(x)
    e = [math.exp(v - top) for v in x]
    total = sum(e)
    return [v / total for v in e]


def added(a, b):
    return [x + y for x, y in zip(a, b)]


class Eagle:
    """Rows go in one by one: a token, the feature before it, its position, and the columns of the cache that it sees."""

    def __init__(self, name, weights, base):
        self.c, self.w, self.third = HEADS[name][1], weights, name.startswith("eagle3")
        self.embedding = weights.get("embed_tokens.weight") or base["model.embed_tokens.weight"]
        self.head = weights.get("lm_head.weight") or base["lm_head.weight"]
        self.heads, self.kv = self.c["num_attention_heads"], self.c["num_key_value_heads"]
        self.hd = self.c.get("head_dim", self.c["hidden_size"] // self.heads)
        self.k, self.v = [], []

    def rotated(self, x, position):
        half, out = self.hd // 2, []
        for at in range(0, len(x), self.hd):
            a, b = x[at:at + half], x[at + half:at + self.hd]
            angles = [position * self.c.get("rope_theta", 10000.0) ** (-2 * i / self.hd) for i in range(half)]
            out += [p * math.cos(t) - q * math.sin(t) for p, q, t in zip(a, b, angles)]
            out += [q * math.cos(t) + p * math.sin(t) for p, q, t in zip(a, b, angles)]
        return out

    def row(self, token, feature, position, sees):
        """feature: the target's values, or this head's own output. Returns the output; its key and value are the last column."""
        w, eps, emb = self.w, self.c["rms_norm_eps"], self.embedding[token]
        if self.third:
            if len(feature) != len(emb):
                feature = matvec(w["fc.weight"], feature)
            x = rms_norm(emb, w["input_layernorm.weight"], eps) + rms_norm(feature, w["hidden_norm.weight"], eps)
        else:
            x = feature = matvec(w["fc.weight"], emb + feature, w["fc.bias"])
        q, k, v = (matvec(w[f"self_attn.{p}_proj.weight"], x, w.get(f"self_attn.{p}_proj.bias")) for p in "qkv")
        self.k.append(self.rotated(k, position))
        self.v.append(v)
        q, out = self.rotated(q, position), []
        sees = [*sees, len(self.k) - 1]
        for h in range(self.heads):
            at = h * self.kv // self.heads * self.hd
            scores = [sum(map(mul, q[h * self.hd:(h + 1) * self.hd], self.k[c][at:at + self.hd])) / math.sqrt(self.hd)
                      for c in sees]
            p = softmax(scores)
            out += [sum(p[i] * self.v[c][at + j] for i, c in enumerate(sees)) for j in range(self.hd)]
        x = added(feature, matvec(w["self_attn.o_proj.weight"], out))
        y = rms_norm(x, w["post_attention_layernorm.weight"], eps)
        act = [silu(a) * b for a, b in zip(matvec(w["mlp.gate_proj.weight"], y), matvec(w["mlp.up_proj.weight"], y))]
        return added(x, matvec(w["mlp.down_proj.weight"], act))

    def probabilities(self, out):
        """Of the target's ids, best first: [(id, p)]."""
        if self.third:
            out = rms_norm(out, self.w["norm.weight"], self.c["rms_norm_eps"])
        p = softmax(matvec(self.head, out))
        add = self.w.get("d2t")
        return sorted(((i + add[i] if add else i, v) for i, v in enumerate(p)), key=lambda t: (-t[1], t[0]))

    def read(self, tokens, values, position):
        """Pairs of the committed text; returns the last one's output."""
        for i, (token, value) in enumerate(zip(tokens, values)):
            out = self.row(token, value, position + i, range(len(self.k)))
        return out

    def draft(self, out, position):
        """topK_genrate's levels: the best TOP_K children of the root, then the best TOP_K of all children of the last level."""
        kept, levels = len(self.k), []
        best = self.probabilities(out)[:TOP_K]
        rows = [(token, 0, math.log(p), out, ()) for token, p in best]
        first = 1
        for depth in range(DEPTH):
            outs, children = [], []
            for i, (token, parent, score, feature, above) in enumerate(rows):
                column = len(self.k)
                o = self.row(token, feature, position + depth, [*range(kept), *above])
                ranked = self.probabilities(o)
                outs.append(said(ranked))
                children += [(t, first + i, score + math.log(p), o, (*above, column)) for t, p in ranked[:TOP_K]]
            levels.append({"tokens": [r[0] for r in rows], "parents": [r[1] for r in rows], "said": outs})
            first += len(rows)
            rows = sorted(children, key=lambda c: -c[2])[:TOP_K]
        del self.k[kept:], self.v[kept:]
        return levels


def said(ranked):
    return {"id": [i for i, _ in ranked[:TOP]], "p": [p for _, p in ranked[:TOP]],
            "entropy": -sum(p * math.log(p) for _, p in ranked if p > 0)}


def eagle_vectors(name, weights, base):
    model, random = Eagle(name, weights, base), tiny.Random(900 + len(name))
    width = 3 * D if model.third else D
    rounds, position = [], 0
    # reads a prompt, then what was accepted, then another text after its first ten pairs
    for keep, count in ((0, 20), (20, 3), (10, 5)):
        del model.k[keep:], model.v[keep:]
        tokens = [min(int((v + 1) / 2 * V), V - 1) for v in random.values(count, 1.0)]
        values = [random.values(width, 1.0) for _ in range(count)]
        out = model.read(tokens, values, keep)
        position = keep + count
        rounds.append({"keep": keep, "tokens": tokens, "values": values, "said": said(model.probabilities(out)),
                       "levels": model.draft(out, position)})
    return {"width": width, "rounds": rounds}


def medusa_vectors(name, weights):
    heads, blocks = MEDUSA[name]
    value, out = tiny.Random(77).values(D, 1.0), []
    for i in range(heads):
        x = value
        for b in range(blocks):
            x = added(x, map(silu, matvec(weights[f"{i}.{b}.linear.weight"], x, weights[f"{i}.{b}.linear.bias"])))
        p = softmax(matvec(weights[f"{i}.{blocks}.weight"], x))
        best = sorted(range(V), key=lambda t: (-p[t], t))[:10]
        out.append({"id": best, "p": [p[t] for t in best]})
    return {"value": value, "heads": out}


def main():
    where, vectors = sys.argv[1], {}
    base = target(os.path.join(where, "target"))
    for i, name in enumerate(HEADS):
        path = os.path.join(where, name)
        if name in MEDUSA:
            vectors[name] = medusa_vectors(name, medusa(path, name, 60 + i))
        else:
            vectors[name] = eagle_vectors(name, eagle(path, name, 60 + i), base)
            if name.startswith("eagle3"):
                vectors[name + ".gguf"] = vectors[name]
    with open(os.path.join(where, "heads.json"), "w", encoding="utf-8") as f:
        json.dump(vectors, f)


if __name__ == "__main__":
    main()
