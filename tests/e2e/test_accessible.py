"""Pages and pictures for narrow windows, weak eyes and screen readers: what scrolls, contrasts, the names of pictures."""
import json
import os
import re
import tempfile
import unittest

from program import run
from test_report import Page

CONTRAST = 5  # WCAG 2 AA asks for 4.5


# ---- style sheets

def rules(css, dark):
    """(selector, {property: value}) in their order, in a light or a dark scheme, on a screen."""
    out = []
    while css:
        head, rest = css.split("{", 1)
        if head.startswith("@media"):
            depth, end = 1, 0
            while depth:
                depth += {"{": 1, "}": -1}.get(rest[end], 0)
                end += 1
            if dark and "dark" in head:
                out += rules(rest[:end - 1], dark)
            css = rest[end:]
        else:
            body, css = rest.split("}", 1)
            out += [(s, dict(d.split(":", 1) for d in body.split(";") if d)) for s in head.split(",")]
    return out


def is_at(selector, e):
    """A selector that changes a colour is one tag, class or attribute; others would need more of CSS here."""
    tag, klass, attribute = re.fullmatch(r"(\w*)(?:\.([\w-]+))?(?:\[([\w-]+)\])?", selector).groups()
    return (not tag or e["tag"] == tag) and (not klass or klass in e.get("class", "").split()) and (not attribute or attribute in e)


# ---- colours

def mix(over, under, share):
    return tuple(share * a + (1 - share) * b for a, b in zip(over, under))


def contrast(a, b):
    def light(c):
        r, g, b = (v / 12.92 if v <= .04045 else ((v + .055) / 1.055) ** 2.4 for v in c)
        return .2126 * r + .7152 * g + .0722 * b + .05
    return max(light(a), light(b)) / min(light(a), light(b))


class Look:
    """What colours the elements of a page or a picture have."""

    def __init__(self, page, dark):
        css = "".join(e["text"] for e in page.find("style"))
        self.page, self.rules = page, rules(css, dark)
        self.vars = {k: v for s, d in self.rules if s == ":root" for k, v in d.items()}

    def color(self, value, e):
        """Red, green, blue and opacity."""
        value = self.vars[value[4:-1]] if value.startswith("var(") else value
        if value == "currentColor":
            return self.ink(e)
        assert re.fullmatch("#([0-9a-f]{6}|[0-9a-f]{8})", value), value
        return *(int(value[i:i + 2], 16) / 255 for i in (1, 3, 5)), int(value[7:] or "ff", 16) / 255

    def own(self, e, name, pseudo=""):
        style = dict(d.split(":", 1) for d in e.get("style", "").split(";") if d)
        said = [d[name] for s, d in self.rules if name in d and s.endswith(pseudo) and ("::" in s) == bool(pseudo) and is_at(s.removesuffix(pseudo), e)]
        return style.get(name) or (said or [e.get(name)])[-1]

    def inherited(self, e, name):
        while e is not None:
            if self.own(e, name):
                return self.color(self.own(e, name), e)
            e = e["in"]
        raise AssertionError(f"{name} is the browser's")

    def ink(self, e):
        return self.inherited(e, "color")

    def ground(self, e):
        """The backgrounds of an element and of what holds it, one over the other."""
        under = self.ground(e["in"]) if e["in"] else (1, 1, 1)
        *over, share = self.color(self.own(e, "background") or "#ffffff00", e)
        return mix(over, under, share)

    def under_text(self, e):
        """What a text of a picture stands on: the page, and the rectangles before it that its first letter is in."""
        x = float(e["x"]) + {"start": 1, "end": -1, "middle": 0}[e.get("text-anchor", "start")]
        y, ground = float(e["y"]) - 4, self.ground(e)
        for r in self.page.all[:self.page.all.index(e)]:
            if r["tag"] != "rect" or (r.get("width") != "100%" and r["in"] is not e["in"]):
                continue
            fill = self.own(r, "fill")
            inside = r["width"] == "100%" or all(float(r[at]) <= v < float(r[at]) + float(r[size]) for at, v, size in (("x", x, "width"), ("y", y, "height")))
            if inside and fill != "none":
                ground = mix(self.color(fill, r)[:3], ground, float(r.get("fill-opacity", 1)))
        return ground

    def texts(self):
        """(element, colour, ground) of every text; links have the browser's colours, which follow color-scheme."""
        self.rules = [r for r in self.rules if set(r[1]) & {"color", "background", "fill", "opacity"} and r[0] != ":root"]
        for e in self.page.all:
            if e["tag"] == "text":
                ground = self.under_text(e)
                yield e, mix(self.inherited(e, "fill")[:3], ground, float(e.get("opacity", 1))), ground
            elif re.search(r"\w", e["text"]) and e["tag"] not in ("title", "style", "a"):
                yield e, self.ink(e)[:3], self.ground(e)
            if "data-special" in e:
                yield e, self.color(self.own(e, "color", "::after"), e)[:3], self.ground(e)


class Accessible(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.pages = {}
        traces = [cls.path("plain.jsonl"), cls.path("<i>&\"b\".jsonl")]
        for method, trace in zip(("plain", "logitspec-paper"), traces):
            cls.make(None, "generate", "--prompt", "def fib(n):\n", "--method", method, "--max-tokens", "60", "--seed", "1", "--trace", trace, "-q")
        with open(traces[1], encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        lines[0]["model"]["name"] = "<u>model</u>"
        for line in lines:
            line["special"] = [int(k) for k in list(line["bytes"])[::5]] if line["type"] == "tokens" else line.get("special")
        with open(traces[1], "w", encoding="utf-8") as f:
            f.writelines(json.dumps(line) + "\n" for line in lines)
        suite, keys = cls.path("suite.jsonl"), cls.path("keys")
        with open(suite, "w", encoding="utf-8") as f:
            f.write(json.dumps({"prompt": "One fish, two", "category": "<words>"}) + "\n")
        for form in ("html", "svg"):
            cls.make("report." + form, "report", *traces, "--step", "0-9", "-q")
        cls.make("lab", "lab", "--suite", suite, "--max-tokens", "60", "--methods", "pld", "-q")
        cls.make("bench.json", "bench", "methods", "--suite", suite, "--max-tokens", "10", "--methods", "plain,pld", "-q")
        cls.make("bench.html", "bench", "show", cls.path("bench.json"))
        cls.make("forward.svg", "bench", "--contexts", "64,128", "--rows", "1,2,4", "-q")
        for theme in ("default", "light"):
            cls.make(f"film-{theme}.svg", "export", traces[1], "--set", "ui.theme=" + theme)
            with open(keys, "w", encoding="utf-8") as f:
                f.write(f"size 120x36\nwait READY\ntype One fish\nkey Enter\nwait 20 tokens\nwait READY\nsave {cls.path(theme + '.svg')}\n")
            cls.make(None, "--script", keys, "--max-tokens", "20", "--set", "ui.theme=" + theme)
        for folder, _, files in os.walk(cls.dir.name):
            for name in files:
                if name.endswith((".html", ".svg")):
                    with open(os.path.join(folder, name), encoding="utf-8") as f:
                        cls.pages[os.path.join(folder, name)[len(cls.dir.name) + 1:]] = Page(f.read())

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.dir.name, name)

    @classmethod
    def make(cls, out, *args):
        model = ["--model", "script"] if args[0] not in ("report", "export") and args[1:2] != ("show",) else []
        r = run(*args, *model, *(["-o", cls.path(out)] if out else []))
        assert r.returncode == 0, (args, r.stderr)

    def html(self):
        pages = {k: p for k, p in self.pages.items() if k.endswith(".html")}
        self.assertEqual(set(pages), {"report.html", "lab/index.html", "bench.html"})
        return pages.items()

    def test_every_picture_has_a_name(self):
        self.assertGreater(len(self.pages), 15)
        names = {}
        for file, page in self.pages.items():
            names[file] = {}
            for e in page.find("svg"):
                children = [c for c in page.all if c["in"] is e]
                self.assertEqual((e.get("role"), children[0]["tag"]), ("img", "title"), file)
                name, of = children[0]["text"], (e.get("data-plot"), e.get("data-turn"), e.get("data-step"))
                self.assertRegex(name, r"\w \w|: \w", file)
                self.assertEqual(names[file].setdefault(name, of), of, file)  # a tree may be shown twice
        self.assertIn("Tokens emitted by a step: plain script, logitspec-paper <u>model</u>", names["report.html"])
        self.assertIn("Rank of the following tokens in the last logits: distance 2, distance 3, distance 4", names["lab/distance.svg"])
        trees = [n for n in names["report.html"] if n.startswith("Draft tree of step ")]
        self.assertGreaterEqual(len(trees), 20)
        self.assertTrue(any(n.startswith("Draft tree of step 3 in turn 2 of 2 (" + self.path('<i>&"b".jsonl') + "): ") for n in trees))
        self.assertEqual(list(names["film-light.svg"]), ["Replay of " + self.path('<i>&"b".jsonl')])

    def test_every_text_stands_out(self):
        for file, page in self.pages.items():
            for dark in (False, True) if file.endswith(".html") else (False,):
                n = 0
                for e, ink, ground in Look(page, dark).texts():
                    if not re.search(r"\w", e["text"] + e.get("data-special", "")) or "─" in e["text"]:
                        continue  # bars of a screen, and frames with what stands in them
                    n += 1
                    self.assertGreaterEqual(contrast(ink, ground), CONTRAST, (file, "dark" if dark else "light", {**e, "in": None}))
                self.assertGreater(n, 0, file)

    def test_only_boxes_scroll_sideways(self):
        for file, page in self.html():
            sheet = rules("".join(e["text"] for e in page.find("style")), False)
            all_of = lambda name: [(s, d[name]) for s, d in sheet if name in d]
            for e in page.find("table") + page.find("svg"):
                while e and e.get("class") != "scroll":
                    e = e["in"]
                self.assertTrue(e, file)
            self.assertIn((".scroll", "auto"), all_of("overflow-x"))
            # long words break, but do not make a column of a table as narrow as a letter
            self.assertEqual(all_of("overflow-wrap"), [("body", "break-word")])
            self.assertIn(("svg.plot", "100%"), all_of("max-width"))
            for selector, columns in all_of("grid-template-columns"):
                self.assertRegex(columns, r"^repeat\(auto-fit,minmax\(min\([\d.]+em,100%\),1fr\)\)$", selector)
            for selector, width in all_of("width") + all_of("min-width"):
                self.assertTrue(width == "100%" or re.search(r"svg(\.plot)?$|^\.of$", selector), (file, selector, width))
            for selector, wrap in all_of("white-space"):
                table = re.match(r"t[hd]\b", selector)  # tables are in boxes
                self.assertTrue(wrap == "pre-wrap" or table, (file, selector))
            self.assertTrue(("pre", "pre-wrap") in all_of("white-space"), file)


if __name__ == "__main__":
    unittest.main()
