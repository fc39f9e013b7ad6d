"""Reports and exports: every plot, table and text against the traces that they were made from."""
import base64
import csv
import html.parser
import io
import json
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as ET

from program import LABEL, run

SCRIPT = ["--model", "script"]
VOID = {"meta", "link", "br", "rect", "path", "circle"}


class Page(html.parser.HTMLParser):
    """Elements with their attributes and text; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.all = [], []
        self.feed(text)
        self.close()
        assert not self.stack, [e["tag"] for e in self.stack]

    def handle_starttag(self, tag, attrs):
        e = {"tag": tag, "text": "", "in": self.stack[-1] if self.stack else None, **dict(attrs)}
        assert len(dict(attrs)) == len(attrs), attrs
        self.all.append(e)
        if tag not in VOID or (tag in ("rect", "circle", "path") and not self.get_starttag_text().endswith("/>")):
            self.stack.append(e)

    def handle_startendtag(self, tag, attrs):
        self.all.append({"tag": tag, "text": "", "in": self.stack[-1] if self.stack else None, **dict(attrs)})

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1]["tag"] == tag, (tag, [e["tag"] for e in self.stack])
        self.stack.pop()

    def handle_data(self, data):
        if self.stack:
            self.stack[-1]["text"] += data

    def find(self, tag, **attrs):
        return [e for e in self.all if e["tag"] == tag and all(e.get(k.replace("_", "-")) == v for k, v in attrs.items())]

    def inside(self, e, outer):
        while e is not None and e is not outer:
            e = e["in"]
        return e is outer

    def marks(self, plot):
        """Group and place on the x axis -> (n, of) or value, as floats."""
        figure = self.find("svg", data_plot=plot)
        assert len(figure) == 1, plot
        out = {}
        for e in self.all:
            if "data-group" in e and self.inside(e, figure[0]):
                key = (int(e["data-group"]), e.get("data-x"))
                assert key not in out, key
                out[key] = (int(e["data-n"]), int(e["data-of"])) if "data-n" in e else float(e["data-value"])
        return out


def visible(data):
    """Bytes as the page shows them: broken UTF-8 and control characters by their codes."""
    out, i = "", 0
    while i < len(data):
        for n in range(1, 5):
            try:
                c = data[i:i + n].decode()
                break
            except UnicodeDecodeError:
                c = ""
        if not c or (ord(c) < 32 and c not in "\n\t") or ord(c) == 127:
            out += f"^{chr(ord(c) ^ 64)}" if c else f"<{data[i]:02X}>"
            i += 1
        else:
            assert c in "\n\t" or c.isprintable() or c == "\u00a0", c
            out += c
            i += len(c.encode())
    return out


def load(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def steps_of(lines):
    return [x for x in lines if x["type"] == "step"]


def accepted(step):
    """Drafts that were accepted and emitted: the path may go on behind the end of the answer."""
    return min(len(step["path"]), len(step["emitted"])) - 1


def counted(groups):
    """The numbers of every plot, straight from the steps of each group."""
    out = {k: {} for k in ("emitted", "depth", "rank", "source", "calibration", "speedup", "time")}

    def add(plot, g, x, n, of=1):
        a, b = out[plot].get((g, x), (0, 0))
        out[plot][g, x] = (a + n, b + of)

    for g, steps in enumerate(groups):
        most = max(len(s["emitted"]) for all_steps in groups for s in all_steps)
        for k in range(1, most + 1):
            out["emitted"][g, str(k)] = (sum(len(s["emitted"]) == k for s in steps), len(steps))
        bins = {}
        for s in (s for s in steps if s["forward"] and len(s["nodes"]) == s["rows"]):
            for d in range(1, max(n["depth"] for n in s["nodes"]) + 1):
                if d <= 31:
                    add("depth", g, str(d), d <= accepted(s))
            for b in s["branches"]:
                if 0 <= b["rank"] < 32:
                    add("rank", g, str(b["rank"]), b["accepted"] > 0)
            for n in s["nodes"][1:]:
                add("source", g, n["source"], n["state"] == "accepted" and n["depth"] <= accepted(s))
                if n["state"] != "not-reached" and n["est_p"] is not None:
                    bins.setdefault(min(9, int(n["est_p"] * 10)), []).append((n["est_p"], n["state"] == "accepted"))
        for b in bins.values():
            mean = sum(e for e, _ in b) / len(b)
            out["calibration"][g, f"{mean:.6f}"] = (sum(a for _, a in b), len(b))
        known = [s for s in steps if s["ar_us"]]
        plain = [len(s["emitted"]) - (s["finish"] in ("eos", "length", "context")) for s in known]
        if known:
            ar = sum(s["ar_us"] * n for s, n in zip(known, plain))
            out["speedup"][g, None] = ar / sum(s["us"]["total"] for s in known)
            out["time"][g, "plain"] = ar / sum(plain) / 1e3
        total = 0
        for part in ("draft", "forward", "verify", "commit"):
            out["time"][g, part] = sum(s["us"][part] for s in steps) / len(steps) / 1e3
            total += out["time"][g, part]
        out["time"][g, "other"] = max(0, sum(s["us"]["total"] for s in steps) / len(steps) / 1e3 - total)
    return out


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.files, cls.texts = [], []
        for i, prompt in enumerate(("Retrieval", "One fish, two")):  # text, and bytes of all kinds
            for method in ("plain", "logitspec-paper", "logitspec"):
                path = os.path.join(cls.dir.name, f"{i}-{method}.jsonl")
                r = run("generate", *SCRIPT, "--prompt", prompt, "--max-tokens", "120", "--method", method, "--seed", "3",
                        "--temperature", "0.7",
                        "--trace", path, "--json")
                assert r.returncode == 0, r.stderr
                cls.files.append(path)
                cls.texts.append(json.loads(r.stdout))
        cls.groups = [[s for f in cls.files if f.endswith(f"-{m}.jsonl") for s in steps_of(load(f))]
                      for m in ("plain", "logitspec-paper", "logitspec")]

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def report(self, name, *args, files=None):
        out = os.path.join(self.dir.name, name)
        r = run("report", "--quiet", *(files or self.files), "-o", out, *args)  # a slow build would show its progress
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        with open(out, encoding="utf-8", newline="") as f:
            return f.read()

    def close(self, got, want, where):
        self.assertEqual(set(got), set(want), where)
        for k, v in want.items():
            if isinstance(v, tuple):
                self.assertEqual(got[k], v, (where, k))
            else:
                self.assertAlmostEqual(got[k], v, delta=1e-4 * abs(v) + 1e-6, msg=f"{where} {k}")

    def test_without_a_file_it_is_printed(self):
        r = run("report", *self.files)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertEqual(r.stdout, self.report("same.md"))

    def test_a_busy_machine_is_named(self):
        lines = load(self.files[0])
        for x in lines:
            if x["type"] == "step":
                x["cpu_wait"] = 0.72
        busy = os.path.join(self.dir.name, "busy.jsonl")
        with open(busy, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(x) + "\n" for x in lines)
        for end in ("md", "html"):
            self.assertIn("waited 72% of their time for a CPU", self.report("busy." + end, files=[busy]))
            self.assertRegex(self.report("both." + end, files=[busy, *self.files[1:]]),
                             r"waited up to \d+% of their time")  # of the worst way to decode: the mean of its steps
        quiet = [dict(x, cpu_wait=0) if x["type"] == "step" else x for x in lines]
        with open(busy, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(x) + "\n" for x in quiet)
        self.assertNotIn("busy with other work", self.report("quiet.md", files=[busy]))

    def test_every_plot_is_that_of_the_traces(self):
        page = Page(self.report("r.html"))
        for plot, want in counted(self.groups).items():
            if plot != "speedup":
                self.close(page.marks(plot), {(g, LABEL.get(x, x)): v for (g, x), v in want.items()}, plot)
        # the whole of both turns only where both are that long; here all turns are
        lengths = {sum(len(s["emitted"]) for s in steps_of(load(f))) for f in self.files}
        if len(lengths) == 1:
            self.close(page.marks("speedup"), counted(self.groups)["speedup"], "speedup")
        self.assertEqual(len(page.find("figure")), 7)

    def test_a_mixture_shows_its_experts(self):
        files = [os.path.join(self.dir.name, m + ".moe.jsonl") for m in ("logitspec", "logitspec-paper")]
        for f in files:
            r = run("generate", "--model", "script:mixture", "--prompt", "One fish", "--max-tokens", "60", "--method", os.path.basename(f).split(".")[0],
                    "--trace", f)
            self.assertEqual(r.returncode, 0, r.stderr)
        runs = [[s for s in steps_of(load(f)) if s["forward"]] for f in files]
        page, model = Page(self.report("moe.html", files=files)), load(files[0])[0]["model"]
        want = {}
        for g, steps in enumerate(runs):
            for n in {s["rows"] for s in steps}:
                of = [s["experts"] for s in steps if s["rows"] == n]
                want[g, str(n)] = sum(of) / len(of) / model["mixtures"]
        self.close(page.marks("experts"), want, "experts")
        text = self.report("moe.md", files=files)
        means = [f"{sum(s['experts'] for s in steps) / len(steps):.1f} of 64 (8)" for steps in runs]
        self.assertIn(f"| experts of a forward | {means[0]} | {means[1]} |", text)
        even = []
        for f in files:
            steps = steps_of(load(f))
            plain = sum(s["ar_us"] * (len(s["emitted"]) - (s["finish"] in ("eos", "length", "context"))) for s in steps)
            even.append(sum(s["us"]["total"] for s in steps) / len(steps) * sum(len(s["emitted"]) for s in steps) / plain)
        self.assertIn(f"| break-even MAT | {even[0]:.2f} | {even[1]:.2f} |", text)
        self.assertNotIn("experts", self.report("dense.md"))  # of other models nothing is said

    def test_the_page_needs_nothing_else(self):
        text = self.report("r.html")
        page = Page(text)
        self.assertFalse(page.find("script"))
        self.assertEqual(set(re.findall(r"https?://[^\s\"'<]+", text)), {"http://www.w3.org/2000/svg"})
        for e in page.all:
            self.assertNotIn("src", e)
            self.assertIn(e.get("href", "data:,"), ("data:,",))
            self.assertFalse([k for k in e if k.startswith("on")])

    def test_text_has_every_token_with_its_origin(self):
        page = Page(self.report("r.html"))
        sections = page.find("section")
        self.assertEqual(len(sections), 6)
        for e in sections:
            i = int(e["data-turn"])
            spans = [s for s in page.find("span") if "data-id" in s and page.inside(s, e)]
            self.assertEqual([int(s["data-id"]) for s in spans], self.texts[i]["output_tokens"])
            table = {int(k): base64.b64decode(v) for x in load(self.files[i]) if x["type"] == "tokens" for k, v in x["bytes"].items()}
            want = visible(b"".join(table[t] for t in self.texts[i]["output_tokens"]))
            self.assertEqual("".join(s["text"] for s in spans), want)
            if i < 3:
                self.assertEqual(want, self.texts[i]["text"])
            where = [(k, n) for s in steps_of(load(self.files[i])) for k, n in
                     ((s["index"], s["nodes"][j]) for j in s["path"][:len(s["emitted"])])]
            for at, (s, (step, n)) in enumerate(zip(spans, where)):
                self.assertTrue(s["title"].startswith(f"token {at} (id {n['token']}), step {step}"), s["title"])
                if n["depth"]:
                    self.assertIn(f"depth {n['depth']}: {LABEL.get(n['source'], n['source'])}", s["title"])

    def test_trees_of_chosen_steps(self):
        def after_end(step, row):  # below the token that ends the answer
            last, at = min(len(step["path"]), len(step["emitted"])) - 1, row
            while at >= 0 and step["nodes"][at]["depth"] > last:
                at = step["nodes"][at]["parent"]
            return step["finish"] and at != row and at == step["path"][last]
        page = Page(self.report("r.html", "--step", "3,5-6"))
        trees = page.find("svg", **{"class": "tree"})
        asked = trees[:sum(len([s for s in steps_of(load(f)) if s["index"] in (3, 5, 6)]) for f in self.files)]
        shown = set()
        for t in trees:
            step = next(s for s in steps_of(load(self.files[int(t["data-turn"])])) if s["index"] == int(t["data-step"]))
            nodes = [e for e in page.find("g") if "data-row" in e and page.inside(e, t)]
            self.assertEqual([(int(e["data-row"]), int(e["data-parent"]), int(e["data-token"]), e["data-state"]) for e in nodes],
                             [(i, n["parent"], n["token"], "not-reached" if after_end(step, i) else n["state"])
                              for i, n in enumerate(step["nodes"])])
        for t in asked:
            shown.add((int(t["data-turn"]), int(t["data-step"])))
        self.assertEqual({s for _, s in shown}, {3, 5, 6})
        # the worst are those that lost most
        for g, method in ((1, "logitspec-paper"), (2, "logitspec")):
            loss = sorted(s["us"]["total"] - s["ar_us"] * (len(s["emitted"]) - (s["finish"] in ("eos", "length", "context")))
                          for s in self.groups[g] if s["forward"] and s["rows"] > 1 and s["ar_us"])
            losses = [x for x in loss if x > 0][::-1][:5]
            heads = [e["text"] for e in page.find("summary") if re.search(r"\(-[\d.]+ ms\)", e["text"]) and f"-{method}.jsonl" in e["text"]]
            found = [-float(re.search(r"\((-[\d.]+) ms\)", h).group(1)) for h in heads][-len(losses):] if losses else []
            for a, b in zip(found, losses):
                self.assertAlmostEqual(a, b / 1e3, delta=0.0051)
            self.assertEqual(len(found), len(losses))

    def test_steps_of_a_turn_that_begins_late(self):
        lines = load(self.files[4])
        path = os.path.join(self.dir.name, "late.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(x) + "\n" for x in lines if x["type"] != "step" or x["index"] >= 4)
        last = max(s["index"] for s in steps_of(lines))
        r = run("report", path, "--step", str(last))
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertIn(f"step {last}:", r.stdout.split("## Selected steps")[1].split("##")[0])
        for step in 3, last + 1:
            r = run("report", path, "--step", str(step))
            self.assertEqual(r.returncode, 2)
            self.assertIn(f"there are 4 to {last}", r.stderr)

    def test_table_compares_with_the_first(self):
        page = Page(self.report("r.html"))
        table = page.find("table", id="summary")[0]
        rows = {}
        for tr in (e for e in page.find("tr") if page.inside(e, table)):
            cells = [e["text"] for e in page.all if e["tag"] in ("th", "td") and e["in"] is tr]
            rows[cells[0]] = cells[1:]
        self.assertEqual(rows["same text"][:3], ["reference", "2 of 2", "2 of 2"])
        for g, steps in enumerate(self.groups):
            tokens = sum(len(s["emitted"]) for s in steps)
            drafted = sum(s["rows"] - 1 for s in steps)
            good = sum(map(accepted, steps))
            self.assertEqual(rows["tokens"][g], str(tokens))
            self.assertEqual(rows["steps"][g], str(len(steps)))
            self.assertEqual(rows["MAT"][g], f"{tokens / len(steps):.3f}")
            self.assertTrue(rows["drafts accepted"][g].startswith(f"{good} of {drafted} (") or not drafted)

    def test_other_forms_say_the_same(self):
        want = counted(self.groups)
        o = json.loads(self.report("r.json"))
        self.assertEqual([g["label"] for g in o["groups"]], ["plain", "logitspec-paper", "logitspec"])
        for g, group in enumerate(o["groups"]):
            self.assertEqual(group["steps"], len(self.groups[g]))
            for d, (n, of) in enumerate(group["by_depth"]):
                self.assertEqual((n, of), want["depth"].get((g, str(d)), (0, 0)))
            self.assertEqual({k: tuple(v[0]) for k, v in group["by_source"].items()},
                             {x: v for (h, x), v in want["source"].items() if h == g})
            self.assertEqual(sum(of for _, of in group["by_estimate"]),
                             sum(of for (h, _), (_, of) in want["calibration"].items() if h == g))
            self.assertEqual(group["equal_to_first"], group["shared_with_first"])
        rows = list(csv.DictReader(io.StringIO(self.report("r.csv"))))
        self.assertEqual(len(rows), sum(map(len, self.groups)))
        every = [s for f in self.files for s in steps_of(load(f))]
        for row, s in zip(rows, every):
            self.assertEqual((int(row["step"]), int(row["rows"]), int(row["accepted"]), int(row["emitted"]), int(row["root"])),
                             (s["index"], s["rows"], accepted(s), len(s["emitted"]), s["root"]))
            self.assertAlmostEqual(float(row["total_us"]), s["us"]["total"], delta=1e-6 * s["us"]["total"] + 1e-3)
        text = self.report("r.md")
        self.assertIn("| steps | " + " | ".join(str(len(g)) for g in self.groups) + " |", text)
        self.assertTrue(all(line.count("|") == 5 for line in text.splitlines() if line.startswith("|")))
        svg = ET.fromstring(self.report("r.svg"))
        plots = [e.get("data-plot") for e in svg.iter() if e.get("data-plot")]
        self.assertEqual(plots, ["emitted", "depth", "rank", "source", "calibration", "speedup", "time"])

    def test_tokens_are_text_and_nothing_else(self):
        lines = load(self.files[4])
        evil = [b"<script>alert(1)</script>", b"\"><img src=x onerror=alert(1)>", b"\x1b[31m\x07", b"\xe2\x80\xae|*_`[x](y)",
                b"'&amp;&lt;", b"\xe4\xbd", b"\xa0\x00", b"</style></svg></details>", b"\xff\xfe", b"\r\n\t"]
        table = {}
        for x in lines:
            if x["type"] == "tokens":
                x["special"] = []
                for k in x["bytes"]:
                    table[int(k)] = evil[int(k) % len(evil)]
                    x["bytes"][k] = base64.b64encode(table[int(k)]).decode()
            if x["type"] == "header":
                x["prompt_text"] = "<b>bold</b>\n</details><script>alert(2)</script>"
                x["model"]["name"] = "<i>model</i>|"
                x["config"]["<u>key</u>"] = "<s>value</s>"
        path = os.path.join(self.dir.name, "<evil>&.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(x) + "\n" for x in lines)
        text = self.report("e.html", "--step", "0-40", files=[self.files[3], path])
        page = Page(text)
        tags = {e["tag"] for e in page.all}
        self.assertFalse(tags & {"script", "img", "b", "i", "u", "s"})
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\u202e", text)
        self.assertFalse(re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text))
        self.assertTrue(page.find("td"))
        self.assertIn("<i>model</i>|", [e["text"] for e in page.find("td")])
        whole = b"".join(table[t] for s in steps_of(lines) for t in s["emitted"])
        spans = [e for e in page.find("span") if "data-id" in e and page.inside(e, page.find("section")[0])]
        shown = "".join(s["text"] for s in spans)
        self.assertGreater(len({t for s in steps_of(lines) for t in s["emitted"]}), 30)
        for say, byte in (("<script>", b"<script>"), ("^[[31m^G", b"\x1b[31m\x07"), ("<U+202E>|*", b"\xe2\x80\xae|*"), ("<FF><FE>", b"\xff\xfe")):
            self.assertGreater(whole.count(byte), 0)
            self.assertEqual(shown.count(say), whole.count(byte))
        for form in ("md", "svg", "csv", "json"):
            out = self.report("e." + form, "--step", "0-40", files=[path])
            self.assertNotIn("<script", out)
            if form == "svg":
                ET.fromstring(out)
            if form == "md":
                self.assertFalse(re.search(r"<[a-z]", out))
                self.assertTrue(all(line.count("|") == 3 for line in out.splitlines() if line.startswith("|")))

    def test_an_answer_that_begins_with_a_token_without_text(self):
        lines = load(self.files[0])
        first = steps_of(lines)[0]["emitted"][0]
        for x in lines:
            if x["type"] == "tokens" and str(first) in x["bytes"]:
                x["special"] = [first]
        path = os.path.join(self.dir.name, "special.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(x) + "\n" for x in lines)
        page = Page(self.report("special.html", files=[path]))
        spans = [e for e in page.find("span") if "data-id" in e and page.inside(e, page.find("section")[0])]
        self.assertEqual((spans[0]["data-id"], spans[0]["text"]), (str(first), ""))
        self.assertIn("data-special", spans[0])

    def test_lower_levels_and_lossy_runs_say_so(self):
        d = self.dir.name
        low, lossy = os.path.join(d, "low.jsonl.zst"), os.path.join(d, "lossy.jsonl")
        run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "60", "--trace", low, "--trace-level", "steps", "-q",
            "--max-rows", "8")
        run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "60", "--trace", lossy, "--acceptance", "typical:0:1",
            "--temperature", "1", "--seed", "2", "--max-rows", "16", "-q")
        text = self.report("low.html", files=[low])
        self.assertEqual(text.count("not in these recordings"), 4)  # depth, rank, source, calibration
        self.assertTrue("has only the accepted tokens" in self.report("low.html", "--step", "0-20", files=[low]))
        text = self.report("lossy.html", files=[lossy])
        self.assertTrue("LOSSY" in text)
        page = Page(text)
        loose = sum(s["nodes"][s["path"][k]]["token"] != s["nodes"][s["path"][k - 1]]["target"]
                    for s in steps_of(load(lossy)) if s["forward"] for k in range(1, len(s["emitted"])))
        self.assertEqual(len([e for e in page.find("span") if "LOSSY" in e.get("title", "")]), loose)
        self.assertGreater(loose, 0)

    def test_bad_input(self):
        trace = self.files[0]
        for args, code, what in (([], 2, "TRACE"), ([trace, "-o", "x.pdf"], 2, ".html"),
                                 ([trace, "-o", "/nonexistent/x.html"], 1, "cannot write"), (["/nowhere", "-o", "x.html"], 1, "cannot read"),
                                 ([trace, "-o", "x.html", "--step", "a"], 2, "expected steps such as"),
                                 ([trace, "-o", "x.html", "--step", "9999"], 2, "there are 0 to "), ([os.devnull, "-o", "x.html"], 1, "no complete line")):
            r = run("report", *args, cwd=self.dir.name)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (code, 1), r.stderr)
            self.assertIn(what, r.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.dir.name, "x.html")))

    # ---- exports

    def export(self, name, *args, files=None):
        out = os.path.join(self.dir.name, name)
        r = run("export", *(files or self.files), "-o", out, *args)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        with open(out, encoding="utf-8") as f:
            return f.read()

    def test_spec_bench_answers(self):
        suite = os.path.join(self.dir.name, "question.jsonl")
        with open(suite, "w", encoding="utf-8") as f:
            f.write(json.dumps({"question_id": 81, "category": "writing", "turns": ["One fish, two", "more"]}) + "\n")
        lines = [json.loads(x) for x in self.export("a.jsonl", "--suite", suite).splitlines()]
        self.assertEqual(len(lines), 6)
        for i, a in enumerate(lines):
            self.assertEqual((a["question_id"], a["category"]), (81, "writing") if i >= 3 else (i + 1, ""))
            c = a["choices"][0]
            steps = steps_of(load(self.files[i]))
            if i < 3:
                self.assertEqual(c["turns"], [self.texts[i]["text"]])
            self.assertEqual(c["accept_lengths"], [len(s["emitted"]) for s in steps])
            self.assertEqual((c["decoding_steps"], c["new_tokens"]), ([len(steps)], [self.texts[i]["emitted"]]))
            self.assertAlmostEqual(c["wall_time"][0], sum(s["us"]["total"] for s in steps) / 1e6 + load(self.files[i])[0]["prefill_ms"] / 1e3,
                                   places=6)

    def test_chrome_events(self):
        o = json.loads(self.export("t.json"))
        events = o["traceEvents"]
        self.assertEqual(len({e["pid"] for e in events}), 6)
        for i, f in enumerate(self.files):
            steps = steps_of(load(f))
            mine = [e for e in events if e["pid"] == i + 1 and e["ph"] == "X" and e["name"] in ("step", "end")]
            self.assertEqual([e["args"]["rows"] for e in mine], [s["rows"] for s in steps])
            for a, b in zip(mine, mine[1:]):
                self.assertAlmostEqual(a["ts"] + a["dur"], b["ts"], delta=0.2)
            for e, s in zip(mine, steps):
                parts = [p for p in events if p["pid"] == i + 1 and p["ph"] == "X" and p["name"] in ("draft", "forward", "verify", "commit")
                         and e["ts"] - 0.01 <= p["ts"] < e["ts"] + e["dur"] * (1 - 1e-6) - 0.01]  # dur has 7 digits
                self.assertLessEqual(sum(p["dur"] for p in parts), e["dur"] + 1)
                self.assertAlmostEqual(e["dur"], s["us"]["total"], delta=1e-4 * s["us"]["total"])

    def test_each_way_has_a_label_of_its_own(self):
        files = []
        for i, method in enumerate(("x #2", "x", "x", "y")):  # a stranger's methods may be named as labels are
            lines = load(self.files[0])
            lines[0]["method"], lines[0]["seed"], lines[0]["config"] = method, 0, {"decode.made_up": str(i)}
            files.append(os.path.join(self.dir.name, f"way{i}.jsonl"))
            with open(files[-1], "w", encoding="utf-8") as f:
                f.writelines(json.dumps(x) + "\n" for x in lines)
        groups = json.loads(self.report("ways.json", files=files))["groups"]
        self.assertEqual([g["label"] for g in groups], ["x #2", "x", "x #3", "y"])
        self.assertIn("| x #2 | x | x #3 | y |", self.report("ways.md", files=files))

    def test_each_recording_is_a_conversation_of_its_own(self):
        lines = load(self.files[1])
        for x in lines:
            if "turn" in x:
                x["turn"] += 2
        later = os.path.join(self.dir.name, "later.jsonl")
        with open(later, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(x) + "\n" for x in lines)
        answers = [json.loads(x) for x in self.export("two.jsonl", files=[self.files[0], later]).splitlines()]
        self.assertEqual([a["choices"][0]["turns"] for a in answers], [[self.texts[0]["text"]], [self.texts[1]["text"]]])
        self.assertEqual({e["pid"] for e in json.loads(self.export("two.json", files=[self.files[0], later]))["traceEvents"]}, {1, 2})
        told = self.report("two.md", "--step", "0", files=[later])
        self.assertIn("later.jsonl, turn 3, step 0: ", told)

    def test_a_film_shows_the_replay(self):
        film = self.export("f.cast", "--size", "90x30", files=[self.files[5]]).splitlines()
        head = json.loads(film[0])
        self.assertEqual((head["version"], head["width"], head["height"]), (2, 90, 30))
        screen, last = [[" "] * 90 for _ in range(30)], 0
        row = col = 0
        for line in film[1:]:
            t, kind, text = json.loads(line)
            self.assertGreaterEqual(t, last)
            self.assertEqual(kind, "o")
            last = t
            for m in re.finditer(r"\x1b\[(\d+);1H|\x1b\[[0-9;?]*[mlh]|([^\x1b])", text):
                if m.group(1):
                    row, col = int(m.group(1)) - 1, 0
                elif m.group(2):
                    screen[row][col] = m.group(2)
                    col += 1
        shown = "\n".join("".join(r) for r in screen)
        forwards = [s["index"] for s in steps_of(load(self.files[5])) if s["forward"]]
        self.assertIn("REPLAY ENDED", shown)
        self.assertIn(f"step {forwards[-1]}", shown)
        self.assertIn("F1 Help", shown)
        total = sum(s["us"]["total"] for s in steps_of(load(self.files[5]))) / 1e6 + load(self.files[5])[0]["prefill_ms"] / 1e3
        self.assertAlmostEqual(last, total + 2, delta=0.01)
        slow = self.export("s.cast", "--speed", "0.5", files=[self.files[5]]).splitlines()
        self.assertAlmostEqual(json.loads(slow[-1])[0], 2 * total + 2, delta=0.01)

    def test_bad_exports(self):
        for args, code, what in (([], 2, "TRACE"), ([self.files[0], "-o", "x.txt"], 2, ".cast"),
                                 ([*self.files[:2], "-o", "x.cast"], 2, "one recording"), ([self.files[0], "-o", "x.cast", "--size", "9x9"], 2, "--size"),
                                 ([self.files[0], "-o", "x.cast", "--speed", "max"], 2, "--speed"),
                                 ([self.files[0], "-o", "x.jsonl", "--suite", "/nowhere"], 1, "/nowhere")):
            r = run("export", *args, cwd=self.dir.name)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (code, 1), r.stderr)
            self.assertIn(what, r.stderr)


if __name__ == "__main__":
    unittest.main()
