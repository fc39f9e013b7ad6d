"""Checkpoints of each family, damaged in one place: the program names what is wrong in one line and does not crash."""
import json
import math
import os
import shutil
import struct
import sys
import tempfile
import unittest

from program import HAS_TORCH, ROOT, run

sys.path[:0] = [os.path.join(ROOT, "tests", "tools"), os.path.join(ROOT, "tests", "files")]
import ggufs  # noqa: E402
import heads  # noqa: E402
import tiny  # noqa: E402

ROWS = 832  # of the embedding: as many as the tokenizer needs
FAMILIES = ["starcoder2", "qwen2vl", "qwen2_5_vl", "qwen3vl", "gemma3-vision", "mistral3-vision"]


def set_key(*way, to):
    """An edit of the text part of config.json."""
    def edit(config):
        for key in way[:-1]:
            config = config[key]
        config[way[-1]] = to
    return edit


def rope(*whole, **some):
    def edit(config):
        key = "rope_parameters" if "rope_parameters" in config else "rope_scaling"
        config[key] = whole[0] if whole else {**config.get(key, {}), **some}
    return edit


def activation(to):
    return lambda config: config.update({"hidden_activation" if "hidden_activation" in config else "hidden_act": to})


def without(key):
    return lambda config: config.pop(key)


CONFIGS = {"no type": without("model_type"), "another type": set_key("model_type", to="nosuch"), "a type that is a number": set_key("model_type", to=3),
           "no width": without("hidden_size"), "a width as text": set_key("hidden_size", to="64"), "a width of 33": set_key("hidden_size", to=33),
           "no layers": set_key("num_hidden_layers", to=0), "a billion layers": set_key("num_hidden_layers", to=10**9),
           "one more layer": set_key("num_hidden_layers", to=4), "no heads": set_key("num_attention_heads", to=0),
           "too many heads for keys": set_key("num_key_value_heads", to=5), "heads that cannot share": set_key("num_key_value_heads", to=3),
           "a wide feed-forward part": set_key("intermediate_size", to=1 << 40), "another feed-forward width": set_key("intermediate_size", to=160),
           "an activation as a list": activation(["silu"]), "another activation": activation("tanh"),
           "a base below 1": rope(rope_theta=0.5), "tied by a number": set_key("tie_word_embeddings", to=1),
           "an unknown rotary scaling": rope(rope_type="nosuch", factor=2.0), "a rotary scaling as text": rope("yarn"), "a context of 2": set_key("max_position_embeddings", to=2)}


def whole_edits(config):
    """Edits of the config.json of a wrapper: a text part beside a part for pictures."""
    def put(**to):
        return lambda c: c.update(to)
    text = config["text_config"]
    return {"no text part": without("text_config"), "a text part of null": put(text_config=None), "a text part as a list": put(text_config=[text]),
            "a text part as text": put(text_config="text"), "an empty text part": put(text_config={}),
            "a text part of another type": put(text_config={**text, "model_type": "nosuch"}), "a text part of nothing but a type": put(text_config={"model_type": text["model_type"]})}


def weights_edits(header):
    """Edits of a safetensors header and its data."""
    q, norm = next(k for k in header if "1.self_attn.q_proj.weight" in k), next(k for k in header if "1.input_layernorm.weight" in k)

    def moved(key, by):
        def edit(h, data):
            h[key]["data_offsets"] = [x + by for x in h[key]["data_offsets"]]
        return edit

    def nan(h, data):
        at = h[q]["data_offsets"][0]
        data[at:at + 4] = struct.pack("<f", math.nan)
    return {"a missing matrix": lambda h, d: h.pop(q), "a missing norm": lambda h, d: h.pop(norm),
            "an unknown tensor": lambda h, d: h.update({q.replace("q_proj", "x_proj"): h.pop(q)}),
            "a layer too many": lambda h, d: h.update({q.replace(".1.", ".77."): h.pop(q)}),
            "another shape": lambda h, d: h[q].update(shape=h[q]["shape"][::-1] if h[q]["shape"][0] != h[q]["shape"][1] else [32, 128]),
            "a shape of six": lambda h, d: h[q].update(shape=[1, 1, 1, 1, *h[q]["shape"]]), "a negative shape": lambda h, d: h[q].update(shape=[-64, -64]),
            "a shape that overflows": lambda h, d: h[q].update(shape=[1 << 62, 1 << 62]), "a type of integers": lambda h, d: h[q].update(dtype="I32"),
            "an unknown type": lambda h, d: h[q].update(dtype="F17"), "an offset before the data": moved(q, -1 << 40), "an offset behind it": moved(q, 1 << 40),
            "two tensors in one place": moved(q, -8), "an offset as text": lambda h, d: h[q].update(data_offsets=["0", "4"]), "NaN": nan,
            "no embedding": lambda h, d: h.pop(next(k for k in h if "embed_tokens" in k)),
            "no last norm": lambda h, d: h.pop(next(k for k in h if k.endswith("model.norm.weight") or k.endswith("language_model.norm.weight")))}


def metadata_edits(arch):
    def put(key, kind, value):
        return lambda m: m.update({f"{arch}.{key}": (kind, value)})

    def drop(key):
        return lambda m: m.pop(f"{arch}.{key}")
    eps = "attention.layer_norm_epsilon" if arch == "starcoder2" else "attention.layer_norm_rms_epsilon"
    return {"another architecture": lambda m: m.update({"general.architecture": (ggufs.STR, "nosuch")}), "no architecture": lambda m: m.pop("general.architecture"),
            "no layers": drop("block_count"), "0 layers": put("block_count", ggufs.U32, 0), "a billion layers": put("block_count", ggufs.U32, 10**9),
            "one more layer": put("block_count", ggufs.U32, 4), "layers as text": put("block_count", ggufs.STR, "3"), "no width": drop("embedding_length"),
            "a width of 33": put("embedding_length", ggufs.U32, 33), "no heads": put("attention.head_count", ggufs.U32, 0),
            "heads that cannot share": put("attention.head_count_kv", ggufs.U32, 3), "another size of heads": put("attention.key_length", ggufs.U32, 48),
            "no epsilon": drop(eps), "an epsilon of 2": put(eps, ggufs.F32, 2.0), "an epsilon as text": put(eps, ggufs.STR, "x"),
            "a wide feed-forward part": put("feed_forward_length", ggufs.U32, 1 << 30), "a base of 0": put("rope.freq_base", ggufs.F32, 0.0),
            "an odd rotation": put("rope.dimension_count", ggufs.U32, 7), "a wide rotation": put("rope.dimension_count", ggufs.U32, 512),
            "an unknown rotary scaling": put("rope.scaling.type", ggufs.STR, "nosuch"), "an encoder": put("attention.causal", ggufs.BOOL, False),
            "experts": put("expert_count", ggufs.U32, 8)}


def tensor_edits():
    def of(name, edit):
        return lambda tensors: [edit(t) if t[0] == name else t for t in tensors]

    def gone(name):
        return lambda tensors: [t for t in tensors if t[0] != name]
    q = "blk.1.attn_q.weight"
    return {"a missing matrix": gone(q), "a missing norm": gone("blk.1.attn_norm.weight"), "no embedding": gone("token_embd.weight"), "no last norm": gone("output_norm.weight"),
            "an unknown tensor": of(q, lambda t: ("blk.1.attn_x.weight", *t[1:])), "a tensor twice": lambda tensors: tensors + [t for t in tensors if t[0] == q],
            "another shape": of(q, lambda t: (t[0], (t[1][0] // 2, t[1][1]), t[2][:len(t[2]) // 2], t[3])),
            "NaN": of(q, lambda t: (*t[:2], [math.nan, *t[2][1:]], t[3]))}


class Damage(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        tiny.BASE["vocab_size"] = ROWS
        self.addCleanup(tiny.BASE.update, vocab_size=tiny.VOCAB)

    def use(self, path):
        return run("generate", "--model", path, "--prompt", "a", "--raw", "--max-tokens", "1", "--context", "64")

    def refused(self, path, what):
        r = self.use(path)
        self.assertIn(r.returncode, (1, 2), f"{what}: {r.stderr}")
        self.assertEqual(r.stderr.count("\n"), 1, f"{what}: {r.stderr}")
        self.assertTrue(r.stderr.startswith("logitspec: "), f"{what}: {r.stderr}")
        self.assertEqual(r.stdout, "", what)

    def test_folders(self):
        for name in FAMILIES:
            path = os.path.join(self.tmp.name, name)
            tiny.write_folder(path, name, tiny.tensors_of(name))
            shutil.copy(os.path.join(ROOT, "tests", "vectors", "tokenizers", "qwen2.json"), os.path.join(path, "tokenizer.json"))
            self.assertEqual(self.use(path).returncode, 0, self.use(path).stderr)
            config, weights = os.path.join(path, "config.json"), os.path.join(path, "model.safetensors")
            with open(config, encoding="utf-8") as f:
                text = f.read()
            with open(weights, "rb") as f:
                data = f.read()
            for what, edit in CONFIGS.items():
                whole = json.loads(text)
                edit(whole.get("text_config", whole))
                if "tied" in what and "text_config" in whole:
                    whole["tie_word_embeddings"] = 1
                with open(config, "w", encoding="utf-8") as f:
                    json.dump(whole, f)
                self.refused(path, f"{name}: {what}")
            for what, edit in whole_edits(json.loads(text)).items() if "text_config" in json.loads(text) else ():
                whole = json.loads(text)
                edit(whole)
                with open(config, "w", encoding="utf-8") as f:
                    json.dump(whole, f)
                self.refused(path, f"{name}: {what}")
            for what, damaged in (("cut", text[:-20]), ("a list", "[]"), ("empty", "")):
                with open(config, "w", encoding="utf-8") as f:
                    f.write(damaged)
                self.refused(path, f"{name}: config.json {what}")
            with open(config, "w", encoding="utf-8") as f:
                f.write(text)
            n = struct.unpack_from("<Q", data)[0]
            for what, edit in weights_edits(json.loads(data[8:8 + n])).items():
                header, body = json.loads(data[8:8 + n]), bytearray(data[8 + n:])
                edit(header, body)
                head = json.dumps(header).encode()
                with open(weights, "wb") as f:
                    f.write(struct.pack("<Q", len(head)) + head + body)
                self.refused(path, f"{name}: {what}")
            for what, damaged in (("cut", data[:-100]), ("cut in its header", data[:n // 2]), ("empty", b""), ("a header too long", struct.pack("<Q", 1 << 60) + data[8:])):
                with open(weights, "wb") as f:
                    f.write(damaged)
                self.refused(path, f"{name}: model.safetensors {what}")

    def test_gguf_files(self):
        builder = ggufs.Builder(self.tmp.name)
        for name in FAMILIES:
            plain, tensors = builder.model(name)
            arch, path = plain["general.architecture"], os.path.join(self.tmp.name, name + ".gguf")

            def write(meta_edit=lambda m: None, tensors_edit=lambda t: t):
                meta = ggufs.typed(plain) | ggufs.simple_vocabulary(ggufs.ROWS)
                meta_edit(meta)
                ggufs.write(path, meta, tensors_edit(list(tensors)))
            write()
            self.assertEqual(self.use(path).returncode, 0, self.use(path).stderr)
            with open(path, "rb") as f:
                data = f.read()
            for what, edit in metadata_edits(arch).items():
                write(edit)
                self.refused(path, f"{name}: {what}")
            for what, edit in tensor_edits().items():
                write(tensors_edit=edit)
                self.refused(path, f"{name}: {what}")
            for what, damaged in (("cut", data[:-5000]), ("cut in its metadata", data[:300]), ("empty", b""), ("no GGUF", b"X" + data[1:]),
                                  ("of version 9", data[:4] + b"\x09" + data[5:]), ("with 2^60 tensors", data[:8] + struct.pack("<Q", 1 << 60) + data[16:]),
                                  ("with 2^60 keys", data[:16] + struct.pack("<Q", 1 << 60) + data[24:])):
                with open(path, "wb") as f:
                    f.write(damaged)
                self.refused(path, f"{name}: a file that is {what}")

    def test_eagle3_heads_in_gguf(self):
        tiny.BASE["vocab_size"] = tiny.VOCAB
        taken, write_file = [], tiny.write_gguf_file
        target, path = os.path.join(self.tmp.name, "target"), os.path.join(self.tmp.name, "head.gguf")
        heads.target(target)
        tiny.write_gguf_file = lambda _, meta, tensors: taken.extend((meta, tensors))
        try:
            heads.eagle(os.path.join(self.tmp.name, "head"), "eagle3", 60)
        finally:
            tiny.write_gguf_file = write_file
        plain, tensors = taken

        def use():
            return run("generate", "--model", target, "--method", "eagle3", "--draft-head", path, "--prompt", "a", "--raw", "--max-tokens", "4", "--seed", "1")

        def refused(what, why):
            r = use()
            self.assertIn(r.returncode, (1, 2), f"{what}: {r.stderr}")
            self.assertEqual((r.stderr.count("\n"), r.stdout), (1, ""), f"{what}: {r.stderr}")
            self.assertIn(why, r.stderr, what)
            self.assertIn(path, r.stderr, what)

        def write(meta_edit=lambda m: None, tensors_edit=lambda t: t):
            meta = ggufs.typed(plain)
            meta_edit(meta)
            ggufs.write(path, meta, tensors_edit(list(tensors)))

        def put(key, kind, value):
            return lambda m: m.update({key: (kind, value)})

        def of(name, edit):
            return lambda ts: [edit(t) if t[0] == name else t for t in ts]
        write()
        if HAS_TORCH:
            self.assertEqual(use().returncode, 0, use().stderr)
        e = "eagle3."
        q = "blk.0.attn_q.weight"
        for what, edit, why in (
                ("a model", put("general.architecture", ggufs.STR, "llama"), "the architecture 'llama' is not a head"),
                ("no layers to take", lambda m: m.pop(e + "extract_layers"), "no metadata key 'eagle3.extract_layers'"),
                ("two layers to take", put(e + "extract_layers", ggufs.ARR, (ggufs.I32, [2, 4])), "must have 3 numbers"),
                ("falling layers", put(e + "extract_layers", ggufs.ARR, (ggufs.I32, [4, 2, 5])), "in ascending order"),
                ("a negative layer", put(e + "extract_layers", ggufs.ARR, (ggufs.I32, [-1, 2, 5])), "in ascending order"),
                ("layers that the target lacks", put(e + "extract_layers", ggufs.ARR, (ggufs.I32, [2, 4, 50])), "needs the inputs of layers 2, 4 and 50"),
                ("layers as text", put(e + "extract_layers", ggufs.STR, "2,4,5"), "expected an array of integers"),
                ("no width of the target", lambda m: m.pop(e + "target_hidden_size"), "no metadata key 'eagle3.target_hidden_size'"),
                ("another width of the target", put(e + "target_hidden_size", ggufs.U32, 96), "tensor 'fc.weight' is 64 x 192, expected 64 x 288"),
                ("no target", put(e + "target_hidden_size", ggufs.U32, 0), "out of range"),
                ("a residual of another kind", put(e + "norm_before_residual", ggufs.BOOL, True), "'eagle3.norm_before_residual' is true"),
                ("two layers", put(e + "block_count", ggufs.U32, 2), "only heads of one layer"),
                ("another vocabulary", put(e + "vocab_size", ggufs.U32, 130), "128 tokens"),
                ("a small vocabulary", put(e + "vocab_size", ggufs.U32, 90), "'d2t' has 96 values for 90 tokens"),
                ("no vocabulary", lambda m: m.pop(e + "vocab_size"), "tokenizer.ggml.tokens"),
                ("another width", put(e + "embedding_length", ggufs.U32, 96), "expected 96 x"),
                ("no epsilon", lambda m: m.pop(e + "attention.layer_norm_rms_epsilon"), "attention.layer_norm_rms_epsilon")):
            write(edit)
            refused(what, why)
        for what, edit, why in (
                ("no matrix", lambda ts: [t for t in ts if t[0] != q], "no tensor 'self_attn.q_proj.weight'"),
                ("no norm of the values", lambda ts: [t for t in ts if t[0] != "blk.0.attn_norm_2.weight"], "no tensor 'hidden_norm.weight'"),
                ("no output", lambda ts: [t for t in ts if t[0] != "output.weight"], "no tensor 'lm_head.weight'"),
                ("an unknown tensor", of(q, lambda t: ("blk.0.attn_x.weight", *t[1:])), "EAGLE-3 has no tensor 'blk.0.attn_x.weight'"),
                ("a matrix of integers", of(q, lambda t: (t[0], t[1], [1] * len(t[2]), tiny.I64)), "tensor 'blk.0.attn_q.weight' has type I64"),
                ("both names of a norm", lambda ts: ts + [("blk.0.hidden_norm.weight", (64,), [1.0] * 64, tiny.F32)], "'hidden_norm.weight' occurs twice"),
                ("no mapping", lambda ts: [t for t in ts if t[0] != "d2t"], "expected 128 x 64"),
                ("a short mapping", of("d2t", lambda t: (t[0], (95,), t[2][:95], t[3])), "expected 95 x 64"),
                ("a mapping of floats", of("d2t", lambda t: (*t[:3], tiny.F32)), "'d2t' must be a vector of I64"),
                ("a token twice", of("d2t", lambda t: (*t[:2], [t[2][1], *t[2][1:]], t[3])), "'d2t' maps drafted token 1 outside"),
                ("a token that is not there", of("d2t", lambda t: (*t[:2], [*t[2][:-1], 128], t[3])), "'d2t' maps drafted token 95 outside"),
                ("a negative token", of("d2t", lambda t: (*t[:2], [-1, *t[2][1:]], t[3])), "'d2t' maps drafted token 0 outside"),
                ("factors of another size", lambda ts: ts + [("rope_freqs.weight", (3,), [1.0] * 3, tiny.F32)], "must have 16 values of f32"),
                ("a factor of 0", lambda ts: ts + [("rope_freqs.weight", (16,), [0.0] * 16, tiny.F32)], "the invalid value 0")):
            write(tensors_edit=edit)
            refused(what, why)
        write()
        with open(path, "rb") as f:
            data = f.read()
        for what, damaged, why in ("cut", data[:-5000], "truncated file?"), ("empty", b"", ""), ("no GGUF", b"X" + data[1:], ""), ("a folder's file", b"{}" * 40, ""):
            with open(path, "wb") as f:
                f.write(damaged)
            refused(what, why)


if __name__ == "__main__":
    unittest.main()
