"""What people read on a terminal is as wide as it: lines are broken at blanks, and a pipe gets the same words in whole lines."""
import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
import time
import unicodedata
import unittest

from program import LOCALE, ENV, PROGRAM, run

WIDTHS = 80, 60, 40
LOCALES = "C.UTF-8", "C"
SCRIPT = ["--model", "script", "--raw", "--prompt", "def fib(n):", "--max-tokens", "40"]
COMMANDS = re.findall(r"(?m)^  ([a-z]+) ", run("help").stdout.split("Commands:")[1].split("\n\n")[0])


def cells(line):
    """As terminals count them, whatever the locale."""
    return sum(0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def words(text):
    """Without the numbers that two runs do not share: free memory, times."""
    return re.sub(r"\d[\d.+-]*", "0", text).split()


class Pty:
    """The program with one of its streams (1 or 2) on a terminal; the others are pipes."""

    def __init__(self, args, cols, stream=1, locale="C.UTF-8"):
        self.fd, other = pty.openpty()
        modes = termios.tcgetattr(other)
        modes[1] &= ~termios.OPOST  # as it was written
        termios.tcsetattr(other, termios.TCSANOW, modes)
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if cols else 0, cols, 0, 0))
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, ("stdout", "stderr")[stream - 1]: other}
        self.p = subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, env=dict(ENV, LANG=locale, LC_ALL=locale, NO_COLOR="1"), **streams)
        os.close(other)

    def read(self, seconds=60.0):
        """All that it writes, or what it writes in that time."""
        end, data = time.monotonic() + seconds, b""
        while select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
            try:
                got = os.read(self.fd, 65536)
            except OSError as e:  # Linux: the other side is closed
                if e.errno != errno.EIO:
                    raise
                break
            if not got:
                break
            data += got
        return data.decode()

    def close(self):
        os.close(self.fd)
        self.p.kill()
        self.p.wait()


def on_terminal(args, cols, stream=1, locale=LOCALE):
    t = Pty(args, cols, stream, locale)
    try:
        return t.read()
    finally:
        t.close()


class Wrap(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tmp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(tmp.cleanup)
        cls.dir = tmp.name
        for method in "plain", "logitspec":
            run("generate", *SCRIPT, "--method", method, "--trace", cls.path(method + ".jsonl"))
        run("bench", "methods", *SCRIPT, "--methods", "plain,logitspec", "-o", cls.path("a.json"), "-q")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.dir, name)

    def fits(self, text, cols, what, whole=()):
        """whole: what may be copied, which a newline would break."""
        for line in text.split("\n"):
            if (len(line.split()) > 1 or cells(line.strip()) <= cols) and line.strip() not in whole:
                self.assertLessEqual(cells(line), cols, (what, cols, line))

    def same(self, args, stream=1, whole=lambda pipe: ()):
        for locale in LOCALES:
            r = run(*args, env={"LANG": locale, "LC_ALL": locale, "NO_COLOR": "1"})
            pipe = (r.stdout, r.stderr)[stream - 1]
            self.assertTrue(pipe, args)
            for cols in WIDTHS:
                text = on_terminal(args, cols, stream, locale)
                self.fits(text, cols, args, whole(pipe))
                self.assertEqual(words(text), words(pipe), (args, cols, locale))

    @staticmethod
    def examples(pipe):
        return {re.split(" {2,}", line.strip())[0] for line in pipe.split("\n") if re.match(r"  .*\blogitspec\b", line)}

    def test_help(self):
        self.assertGreater(len(COMMANDS), 15)
        for args in [["help"], ["help", "--as", "text"], ["--help"], *(["help", c] for c in COMMANDS),
                     *(["help", p] for p in ("configuration", "keys", "methods", "trace"))]:
            self.same(args, whole=self.examples)

    def test_lists_and_reports(self):
        for args in (["doctor"], ["doctor", "--device-model", "h100"], ["demo"], ["models", "list"], ["models", "info", "default"], ["--version"],
                     ["bench", "show", self.path("a.json")], ["bench", "diff", self.path("a.json"), self.path("a.json")],
                     ["diff", self.path("plain.jsonl"), self.path("logitspec.jsonl")], ["simulate", self.path("plain.jsonl"), "--methods", "pld,suffix"]):
            self.same(args)
        self.same(["config", "show"], whole=lambda pipe: {part for line in pipe.split("\n") for part in re.split(" +(?=#)", line.strip())})

    def test_steps_in_words_and_panels(self):
        args = ["inspect", self.path("logitspec.jsonl"), "--step", "3"]
        prose = run(*args).stdout.split("\nLast logits")[0]
        for cols in WIDTHS:
            text = on_terminal(args, cols)
            self.fits(text, cols, args)
            self.assertEqual(text.split("\nLast logits")[0].split(), prose.split())

    def test_a_demo_without_a_screen(self):
        pipe = run("demo", "first-step").stdout
        for cols in WIDTHS:
            text = on_terminal(["demo", "first-step"], cols)
            self.assertEqual(text.split(), pipe.split())
            notes = text[text.index("\n* "):text.index("\n\n", text.rindex("\n* ") + 1)]  # between the prompt and the answer
            self.fits(notes, cols, "notes")

    def test_messages(self):
        for args in (["export"], ["models", "nonsense"], ["tune", "a b c d e f g h i j k l m n o p q r s t u v w x y z" * 2], ["--modle"],
                     ["generate", *SCRIPT, "--json", "--trace", "-"]):
            self.same(args, stream=2)
        for cols in WIDTHS:  # how fast it was differs, and what is said of that
            text = on_terminal(["generate", *SCRIPT, "--acceptance", "typical", "--temperature", "1"], cols, stream=2)
            self.assertRegex(" ".join(text.split()), "^# 40 tokens in .* # acceptance typical: .*, seed [0-9]+$")
            self.fits(text, cols, "summary")
        text = on_terminal(["export"], 40, stream=2)
        self.assertGreater(len(text.splitlines()), 2)
        for line in text.splitlines()[1:]:  # what a stranger says begins no line as the program does
            self.assertTrue(line.startswith(" " * 11), line)

    def test_tables_go_on_under_their_column(self):
        rows = on_terminal(["help"], 60).split("\n")
        at = next(i for i, row in enumerate(rows) if row.startswith("  bench "))
        self.assertEqual([row[:13] for row in rows[at:at + 2]], ["  bench      ", " " * 13])
        self.assertNotEqual(rows[at + 1][13], " ")
        rows = on_terminal(["models", "list"], 80).split("\n")  # the column is too narrow, and goes below
        at = next(i for i, row in enumerate(rows) if row.startswith("olmo-2"))
        self.assertRegex(rows[at + 1], "^    OLMo 2 1B")

    def test_commands_to_copy_stay_whole(self):
        rows = on_terminal(["help", "models"], 40).split("\n")
        command = "  logitspec models info llama-70b.gguf --devices 8"
        at = rows.index(command)
        self.assertEqual(rows[at + 1], "    (the weights of each of 8 ranks)")

    def test_a_pipe_gets_whole_lines(self):
        self.assertIn("show or diff results\n", run("help").stdout)
        self.assertGreater(max(map(len, run("help").stdout.split("\n"))), 100)
        self.assertEqual(len(run("export").stderr.splitlines()), 1)
        self.assertEqual(on_terminal(["doctor", "--json"], 40).count("\n"), 1)

    def test_cells_do_not_depend_on_the_locale(self):
        name = " ".join(["日本語のファイル", "cafe\u0301", "Привет", "\U0001F600\U0001F600"] * 6)
        for locale in LOCALES:
            for cols in WIDTHS:
                text = on_terminal(["inspect", name], cols, 2, locale)
                self.fits(text, cols, "wide characters")
                self.assertEqual(" ".join(text.split()), " ".join(run("inspect", name).stderr.split()))
                self.assertGreater(max(map(cells, text.split("\n"))), cols - 17)  # no line is short for what it does not take

    def test_narrow_and_unknown_terminals(self):
        pipe = run("help", "generate").stdout
        for cols in 20, 5, 1:
            self.assertEqual(on_terminal(["help", "generate"], cols).split(), pipe.split(), cols)
        self.fits(on_terminal(["help"], 20), 20, "narrow", self.examples(run("help").stdout))
        self.fits(on_terminal(["bench", "show", self.path("a.json")], 20), 20, "cells that are empty")
        self.assertEqual(on_terminal(["help"], 0), on_terminal(["help"], 80))

    def test_progress_is_one_line_of_the_terminal(self):
        fifo = self.path("recording of many words and many more " * 2 + ".jsonl")
        os.mkfifo(fifo)
        t = Pty(["inspect", fifo], 40, stream=2)
        try:
            said, end = "", time.monotonic() + 60
            while said.count("\r\x1b[K") < 2 and time.monotonic() < end:
                said += t.read(0.5)
        finally:
            t.close()
        shown = said.split("\r\x1b[K")[1:]
        self.assertTrue(shown, said)
        for line in shown:
            self.assertTrue(line.startswith("reading ") and cells(line) < 40, line)


if __name__ == "__main__":
    unittest.main()
