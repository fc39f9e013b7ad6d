"""Guided runs: every shipped demo says everything it has to say, on the screen and as text; a teacher's mistakes are named."""
import os
import re
import tempfile
import textwrap
import unittest

from program import ENV, ROOT, Screen, run

DEMOS = sorted(f[:-5] for f in os.listdir(os.path.join(ROOT, "demos")) if f.endswith(".yaml"))
GOOD = """title: A test
prompt: "def fib(n):"
settings:
  model: {name: script}
  decode: {method: logitspec-paper, budget: 8, max_tokens: 30}
  prompt: {format: raw}
pace: 0
notes:
  - {when: start, say: before}
  - {when: step 2, say: the third, look: tree}
  - {when: end, say: over}
"""


class Demo(unittest.TestCase):
    def test_list(self):
        r = run("demo")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertGreaterEqual(len(DEMOS), 8)
        for name in DEMOS:
            self.assertRegex(r.stdout, rf"(?m)^  {name} +\S")

    def test_every_demo_says_all_of_its_notes_without_a_model(self):
        for name in DEMOS:
            with open(os.path.join(ROOT, "demos", name + ".yaml"), encoding="utf-8") as f:
                text = f.read()
            r = run("demo", name, env={"LOGITSPEC_LIB": "/nowhere"})
            self.assertEqual((r.returncode, r.stderr), (0, ""), name)
            said = [" ".join(x.split()) for x in re.findall(r"(?m)^\* (.*)$", r.stdout)]
            notes = [" ".join(x.split()) for x in re.findall(r"say: >\n((?:      .*\n)+)", text)]
            notes += re.findall(r'say: "(.*)"', text)
            self.assertEqual(sorted(said), sorted(notes), name)
            for note in notes:  # the smallest screen shows five lines
                self.assertLessEqual(len(textwrap.wrap(note, 76)), 5, (name, note))
            self.assertRegex(r.stdout, r"# \d+ tokens in \d+ steps: MAT [\d.]+; x[\d.]+ against plain decoding")

    def test_on_the_screen(self):
        with Screen("demo", "race", cols=120, rows=36, env={"LOGITSPEC_LIB": "/nowhere"}) as s:
            s.wait("Demo: A race", "Nothing is forced here", "Enter goes on", "REPLAY LOOK")
            s.keys("Enter")
            s.wait("one and a half times as fast", "Enter goes on")
            s.keys("Space")
            s.wait("Both lanes run on the same clock", "against ar ", "the same, 39 of 39 tokens")
            s.keys("Enter", "[")
            s.wait("1 behind")
            s.keys("q", "q", "q", "q")
            s.wait("exit=0")
        with Screen("demo", "first-step", cols=80, rows=24, env={"LOGITSPEC_LIB": "/nowhere"}) as s:
            s.wait("One step, from the inside", "Enter goes on")
            s.keys("Enter")
            s.wait("emitted in any case")
            s.keys("Q")
            s.wait("exit=0")

    def write(self, d, text):
        path = os.path.join(d, "mine.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_a_demo_of_ones_own_is_decoded_here(self):
        with tempfile.TemporaryDirectory() as d:
            r = run("demo", self.write(d, GOOD))
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertEqual(re.findall(r"(?m)^\* (.*)$", r.stdout), ["before", "the third", "over"])
            self.assertIn("    step 2: root", r.stdout)
            with Screen("demo", os.path.join(d, "mine.yaml"), cols=120, rows=36) as s:
                s.wait("Demo: A test", "before")
                s.keys("Enter")
                s.wait("the third", "step 2")
                s.keys("Enter")
                s.wait("over")

    def test_mistakes_are_named(self):
        with tempfile.TemporaryDirectory() as d:
            for old, new, what in (("when: step 2", "when: stop 2", ":10:12: when is one of"), ("step 2", "step", ":10:12: when is one of"),
                                   ("look: tree", "look: wood", "look is output"), ("notes:", "nodes:", "unknown key"),
                                   ("title: A test\n", "", "title, prompt and notes are needed"), ("pace: 0", "pace: fast", "pace is a number"),
                                   (", say: over", "", "a note needs when and say"), ("budget: 8", "budgie: 8", "budget"),
                                   ("step 2, say", "source mars, say", "source is followed by"),
                                   ("prompt: {format", "trace: {file: /tmp/x}\n  prompt: {format", "a demo names no trace"),
                                   ("prompt: {format", "suffix: {file: /tmp/x}\n  prompt: {format", "and no method's file")):
                self.assertIn(old, GOOD)
                path = self.write(d, GOOD.replace(old, new, 1))
                r = run("demo", path)
                self.assertEqual((r.returncode, r.stderr.count("\n"), r.stdout), (2, 1, ""), r.stderr)
                self.assertIn(f"logitspec: {path}:", r.stderr)
                self.assertIn(what, r.stderr)
        r = run("demo", "nonsense")
        self.assertEqual((r.returncode, r.stderr), (2, "logitspec: there is no demo 'nonsense' ('logitspec demo' lists them)\n"))


if __name__ == "__main__":
    unittest.main()
