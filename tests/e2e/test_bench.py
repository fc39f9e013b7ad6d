"""`bench methods` and its files: numbers that add up, conventions, going on after an interruption, comparing two."""
import csv
import io
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import unittest

from program import ENV, PROGRAM, ROOT, needs_model, run

SCRIPT = ["--model", "script"]
PROMPTS = [{"question_id": i, "category": category, "turns": [f"One fish, {i} fish", "And then?"]}
           for i, category in enumerate(("writing", "math", "translation", "qa", "coding", "translation"))]


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.suite = self.write("suite.jsonl", "".join(json.dumps(p) + "\n" for p in PROMPTS))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def bench(self, out, *more, methods="ar,logitspec:8,pld:4", code=0, suite=None):
        r = run("bench", "methods", *SCRIPT, "--suite", suite or self.suite, "--max-tokens", "40", "--methods", methods, "-q", "-o", self.path(out), *more)
        self.assertEqual(r.returncode, code, r.stderr)
        return r

    def test_numbers_add_up_in_every_form(self):
        self.bench("a.json")
        o = json.loads(self.read("a.json"))
        self.assertTrue(o["equal"] and o["complete"])
        runs = {(r["prompt"], r["method"]): r for r in o["runs"]}
        ar = {r["prompt"]: r for r in o["runs"] if r["method"] == "ar"}
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
            self.assertEqual([c["category"] for c in m["categories"]], ["mt_bench", "translation", "qa"])
            self.assertEqual([c["prompts"] for c in m["categories"]], [3, 2, 1])
        for ending in ("md", "csv", "html"):
            self.assertEqual(run("bench", "show", self.path("a.json"), "-q", "-o", self.path("a." + ending)).returncode, 0)
        rows = list(csv.DictReader(io.StringIO(self.read("a.csv"))))
        self.assertEqual(len(rows), 3 * 4)
        for row in rows:
            m = next(m for m in o["methods"] if m["method"] == row["method"])
            part = m if row["category"] == "all" else next(c for c in m["categories"] if c["category"] == row["category"])
            self.assertEqual((int(row["emitted"]), int(row["steps"])), (part["emitted"], part["steps"]))
            self.assertAlmostEqual(float(row["mat"]), part["mat"], places=3)
        mat = f'{next(m for m in o["methods"] if m["method"] == "logitspec:8")["mat"]:.2f}'
        self.assertRegex(self.read("a.md"), rf"(?m)^\| logitspec:8 \| {mat} \|")
        self.assertIn(f"<td>{mat}</td>", self.read("a.html"))
        self.assertRegex(run("bench", "show", self.path("a.json")).stdout, rf"(?m)^logitspec:8 +{mat} .* equal$")
        self.assertEqual(len(runs), 18)

    def test_answers_for_spec_bench(self):
        self.bench("a.json")
        r = run("bench", "show", self.path("a.json"), "-o", self.path("a.jsonl"))
        self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
        self.assertIn("of one method", r.stderr)
        self.assertEqual(run("bench", "show", self.path("a.json"), "--methods", "pld:4", "-q", "-o", self.path("a.jsonl")).returncode, 0)
        answers = [json.loads(line) for line in self.read("a.jsonl").splitlines()]
        self.assertEqual([(a["question_id"], a["category"]) for a in answers], [(p["question_id"], p["category"]) for p in PROMPTS])
        for a, r in zip(answers, (r for r in json.loads(self.read("a.json"))["runs"] if r["method"] == "pld:4")):
            c = a["choices"][0]
            self.assertEqual(c["accept_lengths"], r["lengths"])
            self.assertEqual(c["new_tokens"], [t["emitted"] for t in r["turns"]])
            for wall, t in zip(c["wall_time"], r["turns"]):
                self.assertAlmostEqual(wall, (t["decode_ms"] + t["prefill_ms"]) / 1e3, places=6)

    def test_fewer_prompts_turns_and_more_runs(self):
        self.bench("a.json", "--limit", "4", "--per-category", "1", "--turns", "1", "--repeat", "3")
        o = json.loads(self.read("a.json"))
        self.assertEqual([r["prompt"] for r in o["runs"] if r["method"] == "ar"], ["0", "2", "3"])
        self.assertTrue(all(len(r["turns"]) == 1 for r in o["runs"]))
        self.assertEqual(o["repeat"], 3)
        self.assertGreater(max(r["spread"] for r in o["runs"]), 0)
        self.bench("b.json", "--limit", "4", "--per-category", "1", "--turns", "1")
        once = json.loads(self.read("b.json"))
        self.assertEqual([(r["prompt"], r["method"], r["emitted"], r["steps"], r["lengths"]) for r in o["runs"]],
                         [(r["prompt"], r["method"], r["emitted"], r["steps"], r["lengths"]) for r in once["runs"]])

    def test_an_interrupted_one_goes_on(self):
        command = [PROGRAM, "bench", "methods", "--model", "script:3", "--suite", self.suite, "--max-tokens", "60", "--methods", "ar,pld:4", "-q", "-o",
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
        r = subprocess.run(command + ["--resume", "--temperature", "1"], env=ENV, capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("other settings, methods or prompts", r.stderr)
        self.assertEqual(json.loads(self.read("a.json"))["runs"], json.loads(before)["runs"])

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
        for r in o["runs"]:
            if r["method"] == "pld:4":
                r["decode_us"] /= 2
            if r["method"] == "logitspec:8":
                r["decode_us"] *= 1.25
        o["manifest"]["processor"] = "another"
        self.write("b.json", json.dumps(o))
        said = json.loads(run("bench", "diff", self.path("a.json"), self.path("b.json"), "--json").stdout)["methods"]
        by = {m["method"]: m for m in said}
        self.assertAlmostEqual(by["pld:4"]["ratio"], 2, places=4)
        self.assertEqual((by["pld:4"]["verdict"], by["logitspec:8"]["verdict"]), ("faster", "slower"))
        self.assertIn("no difference", by["ar"]["verdict"])
        self.assertTrue(all(m["same_steps"] and m["prompts"] == len(PROMPTS) for m in said))
        text = run("bench", "diff", self.path("a.json"), self.path("b.json")).stdout
        self.assertRegex(text, r"(?m)^processor: .* \| another$")
        self.assertRegex(text, r"(?m)^pld:4 .* 2\.000 +2\.000 - 2\.000 +faster$")
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
        for args, what in ((["nonsense"], "forward, methods, show, diff or limits"), (["show"], "takes one file"), (["diff", "a"], "takes two files"),
                           (["methods", "x"], "takes no file"), (["forward", "--suite", "x"], "takes no prompts"), (["--rows", "2,4"], "1 is missing"),
                           (["--rows", "1,0"], "from 1 to 256"), (["--contexts", "64,x"], "--contexts"), (["--contexts", "1000000"], "beyond the context"),
                           (["methods", "--prompt", "x", "--repeat", "0"], "--repeat"), (["methods", "--prompt", "x", "--limit", "-1"], "--limit"),
                           (["methods", "--prompt", "x", "--resume"], "-o FILE.json"), (["methods", "--prompt", "x", "-o", "a.txt"], "ends in .json"),
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


if __name__ == "__main__":
    unittest.main()
