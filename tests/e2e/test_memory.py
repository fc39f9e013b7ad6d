"""Memory runs out: the conversation is saved, the terminal is whole, and the real standard error says what happened. A model
that does not fit is refused before its weights are read."""
import errno
import glob
import json
import math
import os
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

from exactness import bits_are_equal, tokens_are_equal
from program import BUILD, ENV, PROGRAM, ROOT, Screen, run, without_sanitizers
from serving import Server
from test_folders import folder

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import folders  # noqa: E402
import tiny  # noqa: E402

INJECT = os.path.join(BUILD, "tests", "inject.so")


def process_with(argument):
    """The number of the program that was started with it."""
    for pid in subprocess.run(["pgrep", "-f", argument], capture_output=True, text=True, check=False).stdout.split():
        try:
            if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(PROGRAM):
                return int(pid)
        except OSError:
            pass
    raise AssertionError("the program does not run")


@without_sanitizers  # they take address space of their own, and end the program themselves
class SuddenEnds(unittest.TestCase):
    def saved(self, folder, turn):
        """The conversation that was rescued, which holds that turn."""
        found = glob.glob(f"{folder}/logitspec/conversation-*.jsonl.zst")
        self.assertEqual(len(found), 1)
        told = run("inspect", found[0], "--turn", str(turn), "--step", "0")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        return found[0]

    def test_a_library_that_aborts(self):
        """std::terminate and failed assertions end in this signal."""
        with tempfile.TemporaryDirectory() as d:
            with Screen("--model", "script", "--max-tokens", "40", cols=120, rows=36, env={"XDG_STATE_HOME": d}) as s:
                s.wait("READY")
                s.type("One fish")
                s.keys("Enter")
                s.wait("› One fish", "40 tokens", "READY")
                s.signal("ABRT")
                text = s.wait("exit=134", "a library ended the program; the conversation was saved", "echo=1")
            self.assertNotIn("Logits", text)
            self.saved(d, 1)

    @unittest.skipUnless(os.path.exists(INJECT), "needs:a machine that can refuse threads")
    def test_threads_that_the_system_refuses(self):
        """From the n-th on, whoever asks for it: one line and exit code 1."""
        with tempfile.TemporaryDirectory() as d:
            model, refused = folder(d, "llama3", "sp_llama.model"), 0
            for command, said in ((["generate", "--prompt", "ab"], b""), (["chat", "--plain"], b"ab\n")):
                for n in range(1, 9):
                    with open(d + "/state", "wb") as f:
                        f.write(bytes(4096))
                    env = dict(ENV, LD_PRELOAD=INJECT, TORTURE_KIND="thread", TORTURE_N=str(n), TORTURE_TIMES="0",
                               TORTURE_ERROR=str(errno.EAGAIN), TORTURE_STATE=d + "/state")
                    r = subprocess.run([PROGRAM, *command, "--raw", "--max-tokens", "4", "--model", model], input=said, env=env,
                                       capture_output=True, timeout=60, check=False)
                    errors = r.stderr.decode()
                    self.assertIn(r.returncode, (0, 1), (n, errors))
                    if r.returncode:
                        self.assertRegex(errors, r"logitspec: [^\n]*(thread|library)[^\n]*\n$")
                    refused += "the system allows only 1 of 2 threads" in errors
            self.assertGreater(refused, 1)

    def test_a_conversation_outlives_the_program(self):
        with tempfile.TemporaryDirectory() as d:
            # one heap: what each thread has reserved for its own would count as taken already
            state = {"XDG_STATE_HOME": d, "MALLOC_ARENA_MAX": "1"}
            with Screen("--model", "script", "--max-tokens", "40", "--trace", f"{d}/trace.jsonl", cols=120, rows=36, env=state) as s:
                s.wait("READY")
                for prompt in ("One fish", "two fish"):
                    s.type(prompt)
                    s.keys("Enter")
                    s.wait("› " + prompt, "40 tokens", "READY")
                s.keys("Escape")
                for setting in ("decode.max_tokens=100000", "decode.method=plain"):
                    s.type(":set " + setting)
                    s.keys("Enter")
                    s.wait(setting)
                pid = process_with(f"{d}/trace.jsonl")
                with open(f"/proc/{pid}/statm", encoding="ascii") as f:
                    now = int(f.read().split()[0]) * resource.getpagesize()
                resource.prlimit(pid, resource.RLIMIT_AS, (now, now))
                s.keys("p")
                s.type("and more than fits")
                s.keys("Enter")
                text = s.wait("exit=1", "out of memory", "the conversation was saved", "echo=1", seconds=60)
            self.assertNotIn("Logits", text)  # the screen is gone
            saved = self.saved(d, 2)
            with Screen("--model", "script", "--max-tokens", "40", cols=120, rows=36, env=state) as s:
                s.wait("READY")
                s.keys("Escape")
                s.type(f":load {saved}")
                s.keys("Enter")
                s.wait(" turns: the next prompt continues it")
                s.keys("Escape", "g")  # the last turn may be long; loading gave the keys to the prompt
                s.wait("› One fish", "› two fish")


def mixture(path, experts, d, layers=1, filled=True):
    """gpt-oss with so many experts of d x d in bf16, with random weights, or in a file with holes."""
    n, r = tiny.VOCAB, random.Random(3)
    config = tiny.config_of("gpt_oss") | {"hidden_size": d, "intermediate_size": d, "num_hidden_layers": layers, "num_local_experts": experts}
    layer = {"input_layernorm.weight": (d,), "post_attention_layernorm.weight": (d,), "self_attn.sinks": (4,), "mlp.router.weight": (experts, d),
             "mlp.router.bias": (experts,), "mlp.experts.gate_up_proj": (experts, d, 2 * d), "mlp.experts.gate_up_proj_bias": (experts, 2 * d),
             "mlp.experts.down_proj": (experts, d, d), "mlp.experts.down_proj_bias": (experts, d), "self_attn.o_proj.weight": (d, 128),
             "self_attn.o_proj.bias": (d,), **{f"self_attn.{p}_proj.weight": (w, d) for p, w in (("q", 128), ("k", 64), ("v", 64))},
             **{f"self_attn.{p}_proj.bias": (w,) for p, w in (("q", 128), ("k", 64), ("v", 64))}}
    shapes = {"model.embed_tokens.weight": (n, d), "model.norm.weight": (d,), "lm_head.weight": (n, d),
              **{f"model.layers.{i}.{k}": v for i in range(layers) for k, v in layer.items()}}
    header, at = {}, 0
    for key, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[key] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    os.makedirs(path)
    text = json.dumps(header).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for key, shape in shapes.items() if filled else ():
            low, high = r.randbytes(math.prod(shape)), r.randbytes(math.prod(shape)).translate(folders.SIGNS)
            f.write(b"\x80\x3f" * len(low) if "norm" in key else b"".join(bytes(pair) for pair in zip(low, high)))
        f.truncate(8 + len(text) + at)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    folders.tokenizer(path, n)
    return path


class TooLarge(unittest.TestCase):
    def test_a_model_that_does_not_fit(self):
        """In one line, with what takes the memory and what to do, before weights are read."""
        free = int(next(c for c in json.loads(run("doctor", "--model", "script", "--json").stdout) if c["check"] == "program")["free_bytes"])
        each = 3 * 16384 * 16384 * 2
        with tempfile.TemporaryDirectory() as d:
            for name, share in ("much", 8), ("more", 1.5):
                experts = min(int(share * free / each) + 1, 1024)
                if experts * each < share * free:
                    self.skipTest("needs:a machine with less memory")
                path = mixture(os.path.join(d, name), experts, 16384, filled=False)
                said = run("models", "info", path).stdout
                self.assertRegex(said, rf"\nexperts +[\d.]+ GB of these weights \(as in the file\); a token takes 3 of {experts}\n")
                advice = re.search(r"\nhere +(the model needs about .*use --expert-memory \d+) ", said)
                self.assertTrue(advice, said)
                checks = json.loads(run("doctor", "--model", path, "--device", "cpu", "--json").stdout)
                context = next(c for c in checks if c["check"] == "context")
                self.assertFalse(context["ok"])
                numbers = [re.sub(r"only \d+ MiB|memory \d+", "", text) for text in (advice[1], context["detail"])]
                self.assertTrue(numbers[1].startswith(numbers[0]), numbers)  # one advice, whoever is asked
                facts = json.loads(run("models", "info", path, "--json").stdout)["model"]
                self.assertEqual((facts["expert_bytes"] // each, facts["fits"]), (experts, False))
                for command in (["generate", "--prompt", "ab"], ["chat", "--plain"], ["bench", "forward"]):
                    r = run(*command, "--model", path, "--raw" if command[0] != "bench" else "--quiet", timeout=60)
                    self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1), (command, r.stderr))
                    numbers = re.search(r"the model needs about (\d+) MiB of memory \(weights (\d+), of which experts (\d+); 512 tokens of context \d+\), "
                                        r"but only \d+ MiB are free: use --expert-memory (\d+) \(experts are then read from a file\)\n", r.stderr)
                    self.assertTrue(numbers, r.stderr)
                    self.assertGreaterEqual(int(numbers[3]), experts * each >> 20)
                    self.assertLess(int(numbers[1]), (experts * each >> 20) * 1.01 + 100)


class SomeExperts(unittest.TestCase):
    """4 layers of 12 experts of 0.375 MiB, of which 5 MiB are in memory (those of a layer are 4.5)."""
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.path = mixture(cls.tmp.name + "/mixture", 12, 256, layers=4)

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def test_no_bit_depends_on_it(self):
        prompt, text = "abcabcabdabcabcab", {}
        for mib in 0, 5, 9, 100:
            model = ("--model", self.path, "--raw", "--context", "256", "--expert-memory", str(mib), "--threads", "3")
            tokens_are_equal(model, None, "f32", ["--temperature", "0.8", "--seed", "4"], prompt, 24, ("logitspec:13", "suffix:5"))
            self.assertTrue(bits_are_equal(model, None, "f32", [], prompt, 24, ("logitspec:13",)))
            trace = self.tmp.name + "/t.jsonl"
            r = run("generate", *model, "--prompt", prompt, "--max-tokens", "40", "--max-rows", "4", "--seed", "1", "--temperature", "0.9", "--trace", trace, "--json")
            text[mib] = json.loads(r.stdout)["output_tokens"]
            with open(trace, encoding="utf-8") as f:
                steps = [s for s in map(json.loads, f) if s["type"] == "step"]
            took, read = (sum(s.get(w, 0) for s in steps) for w in ("experts", "experts_read"))
            self.assertEqual({"experts_read" in s for s in steps if "experts" in s}, {mib > 0})
            self.assertTrue({0: read == 0, 5: 0.5 * took < read < took, 9: 0.2 * took < read, 100: read < 0.2 * took}[mib], (mib, took, read))
            report = run("report", trace).stdout
            self.assertEqual("| experts in memory |" in report, mib > 0)
        self.assertEqual(len({tuple(t) for t in text.values()}), 1)

    def test_the_screen_has_the_rate(self):
        with Screen("--model", self.path, "--raw", "--max-tokens", "20", "--expert-memory", "9", cols=200, rows=60) as s:
            s.wait("READY")
            s.type("abcabc")
            s.keys("Enter")
            s.wait("READY", "were in memory")

    def test_a_read_that_fails(self):
        """The request ends in one line that says why; the next one is answered as the first was."""
        ask = {"prompt": "abcabcabdabcabcab", "max_tokens": 20, "temperature": 0}
        with Server("--expert-memory", "5", "--fresh", model=self.path) as s:
            status, _, before = s.ask("/v1/completions", ask)
            self.assertEqual(status, 200, before)
            file = next(f for f in glob.glob(f"/proc/{s.process.pid}/fd/*") if "/experts-" in os.readlink(f))
            self.assertRegex(os.readlink(file), r"/logitspec/experts-\w{6} \(deleted\)$")
            with open(file, "r+b") as f:
                whole = f.read()
                self.assertEqual(len(whole), 4 * 12 * 3 * 256 * 256 * 2)
                for damage, why in (lambda: f.truncate(0), "the file is shorter than it was"), \
                        (lambda: [f.truncate(0), f.truncate(len(whole))], "it has other bytes than were written"):
                    damage()
                    f.flush()
                    status, _, answer = s.ask("/v1/completions", ask)
                    self.assertEqual(status, 500)
                    self.assertRegex(json.dumps(answer), f"an expert cannot be read back from the file in [^:\n]+: {why}; the step was undone")
                    f.seek(0)
                    f.write(whole)
                    f.flush()
                    status, _, again = s.ask("/v1/completions", ask)
                    self.assertEqual((status, again["choices"]), (200, before["choices"]))

    def test_what_is_refused(self):
        for args, why in (("--expert-memory", "4"), r"--expert-memory must be at least 5 MiB for this model: a prompt may take all experts of a layer"), \
                (("--expert-memory", "5", "--devices", "2"), r"--expert-memory is not supported with ranks: omit it, or the ranks"):
            r = run("generate", "--model", self.path, "--raw", "--prompt", "ab", *args)
            self.assertEqual((r.returncode > 0, r.stdout, r.stderr.count("\n")), (True, "", 1), r.stderr)
            self.assertRegex(r.stderr, why)
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/logitspec", "w", encoding="utf-8") as f:
                f.write("in the way")
            r = run("generate", "--model", self.path, "--raw", "--prompt", "ab", "--expert-memory", "5", env={"XDG_CACHE_HOME": d})
            self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1), r.stderr)
            self.assertIn(f"--expert-memory needs a file in {d}/logitspec: Not a directory", r.stderr)
        small = subprocess.run(["bash", "-c", 'ulimit -f 4096; trap "" XFSZ; exec "$@"', "-", PROGRAM, "generate", "--model", self.path, "--raw", "--prompt", "ab",
                                "--expert-memory", "5"], env=ENV, capture_output=True, text=True, check=False)
        self.assertEqual((small.returncode, small.stdout), (1, ""))
        self.assertRegex(small.stderr, r"\Alogitspec: [^\n]*the experts' file in [^\n]+ cannot be written \(after [34] MiB\): File too large\n\Z")


if __name__ == "__main__":
    unittest.main()
