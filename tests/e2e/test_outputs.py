"""What the program writes: nothing of the user's is lost, overwritten, shown to others, or waited for without end."""
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

from program import ENV, PROGRAM, Screen, read_trace, run

SCRIPT = ["--model", "script"]
GENERATE = ["generate", *SCRIPT, "--prompt", "def fib(n):", "--seed", "1", "-q"]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


class Folder(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.trace = self.at("trace.jsonl")
        self.assertEqual(run(*GENERATE, "--max-tokens", "40", "--trace", self.trace).returncode, 0)
        self.wide = self.at("wide.jsonl")  # whole trees
        self.assertEqual(run(*GENERATE, "--max-tokens", "60", "--max-rows", "32", "--trace", self.wide).returncode, 0)

    def at(self, name):
        return os.path.join(self.tmp.name, name)

    def script(self, *lines):
        write(self.at("keys.script"), "".join(line + "\n" for line in lines))
        return self.at("keys.script")

    def commands(self):
        """Every way to write a file: a name for it, and the command line that writes to a given path."""
        keys = self.script("wait READY", "type One fish", "key Enter", "wait 40 tokens", "wait READY")
        text = self.at("text.txt")
        write(text, "one fish two fish\n" * 20)
        live = ["chat", *SCRIPT, "--max-tokens", "40", "--seed", "1"]

        def press(command, out):
            path = self.script("wait READY", "type One fish", "key Enter", "wait 40 tokens", "wait READY", "key Esc :",
                               f"type {command} {out}", "key Enter", "wait saved")
            return [*live, "--script", path]

        def save_picture(out):
            return [*live, "--script", self.script("wait READY", f"save {out}")]

        return {
            "report.html": lambda out: ["report", self.trace, "-o", out, "-q"],
            "report.md": lambda out: ["report", self.trace, "-o", out, "-q"],
            "export.jsonl": lambda out: ["export", self.trace, "-o", out],
            "export.json": lambda out: ["export", self.trace, "-o", out],
            "export.cast": lambda out: ["export", self.trace, "-o", out],
            "bench.csv": lambda out: ["bench", *SCRIPT, "-o", out, "-q"],
            "tune.yaml": lambda out: ["tune", *SCRIPT, "--prompt", "def fib(n):", "--methods", "pld:4", "--max-tokens", "20",
                                      "--seed", "1", "-o", out, "-q"],
            "fit.yaml": lambda out: ["tune", "--fit", "c2t", self.wide, "-o", out, "-q"],
            "corpus.bin": lambda out: ["corpus", "build", text, *SCRIPT, "-o", out, "-q"],
            "film.cast": lambda out: [*live, "--script", keys, "--cast", out],
            "picture.svg": save_picture,
            "conversation.jsonl": lambda out: press("save", out),
            "conversation.jsonl.zst": lambda out: press("save", out),
            "memory.history": lambda out: [*GENERATE, "--max-tokens", "20", "--method", "suffix", "--set", f"suffix.file={out}"],
        }

    def left(self):
        """Files that nobody asked for."""
        return [n for n in os.listdir(self.tmp.name) if ".part" in n or n.startswith(".")]


class Replacing(Folder):
    def test_links_are_followed_and_modes_kept(self):
        for name, command in self.commands().items():
            with self.subTest(name):
                real, link = self.at("real-" + name), self.at("link-" + name)
                write(real, "")
                os.chmod(real, 0o640)
                os.symlink("real-" + name, link)
                r = run(*command(link))
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                self.assertTrue(os.path.islink(link))
                self.assertGreater(os.path.getsize(real), 0)
                self.assertEqual(mode(real), 0o640)
                os.unlink(real)  # a link that leads nowhere yet
                self.assertEqual(run(*command(link)).returncode, 0)
                self.assertTrue(os.path.islink(link))
                self.assertGreater(os.path.getsize(real), 0)
        self.assertEqual(self.left(), [])

    def test_a_fifo_stays_one_and_its_reader_gets_everything(self):
        for name, command in self.commands().items():
            if name == "memory.history":  # is read first
                continue
            with self.subTest(name):
                got, path = [], self.at("fifo-" + name)
                os.mkfifo(path)

                def reader(path=path, got=got):
                    with open(path, "rb") as f:
                        got.append(f.read())

                t = threading.Thread(target=reader, daemon=True)
                t.start()
                r = run(*command(path))
                t.join(20)
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                self.assertTrue(stat.S_ISFIFO(os.lstat(path).st_mode))
                self.assertGreater(len(got[0]), 100)

    def test_a_device_stays_one(self):
        path = self.at("null.html")
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            self.skipTest("needs:root (a device node)")
        self.assertEqual(run("report", self.trace, "-o", path, "-q").returncode, 0)
        self.assertTrue(stat.S_ISCHR(os.lstat(path).st_mode))

    def test_standard_output_that_is_a_file_is_written_behind_what_is_there(self):
        path = self.at("log")
        with open(path, "ab") as f:
            f.write(b"before\n")
            f.flush()
            p = subprocess.run([PROGRAM, *self.commands()["tune.yaml"]("/dev/stdout")], stdout=f, env=ENV, check=False, timeout=60)
            f.write(b"after\n")
        self.assertEqual(p.returncode, 0)
        self.assertRegex(read(path), r"(?s)\Abefore\n.*decode:\n.*after\n\Z")

    def test_nobody_can_plant_where_it_is_written(self):
        victim = self.at("victim")
        write(victim, "precious")
        for name, command in self.commands().items():
            with self.subTest(name):
                out = self.at(name)
                # $$ is the program's own number: exec keeps it
                r = subprocess.run(["sh", "-c", 'ln -s "$0" "$1.part$$"; shift; exec "$@"', victim, out, PROGRAM, *command(out)],
                                   env=ENV, capture_output=True, timeout=120, check=False)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertEqual(read(victim), "precious")
                self.assertGreater(os.path.getsize(out), 0)

    def test_a_limit_on_the_size_of_files_is_an_error_and_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        for name, command in self.commands().items():
            if name.startswith(("conversation", "picture")):  # the screen says it: below
                continue
            with self.subTest(name):
                out = self.at(name)
                line = command(out)
                r = run(*line, preexec_fn=limit)
                self.assertEqual(r.returncode, 0 if name == "memory.history" else 1, r.stderr)  # a run is not lost for that
                self.assertRegex(r.stderr, r"\Alogitspec: cannot write .*: the file would exceed the size limit of this "
                                           r"process \(ulimit -f\)\n\Z")
                self.assertFalse(os.path.exists(out))
                write(out, "logitspec-history 9\n" if name == "memory.history" else "old")
                self.assertEqual(run(*line, preexec_fn=limit).returncode, r.returncode)
                self.assertIn(read(out), ("old", "logitspec-history 9\n"))
        self.assertEqual(self.left(), [])

    def test_a_full_disk_is_called_that_and_leaves_nothing(self):
        disk = self.at("disk")
        os.mkdir(disk)
        inside = f'mount -t tmpfs -o size=16k none "{disk}" && '
        if subprocess.run(["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=16k none "{disk}"'], capture_output=True, check=False).returncode:
            self.skipTest("needs:root (a small disk)")
        for name, command in self.commands().items():
            if name not in ("report.html", "export.json", "film.cast", "corpus.bin"):
                continue
            with self.subTest(name):
                out = os.path.join(disk, name)
                r = subprocess.run(["unshare", "-m", "sh", "-c", inside + f'head -c 12000 /dev/zero >"{disk}/other"; echo old >"{out}"; '
                                    f'"$@"; echo "rc=$?"; ls -A "{disk}"; cat "{out}"', "sh", PROGRAM, *command(out)],
                                   env=ENV, capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(r.stderr, f"logitspec: cannot write {out}: the disk is full\n")
                self.assertEqual(r.stdout.split(), ["rc=1", *sorted([name, "other"]), "old"])

    def test_a_fifo_that_nobody_reads_hears_ctrl_c(self):
        path = self.at("unread.json")
        os.mkfifo(path)
        p = subprocess.Popen([PROGRAM, "export", self.trace, "-o", path], env=ENV, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 20  # until it waits
        while "SigCgt" in (status := read(f"/proc/{p.pid}/status")) and time.monotonic() < end:
            caught = int(re.search(r"SigCgt:\s+(\w+)", status).group(1), 16)
            if caught >> (signal.SIGINT - 1) & 1 and re.search(r"State:\s+S", status):
                break
            time.sleep(0.01)
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        self.assertIn("interrupted", p.communicate(timeout=20)[1])
        self.assertEqual(p.returncode, 130)


class Own(Folder):
    def test_no_command_overwrites_what_it_reads(self):
        text, prompts, config = self.at("text.md"), self.at("suite.jsonl"), self.at("config.yaml")
        write(text, "one fish\n")
        write(prompts, '{"prompt": "x"}\n')
        write(config, "decode:\n  max_tokens: 20\n")
        write(self.at("model.md"), "not really\n")
        keys = self.script("wait READY")
        shutil.copy(self.trace, self.at("trace.json"))
        shutil.copy(self.trace, self.at("trace.html"))
        shutil.copy(self.trace, self.at("trace.cast"))
        cases = [
            (self.trace, lambda o: ["export", self.trace, "-o", o]),
            (self.at("trace.json"), lambda o: ["export", self.at("trace.json"), "-o", o]),
            (self.at("trace.cast"), lambda o: ["export", self.at("trace.cast"), "-o", o]),
            (prompts, lambda o: ["export", self.trace, "--suite", prompts, "-o", o]),
            (self.at("trace.html"), lambda o: ["report", self.trace, self.at("trace.html"), "-o", o]),
            (text, lambda o: [*GENERATE[:3], "--prompt-file", text, "--trace", o]),
            (config, lambda o: [*GENERATE, "--config", config, "--trace", o]),
            (text, lambda o: [*GENERATE, "--draft-model", text, "--trace", o]),
            (text, lambda o: [*GENERATE, "--draft-head", text, "--log", o]),
            (text, lambda o: [*GENERATE, "--set", "rest.corpus=" + text, "--trace", o]),
            (keys, lambda o: ["serve", *SCRIPT, "--key-file", keys, "--log", o]),
            (keys, lambda o: ["chat", *SCRIPT, "--script", keys, "--cast", o]),
            (keys, lambda o: ["chat", *SCRIPT, "--script", keys, "--trace", o]),
            (self.trace, lambda o: ["replay", self.trace, "--cast", o]),
            (prompts, lambda o: ["tune", *SCRIPT, "--suite", prompts, "-o", o]),
            (config, lambda o: ["tune", *SCRIPT, "--prompt", "x", "--config", config, "-o", o]),
            (self.wide, lambda o: ["tune", "--fit", "c2t", self.wide, "-o", o]),
            (text, lambda o: ["corpus", "build", text, *SCRIPT, "-o", o]),
            (text, lambda o: ["corpus", "build", self.at("folder"), *SCRIPT, "-o", o]),
            (self.at("model.md"), lambda o: ["bench", "--model", self.at("model.md"), "-o", o]),
        ]
        os.mkdir(self.at("folder"))
        os.link(text, os.path.join(self.at("folder"), "inside.txt"))
        for own, command in cases:
            before = read(own)
            ending = os.path.splitext(own)[1]
            hard, soft = self.at("hard" + ending), self.at("soft" + ending)
            os.link(own, hard)
            os.symlink(own, soft)
            for name in own, hard, soft:
                with self.subTest(" ".join(command(name))):
                    r = run(*command(name))
                    self.assertEqual(r.returncode, 2, r.stderr)
                    self.assertRegex(r.stderr, r"\Alogitspec: \S+ is an input; name another output file\n\Z")
                    self.assertEqual(read(own), before)
            os.unlink(hard)
            os.unlink(soft)

    def test_what_comes_by_standard_input_too(self):
        with open(self.trace, encoding="utf-8") as f:
            r = run("export", "-", "-o", self.trace, stdin=f)
        self.assertEqual(r.returncode, 2)
        self.assertIn("is an input; name another output file", r.stderr)
        self.assertGreater(len(read_trace(read(self.trace))), 3)

    def test_one_file_is_not_written_as_two_things(self):
        out = self.at("both")
        r = run("chat", *SCRIPT, "--prompt", "x", "--cast", out, "--trace", out)
        self.assertEqual(r.returncode, 2)
        self.assertIn("is named by two output options", r.stderr)

    def test_a_corpus_in_its_own_folder_is_built_again(self):
        os.mkdir(self.at("texts"))
        write(os.path.join(self.at("texts"), "a.txt"), "one fish two fish\n")
        line = ["corpus", "build", self.at("texts"), *SCRIPT, "-o", os.path.join(self.at("texts"), "my.corpus"), "-q"]
        self.assertEqual(run(*line).returncode, 0)
        r = run(*line)
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_a_file_that_is_no_history_of_drafts_is_refused(self):
        diary = self.at("diary.txt")
        write(diary, "Dear diary\n")
        for method in "suffix", "cacheback":
            r = run(*GENERATE, "--method", method, "--set", f"{method}.file={diary}")
            self.assertEqual(r.returncode, 2)
            self.assertEqual(r.stderr, f"logitspec: {diary}: not a history of drafts, and it would be overwritten: name another file\n")
            self.assertEqual(read(diary), "Dear diary\n")


class Private(Folder):
    def test_what_holds_prompts_is_for_its_owner_alone(self):
        self.assertEqual(mode(self.trace), 0o600)
        for name in "conversation.jsonl", "conversation.jsonl.zst", "memory.history":
            command, out = self.commands()[name], self.at(name)
            self.assertEqual(run(*command(out)).returncode, 0)
            self.assertEqual(mode(out), 0o600, name)
            for kept in 0o600, 0o644:  # as the user set it
                os.chmod(out, kept)
                self.assertEqual(run(*command(out)).returncode, 0)
                self.assertEqual(mode(out), kept, name)
        os.chmod(self.trace, 0o644)
        self.assertEqual(run(*GENERATE, "--max-tokens", "5", "--trace", self.trace).returncode, 0)
        self.assertEqual(mode(self.trace), 0o644)
        fresh = self.at("live.jsonl")
        self.assertEqual(run("chat", *SCRIPT, "--script", self.script("wait READY"), "--trace", fresh).returncode, 0)
        self.assertEqual(mode(fresh), 0o600)


class Recording(Folder):
    def test_a_full_disk_is_an_error_and_the_text_is_there(self):
        said = r"\Alogitspec: the trace /dev/full is incomplete: the disk is full; \d+ bytes were not written\n\Z"
        plain = run(*GENERATE, "--max-tokens", "30").stdout
        r = run(*GENERATE, "--max-tokens", "30", "--trace", "/dev/full")
        self.assertEqual((r.returncode, r.stdout), (1, plain))
        self.assertRegex(r.stderr, said)
        r = run(*GENERATE, "--max-tokens", "30", "--json", "--trace", "/dev/full")
        self.assertEqual((r.returncode, json.loads(r.stdout)["emitted"]), (1, 30))
        self.assertRegex(r.stderr, said)
        script = self.script("wait READY", "type One fish", "key Enter", "wait READY", "wait 20 tokens", "key Esc q")
        r = run("chat", *SCRIPT, "--max-tokens", "20", "--trace", "/dev/full", "--script", script)
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stderr, r"the trace /dev/full")
        r = run(*GENERATE, "--max-tokens", "2000", "--trace", self.at("limited.jsonl"),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)))
        self.assertEqual(r.returncode, 1)
        self.assertIn("the file would exceed the size limit of this process", r.stderr)
        read_trace(read(self.at("limited.jsonl")).rpartition("\n")[0])  # valid to the last whole line

    def test_two_runs_do_not_record_into_one_file(self):
        path = self.at("shared.jsonl")
        first = subprocess.Popen([PROGRAM, "generate", "--model", "script:20", "--prompt", "x", "--method", "plain", "--max-tokens", "4000", "--trace", path, "-q"],
                                 env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            end = time.monotonic() + 20
            while not (os.path.exists(path) and os.path.getsize(path)) and time.monotonic() < end:
                time.sleep(0.02)
            os.symlink(path, self.at("name.jsonl"))
            for name in path, self.at("name.jsonl"):
                r = run(*GENERATE, "--trace", name)
                self.assertEqual((r.returncode, r.stdout), (1, ""))
                self.assertEqual(r.stderr, f"logitspec: cannot write {name}: another run records into it: name another file\n")
            script = self.script("wait READY", "type x", "key Enter", "wait 20 tokens", "wait READY", "key Esc :",
                                 f"type save {path}", "key Enter", "wait cannot write")
            self.assertEqual(run("chat", *SCRIPT, "--max-tokens", "20", "--script", script).returncode, 0)
            self.assertIsNone(first.poll())
            first.send_signal(signal.SIGINT)
            self.assertEqual(first.communicate(timeout=20)[1], "")
        finally:
            first.kill()
            first.wait()
        lines = read_trace(read(path))
        self.assertEqual((lines[0]["prompt_text"], lines[-1]["reason"]), ("x", "interrupted"))
        self.assertEqual(run(*GENERATE, "--max-tokens", "5", "--trace", path).returncode, 0)  # nobody has it now

    def stalled(self):
        """A FIFO whose reader is there and does not read."""
        path = self.at("stalled.jsonl")
        os.mkfifo(path)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, fd)
        return path

    def test_a_reader_that_stalls_does_not_hold_the_end_of_a_run(self):
        path = self.stalled()
        start = time.monotonic()
        r = run(*GENERATE, "--max-tokens", "300", "--trace", path, timeout=60)
        self.assertLess(time.monotonic() - start, 40)
        self.assertEqual(r.returncode, 1)
        self.assertTrue(r.stdout)
        self.assertRegex(r.stderr, rf"logitspec: the trace {path} is incomplete: no program reads the output; [1-9]\d+ bytes were not written\n\Z")

    def test_the_first_ctrl_c_is_heard_while_a_reader_stalls(self):
        path = self.stalled()
        p = subprocess.Popen([PROGRAM, *GENERATE, "--max-tokens", "300", "--trace", path], env=ENV, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.assertTrue(p.stdout.readline())  # the text ends with its line: what is left is the trace
        time.sleep(0.5)
        start = time.monotonic()
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=60)[1]
        self.assertLess(time.monotonic() - start, 8)  # it would wait for ten
        self.assertEqual(p.returncode, 130)
        self.assertRegex(err, r"\d+ bytes were not written\n\Z")

    def test_a_stalled_reader_does_not_hold_the_screen(self):
        path = self.stalled()
        with Screen(*SCRIPT, "--max-tokens", "300", "--trace", path, cols=120, rows=36) as s:
            s.wait("READY")
            s.type("One fish")
            s.keys("Enter")
            s.wait("300 tokens", "READY")
            s.keys("C-c", "C-c")
            s.wait("exit=130", "is incomplete: no program reads the output", seconds=9)

    def test_a_trace_that_nobody_reads_is_said_and_can_be_left(self):
        path = self.at("unread.jsonl")
        os.mkfifo(path)
        with Screen(*SCRIPT, "--trace", path) as s:
            s.wait("LOADING")
            s.keys("C-c")
            s.wait("exit=130", seconds=9)
        p = subprocess.Popen([PROGRAM, "generate", *SCRIPT, "--prompt", "x", "--trace", path], env=ENV, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.assertIn("waiting for a program to read", p.stderr.readline())
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(timeout=20), 130)
        p.communicate()


class Prompts(unittest.TestCase):
    def test_two_screens_lose_nothing_and_a_kill_neither(self):
        with tempfile.TemporaryDirectory() as d:
            env, path = {"XDG_STATE_HOME": d}, os.path.join(d, "logitspec", "history")
            with Screen(*SCRIPT, "--max-tokens", "20", env=env) as a, Screen(*SCRIPT, "--max-tokens", "20", env=env) as b:
                for s in a, b:
                    s.wait("READY")
                for i, s in enumerate([a, b, a, b]):
                    s.type(f"prompt {i}")
                    s.keys("Enter")
                    end = time.monotonic() + 30  # what is typed may stand beside the answer to the prompt before
                    while len(read(path).splitlines() if os.path.exists(path) else []) <= i and time.monotonic() < end:
                        time.sleep(0.05)
                    s.wait(f"prompt {i}", "20 tokens", "READY")
                self.assertEqual([json.loads(x) for x in read(path).splitlines()], [[f"prompt {i}"] for i in range(4)])
                a.signal("KILL")
                a.wait("exit=137")
                b.keys("C-c", "C-c")
                b.wait("exit=130")
            self.assertEqual([json.loads(x) for x in read(path).splitlines()], [[f"prompt {i}"] for i in range(4)])
            self.assertEqual(mode(path), 0o600)
            with Screen(*SCRIPT, env=env) as s:
                s.wait("READY")
                s.keys("Up", "Up")
                s.wait("› prompt 2")

    def test_a_history_that_cannot_be_kept_is_said_once(self):
        with Screen(*SCRIPT, "--max-tokens", "20", cols=120, env={"XDG_STATE_HOME": "/dev/null"}) as s:
            s.wait("READY", "cannot save the conversation for the next start: /dev/null/logitspec: ")
            s.type("hello")
            s.keys("Enter")
            s.wait("prompts are not saved", "20 tokens")
            s.type("more")
            s.keys("Enter")
            s.wait("› more", "20 tokens", "READY", absent=("not saved",))
            s.keys("C-c")
            s.wait("^C again quits: the conversation is lost")


if __name__ == "__main__":
    unittest.main()
