"""Model folders of any shape with random weights and a tokenizer of so many tokens, written in a moment."""
import json
import math
import os
import random
import struct

import tiny

SIGNS = bytes(0x3D if b & 1 else 0xBD for b in range(256))  # upper bytes of bf16: +-0.03 .. 0.125


def letter(byte):
    """GPT-2's byte alphabet."""
    def itself(b):
        return 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255
    return chr(byte) if itself(byte) else chr(256 + sum(not itself(b) for b in range(byte)))


def tokenizer(path, n):
    """Bytes (below 256 tokens: a few letters), words that no text encodes to, and last <s> and </s>."""
    letters = [letter(ord(c)) for c in "abcdefg "] if n < 258 else [letter(b) for b in range(256)]
    vocab = {t: i for i, t in enumerate(letters[:n - 2])}
    for i in range(len(vocab), n - 2):
        vocab[f"x{i}"] = i
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": n - 2, "content": "<s>", "special": True, **flags}, {"id": n - 1, "content": "</s>", "special": True, **flags}]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": level, "post_processor": None,
                   "decoder": level, "model": {"type": "BPE", "vocab": vocab, "merges": []}}, f)
    with open(os.path.join(path, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"}, f)


def write(path, seed=1, **config):
    """A one-layer Llama in bf16, apart from what config says. Seed 1 with 10 tokens says one of them for ever."""
    c = {**tiny.BASE, "model_type": "llama", "num_hidden_layers": 1, "rope_theta": 1e6, **config}
    c |= {"bos_token_id": c["vocab_size"] - 2, "eos_token_id": c["vocab_size"] - 1}
    rng = random.Random(seed)
    d, ff, heads, kv = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], c["num_key_value_heads"]
    hd = c.get("head_dim") or d // heads
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,), "lm_head.weight": (c["vocab_size"], d)}
    for i in range(c["num_hidden_layers"]):
        for part, shape in (("self_attn.q_proj", (heads * hd, d)), ("self_attn.k_proj", (kv * hd, d)),
                            ("self_attn.v_proj", (kv * hd, d)), ("self_attn.o_proj", (d, heads * hd)),
                            ("mlp.gate_proj", (ff, d)), ("mlp.up_proj", (ff, d)), ("mlp.down_proj", (d, ff)),
                            ("input_layernorm", (d,)), ("post_attention_layernorm", (d,))):
            shapes[f"model.layers.{i}.{part}.weight"] = shape
    header, data = {}, []
    at = 0
    for name, shape in shapes.items():
        n = math.prod(shape)
        raw = bytearray(2 * n)
        if len(shape) == 1:
            raw[0::2], raw[1::2] = b"\x80" * n, b"\x3f" * n  # 1
        else:
            raw[0::2], raw[1::2] = rng.randbytes(n), rng.randbytes(n).translate(SIGNS)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * n]}
        at += 2 * n
        data.append(raw)
    os.makedirs(path, exist_ok=True)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
        json.dump(c, f)
    tokenizer(path, c["vocab_size"])
    return path
