"""Two models: one drafts, the other verifies, on tiny seeded models (what they say means nothing; what drafts must not change does)."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from program import BUILD, HAS_TORCH, ROOT, run
from test_folders import folder

REAL = os.environ.get("LOGITSPEC_TEST_GPU")  # the library of a GPU that is here
GPU = REAL or os.path.join(BUILD, "tests", "liblstorch_emulated.so")
HEADS_THERE = os.path.join(BUILD, *(("liblstorch.so",) if REAL else ("tests", "liblstorch_emulated_torch.so")))
CAT = "The cat sat on the mat. The cat sat on the mat. The cat"


class DraftModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.target = folder(cls.tmp.name, "qwen3", "qwen2.json")
        cls.draft = folder(cls.tmp.name, "mistral", "qwen2.json")  # another model with the same tokenizer

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def run_one(self, *args):
        return run("generate", "--model", self.target, "--raw", "--prompt", CAT, "--max-tokens", "30", *args)

    def answer(self, *args):
        r = self.run_one("--json", *args)
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return json.loads(r.stdout)

    def test_no_draft_changes_the_text(self):
        sampled = ["--temperature", "0.8", "--seed", "5", "--top-p", "0.9"]
        own, first, other_bits = ["--draft-model", self.draft], ["--draft-layers", "1"], ["--draft-weights", "q8"]
        for dtype, sampling, ways in (("f32", [], (("7", own), ("7", first), ("auto", other_bits))), ("f32", sampled, (("7", own),)),
                                      ("bf16", [], (("7", first),))):
            plain = self.answer("--method", "plain", "--dtype", dtype, *sampling)
            self.assertEqual(plain["draft_forwards"], 0)
            for method in ("draft-model", "hybrid", "hierarchical"):
                for budget, draft in ways:
                    got = self.answer("--method", method, "--dtype", dtype, "--max-rows", budget, *draft, *sampling)
                    self.assertEqual(got["output_tokens"], plain["output_tokens"], (method, draft, budget, dtype, sampling))
                    self.assertTrue(got["exact"])
                    if budget == "7":
                        self.assertGreater(got["draft_forwards"], 10)

    def test_the_target_itself_drafts_what_it_chooses(self):
        trace = os.path.join(self.tmp.name, "same.jsonl")
        for sampling in ([], ["--temperature", "0.8", "--seed", "5"]):
            for dtype in ("f32", "bf16"):  # the draft model's arithmetic is the usual one of its weights
                self.answer("--method", "draft-model", "--draft-layers", "3", "--max-rows", "12", "--trace", trace, "--dtype", dtype, *sampling)
                with open(trace, encoding="utf-8") as f:
                    steps = [x for x in map(json.loads, f) if x["type"] == "step" and x["forward"]]
                said = [(s["said"][n["said"] - 1]["chosen"], n["target"]) for s in steps for n in s["nodes"] if "said" in n]
                self.assertGreater(len(said), 40)
                self.assertEqual([x for x in said if x[0] != x[1]], [])
                self.assertEqual([s for s in steps[:-1] if len(s["emitted"]) < 2], [])

    def test_what_is_told_of_it(self):
        trace = os.path.join(self.tmp.name, "t.jsonl")
        self.answer("--method", "hybrid", "--draft-model", self.draft, "--max-rows", "8", "--trace", trace)
        with open(trace, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        steps = [x for x in lines if x["type"] == "step" and x["forward"]]
        self.assertEqual(lines[0]["draft_model"], os.path.basename(self.draft))
        for s in steps:
            self.assertGreater(s["draft_forwards"], 0)
            self.assertLessEqual(s["us"]["draft_forward"], s["us"]["draft"])
            said = {i + 1: dict(map(tuple, x["top"])) for i, x in enumerate(s["said"])}
            for n in s["nodes"][1:]:
                parent = s["nodes"][n["parent"]]
                if "draft_p" in n:
                    self.assertAlmostEqual(said[parent["said"]][n["token"]], n["draft_p"], places=6)
                else:
                    self.assertNotIn(n["token"], said.get(parent.get("said"), {}))
        self.assertIn("draft-model", {n["source"] for s in steps for n in s["nodes"]})
        told = run("inspect", trace, "--step", "1").stdout
        self.assertIn("of the draft model", told)
        self.assertIn(os.path.basename(self.draft), told)

    def test_what_cannot_draft_is_one_line_that_names_both(self):
        other = folder(self.tmp.name, "mistral", "sp_llama.model")
        for args, want in [
                (["--draft-model", other], [os.path.basename(other), os.path.basename(self.target), "token ", "cannot draft for"]),
                (["--draft-model", "/nowhere/x.gguf"], ["the draft model", "/nowhere/x.gguf"]),
                (["--draft-layers", "99"], ["draft.layers is 99", os.path.basename(self.target)]),
                (["--draft-model", self.draft, "--draft-layers", "99"], ["draft.layers is 99", os.path.basename(self.draft)])]:
            r = self.run_one("--method", "draft-model", *args)
            self.assertNotEqual(r.returncode, 0)
            self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
            for word in want:
                self.assertIn(word, r.stderr)
        r = run("simulate", self.recording(), "--methods", "draft-model")
        self.assertEqual(r.returncode, 2)
        self.assertIn("cannot be simulated", r.stderr)

    def recording(self):
        path = os.path.join(self.tmp.name, "plain.jsonl")
        self.answer("--method", "plain", "--trace", path)
        return path

    def test_it_is_changed_on_the_screen(self):
        script = os.path.join(self.tmp.name, "talk.script")
        with open(script, "w", encoding="utf-8") as f:
            f.write("size 100x30\nwait READY\ntype the cat\nkey Enter\nwait 12 tokens\nwait READY\nkey Esc\n"
                    f"type :set draft.model={self.draft}\nkey Enter\nwait draft.model\nkey p\ntype the mat\nkey Enter\nwait READY\n"
                    "key Esc\ntype :set draft.layers=99\nkey Enter\nwait draft.layers is 99\nkey p\ntype the hat\nkey Enter\nwait READY\n")
        r = run("--model", self.target, "--method", "draft-model", "--max-tokens", "12", "--max-rows", "8", "--script", script)
        self.assertEqual((r.returncode, r.stderr), (0, ""))


class TrainedHeads(unittest.TestCase):
    """Seeded heads: what they draft is worth nothing, and must change nothing."""

    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        subprocess.run([sys.executable, os.path.join(ROOT, "tests", "tools", "heads.py"), self.tmp.name], check=True, capture_output=True)
        with open(os.path.join(self.tmp.name, "target", "tokenizer_config.json"), "w", encoding="utf-8") as f:
            f.write('{"eos_token": null}')  # the class's would end some answers at once

    def tearDown(self):
        self.tmp.cleanup()

    def run_one(self, *args, **env):
        return run("generate", "--model", os.path.join(self.tmp.name, "target"), "--raw", "--prompt", "The cat sat on the mat. The cat", "--max-tokens", "40", *args,
                   env=env)

    @unittest.skipUnless(HAS_TORCH, "needs:libtorch")
    def test_no_head_changes_the_text(self):
        for sampling in ([], ["--temperature", "0.9", "--seed", "3"]):
            plain = json.loads(self.run_one("--json", "--method", "plain", *sampling).stdout)
            for method, head in (("eagle3", "eagle3"), ("eagle3", "eagle3-own"), ("eagle3", "eagle"), ("medusa", "medusa"), ("medusa", "medusa2")):
                for budget in ("8",) if sampling else ("8", "auto"):
                    r = self.run_one("--json", "--method", method, "--draft-head", os.path.join(self.tmp.name, head), "--max-rows", budget, *sampling)
                    self.assertEqual((r.returncode, r.stderr), (0, ""), (method, head))
                    got = json.loads(r.stdout)
                    self.assertEqual(got["output_tokens"], plain["output_tokens"], (method, head, budget))
                    self.assertTrue(budget == "auto" or got["draft_verified"] > 40, (method, head, budget, got["draft_verified"], got["emitted"]))

    @unittest.skipUnless(os.path.exists(GPU) and os.path.exists(HEADS_THERE), "needs:emulated GPU library and libtorch")
    def test_heads_draft_the_same_on_a_gpu_and_on_the_cpu_beside_it(self):
        def steps(*args, **env):
            trace = os.path.join(self.tmp.name, "trace.jsonl")
            r = self.run_one("--json", "--device", "cuda", "--max-rows", "8", "--trace", trace, *args, LOGITSPEC_LSTORCH_CUDA=GPU, **env)
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(trace, encoding="utf-8") as f:
                read = [x for x in map(json.loads, f) if x["type"] == "step"]
            return r.stderr, [([(n["token"], n.get("parent")) for n in s["nodes"]], s["emitted"]) for s in read]
        for sampling in ([], ["--temperature", "0.9", "--seed", "3"]):
            plain = sum((s[1] for s in steps("--method", "plain", *sampling)[1]), [])
            for method, head in (("eagle3", "eagle3"),) if sampling else (("eagle3", "eagle3"), ("eagle3", "eagle"), ("medusa", "medusa")):
                way = ["--method", method, "--draft-head", os.path.join(self.tmp.name, head), *sampling]
                there = steps(*way, LOGITSPEC_LSTORCH=HEADS_THERE)
                self.assertEqual(there[0], "")
                self.assertEqual(sum((s[1] for s in there[1]), []), plain, (method, head))
                self.assertGreater(sum(len(s[0]) for s in there[1]), 60)
                self.assertEqual(steps(*way, "--draft-device", "cpu", LOGITSPEC_LSTORCH=HEADS_THERE), there, (method, head))
                if head != "eagle3" or sampling or REAL:  # the emulated device is slow
                    continue
                beside = steps(*way)  # libtorch here has no operators for GPUs, or finds none
                self.assertRegex(beside[0], "^logitspec: .*runs on the CPU, beside the GPU: [^\n]*\n$")
                self.assertEqual(beside[1], there[1], (method, head))

    def test_without_libtorch_only_heads_and_launched_ranks_are_missing(self):
        def one(*args, **env):
            return run("generate", "--model", os.path.join(self.tmp.name, "target"), "--raw", "--prompt", "The cat", "--max-tokens", "4", *args,
                       env={"LOGITSPEC_LSTORCH": "/nowhere.so", **env})
        for args in ((), ("--method", "draft-model", "--draft-layers", "1"), ("--devices", "cpu,cpu", "--threads", "1")):
            self.assertEqual(one(*args).returncode, 0, args)
        place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9", "LOGITSPEC_RANKS_TOKEN": "x" * 16}
        for said, r in (("a trained head", one("--method", "eagle3", "--draft-head", os.path.join(self.tmp.name, "eagle3"))),
                        ("a launcher's rank", one(**place))):
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
            self.assertRegex(r.stderr, f"{said} needs the library liblstorch.so, which cannot be loaded .*: run 'make torch' .it fetches libtorch")

    def test_a_wrong_head_is_one_line(self):
        for args, want in ((["eagle3"], "--draft-head FOLDER"), (["eagle3", "--draft-head", "/nowhere"], "/nowhere: no config.json"),
                           (["eagle3", "--draft-head", os.path.join(self.tmp.name, "medusa")], "method medusa"),
                           (["medusa", "--draft-head", os.path.join(self.tmp.name, "eagle")], "method eagle3")):
            r = self.run_one("--method", *args)
            self.assertNotEqual(r.returncode, 0)
            self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
            self.assertIn(want, r.stderr)
        r = run("generate", "--model", "script", "--prompt", "x", "--method", "eagle3", "--draft-head", os.path.join(self.tmp.name, "eagle3"))
        self.assertEqual(r.returncode, 1)
        self.assertIn("script has no weights that a trained head could read", r.stderr)


if __name__ == "__main__":
    unittest.main()
