"""Ranks on GPUs, which are emulated here (tests/gpu/emulation.h): every text is that of one GPU; what cannot be is said in a line.
All ranks are on one GPU, as the emulated machine has no other."""
import json
import os
import signal
import sys
import tempfile
import unittest

import test_ranks
from program import ROOT, run, without_sanitizers
from test_gpu import CAT, EMULATED
from test_folders import folder

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import folders  # noqa: E402

GPU = {"LOGITSPEC_LSTORCH_CUDA": EMULATED}
SAMPLED = [["--temperature", "0.9", "--seed", "5", "--top-p", "0.9"], ["--temperature", "1.1", "--seed", "5", "--top-k", "20"]]


@unittest.skipUnless(os.path.exists(EMULATED), "needs:emulated GPU library")
class GpuRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.model = folder(cls.tmp.name, "qwen3", "qwen2.json")
        # so wide that the inputs of matmuls are cut, and for two ranks otherwise than for one if each had its own way; heads do not
        # share out evenly
        cls.wide = folders.write(os.path.join(cls.tmp.name, "wide"), vocab_size=300, hidden_size=576, intermediate_size=2880,
                                 num_attention_heads=9, num_key_value_heads=3)
        # the second of three ranks has heads of both groups, so that its device computes all of them
        cls.across = folders.write(os.path.join(cls.tmp.name, "across"), vocab_size=300, hidden_size=192, intermediate_size=256,
                                   num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=2)

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def args(self, *args, model=None, n="24"):
        return ["generate", "--model", model or self.model, "--raw", "--prompt", CAT if model is None else "abc abc abc a", "--max-tokens", n,
                "--json", *args]

    def answer(self, *args, **kw):
        r = run(*self.args(*args, **kw), env=GPU)
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return json.loads(r.stdout)

    def test_no_number_of_ranks_changes_the_text(self):
        every = ("0,0", "plain"), ("cuda:0,cuda:0", "logitspec"), ("0,0,0", "suffix")
        for model, n, how in ((None, "20", ([], *SAMPLED)), (self.wide, "8", ([], SAMPLED[0]))):
            for i, sampling in enumerate(how):
                one = self.answer("--device", "cuda", "--method", "plain", *sampling, model=model, n=n)
                for devices, method in every[i:] if model or not i else every[i:i + 1]:  # the emulated device is slow
                    got = self.answer("--devices", devices, "--method", method, *sampling, model=model, n=n)
                    self.assertEqual(got["output_tokens"], one["output_tokens"], (model, devices, method, sampling))
                    self.assertEqual((got["ranks"], got["device"], got["dtype"]), (devices.count("0"), "cuda", one["dtype"]))

    def test_mixtures(self):
        """A shared expert with a gate; attention sinks and biases of experts."""
        for name in "qwen2_moe", "gpt_oss":
            model = folder(self.tmp.name, name, "qwen2.json")
            for sampling in [], SAMPLED[0]:
                one = self.answer("--device", "cuda", "--method", "plain", *sampling, model=model, n="8")
                for devices in ("0,0", "0,0,0,0"):
                    got = self.answer("--devices", devices, "--method", "logitspec", *sampling, model=model, n="8")
                    self.assertEqual((got["ranks"], got["output_tokens"]), (devices.count("0"), one["output_tokens"]), (name, devices))

    def test_heads_of_two_groups_on_one_rank(self):
        one = self.answer("--device", "cuda", "--method", "plain", model=self.across, n="12")
        for devices in ("0,0,0", "0,0,0,0,0"):
            got = self.answer("--devices", devices, "--method", "logitspec", model=self.across, n="12")
            self.assertEqual((got["ranks"], got["output_tokens"]), (devices.count("0"), one["output_tokens"]))

    def test_every_exact_method(self):
        for sampling, methods in ([], test_ranks.EXACT), (SAMPLED[0], "logitspec:7,draft-model:5+layers=1"):
            r = run("compare", "--model", self.model, "--raw", "--prompt", CAT, "--max-tokens", "12", "--devices", "0,0", "--methods",
                    "plain," + methods, "--json", *sampling, env=GPU)
            self.assertEqual(r.returncode, 0, r.stderr)
            o = json.loads(r.stdout)
            self.assertTrue(o["equal"] and o["exact"])
            self.assertEqual(len(o["methods"]), 1 + len(methods.split(",")))

    def test_what_is_told_of_them(self):
        trace = os.path.join(self.tmp.name, "t.jsonl")
        self.answer("--devices", "0,0", "--trace", trace, "--method", "logitspec", "--max-rows", "7")
        with open(trace, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        self.assertIn(", 2 ranks", lines[0]["backend"]["kernel"])
        times = [x["us"] for x in lines if x["type"] == "step" and x["forward"]]
        self.assertTrue(all(0 < t["comm"] < t["forward"] for t in times), times)
        o = {c["check"]: c for c in json.loads(run("doctor", "--model", self.model, "--devices", "0,0", "--json", env=GPU).stdout)}["ranks"]
        self.assertEqual((o["ok"], o["ranks"]), (True, 2))

    def test_a_launcher(self):
        """Over Gloo; each rank takes the GPU that it is told."""
        want = self.answer("--device", "cuda", "--method", "plain")["output_tokens"]
        t = test_ranks.Ranks()
        t.places = self.tmp.name
        try:
            said = t.launched(*self.args(), LOGITSPEC_RANKS_DEVICE="cuda:0", **GPU)
            self.assertEqual([code for _, code in said], [0, 0], said)
            o = json.loads(said[0][0][0])
            self.assertEqual((o["output_tokens"], o["ranks"], o["device"]), (want, 2, "cuda"))
            said = t.launched(*self.args(), of_rank={0: {"LOCAL_RANK": "0"}, 1: {"LOCAL_RANK": "1"}}, LOGITSPEC_RANKS_DEVICE="cuda", **GPU)
            self.assertEqual(said[0][1], 1)
            self.assertRegex(said[0][0][1], r"rank 1 \(.*\): there is no such device")
            for env, text in (({"LOGITSPEC_RANKS_DEVICE": "gpu"}, "must be cpu, cuda or cuda:N"),
                              ({"LOGITSPEC_RANKS_DEVICE": "cuda"}, "number of this rank's GPU in LOCAL_RANK")):
                for (_, err), code in t.launched(*self.args(), **env, **GPU):
                    self.assertEqual((code, err.count("\n")), (2, 1), err)
                    self.assertIn(text, err)
            for (_, err), code in t.launched(*self.args("--device", "cuda"), LOGITSPEC_RANKS_TIMEOUT="3", **GPU)[:1]:
                self.assertEqual(code, 2)
                self.assertIn("LOGITSPEC_RANKS_DEVICE", err)
        finally:
            t.doCleanups()

    @without_sanitizers
    def test_a_lost_rank_is_named(self):
        t = test_ranks.Ranks()
        t.places = self.tmp.name
        try:
            p = t.start("generate", "--model", self.model, "--raw", "--prompt", CAT, "--max-tokens", "2000", "--devices", "0,0", **GPU)
            (other,) = test_ranks.wait_for(lambda: test_ranks.children(p.pid))
            p.stdout.read(1)  # of the text
            os.kill(other, signal.SIGKILL)
            _, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 1, err)
            self.assertIn("rank 1 of 2 ended by signal 9 (Killed)", err)
        finally:
            t.doCleanups()

    def test_what_cannot_be(self):
        for args, env, text in ((["--devices", "0,1"], {}, "rank 1 on cuda:1: there is only 1 GPU"),
                                (["--devices", "0,cpu"], {}, "CPUs and GPUs cannot share"),
                                (["--devices", "cuda:0"], {}, "use --device cuda:0 instead"),
                                (["--devices", "0,0", "--device", "cpu"], {}, "different kinds"),
                                (["--devices", "0,0", "--dtype", "f32"], {}, "dtype 'f32' does not run on a GPU"),
                                (["--devices", "0,0"], {"LOGITSPEC_EMULATED_MEMORY": "1000000"}, "rank 0 on cuda:0: a rank's part of the model needs"),
                                (["--devices", "0,0"], {"LOGITSPEC_EMULATED_ABSENT": "no driver"}, "ranks cannot use GPUs: no driver")):
            r = run(*self.args(*args), env={**GPU, **env})
            self.assertNotEqual(r.returncode, 0, args)
            self.assertEqual((r.stdout, r.stderr.count("\n")), ("", 1), r.stderr)
            self.assertIn(text, r.stderr)


if __name__ == "__main__":
    unittest.main()
