"""The screen in a real pseudo-terminal: keys in, cells out, and a terminal that is whole afterwards."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from program import ENV, PROGRAM, Screen, needs_model, run

WRITE = 1 if os.uname().machine == "x86_64" else 64  # the system call
SCRIPT = ["--model", "script:20", "--max-tokens", "400"]


class Keys(unittest.TestCase):
    def test_prompt_run_pause_step_back_and_quit(self):
        with Screen(*SCRIPT, "--max-rows", "2", cols=120, rows=36) as s:  # it still runs when a busy machine looks
            first = s.wait("READY", "type a prompt", "1 Output", "2 Logits", "3 Drafts", "4 Tree", "5 Stats")
            self.assertIn("Type a prompt and press Enter", first)
            s.type("def fib(n):")  # the prompt line has the focus: letters are text
            s.wait("› def fib(n):")
            s.keys("Enter")
            s.wait("│ RUN │", "vs plain", "timed in this run): ×")
            s.keys("F5")
            s.wait("│ PAUSED │")
            at = self.step(s)
            time.sleep(0.2)
            self.assertEqual(self.step(s), at)  # it stands still
            s.keys("F6")
            s.wait(f"│ step {at + 1} │")
            s.keys("Escape")
            s.keys("s")
            s.wait(f"│ step {at + 2} │")
            s.keys("[")
            s.wait(f"step {at + 1}, 1 behind")
            s.keys("[", "[")
            s.wait(f"step {at - 1}, 3 behind", "history")
            s.keys("G")
            s.wait(f"│ step {at + 2} │", "follow")
            s.keys("z")
            s.wait("1 Output", absent=["2 Logits"])
            s.keys("Escape")
            s.wait("2 Logits")
            s.keys("Space")
            s.wait("│ RUN │")
            s.keys("x")
            s.wait("│ READY │")
            s.keys("q")
            s.wait("exit=0")

    def test_a_replay_is_the_run_again_without_a_model(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            run("generate", "--model", "script", "--prompt", "def fib(n):", "--max-tokens", "60", "--max-rows", "3", "--trace", path)
            with Screen("replay", path, "--paused", cols=120, rows=36, env={"LOGITSPEC_LIB": "/nowhere"}) as s:
                s.wait("REPLAY PAUSED", "recording: Space plays")
                s.keys("s", "s", "s")
                s.wait("│ step 2 │")
                s.keys("p")
                s.wait("it accepts no prompts")
                s.keys("]")  # ahead of the newest step lies what was not played yet
                self.assertRegex(s.wait("│ step 3 │"), r"REPLAY PAUSED [1-9]\d?% ")  # of the file
                s.keys("}")
                s.wait("│ step 13 │")
                s.keys("[", "[", "]")
                s.wait("│ step 12, 1 behind │")
                s.keys("G", "G")  # the newest, then the end
                s.wait("REPLAY ENDED", "60 tokens", "follow")
                s.keys("C-n")
                s.wait("REPLAY PAUSED", "recording: ")
                s.keys("Space")
                s.wait("REPLAY ENDED", "60 tokens")
                s.keys("[", "[")
                s.wait("3 behind")
                s.keys("Space")
                s.wait("the recording has ended")
                s.keys("C-n")
                s.wait("REPLAY ENDED", "60 tokens", "follow")
                s.keys("q")
                s.wait("exit=0")

    def test_a_prompt_of_several_lines_is_changed_and_answered_anew(self):
        with tempfile.TemporaryDirectory() as d:
            env = {"XDG_STATE_HOME": d, "VISUAL": "sed -i s/cat/dog/"}
            trace = os.path.join(d, "t.jsonl")
            with Screen(*SCRIPT, "--max-tokens", "30", "--trace", trace, cols=120, rows=36, env=env) as s:
                s.wait("READY")
                s.type("One fish")
                s.keys("C-j")
                s.type("two cat")
                s.wait("› One fish", "   two cat")
                s.keys("F3")
                s.wait("   two dog")
                s.keys("Enter")
                s.wait("│› One fish", "│two dog", "30 tokens", "READY")
                s.type("more")
                s.keys("Enter")
                first = s.wait("│› more", "30 tokens", "READY").splitlines()[1:12]
                s.keys("Escape", "r")
                time.sleep(0.5)
                again = s.wait("┃› more", "30 tokens", "READY").splitlines()[1:12]
                self.assertEqual([x[1:69] for x in first[1:]], [x[1:69] for x in again[1:]])  # the frame tells who has the keys
                s.keys("g", "E")
                s.wait(" 0› One fish")
                s.keys("Escape")
                s.wait(absent=(" 0› One fish",))
                s.keys("E", "C-e", "BSpace", "BSpace", "BSpace", "Enter")
                s.wait("│› One ", "READY", "30 tokens", absent=("│› more",))
                s.keys("Escape", "q")
                s.wait("exit=0")
            with open(os.path.join(d, "logitspec", "history"), encoding="utf-8") as f:
                self.assertEqual([json.loads(x)[0] for x in f][:2], ["One fish\ntwo dog", "more"])
            self.assertEqual(os.stat(os.path.join(d, "logitspec", "history")).st_mode & 0o077, 0)
            with open(trace, encoding="utf-8") as f:
                self.assertEqual([x["turn"] for x in map(json.loads, f) if x["type"] == "header"], [0, 1, 1, 0])
            with Screen("replay", trace, "--speed", "max", cols=120, rows=36) as s:  # as the screen was at the end
                s.wait("REPLAY ENDED", "30 tokens", absent=("│› more",))
            with Screen(*SCRIPT, cols=120, rows=36, env=env) as s:
                s.wait("READY")
                s.keys("Up", "Up", "Up")  # the last one has two lines
                s.wait(" › more")
                s.keys("Up")
                s.wait("› One fish", "   two dog")
            for setting, what in (("ui.keys=wurst=W", "wurst"), ("ui.colors=good=blue", "blue")):
                with Screen(*SCRIPT, "--set", setting, cols=120) as s:
                    s.wait("exit=2", what)

    def test_shadows_are_drawn_as_soon_as_they_are_known(self):
        """What is computed within one slice, before the next frame, was not drawn until a key came."""
        with Screen("--model", "script", "--max-tokens", "2", "--prompt", "x", cols=120, rows=36) as s:
            s.wait("READY", "2 tokens")
            s.keys("Escape", "a")
            s.wait("known", "logitspec (active)")
            s.keys("q", "q")
            s.wait("exit=0")

    def test_a_race_with_plain_decoding_and_with_another_recording(self):
        with Screen(*SCRIPT, "--max-tokens", "60", cols=120, rows=36) as s:
            s.wait("READY")
            s.keys("Escape", "c")
            s.wait("no answer to compare yet")
            s.keys("p")
            s.type("def fib(n):")
            s.keys("Enter")
            s.wait("60 tokens", "READY")
            s.keys("Escape", "c")
            text = s.wait("7 Compare", "against plain ", "the same, 60 of 60 tokens", "READY")
            self.assertIn("plain 59", text)  # a forward a token, but none after the last
            s.type(":compare pld:8")
            s.keys("Enter")
            s.wait("against pld:8 ", "the same, 60 of 60 tokens", "READY")
            s.type(":compare nonsense")
            s.keys("Enter")
            s.wait("nonsense")
            s.keys("p")
            s.type("more")  # the conversation goes on as if nothing had been
            s.keys("Enter")
            s.wait("│› more", "READY")
            s.keys("Escape", "c")  # the panel is open, and knows the answer before
            s.wait("against plain ", "the same, 60 of 60 tokens", "READY")
            s.keys("q", "q")
            s.wait("exit=0")
        with tempfile.TemporaryDirectory() as d:
            paths = [os.path.join(d, m + ".jsonl") for m in ("logitspec", "plain", "other")]
            for path, prompt in zip(paths, ("def fib(n):", "def fib(n):", "One fish")):
                run("generate", "--model", "script", "--prompt", prompt, "--max-tokens", "60", "--method",
                    "plain" if "plain." in path else "logitspec", "--trace", path)
            with Screen("replay", paths[0], paths[1], "--speed", "max", cols=120, rows=36) as s:
                s.wait("REPLAY ENDED")
                s.keys("c")
                s.wait("against plain ", "the same, 60 of 60 tokens")
            with Screen("replay", paths[0], paths[2], "--speed", "max", cols=120, rows=36) as s:
                s.wait("has another prompt")

    def test_a_save_that_waits_when_the_screen_is_left(self):
        """Forwards take longer than whoever leaves waits; what cannot be written is said behind the screen."""
        with tempfile.TemporaryDirectory() as d:
            for place, status in ((d, 0), (d + "/none", 1)):
                path = place + "/c.jsonl"
                with Screen("--model", "script:1200", cols=150, rows=36) as s:
                    s.wait("READY")
                    s.type("Retrieval")
                    s.keys("Enter")
                    s.wait("RUN")
                    s.keys("Escape")
                    s.type(f":save {path}")
                    s.keys("Enter")
                    s.keys("Q")
                    seen = s.wait(f"exit={status}")
                self.assertEqual(os.path.exists(path), not status, seen)
                self.assertEqual("cannot write" in seen, bool(status), seen)

    def test_the_conversation_after_a_race_is_unchanged(self):
        texts = []
        for race in (False, True):
            with Screen(*SCRIPT, "--max-tokens", "30", "--temperature", "0.7", "--seed", "3", cols=120, rows=36) as s:
                s.wait("READY")
                for prompt in ("Retrieval", "more"):
                    s.type(prompt)
                    s.keys("Enter")
                    s.wait("│› " + prompt, "30 tokens", "READY")
                    if race and prompt == "Retrieval":
                        s.keys("Escape", "c")
                        s.wait("the same, 30 of 30 tokens", "READY")
                        s.keys("p")
                s.keys("Escape", "1")
                texts.append([line[:70] for line in s.wait("┏━ 1 Output", "30 tokens").splitlines()[1:13]])
        self.assertEqual(*texts)

    def step(self, s):
        title = s.text().splitlines()[0]
        return int(title.split("│ step ")[1].split()[0])

    def test_ctrl_c_stops_the_answer_then_leaves_with_130(self):
        with Screen(*SCRIPT) as s:
            s.wait("READY")
            s.type("hello")
            s.keys("Enter")
            s.wait("RUN")
            s.keys("C-c")
            s.wait("READY", "stopped. ^C again quits: the next start offers to load the conversation")
            s.keys("x", "C-c")  # another key came between
            s.wait("^C again quits", "› x", absent=("stopped.",))
            s.keys("C-c")
            s.wait("exit=130")

    def test_typing_while_loading_is_kept(self):
        with Screen(*SCRIPT) as s:
            s.type("early bird")
            s.wait("READY", "early bird")

    def test_help_lists_keys_and_closes(self):
        with Screen(*SCRIPT) as s:
            s.wait("READY")
            s.keys("F1")
            s.wait("Help", "What the signs and colours mean", "own choice retrieved guess")
            s.keys("PgDn", "PgDn")
            s.wait("Run and step", "decode one step")
            s.keys("Escape")
            s.wait("1 Output", absent=["decode one step"])

    def test_commands(self):
        with Screen(*SCRIPT, cols=120, rows=36) as s:
            s.wait("READY")
            s.keys("Escape", ":")
            s.type("set decode.max_rows=24")
            s.keys("Enter")
            s.wait("decode.max_rows=24")
            s.keys(":")
            s.type("set decode.max_rosw=24")
            s.keys("Enter")
            s.wait("did you mean 'decode.max_rows'")
            s.keys(":")
            s.type("frobnicate")
            s.keys("Enter")
            s.wait("unknown command 'frobnicate'")
            s.keys("p")
            s.type("def fib(n):")
            s.keys("Enter")
            s.keys("F2")
            s.wait("decode.max_rows          24")

    def test_pasted_lines_are_one_prompt(self):
        with Screen(*SCRIPT, cols=120, rows=36) as s:
            s.wait("READY")
            s.paste("first line\nsecond line")
            s.wait("› first line", "   second line")
            s.keys("Enter")
            s.wait("› first line", "second line", "RUN")

    def test_copies_and_clicks(self):
        with Screen(*SCRIPT, "--max-tokens", "30", cols=260, rows=50) as s:  # the older mouse reports end at column 223
            s.wait("READY")
            subprocess.run(s.tmux + ["set", "-g", "set-clipboard", "on"], check=True)
            s.type("Retrieval")
            s.keys("Enter")
            s.wait("30 tokens", "cut at 30 tokens: Enter continues")
            s.keys("Enter")
            s.wait("60 tokens", "cut at 60 tokens: Enter continues")
            s.type("\033[<0;250;4M")  # a click, as terminals tell it
            s.type("\033[<0;250;4m")
            s.wait("┏━ 4 Tree ")
            s.keys("1", "y")
            s.wait("the answer: 60 bytes sent to the clipboard (OSC 52); tmux needs 'tmux set -s set-clipboard on'")
            def buffer():
                return subprocess.run(s.tmux + ["show-buffer"], capture_output=True, text=True, check=False).stdout
            for _ in range(100):
                if len(buffer()) == 60:
                    break
                time.sleep(0.1)
            self.assertEqual(len(buffer()), 60)
            s.keys("Y")
            for _ in range(100):
                if buffer().startswith("step "):
                    break
                time.sleep(0.1)
            self.assertRegex(buffer(), r"^step \d+: root ")
            s.keys("q")
            s.wait("exit=0")
        for args, before in ((["--set", "ui.clipboard=no"], ""), ([], "TERM=linux")):
            with Screen(*SCRIPT, *args, cols=120, rows=36, before=before) as s:
                s.wait("READY")
                s.type("Retrieval")
                s.keys("Enter")
                s.wait("READY", "400 tokens")
                s.keys("Escape", "y")
                s.wait("no clipboard (terminal without OSC 52, or ui.clipboard: no)")

    def bytes_of_frames(self):
        """What is sent to the terminal while two seconds of steps go by, with 1 frame a second and with 60."""
        sizes = []
        for fps in ("1", "60"):
            pid, tty = pty.fork()
            if not pid:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 36, 120, 0, 0))
                os.execve(PROGRAM, [PROGRAM, *SCRIPT, "--max-tokens", "100", "--max-rows", "1", "--set", "ui.fps=" + fps, "--prompt", "Retrieval"],
                          ENV | {"TERM": "xterm-256color"})
            got, end = b"", time.monotonic() + 60
            try:
                while b"100 tokens" not in got and time.monotonic() < end:
                    if select.select([tty], [], [], 1)[0]:
                        got += os.read(tty, 65536)
                self.assertIn(b"100 tokens", got)
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(tty)
            sizes.append(len(got))
        return sizes

    def test_few_frames_for_a_slow_link(self):
        for _ in range(4):  # a busy machine draws fewer frames than it may
            few, many = self.bytes_of_frames()
            if 2 * few < many:
                return
        self.fail(f"{few} bytes with 1 frame a second, {many} with 60")

    def test_new_conversation_and_second_turn(self):
        with Screen("--model", "script:1", "--max-tokens", "20", cols=120, rows=36) as s:
            s.wait("READY")
            for text in "alpha", "beta":
                s.type(text)
                s.keys("Enter")
                s.wait(f"› {text}", "20 tokens", "│ READY │")
            s.wait("› alpha", "› beta")
            s.keys("Up")
            s.wait("› beta")
            s.keys("C-u", "C-n")
            s.wait("Type a prompt and press Enter", absent=["alpha"])


class Looks(unittest.TestCase):
    def test_sizes_and_resizing(self):
        with Screen(*SCRIPT) as s:
            s.wait("READY")
            s.type("def fib(n):")
            s.keys("Enter")
            s.wait("5 Stats", "emitted", absent=["3 Drafts"])
            for cols, rows, word in [(120, 36, "3 Drafts"), (200, 50, "matched n-gram"), (79, 24, "1 Output"), (60, 30, "5 Stats"), (39, 24, "needs 40x12, have 39x24"),
                                     (20, 5, "needs 40x12"), (80, 24, "2 Logits")]:
                s.resize(cols, rows)
                s.wait(word)
            for i in range(30):  # a storm of size changes
                s.resize(80 + i % 7 * 20, 24 + i % 5 * 6)
            s.resize(120, 36)
            s.wait("1 Output", "3 Drafts", "5 Stats")

    def test_a_resize_while_it_draws_is_not_lost(self):
        pid, tty = pty.fork()
        if not pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 70, 250, 0, 0))
            os.execve(PROGRAM, [PROGRAM, *SCRIPT], ENV | {"TERM": "xterm-256color"})
        try:
            got, end = b"", time.monotonic() + 30
            while b"READY" not in got and time.monotonic() < end:
                got += os.read(tty, 65536)
            while select.select([tty], [], [], 0.3)[0]:
                os.read(tty, 65536)
            def call():
                with open(f"/proc/{pid}/syscall", encoding="utf-8") as f:
                    return f.read().split()[0]
            while call() != str(WRITE) and time.monotonic() < end:
                os.write(tty, b"\x0c")  # whole frames, which nobody reads: in the end it waits within drawing
                time.sleep(0.04)
            fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("4H", 8, 30, 0, 0))
            got, end = b"", time.monotonic() + 10
            while b"have 30x8" not in got and time.monotonic() < end:
                if select.select([tty], [], [], 1)[0]:
                    got += os.read(tty, 65536)
            self.assertTrue(b"have 30x8" in got, "the new size was not seen")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(tty)

    def test_monochrome_and_ascii(self):
        with Screen(*SCRIPT, "--ascii", env={"NO_COLOR": "1"}) as s:
            s.wait("READY")
            s.type("def fib(n):")
            s.keys("Enter")
            s.wait("+- 1 Output", "<", ">")
            self.assertTrue(s.text().isascii())
            self.assertNotRegex(s.text("-e"), r"\x1b\[[0-9;]*\b[34][0-8]\b")  # no colours

    def test_a_locale_without_utf8(self):
        with Screen(*SCRIPT, env={"LANG": "C", "LC_ALL": "C"}) as s:
            s.wait("READY", "+- 1 Output")
            self.assertTrue(s.text().isascii())

    def test_an_unknown_terminal_is_one_line(self):
        with Screen(*SCRIPT, before="TERM=nonsense") as s:
            s.wait("cannot be driven", "exit=1")


class Endings(unittest.TestCase):
    def ends(self, name, status):
        with Screen(*SCRIPT) as s:
            s.wait("READY")
            s.type("hello")
            s.keys("Enter")
            s.wait("RUN")
            s.signal(name)
            after = s.wait(f"exit={status} echo=1")
            self.assertNotIn("1 Output", after)  # the terminal's own screen is back

    def test_sigterm(self):
        self.ends("TERM", 143)

    def test_crash(self):
        self.ends("SEGV", 139)

    def test_a_vanished_terminal_ends_the_program(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            s = Screen(*SCRIPT, "--max-tokens", "4000", "--method", "plain", "--trace", trace)
            s.wait("READY")
            s.type("hello")
            s.keys("Enter")
            s.wait("RUN")
            pids = subprocess.run(["pgrep", "-f", trace], capture_output=True, text=True, check=True).stdout.split()
            subprocess.run(s.tmux + ["kill-server"], check=True)
            end = time.monotonic() + 10
            while any(os.path.exists(f"/proc/{p}") for p in pids) and time.monotonic() < end:
                time.sleep(0.05)
            self.assertFalse([p for p in pids if os.path.exists(f"/proc/{p}")])
            with open(trace, encoding="utf-8") as f:  # whole lines to the last
                self.assertTrue(all(json.loads(x)["type"] for x in f))

    def test_keys_after_the_editors_are_typed_after_it(self):
        with Screen(*SCRIPT, env={"VISUAL": "sed -i s/$/./"}) as s:
            s.wait("READY")
            s.type("cat")
            s.wait("› cat")
            s.signal("STOP")  # so that all of them come at once
            s.keys("F3", "s")
            s.signal("CONT")
            s.wait("› cat.s")

    def test_stopped_and_continued(self):
        with Screen(*SCRIPT, before="PS1='$ ' bash --norc -i;") as s:  # a shell with job control
            s.wait("$")
            s.type(f"{PROGRAM} {' '.join(SCRIPT)}")
            s.keys("Enter")
            s.wait("READY")
            s.type("hello")
            s.keys("C-z")
            s.wait("Stopped", absent=("1 Output",))
            s.type("fg")
            s.keys("Enter")
            s.wait("1 Output", "› hello")

    def test_a_storm_of_sizes(self):
        # the answer is so short that the prompt stays in sight, however long the storm takes
        with Screen("--model", "script:20", "--max-tokens", "100", cols=120, rows=36) as s:
            s.wait("READY")
            s.type("hello")
            s.keys("Enter")
            for i in range(40):
                s.resize(20 + i * 37 % 200, 5 + i * 13 % 60)
            s.resize(120, 36)
            s.wait("1 Output", "5 Stats", "hello")
            s.keys("C-c", "C-c")
            s.wait("exit=130")

    def test_missing_model(self):
        with Screen("--model", "/nonexistent.gguf") as s:
            s.wait("FAILED", "the model '/nonexistent.gguf' does not exist")
            s.keys("Escape", "q")
            s.wait("exit=1")


@needs_model
class RealModel(unittest.TestCase):
    def test_an_answer(self):
        with Screen(cols=120, rows=36) as s:
            s.wait("READY", "of one row", seconds=60)
            s.type("What is the capital of Germany?")
            s.keys("Enter")
            s.wait("Berlin", "│ READY │", "timed in this run): ×", "root", seconds=60)

    def test_a_template_that_rewrites_earlier_turns(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jinja")
            with open(path, "w", encoding="utf-8") as f:
                f.write("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content[:3] if m.role == 'assistant' else m.content }}"
                        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
            with Screen("--template", path, "--max-tokens", "12", cols=120, rows=36) as s:
                s.wait("READY", seconds=60)
                for prompt in ("Count to nine.", "Go on."):
                    s.type(prompt)
                    s.keys("Enter")
                    s.wait("› " + prompt, "12 tokens", "READY", seconds=60)
                s.wait("the chat template changed earlier turns: their last 12 tokens were read again")


if __name__ == "__main__":
    unittest.main()
