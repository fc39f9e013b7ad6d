"""The conversation as lines of text (chat --plain): what a screen reader, a log or a pipe gets."""
import json
import os
import re
import tempfile
import unittest

from program import Screen, read_trace, run

SCRIPT = ["--model", "script:3", "--max-rows", "4"]


def answers(out):
    return re.findall(r"^answer:\n(.*?)\nend \((\w+)\): (\d+) tokens? in (\d+) steps?", out, re.S | re.M)


class Plain(unittest.TestCase):
    def chat(self, lines, *flags):
        r = run("chat", "--plain", *SCRIPT, *flags, input=lines)
        self.assertNotIn("\033", r.stdout + r.stderr)
        return r

    def test_a_step_is_a_line_and_the_answers_are_those_of_generate(self):
        r = self.chat("Retrieval\nmore\n", "--max-tokens", "40")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertEqual(r.stdout.count("\nturn "), 2)
        want = json.loads(run("generate", *SCRIPT, "--max-tokens", "40", "--prompt", "Retrieval", "--json").stdout)
        got = answers(r.stdout)
        self.assertEqual(len(got), 2)
        self.assertEqual(got[0][0].strip(), want["text"].strip())
        self.assertEqual(got[0][1:], (want["finish_reason"], str(want["emitted"]), str(want["steps"])))
        steps = re.findall(r'^step (\d+): root .*; emitted "', r.stdout, re.M)
        self.assertEqual(steps, [str(i) for _, _, _, n in got for i in range(int(n))])

    def test_an_empty_line_lets_a_cut_answer_go_on(self):
        whole = answers(self.chat("Retrieval\n", "--max-tokens", "60").stdout)
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            r = self.chat("Retrieval\n\n\nmore\n", "--max-tokens", "20", "--trace", path)
            parts = answers(r.stdout)
            self.assertEqual([p[2] for p in parts], ["20", "40", "60", "20"])
            self.assertEqual(parts[2][0], whole[0][0])
            self.assertTrue(parts[2][0].startswith(parts[0][0].rstrip("\ufffd")))
            with open(path, encoding="utf-8") as f:
                lines = read_trace(f.read())
            self.assertEqual([x["type"] for x in lines if x["type"] in ("header", "end")], ["header", "end"] * 2)
            self.assertEqual([x["totals"]["emitted"] for x in lines if x["type"] == "end"], [60, 20])
            again = run("replay", path, "--script", self.write(d, "wait REPLAY\nkey G\nwait ENDED\nexpect 20 tokens\n"))
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(run("report", path, "-o", os.path.join(d, "r.md")).returncode, 0)
            saved = os.path.join(d, "s.jsonl")
            self.chat(f"Retrieval\n:save {saved}\n", "--max-tokens", "20")
            r = self.chat(f":load {saved}\n\n\nmore\n", "--max-tokens", "20")  # an answer of another run
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertEqual([p[:3] for p in answers(r.stdout)[-2:]], [p[:3] for p in parts[2:]])

    def write(self, d, text):
        path = os.path.join(d, "keys")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_commands_keep_their_place_in_a_pipe(self):
        with tempfile.TemporaryDirectory() as d:
            text, step, saved = (os.path.join(d, x) for x in ("text", "step", "c.jsonl"))
            r = self.chat(f"Retrieval\n:save-text {text}\n:save-step {step}\n:save {saved}\n:set decode.method=pld\nmore\n"
                          ":frobnicate\n:quit\nnot asked\n", "--max-tokens", "30")
            self.assertEqual(r.returncode, 1)  # one of them was refused
            self.assertEqual(r.stderr, "logitspec: unknown command 'frobnicate' (F1 lists all)\n")
            self.assertNotIn("not asked", r.stdout)
            got = answers(r.stdout)
            self.assertEqual([len(got), got[0][2]], [2, "30"])
            with open(text, encoding="utf-8") as f:
                self.assertEqual(f.read(), got[0][0] + "\n")
            with open(step, encoding="utf-8") as f:
                self.assertRegex(f.read(), r"^step \d+: root .*\nIt emitted \d+ tokens?: ")
            with open(saved, encoding="utf-8") as f:
                methods = [x["method"] for x in map(json.loads, f) if x["type"] == "header"]
            self.assertEqual(methods, ["logitspec"])

    def test_a_save_at_the_end_of_the_input(self):
        with tempfile.TemporaryDirectory() as d:
            saved = os.path.join(d, "c.jsonl")
            for _ in range(5):
                r = self.chat(f"Retrieval\n:save {saved}\n", "--max-tokens", "5")
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                self.assertIn(f"note: saved {saved}", r.stdout)
                os.remove(saved)
            r = self.chat(f"Retrieval\n:save {d}/none/c.jsonl\n", "--max-tokens", "5")
            self.assertEqual(r.returncode, 1)
            self.assertRegex(r.stderr, r"^logitspec: cannot write .*\n$")

    def test_mistakes(self):
        self.assertEqual(self.chat("Hi\n", "--script", "x").returncode, 2)
        r = run("chat", "--plain", "--model", "/nonexistent.gguf", input="Hi\n")
        self.assertEqual(r.returncode, 1)
        self.assertEqual(len(r.stderr.splitlines()), 1)
        full = self.chat("x" * 5000 + "\nmore\n", "--max-tokens", "10")  # it does not fit; the next one does
        self.assertEqual((full.returncode, len(answers(full.stdout))), (1, 1))
        self.assertIn("logitspec: the prompt has", full.stderr)
        nul = self.chat("One fish\0two\nmore\n", "--max-tokens", "10")  # what would be half a prompt is none
        self.assertEqual((nul.returncode, len(answers(nul.stdout))), (1, 1))
        self.assertIn("logitspec: a line with a NUL byte was ignored: 'One fish'\n", nul.stderr)

    def test_in_a_terminal(self):
        with Screen("--plain", *SCRIPT, "--max-tokens", "9", cols=100, rows=40) as s:
            s.wait("Each line is a prompt", "\n>")
            s.type("Retrieval")
            s.keys("Enter")
            s.wait("end (length): 9 tokens")
            s.keys("Enter")
            s.wait("end (length): 18 tokens")
            s.keys("C-c")
            s.wait("exit=130")
