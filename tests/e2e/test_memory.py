"""Memory runs out: the conversation is saved, the terminal is whole, and the real standard error says what happened."""
import glob
import os
import resource
import subprocess
import tempfile
import unittest

from program import PROGRAM, Screen, run, without_sanitizers


def process_with(argument):
    """The number of the program that was started with it."""
    for pid in subprocess.run(["pgrep", "-f", argument], capture_output=True, text=True, check=False).stdout.split():
        try:
            if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(PROGRAM):
                return int(pid)
        except OSError:
            pass
    raise AssertionError("the program does not run")


@without_sanitizers  # they take address space of their own, and end the program themselves
class OutOfMemory(unittest.TestCase):
    def test_a_conversation_outlives_the_program(self):
        with tempfile.TemporaryDirectory() as d:
            state = {"XDG_STATE_HOME": d}
            with Screen("--model", "script", "--max-tokens", "40", "--trace", f"{d}/trace.jsonl", cols=120, rows=36, env=state) as s:
                s.wait("READY")
                for prompt in ("One fish", "two fish"):
                    s.type(prompt)
                    s.keys("Enter")
                    s.wait("› " + prompt, "40 tokens", "READY")
                s.keys("Escape")
                s.type(":set decode.max_tokens=100000")
                s.keys("Enter")
                s.wait("decode.max_tokens=100000")
                pid = process_with(f"{d}/trace.jsonl")
                with open(f"/proc/{pid}/statm", encoding="ascii") as f:
                    now = int(f.read().split()[0]) * resource.getpagesize()
                resource.prlimit(pid, resource.RLIMIT_AS, (now, now))
                s.keys("p")
                s.type("and more than fits")
                s.keys("Enter")
                text = s.wait("exit=1", "out of memory", "the conversation is saved", "echo=1", seconds=60)
            self.assertNotIn("Logits", text)  # the screen is gone
            saved = glob.glob(f"{d}/logitspec/conversation-*.jsonl.zst")
            self.assertEqual(len(saved), 1)
            told = run("inspect", saved[0], "--turn", "2", "--step", "0")
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            with Screen("--model", "script", "--max-tokens", "40", cols=120, rows=36, env=state) as s:
                s.wait("READY")
                s.keys("Escape")
                s.type(f":load {saved[0]}")
                s.keys("Enter")
                s.wait(" turns: the next prompt goes on with it")
                s.keys("Escape", "g")  # the last turn may be long; loading gave the keys to the prompt
                s.wait("› One fish", "› two fish")


if __name__ == "__main__":
    unittest.main()
