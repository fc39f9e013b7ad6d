"""Folders with a tokenizer as other people have them, in miniature: every base tokenizer of tests/vectors/tokenizers, beside
it what configurations say in all variants, singly and mixed at random. Nothing but the standard library."""
import json
import os
import random
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import tiny  # noqa: E402

VECTORS = os.path.join(ROOT, "tests", "vectors", "tokenizers")
ROWS = 1024  # of every embedding: more than any tokenizer has tokens
TEXTS = ["Hello world", " two  blanks\n\tand a tab ", "a<|im_start|>b <s> c</s>d", "x <new> y<think>z</think>  w<img>", "e\u0301l 0123 \u2581x"]
MESSAGES = [{"role": "user", "content": "Hello world"}]
NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask", "image"]
TEMPLATE = "".join(f"{{% if {n}_token is defined %}}{{{{ {n}_token }}}}{{% endif %}}" for n in NAMES) + \
    "{% if additional_special_tokens is defined %}{{ additional_special_tokens[-1] }}{% endif %}" \
    "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %} ->{% endif %}"
# base tokenizer -> the tiny model that it is put beside
JSON_BASES = {"llama2.json": "llama2", "mistral.json": "mistral", "llama3.json": "llama3", "qwen2.json": "qwen2", "gpt2.json": "olmo2",
              "gemma.json": "gemma", "t5.json": "llama2"}
MODEL_BASES = {"sp_llama.model": "llama2", "sp_gemma.model": "gemma", "sp_bpe_nfkc.model": "llama2", "sp_unigram.model": "llama2"}
MERGES_BASES = {"qwen2.merges": "qwen2", "gpt2.merges": "llama2"}  # vocab.json and merges.txt of the tokenizer.json of that name
BASES = {**JSON_BASES, **MODEL_BASES, **MERGES_BASES}
CLASSES = [None, "LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast", "GPT2Tokenizer", "Qwen2Tokenizer", "GemmaTokenizer",
           "CohereTokenizerFast", "GPTNeoXTokenizerFast", "CodeLlamaTokenizer", "BloomTokenizerFast"]


def token(text, **flags):
    return {"content": text, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True, **flags}


def added(**entries):
    def edit(f):
        known = [t["content"] for t in f.get("tokenizer", {}).get("added_tokens", [])]
        new = [t for t in entries.values() if t["content"] not in known]
        f["tokenizer_config"]["added_tokens_decoder"] = {str(f["first"] + i): t for i, t in enumerate(new)}
    return edit


def config(**keys):
    return lambda f: f["tokenizer_config"].update(keys)


def special_map(**keys):
    return lambda f: f.setdefault("special_tokens_map", {}).update(keys)


def added_json(*texts):
    def edit(f):
        known = [t["content"] for t in f.get("tokenizer", {}).get("added_tokens", [])]
        f["added_tokens"] = {t: f["first"] + i for i, t in enumerate(t for t in texts if t not in known)}
    return edit


def around(single, *names):
    """A post-processor of the tokenizer itself; names: tokens that it has."""
    def edit(f):
        tokens = {t["content"]: t["id"] for t in f["tokenizer"]["added_tokens"]}
        known = [t for t in names if t in tokens] or list(tokens)[:1]
        pieces = [{"Sequence": {"id": "A", "type_id": 0}} if p == "A" else {"SpecialToken": {"id": known[p % len(known)], "type_id": 0}} for p in single]
        f["tokenizer"]["post_processor"] = {"type": "TemplateProcessing", "single": pieces, "pair": pieces + [{"Sequence": {"id": "B", "type_id": 1}}],
                                            "special_tokens": {t: {"id": t, "ids": [tokens[t]], "tokens": [t]} for t in known}}
    return edit


def wrapped(kind):
    def edit(f):
        tokens = {t["content"]: t["id"] for t in f["tokenizer"]["added_tokens"]}
        first, last = list(tokens.items())[0], list(tokens.items())[-1]
        f["tokenizer"]["post_processor"] = {"type": kind, "sep": list(last), "cls": list(first)}
        if kind == "RobertaProcessing":
            f["tokenizer"]["post_processor"].update(trim_offsets=True, add_prefix_space=True)
    return edit


def in_sequence(f):
    inner = f["tokenizer"].get("post_processor")
    around(["A", 0], "</s>", "<|im_end|>")(f)
    outer = f["tokenizer"]["post_processor"]
    f["tokenizer"]["post_processor"] = {"type": "Sequence", "processors": [p for p in (inner, outer) if p]}


# of every base
EDITS = {
    "plain": lambda f: None,
    "no-config": lambda f: f.pop("tokenizer_config"),
    **{f"class-{c}": config(tokenizer_class=c) for c in CLASSES[1:]},
    "bos": config(bos_token="<s>"), "bos-null": config(bos_token=None), "bos-new": config(bos_token="<|begin|>"),
    "bos-object": config(bos_token={"__type": "AddedToken", **token("<s>", lstrip=True)}),
    "eos": config(eos_token="</s>"), "eos-null": config(eos_token=None), "eos-new": config(eos_token="<|im_end|>"),
    "pad-unk": config(pad_token="<pad>", unk_token="<unk>"), "sep-cls-mask": config(sep_token="<sep>", cls_token="<cls>", mask_token="<mask>"),
    "add-bos": config(add_bos_token=True, bos_token="<s>"), "no-bos": config(add_bos_token=False, bos_token="<s>"),
    "add-eos": config(add_eos_token=True, eos_token="</s>"), "add-eos-llama": config(add_eos_token=True, eos_token="</s>", tokenizer_class="LlamaTokenizer"),
    "no-bos-llama": config(add_bos_token=False, tokenizer_class="LlamaTokenizerFast"),
    "legacy-false": config(legacy=False, tokenizer_class="LlamaTokenizer"), "legacy-true": config(legacy=True, tokenizer_class="LlamaTokenizer"),
    "additional": config(additional_special_tokens=["<|im_start|>", "<new>"]), "additional-object": config(additional_special_tokens=[token("<new>", rstrip=True)]),
    "extra": config(extra_special_tokens={"image_token": "<img>"}), "image": config(image_token="<img>"),
    "image-additional": config(image_token="<img>", additional_special_tokens=["<new>"]),
    "decoder": added(a=token("<|im_start|>"), b=token("<new>")), "decoder-text": added(a=token("<new>", special=False)),
    "decoder-strips": added(a=token("<new>", lstrip=True, rstrip=True), b=token("<think>", rstrip=True)),
    "decoder-word": added(a=token("<new>", single_word=True)), "decoder-normalized": added(a=token("<new>", normalized=True, special=False)),
    "added-json": added_json("<|im_start|>", "<new>"),
    "special-map": special_map(bos_token="<s>", eos_token="<|im_end|>", pad_token="<pad>"),
    "special-map-object": special_map(bos_token=token("<s>"), additional_special_tokens=[token("<new>", rstrip=True), token("<img>")]),
    "prefix-space": config(add_prefix_space=True), "no-prefix-space": config(add_prefix_space=False),
}
# of a tokenizer.json only
JSON_EDITS = {
    "two-before": around([0, 1, "A"], "<s>", "<|im_start|>"), "one-behind": around(["A", 0], "</s>", "<|im_end|>"),
    "both": around([0, "A", 1, 1], "<s>", "</s>"), "bert": wrapped("BertProcessing"), "roberta": wrapped("RobertaProcessing"),
    "sequence": in_sequence,
}


def base_files(base):
    """The tokenizer's own files, and the first id that is free."""
    if base.endswith(".json"):
        with open(os.path.join(VECTORS, base), encoding="utf-8") as f:
            tokenizer = json.load(f)
        vocab = tokenizer["model"]["vocab"]
        ids = [t["id"] for t in tokenizer["added_tokens"]] + (list(vocab.values()) if isinstance(vocab, dict) else [len(vocab) - 1])
        stated = {"llama3.json": {"tokenizer_class": "PreTrainedTokenizerFast"}, "gemma.json": {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<unk>"}}
        return {"tokenizer": tokenizer, "tokenizer_config": stated.get(base, {}), "first": max(ids) + 1}
    if base.endswith(".merges"):
        with open(os.path.join(VECTORS, base.replace(".merges", ".json")), encoding="utf-8") as f:
            vocab = json.load(f)["model"]["vocab"]
        return {"vocab": vocab, "tokenizer_config": {"tokenizer_class": "GPT2Tokenizer" if "gpt2" in base else "Qwen2Tokenizer"}, "first": max(vocab.values()) + 1}
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<unk>"} if base == "sp_gemma.model" else {}
    return {"tokenizer_config": names, "first": SIZES[base]}


def pieces(path):
    """How many pieces a sentencepiece model has: fields 1 of its message."""
    with open(path, "rb") as f:
        data = f.read()
    at = n = 0
    while at < len(data):
        key, length, shift = data[at], 0, 0
        at += 1
        while True:
            length |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                break
        n += key == 0x0A
        at += length
    return n


SIZES = {base: pieces(os.path.join(VECTORS, base)) for base in MODEL_BASES}


def mixed(n, seed=1):
    """n cases of several edits, and of a key that is dropped, renamed or of another type."""
    rng, out = random.Random(seed), {}
    bases = list(BASES)
    while len(out) < n:
        base = rng.choice(bases)
        pool = {**EDITS, **(JSON_EDITS if base.endswith(".json") else {})}
        pool.pop("no-config")
        picked = rng.sample(sorted(pool), rng.randint(2, 4))
        out["+".join(["mixed", base, *picked])] = (base, [pool[p] for p in picked])
    return out


def cases(n_mixed=120, seed=1):
    """name -> (base, edits)"""
    out = {}
    for base in BASES:
        for name, edit in {**EDITS, **(JSON_EDITS if base.endswith(".json") else {})}.items():
            out[f"{base}+{name}"] = (base, [edit])
    return out | mixed(n_mixed, seed)


class Builder:
    """Writes folders of cases; the tiny models are made once."""

    def __init__(self, folder):
        self.folder, self.models = folder, {}

    def model(self, name):
        if name not in self.models:
            path = self.models[name] = os.path.join(self.folder, "models", name)
            had, tiny.BASE["vocab_size"] = tiny.BASE["vocab_size"], ROWS
            tiny.MODELS[name]["num_hidden_layers"], layers = 1, tiny.MODELS[name].get("num_hidden_layers")
            tiny.write_folder(path, name, tiny.tensors_of(name))
            tiny.BASE["vocab_size"] = had
            del tiny.MODELS[name]["num_hidden_layers"]
            if layers:
                tiny.MODELS[name]["num_hidden_layers"] = layers
        return self.models[name]

    def build(self, name, case):
        base, edits = case
        path = os.path.join(self.folder, name)
        model = self.model(BASES[base])
        os.makedirs(path)
        for file in ("config.json", "model.safetensors"):
            os.symlink(os.path.join(model, file), os.path.join(path, file))
        files = base_files(base)
        for edit in edits:
            edit(files)
        files.pop("first")
        if base.endswith(".model"):
            shutil.copy(os.path.join(VECTORS, base), os.path.join(path, "tokenizer.model"))
        if base.endswith(".merges"):
            with open(os.path.join(VECTORS, base.replace(".merges", ".json")), encoding="utf-8") as f:
                merges = json.load(f)["model"]["merges"]
            with open(os.path.join(path, "merges.txt"), "w", encoding="utf-8") as f:
                f.write("#version: 0.2\n" + "".join((m if isinstance(m, str) else " ".join(m)) + "\n" for m in merges))
        for file, value in files.items():
            with open(os.path.join(path, file + ".json"), "w", encoding="utf-8") as f:
                json.dump(value, f)
        with open(os.path.join(path, "chat_template.jinja"), "w", encoding="utf-8") as f:
            f.write(TEMPLATE)
        return path
