"""What terminals send and take: bytes in, bytes and cells out, in several locales, and the terminal whole after any end."""
import fcntl
import glob
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from program import ENV, PROGRAM, Screen, run

SCRIPT = ["--model", "script:20", "--max-tokens", "400"]
C_LOCALE = {"LANG": "C", "LC_ALL": "C"}


class Tty:
    """The program in a bare pseudo-terminal, which nothing interprets."""

    def __init__(self, *args, env=None, cols=80, rows=24):
        self.got, self.status = b"", None
        self.pid, self.tty = pty.fork()
        if not self.pid:
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # whoever runs the tests may ignore them (nohup, &)
                signal.signal(number, signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
            os.execve(PROGRAM, [PROGRAM, *args], {**ENV, "TERM": "xterm-256color", **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.tty)

    def send(self, data):
        os.write(self.tty, data)

    def resize(self, cols, rows):
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))

    def read(self, seconds=0.3):
        """What comes until nothing has come for so long."""
        now = b""
        while select.select([self.tty], [], [], seconds)[0]:
            try:
                now += os.read(self.tty, 65536)
            except OSError:  # nobody has it open
                break
        self.got += now
        return now

    def wait(self, *words, seconds=30):
        """Until each has come since the last wait."""
        end, now = time.monotonic() + seconds, b""
        while not all(w in now for w in words):
            if time.monotonic() > end:
                raise AssertionError(f"{words} did not come, but {now[-3000:]!r}")
            now += self.read(0.05)
        return now

    def ended(self, seconds=30):
        """Its exit code, or less than zero the signal; with the bytes that came last."""
        end = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                self.read(0.1)
                return self.status
            if time.monotonic() > end:
                raise AssertionError("it still runs")
            self.read(0.02)


class Input(unittest.TestCase):
    def test_a_megabyte_in_one_line(self):
        with Tty(*SCRIPT) as t:
            t.wait(b"READY")
            text = b"lorem ipsum " * 90000 + b"THE END"
            for i in range(0, len(text), 2048):
                t.send((b"\033[200~" if not i else b"") + text[i:i + 2048])
            t.send(b"\033[201~")
            t.wait(b"THE END")
            for key, seen in ((b"xyz", b"xyz"), (b"\001", b"lorem ipsum lorem"), (b"\005", b"ENDxyz")):
                t.send(key)
                t.wait(seen)
            t.send(b"\003")
            t.wait(b"^C again quits")

    def test_a_paste_that_does_not_end(self):
        with Screen(*SCRIPT) as s:
            s.wait("READY")
            s.send(b"\033[200~some text")
            time.sleep(0.2)
            s.send(b"\003")
            s.wait("› some text", "the paste is incomplete")
            s.send(b"\033[200~ and more")
            s.wait("› some text and more", seconds=10)  # after a pause
            s.keys("C-u", "a")
            s.wait("› a\n")

    def test_a_pause_of_the_program_is_none_of_the_terminal(self):
        with Screen(*SCRIPT, cols=120, rows=36) as s:
            s.wait("READY")
            s.send(b"\033[200~first ")
            time.sleep(0.2)
            s.signal("STOP")
            s.send(b"line q\rsecond line\r:q\033[201~caf\xc3")
            time.sleep(3.5)
            s.signal("CONT")
            s.wait("› first line q", "   second line", "   :qcaf", absent=("RUN",))
            s.signal("STOP")
            s.send(b"\xa9\033")
            s.send(b"[D!")
            time.sleep(0.7)
            s.signal("CONT")
            s.wait("   :qcaf!é")

    def test_characters_come_in_parts(self):
        with Screen(*SCRIPT, cols=120, rows=36) as s:
            s.wait("READY")
            s.send(b"caf\xc3")
            time.sleep(0.1)
            s.send(b"\xa9")
            s.wait("› café")
            s.keys("C-u")
            text = ("世" * 1000).encode()
            for i in range(0, len(text), 100):  # neither bracketed nor cut between characters
                s.send(text[i:i + 100])
            s.keys("Enter")
            s.wait("世世世", "READY", "400 tokens")
            with tempfile.TemporaryDirectory() as d:
                s.send(f":save {d}/c.jsonl\r".encode())
                s.wait("saved ")
                with open(d + "/c.jsonl", encoding="utf-8") as f:
                    self.assertEqual(json.loads(f.readline())["prompt_text"], "世" * 1000)

    def locale_without_utf8(self, env):
        with tempfile.TemporaryDirectory() as d, Screen(*SCRIPT, "--trace", d + "/t.jsonl", cols=120, rows=36, env=env) as s:
            s.wait("READY", "the locale is not UTF-8")
            s.send("café 世\r".encode())
            s.wait("> caf? ?", "RUN")
            s.keys("C-c")
            s.wait("READY")
            with open(d + "/t.jsonl", encoding="utf-8") as f:
                self.assertEqual(json.loads(f.readline())["prompt_text"], "café 世")
            s.send(b"caf\xe9")
            s.wait("> caf", "invalid UTF-8 from the terminal")
            s.keys("C-c", "C-c")
            s.wait("exit=130")

    def test_utf8_is_read_in_the_c_locale(self):
        self.locale_without_utf8(C_LOCALE)

    def test_utf8_is_read_in_a_latin_1_locale(self):
        if not shutil.which("localedef") or not os.path.exists("/usr/share/i18n/charmaps/ISO-8859-1.gz"):
            self.skipTest("needs:locales")
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["localedef", "-c", "-i", "en_US", "-f", "ISO-8859-1", d + "/en_US.ISO-8859-1"], check=False, capture_output=True)
            self.locale_without_utf8({"LOCPATH": d, "LANG": "en_US.ISO-8859-1", "LC_ALL": "en_US.ISO-8859-1"})

    def test_sequences_are_read_whole(self):
        with Screen(*SCRIPT, cols=120, rows=36) as s:
            s.wait("READY")
            s.send(b"one\033\rtwo")  # Shift-Enter
            s.wait("› one", "   two")
            for nothing in (b"\033q", b"\033[1;2P", b"\033[?1;2c", b"\033]10;rgb:00/00/00\007", b"\033P>|xterm(380)\033\\", b"\033[I", b"\033[2~"):
                s.send(nothing)
                time.sleep(0.05)
            s.send(b"!\033[1~>\033[4~<")  # PuTTY's Home and End
            s.wait("› one", "   >two!<")
            s.send(b"\033[12~")  # its F2
            s.wait("Setup")
            s.send(b"\033[[A")  # the console's F1
            s.wait("What the signs and colours mean")
            s.keys("Escape", "Escape")
            s.wait("   >two!<", absent=("Setup",))

    def test_nothing_pasted_is_a_key(self):
        with Screen(*SCRIPT, cols=120, rows=36) as s:
            s.wait("READY", "│ logitspec │")
            s.send(b"kept \033[200~a\033OS\x7f\x03\x1bq b\033[201~")
            s.wait("› kept aOSq b", "4 characters of the paste ignored", "│ logitspec │")

    def test_digits_and_colons_of_prompts(self):
        with Screen(*SCRIPT, cols=120, rows=36) as s:
            s.wait("READY")
            s.send(b"3 primes please\r")
            s.wait("› 3 primes please", "RUN")
            s.keys("C-c")
            s.send(b":set decode.max_rows=8\r")
            s.wait("decode.max_rows=8")
            s.send(b"::set x\r")
            s.wait("› :set x", "RUN")

    def test_a_prompt_of_the_command_line_is_none_that_is_typed(self):
        for prompt in ("2", "4", ":quit", "::quit"):
            with tempfile.TemporaryDirectory() as d, Screen("--model", "script:1", "--max-tokens", "20", "--prompt", prompt, cols=120, rows=36,
                                                            env={"XDG_STATE_HOME": d}) as s:
                s.wait(f"│› {prompt} ", "20 tokens", "READY")
            r = run("chat", "--plain", "--model", "script:1", "--max-tokens", "20", "--prompt", prompt)
            self.assertIn(f"turn 1: {prompt}\n", r.stdout)

    def test_sequences_of_screen(self):
        """GNU screen between the program and the terminal."""
        if not shutil.which("screen"):
            self.skipTest("needs:screen")
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o700)
            before = f"unset TMUX; SCREENDIR={d} screen -U -c /dev/null -T screen-256color"
            with Screen(*SCRIPT, cols=120, rows=36, before=before) as s:
                s.wait("READY")
                s.type("two")
                s.keys("Home", ">", "End", "<", "F1")
                s.wait("What the signs and colours mean")
                s.keys("Escape")
                s.wait("› >two<", absent=("What the signs",))
                s.keys("Enter")
                s.wait("RUN")
                s.keys("C-c")
                s.wait("READY")
                s.keys("Escape")
                time.sleep(0.5)  # screen holds it for a while
                s.keys("y")
                s.wait("GNU screen blocks it")
                s.keys("Q")  # a terminal that goes away would leave it running, detached
                s.wait("exit=0")


class Endings(unittest.TestCase):
    def test_what_ctrl_c_or_a_crash_ends_is_offered(self):
        for how in ("C-c", "KILL", "TERM"):
            with tempfile.TemporaryDirectory() as d:
                env = {"XDG_STATE_HOME": d}
                kept = lambda: glob.glob(d + "/logitspec/conversation-*.zst")
                with Screen("--model", "script:1", "--max-tokens", "30", cols=120, rows=36, env=env) as s:
                    s.wait("READY")
                    s.type("Retrieval")
                    s.keys("Enter")
                    s.wait("30 tokens", "READY")
                    if how == "C-c":
                        s.keys(how, how)
                    else:
                        s.signal(how)
                    s.wait("exit=")
                self.assertEqual([os.stat(p).st_mode & 0o777 for p in kept()], [0o600])
                first = kept()
                with Screen("--model", "script:1", "--max-tokens", "30", cols=120, rows=36, env=env) as s:
                    s.wait("READY", " 4  load the interrupted conversation")
                    s.keys("4", "Enter")
                    s.wait("› Retrieval", "30 tokens", "loaded ")
                    self.assertEqual(first, kept())  # whoever only looks at it loses nothing
                    s.keys("C-c", "C-c")
                    s.wait("exit=130")
                with Screen("--model", "script:1", "--max-tokens", "30", cols=120, rows=36, env=env) as s:
                    s.wait("READY", " 4  load the interrupted conversation")
                    self.assertEqual(len(kept()), 1)
                    s.keys("4", "Enter")
                    s.wait("loaded ")
                    s.keys("4", "Enter")  # it is a prompt now, of the conversation that goes on in this program's file
                    s.wait("› 4", "30 tokens", "READY")
                    self.assertEqual(len(kept()), 1)
                    s.keys("Escape")
                    s.wait("q Quit")  # on a busy machine Esc and q may be read together, as Alt-q
                    s.keys("q")
                    s.wait("exit=0")
                self.assertEqual(glob.glob(d + "/logitspec/conversation-*"), [])
        with tempfile.TemporaryDirectory() as d:
            with Screen("--model", "script:1", "--max-tokens", "30", "--private", "--set", "logitspec.file=auto", cols=120, rows=36,
                        env={"XDG_STATE_HOME": d}) as s:
                s.wait("READY")
                s.type("Retrieval")
                s.keys("Enter")
                s.wait("30 tokens", "READY")
                s.keys("C-c")
                s.wait("the conversation is lost")
                s.keys("C-c")
                s.wait("exit=130")
            self.assertEqual(os.listdir(d), [])

    def test_an_idle_screen_asks_for_bigrams_once(self):
        with tempfile.TemporaryDirectory() as d:
            env = {"XDG_CACHE_HOME": d, "LOGITSPEC_SET_DECODE__COSTS": "auto"}
            for flags, says in ((["--set", "logitspec.bigrams=none"], False), (["--method", "suffix"], False), ([], True), ([], False)):
                with Screen("--model", "script:1", "--max-tokens", "30", "--trace", d + "/t", *flags, cols=120, rows=36, env=env) as s:
                    s.wait("READY")
                    if says:
                        s.wait("the model was asked once what follows each of 258 tokens")
                    else:
                        time.sleep(1.5)
                    self.assertEqual(os.path.isdir(d + "/logitspec/bigrams"), says or not flags)
                    s.type("Retrieval")
                    s.keys("Enter")
                    s.wait("30 tokens", "READY")
                    s.keys("C-c")
                    s.wait("^C again quits")
                    s.keys("C-c")
                    s.wait("exit=130")
                with open(d + "/t", encoding="utf-8") as f:
                    self.assertEqual("memory" in json.loads(f.readline()), not flags and not says)

    def test_the_reason_of_a_failure_is_told_after_the_screen(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "broken.gguf")
            with open(path, "wb") as f:
                f.write(b"GGUF\x03\x00\x00\x00" + b"\xff" * 40)
            with Screen("--model", path, cols=120, rows=36, env={"XDG_STATE_HOME": d}) as s:
                s.wait("FAILED", path)
                s.type("more")
                s.keys("Enter")
                s.wait("the model is not loaded; your input was kept")
                s.keys("Escape")
                s.wait("q Quit")
                s.keys("q")
                s.wait("logitspec: " + path, "exit=1")

    def test_what_is_kept_of_an_answer_that_a_crash_cuts(self):
        with tempfile.TemporaryDirectory() as d:
            with Screen("--model", "script:300", "--method", "plain", cols=120, rows=36, env={"XDG_STATE_HOME": d}) as s:
                s.wait("READY")
                s.type("Retrieval")
                s.keys("Enter")
                s.wait("RUN", "step 1 ")
                s.signal("KILL")
                s.wait("exit=137")
            with Screen("--model", "script:1", cols=120, rows=36, env={"XDG_STATE_HOME": d}) as s:
                s.wait("READY", " 4  load")
                s.keys("4", "Enter")
                s.wait("› Retrieval", "loaded ")

    def test_conversations_of_others_are_left_alone(self):
        with tempfile.TemporaryDirectory() as d:
            env, folder = {"XDG_STATE_HOME": d}, d + "/logitspec/"
            names = lambda: sorted(n for n in os.listdir(folder) if n.endswith(".zst"))
            args = ["--model", "script:1", "--max-tokens", "30"]
            with Screen(*args, cols=120, rows=36, env=env) as a, Screen(*args, cols=120, rows=36, env=env) as b:
                for s in (a, b):
                    s.wait("READY")
                a.type("Retrieval")
                a.keys("Enter")
                a.wait("30 tokens", "READY")
                own, = names()
                b.send(f":load {folder}{own}\r".encode())
                b.wait("loaded ", "› Retrieval")
                self.assertEqual(len(names()), 2)  # each has its own
                a.send(f":load {folder}{own}\r".encode())
                a.wait("loaded ")
                a.signal("KILL")
                a.wait("exit=137")
                self.assertIn(own, names())
                b.keys("C-c", "C-c")
                b.wait("exit=130")
            # an id of a process that runs now, a damaged file that is the newest, one too many, one too old
            good = names()
            os.rename(folder + good[0], f"{folder}conversation-5-{os.getpid()}.jsonl.zst")
            for i in range(9):
                shutil.copy(folder + good[1], f"{folder}conversation-1{i}-7.jsonl.zst")
                os.utime(f"{folder}conversation-1{i}-7.jsonl.zst", (1, time.time() - 1000 * i - 100))
            os.utime(f"{folder}conversation-13-7.jsonl.zst", (1, time.time() - 40 * 86400))
            with open(f"{folder}conversation-99-7.jsonl.zst", "w", encoding="utf-8") as f:
                f.write("damaged")
            os.utime(f"{folder}conversation-99-7.jsonl.zst", (1, time.time() + 100))
            with Screen(*args, cols=120, rows=36, env=env) as s:
                s.wait("READY", " 4  load")
                self.assertEqual(len(names()), 8)
                self.assertNotIn("conversation-13-7.jsonl.zst", names())
                self.assertIn(f"conversation-5-{os.getpid()}.jsonl.zst", names())
                s.keys("4", "Enter")
                s.wait("conversation-99-7", " 4  load")  # damaged: the next one is offered
                s.keys("4", "Enter")
                s.wait("› Retrieval", "loaded ")
                s.keys("Escape", "q")
                s.wait("exit=0")

    def test_any_signal_restores_the_terminal(self):
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU, signal.SIGIO, signal.SIGSYS,
                       signal.SIGRTMIN, signal.SIGRTMAX):
            with Tty(*SCRIPT) as t:
                t.wait(b"READY")
                before = termios.tcgetattr(t.tty)
                self.assertFalse(before[3] & termios.ECHO)
                os.kill(t.pid, number)
                self.assertEqual(t.ended(), -number)
                self.assertIn(b"\033[?1049l", t.got)
                self.assertIn(b"\033[?2004l", t.got)

    def test_a_terminal_that_reads_nothing_can_be_left(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with Tty(*SCRIPT, cols=250, rows=70) as t:
                t.wait(b"READY")
                for _ in range(60):  # whole frames, until it waits in a write
                    t.send(b"\x0c")
                    time.sleep(0.02)
                os.kill(t.pid, number)
                end = time.monotonic() + 20
                while time.monotonic() < end and t.status is None:
                    pid, status = os.waitpid(t.pid, os.WNOHANG)
                    t.status = os.waitstatus_to_exitcode(status) if pid else None
                    time.sleep(0.05)
                self.assertEqual(t.status, -number)

    def test_signals_while_the_editor_has_the_terminal(self):
        with tempfile.TemporaryDirectory() as d:
            editor = os.path.join(d, "editor")
            with open(editor, "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\nstty sane\necho "edits $1"\nsleep 20\n')
            os.chmod(editor, 0o755)
            folder = os.path.join(d, "it's a folder")
            os.mkdir(folder)
            with Screen(*SCRIPT, env={"VISUAL": editor, "TMPDIR": folder}) as s:
                s.wait("READY")
                s.type("my prompt")
                s.keys("F3")
                s.wait(f"edits {folder}"[:78])
                s.keys("C-c")  # the terminal sends it to both
                s.wait("the editor", "failed; the prompt is unchanged", "› my prompt")
                s.keys("F3")
                s.wait("edits")
                s.signal("TERM")
                s.wait("exit=143 echo=1", seconds=10)
            self.assertEqual(os.listdir(folder), [])


class Output(unittest.TestCase):
    def test_files_do_not_depend_on_the_locale(self):
        with tempfile.TemporaryDirectory() as d:
            trace = d + "/t.jsonl"
            run("generate", "--model", "script", "--prompt", "café 世界 👍🏽 x", "--max-tokens", "20", "--trace", trace)
            with open(d + "/script", "w", encoding="utf-8") as f:
                f.write("size 100x30\nwait ENDED\nsave " + d + "/screen.svg\nsave " + d + "/screen.txt\n")
            made = {}
            for name, env in (("utf8", {}), ("c", C_LOCALE)):
                files = []
                for end in ("svg", "cast", "html"):
                    r = run("report" if end == "html" else "export", trace, "-o", f"{d}/x.{end}", env=env)
                    self.assertEqual((r.returncode, r.stderr), (0, ""))
                    files.append(f"{d}/x.{end}")
                r = run("replay", trace, "--speed", "max", "--script", d + "/script", env=env)
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                for path in files + [d + "/screen.svg", d + "/screen.txt"]:
                    with open(path, "rb") as f:
                        made.setdefault(path, []).append(f.read())
                    os.unlink(path)
            for path, (first, second) in made.items():
                self.assertEqual(first, second, path)
                self.assertIn("café 世界".encode(), first, path)

    def test_a_terminal_without_places_gets_a_sentence(self):
        for name in ("dumb", "nonsense"):
            with Tty(*SCRIPT, env={"TERM": name}) as t:
                before = termios.tcgetattr(t.tty)
                self.assertEqual(t.ended(), 1)
                self.assertEqual(termios.tcgetattr(t.tty), before)
                self.assertIn(b"cannot be driven", t.got)
                self.assertNotIn(b"\033", t.got)

    LIGHT = b"\033[48;5;25m"  # the title's ground in the light theme; 24 in the other
    DARK = b"\033[48;5;24m"

    def test_a_light_background_is_asked_for(self):
        with Tty(*SCRIPT) as t:
            self.assertIn(b"\033]11;?", t.wait(b"READY"))
            t.read()
            t.send(b"\033]11;rgb:ffff/ff")  # the answer, in two parts
            time.sleep(0.1)
            t.send(b"ff/dddd\033\\x")
            self.assertNotIn(b"ffff", t.wait(self.LIGHT))
            self.assertIn(b"x", t.got)
        with Tty(*SCRIPT, env={"COLORFGBG": "0;15"}) as t:  # of another terminal: this one knows better
            t.wait(b"READY")
            t.read()
            t.send(b"\033]11;rgb:0000/0000/0000\033\\")
            t.wait(self.DARK)
        for answer, env, args in ((b"\033]11;rgb:1c1c/1c1c/1c1c\007", {}, []), (b"\033]11;rgb:ffff/ffff/ffff\007", {}, ["--theme", "default"]),
                                  (b"", {"COLORFGBG": "15;0"}, [])):
            with Tty(*SCRIPT, *args, env=env) as t:
                t.wait(b"READY")
                t.send(answer)
                t.read()
                self.assertNotIn(self.LIGHT, t.got)
        with Tty(*SCRIPT, env={"COLORFGBG": "0;default;15"}) as t:
            t.wait(b"READY")
            self.assertIn(self.LIGHT, t.got)
            self.assertNotIn(self.DARK, t.got)

    def test_columns_and_lines_do_not_hold_the_size(self):
        with Tty(*SCRIPT, env={"COLUMNS": "60", "LINES": "10"}, cols=90, rows=25) as t:
            self.assertIn(b"\033[25d", t.wait(b"READY") + t.read())  # the last row
            t.resize(30, 8)
            t.wait(b"needs 40x12, have 30x8")

    EMOJI = ("👨‍👩‍👧", "👍🏽", "❤️", "🇩🇪", "1️⃣", "é", "世", "😀")

    def test_emoji_move_nothing(self):
        """Each is put at its place, and the cursor goes back behind it, whatever the terminal takes for it."""
        for name in ("xterm-256color", "vt100", "rxvt"):
            with Tty(*SCRIPT, env={"TERM": name}) as t:
                t.wait(b"READY")
                t.send("\033[200~👨‍👩‍👧|👍🏽|❤️|\033[201~".encode())
                t.read(0.5)
                for emoji in ("👨‍👩‍👧", "👍🏽", "❤️"):
                    self.assertRegex(t.got, rb" \033\[23;\d+H" + emoji.encode() + rb"\033\[", name)
                self.assertNotIn(b"$<", t.got)
        with Tty(*SCRIPT, "--set", "ui.ambiguous_width=wide") as t:
            self.assertNotIn("┌".encode(), t.wait(b"READY"))  # lines in ASCII: the frame is as wide as it looks
            t.send("αβ".encode())
            t.read(0.5)
            self.assertRegex(t.got, "  \033\\[23;4Hα\033\\[23;6H\033\\[[\\d;]+m  \033\\[23;6Hβ\033\\[0m".encode())

    def test_what_stands_beside_emoji_is_whole_and_what_is_gone_is_gone(self):
        rng = random.Random(7)
        for args in ([], ["--set", "ui.ambiguous_width=wide"]):
            with Screen(*SCRIPT, *args) as s:
                s.wait("READY")
                for emoji in self.EMOJI:
                    s.send(f"\033[200~{emoji}abcdef|{emoji}xyz\033[201~".encode())
                    s.wait("abcdef|", "xyz")
                    s.keys("C-u")
                for _ in range(8):  # as it is, and drawn anew, it looks the same
                    s.send(("\033[200~" + "".join(rng.choice(self.EMOJI + ("a", " ", "bc", "αβ", "→")) for _ in range(12)) + "\033[201~").encode())
                    s.keys(*[rng.choice(("BSpace", "Left", "Home", "Delete", "Right", "End")) for _ in range(8)])
                    s.type("~.")  # the end of what is drawn
                    s.wait("~.")
                    time.sleep(0.1)
                    before = s.text()
                    s.keys("C-l")
                    time.sleep(0.2)
                    self.assertEqual(before.splitlines(), s.text().splitlines())
                    if rng.random() < 0.5:
                        s.keys("C-u", "C-k")
                s.send(f"\033[200~{' '.join(self.EMOJI)}\033[201~\r".encode())
                s.wait("RUN")
                s.keys("C-c")
                s.wait("READY", "stopped.")
                s.keys("Left")  # clears the message
                before = s.wait("root", absent=("stopped.",))
                s.keys("C-l")
                time.sleep(0.2)
                self.assertEqual(before.splitlines(), s.text().splitlines())

    def test_nothing_that_explains_is_cut_at_80x24(self):
        with Screen(*SCRIPT, "--max-rows", "8") as s:
            s.wait("READY", "verifies the whole tree", "Esc, then T",
                   "F1 Help", "Enter Send", "Esc Panels", "^C Quit")
            s.keys("F2")
            s.wait("w writes the settings to your configuration")
            s.keys("F2")
            s.send(b":load /a/path/that/is/not/there/and/that/is/longer/than/a/line/of/this/terminal/conversation.jsonl.zst\r")
            self.assertIn("No such file", re.sub(r"\n ?", "", s.wait("directory")))
            s.type("def fib(n):")
            s.keys("F5", "Enter")
            s.wait("PAUSED")
            s.keys("F6", "F6")
            self.assertRegex(re.sub(r"\s+", " ", s.wait("step 1: root")), r'step 1: root .* drafts accepted \(.*\); missed ".*" p [\d.]+: no row left')


if __name__ == "__main__":
    unittest.main()
