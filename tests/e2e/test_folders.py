"""Models of one's own: folders as Hugging Face has them, with tokenizer, chat template and several end tokens."""
import base64
import json
import os
import shutil
import sys
import tempfile
import unittest

from program import ROOT, run

sys.path[:0] = [os.path.join(ROOT, "tests", "tools"), os.path.join(ROOT, "tests", "files")]
import ggufs  # noqa: E402
import tiny  # noqa: E402

VECTORS = os.path.join(ROOT, "tests", "vectors")
ROWS = 832  # of the embedding: more than there are tokens


def folder(parent, name, tokenizer, template=None, config=None, generation=None):
    path = os.path.join(parent, name + "-" + tokenizer.replace(".", "-"))
    tiny.BASE["vocab_size"] = ROWS
    tiny.write_folder(path, name, tiny.tensors_of(name))
    tiny.BASE["vocab_size"] = tiny.VOCAB
    kind = tokenizer.split(".")[-1]
    shutil.copy(os.path.join(VECTORS, "tokenizers", tokenizer), os.path.join(path, "tokenizer." + kind))
    if template:
        shutil.copy(os.path.join(VECTORS, "chat", template + ".jinja"), os.path.join(path, "chat_template.jinja"))
    for file, value in (("tokenizer_config.json", config), ("generation_config.json", generation)):
        if value:
            with open(os.path.join(path, file), "w", encoding="utf-8") as f:
                json.dump(value, f)
    return path


class Folders(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.dir = self.tmp.name

    def tearDown(self):
        self.tmp.cleanup()

    def answer(self, path, *args):
        r = run("generate", "--model", path, "--json", "--max-tokens", "60", *args)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return json.loads(r.stdout)

    def tokens(self, path, text, *args):
        return json.loads(run("tokenize", "--model", path, "--prompt", text, "--json", *args).stdout)

    def test_a_chat_model(self):
        path = folder(self.dir, "qwen3", "qwen2.json", "qwen2.5",
                      {"eos_token": "<|im_end|>", "model_max_length": 1000000000000000019884624838656},
                      {"eos_token_id": [562, 560]})
        about = json.loads(run("models", "info", path, "--json").stdout)
        self.assertEqual([about["model"][k] for k in ("architecture", "tokenizer", "vocab")], ["qwen3", "byte-level BPE", ROWS])
        self.assertRegex(about["model"]["chat"], r"^template [0-9a-f]{16}, answers end with <\|im_end\|>$")
        t = self.tokens(path, "Hi <|im_end|>", "--chat")
        self.assertEqual(t["tokens"][0], "<|im_start|>")
        self.assertEqual([i for i in t["ids"] if i == 562], [562, 562])  # of system and user; the user's own is text
        spec, ar = self.answer(path, "--prompt", "Tell me."), self.answer(path, "--prompt", "Tell me.", "--method", "plain")
        self.assertEqual(spec["output_tokens"], ar["output_tokens"])
        self.assertTrue(spec["exact"])
        self.assertEqual(len(spec["sha256"]), 64)
        # the same from a template in tokenizer_config.json, and with a slash behind the name
        os.remove(os.path.join(path, "chat_template.jinja"))
        with open(os.path.join(VECTORS, "chat", "qwen2.5.jinja"), encoding="utf-8") as f:
            template = f.read()
        with open(os.path.join(path, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump({"eos_token": "<|im_end|>", "chat_template": [{"name": "default", "template": template}]}, f)
        again = self.answer(path + "/", "--prompt", "Tell me.")
        self.assertEqual((again["output_tokens"], again["model"]), (spec["output_tokens"], spec["model"]))

    def test_named_templates(self):
        """As transformers chooses: default, tool_use where there are tools, or by name; never the bare text in silence."""
        named = {"default": "D {{ messages[0]['content'] }}", "tool_use": "T {{ messages[0]['content'] }}", "rag": "R {{ messages[0]['content'] }}"}

        def text(path, *args):
            return "".join(json.loads(run("tokenize", "--model", path, "--prompt", "hi", "--chat", "--json", *args).stdout)["tokens"])
        for form in named, [{"name": k, "template": v} for k, v in named.items()], "files":
            path = folder(self.dir, "qwen2", "qwen2.json", config={} if form == "files" else {"chat_template": form})
            if form == "files":
                os.makedirs(os.path.join(path, "additional_chat_templates"), exist_ok=True)
                for name, template in named.items():
                    file = "chat_template.jinja" if name == "default" else f"additional_chat_templates/{name}.jinja"
                    with open(os.path.join(path, file), "w", encoding="utf-8") as f:
                        f.write(template)
            self.assertEqual([text(path), text(path, "--template", "rag"), text(path, "--template-set", "tools=[1]"), text(path, "--template-set", "tools=null")],
                             ["D hi", "R hi", "T hi", "D hi"])
            r = run("tokenize", "--model", path, "--prompt", "hi", "--chat", "--template", "nope")
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
            self.assertRegex(r.stderr, r"nope: No such file or directory; use a Jinja file, a template of this model \(.*tool_use.*\), or a template of configs/chat \(vicuna\)")
        os.remove(os.path.join(path, "chat_template.jinja"))
        for args in ("tokenize", "--chat"), ("generate",):
            r = run(*args, "--model", path, "--prompt", "hi")
            self.assertEqual((r.returncode, r.stderr), (2, "logitspec: none of the model's chat templates is named 'default'; choose one with --template "
                                                           "(rag, tool_use); use --raw for the text without a template\n"))
        gguf, meta = os.path.join(self.dir, "t.gguf"), ggufs.read(os.path.join(VECTORS, "tokenizers", "qwen2.gguf"))
        meta |= {"tokenizer.chat_templates": (ggufs.ARR, (ggufs.STR, ["rag", "tool_use"]))}
        meta |= {f"tokenizer.chat_template.{k}": (ggufs.STR, named[k]) for k in ("rag", "tool_use")}
        ggufs.write(gguf, meta)
        self.assertEqual(text(gguf, "--template", "rag"), "R hi")
        self.assertIn("(rag, tool_use)", run("tokenize", "--model", gguf, "--prompt", "hi", "--chat").stderr)
        with open(os.path.join(self.dir, "m.json"), "w", encoding="utf-8") as f:
            json.dump({"messages": [{"role": "user", "content": "x"}]}, f)
        self.assertEqual(run("models", "template", path, "--template", "rag", "--messages", f.name).stdout, "R x")

    def test_the_first_token_of_a_template(self):
        """What a template writes for bos_token is not whether raw text begins with it."""
        for adds in (True, False):
            path = folder(self.dir, "llama2", "llama2.json", "llama-2",
                          {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "add_bos_token": adds})
            self.assertEqual(self.tokens(path, "Hi", "--chat")["tokens"][0], "<s>")
            self.assertEqual(self.tokens(path, "Hi", "--raw")["tokens"][0] == "<s>", adds)
            shutil.rmtree(path)

    def test_keys_that_the_reference_ignores_or_an_encoder_has(self):
        path = folder(self.dir, "llama3", "llama3.json")
        config = os.path.join(path, "config.json")
        with open(config, encoding="utf-8") as f:
            whole = json.load(f)
        prompt = ["--raw", "--prompt", "one two three one two three one two"]
        plain = self.answer(path, *prompt)["output_tokens"]
        for key, value in (("sliding_window", 4), ("use_bidirectional_attention", True)):
            with open(config, "w", encoding="utf-8") as f:
                json.dump({**whole, key: value}, f)
            if key == "sliding_window":  # LlamaModel has no window
                self.assertEqual(self.answer(path, *prompt)["output_tokens"], plain)
                continue
            r = run("generate", "--model", path, *prompt)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
            self.assertIn("config.json: the model is an encoder ('use_bidirectional_attention')", r.stderr)

    def test_merged_weights_beside_an_index(self):
        """What transformers reads: the one file, whatever an index of before the merge says."""
        path = folder(self.dir, "qwen3", "qwen2.json")
        want = self.answer(path, "--prompt", "Tell me.", "--raw")["output_tokens"]
        for weights in {"x": "model-00001-of-00002.safetensors"}, {"x": "../x"}, 3:
            with open(os.path.join(path, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
                json.dump({"weight_map": weights}, f)
            self.assertEqual(self.answer(path, "--prompt", "Tell me.", "--raw")["output_tokens"], want)
        os.remove(os.path.join(path, "model.safetensors"))
        r = run("generate", "--model", path, "--prompt", "Hi", "--raw")
        self.assertEqual((r.returncode, "weight_map" in r.stderr), (1, True))

    def test_the_tokenizer_of_mistrals_own_format(self):
        """The pieces are those of the same vocabulary as tokenizer.json; ids count from behind the special tokens."""
        path, n_special = folder(self.dir, "mistral", "tekken.json"), 30
        os.rename(os.path.join(path, "tokenizer.json"), os.path.join(path, "was.json"))
        with open(os.path.join(path, "was.json"), encoding="utf-8") as f:
            was = json.load(f)
        printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
        byte_of = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)}
        pieces = [bytes(byte_of[c] for c in piece) for piece, _ in sorted(was["model"]["vocab"].items(), key=lambda x: x[1])]
        order = [bytes([b]) for b in range(256)] + [p for p in pieces if len(p) > 1]
        for named in None, ["<unk>", "<s>", "</s>", "[NEW]"]:
            tekken = {"config": {"pattern": was["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"], "default_vocab_size": len(order) + n_special - 5,
                                 "default_num_special_tokens": n_special, "version": "v3"},
                      "vocab": [{"rank": i, "token_bytes": base64.b64encode(p).decode(), "token_str": None} for i, p in enumerate(order)]}
            if named:
                tekken["special_tokens"] = [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(named)]
            with open(os.path.join(path, "tekken.json"), "w", encoding="utf-8") as f:
                json.dump(tekken, f)
            for text in ("Hello world, 123 don't!\n\n  x", "\u4f60\u597d na\u00efve \U0001f600"):
                t = json.loads(run("tokenize", "--model", path, "--prompt", text, "--json").stdout)
                self.assertEqual(t["tokens"][0], "<s>")
                shutil.move(os.path.join(path, "tekken.json"), os.path.join(self.dir, "t"))
                os.rename(os.path.join(path, "was.json"), os.path.join(path, "tokenizer.json"))
                want = json.loads(run("tokenize", "--model", path, "--prompt", text, "--json").stdout)["ids"]
                os.rename(os.path.join(path, "tokenizer.json"), os.path.join(path, "was.json"))
                shutil.move(os.path.join(self.dir, "t"), os.path.join(path, "tekken.json"))
                spelled = {i: p for p, i in zip(pieces, sorted(was["model"]["vocab"].values()))}
                self.assertEqual([order[i - n_special] for i in t["ids"][1:]], [spelled[i] for i in want[1:]], text)
            self.assertEqual(self.tokens(path, "[NEW]<SPECIAL_9>")["ids"][1:], [3, 9] if named else self.tokens(path, "[NEW]<SPECIAL_9>")["ids"][1:])
        for wrong, says in ({"config": {}}, "disagree"), ({"vocab": [{"rank": 1, "token_bytes": "YQ=="}] * len(order)}, "entry 0 of 'vocab'"):
            with open(os.path.join(path, "tekken.json"), "w", encoding="utf-8") as f:
                json.dump({**tekken, **wrong}, f)
            r = run("tokenize", "--model", path, "--prompt", "x")
            self.assertEqual((r.returncode, r.stderr.count("\n"), says in r.stderr), (1, 1, True), r.stderr)

    def test_dynamic_scaling_up_to_its_original_context(self):
        path = folder(self.dir, "llama2", "llama2.json")
        want, config = self.answer(path, "--prompt", "Tell me.", "--raw")["output_tokens"], os.path.join(path, "config.json")
        with open(config, encoding="utf-8") as f:
            plain = json.load(f)
        for more, context in ({}, 512), ({"original_max_position_embeddings": 128}, 128):
            with open(config, "w", encoding="utf-8") as f:
                json.dump({**plain, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0, **more}}, f)
            self.assertEqual(self.answer(path, "--prompt", "Tell me.", "--raw")["output_tokens"], want)
            self.assertEqual(json.loads(run("models", "info", path, "--json").stdout)["model"]["context"], context)

    def test_what_is_no_model_and_why(self):
        path = folder(self.dir, "llama3", "llama3.json")
        for text, why in ((b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n", "it is a Git LFS pointer; 'git lfs pull' fetches the file itself"),
                          (b"<!DOCTYPE html><html></html>", "it is a web page; download the file itself")):
            for name, what in (("model.safetensors", "not a safetensors file ("), ("x.gguf", "not a GGUF file: ")):
                with open(os.path.join(path, name), "wb") as f:
                    f.write(text)
                r = run("generate", "--model", path if "safe" in name else os.path.join(path, name), "--prompt", "x")
                self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
                self.assertIn(f"{name}: {what}", r.stderr)
                self.assertIn(why, r.stderr)
        tiny.write_gguf(os.path.join(path, "whole.gguf"), "llama3", tiny.tensors_of("llama3"))
        with open(os.path.join(path, "whole.gguf"), "rb") as f:
            data = f.read()
        with open(os.path.join(path, "x.gguf"), "wb") as f:
            f.write(data[:4] + data[7:3:-1] + data[8:])
        r = run("generate", "--model", os.path.join(path, "x.gguf"), "--prompt", "x")
        self.assertIn("x.gguf: big-endian GGUF files are not supported", r.stderr)
        # a whole file may have a part's name
        os.rename(os.path.join(path, "whole.gguf"), os.path.join(path, "part-00002-of-00003.gguf"))
        r = run("models", "info", os.path.join(path, "part-00002-of-00003.gguf"))
        self.assertIn("part-00002-of-00003.gguf: no tokenizer", r.stderr)

    def test_an_end_token_of_generation_config(self):
        path = folder(self.dir, "qwen3", "qwen2.json", config={"eos_token": None})
        out = self.answer(path, "--prompt", "Tell me.", "--raw")["output_tokens"]
        end = out[20]
        with open(os.path.join(path, "generation_config.json"), "w", encoding="utf-8") as f:
            json.dump({"eos_token_id": [end, 560]}, f)
        o = self.answer(path, "--prompt", "Tell me.", "--raw")
        self.assertEqual((o["finish_reason"], o["output_tokens"]), ("eos", out[:out.index(end) + 1]))
        config, generation = (os.path.join(path, n + ".json") for n in ("config", "generation_config"))
        # what Python writes and reads, and what nobody reads: that is told
        for text, read in (f'{{"top_p": NaN, "a": -Infinity, "eos_token_id": {end}}}', True), \
                (f'{{"eos_token_id": 3, "x": "NaN \\" Infinity", "eos_token_id": [560, {end}]}}', True), \
                (f'{{"eos_token_id": {end},}}', False), (f'\ufeff{{"eos_token_id": {end}}}', False):
            with open(generation, "w", encoding="utf-8") as f:
                f.write(text)
            self.assertEqual(self.answer(path, "--prompt", "Tell me.", "--raw")["finish_reason"], "eos" if read else "length", text)
            r = run("generate", "--model", path, "--max-tokens", "6", "--prompt", "Tell me.", "--raw")
            self.assertEqual(r.returncode, 0)
            self.assertRegex(r.stderr, r"\A# 6 tokens" if read else r"\Alogitspec: \S+/generation_config.json:1:\d+: not JSON: .*; the file is ignored, and with it "
                             r"the tokens that end an answer\n# 6 tokens")
        os.remove(generation)
        with open(config, encoding="utf-8") as f:  # of a vision model
            whole = json.load(f)
        with open(config, "w", encoding="utf-8") as f:
            json.dump({**whole, "text_config": {**whole, "eos_token_id": end}, "rope_scaling": float("nan")}, f)
        self.assertEqual(self.answer(path, "--prompt", "Tell me.", "--raw")["finish_reason"], "eos")

    def test_sentencepiece_without_a_template(self):
        path = folder(self.dir, "mistral", "sp_llama.model")
        r = run("generate", "--model", path, "--prompt", "Hello", "--max-tokens", "5")
        self.assertEqual(r.returncode, 0)
        self.assertIn("the prompt is used without a chat template: the model has no chat template; set one with --template FILE", r.stderr)
        ids = self.tokens(path, "Hello", "--raw")["ids"]
        self.assertEqual(ids[0], 1)  # <s>
        chat = self.tokens(path, "Hello", "--chat", "--template", "vicuna")
        self.assertEqual(chat["tokens"][0], "<s>")
        self.assertIn("ASSISTANT:", "".join(chat["tokens"]))
        r = run("tokenize", "--model", path, "--prompt", "x", "--chat")
        self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
        r = run("tokenize", "--model", path, "--prompt", "x", "--chat", "--template", "nonsense")
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("the chat template nonsense: No such file", r.stderr)

    def test_what_is_wrong_is_named(self):
        path = folder(self.dir, "llama2", "llama2.json", "llama-2")
        self.assertEqual(self.tokens(path, "Hi", "--chat")["tokens"][0], "<s>")
        with open(os.path.join(path, "chat_template.jinja"), "w", encoding="utf-8") as f:
            f.write("{% for m in messages %}\n{{ m.role | wordwrap }} says {{ m.content }}{% endfor %}")
        r = run("generate", "--model", path, "--prompt", "Hi", "--max-tokens", "3")
        self.assertEqual((r.returncode, r.stderr), (2, "logitspec: the chat template: line 2: No filter named 'wordwrap'; use --raw for the text "
                                                       "without a template\n"))  # never raw where there is a template
        self.assertEqual(run("generate", "--model", path, "--prompt", "Hi", "--max-tokens", "3", "--raw").returncode, 0)
        os.remove(os.path.join(path, "tokenizer.json"))
        r = run("generate", "--model", path, "--prompt", "Hi")
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("no tokenizer; it needs tokenizer.json, tokenizer.model", r.stderr)
        small = folder(self.dir, "gemma2", "gemma.json")
        shutil.copy(os.path.join(path, "model.safetensors"), small)
        r = run("generate", "--model", small, "--prompt", "Hi")
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("no tensor 'blk.0.ffn_norm.weight'", r.stderr)


if __name__ == "__main__":
    unittest.main()
