"""`bench methods` and its files: numbers that add up, conventions, going on after an interruption, comparing two."""
import csv
import glob
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

from program import BUILD, ENV, PROGRAM, ROOT, Folder, needs_model, run, without_sanitizers

sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import folders  # noqa: E402
import peers  # noqa: E402

SCRIPT = ["--model", "script"]
PROMPTS = [{"question_id": i, "category": category, "turns": [f"One fish, {i} fish", "And then?"]}
           for i, category in enumerate(("writing", "math", "translation", "qa", "coding", "translation"))]


class Bench(Folder):
    def setUp(self):
        super().setUp()
        self.suite = self.write("suite.jsonl", "".join(json.dumps(p) + "\n" for p in PROMPTS))

    def bench(self, out, *more, methods="plain,logitspec:8,pld:4", code=0, suite=None):
        r = run("bench", "methods", *SCRIPT, "--suite", suite or self.suite, "--max-tokens", "40", "--methods", methods, "-q", "-o", self.path(out), *more)
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def test_numbers_add_up_in_every_form(self):
        self.bench("a.json")
        o = json.loads(self.read("a.json"))
        self.assertTrue(o["equal"] and o["complete"])
        runs = {(r["prompt"], r["method"]): r for r in o["runs"]}
        ar = {r["prompt"]: r for r in o["runs"] if r["method"] == "plain"}
        for m in o["methods"]:
            mine = [r for r in o["runs"] if r["method"] == m["method"]]
            self.assertEqual(len(mine), len(PROMPTS))
            for r in mine:
                self.assertEqual(r["emitted"], sum(r["lengths"]))
                self.assertEqual((r["emitted"], r["steps"]), tuple(sum(t[k] for t in r["turns"]) for k in ("emitted", "steps")))
                self.assertEqual([t["text"] for t in r["turns"]], [t["text"] for t in ar[r["prompt"]]["turns"]])
            time, plain = sum(r["decode_us"] for r in mine), sum(r["decode_us"] for r in ar.values())
            self.assertAlmostEqual(m["speedup"], plain / time, delta=2e-3 * m["speedup"])
            prefill, read = sum(r["prefill_ms"] for r in mine), sum(r["prefill_ms"] for r in ar.values())
            self.assertAlmostEqual(m["speedup_with_prompt"], (plain / 1e3 + read) / (time / 1e3 + prefill), delta=2e-3 * m["speedup_with_prompt"])

            def rate(rows, prompt):  # as evaluation/speed.py of Spec-Bench
                return sum(1e6 * r["emitted"] / (r["decode_us"] + 1e3 * prompt * r["prefill_ms"]) for r in rows) / len(rows)
            for key, prompt in (("spec_bench_speedup", 1), ("spec_bench_speedup_without_prompt", 0)):
                self.assertAlmostEqual(m[key], rate(mine, prompt) / rate(ar.values(), prompt), delta=2e-3 * m[key])
            kinds = {c["category"]: c for c in m["categories"]}  # what mt_bench has, once more in its own categories
            self.assertEqual([(k, c["prompts"]) for k, c in kinds.items()],
                             [("mt_bench", 3), ("writing", 1), ("math", 1), ("translation", 2), ("qa", 1), ("coding", 1)])
            self.assertEqual(kinds["mt_bench"]["emitted"], sum(kinds[k]["emitted"] for k in ("writing", "math", "coding")))
        for ending in ("md", "csv", "html"):
            self.assertEqual(run("bench", "show", self.path("a.json"), "-q", "-o", self.path("a." + ending)).returncode, 0)
        rows = list(csv.DictReader(io.StringIO(self.read("a.csv"))))
        self.assertEqual(len(rows), 3 * 7)
        for row in rows:
            m = next(m for m in o["methods"] if m["method"] == row["method"])
            part = m if row["category"] == "all" else next(c for c in m["categories"] if c["category"] == row["category"])
            self.assertEqual((int(row["emitted"]), int(row["steps"])), (part["emitted"], part["steps"]))
            self.assertAlmostEqual(float(row["mat"]), part["mat"], places=3)
        mat = f'{next(m for m in o["methods"] if m["method"] == "logitspec:8")["mat"]:.2f}'
        self.assertRegex(self.read("a.md"), rf"(?m)^\| logitspec:8 \| {mat} \|")
        self.assertIn(f"<td>{mat}</td>", self.read("a.html"))
        self.assertRegex(self.read("a.md"), r"(?m)^\| \.\.\. of mt_bench \| writing \| math \| coding \|$")
        self.assertRegex(run("bench", "show", self.path("a.json")).stdout, rf"(?m)^logitspec:8 +{mat} .* equal$")
        self.assertEqual(len(runs), 18)

    def test_answers_for_spec_bench(self):
        self.bench("a.json")
        r = run("bench", "show", self.path("a.json"), "-o", self.path("a.jsonl"))
        self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
        self.assertIn("holds one method", r.stderr)
        self.assertEqual(run("bench", "show", self.path("a.json"), "--methods", "pld:4", "-q", "-o", self.path("a.jsonl")).returncode, 0)
        answers = [json.loads(line) for line in self.read("a.jsonl").splitlines()]
        self.assertEqual([(a["question_id"], a["category"]) for a in answers], [(p["question_id"], p["category"]) for p in PROMPTS])
        for a, r in zip(answers, (r for r in json.loads(self.read("a.json"))["runs"] if r["method"] == "pld:4")):
            c = a["choices"][0]
            self.assertEqual(c["accept_lengths"], r["lengths"])
            self.assertEqual(c["new_tokens"], [t["emitted"] for t in r["turns"]])
            for wall, t in zip(c["wall_time"], r["turns"]):
                self.assertAlmostEqual(wall, (t["decode_ms"] + t["prefill_ms"]) / 1e3, places=6)

    def test_some_of_its_methods(self):
        self.bench("a.json")
        r = run("bench", "show", self.path("a.json"), "--methods", "pld:4")
        self.assertIn("speedup: over `plain`", r.stdout)
        self.assertRegex(r.stdout, r"(?m)^pld:4 .* equal$")
        for methods in ("", "plain,plain", "nonsense"):
            r = run("bench", "show", self.path("a.json"), "--methods", methods)
            self.assertIn(r.returncode, (1, 2))
            self.assertEqual((r.stdout, r.stderr.count("\n")), ("", 1))

    def test_fewer_prompts_turns_and_more_runs(self):
        self.bench("a.json", "--limit", "4", "--per-category", "1", "--turns", "1", "--repeat", "3")
        o = json.loads(self.read("a.json"))
        self.assertEqual([r["prompt"] for r in o["runs"] if r["method"] == "plain"], ["0", "2", "3"])
        self.assertTrue(all(len(r["turns"]) == 1 for r in o["runs"]))
        self.assertEqual(o["repeat"], 3)
        self.assertGreater(max(r["spread"] for r in o["runs"]), 0)
        self.bench("b.json", "--limit", "4", "--per-category", "1", "--turns", "1")
        once = json.loads(self.read("b.json"))
        self.assertEqual([(r["prompt"], r["method"], r["emitted"], r["steps"], r["lengths"]) for r in o["runs"]],
                         [(r["prompt"], r["method"], r["emitted"], r["steps"], r["lengths"]) for r in once["runs"]])

    def test_a_recording_is_none(self):
        self.assertEqual(run("generate", *SCRIPT, "--prompt", "x", "--max-tokens", "4", "-q", "--trace", self.path("t.jsonl")).returncode, 0)
        r = run("bench", "show", self.path("t.jsonl"))
        self.assertEqual((r.returncode, r.stderr), (1, f"logitspec: {self.path('t.jsonl')} is a recording, not a benchmark: "
                                                   "use 'logitspec report' or 'inspect'\n"))

    def test_an_interrupted_one_goes_on(self):
        command = [PROGRAM, "bench", "methods", "--model", "script:3", "--suite", self.suite, "--max-tokens", "60", "--methods", "plain,pld:4", "-q", "-o",
                   self.path("a.json")]
        for number in (signal.SIGINT, signal.SIGKILL):
            with subprocess.Popen(command + ["--resume"], env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
                done = 0
                while p.poll() is None and done < (1 if number == signal.SIGINT else 3):
                    try:
                        done = len(json.loads(self.read("a.json"))["runs"]) // 2
                    except (OSError, ValueError) as e:
                        self.assertIsInstance(e, OSError, "the file is not whole")
                p.send_signal(number)
            part = json.loads(self.read("a.json"))
            self.assertFalse(part["complete"])
        r = subprocess.run(command + ["--resume"], env=ENV, capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        whole = json.loads(self.read("a.json"))
        self.assertTrue(whole["complete"] and whole["equal"])
        self.assertEqual(whole["runs"][:len(part["runs"])], part["runs"])
        self.assertEqual(len(whole["runs"]), 2 * len(PROMPTS))
        self.assertEqual(len(whole["resumed"]), 2)
        self.assertIn(f"resumed after {whole['resumed'][0]} prompt", run("bench", "show", self.path("a.json")).stdout)
        before = self.read("a.json")
        self.assertEqual(subprocess.run(command + ["--resume"], env=ENV, capture_output=True).returncode, 0)  # nothing is left to do
        self.assertEqual(json.loads(self.read("a.json"))["runs"], json.loads(before)["runs"])
        for name, value in (("commit", "0"), ("threads", 99), ("memory", "0123456789abcdef")):
            self.write("b.json", json.dumps({**whole, "complete": False, "prompts": 99, "manifest": {**whole["manifest"], name: value}}))
            r = subprocess.run([*command[:-1], self.path("b.json"), "--resume"], env=ENV, capture_output=True, text=True)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
            self.assertIn("another program, model, arithmetic, machine, number of threads or file of bigrams", r.stderr)
        fewer = {**whole, "methods": whole["methods"][:1], "runs": whole["runs"][::2]}
        self.write("b.json", json.dumps(fewer))
        self.assertEqual(subprocess.run([*command[:-1], self.path("b.json"), "--resume"], env=ENV, capture_output=True).returncode, 1)
        r = subprocess.run(command + ["--resume", "--temperature", "1"], env=ENV, capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("other settings, methods or prompts", r.stderr)
        self.assertEqual(json.loads(self.read("a.json"))["runs"], json.loads(before)["runs"])

    def test_the_curve_of_a_manifest_repeats_its_trees(self):
        suite = self.write("one.jsonl", '{"prompt": "One fish, two fish. One"}\n')

        def trees(costs):
            self.bench("a.json", "--costs", costs, "--model", "script:mixture", methods="plain,logitspec", suite=suite)
            o = json.loads(self.read("a.json"))
            return o["manifest"]["costs"], [(r["lengths"], r["draft_verified"]) for r in o["runs"]]
        told, first = trees("1:10:8,64:30:60,expert:0.3")
        self.assertTrue(told.startswith("1:10:8,2:") and told.endswith(",expert:0.3"))
        self.assertEqual(trees(told), (told, first))
        told, by_rows = trees("1:10,64:30")
        self.assertTrue(told.startswith("1:10,2:") and "expert" not in told)
        self.assertNotEqual(by_rows, first)  # which follow the experts

    def test_what_is_left_out_is_named(self):
        suite = self.write("bad.jsonl", '{"prompt": "One fish"}\n{"prompt": \nnothing\n{"category": "x"}\n'
                           + json.dumps({"id": "long", "prompt": "x" * 3000}) + '\n{"prompt": "Two fish"}\n')
        r = self.bench("a.json", "--context", "512", suite=suite)
        self.assertEqual(re.findall(r"left out: .*?bad.jsonl:(\d)", r.stderr), ["2", "3", "4"])
        o = json.loads(self.read("a.json"))
        self.assertEqual([r["prompt"] for r in o["runs"][::3]], ["1", "6"])
        self.assertEqual(len(o["left_out"]), 4)
        self.assertIn("prompt long", o["left_out"][3])
        self.assertEqual(run("bench", "show", self.path("a.json")).stdout.count("left out: "), 4)
        self.bench("a.json", "--context", "512", "--resume", suite=suite)
        self.assertEqual(json.loads(self.read("a.json"))["left_out"], o["left_out"])
        r = self.bench("b.json", "--strict", suite=suite, code=1)
        self.assertIn("bad.jsonl:2", r.stderr)
        self.assertFalse(os.path.exists(self.path("b.json")))

    def test_two_are_compared(self):
        self.bench("a.json")
        o = json.loads(self.read("a.json"))
        for r in o["runs"]:  # a machine that is 1.25 times slower, and a method that is twice as fast there
            factor = 1.25 / (2 if r["method"] == "pld:4" else 1)
            r["decode_us"] *= factor
            r["against_us"] *= factor
            r["plain_us"] *= 1.25
        o["manifest"]["processor"] = "another"
        self.write("b.json", json.dumps(o))
        said = json.loads(run("bench", "diff", self.path("a.json"), self.path("b.json"), "--json").stdout)["methods"]
        by = {m["method"]: m for m in said}
        self.assertAlmostEqual(by["pld:4"]["tokens_per_s"]["ratio"], 1.6, places=4)
        self.assertAlmostEqual(by["pld:4"]["speedup"]["ratio"], 2, places=4)
        self.assertEqual((by["pld:4"]["speedup"]["verdict"], by["logitspec:8"]["tokens_per_s"]["verdict"]), ("faster", "slower"))
        self.assertIn("no difference", by["plain"]["speedup"]["verdict"])
        self.assertTrue(all(m["same_steps"] and m["prompts"] == len(PROMPTS) for m in said))
        text = run("bench", "diff", self.path("a.json"), self.path("b.json")).stdout
        self.assertRegex(text, r"(?m)^processor: .* \| another$")
        self.assertRegex(text, r"(?m)^pld:4 .* 1\.600 \(1\.600 - 1\.600\) +2\.000 \(2\.000 - 2\.000\) +faster$")
        for r in o["runs"]:
            r["prompt"] += "x"
        self.write("c.json", json.dumps(o))
        r = run("bench", "diff", self.path("a.json"), self.path("c.json"))
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("no prompt in common", r.stderr)

    def test_a_damaged_file_is_refused_by_name(self):
        self.bench("a.json", "--limit", "2")
        good, rng = json.loads(self.read("a.json")), random.Random(1)

        def damaged(v, depth=0):
            if isinstance(v, dict) and v and (depth < 2 or rng.random() < 0.8):
                key = rng.choice([k for k in v if k not in ("manifest", "methods")] or list(v))
                return {**v, key: damaged(v[key], depth + 1)}
            if isinstance(v, list) and v and rng.random() < 0.8:
                i = rng.randrange(len(v))
                return v[:i] + [damaged(v[i], depth + 1)] + v[i + 1:]
            return rng.choice([None, -1, 1e300, "x", [], {}, 2 ** 62, True])
        refused = 0
        for _ in range(60):
            self.write("b.json", json.dumps(damaged(good)))
            r = run("bench", "show", self.path("b.json"), "-q", "--json")
            self.assertIn(r.returncode, (0, 1))
            if r.returncode:
                self.assertEqual((r.stdout, r.stderr.count("\n")), ("", 1))
                self.assertIn("b.json", r.stderr)
                refused += 1
        self.assertGreater(refused, 20)
        text = self.read("a.json")
        for n in (0, 1, len(text) // 2):
            self.write("b.json", text[:n])
            self.assertEqual(run("bench", "show", self.path("b.json")).returncode, 1)

    def test_bad_input(self):
        for args, what in ((["nonsense"], "forward, methods, show, diff or limits"), (["show"], "takes one file"), (["show", "a", "--limit", "1"], "no flags of a suite"), (["diff", "a"], "takes two files"),
                           (["methods", "x"], "takes no file"), (["forward", "--suite", "x"], "takes no prompts"), (["--rows", "2,4"], "must include 1"),
                           (["--rows", "1,0"], "from 1 to 256"), (["--contexts", "64,x"], "--contexts"), (["--contexts", "1000000"], "exceeds the context"),
                           (["limits", "-o", "x.json"], "takes no -o"), (["forward", "--repeat", "2"], "no flags of a suite"),
                           (["methods", "--rows", "1"], "only 'bench forward'"), (["methods", "--prompt", "x", "--repeat", "0"], "--repeat"), (["methods", "--prompt", "x", "--limit", "-1"], "--limit"),
                           (["methods", "--prompt", "x", "--resume"], "-o FILE.json"), (["methods", "--prompt", "x", "-o", "a.txt"], "end in .json"),
                           (["show", "/nonexistent"], "cannot read"), (["show", os.path.join(ROOT, "README.md")], "README.md")):
            r = run("bench", *args, *SCRIPT)
            self.assertIn(r.returncode, (1, 2), args)
            self.assertEqual((r.stdout, r.stderr.count("\n")), ("", 1), (args, r.stderr))
            self.assertIn(what, r.stderr)


@needs_model
class OnTheModel(unittest.TestCase):
    def test_every_time_stands_beside_its_limit(self):
        limits = json.loads(run("bench", "limits", "--json", "--threads", "2").stdout)
        self.assertEqual(limits["threads"], 2)
        self.assertGreater(limits["read_gb_per_s"], 0.5)
        self.assertGreater(limits["f32_gmac_per_s"], 0.5)
        o = json.loads(run("bench", "--rows", "1,8", "--contexts", "128", "--json").stdout)
        m = o["manifest"]
        self.assertTrue(m["processor"] and m["dtype"] and len(m["sha256"]) == 64)
        self.assertGreater(m["weight_mb"], 50)
        self.assertAlmostEqual(m["row_mmac"], 134.5, delta=0.5)  # the default model's matrices
        one, eight = (next(c for c in o["results"] if c["rows"] == n) for n in (1, 8))
        reading = m["weight_mb"] / m["read_gb_per_s"]
        self.assertGreaterEqual(one["least_ms"], reading)
        self.assertGreaterEqual(eight["least_ms"], one["least_ms"])
        self.assertEqual(one["of_one_row"], 1)

    def test_the_limit_of_layers_with_a_window(self):
        """They read their window of a longer context, and no more."""
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(os.path.join(d, "m"))
            folders.write(os.path.join(d, "m"), model_type="mistral", sliding_window=8, vocab_size=300)
            o = json.loads(run("bench", "--model", os.path.join(d, "m"), "--rows", "1", "--contexts", "4,8,64", "--threads", "1", "--json").stdout)
            suite = os.path.join(d, "suite.jsonl")
            with open(suite, "w", encoding="utf-8") as f:
                f.write(json.dumps({"prompt": "the longest window that was ever seen here"}) + "\n")
            b = json.loads(run("bench", "methods", "--model", os.path.join(d, "m"), "--suite", suite, "--methods", "plain", "--raw", "--max-tokens", "12",
                               "--threads", "1", "--json").stdout)
        four, eight, many = (c["least_ms"] for c in o["results"] if c["rows"] == 1)
        self.assertLess(four, eight)
        self.assertEqual(eight, many)
        ran = b["runs"][0]
        self.assertGreater(ran["forwards"], 0)
        self.assertEqual(ran["context"], 8 * ran["forwards"])
        self.assertAlmostEqual(b["methods"][0]["of_limit"] * ran["decode_us"] * b["manifest"]["read_gb_per_s"],
                               1e3 * ran["forwards"] * (b["manifest"]["weight_mb"] + 8 * b["manifest"]["kv_kb"] / 1e3), delta=1)

    def test_the_harness(self):
        """make bench-smoke, from the suite to the report: a model, the same file as a second one, and a third that is not here."""
        file = os.path.join(ROOT, "models", "smollm2-135m-instruct.Q4_1.gguf")
        with tempfile.TemporaryDirectory() as d:
            def smoke(models):
                return subprocess.run([sys.executable, os.path.join(ROOT, "tests/bench/run.py"), "cpu"], capture_output=True, text=True,
                                      env={**ENV, "SMOKE": "1", "RESULTS": d, "SUITE": "", "MODELS": models, "LOGITSPEC_MODELS": os.path.join(d, "none")})
            self.assertIn("bench: MODELS: 'gemma-4' is neither a model of 'logitspec models list' nor a file", smoke("default,gemma-4").stderr)
            r = smoke("gemma-3-270m")
            self.assertEqual((r.returncode, r.stderr), (1, "bench: not here: `logitspec models fetch gemma-3-270m`\n"))
            r = smoke(f"default,{file},gemma-3-270m")
            self.assertEqual(r.returncode, 0, r.stderr)
            report = next(n for n in os.listdir(d) if n.endswith(".md"))
            second = report[:-3] + "-smollm2-135m-instruct-q4-1-gguf.json"
            self.assertEqual(json.loads(run("bench", "show", os.path.join(d, second), "--json").stdout)["manifest"]["model"], "smollm2-135m-instruct.Q4_1")
            with open(os.path.join(d, report), encoding="utf-8") as f:
                text = f.read()
            for part in ("By category", "Speedup as Spec-Bench has it", "Measured where", "By model", "Where drafting loses", "Forwards", "What was aimed at"):
                self.assertIn(f"## {part}\n", text)
            beside = text.split("## By model\n")[1].split("\n## ")[0]
            self.assertIn("|  | smollm2-135m-instruct | smollm2-135m-instruct.Q4_1.gguf | gemma-3-270m |", beside)
            self.assertIn("| text of all methods | equal | equal | not here: `logitspec models fetch gemma-3-270m` |", beside)
            of = {line.split(" | ")[0]: line.split(" | ")[1:] for line in beside.splitlines() if line.startswith("|")}
            self.assertEqual(of["| weights that a forward reads, MB"], ["96", "96", " |"])
            self.assertRegex(of["| 8 rows, ms"][1], r"^\d+\.\d\d \(x\d+\.\d\d, \d+%\)$")
            o = json.loads(run("bench", "show", os.path.join(d, report[:-3] + ".json"), "--json").stdout)
            self.assertTrue(o["equal"] and o["complete"])
            self.assertEqual([c["category"] for c in o["methods"][0]["categories"]], ["writing", "question", "math", "summary", "rewrite", "code"])
            ET.parse(os.path.join(d, report[:-3] + "-forwards.svg"))


class Peaks(unittest.TestCase):
    @unittest.skipUnless(shutil.which("objdump") and os.uname().machine == "x86_64", "needs:objdump on x86-64")
    @without_sanitizers
    def test_sums_stay_in_registers(self):
        """A sum that the compiler keeps in memory would halve what the machine reaches at most, and no limit would be one."""
        paths = glob.glob(os.path.join(BUILD, "obj", "src", "compute", "kernels", "kernels_*.o"))
        levels = [p for p in paths if re.search(r"kernels_(portable|avx\w+)\.o$", p)]
        self.assertEqual(len(levels), 6)
        for path in levels:
            code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
            peaks = [m.group(1) for m in re.finditer(r"^\w+ <(?:peak_f32|\w+_peak)>:\n(.*?)^\s*$", code, re.M | re.S)]
            self.assertEqual(len(peaks), 1 if re.search(r"(portable|avx512)\.o$", path) else 2)
            for body in peaks:
                self.assertGreater(body.count("mm"), 30)
                self.assertNotRegex(body, r"mm.*\(%r[sb]p|\(%r[sb]p.*mm", path)
            if path.endswith("bf16.o"):
                self.assertEqual(sorted(body.count("vdpbf16ps") for body in peaks), [0, 12])
            if path.endswith("avx2.o"):
                self.assertEqual(sorted(body.count("vpmaddubsw") for body in peaks), [0, 12])  # each sum multiplies


class FakePeer(peers.Peer):
    """Answers with the prompt's last words, or does what it is told by its settings."""

    def open(self, threads, settings):
        self.settings = settings
        if settings.get("refuses"):
            raise peers.Failed("it does not start")

    def answer(self, prompt, tokens):
        if self.settings.get("crashes") and "two" in prompt:
            raise peers.Failed("SIGSEGV, its last words: oh")
        return {"text": self.settings.get("adds", "") + prompt[-60:-30], "tokens": 10, "decode_ms": self.settings["ms"], "prefill_ms": 5}

    def close(self):
        pass


class Peers(unittest.TestCase):
    PROMPTS = [{"id": str(i), "category": "ab"[i % 2], "turns": [f"say {word}"]} for i, word in enumerate(("one", "two", "three"))]

    def wanted(self):
        return [FakePeer(name, "f", "", {}, choices) for name, choices in (
            ("f", [{"ms": 20}, {"ms": 10}, {"refuses": 1, "ms": 1}]), ("f other", [{"ms": 5, "adds": "!"}]), ("f crashes", [{"ms": 5, "crashes": 1}]),
            ("f refuses", [{"refuses": 1}]))]

    def result(self, wanted):
        return {"threads": 1, "tokens": 10, "missing": {}, "ours": [],
                "peers": {p.name: {"family": "f", "version": "1", "settings": None, "tried": {}, "failed": None, "runs": []} for p in wanted}}

    def test_the_fastest_settings_are_taken_and_failures_are_named(self):
        wanted, said, asked = self.wanted(), [], []
        result = self.result(wanted)
        peers.search(wanted, result, said.append, lambda r: None)
        self.assertEqual(result["peers"]["f"]["settings"]["ms"], 10)
        self.assertIn("it does not start", result["peers"]["f refuses"]["failed"])
        peers.measure(wanted, result, self.PROMPTS, lambda p: asked.append(p["id"]) or {"text": "say", "tokens": 10, "decode_ms": 2, "prefill_ms": 1},
                      said.append, lambda r: None)
        self.assertEqual(asked, ["0", "1", "2"])
        lines = peers.summary(result)
        self.assertAlmostEqual(lines["ours"]["tokens_per_s"], 5000)
        self.assertAlmostEqual(lines["f"]["tokens_per_s"], 1000)
        self.assertAlmostEqual(lines["f"]["with_prefill"], 1000 * 30 / 45)
        self.assertEqual((lines["f other"]["equal_to_plain"], lines["f other"]["compared_to_plain"]), (0, 3))
        self.assertIn("SIGSEGV", lines["f crashes"]["failed"])
        self.assertEqual(len(result["peers"]["f crashes"]["runs"]), 1)  # the others went on
        self.assertEqual(len(result["peers"]["f other"]["runs"]), 3)

    def test_a_difference_is_told_with_its_doubt(self):
        def runs(ms, repeat=1):
            return [{"id": f"{i} (run {n})", "prompt": str(i), "tokens": 10, "decode_ms": x * (1 + 9 * (n == 2)), "prefill_ms": 1}
                    for n in range(1, repeat + 1) for i, x in enumerate(ms)]
        base = runs([10, 11, 9, 10, 12, 8])
        self.assertEqual(peers.ratio_text(base, base), "1.00")
        self.assertRegex(peers.ratio_text(runs([5, 5.5, 4.5, 5, 6, 4]), base), r"^2\.00 \(2\.00 - 2\.00\)$")
        self.assertRegex(peers.ratio_text(runs([9, 12, 8, 11, 10, 9]), base), r"^1\.02 \(0\.\d\d - 1\.\d\d, no difference\)$")
        self.assertEqual(peers.ratio_text(runs([5, 5]), base), "2.10")  # two prompts tell no interval
        self.assertEqual(peers.ratio_text([], base), "")
        self.assertEqual(peers.medians(runs([10, 20], 3)), {"0": (10, 10), "1": (10, 20)})  # one run of three had other work beside it
        self.assertAlmostEqual(peers.rate(runs([10, 20], 3)), 1000 * 20 / 30)

    def test_an_interrupted_run_goes_on(self):
        wanted, saved = self.wanted()[:2], []
        result = self.result(wanted)
        peers.search(wanted, result, lambda t: None, lambda r: None)

        def dies(prompt):
            if prompt["id"] == "2":
                raise KeyboardInterrupt
            return {"text": "", "tokens": 1, "decode_ms": 1, "prefill_ms": 1}
        with self.assertRaises(KeyboardInterrupt):
            peers.measure(wanted, result, self.PROMPTS, dies, lambda t: None, lambda r: saved.append(json.dumps(r)))
        again, asked = json.loads(saved[-1]), []
        peers.measure(self.wanted()[:2], again, self.PROMPTS, lambda p: asked.append(p["id"]) or {"text": "", "tokens": 1, "decode_ms": 1, "prefill_ms": 1},
                      lambda t: None, lambda r: None)
        self.assertEqual(asked, ["2"])
        self.assertEqual([r["id"] for r in again["peers"]["f"]["runs"]], ["0", "1", "2"])


if __name__ == "__main__":
    unittest.main()
