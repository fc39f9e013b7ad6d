"""The lab: its figures against the recordings, the same page of the recordings alone, runs that are stopped and go on."""
import csv
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET

from program import ENV, PROGRAM, ROOT, run
from recording import unpack
from test_report import Page

SCRIPT = ["--model", "script", "--max-tokens", "10"]
# what is measured, and what is drawn of it, is another each time; the rest are counts
TIMES = ("break_even", "cost", "index", "main", "speed", "speedup", "time")


def rows(path):
    with open(path, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def recordings(folder):
    return sorted(glob.glob(folder + "/traces/*/*.zst"))


def lab(*args, **kw):
    return run("lab", *args, **kw)


class Lab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.suite = cls.path("suite.jsonl")
        with open(cls.suite, "w", encoding="utf-8") as f:
            f.write(json.dumps({"id": "fish", "category": "<words>", "turns": ["One fish, two", "red fish"]}) + "\n")
            f.write(json.dumps({"prompt": "def fib(n):", "category": "code"}) + "\n")
        cls.lab = cls.path("lab")
        cls.first = lab("--suite", cls.suite, "-o", cls.lab, *SCRIPT)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.dir.name, name)

    def copy(self, name):
        shutil.copytree(self.lab, self.path(name))
        return self.path(name)

    def totals(self, word, *items):
        """What the report says of a run's recordings."""
        out = self.path("totals.json")
        files = [f"{self.lab}/traces/{word}/{i:04}.jsonl.zst" for i in items]
        r = run("report", "-q", *files, "-o", out)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        with open(out, encoding="utf-8") as f:
            groups = json.load(f)["groups"]
        self.assertEqual(len(groups), 1)
        return groups[0]

    def test_it_says_what_was_made(self):
        self.assertEqual(self.first.returncode, 0, self.first.stderr)
        n = len(recordings(self.lab))
        runs = os.listdir(self.lab + "/traces")
        self.assertEqual(n, 2 * (len(runs) - 1))  # and the list
        self.assertIn(f"{n} recordings were made, 0 were there already", self.first.stdout)
        self.assertIn(f"index.html: {n} recordings, 2 prompts, {n // 2} ways to decode", self.first.stdout)

    def test_the_table_is_that_of_the_recordings(self):
        table = rows(self.lab + "/main.csv")
        methods = list(dict.fromkeys(r["method"] for r in table))
        self.assertEqual(methods[0], "plain")
        self.assertLessEqual({"logitspec", "logitspec-paper", "pld", "recycle", "suffix", "lookahead", "cacheback"}, set(methods))
        plain = {c: next(float(r["decode_ms"]) for r in table if (r["method"], r["category"]) == ("plain", c)) for c in ("all", "<words>", "code")}
        for r in table:
            want = self.totals(r["method"], *{"all": (1, 2), "<words>": (1,), "code": (2,)}[r["category"]])
            self.assertEqual([int(r[k]) for k in ("turns", "steps", "tokens", "drafts", "drafts_accepted", "different")],
                             [want[k] for k in ("turns", "steps", "emitted", "draft_verified", "draft_accepted")] + [0])
            self.assertAlmostEqual(float(r["mat"]), want["emitted"] / want["steps"], places=5)
            self.assertAlmostEqual(float(r["decode_ms"]), want["decode_ms"], delta=1e-5 * want["decode_ms"])
            self.assertAlmostEqual(float(r["tokens_per_s"]), 1e3 * want["emitted"] / want["decode_ms"], delta=1e-4 * float(r["tokens_per_s"]))
            # the same tokens: plain decoding's time is not scaled
            self.assertAlmostEqual(float(r["speedup"]), plain[r["category"]] / want["decode_ms"], delta=1e-4 * float(r["speedup"]))
            self.assertEqual(r["speedup_low"], "")  # two prompts have no interval

    def test_figures_are_those_of_the_recordings(self):
        capacity = rows(self.lab + "/capacity.csv")
        self.assertEqual({(r["series"], float(r["x"])) for r in capacity},
                         {(m, n) for m in ("logitspec", "logitspec-paper", "recycle", "pld") for n in (8, 16, 32, 64, 128)})
        for r in capacity:
            word = r["series"] if (r["series"], r["x"]) == ("logitspec-paper", "64") else f"{r['series']}~{r['x']}"
            want = self.totals(word, 1, 2)
            self.assertEqual((int(r["count"]), int(r["n"])), (want["emitted"], want["steps"]))
            self.assertAlmostEqual(float(r["mat"]), want["emitted"] / want["steps"], places=5)
        for r in rows(self.lab + "/temperature.csv"):
            want = self.totals(r["series"].replace(":", "~") + (f",T={r['x']}" if r["x"] != "0" else ""), 1, 2)
            self.assertEqual((int(r["count"]), int(r["n"])), (want["emitted"], want["steps"]))
        for r in rows(self.lab + "/time.csv"):
            want = self.totals(r["label"], 1, 2)
            if r["series"] != "rest":
                self.assertAlmostEqual(float(r["ms"]), want["us"][r["series"]] / 1e3 / want["steps"], delta=1e-4 * float(r["ms"]) + 1e-9)
        # the token at distance 2 of each position, as the report counts next-next tokens
        two = [r for r in rows(self.lab + "/distance.csv") if r["series"] == "distance 2"]
        self.assertEqual(len(two), 65)
        self.assertEqual(sum(int(r["count"]) for r in two), int(two[0]["n"]))
        tokens = self.totals("plain", 1, 2)
        self.assertEqual(int(two[0]["n"]), tokens["emitted"] - tokens["turns"])  # the last one of a turn has none behind it
        text = self.path("near.html")
        run("report", "-q", *glob.glob(self.lab + "/traces/plain/*"), "-o", text)
        with open(text, encoding="utf-8") as f:
            near = re.search(r"next-next in top 8</th><td>(\d+) of (\d+)", f.read())
        self.assertEqual((sum(int(r["count"]) for r in two[:8]), int(two[0]["n"])), (int(near[1]), int(near[2])))

    def test_the_page_needs_nothing_else(self):
        with open(self.lab + "/index.html", encoding="utf-8") as f:
            text = f.read()
        page = Page(text)
        self.assertFalse(page.find("script") + page.find("img"))
        self.assertEqual(set(re.findall(r"https?://[^\s\"'<]+", text)), {"http://www.w3.org/2000/svg"})
        for e in page.find("a"):
            self.assertTrue(os.path.exists(os.path.join(self.lab, e["href"])), e["href"])
        self.assertNotIn(self.dir.name, text)
        figures = page.find("figure")
        names = [e["data-plot"] for e in page.find("svg")]
        self.assertEqual(len(figures), len(names))  # none is missing
        self.assertNotIn("not in these recordings", text)
        for name in names:
            data = rows(f"{self.lab}/{name}.csv")
            shown = [e for e in page.all if "data-series" in e and page.inside(e, page.find("svg", data_plot=name)[0])]
            series = list(dict.fromkeys(r["series"] for r in data))
            value = list(data[0])[3]
            got = sorted((int(e["data-series"]), e["data-x"], e["data-value"]) for e in shown)
            want = sorted((series.index(r["series"]), r["label"].removeprefix("'"), r[value]) for r in data if r[value])
            if name == "hits":  # only what was tested often
                self.assertLessEqual(set(got), set(want))
                self.assertEqual(len(got), sum(int(r["n"]) >= 10 for r in data))
            else:
                self.assertEqual(got, want, name)
            self.assertEqual(ET.parse(f"{self.lab}/{name}.svg").getroot().tag, "{http://www.w3.org/2000/svg}svg")

    def test_the_recordings_alone_give_the_same(self):
        there = self.copy("there")
        made = [f for f in os.listdir(there) if f != "traces"]
        for f in made:
            os.remove(os.path.join(there, f))
        r = lab(there, "--set", "model.name=/nonexistent")  # nothing is loaded
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertEqual(sorted(made), sorted(f for f in os.listdir(there) if f != "traces"))
        elsewhere = self.path("elsewhere")
        os.mkdir(elsewhere)
        self.assertEqual(lab(there, "-o", elsewhere, "-q").returncode, 0)
        for f in made:
            with open(os.path.join(self.lab, f), "rb") as a, open(os.path.join(there, f), "rb") as b, open(os.path.join(elsewhere, f), "rb") as c:
                want = a.read()
                self.assertTrue(want == b.read() == c.read(), f)

    def test_the_page_of_traces_has_its_number_of_runs(self):
        with open(self.lab + "/index.html", encoding="utf-8") as f, open(os.path.join(ROOT, "src/trace/README.md"), encoding="utf-8") as g:
            self.assertIn(f"records {re.search(r'([0-9]+) variants', f.read())[1]} ways to decode", g.read())

    def test_an_exact_engine_is_not_called_otherwise(self):
        with open(self.lab + "/index.html", encoding="utf-8") as f:
            self.assertNotIn("NOT EXACT", f.read())
        folder = self.copy("inexact")
        path = recordings(folder)[-1]
        with open(path, "rb") as f:
            lines = [json.loads(line) for line in unpack(f.read()).decode().splitlines()]
        with open(path, "w", encoding="utf-8") as f:
            for line in lines:
                f.write(json.dumps(dict(line, backend=dict(line["backend"], exact=False)) if line["type"] == "header" else line) + "\n")
        self.assertEqual(lab(folder, "-q").returncode, 0)
        with open(folder + "/index.html", encoding="utf-8") as f:
            self.assertIn("NOT EXACT", f.read())

    def test_a_busy_machine_is_told(self):
        folder = self.copy("busy")
        traces = recordings(folder)
        for path in traces:  # every step of them waited half of its time
            with open(path, "rb") as f:
                lines = [json.loads(line) for line in unpack(f.read()).decode().splitlines()]
            with open(path, "w", encoding="utf-8") as f:
                for line in lines:
                    f.write(json.dumps(dict(line, cpu_wait=0.5) if line["type"] == "step" else line) + "\n")
        self.assertEqual(lab(folder, "-q").returncode, 0)
        with open(folder + "/index.html", encoding="utf-8") as f:
            self.assertIn(f"The machine was busy with other work while {len(traces)} of {len(traces)} answers were recorded", f.read())

    def stop(self, folder, n, how):
        """Starts the lab there and stops it when n recordings are whole."""
        p = subprocess.Popen([PROGRAM, "lab", "--suite", self.suite, "-o", folder, *SCRIPT], env=ENV, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while len(recordings(folder)) < n and time.monotonic() < end and p.poll() is None:
            time.sleep(0.002)
        self.assertIsNone(p.poll(), "it ended before it could be stopped")
        p.send_signal(how)
        _, said = p.communicate(timeout=60)
        return p.returncode, said

    def test_png(self):
        with tempfile.TemporaryDirectory() as d:
            r = run("lab", self.lab, "-o", d, "--png", env={"PATH": "/nowhere"})
            self.assertEqual((r.returncode, r.stdout), (1, ""))
            self.assertIn("logitspec: rsvg-convert is not found in PATH: --png needs this program (Debian: apt-get install librsvg2-bin)\n", r.stderr)
            stub = os.path.join(d, "rsvg-convert")  # what it is asked for, without the program itself
            with open(stub, "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\ncp "$3" "$2"\n')
            os.chmod(stub, 0o755)
            r = run("lab", self.lab, "-o", d, "--png", env={"PATH": d + ":/usr/bin:/bin"})
            self.assertEqual(r.returncode, 0, r.stderr)
            figures = [f[:-4] for f in os.listdir(d) if f.endswith(".svg")]
            self.assertGreater(len(figures), 5)
            for name in figures:
                with open(os.path.join(d, name + ".svg"), "rb") as a, open(os.path.join(d, name + ".png"), "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)

    def test_a_lab_that_was_stopped_goes_on(self):
        folder = self.path("stopped")
        code, said = self.stop(folder, 20, signal.SIGINT)
        n = len(recordings(folder))
        self.assertEqual(code, 130)
        self.assertIn(f"interrupted after {n} of {len(recordings(self.lab))} recordings; they are kept, and the same command continues", said)
        self.assertLess(n, len(recordings(self.lab)))
        code, _ = self.stop(folder, n + 20, signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        n = len(recordings(folder))
        self.assertLess(n, len(recordings(self.lab)))
        r = lab(folder)  # a page of what there is
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        with open(folder + "/index.html", encoding="utf-8") as f:
            self.assertIn(f"{n} of {len(recordings(self.lab))} recordings", f.read())
        r = lab("--suite", self.suite, "-o", folder, *SCRIPT)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(f"{len(recordings(self.lab)) - n} recordings were made, {n} were there already", r.stdout)
        r = lab("--suite", self.suite, "-o", folder, *SCRIPT[:2])  # as long as they are there
        self.assertIn(f"0 recordings were made, {len(recordings(self.lab))} were there already", r.stdout)
        counts = [f for f in os.listdir(self.lab) if f.endswith(".csv") and f[:-4] not in TIMES]
        self.assertGreater(len(counts), 7)
        for f in counts:
            with open(os.path.join(self.lab, f), "rb") as a, open(os.path.join(folder, f), "rb") as b:
                self.assertEqual(a.read(), b.read(), f)

    def test_what_is_not_whole_or_not_the_same_is_decoded_again(self):
        folder = self.copy("again")
        all_of_them = len(recordings(folder))
        cut = folder + "/traces/suffix/0001.jsonl.zst"
        os.truncate(cut, os.path.getsize(cut) - 40)
        r = lab(folder)
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stderr, r"^logitspec: \S+/suffix/0001\.jsonl\.zst: skipped, the recording is incomplete or damaged\n$")
        self.assertIn(f"{all_of_them - 1} recordings", r.stdout)
        r = lab("--suite", self.suite, "-o", folder, *SCRIPT)
        self.assertIn(f"1 recording was made, {all_of_them - 1} were there already", r.stdout)
        with open(self.suite, encoding="utf-8") as f:
            text = f.read()
        other = self.path("other.jsonl")
        with open(other, "w", encoding="utf-8") as f:
            f.write(text.replace("red fish", "blue fish"))  # only the second turn is another
        r = lab("--suite", other, "-o", folder, *SCRIPT, "--methods", "pld")
        n = len({r["method"] for r in rows(folder + "/main.csv")})
        self.assertEqual(n, 2)  # and ar, which all are compared with
        made, kept = map(int, re.search(r"(\d+) recordings were made, (\d+) were there", r.stdout).groups())
        self.assertEqual(made, kept)  # one of the two conversations
        # what of it was recorded before the change cannot stand beside what was recorded after it
        half = self.path("half")
        shutil.copytree(folder, half)
        shutil.copy(self.lab + "/traces/pld/0001.jsonl.zst", half + "/traces/pld/0001.jsonl.zst")
        r = lab(half)
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("/pld/0001.jsonl.zst: the prompts differ from the earlier recordings of fish", r.stderr)
        r = lab("--suite", other, "-o", folder, *SCRIPT, "--methods", "pld", "--max-tokens", "12")
        self.assertIn(f"{made + kept} recordings were made, 0 were there already", r.stdout)
        shutil.copy(half + "/traces/plain/0002.jsonl.zst", folder + "/traces/plain/0002.jsonl.zst")
        r = lab(folder)
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("/plain/0002.jsonl.zst: max_tokens is 10, but this lab uses 12", r.stderr)

    def test_recordings_of_another_model_are_refused(self):
        folder = self.copy("another")
        trace, theirs = self.path("pld.jsonl"), folder + "/traces/pld/0002.jsonl.zst"
        run("generate", *SCRIPT, "--prompt", "def fib(n):", "--method", "pld", "--seed", "1", "--trace", trace)
        with open(trace, encoding="utf-8") as f:
            text = f.read()
        with open(theirs, "w", encoding="utf-8") as f:  # what is compressed is told by its bytes
            f.write(text.replace('"name":"script"', '"name":"mine"'))
        for args, what in (([folder], "another model"), (["--suite", self.suite, "-o", folder, *SCRIPT], "another model (mine; this is script)")):
            r = lab(*args)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
            self.assertIn(what, r.stderr)
            self.assertIn("/pld/0002.jsonl.zst", r.stderr)

    def test_bad_input(self):
        empty = self.path("empty")
        os.mkdir(empty)
        for args, code, what in (([], 2, "--suite FILE -o DIR"), (["--suite", self.suite], 2, "-o DIR"), ([empty, "--suite", self.suite, "-o", "x"], 2, "-o DIR"),
                                 ([empty, empty], 2, "lab DIR"), ([empty], 1, "has no recordings of a lab"), ([self.suite], 1, "has no recordings"),
                                 (["--suite", "/nowhere", "-o", "x"], 1, "cannot read the suite /nowhere"), (["--suite", __file__, "-o", "x"], 1, f"{__file__}:1"),
                                 (["--suite", self.suite, "-o", __file__], 1, "is a file: name a folder"),
                                 (["--suite", self.suite, "-o", "/proc/nothing"], 1, "cannot make the folder /proc/nothing"),
                                 (["--suite", self.suite, "-o", "x", "--methods", "nothing"], 2, "--methods"),
                                 ([self.lab, "-o", "/nonexistent"], 1, "cannot write /nonexistent/")):
            r = lab(*args, *SCRIPT, cwd=self.dir.name)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (code, 1), (args, r.stderr))
            self.assertIn(what, r.stderr)
        self.assertFalse(os.path.exists(self.path("x")))


if __name__ == "__main__":
    unittest.main()
