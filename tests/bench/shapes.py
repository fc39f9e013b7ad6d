#!/usr/bin/env python3
"""GGUF files of the shapes of published models, with random weights, to measure how a model of that size starts and decodes:
`tests/bench/shapes.py 0.2b|1b|3b|8b FILE [--format Q4_K_M|Q8_0|Q4_0|Q4_1|IQ4_NL|IQ4_XS|MXFP4|NVFP4|BF16] [--seed 1]`. The same arguments give the same bytes."""
import argparse
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import folders

# layers, width, feed-forward width, heads, key/value heads, head size, vocabulary, whether the output head is the embedding
SHAPES = {"0.2b": (30, 768, 2048, 12, 4, 64, 49152, True), "1b": (16, 2048, 8192, 32, 8, 64, 128256, True), "3b": (28, 3072, 8192, 24, 8, 128, 128256, True),
          "8b": (32, 4096, 14336, 32, 8, 128, 128256, False)}
# ggml's number, values and bytes of a block, where its f16 scales are and what they are: weights are of some 0.02
TYPES = {"F32": (0, 1, 4, ()), "BF16": (30, 1, 2, ()), "Q4_0": (2, 32, 18, ((0, 0.004),)), "Q4_1": (3, 32, 20, ((0, 0.004), (2, -0.03))),
         "Q8_0": (8, 32, 34, ((0, 0.0003),)), "Q4_K": (12, 256, 144, ((0, 1e-4), (2, 7.5e-4))), "Q6_K": (14, 256, 210, ((208, 1.5e-5),)),
         "IQ4_NL": (20, 32, 18, ((0, 0.0003),)), "IQ4_XS": (23, 256, 136, ((0, 1e-5),)), "MXFP4": (39, 32, 17, ()), "NVFP4": (40, 64, 36, ())}  # MXFP4, NVFP4: below
ALIGNMENT, STRETCH = 32, 8 << 20  # random bytes are written again after about that many: they are enough for every cache


def types_of(form, layer, layers):
    """The types of attn_v and ffn_down, and of all others, as llama.cpp's quantize chooses them."""
    if form != "Q4_K_M":
        return form, form
    eighth = layers // 8
    more = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    return ("Q6_K" if more else "Q4_K"), "Q4_K"


def tensors(shape, form):
    """(name, shape with the fastest dimension first, type), in the order of the file."""
    layers, d, ff, heads, kv, hd, vocab, tied = SHAPES[shape]
    head = "Q6_K" if form == "Q4_K_M" else form
    yield "token_embd.weight", (d, vocab), head if tied else types_of(form, 0, 1)[1]
    for i in range(layers):
        large, usual = types_of(form, i, layers)
        for name, size, kind in (("attn_norm", (d,), "F32"), ("attn_q", (d, heads * hd), usual), ("attn_k", (d, kv * hd), usual),
                                 ("attn_v", (d, kv * hd), large), ("attn_output", (heads * hd, d), usual), ("ffn_norm", (d,), "F32"),
                                 ("ffn_gate", (d, ff), usual), ("ffn_up", (d, ff), usual), ("ffn_down", (ff, d), large)):
            yield f"blk.{i}.{name}.weight", size, kind
    yield "output_norm.weight", (d,), "F32"
    if not tied:
        yield "output.weight", (d, vocab), head


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(v):
    if isinstance(v, str):
        return struct.pack("<I", 8) + string(v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    kind, items = v
    pack = string if kind == 8 else lambda x: struct.pack("<i", x)
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(map(pack, items))


def metadata(shape):
    layers, d, ff, heads, kv, hd, vocab, _ = SHAPES[shape]
    letters = [folders.letter(b) for b in range(256)]
    tokens = letters + ["th"] + [f"x{i}" for i in range(257, vocab - 2)] + ["<s>", "</s>"]
    return {"general.architecture": "llama", "general.name": f"random-{shape}", "llama.block_count": layers, "llama.context_length": 8192,
            "llama.embedding_length": d, "llama.feed_forward_length": ff, "llama.attention.head_count": heads,
            "llama.attention.head_count_kv": kv, "llama.attention.key_length": hd, "llama.attention.value_length": hd,
            "llama.rope.dimension_count": hd, "llama.rope.freq_base": 500000.0, "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.vocab_size": vocab, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.tokens": (8, tokens),
            "tokenizer.ggml.token_type": (5, [1] * (vocab - 2) + [3, 3]), "tokenizer.ggml.merges": (8, ["t h"]),
            "tokenizer.ggml.bos_token_id": vocab - 2, "tokenizer.ggml.eos_token_id": vocab - 1}


def stretch(kind, rng):
    """Blocks of a type."""
    _, values, size, scales = TYPES[kind]
    if kind == "F32":
        return struct.pack("<f", 1) * (STRETCH // 4)  # norms
    n = STRETCH // size
    raw = bytearray(rng.randbytes(n * size))
    if kind == "BF16":
        raw[1::2] = bytes(raw[1::2]).translate(folders.SIGNS)
    if kind == "MXFP4":
        raw[0::size] = b"\x78" * n  # 2^-8
    for at in range(4 if kind == "NVFP4" else 0):
        raw[at::size] = b"\x04" * n  # 2^-7
    for at, scale in scales:
        half = struct.pack("<e", scale)
        raw[at::size], raw[at + 1::size] = half[:1] * n, half[1:] * n
    return bytes(raw)


def write(path, shape, form="Q4_K_M", seed=1):
    rng = random.Random(seed)
    table, at = [], 0
    for name, size, kind in tensors(shape, form):
        number, values, block, _ = TYPES[kind]
        n = size[0] * (size[1] if len(size) > 1 else 1) // values * block
        table.append((name, size, kind, number, at, n))
        at += (n + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    meta = metadata(shape)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(meta)) + b"".join(string(k) + value(v) for k, v in meta.items())
    for name, size, _, number, offset, _ in table:
        head += string(name) + struct.pack(f"<I{len(size)}QIQ", len(size), *size, number, offset)
    blocks = {}
    with open(path + ".part", "wb") as f:
        f.write(head + bytes(-len(head) % ALIGNMENT))
        for _, _, kind, _, _, n in table:
            if kind not in blocks:
                blocks[kind] = stretch(kind, rng)
            size, left = TYPES[kind][2], n
            while left:
                begin = rng.randrange(len(blocks[kind]) // size // 2) * size
                f.write(memoryview(blocks[kind])[begin:begin + left])
                left -= min(left, len(blocks[kind]) - begin)
            f.write(bytes(-n % ALIGNMENT))
    os.replace(path + ".part", path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("file")
    parser.add_argument("--format", default="Q4_K_M", choices=["Q4_K_M"] + [t for t in TYPES if t not in ("F32", "Q4_K", "Q6_K")])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    write(args.file, args.shape, args.format, args.seed)
