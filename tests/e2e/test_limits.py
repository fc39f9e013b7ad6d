"""What files and machines do to the program: damaged recordings, very large inputs, refused networks, homes that are none."""
import json
import os
import subprocess
import tempfile
import time
import unittest

from program import ENV, PROGRAM, run

SCRIPT = ["--model", "script", "--max-tokens", "40", "--temperature", "0.7", "--seed", "3"]


def record(path, *args):
    r = run("generate", *SCRIPT, "--prompt", "Retrieval", "--trace", path, *args)
    assert r.returncode == 0, r.stderr
    with open(path, "rb") as f:
        return f.read().splitlines(keepends=True)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


class Player:
    """The screen by a script that is written while it runs."""

    def __init__(self, *args):
        self.process = subprocess.Popen([PROGRAM, *args, "--script", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=ENV, text=True)

    def say(self, lines):
        self.process.stdin.write(lines)
        self.process.stdin.flush()

    def wait_for(self, path):
        end = time.monotonic() + 60
        while not os.path.exists(path) and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def end(self, lines):
        try:
            _, said = self.process.communicate(lines, timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, said


class DamagedRecordings(unittest.TestCase):
    def film(self, trace, *args):
        """A film of a replay, which must end: the exit code, what was said, and whether there is a film."""
        cast = os.path.join(os.path.dirname(trace), "x.cast")
        if os.path.exists(cast):
            os.unlink(cast)
        r = run("replay", trace, *args, "--speed", "max", "--cast", cast, timeout=60)
        return r.returncode, r.stderr, os.path.exists(cast)

    def test_a_film_of_an_unreadable_recording_fails(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            for data, what in ((b"", "empty, not a logitspec trace"), (b"\0\1\2garbage\n", ":1:"), (b"{}\n", ":1: type"),
                               (b'{"type":"step"}\n', "before any header"), (b"{\"type\":\"hea", ":1:")):
                write(trace, data)
                code, said, filmed = self.film(trace)
                self.assertEqual((code, said.count("\n"), filmed), (1, 1, False), said)
                self.assertIn(what, said)
                self.assertIn("no film was written", said)
            code, said, filmed = self.film(d)
            self.assertEqual((code, said.count("\n"), filmed), (1, 1, False), said)

    def test_a_recording_that_is_damaged_in_its_middle(self):
        with tempfile.TemporaryDirectory() as d:
            trace, whole = os.path.join(d, "t.jsonl"), os.path.join(d, "w.jsonl")
            lines = record(whole)
            steps = [i for i, line in enumerate(lines) if json.loads(line)["type"] == "step"]
            at = steps[len(steps) // 2]
            for bad in (b"\xff\xfe not JSON\n", lines[at][:len(lines[at]) // 2] + b"\n", lines[at].replace(b'"parent":-1', b'"parent":7')):
                write(trace, b"".join(lines[:at] + [bad] + lines[at + 1:]))
                where = f"{trace}:{at + 1}:"
                code, said, filmed = self.film(trace)
                self.assertEqual((code, said.count("\n"), filmed), (1, 1, False), said)
                self.assertIn(where, said)
                # a rival's recording that cannot be read to its end is no race
                code, said, filmed = self.film(whole, trace)
                self.assertEqual((code, filmed), (1, False), said)
                self.assertIn(where, said)
                for args in (("report", trace, "-o", d + "/x.md"), ("export", trace, "-o", d + "/x.json"), ("diff", whole, trace),
                             ("export", trace, "-o", d + "/y.cast"), ("export", trace, "-o", d + "/x.jsonl"), ("simulate", trace),
                             ("inspect", trace, "--step", f"0-{len(steps) - 1}")):
                    r = run(*args)
                    self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1), (args, r.stderr))
                    self.assertIn(where, r.stderr)
                self.assertEqual(sorted(x for x in os.listdir(d) if x[0] in "xy"), [])

    def test_a_torn_last_line_is_a_warning(self):
        with tempfile.TemporaryDirectory() as d:
            trace, whole = os.path.join(d, "t.jsonl"), os.path.join(d, "w.jsonl")
            lines = record(whole)
            write(trace, b"".join(lines)[:-len(lines[-1]) - len(lines[-2]) // 2])
            code, said, filmed = self.film(trace)
            self.assertEqual((code, said.count("\n"), filmed), (0, 1, True), said)
            self.assertIn("cut short within its last line", said)
            for args in (("report", trace, "-q", "-o", d + "/x.md"), ("export", trace, "-o", d + "/x.json"), ("simulate", trace, "-q"),
                         ("diff", whole, trace), ("export", trace, "-o", d + "/y.cast"), ("export", trace, "-o", d + "/x.jsonl"),
                         ("inspect", trace)):
                r = run(*args)
                self.assertEqual((r.returncode, r.stderr.count("\n")), (0, 1), (args, r.stderr))
                self.assertIn("cut short", r.stderr)

    def test_a_recording_that_still_grows(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            lines = record(trace)
            write(trace, b"".join(lines[:-3]))
            code, said, filmed = self.film(trace)
            self.assertEqual((code, said.count("\n"), filmed), (0, 1, True), said)
            self.assertIn("stops before its turn ends", said)
            # played again, it has what came meanwhile
            saved, replay = os.path.join(d, "a.txt"), Player("replay", trace, "--speed", "max")
            replay.say(f"wait ENDED\nexpect stops before its turn ends\nsave {saved}\n")
            replay.wait_for(saved)
            with open(trace, "ab") as f:
                f.writelines(lines[-3:])
            self.assertEqual(replay.end("key ^N\nwait ENDED\nreject stops before its turn ends\n"), (0, ""))

    def test_the_screen_of_a_damaged_recording_can_still_be_walked_through(self):
        with tempfile.TemporaryDirectory() as d:
            trace, script = os.path.join(d, "t.jsonl"), os.path.join(d, "keys")
            lines = record(trace)
            write(trace, b"".join(lines[:8]) + b"nonsense\n" + b"".join(lines[8:]))
            write(script, b"wait FAILED\nexpect t.jsonl:9:\nkey Space\nexpect cannot be read further\nkey [\nexpect 1 behind\nkey L\nexpect t.jsonl:9:\n")
            r = run("replay", trace, "--speed", "max", "--script", script)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
            self.assertIn(f"{trace}:9:", r.stderr)

    def test_a_film_that_would_never_end_is_refused(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            record(trace)
            r = run("replay", trace, "--paused", "--cast", d + "/x.cast", timeout=30)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1), r.stderr)


if __name__ == "__main__":
    unittest.main()
