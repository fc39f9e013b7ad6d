"""Memory runs out: the conversation is saved, the terminal is whole, and the real standard error says what happened."""
import errno
import glob
import os
import resource
import subprocess
import tempfile
import unittest

from program import BUILD, ENV, PROGRAM, Screen, run, without_sanitizers
from test_folders import folder

INJECT = os.path.join(BUILD, "tests", "inject.so")


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
class SuddenEnds(unittest.TestCase):
    def saved(self, folder, turn):
        """The conversation that was rescued, which holds that turn."""
        found = glob.glob(f"{folder}/logitspec/conversation-*.jsonl.zst")
        self.assertEqual(len(found), 1)
        told = run("inspect", found[0], "--turn", str(turn), "--step", "0")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        return found[0]

    def test_a_library_that_aborts(self):
        """std::terminate and failed assertions end in this signal."""
        with tempfile.TemporaryDirectory() as d:
            with Screen("--model", "script", "--max-tokens", "40", cols=120, rows=36, env={"XDG_STATE_HOME": d}) as s:
                s.wait("READY")
                s.type("One fish")
                s.keys("Enter")
                s.wait("› One fish", "40 tokens", "READY")
                s.signal("ABRT")
                text = s.wait("exit=134", "a library ended the program; the conversation was saved", "echo=1")
            self.assertNotIn("Logits", text)
            self.saved(d, 1)

    @unittest.skipUnless(os.path.exists(INJECT), "needs:a machine that can refuse threads")
    def test_threads_that_the_system_refuses(self):
        """From the n-th on, whoever asks for it: one line and exit code 1."""
        with tempfile.TemporaryDirectory() as d:
            model, refused = folder(d, "llama3", "sp_llama.model"), 0
            for command, said in ((["generate", "--prompt", "ab"], b""), (["chat", "--plain"], b"ab\n")):
                for n in range(1, 9):
                    with open(d + "/state", "wb") as f:
                        f.write(bytes(4096))
                    env = dict(ENV, LD_PRELOAD=INJECT, TORTURE_KIND="thread", TORTURE_N=str(n), TORTURE_TIMES="0",
                               TORTURE_ERROR=str(errno.EAGAIN), TORTURE_STATE=d + "/state")
                    r = subprocess.run([PROGRAM, *command, "--raw", "--max-tokens", "4", "--model", model], input=said, env=env,
                                       capture_output=True, timeout=60, check=False)
                    errors = r.stderr.decode()
                    self.assertIn(r.returncode, (0, 1), (n, errors))
                    if r.returncode:
                        self.assertRegex(errors, r"logitspec: [^\n]*(thread|library)[^\n]*\n$")
                    refused += "the system allows only 1 of 2 threads" in errors
            self.assertGreater(refused, 1)

    def test_a_conversation_outlives_the_program(self):
        with tempfile.TemporaryDirectory() as d:
            # one heap: what each thread has reserved for its own would count as taken already
            state = {"XDG_STATE_HOME": d, "MALLOC_ARENA_MAX": "1"}
            with Screen("--model", "script", "--max-tokens", "40", "--trace", f"{d}/trace.jsonl", cols=120, rows=36, env=state) as s:
                s.wait("READY")
                for prompt in ("One fish", "two fish"):
                    s.type(prompt)
                    s.keys("Enter")
                    s.wait("› " + prompt, "40 tokens", "READY")
                s.keys("Escape")
                for setting in ("decode.max_tokens=100000", "decode.method=plain"):
                    s.type(":set " + setting)
                    s.keys("Enter")
                    s.wait(setting)
                pid = process_with(f"{d}/trace.jsonl")
                with open(f"/proc/{pid}/statm", encoding="ascii") as f:
                    now = int(f.read().split()[0]) * resource.getpagesize()
                resource.prlimit(pid, resource.RLIMIT_AS, (now, now))
                s.keys("p")
                s.type("and more than fits")
                s.keys("Enter")
                text = s.wait("exit=1", "out of memory", "the conversation was saved", "echo=1", seconds=60)
            self.assertNotIn("Logits", text)  # the screen is gone
            saved = self.saved(d, 2)
            with Screen("--model", "script", "--max-tokens", "40", cols=120, rows=36, env=state) as s:
                s.wait("READY")
                s.keys("Escape")
                s.type(f":load {saved}")
                s.keys("Enter")
                s.wait(" turns: the next prompt continues it")
                s.keys("Escape", "g")  # the last turn may be long; loading gave the keys to the prompt
                s.wait("› One fish", "› two fish")


if __name__ == "__main__":
    unittest.main()
