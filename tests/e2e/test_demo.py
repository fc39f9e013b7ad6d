"""Guided runs: every shipped demo says everything it has to say, on the screen and as text; a teacher's mistakes are named."""
import glob
import os
import re
import tempfile
import textwrap
import time
import unittest

from demo_claims import CLAIMS, COMMON
from program import ENV, ROOT, Screen, run
from recording import Recording, applies

DEMOS = sorted(f[:-5] for f in os.listdir(os.path.join(ROOT, "demos")) if f.endswith(".yaml"))
GOOD = """title: A test
prompt: "def fib(n):"
settings:
  model: {name: script}
  decode: {method: logitspec-paper, max_rows: 8, max_tokens: 30}
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
        listed = re.findall(r"(?m)^ +(\d+)  ([a-z-]+) +\S", r.stdout)
        self.assertEqual([int(n) for n, _ in listed], list(range(1, len(DEMOS) + 1)))
        self.assertEqual(sorted(name for _, name in listed), DEMOS)
        places = []
        for name in DEMOS:
            with open(os.path.join(ROOT, "demos", name + ".yaml"), encoding="utf-8") as f:
                places.append(int(re.search(r"(?m)^place: (\d+)$", f.read())[1]))
        self.assertEqual([name for _, name in listed], [name for _, name in sorted(zip(places, DEMOS))])
        self.assertEqual(listed[0][1], "first-step")
        self.assertEqual(run("demo", "2").stdout, run("demo", listed[1][1]).stdout)
        r = run("demo", "99")
        self.assertEqual((r.returncode, r.stderr), (2, f"logitspec: there is no demo 99 ('logitspec demo' lists {len(DEMOS)})\n"))

    def test_the_list_asks_on_a_terminal(self):
        with Screen("demo", cols=120, rows=60, env={"LOGITSPEC_LIB": "/nowhere"}) as s:
            s.wait("Number or name (Enter: 1, first-step; q: none):")
            s.type("nonsense")
            s.keys("Enter")
            s.wait("There is no demo 'nonsense' in the list.", "Number or name (Enter: 1")
            s.type("2")
            s.keys("Enter")
            s.wait("Demo: A whole tree fits one forward", "1 of 5, Enter: next")
            s.keys("Q")
            s.wait("Number or name (Enter: 3, next-next; q: none):")
            s.keys("Enter")
            s.wait("Demo: The next-next token")
            s.keys("Q")
            s.wait("Number or name (Enter: 4")
            s.type("q")
            s.keys("Enter")
            s.wait("exit=0")

    def test_notes_are_counted_and_one_goes_back(self):
        with Screen("demo", "one-forward", cols=120, rows=36, env={"LOGITSPEC_LIB": "/nowhere"}) as s:
            s.wait("1 of 5, Enter: next", "Watch three things", absent=("Backspace back",))
            s.keys("Enter")
            s.wait("2 of 5, Enter: next, Backspace back", "step 6 ")
            s.keys("Enter")
            s.wait("3 of 5, Enter: next", "step 7 ")
            s.keys("BSpace")
            s.wait("2 of 5, Enter: next", "The mask (press m", "step 6, 1 behind")
            s.keys("BSpace")
            s.wait("1 of 5, Enter: next", "Watch three things")
            s.keys("BSpace", "Enter", "Enter")  # there is none before the first; read notes come again, at their steps
            s.wait("3 of 5, Enter: next", "The position:", "step 7 ")
            s.keys("Enter")
            s.wait("4 of 5, Enter: next", "The cost:")
            s.keys("Enter")
            s.wait("5 of 5, Enter: next", "These 60 tokens take 60 steps")
            s.keys("Enter")
            s.wait("5 of 5, Backspace back", absent=("Enter: next",))
            s.keys("Q")
            s.wait("exit=0")

    def test_ascii_holds_for_text_too(self):
        self.assertIn("·Bread", run("demo", "first-step").stdout)
        self.assertNotIn("·", run("demo", "first-step", "--ascii").stdout)

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
            self.assertRegex(r.stdout, r"# \d+ tokens in \d+ steps: MAT [\d.]+; speedup x(\?|[\d.]+(\+-[\d.]+)?) against plain decoding")

    def test_on_the_screen(self):
        with Screen("demo", "race", cols=120, rows=36, env={"LOGITSPEC_LIB": "/nowhere"}) as s:
            s.wait("Demo: A race", "The number of rows is not fixed", "Enter: next", "REPLAY PAUSED AT A NOTE")
            s.keys("Enter")
            s.wait("so this is a plain step", "2 of 4")
            s.keys("Enter")
            s.wait("one and a half times as fast", "Enter: next")
            s.keys("Space")
            s.wait("Both lanes run on the same clock", "against plain ", "the same, 86 of 86 tokens")
            s.keys("Enter", "[")
            s.wait("1 behind")
            s.keys("q", "q", "q", "q")
            s.wait("exit=0")
        with Screen("demo", "first-step", cols=80, rows=24, env={"LOGITSPEC_LIB": "/nowhere"}) as s:
            s.wait("One step, from the inside", "Enter: next")
            s.keys("Enter")
            s.wait("last logits, best first")
            s.keys("Q")
            s.wait("exit=0")

    def test_the_start_screen_names_the_demo_of_the_idea(self):
        with Screen("--model", "script", cols=80, rows=24) as s:
            s.wait("Type a prompt and press Enter", " 1  a guided tour", "own choice─retrieved─guess")
            s.keys("1", "Enter")  # while it loads, too
            s.wait("Tour 1 of 3: One step", "REPLAY", "q returns to your conversation")
            s.keys("q")
            s.wait("READY", "Type a prompt and press Enter")
            s.keys("1", "Enter")
            s.wait("Tour 1 of 3: One step", "Enter: next")
            s.keys("Enter", "G")
            for _ in range(300):  # its notes
                if "the next stop" in s.text():
                    break
                s.keys("Enter")
                time.sleep(0.1)
            s.keys("Enter")
            s.wait("Tour 2 of 3: The next-next token")
            s.keys("C-c")  # back to the conversation, in which nothing can be lost
            s.wait("READY", "Type a prompt and press Enter")
            s.keys("C-c")
            s.wait("exit=130")
        self.assertIn("next-next", DEMOS)

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
                                   ("look: tree", "look: wood", "look is one of output, "), ("notes:", "nodes:", "unknown key"),
                                   ("title: A test\n", "", "title, prompt and notes are needed"), ("pace: 0", "pace: fast", "pace is a number"),
                                   (", say: over", "", "a note needs when and say"), ("max_rows: 8", "max_row: 8", "max_rows"),
                                   ("step 2, say", "source mars, say", "source is followed by"),
                                   ("step 2, say", "missed mars, say", "missed is followed by one of: sampled refused unknown otherwise"),
                                   ("step 2, say", "next-next 0, say", ":10:12: when is one of"),
                                   ("prompt: {format", "trace: {file: /tmp/x}\n  prompt: {format", "a demo must not set a trace"),
                                   ("prompt: {format", "suffix: {file: /tmp/x}\n  prompt: {format", "or a file of a method")):
                self.assertIn(old, GOOD)
                path = self.write(d, GOOD.replace(old, new, 1))
                r = run("demo", path)
                self.assertEqual((r.returncode, r.stderr.count("\n"), r.stdout), (2, 1, ""), r.stderr)
                self.assertIn(f"logitspec: {path}:", r.stderr)
                self.assertIn(what, r.stderr)
        r = run("demo", "nonsense")
        self.assertEqual((r.returncode, r.stderr), (2, "logitspec: there is no demo 'nonsense' ('logitspec demo' lists them)\n"))


NUMBER = re.compile(r'"[^"]+"|\d[\d.]*\d|\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixty|half|twice|second|third)\b',
                    re.IGNORECASE)


def notes_of(name):
    """(when, from, the words) of each note."""
    with open(os.path.join(ROOT, "demos", name + ".yaml"), encoding="utf-8") as f:
        for block in f.read().split("\n  - when: ")[1:]:
            say = re.search(r'say: >\n((?:      .*\n?)+)|say: "(.*)"', block)
            since = re.search(r"(?m)^    from: (\d+)", block)
            yield block.splitlines()[0], int(since[1]) if since else 0, " ".join((say[1] or say[2]).split())


def recordings():
    all_of_them = {}
    for name in DEMOS:
        path = os.path.join(ROOT, "demos", "traces", name)
        all_of_them[name] = Recording(path + ".jsonl.zst")
        if os.path.exists(path + ".rival.jsonl.zst"):
            all_of_them[name].rival = Recording(path + ".rival.jsonl.zst")
        for more in glob.glob(path + ".*.jsonl.zst"):
            word = os.path.basename(more).split(".")[1]
            if word not in ("jsonl", "rival"):
                all_of_them[name].more[word] = Recording(more)
    return all_of_them


class Claims(unittest.TestCase):
    """Word by word: demo_claims.py says what each note claims."""

    @classmethod
    def setUpClass(cls):
        cls.recordings = recordings()

    def check(self, name, note, step, claims):
        """The claims hold at that step, and nothing that could be one is left. Returns those that were made."""
        sure, made = [m.span() for words in COMMON for m in re.finditer(re.escape(words), note)], set()
        for words, fact in claims:
            if not re.search(".+?".join(map(re.escape, words.split("{}"))), note):
                continue
            values = fact(self.recordings[name], step, self.recordings)
            if "{}" in words:
                self.assertIsNot(values, False, (name, words))
                values = [values] if isinstance(values, (str, int)) else list(values)
                self.assertEqual(len(values), words.count("{}"), (name, words, values))
                words_here = words.format(*values)
                self.assertIn(words_here, note, name)
            else:
                self.assertIs(values, True, (name, words))
                words_here = words
            at = note.index(words_here)
            sure.append((at, at + len(words_here)))
            made.add(words)
        for m in NUMBER.finditer(note):
            self.assertTrue(any(a <= m.start() and m.end() <= b for a, b in sure), f"{name}: nothing checks {m[0]} in: {note}")
        return made

    def step_of(self, name, when, since):
        return next((s for s in self.recordings[name].steps if s["index"] >= since and applies(when, s)), None)

    def test_every_claim_of_every_note_is_true(self):
        for name in DEMOS:
            made, said = set(), run("demo", name).stdout
            for when, since, note in notes_of(name):
                step = self.step_of(name, when, since)
                self.assertEqual(step is None, when in ("start", "end"), (name, when))
                if step:  # the program says it there, too
                    before = re.search(rf"(?m)^    step (\d+): .*\n\* {re.escape(note)}$", said)
                    self.assertEqual(int(before[1]), step["index"], (name, when))
                made |= self.check(name, note, step, CLAIMS[name])
            self.assertEqual(made, {words for words, _ in CLAIMS[name]}, f"{name}: claims that no note makes")

    def test_another_number_or_token_is_not_true(self):
        changed = 0
        for name in DEMOS:
            for when, since, note in notes_of(name):
                step = self.step_of(name, when, since)
                for m in NUMBER.finditer(note):
                    if m[0].isalpha():
                        continue
                    other = f"{float(m[0]) + 1:g}" if m[0][0].isdigit() else m[0][:-1] + 's"'
                    with self.assertRaises(AssertionError, msg=(name, m[0], note)):
                        made = self.check(name, note[:m.start()] + other + note[m.end():], step, CLAIMS[name])
                        self.assertEqual(made, self.check(name, note, step, CLAIMS[name]))
                    changed += 1
        self.assertGreater(changed, 150)


if __name__ == "__main__":
    unittest.main()
