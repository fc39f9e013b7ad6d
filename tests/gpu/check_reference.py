#!/usr/bin/env python3
"""Hugging Face transformers beside the check on a GPU, in a process of its own that check_steps.py starts.

Usage: tests/gpu/check_reference.py JSON, with {"shape": NAME} for plain decoding of random weights, or {"gguf": FILE,
"prompts": FILE} for plain decoding and prompt lookup of a real model; "tiny": few tokens, on the CPU too. Prints a JSON line.
"""
import importlib.util
import json
import math
import os
import statistics
import struct
import sys
import time

LOOKUP_TOKENS = 10  # prompt_lookup_num_tokens
SHAPES = {  # as in bench.c: layers, embd, ff, heads, kv_heads, head_dim, vocab, tied, theta
    "llama-3.1-8b": (32, 4096, 14336, 32, 8, 128, 128256, False, 500000.0),
    "vicuna-7b": (32, 4096, 11008, 32, 32, 128, 32000, False, 10000.0),
    "smollm2-135m": (30, 576, 1536, 9, 3, 64, 49152, True, 100000.0),
    "tiny-tied": (2, 96, 128, 3, 1, 32, 304, True, 10000.0)}


def timed_generate(torch, model, ids, tokens, **more):
    """Seconds, and the new tokens."""
    if ids.is_cuda:
        torch.cuda.synchronize()
    begin = time.monotonic()
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, **more)
    if ids.is_cuda:
        torch.cuda.synchronize()
    return time.monotonic() - begin, got[0, ids.shape[1]:].tolist()


def time_shape(torch, transformers, work, device):
    layers, embd, ff, heads, kv, head_dim, vocab, tied, theta = SHAPES[work["shape"]]
    config = transformers.LlamaConfig(
        hidden_size=embd, intermediate_size=ff, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv,
        head_dim=head_dim, vocab_size=vocab, tie_word_embeddings=tied, rope_theta=theta, max_position_embeddings=8192,
        bos_token_id=None, eos_token_id=None, pad_token_id=0)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    torch.set_default_dtype(torch.float32)
    model.generation_config.eos_token_id = None
    ids = torch.randint(0, vocab, (1, 640), device=device)
    timed_generate(torch, model, ids, 8)
    times = []
    for _ in range(3):
        first, _ = timed_generate(torch, model, ids, 1)
        whole, got = timed_generate(torch, model, ids, 65)
        assert len(got) == 65, len(got)
        times.append((whole - first) * 1e3 / 64)
    return {"shape": work["shape"], "ms_a_token": statistics.median(times), "runs": len(times),
            "parameters": model.num_parameters(), "dtype": str(model.dtype)}


class Gguf:
    """A file of the Llama family, for machines without the gguf package: F32, F16, BF16, Q8_0, Q4_0, Q4_1."""
    KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 8: (32, 34), 2: (32, 18), 3: (32, 20)}  # type: values, bytes

    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.at, self.keys, self.tensors = 8, {}, {}
        n_tensors, n_keys = self.take("QQ")
        for _ in range(n_keys):
            name = self.text()
            self.keys[name] = self.value(self.take("I")[0])
        for _ in range(n_tensors):
            name = self.text()
            dims = self.take("Q" * self.take("I")[0])
            self.tensors[name] = (dims, *self.take("IQ"))
        align = self.keys.get("general.alignment", 32)
        self.data = (self.at + align - 1) // align * align

    def take(self, form):
        out = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return out

    def text(self):
        n, = self.take("Q")
        self.at += n
        return self.bytes[self.at - n:self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            of, n = self.take("IQ")
            return [self.value(of) for _ in range(n)]
        return self.take(self.KINDS[kind])[0]

    def tensor(self, torch, name):
        dims, kind, offset = self.tensors[name]
        size, width = self.BLOCKS[kind]
        begin, count = self.data + offset, math.prod(dims)
        raw = torch.frombuffer(bytearray(self.bytes[begin:begin + count // size * width]), dtype=torch.uint8)
        shape = tuple(reversed(dims))
        if size == 1:
            return raw.view({0: torch.float32, 1: torch.float16, 30: torch.bfloat16}[kind]).float().reshape(shape)
        raw = raw.reshape(-1, width)

        def half(at):
            return raw[:, at:at + 2].contiguous().view(torch.float16).float()
        if kind == 8:
            return (raw[:, 2:].contiguous().view(torch.int8).float() * half(0)).reshape(shape)
        q = raw[:, width - 16:]
        q = torch.cat([q & 15, q >> 4], 1).float()
        return (q * half(0) + half(2) if kind == 3 else (q - 8) * half(0)).reshape(shape)


def read_gguf(torch, transformers, g):
    """A Llama from a GGUF file, without the gguf package."""
    k = {name.split(".", 1)[1]: v for name, v in g.keys.items() if name.startswith("llama.")}
    if g.keys.get("general.architecture") != "llama" or "rope_freqs.weight" in g.tensors:
        raise ValueError("only plain Llama files are read without the gguf package")
    heads, embd = k["attention.head_count"], k["embedding_length"]
    kv, head_dim = k.get("attention.head_count_kv", heads), k.get("attention.key_length", embd // heads)
    config = transformers.LlamaConfig(
        hidden_size=embd, intermediate_size=k["feed_forward_length"], num_hidden_layers=k["block_count"],
        num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim,
        vocab_size=g.tensors["token_embd.weight"][0][1], tie_word_embeddings="output.weight" not in g.tensors,
        rope_theta=k.get("rope.freq_base", 1e4), rms_norm_eps=k["attention.layer_norm_rms_epsilon"],
        max_position_embeddings=k["context_length"])
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")

    def turned(w, n):  # GGUF has the rotary pairs side by side
        return w.reshape(n, head_dim // 2, 2, embd).transpose(1, 2).reshape(n * head_dim, embd)
    head = "output.weight" if "output.weight" in g.tensors else "token_embd.weight"
    state = {"model.embed_tokens.weight": g.tensor(torch, "token_embd.weight"), "lm_head.weight": g.tensor(torch, head),
             "model.norm.weight": g.tensor(torch, "output_norm.weight")}
    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    turns = {"attn_q": heads, "attn_k": kv}
    for i in range(k["block_count"]):
        for ours, theirs in names.items():
            w = g.tensor(torch, f"blk.{i}.{ours}.weight")
            state[f"model.layers.{i}.{theirs}.weight"] = turned(w, turns[ours]) if ours in turns else w
    model.load_state_dict(state, strict=True)
    return model.to(torch.bfloat16)


def time_lookup(torch, transformers, work, device):
    path = work["gguf"]
    g = Gguf(path)
    try:
        if not importlib.util.find_spec("gguf"):
            raise ImportError("no gguf package")
        model = transformers.AutoModelForCausalLM.from_pretrained(
            os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.bfloat16, attn_implementation="sdpa")
        loaded = "read by transformers"
    except Exception as e:  # broken packages raise all kinds of things
        print(f"transformers does not read the file ({type(e).__name__}: {e}); it is read here", file=sys.stderr)
        model, loaded = read_gguf(torch, transformers, g), "the file's weights, read by this script"
    model = model.to(device).eval()
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = g.keys.get("tokenizer.ggml.eos_token_id")  # ours stops there too
    with open(work["prompts"], encoding="utf-8") as f:
        prompts = json.load(f)
    speed, agree, new = {}, [], 16 if work["tiny"] else 128
    warm = torch.tensor([prompts[0]["prompt"]], device=device)
    for how, more in (("plain", {}), ("lookup", {"prompt_lookup_num_tokens": LOOKUP_TOKENS})):
        timed_generate(torch, model, warm, 16, **more)
        seconds = tokens = 0
        for p in prompts:
            if how == "plain" and not p["output"]:  # a part is enough to see that the text is ours
                continue
            ids = torch.tensor([p["prompt"]], device=device)
            first, _ = timed_generate(torch, model, ids, 1)
            whole, got = timed_generate(torch, model, ids, new, **more)
            seconds += whole - first
            tokens += len(got) - 1
            if how == "plain":
                n = min(len(got), len(p["output"]))
                agree.append(next((i for i in range(n) if got[i] != p["output"][i]), n))
        speed[how + "_tokens_per_s"] = tokens / seconds
    typical = statistics.median(agree) if agree else 0
    return {"loaded": loaded, "prompts": len(prompts), "tokens": new, **speed, "lookup_num_tokens": LOOKUP_TOKENS,
            "agree": typical, "valid": typical >= 4}


def answer(work):
    try:
        import torch
        import transformers
    except Exception as e:  # here too
        return {"skipped": f"{type(e).__name__}: {e}"}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not work["tiny"]:
        return {"skipped": f"torch {torch.__version__} sees no GPU"}
    transformers.utils.logging.set_verbosity_error()
    with torch.no_grad():
        found = (time_lookup if "gguf" in work else time_shape)(torch, transformers, work, device)
    return {**found, "transformers": transformers.__version__, "torch": torch.__version__}


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
