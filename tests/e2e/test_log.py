"""The log for a report: what it holds, what it must not hold, and who may read it."""
import os
import re
import stat
import tempfile
import unittest

from program import run

SCRIPT = ["--model", "script", "--max-tokens", "8"]
LINE = re.compile(r"^ *\d+\.\d{6} (logitspec|setting|command|state|event|step|costs|threads) ?.*$")


class Log(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "log")
        self.folder = folder.name

    def lines(self):
        with open(self.path, encoding="utf-8") as f:
            text = f.read()
        for line in text.splitlines():
            self.assertRegex(line, LINE)
        return text

    def test_commands_settings_and_steps_are_there_and_texts_are_not(self):
        with open(self.path, "w", encoding="utf-8") as f:  # of an earlier run, for everybody
            f.write("old\n")
        os.chmod(self.path, 0o644)
        r = run("generate", *SCRIPT, "--prompt", "Zanzibar", "--system", "Madagascar", "--method", "pld", "-q", "--log", self.path)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        text = self.lines()
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertRegex(text, r"^ +0\.\d+ logitspec \d+\.\d+\.\d+, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, command generate\n")
        self.assertIn(" setting decode.method=pld\n", text)
        self.assertIn(" setting prompt.system=(a text)\n", text)
        self.assertRegex(text, r" step 1\.0: context \d+, \d+ rows of at most \d+, \d+ accepted, \d+ emitted")
        for word in ("old", "Zanzibar", "Madagascar", r.stdout.split()[0]):
            self.assertNotIn(word, text)

    def script(self, *more):
        path = os.path.join(self.folder, "script")
        with open(path, "w", encoding="utf-8") as f:
            f.write("wait READY\ntype Zanzibar\nkey Enter\nwait 8 tokens\nwait READY\ntype :set decode.stop=Madagascar\nkey Enter\n"
                    "wait decode.stop\ntype :set decode.max_rows=3\nkey Enter\nwait decode.max_rows=3\nkey F7\n")
        r = run(*SCRIPT, "--script", path, *more, env={"LOGITSPEC_LOG": self.path})
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return self.lines()

    def test_the_screen_writes_commands_events_and_states(self):
        text = self.script()
        for line in ("state idle", "event header: script", "command prompt, n 0, 8 bytes\n", "event prompt: turn 1, ",
                     "state running", "event end: turn 1, length", "command set, n 0, 17 bytes: decode.max_rows=3\n",
                     "event setting: decode.max_rows is in force"):
            self.assertIn(line, text)
        for word in ("Zanzibar", "Madagascar"):
            self.assertNotIn(word, text)

    def test_texts_are_there_where_that_is_asked_for(self):
        text = self.script("--log-text")
        self.assertIn("command prompt, n 0, 8 bytes: Zanzibar\n", text)
        self.assertIn("decode.stop=Madagascar\n", text)

    def test_a_log_that_cannot_be_written_is_an_error(self):
        r = run("generate", *SCRIPT, "--prompt", "x", "--log", "/nonexistent/log")
        self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1))
        self.assertIn("cannot write the log /nonexistent/log: its folder does not exist", r.stderr)
        r = run("generate", *SCRIPT, "--prompt", "x", "-q", "--log", "/dev/full")
        self.assertEqual((r.returncode, r.stderr), (0, "logitspec: warning: the log is not complete: No space left on device\n"))
        r = run("generate", *SCRIPT, "--prompt", "x", "--log", self.path, "--trace", self.path)
        self.assertEqual(r.returncode, 2)


if __name__ == "__main__":
    unittest.main()
