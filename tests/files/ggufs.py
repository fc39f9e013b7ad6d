"""GGUF files as other people have them, in miniature: the vocabularies of tests/vectors/tokenizers and the tiny models of every
architecture, with keys dropped, added, of another type, and per layer. Nothing but the standard library."""
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import tiny  # noqa: E402

VECTORS = os.path.join(ROOT, "tests", "vectors", "tokenizers")
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FORMS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        v = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return v[0]

    def string(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == STR:
            return self.string()
        if kind == ARR:
            elem, n = self.take("I"), self.take("Q")
            return elem, [self.value(elem) for _ in range(n)]
        return self.take(FORMS[kind])


def read(path):
    """key -> (type, value); an array's value is (type of its elements, list)."""
    with open(path, "rb") as f:
        r = Reader(f.read())
    r.at = 8
    _, n = r.take("Q"), r.take("Q")
    out = {}
    for _ in range(n):
        key = r.string().decode()
        kind = r.take("I")
        out[key] = (kind, r.value(kind))
    return out


def raw(kind, v):
    if kind == STR:
        v = v if isinstance(v, bytes) else v.encode()
        return struct.pack("<Q", len(v)) + v
    if kind == ARR:
        elem, items = v
        return struct.pack("<IQ", elem, len(items)) + b"".join(raw(elem, x) for x in items)
    return struct.pack("<" + FORMS[kind], v)


def write(path, meta, tensors=()):
    """tensors: (name, shape, values or their bytes, form of tiny.py or another type)"""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    head += b"".join(raw(STR, k) + struct.pack("<I", kind) + raw(kind, v) for k, (kind, v) in meta.items())
    data = b""
    for key, shape, values, form in tensors:
        body = values if isinstance(values, bytes) else tiny.to_type(values, form)[0]
        head += raw(STR, key) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), form, len(data))
        data += body + b"\0" * (-len(body) % 32)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


# ---- vocabularies

def put(key, kind, value):
    return lambda m: m.update({key: (kind, value)})


def drop(*keys):
    return lambda m: [m.pop(k, None) for k in keys]


def arrays(key, elem, each=lambda x: x, more=()):
    """The same array with other elements."""
    def edit(m):
        if key in m:
            m[key] = (ARR, (elem, [each(x) for x in m[key][1][1]] + list(more)))
    return edit


T = "tokenizer.ggml."
TOKENS = T + "tokens"


def types(wanted):
    """Other types for tokens by their text."""
    def edit(m):
        texts, kinds = m[TOKENS][1][1], m[T + "token_type"][1][1]
        m[T + "token_type"] = (ARR, (I32, [wanted.get(t.decode("utf-8", "replace"), k) for t, k in zip(texts, kinds)]))
    return edit


def more_tokens(*texts, kind=CONTROL):
    def edit(m):
        new = [t for t in texts if t.encode() not in m[TOKENS][1][1]]
        n = len(new)
        m[TOKENS] = (ARR, (STR, m[TOKENS][1][1] + [t.encode() for t in new]))
        m[T + "token_type"] = (ARR, (I32, m[T + "token_type"][1][1] + [kind] * n))
        if T + "scores" in m:
            m[T + "scores"] = (ARR, (F32, m[T + "scores"][1][1] + [0.0] * n))
    return edit


def named(name, *edits):
    def edit(m):
        put("general.name", STR, name)(m)
        for e in edits:
            e(m)
    return edit


PHI = more_tokens("<|end|>", "<|user|>", "<|assistant|>", "<|endoftext|>")
VOCABULARIES = ["sp_llama.gguf", "sp_gemma.gguf", "qwen2.gguf", "gemma.gguf", "falcon.gguf"]
VOCABULARY_EDITS = {
    "plain": lambda m: None,
    "scores-i32": arrays(T + "scores", I32, int), "no-scores": drop(T + "scores"), "more-scores": arrays(T + "scores", F32, more=[-1.0]),
    "no-types": drop(T + "token_type"), "more-types": arrays(T + "token_type", I32, more=[1, 1]),
    "odd-types": types({"the": 0, "a": 9}), "unused": types({"the": UNUSED, "\u2581the": UNUSED, "\u0120the": UNUSED}),
    "user": types({"the": USER, "ing": USER, "\u2581a": USER, "on": USER}), "control": types({"the": CONTROL, "on": CONTROL}),
    "no-ids": drop(*(T + k + "_token_id" for k in ("bos", "eos", "unknown", "padding"))),
    "bos-far": put(T + "bos_token_id", U32, 99999), "bos-none": put(T + "bos_token_id", U32, 0xFFFFFFFF), "bos-2": put(T + "bos_token_id", U32, 2),
    "eos-far": put(T + "eos_token_id", U32, 99999), "bos-i32": put(T + "bos_token_id", I32, 3),
    "add-bos": put(T + "add_bos_token", BOOL, True), "no-bos": put(T + "add_bos_token", BOOL, False), "add-eos": put(T + "add_eos_token", BOOL, True),
    "no-eos": put(T + "add_eos_token", BOOL, False),
    "space": put(T + "add_space_prefix", BOOL, True), "no-space": put(T + "add_space_prefix", BOOL, False),
    "chatml-control": more_tokens("<|im_start|>", "<|im_end|>", "<new>"), "chatml-user": more_tokens("<|im_start|>", "<|im_end|>", "<new>", kind=USER),
    "chatml-normal": more_tokens("<|im_start|>", "<|im_end|>", "<new>", kind=NORMAL),
    "phi": PHI, "phi-3": named("Phi-3-mini", PHI, types({"</s>": USER})), "phi3": named("my phi3 tune", more_tokens("<|endoftext|>", "<new>", kind=USER)),
    "phi-4": named("Phi-4", PHI),
}
TEXTS = ["Hello world", " two  blanks\n\tand a tab ", "a<|im_start|>b <s> c</s> d <|end|> e<|user|>\nf", "x <new>  y  w the thing on a day", "l\u00e9 0123 \u4e16x"]


# ---- models

def simple_vocabulary(n):
    """Every byte, and tokens without a text of their own up to n."""
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    spelled = {b: chr(b) for b in printable}
    for i, b in enumerate(b for b in range(256) if b not in spelled):
        spelled[b] = chr(256 + i)
    texts = [spelled[b] for b in range(256)] + ["he"] + [f"<{i}>" for i in range(257, n)]
    return {T + "model": (STR, "gpt2"), T + "pre": (STR, "gpt-2"), TOKENS: (ARR, (STR, texts)), T + "merges": (ARR, (STR, ["h e"])),
            T + "token_type": (ARR, (I32, [NORMAL] * 257 + [CONTROL] * (n - 257))), T + "bos_token_id": (U32, n - 2), T + "eos_token_id": (U32, END),
            T + "add_bos_token": (BOOL, False)}


ROWS = 288
GREEDY = 12
END = ROWS - 1  # the token that ends an answer
ARCHS = {"llama2": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3", "phi3": "phi3",
         "granite": "granite", "olmo2": "olmo2"}


def typed(meta):
    return {k: (ARR, (I32, v)) if isinstance(v, list) else (STR, v) if isinstance(v, str) else (U32, v) if isinstance(v, int) else (F32, v) for k, v in meta.items()}


def key(arch, name, kind, value):
    return put(f"{arch}.{name}", kind, value)


def no_key(arch, *names):
    return drop(*(f"{arch}.{n}" for n in names))


def per_layer(arch, name, kind=U32, change=None):
    def edit(m):
        full = f"{arch}.{name}"
        n = m[f"{arch}.block_count"][1]
        values = [m[full][1]] * n
        if change:
            values[-1] = change
        m[full] = (ARR, (kind, values))
    return edit


def model_edits(arch):
    out = {
        "plain": lambda m: None,
        "heads-array": per_layer(arch, "attention.head_count"), "kv-array": per_layer(arch, "attention.head_count_kv"),
        "ff-array": per_layer(arch, "feed_forward_length"), "arrays-i32": lambda m: [per_layer(arch, n, I32)(m) for n in ("attention.head_count", "attention.head_count_kv")],
        "ff-array-differs": per_layer(arch, "feed_forward_length", U32, 64),
        "scale-linear": key(arch, "rope.scale_linear", F32, 4.0), "factor": key(arch, "rope.scaling.factor", F32, 4.0),
        "factor-0": key(arch, "rope.scaling.factor", F32, 0.0), "factor-f64": key(arch, "rope.scaling.factor", F64, 2.0),
        "both-factors": lambda m: [key(arch, "rope.scale_linear", F32, 8.0)(m), key(arch, "rope.scaling.factor", F32, 2.0)(m)],
        "type-none": lambda m: [key(arch, "rope.scaling.type", STR, "none")(m), key(arch, "rope.scaling.factor", F32, 4.0)(m)],
        "type-linear": lambda m: [key(arch, "rope.scaling.type", STR, "linear")(m), key(arch, "rope.scaling.factor", F32, 4.0)(m)],
        "type-yarn": lambda m: [key(arch, "rope.scaling.type", STR, "yarn")(m), key(arch, "rope.scaling.factor", F32, 4.0)(m)],
        "base": key(arch, "rope.freq_base", F32, 777.0), "no-base": no_key(arch, "rope.freq_base"),
        "base-swa": key(arch, "rope.freq_base_swa", F32, 555.0), "no-dims": no_key(arch, "rope.dimension_count"),
        "no-kv": no_key(arch, "attention.head_count_kv"), "no-eps": no_key(arch, "attention.layer_norm_rms_epsilon"),
        "not-causal": key(arch, "attention.causal", BOOL, False), "causal": key(arch, "attention.causal", BOOL, True),
        "window": key(arch, "attention.sliding_window", U32, 4), "no-window": no_key(arch, "attention.sliding_window"),
        "window-0": key(arch, "attention.sliding_window", U32, 0),
        "window-pattern": lambda m: [key(arch, "attention.sliding_window", U32, 4)(m), key(arch, "attention.sliding_window_pattern", U32, 3)(m)],
        "window-list": lambda m: [key(arch, "attention.sliding_window", U32, 4)(m),
                                  key(arch, "attention.sliding_window_pattern", ARR, (BOOL, [i % 3 == 1 for i in range(m[f"{arch}.block_count"][1])]))(m)],
        "attention-scale": key(arch, "attention.scale", F32, 0.5), "logit-scale": key(arch, "logit_scale", F32, 0.5),
        "residual-scale": key(arch, "residual_scale", F32, 0.5), "embedding-scale": key(arch, "embedding_scale", F32, 2.0),
        "attention-cap": key(arch, "attn_logit_softcapping", F32, 2.0), "logit-cap": key(arch, "final_logit_softcapping", F32, 3.0),
        "no-caps": no_key(arch, "attn_logit_softcapping", "final_logit_softcapping"),
        "experts": key(arch, "expert_count", U32, 0), "finetuned": key(arch, "rope.scaling.finetuned", BOOL, False),
        "value-length": key(arch, "attention.value_length", U32, 8), "key-swa": key(arch, "attention.key_length_swa", U32, 8),
        "dims-swa": key(arch, "rope.dimension_count_swa", U32, 8), "context-u64": lambda m: m.update({f"{arch}.context_length": (U64, 512)}),
        "alibi": key(arch, "attention.max_alibi_bias", F32, 8.0), "clamp": key(arch, "attention.clamp_kqv", F32, 1.0),
        "attn-factor": key(arch, "rope.scaling.attn_factor", F32, 1.5), "sections": key(arch, "rope.dimension_sections", ARR, (I32, [4, 4, 4, 0])),
    }
    return out


def cases(n_mixed=40, seed=1):
    """name -> (kind, base, edits)"""
    out = {f"{v}+{name}": ("vocabulary", v, [edit]) for v in VOCABULARIES for name, edit in VOCABULARY_EDITS.items()}
    for model, arch in ARCHS.items():
        out |= {f"{model}+{name}": ("model", model, [edit]) for name, edit in model_edits(arch).items()}
    rng = random.Random(seed)
    made = 0
    while made < n_mixed:
        model = rng.choice(sorted(ARCHS))
        pool = model_edits(ARCHS[model])
        picked = rng.sample(sorted(pool), 2)
        name = "+".join(["mixed", model, *picked])
        made += name not in out
        out[name] = ("model", model, [pool[p] for p in picked])
    return out


class Builder:
    def __init__(self, folder):
        self.folder, self.tensors = folder, {}
        os.makedirs(folder, exist_ok=True)

    def model(self, name):
        if name not in self.tensors:
            had, tiny.BASE["vocab_size"] = tiny.BASE["vocab_size"], ROWS
            taken, kept = [], dict(tiny.KEPT)
            tiny.KEPT.clear()  # in f32: the reference computes with rounded activations where weights are narrow
            write_file, tiny.write_gguf_file = tiny.write_gguf_file, lambda path, meta, out: taken.extend((meta, out))
            tiny.write_gguf("", name, tiny.tensors_of(name))
            tiny.write_gguf_file = write_file
            tiny.BASE["vocab_size"] = had
            tiny.KEPT.update(kept)
            if name == "phi3":  # llama.cpp reads its window and warns that it does not use it
                del taken[0]["phi3.attention.sliding_window"]
            self.tensors[name] = taken
        return self.tensors[name]

    def build(self, name, case):
        kind, base, edits = case
        path = os.path.join(self.folder, name + ".gguf")
        if kind == "vocabulary":
            meta, tensors = read(os.path.join(VECTORS, base)), ()
        else:
            plain, tensors = self.model(base)
            meta = typed(plain) | simple_vocabulary(ROWS)
        for edit in edits:
            edit(meta)
        write(path, meta, tensors)
        return path
