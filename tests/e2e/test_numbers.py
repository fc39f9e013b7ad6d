"""One number, one definition: each is computed here once from the steps of a recording, and the screen, the report, inspect,
the JSON of generate, the recording's own totals and the simulation say the same."""
import json
import os
import re
import tempfile
import unittest

from program import run

METHODS = (("logitspec", "auto"), ("logitspec-paper", "16"), ("suffix", "8"), ("plain", "auto"))
PROMPTS = ("One fish, two", "def fib(n):\n")


def numbers(lines):
    """The definitions, from the steps alone; all that has a denominator is (part, whole)."""
    steps = [x for x in lines if x["type"] == "step"]
    emitted = sum(len(s["emitted"]) for s in steps)
    forwards = [s for s in steps if s["forward"]]
    drafted = [s for s in forwards if s["rows"] > 1]
    accepted = [len(s["emitted"]) - 1 for s in drafted]
    # an end that takes no forward costs plain decoding nothing
    known = [s for i, s in enumerate(steps) if s["ar_us"] or (i and steps[i - 1]["ar_us"] and not s["forward"])]
    # plain decoding takes a forward for each token but the one that ends the answer
    plain = [len(s["emitted"]) - (s["finish"] in ("eos", "length", "context")) for s in known]
    # as long as it was timed here; a step of one row is one of its forwards, and no step makes it slower than itself
    own = [s["us"]["total"] - s["us"]["draft"] for s in known]
    one = [o if s["forward"] and (s["rows"] == 1 or o < s["ar_us"]) else s["ar_us"] or 0 for s, o in zip(known, own)]
    ar_us, total_us = sum(u * n for u, n in zip(one, plain)), sum(s["us"]["total"] for s in steps)
    out = {"steps": len(steps), "emitted": emitted, "mat": emitted / len(steps),
           "drafts": (sum(accepted), sum(s["rows"] - 1 for s in drafted)),
           "helped": (sum(a > 0 for a in accepted), len(drafted)),
           "rows": sum(s["rows"] for s in forwards) / len(forwards),
           "decode_ms": total_us / 1e3, "per_s": emitted / total_us * 1e6,
           "plain_per_s": sum(len(s["emitted"]) for s in known) / ar_us * 1e6,
           "speedup": ar_us / sum(s["us"]["total"] for s in known)}
    spread = sum(u * n * s.get("ar_spread", 0) for u, n, s in zip(one, plain, known)) / sum(s["us"]["total"] for s in known)
    noisy = spread > out["speedup"] / 2 or out["speedup"] - spread > 1.1 * out["mat"]
    out["told"] = None if noisy else min(out["speedup"], out["mat"])
    ranks = []
    for s in forwards:
        top = [t for t, _ in s["last"]["top"]]
        want = s["nodes"][0]["target"]
        ranks.append(top.index(want) if want in top else len(top))
    out["near"], out["within"] = ((sum(r < k for r in ranks), len(ranks)) for k in (8, 64))
    out["by_source"] = {}
    for s in steps:
        for i, n in enumerate(s["nodes"]):
            if i:
                hit, of = out["by_source"].get(n["source"], (0, 0))
                out["by_source"][n["source"]] = (hit + (i in s["path"] and n["depth"] < len(s["emitted"])), of + 1)
    return out


class Numbers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.made = []
        for method, budget in METHODS:
            for i, prompt in enumerate(PROMPTS):
                path = os.path.join(cls.dir.name, f"{method}-{i}.jsonl")
                r = run("generate", "--model", "script", "--raw", "--prompt", prompt, "--max-tokens", "150", "--method", method,
                        "--max-rows", budget, "--trace", path, "--json")
                assert r.returncode == 0, r.stderr
                with open(path, encoding="utf-8") as f:
                    lines = [json.loads(line) for line in f]
                cls.made.append((path, method, json.loads(r.stdout), lines, numbers(lines)))

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def near(self, got, want, where, part=1e-4):
        self.assertAlmostEqual(got, want, delta=part * abs(want) + 1e-9, msg=where)

    def test_they_are_no_zeros(self):
        for path, method, _, _, n in self.made:
            self.assertEqual(n["drafts"][0] > 0 and 0 < n["helped"][0] < n["helped"][1] and n["mat"] > 1, method != "plain", path)
            self.assertTrue(n["steps"] < 140 or method == "plain")

    def check_json(self, got, n, where):
        for name, want in (("steps", n["steps"]), ("emitted", n["emitted"]), ("draft_accepted", n["drafts"][0]),
                           ("draft_verified", n["drafts"][1])):
            self.assertEqual(got[name], want, (where, name))
        for name, want in (("mat", n["mat"]), ("tokens_per_s", n["per_s"]), ("ar_tokens_per_s", n["plain_per_s"]),
                           ("speedup", n["told"]), ("decode_ms", n["decode_ms"])):
            if want is None:
                self.assertIsNone(got[name], (where, name))
            else:
                self.near(got[name], want, (where, name))

    def test_generate_and_the_recording(self):
        for path, _, said, lines, n in self.made:
            self.check_json(said, n, path)
            self.check_json(lines[-1]["totals"], n, path)

    def report(self, path, form):
        out = os.path.join(self.dir.name, "report." + form)
        r = run("report", "--quiet", path, "-o", out)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        with open(out, encoding="utf-8") as f:
            return f.read()

    def same_speedup(self, shown, n):
        """It has as many digits as its ± allows; "?": too noisy for any."""
        self.assertEqual(shown == "?", n["told"] is None)
        if shown != "?":
            digits = re.match(r"\d+\.?(\d*)", shown)
            self.assertEqual(digits[0], f"{n['told']:.{len(digits[1])}f}")

    def test_report(self):
        for path, method, _, _, n in self.made:
            g = json.loads(self.report(path, "json"))["groups"][0]
            self.check_json(g, n, path)
            self.assertEqual({k: (sum(a for a, _ in v), sum(b for _, b in v)) for k, v in g["by_source"].items()}, n["by_source"])
            facts = {}
            for row in self.report(path, "md").splitlines():
                cells = [c.strip() for c in row.strip("|").split("|")]
                if row.startswith("|") and len(cells) > 1:
                    facts.setdefault(cells[0], cells[1])

            def part(of):
                return f"{of[0]} of {of[1]} ({100 * of[0] / of[1]:.1f}%)" if of[1] else "-"

            self.assertEqual(facts["steps"], str(n["steps"]))
            self.assertEqual(facts["tokens"], str(n["emitted"]))
            self.assertEqual(facts["MAT"], f"{n['mat']:.3f}")
            self.assertEqual(facts["rows"], f"{n['rows']:.1f}")
            self.assertEqual(facts["drafts accepted"], part(n["drafts"]))
            self.assertEqual(facts["steps helped"], part(n["helped"]))
            self.assertEqual(facts["next-next in top 8"], part(n["near"]))
            self.assertEqual(facts["next-next in top 64"], part(n["within"]))
            self.assertEqual(facts["tokens/s"], f"{n['per_s']:.1f}")
            self.assertEqual(facts["plain tokens/s"], f"{n['plain_per_s']:.1f}")
            self.same_speedup(facts["speedup over plain"], n)
            if method == "plain":
                self.near(n["plain_per_s"], n["per_s"], path, 0.05)
            rows = [line.split(",") for line in self.report(path, "csv").splitlines()]
            at = {name: i for i, name in enumerate(rows[0])}
            self.assertEqual(sum(int(r[at["emitted"]]) for r in rows[1:]), n["emitted"])
            self.assertEqual(sum(int(r[at["accepted"]]) for r in rows[1:]), n["drafts"][0])
            self.assertEqual(len(rows) - 1, n["steps"])

    def test_screen(self):
        for path, method, _, _, n in self.made:
            shot, script = (os.path.join(self.dir.name, x) for x in ("shot.txt", "script"))
            with open(script, "w", encoding="utf-8") as f:
                f.write(f"size 200x50\nwait REPLAY ENDED\nkey 5\nkey z\nsave {shot}\n")
            r = run("replay", path, "--speed", "max", "--script", script)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            with open(shot, encoding="utf-8") as f:
                text = f.read()

            def says(pattern):
                m = re.search(pattern, text)
                self.assertTrue(m, (path, pattern, text))
                return m.groups()

            self.assertEqual(says(r"drafts +(\d+) of (\d+) accepted"), tuple(map(str, n["drafts"])))
            self.assertEqual(says(r"useful in (\d+) of (\d+) steps? with drafts"), tuple(map(str, n["helped"])))
            self.assertEqual(says(r"mean ([\d.]+) tokens/step \(MAT\)"), (f"{n['mat']:.2f}",))
            forwards = n["within"][1]
            self.assertEqual(says(r"(\d+) steps?(?: \((\d+) forwards?\))?, ([\d.]+) rows? on average"),
                             (str(n["steps"]), str(forwards) if forwards != n["steps"] else None, f"{n['rows']:.1f}"))
            self.assertEqual(says(r"token in the top 8 of the last logits: (\d+) of (\d+) steps?, in the top 64: (\d+)"),
                             (str(n["near"][0]), str(n["within"][1]), str(n["within"][0])))
            self.assertEqual(says(r"speed +([\d.]+) tok/s; plain ([\d.]+)"), (f"{n['per_s']:.1f}", f"{n['plain_per_s']:.1f}"))
            self.assertIn(f"{round(n['per_s'])} tok/s", text.splitlines()[0])
            if method != "plain" and "×?" not in text:
                title = re.search(r"×([\d.]+)", text.splitlines()[0]).group(1)
                self.assertEqual(says(r": ×([\d.]+)")[0], title)
                self.same_speedup(title, n)
            for source, (hit, of) in n["by_source"].items():
                label = {"last-logit": "guess", "guess-tail": "after a guess", "draft-model": "draft model"}.get(source, source)
                self.assertEqual(says(rf"by source .*  {label} (\d+)/(\d+)"), (str(hit), str(of)), source)

    def test_inspect(self):
        for path, _, _, lines, n in self.made:
            r = run("inspect", path, "--step", f"0-{n['steps'] - 1}")
            told = re.findall(r"^step (\d+): root .*?(?:; (\d+) of (\d+) drafts? accepted|; no drafts|; the answer)", r.stdout, re.M)
            self.assertEqual([int(i) for i, _, _ in told], list(range(n["steps"])), path)
            self.assertEqual((sum(int(a or 0) for _, a, _ in told), sum(int(d or 0) for _, _, d in told)), n["drafts"])

    def test_simulate(self):
        for path, method, _, _, n in self.made:
            if method in ("plain", "logitspec"):  # plain decoding drafts nothing; the other's trees follow the costs
                continue
            r = run("simulate", path, "--json", "--methods", f"{method}:{dict(METHODS)[method]}")
            self.assertEqual(r.returncode, 0, r.stderr)
            got = json.loads(r.stdout)["methods"][-1]
            self.assertTrue(got["drafts_exact"], path)
            self.near(got["mat"], n["mat"], path)
            self.assertEqual((got["steps"], got["emitted"], got["draft_accepted"], got["draft_verified"]),
                             (n["steps"], n["emitted"], *n["drafts"]), path)


if __name__ == "__main__":
    unittest.main()
