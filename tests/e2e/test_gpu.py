"""The program on a GPU, which is emulated here (tests/gpu/emulation.h): tiny models, whole ways through it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import test_folders
import tiny
from program import BUILD, ROOT, run, without_sanitizers
from test_folders import folder

EMULATED = os.path.join(BUILD, "tests", "liblstorch_emulated.so")
REAL = os.path.join(ROOT, "build", "liblstorch_cuda.so")
CAT = "The cat sat on the mat. The cat sat on the mat. The cat"


PLANS = os.path.join(ROOT, "tests", "gpu", "plans")


def check(*args):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tests", "gpu", "check.py"), "--emulated", *args],
                          capture_output=True, text=True, timeout=400)


def gpu(*args, **env):
    return run(*args, env={"LOGITSPEC_LSTORCH_CUDA": EMULATED, **env})


@unittest.skipUnless(os.path.exists(EMULATED), "needs:emulated GPU library")
class Gpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.model = folder(cls.tmp.name, "qwen3", "qwen2.json")

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def answer(self, *args):
        r = gpu("generate", "--model", self.model, "--raw", "--prompt", CAT, "--max-tokens", "32", "--json", *args)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return json.loads(r.stdout)

    def test_every_method_says_what_plain_decoding_says(self):
        for sampling in ([], ["--temperature", "0.9", "--seed", "5", "--top-p", "0.9"]):
            plain = self.answer("--device", "cuda", "--method", "plain", *sampling)
            self.assertEqual([plain[k] for k in ("device", "dtype", "exact")], ["cuda", "bf16", True])
            for method in ("logitspec",) if sampling else ("logitspec", "logitspec-paper", "pld", "recycle"):
                got = self.answer("--device", "cuda", "--method", method, "--max-rows", "16", *sampling)
                self.assertEqual(got["output_tokens"], plain["output_tokens"])
                if not sampling:
                    self.assertLess(got["steps"], 32)  # something was accepted

    def test_auto_takes_the_gpu_where_one_can_be_used(self):
        self.assertEqual(self.answer("--max-tokens", "2")["device"], "cuda")
        self.assertEqual(self.answer("--max-tokens", "2", "--dtype", "f32")["device"], "cpu")
        self.assertEqual(self.answer("--max-tokens", "2", "--device", "cpu")["device"], "cpu")
        r = gpu("generate", "--model", self.model, "--prompt", "x", "--max-tokens", "2", "--json",
                LOGITSPEC_EMULATED_MEMORY="1000000")  # too small for anything: the CPU
        self.assertEqual(json.loads(r.stdout)["device"], "cpu")

    def mixture(self, form=None):
        """Mixtral; form: of one expert's gate and up in its last layer, where others are f32."""
        path = folder(self.tmp.name, "mixtral", "qwen2.json")
        tiny.BASE["vocab_size"] = test_folders.ROWS
        own = [(*t, form) if form and ".2.block_sparse_moe.experts.4.w" in t[0] and "w2" not in t[0] else t for t in tiny.tensors_of("mixtral")]
        tiny.BASE["vocab_size"] = tiny.VOCAB
        if form:
            tiny.write_safetensors(os.path.join(path, "model.safetensors"), tiny.F32, own)
        return path

    def test_experts_of_several_formats_are_for_the_cpu(self):
        """A line says so before weights are read; as one format they run on the GPU."""
        path, why = self.mixture(tiny.F16), "the experts of layer 2 have weights of several formats, which a GPU does not read at once"

        def answer(*args):
            return gpu("generate", "--model", path, "--raw", "--prompt", CAT, "--max-tokens", "3", *args)
        self.assertEqual(json.loads(answer("--json").stdout)["device"], "cpu")
        r = answer()
        self.assertEqual((r.returncode, r.stderr.count(why)), (0, 1), r.stderr)
        self.assertIn("the model runs on the CPU: " + why, r.stderr)
        for args, what in (["--device", "cuda"], "use --device cpu"), (["--devices", "0,0"], "use ranks on CPUs"):
            r = answer(*args)
            self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1), r.stderr)
            self.assertIn(why, r.stderr)
            self.assertIn(what, r.stderr)
        checks = json.loads(gpu("doctor", "--model", path, "--json").stdout)
        self.assertIn("runs on cpu: " + why, next(c for c in checks if c["check"] == "device")["detail"])
        r = answer("--weights", "bf16", "--json")
        self.assertEqual((r.returncode, r.stderr, json.loads(r.stdout)["device"]), (0, "", "cuda"))

    def test_a_trace_has_the_time_on_the_gpu(self):
        trace = os.path.join(self.tmp.name, "gpu.jsonl")
        self.answer("--device", "cuda", "--trace", trace)
        with open(trace, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        steps = [x for x in lines if x["type"] == "step" and x["forward"]]
        self.assertEqual(lines[0]["backend"]["device"], "cuda")
        for step in steps:
            self.assertTrue(0 < step["us"]["device"] <= step["us"]["forward"])
        self.assertIn("on the GPU", run("inspect", trace, "--step", "0").stdout)

    def test_what_cannot_be_is_one_line(self):
        for args, env, want in [
                (["--device", "cuda:1"], {}, "there is only 1 GPU"),
                (["--device", "cuda", "--dtype", "i8"], {}, "dtype 'i8' does not run on a GPU"),
                (["--device", "cuda"], {"LOGITSPEC_EMULATED_MEMORY": "1000000"}, "MiB of GPU memory"),
                (["--device", "cuda"], {"LOGITSPEC_EMULATED_ABSENT": "the driver is asleep"}, "cannot be used: the driver is asleep"),
                (["--device", "cuda"], {"LOGITSPEC_LSTORCH_CUDA": "/nowhere.so"}, "make cuda"),
                (["--device", "gpu"], {}, "expected one of auto, cpu, cuda")]:
            r = gpu("generate", "--model", self.model, "--prompt", "x", *args, **env)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn(want, r.stderr)
            self.assertEqual(r.stderr.count("\n"), 1, r.stderr)

    def test_doctor_says_whether_and_why(self):
        def lines(*args, **env):
            r = gpu("doctor", "--model", self.model, "--json", *args, **env)
            return {c["check"]: c for c in json.loads(r.stdout)}, r.returncode
        checks, code = lines()
        self.assertEqual((code, checks["cuda:0"]["ok"]), (0, True))
        self.assertNotIn("CUDA_ARCH", checks["cuda:0"]["detail"])
        checks, code = lines(LOGITSPEC_EMULATED_FOREIGN="1")
        self.assertEqual((code, checks["cuda:0"]["ok"]), (0, True))
        self.assertIn("make cuda CUDA_ARCH=all", checks["cuda:0"]["detail"])
        self.assertIn("runs on cuda: the model fits", checks["device"]["detail"])
        checks, code = lines(LOGITSPEC_EMULATED_ABSENT="the driver is asleep")
        self.assertEqual((code, checks["gpu"]["detail"]), (0, "the driver is asleep"))
        self.assertIn("runs on cpu: the driver is asleep", checks["device"]["detail"])
        checks, code = lines("--device", "cuda", LOGITSPEC_EMULATED_ABSENT="the driver is asleep")
        self.assertEqual((code, checks["device"]["ok"]), (1, False))
        checks, code = lines("--dtype", "f32")
        self.assertIn("runs on cpu: dtype f32 is CPU-only", checks["device"]["detail"])

    def test_what_is_planned_is_what_is_used(self):
        """As much memory as the plan of `doctor --device-model` says is enough, and hardly less is."""
        def plan(model):
            r = gpu("doctor", "--model", model, "--context", "500", "--device-model", "h100", "--json")
            return next(c for c in json.loads(r.stdout) if c["check"] == "device-model")

        def answer(model, memory):
            return gpu("generate", "--model", model, "--device", "cuda", "--context", "500", "--raw", "--prompt", CAT,
                       "--max-tokens", "8", "--quiet", LOGITSPEC_EMULATED_MEMORY=str(memory))
        for model in self.model, folder(self.tmp.name, "qwen2_moe", "qwen2.json"):
            p = plan(model)
            need = p["weight_bytes"] + p["session_bytes"] + p["kv_bytes"]
            r = answer(model, need)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            r = answer(model, need - (6 << 20))
            self.assertEqual((r.returncode, "MiB of GPU memory" in r.stderr), (1, True), r.stderr)

    def test_a_step_on_paper(self):
        for card in ("a100", "h100", "h200", "3090", "4090"):
            r = gpu("doctor", "--model", self.model, "--device-model", card)
            self.assertEqual(r.returncode, 0)
            self.assertIn("Estimate, not measured", r.stdout)
            self.assertRegex(r.stdout, r"\ntotal +\d+ +\d+   x\d\.\d\d\n")
            o = next(c for c in json.loads(gpu("doctor", "--model", self.model, "--device-model", card, "--json").stdout)
                     if c["check"] == "device-model")
            self.assertAlmostEqual(o["us_1"], sum(k["rows_1"]["us"] for k in o["kernels"]), delta=1e-3 * o["us_1"])
        self.assertNotIn("experts", o)
        path = self.mixture()  # 3 of 6 experts, 2 layers of them have gate and up of 2 x 160 x 64, down of 64 x 160
        r = gpu("doctor", "--model", path, "--device-model", "h100")
        for rows, experts in (1, "3.0"), (8, "6.0"), (64, "6.0"):
            self.assertRegex(r.stdout, rf"\n +{rows} +{experts} of +6 +\d+ +\d+   x\d\.\d\d\n")
        self.assertIn("each row takes its k of E experts at random", r.stdout)
        self.assertIn("Trees of real text take fewer", r.stdout)
        o = next(c for c in json.loads(gpu("doctor", "--model", path, "--device-model", "h100", "--json").stdout) if c["check"] == "device-model")
        each = 3 * 3 * 160 * 64 * 2  # of all layers, as bf16
        for e, rows in zip(o["experts"], (1, 8, 64)):
            self.assertEqual(e["rows"], rows)
            self.assertAlmostEqual(e["distinct_at_random"], 6 * (1 - 0.5 ** rows), delta=1e-4)
            self.assertAlmostEqual(e["bytes"], e["distinct_at_random"] * each, delta=1e-3 * e["bytes"])
        self.assertEqual([o["us_1"], o["us_64"]], [o["experts"][0]["us"], o["experts"][2]["us"]])
        r = gpu("doctor", "--model", self.model, "--device-model", "gtx")
        self.assertEqual(r.returncode, 1)
        self.assertIn("--device-model 'gtx' is unknown; expected one of a100, h100, h200, 3090, 4090", r.stdout)

    def test_a_conversation_on_the_screen(self):
        script = os.path.join(self.tmp.name, "talk.script")
        with open(script, "w", encoding="utf-8") as f:
            f.write("size 80x24\nwait READY\ntype the cat\nkey Enter\nwait 12 tokens\nwait READY\ntype the mat\nkey Enter\nwait READY\n")
        r = gpu("--model", self.model, "--device", "cuda", "--max-tokens", "12", "--max-rows", "8", "--script", script)
        self.assertEqual((r.returncode, r.stderr), (0, ""))


    @without_sanitizers  # it makes builds of its own
    def test_the_check_of_a_gpu(self):
        """`make gpu-check` from end to end, on tiny shapes: what is measured is written, and what is not is said."""
        first = os.path.join(self.tmp.name, "first")
        for out, steps, more in ((first, "build,copy,kernels,shapes", []),
                                 (self.tmp.name, "tests,exact,program,sanitizer,profile",
                                  ["--plan", os.path.join(PLANS, "lent.txt"), "--add", os.path.join(first, "gpu-check.json")])):
            r = check("--steps", steps, "--out", out, *more)
            self.assertEqual(r.returncode, 0, r.stderr)
        with open(os.path.join(self.tmp.name, "gpu-check.json"), encoding="utf-8") as f:
            report = json.load(f)
        self.assertTrue(report["emulated"])
        with open(os.path.join(self.tmp.name, "gpu-check.md"), encoding="utf-8") as f:
            text = f.read()
        for want in ("emulated", "bit for bit", "not measured", "| matmul gate, up | q4 | 64 |", "| matmul gate, up, large tiles | bf16 | 256 |", "in large tiles |", "temperature 1\n"):
            self.assertIn(want, text)

    def test_a_plan_whose_step_takes_too_long(self):
        """The next step has its own time, and what was measured before is kept."""
        plan = os.path.join(self.tmp.name, "plan.txt")
        with open(plan, "w", encoding="utf-8") as f:
            f.write("300 build\n1 shapes llama-3.1-8b bf16 # far too little\n\n60 copy\n")
        r = check("--plan", plan, "--out", self.tmp.name, "--tokens", "900")
        with open(os.path.join(self.tmp.name, "gpu-check.json"), encoding="utf-8") as f:
            states = {s["name"]: s["state"] for s in json.load(f)["steps"]}
        self.assertEqual(states["copy bandwidth"], "passed", r.stderr)
        with open(plan, "w", encoding="utf-8") as f:
            f.write("60 copy\nsixty copy\n")
        r = check("--plan", plan, "--out", self.tmp.name)
        self.assertNotEqual(r.returncode, 0)
        self.assertEqual(r.stderr.count("\n"), 1)
        self.assertIn("plan.txt:2: a line is SECONDS STEP [WORDS]", r.stderr)


@unittest.skipUnless(os.path.exists(REAL), "needs:nvcc: build/liblstorch_cuda.so is not built")
class Built(unittest.TestCase):
    """The library for real GPUs, where there is none."""

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_it_loads_and_says_what_is_missing(self):
        r = run("generate", "--device", "cuda", "--prompt", "x", env={"LOGITSPEC_LSTORCH_CUDA": REAL})
        self.assertEqual(r.returncode, 1)
        self.assertIn("no NVIDIA driver is loaded", r.stderr)
        self.assertEqual(r.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
