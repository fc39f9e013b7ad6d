"""What is very long, very large or very small for decoding. `make limits` (LOGITSPEC_LIMITS=1) takes the full lengths."""
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from program import ENV, HAS_ENGINE, PROGRAM, ROOT, SANITIZED, Screen, run

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import folders  # noqa: E402

LONG = bool(os.environ.get("LOGITSPEC_LIMITS"))
STEPS = 100_000 if LONG else 8_000
METHODS = "plain,logitspec,logitspec-paper,pld,suffix,recycle,cacheback,lookahead,logit-only,retrieval-only"
ALONG = 131_072


class Steps(unittest.TestCase):
    def test_a_conversation_of_many_steps(self):
        args = ["--model", "script", "--context", str(STEPS + 4096), "--max-tokens", str(STEPS), "--method", "plain",
                "--temperature", "0"]
        with Screen(*args, cols=120, rows=36) as s:
            s.wait("READY")
            pane = subprocess.run(s.tmux + ["display-message", "-p", "-t", "s", "#{pane_pid}"], capture_output=True, text=True,
                                  check=True).stdout.strip()
            with open(f"/proc/{pane}/task/{pane}/children", encoding="utf-8") as f:
                pid = f.read().split()[0]

            def kb():
                with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                    return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
            before = kb()
            s.type("five")  # its answer goes round
            s.keys("Enter")
            s.wait(f"step {STEPS - 2}-{STEPS - 1} ", "READY", seconds=300)  # the last one has no forward, and is seen with it
            grown = kb() - before
            s.keys("Escape")
            times = []
            for key, shown in (("g", f"{STEPS - 1} behind"), ("G", "follow"), ("w", "behind"), ("G", "follow"), ("{", "11 behind"),
                               ("[", "12 behind")):
                began = time.monotonic()
                s.keys(key)
                s.wait(shown, absent=("behind",) if shown == "follow" else (), seconds=20)
                times.append(time.monotonic() - began)
            s.keys("q")
            s.wait("exit=0")
        print(f"{STEPS} steps: {grown / STEPS * 1024:.0f} bytes a step, keys take {max(times) * 1e3:.0f} ms at most")
        if not SANITIZED:  # they keep what is freed for a while
            self.assertLess(grown * 1024 / STEPS, 4000)
        self.assertLess(statistics.median(times), 2)  # on a busy machine; a pass over all steps would be more

    def test_a_full_context_ends_every_method_alike(self):
        r = run("compare", "--model", "script", "--context", "700", "--max-tokens", "5000", "--methods", METHODS, "--temperature",
                "0.7", "--seed", "3", "--prompt", "One fish", "--json")
        o = json.loads(r.stdout)
        self.assertEqual((r.returncode, o["equal"], {x["finish_reason"] for x in o["runs"]}), (0, True, {"context"}))

    def test_prompts_of_special_tokens_only(self):
        for prompt in ("<|im_end|>", "<|im_start|><|im_end|>" * 50, "<|im_start|>" * 200):
            r = run("compare", "--model", "script", "--raw", "--prompt", prompt, "--max-tokens", "40", "--methods", METHODS,
                    "--max-rows", "8", "--temperature", "0.9", "--seed", "2", "--json")
            self.assertEqual((r.returncode, json.loads(r.stdout)["equal"]), (0, True), r.stderr)


@unittest.skipUnless(HAS_ENGINE, "needs:model")
class Sizes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.dir = cls.tmp.name

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def folder(self, name, **config):
        return folders.write(os.path.join(self.dir, name), **config)

    def prompt(self, n):
        path = os.path.join(self.dir, f"prompt-{n}")
        r = random.Random(n)
        with open(path, "w", encoding="utf-8") as f:
            f.write("".join(r.choice("abcdefg ") for _ in range(n)))
        return path

    def compare(self, path, *args):
        r = run("compare", "--model", path, "--raw", "--json", "--methods", METHODS, *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        o = json.loads(r.stdout)
        self.assertTrue(o["equal"] and o["exact"])
        return o

    def test_vocabularies_of_10_and_of_300000_in_one_layer(self):
        for n in (10, 300_000):
            path = self.folder(f"v{n}", vocab_size=n)
            for way in ([], ["--temperature", "1", "--top-k", "50", "--top-p", "0.95", "--seed", "5"]):
                o = self.compare(path, "--prompt", "abc abc abc", "--max-tokens", "8", "--max-rows", "5", *way)
                self.assertEqual(len(o["methods"]), 10)
            self.compare(path, "--prompt", "<s></s><s><s>", "--max-tokens", "6", "--max-rows", "5")  # only special tokens
            trace = os.path.join(self.dir, "t.jsonl")
            r = run("generate", "--model", path, "--raw", "--prompt", "abc", "--max-tokens", "4", "--alt", "8", "--trace", trace,
                    "--max-rows", "5")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(run("inspect", trace, "--step", "0").returncode, 0)
            self.assertEqual(run("replay", trace, "--cast", os.path.join(self.dir, "t.cast")).returncode, 0)

    def test_one_token_for_ever(self):
        """Steps late in the text cost what early ones did, and so does memory."""
        path = self.folder("ten", vocab_size=10, max_position_embeddings=65536)
        n = 30_000 if LONG else 3_000
        for method in METHODS.split(","):
            trace = os.path.join(self.dir, "t.jsonl")
            out = os.path.join(self.dir, "out.json")
            with open(out, "w", encoding="utf-8") as f, subprocess.Popen(
                    [PROGRAM, "generate", "--model", path, "--raw", "--prompt", "abc", "--max-tokens", str(n), "--method", method,
                     "--max-rows", "1" if method == "plain" else "3", "--trace", trace, "--trace-level", "steps", "--json"], env=ENV,
                    stdout=f) as p:
                kb = 0
                while p.poll() is None:
                    with open(f"/proc/{p.pid}/status", encoding="utf-8") as status:
                        kb = max([kb] + [int(x) for x in re.findall(r"VmHWM:\s+(\d+)", status.read())])
                    time.sleep(0.02)
            with open(out, encoding="utf-8") as f:
                tokens = json.load(f)["output_tokens"]
            self.assertEqual((p.returncode, len(tokens), len(set(tokens[10:]))), (0, n, 1))
            host, pool = [], 0
            with open(trace, encoding="utf-8") as f:
                for line in map(json.loads, f):
                    if line["type"] == "step" and line["forward"]:
                        host.append(line["us"]["total"] - line["us"]["forward"])
                        pool = max(pool, line["pool_size"])
            q = len(host) // 4
            early, late = statistics.median(host[:q]), statistics.median(host[-q:])
            print(f"{method}: {n} tokens, host {early:.0f} us a step early, {late:.0f} late; {pool} entries, {kb} KB")
            self.assertLess(late, 4 * early + 30)
            self.assertLess(pool, 3 * n + 1000)
            self.assertLess(kb, 600_000)  # libtorch takes half of it

    def test_a_prompt_of_128k_tokens(self):
        windowed = self.folder("windowed", vocab_size=300, max_position_embeddings=150_000, model_type="mistral",
                               sliding_window=256)
        prompt = self.prompt(ALONG)
        outputs = []
        for method in ("plain", "logitspec", "suffix") if LONG else ("plain", "logitspec"):
            r = run("generate", "--model", windowed, "--raw", "--prompt-file", prompt, "--max-tokens", "8", "--method", method,
                    "--dtype", "f32", "--max-rows", "4" if method != "plain" else "1", progress=True)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertRegex(r.stderr, r"(?m)^reading 131072 tokens \(32 MiB\) 0%$")  # before it begins
            outputs.append(r.stdout)
        self.assertEqual(len(set(outputs)), 1)
        r = run("generate", "--model", windowed, "--raw", "--prompt-file", prompt, "--context", "100000")
        self.assertEqual((r.returncode, r.stderr), (1, "logitspec: the prompt has 131072 tokens, but only 99999 of the "
                                                       "context's 100000 are free: shorten it or increase --context\n"))

    def test_reading_a_long_prompt_is_cancelled(self):
        full = self.folder("full", vocab_size=300, max_position_embeddings=150_000)  # attends to all: takes minutes
        prompt = self.prompt(ALONG)
        with subprocess.Popen([PROGRAM, "generate", "--model", full, "--raw", "--prompt-file", prompt, "--method", "plain"], env=ENV,
                              stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as p:
            try:
                self.assertTrue(any("reading 131072 tokens" in line for line in iter(p.stderr.readline, "")))
                p.send_signal(signal.SIGINT)
                self.assertEqual(p.wait(60), 130)
            finally:
                p.kill()  # else it would be waited for
        with Screen("--model", full, "--raw", "--dtype", "f32", "--prompt-file", prompt, "--max-tokens", "5", cols=120, rows=36) as s:
            s.wait("reading 131072 tokens (32 MiB)", seconds=60)
            s.keys("C-x")
            s.wait("READY", seconds=60)
            s.keys("C-u")
            s.type("abc")
            s.keys("Enter")
            s.wait("› abc", "5 tokens", "READY", seconds=60)
            s.keys("Escape", "Q")
            s.wait("exit=0")

    def test_a_context_that_the_machine_has_no_memory_for(self):
        fat = self.folder("fat", vocab_size=300, max_position_embeddings=1 << 21, num_hidden_layers=8, num_attention_heads=32,
                          num_key_value_heads=32, head_dim=256)
        r = run("generate", "--model", fat, "--raw", "--prompt", "abc", "--context", str(1 << 21), "--dtype", "f32")
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stderr.splitlines()[-1], "^logitspec: the model needs about 10486[0-9]{2} MiB of memory \\(weights [0-9]+; 2097152 "
                         "tokens of context 1048576\\), but only [0-9]+ MiB are free: use --context [0-9]+ or less$")


if __name__ == "__main__":
    unittest.main()
