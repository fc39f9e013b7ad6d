"""Names of earlier versions (src/base/aliases.def): each is still read as what it is called today, wherever it was written."""
import glob
import json
import os
import re
import unittest

from program import ROOT, Folder, run
from recording import unpack

SCRIPT = ["--model", "script", "--prompt", "def fib(n):", "--max-tokens", "20"]
with open(ROOT + "/src/base/aliases.def", encoding="utf-8") as f:
    ALIASES = re.findall(r'(?m)^ALIAS\("(.*)", "(.*)", "(.*)"\)', f.read())
METHODS = {before: now for of, before, now in ALIASES if of == "decode.method"}


def as_before(text, kind="key"):
    """The text of a recording, or of another kind of file, as an earlier version wrote it."""
    for before, now in METHODS.items():
        text = re.sub(r'("(?:method|word|label|speedup_against|reference|decode\.method)":")%s(?=[":/@+])' % now, r"\g<1>" + before, text)
    for of, before, now in ALIASES:
        if of == "guarantee" and kind == "bench":
            text = text.replace('"guarantee":"%s"' % now, '"guarantee":"%s"' % before)
    for of, before, now in ALIASES:
        if of == kind:
            text = text.replace('"%s":' % now, '"%s":' % before)
    return text


class Names(Folder):
    def made(self, *args, **kw):
        r = run(*args, **kw)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r

    def config(self, *args, **env):
        return json.loads(re.search(r'"config":(\{.*?\})', self.header(*args, **env)).group(1))

    def header(self, *args, **env):
        self.made("generate", *SCRIPT, *args, "--trace", self.path("t.jsonl"), env=env)
        return self.read("t.jsonl").split("\n", 1)[0]

    def test_a_method_in_every_setting(self):
        for before, now in METHODS.items():
            want = self.config("--method", now)
            self.assertEqual(want["decode.method"], now)
            self.assertEqual(want, self.config("--method", before))
            self.assertEqual(want, self.config("--set", "decode.method=" + before))
            self.assertEqual(want, self.config("--config", self.write("c.yaml", f"decode:\n  method: {before}\n")))
            self.assertEqual(want, self.config(LOGITSPEC_SET_DECODE__METHOD=before))
            r = self.made("compare", *SCRIPT, "--methods", f"{before}:1/fixed:1,pld", "--json", "-q")
            self.assertEqual([m["method"] for m in json.loads(r.stdout)["methods"]], [f"{now}:1/fixed:1", "pld"])

    def test_a_key_and_its_flag(self):
        want = self.config("--max-rows", "3")
        self.assertEqual(want["decode.max_rows"], "3")
        self.assertEqual(want, self.config("--budget", "3"))
        self.assertEqual(want, self.config("--budget=3"))
        self.assertEqual(want, self.config("--set", "decode.budget=3"))
        self.assertEqual(want, self.config("--config", self.write("c.yaml", "decode: {budget: 3}\n")))
        self.assertEqual(want, self.config(LOGITSPEC_SET_DECODE__BUDGET="3"))
        r = run("tokenize", "--budget", "3")
        self.assertEqual((r.returncode, r.stderr), (2, "logitspec: 'logitspec tokenize' has no flag '--max-rows'\n"))
        for of, before, now in ALIASES:  # each stands for something that exists, and is not offered
            if of == "flag":
                self.assertIn(f"--{now} ", run("help", "config").stdout + run("generate", "--help").stdout)
            shown = self.made("config", "show").stdout + self.made("generate", "--help").stdout
            self.assertNotRegex(shown, r"(?<![\w.])%s(?![\w.])" % re.escape(before.split(".")[-1]))

    def test_a_recording(self):
        for now in METHODS.values():
            self.made("generate", *SCRIPT, "--method", now, "--seed", "1", "--trace", self.path("t.jsonl"))
            new = self.read("t.jsonl")
            self.assertNotEqual(as_before(new), new)
            shown = []
            for text in new, as_before(new):
                self.write("t.jsonl", text)
                self.made("report", self.path("t.jsonl"), "-q", "-o", self.path("r.json"))
                shown.append([self.read("r.json"), *(self.made(*args).stdout for args in (
                    ["inspect", self.path("t.jsonl")], ["diff", self.path("t.jsonl"), self.path("t.jsonl")]))])
            self.assertEqual(*shown)

    def test_a_demo(self):
        for before, now in ((b, n) for of, b, n in ALIASES if of == "demo"):
            shown = [self.made("demo", name, "--script", self.write("s.script", "wait Demo:\n")) for name in (before, now)]
            self.assertEqual(shown[0].stdout, shown[1].stdout)
            self.assertNotIn(before, self.made("demo").stdout)

    def test_a_benchmark(self):
        for now in METHODS.values():
            suite = self.write("suite.jsonl", '{"prompt": "One fish"}\n{"prompt": "Two fish"}\n')
            args = ["bench", "methods", "--model", "script", "--suite", suite, "--max-tokens", "20", "--temperature", "0.8", "--methods", now + ",pld:4,pld:4@speculative", "-q", "-o", self.path("b.json")]
            self.made(*args)
            new, shown = self.read("b.json"), self.made("bench", "show", self.path("b.json")).stdout
            self.write("b.json", as_before(new, "bench"))
            self.assertIn("same distribution", shown)
            self.assertEqual((self.read("b.json").count('"promise":"odds"'), self.read("b.json").count('"guarantee":')), (1, 0))
            self.assertEqual(self.made("bench", "show", self.path("b.json")).stdout, shown)
            self.made(*args, "--resume")
            self.assertEqual(json.loads(self.read("b.json"))["runs"], json.loads(new)["runs"])

    def test_a_lab(self):
        suite, lab = self.write("suite.jsonl", '{"prompt": "One fish"}\n'), self.path("lab")
        args = ["lab", "--suite", suite, "--model", "script", "--max-tokens", "4", "--methods", "pld", "-o", lab]
        self.made(*args)
        page = self.read("lab/main.csv")
        for before, now in METHODS.items():
            os.rename(f"{lab}/traces/{now}", f"{lab}/traces/{before}")
        for path in glob.glob(lab + "/traces/*/*.zst"):
            with open(path, "rb+") as f:
                old = as_before(unpack(f.read()).decode()).encode()
                f.seek(0)
                f.truncate()
                f.write(old)  # readers look at the content, not at the name
        self.write("lab/traces/lab.jsonl", as_before(self.read("lab/traces/lab.jsonl")))
        again = self.made(*args).stdout
        self.assertRegex(again, r"(?m)^0 recordings were made|: 0 recordings were made")
        self.assertEqual(self.read("lab/main.csv"), page)


if __name__ == "__main__":
    unittest.main()
