"""Configurations as other people have them, in miniature: the tiny model of every architecture with keys of its config.json
dropped, added, renamed, and of another type. Nothing but the standard library."""
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import tiny  # noqa: E402

GREEDY = 16
TEXT = "The quick brown fox jumps over it."
PROMPT = list(TEXT.encode())  # every byte is the token of its number
ROWS = 256
MODELS = ["llama2", "llama3", "linear", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "phi4", "granite", "olmo2"]


def put(**keys):
    return lambda c: c.update(keys)


def drop(*keys):
    return lambda c: [c.pop(k, None) for k in keys]


def rename(old, new):
    def edit(c):
        if old in c:
            c[new] = c.pop(old)
    return edit


def scaling(**keys):
    return put(rope_scaling=keys)


def moved(c):
    """As transformers 5 writes it."""
    c["rope_parameters"] = {"rope_type": "default", "rope_theta": c.pop("rope_theta", 10000.0), **(c.pop("rope_scaling", None) or {})}
    if "type" in c["rope_parameters"]:
        c["rope_parameters"]["rope_type"] = c["rope_parameters"].pop("type")


EDITS = {
    "plain": lambda c: None,
    "window": put(sliding_window=4), "window-on": put(sliding_window=4, use_sliding_window=True, max_window_layers=1),
    "window-null": put(sliding_window=None), "no-window": drop("sliding_window"),
    "linear": scaling(rope_type="linear", factor=4.0), "linear-old": scaling(type="linear", factor=4.0), "dynamic": scaling(rope_type="dynamic", factor=4.0),
    "default": scaling(rope_type="default"), "yarn": scaling(rope_type="yarn", factor=4.0),
    "llama3-rope": scaling(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
    "no-scaling": drop("rope_scaling"), "scaling-null": put(rope_scaling=None), "theta": put(rope_theta=777.0), "theta-int": put(rope_theta=500),
    "no-theta": drop("rope_theta"), "rope-parameters": moved, "partial": put(partial_rotary_factor=0.5),
    "eps": put(rms_norm_eps=0.1), "no-eps": drop("rms_norm_eps"), "eps-old": rename("rms_norm_eps", "layer_norm_eps"),
    "no-kv": drop("num_key_value_heads"), "no-head-dim": drop("head_dim"), "head-dim-null": put(head_dim=None),
    "tied-dropped": drop("tie_word_embeddings"), "scale": put(embedding_multiplier=2.0), "attention-scale": put(attention_multiplier=0.5),
    "residual-scale": put(residual_multiplier=0.5), "logit-scale": put(logits_scaling=2.0), "query-scalar": put(query_pre_attn_scalar=8),
    "attention-cap": put(attn_logit_softcapping=2.0), "logit-cap": put(final_logit_softcapping=2.0),
    "caps-null": put(attn_logit_softcapping=None, final_logit_softcapping=None), "no-caps": drop("attn_logit_softcapping", "final_logit_softcapping"),
    "act-gelu": put(hidden_act="gelu"), "act-dropped": drop("hidden_act", "hidden_activation"), "act-relu": put(hidden_act="relu", hidden_activation="relu"),
    "context": put(max_position_embeddings=2048), "no-context": drop("max_position_embeddings"), "two-ways": put(use_bidirectional_attention=True),
    "pattern": put(sliding_window_pattern=2), "layer-types": lambda c: c.update(layer_types=["full_attention"] * c["num_hidden_layers"]),
    "extra": put(pretraining_tp=1, torch_dtype="float32", use_cache=False, attention_dropout=0.0), "local-base": put(rope_local_base_freq=55.0),
    "original-context": put(original_max_position_embeddings=64), "parallel": put(pretraining_tp=2),
    # other types
    "theta-text": put(rope_theta="10000"), "eps-text": put(rms_norm_eps="1e-5"), "layers-real": lambda c: c.update(num_hidden_layers=float(c["num_hidden_layers"])),
    "kv-null": put(num_key_value_heads=None), "context-real": put(max_position_embeddings=512.0), "tied-text": put(tie_word_embeddings="false"), "tied-null": put(tie_word_embeddings=None),
    "window-text": put(sliding_window="4"), "window-real": put(sliding_window=4.0), "window-0": put(sliding_window=0), "act-null": put(hidden_act=None),
    "scaling-empty": put(rope_scaling={}), "scaling-list": put(rope_scaling=[4.0]), "factor-text": scaling(rope_type="linear", factor="4"), "factor-int": scaling(rope_type="linear", factor=4),
    "factor-null": scaling(rope_type="linear", factor=None), "type-null": scaling(rope_type=None, factor=4.0), "heads-text": put(num_attention_heads="4"),
}


def cases(n_mixed=60, seed=1):
    """name -> (model, edits)"""
    out = {f"{model}+{name}": (model, [edit]) for model in MODELS for name, edit in EDITS.items()}
    rng, made = random.Random(seed), 0
    while made < n_mixed:
        model, picked = rng.choice(MODELS), rng.sample(sorted(EDITS), 2)
        name = "+".join(["mixed", model, *picked])
        made += name not in out
        out[name] = (model, [EDITS[p] for p in picked])
    return out


class Builder:
    def __init__(self, folder):
        self.folder, self.made = folder, set()
        self.kept = dict(tiny.KEPT)

    def model(self, name):
        path = os.path.join(self.folder, "models", name)
        if name not in self.made:
            had, tiny.BASE["vocab_size"] = tiny.BASE["vocab_size"], ROWS
            kept = dict(tiny.KEPT)
            tiny.KEPT.clear()
            tiny.write_folder(path, name, tiny.tensors_of(name))
            tiny.KEPT.update(kept)
            tiny.BASE["vocab_size"] = had
            self.made.add(name)
        return path

    def build(self, name, case):
        path, model = os.path.join(self.folder, name), self.model(case[0])
        os.makedirs(path)
        os.symlink(os.path.join(model, "model.safetensors"), os.path.join(path, "model.safetensors"))
        with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        for edit in case[1]:
            edit(config)
        config.update(bos_token_id=None, eos_token_id=None, pad_token_id=None)
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump(BYTES, f)
        with open(os.path.join(path, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, f)
        return path


def bytes_tokenizer():
    spelled = {b: chr(b) for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255}
    for i, b in enumerate(b for b in range(256) if b not in spelled):
        spelled[b] = chr(256 + i)
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": {"type": "ByteLevel"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "vocab": {spelled[b]: b for b in range(256)}, "merges": []}}


BYTES = bytes_tokenizer()
