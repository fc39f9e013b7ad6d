"""The reference engine by libtorch's operators: what it says of itself, and how its text depends on the number of rows."""
import json
import os
import tempfile
import unittest

from program import HAS_TORCH, needs_model, read_trace, run
from test_folders import folder

PARIS = ("--prompt", "What is the capital of France?", "--max-tokens", "12")
CAT = ("--raw", "--prompt", "The cat sat on the mat. The cat sat on the mat. The cat")
ENGINE = ("--engine", "reference")


@unittest.skipUnless(HAS_TORCH, "needs:libtorch")
class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.tiny = ("--model", folder(cls.tmp.name, "qwen3", "qwen2.json"))

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def said(self, *args):
        r = run(*args)
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return r.stdout

    @needs_model
    def test_the_default_model_says_the_same_in_f32(self):
        ours, theirs = (json.loads(self.said("generate", *PARIS, "--dtype", "f32", "--json", *engine)) for engine in ((), ENGINE))
        self.assertEqual(theirs["output_tokens"], ours["output_tokens"])
        self.assertIn("Paris", theirs["text"])
        self.assertEqual((ours["exact"], theirs["exact"], theirs["dtype"]), (True, False, "f32"))

    def test_everything_says_that_it_is_not_exact(self):
        trace = os.path.join(self.tmp.name, "run.jsonl")
        r = run("generate", *self.tiny, *CAT, *ENGINE, "--max-tokens", "20", "--trace", trace)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("NOT EXACT (logits depend on the number of rows)", r.stderr)
        with open(trace, encoding="utf-8") as f:
            header = read_trace(f.read())[0]
        self.assertEqual((header["backend"]["exact"], header["backend"]["kernel"]), (False, "reference: libtorch's operators"))
        page = os.path.join(self.tmp.name, "run.md")
        self.said("report", trace, "-o", page, "--quiet")
        with open(page, encoding="utf-8") as f:
            self.assertIn("not exact: logits depend on the number of rows", f.read())
        checks = {c["check"]: c["detail"] for c in json.loads(run("doctor", *self.tiny, *ENGINE, "--json").stdout)}
        self.assertIn("--engine reference, which is not exact", checks["device"])

    def test_a_conversation_on_the_screen(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "keys.script")
            with open(path, "w", encoding="utf-8") as f:
                f.write(f"size 120x36\nwait READY\ntype The cat\nkey Enter\nwait │› The cat\nwait READY\nwait NOT EXACT\n"
                        f"key Esc :\ntype save {d}/c.jsonl\nkey Enter\nwait saved\n"
                        f"key Esc :\ntype load {d}/c.jsonl\nkey Enter\nwait loaded\nwait READY\nexpect │› The cat\nexpect NOT EXACT\n")
            r = run("chat", *self.tiny, *ENGINE, "--max-tokens", "40", "--temperature", "0.7", "--seed", "3", "--script", path)
            self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_texts_that_differ_are_listed_and_are_no_error(self):
        r = run("compare", *self.tiny, *CAT, *ENGINE, "--dtype", "bf16", "--methods", "plain,logitspec:64/fixed:64", "--max-tokens", "60", "--json")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        b = json.loads(r.stdout)
        self.assertFalse(b["exact"])
        self.assertEqual(sum(m["different"] for m in b["methods"]), sum(x["first_difference"] is not None for x in b["runs"]))
        for x in b["runs"]:
            if x["first_difference"] is not None:  # a near tie, and no mistake
                self.assertTrue(0 <= x["gap"] < 0.5, x)
                self.assertNotEqual(x["token"], x["reference_token"])
        text = self.said("compare", *self.tiny, *CAT, *ENGINE, "--methods", "plain,pld:4", "--max-tokens", "20", "--quiet")
        self.assertIn("NOT EXACT: this engine's logits depend on the number of rows of a forward", text)

    def test_sampled_and_long(self):
        one = [json.loads(self.said("generate", *self.tiny, *CAT, *ENGINE, "--temperature", "0.9", "--seed", "5", "--max-tokens", "60", "--json", "--threads", n,
                                    "--method", m))["output_tokens"] for n, m in (("1", "plain"), ("2", "logitspec"))]
        self.assertEqual(*one)  # in f32, where a difference of the last bits is far below most gaps
        o = json.loads(self.said("generate", *self.tiny, *CAT, *ENGINE, "--context", "64", "--max-tokens", "500", "--json"))
        self.assertEqual(o["finish_reason"], "context")

    def test_what_it_refuses(self):
        for args, why in ((("--devices", "cpu,cpu"), "--engine reference does not share a model between ranks"), (("--dtype", "i8"), "choose f32 or bf16"),
                          (("--kv", "bf16"), "omit --kv bf16"), (("--device", "cuda"), "--engine reference cannot use 'cuda'")):
            r = run("generate", *self.tiny, *CAT, *ENGINE, *args)
            self.assertEqual((r.returncode != 0, r.stderr.count("\n")), (True, 1), r.stderr)
            self.assertIn(why, r.stderr)
        r = run("generate", *self.tiny, *CAT, "--engine", "torch")
        self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
        self.assertIn("expected one of kernels, reference", r.stderr)


class Missing(unittest.TestCase):
    def test_one_line_says_how_to_get_it(self):
        with tempfile.TemporaryDirectory() as d:
            model = ("--model", folder(d, "llama2", "qwen2.json"))
            r = run("generate", *model, *CAT, *ENGINE, env={"LOGITSPEC_LSTORCH": "/nowhere.so"})
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
            self.assertRegex(r.stderr, "the reference engine needs the library liblstorch.so, which cannot be loaded .*: run 'make torch' .it fetches libtorch")
            r = run("doctor", *model, *ENGINE, env={"LOGITSPEC_LSTORCH": "/nowhere.so"})
            self.assertEqual(r.returncode, 1)
            self.assertRegex(r.stdout, "MISSING +libtorch ")


if __name__ == "__main__":
    unittest.main()
