#!/usr/bin/env python3
"""Fails the n-th call of a kind in every command, closes its streams, limits it or kills it, and checks what is left: exit
code, words, terminal, files.

  tests/torture/torture.py BUILD [--seconds S] [--seed N] [--runs N] [--only 'CASE KIND:ERROR:TIMES N'] [--case WORD] [--kind WORD]

A table of runs and violations by command and kind; each violation with the command that repeats it. Exit code 1 where
there is one.
"""
import argparse
import collections
import concurrent.futures
import errno
import fcntl
import itertools
import json
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

import cases as cases_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = ["memory", "heap", "thread", "open", "read", "write", "print", "close", "sync", "truncate", "rename", "unlink",
         "stat", "lock", "mkdir", "seek", "list", "descriptor", "map", "wait", "mode"]  # as in inject.c
FRAMES = 32
STATE = struct.Struct(f"{len(KINDS)}q q q {FRAMES}q")
DEADLINE = 75  # seconds of one run, which takes a hundredth of one on an idle machine; a script waits 60 for a text
FOR_EVER = 0
AT_ONCE = 3 * (os.cpu_count() or 2)  # runs on a terminal mostly wait

# kind -> (errno, how many in a row fail). errno 0: short reads and writes. EINTR and short ones must not be noticed.
FAILURES = {
    "memory": [(errno.ENOMEM, 1)],
    "heap": [(errno.ENOMEM, 1)],
    "thread": [(errno.EAGAIN, 1)],
    "open": [(errno.EMFILE, 1), (errno.EIO, 1)],
    "read": [(errno.EIO, 1), (errno.EINTR, 5), (0, 1)],
    "write": [(errno.ENOSPC, FOR_EVER), (errno.EIO, 1), (errno.EINTR, 5), (0, 1)],
    "print": [(errno.ENOSPC, FOR_EVER), (errno.EIO, 1), (errno.EINTR, 5), (0, 1)],
    "close": [(errno.EIO, 1)],
    "sync": [(errno.EIO, 1), (errno.EINTR, 1)],
    "truncate": [(errno.EIO, 1), (errno.EINTR, 1)],
    "rename": [(errno.EIO, 1), (errno.ENOSPC, 1)],
    "unlink": [(errno.EIO, 1)],
    "stat": [(errno.EIO, 1)],
    "lock": [(errno.ENOLCK, 1), (errno.EINTR, 5)],
    "mkdir": [(errno.ENOSPC, 1)],
    "seek": [(errno.EIO, 1)],
    "list": [(errno.EIO, 1)],
    "descriptor": [(errno.EMFILE, 1)],
    "map": [(errno.ENOMEM, 1)],
    "wait": [(errno.EINTR, 5)],
    "mode": [(errno.EPERM, 1)],
}
# What happens to the whole process, by what its number means.
HARDSHIPS = {"closed": (1, 7),        # standard streams that are closed, bits 0 to 2
             "killed": (0, 1000),     # after so many thousandths of the time that a whole run takes
             "size": (0, 100000),     # bytes of a file at most
             "files": (3, 30),        # descriptors
             "space": (20, 160)}      # MiB of addresses
# What the message must hold: the reason, in the system's words or ours.
WORDS = {
    errno.ENOMEM: "out of memory|no memory|Cannot allocate memory|system refuses another thread",
    errno.EAGAIN: "thread",
    errno.EMFILE: "Too many open files|file descriptors|cannot be driven",
    errno.EIO: "Input/output error|cannot be driven|Directory not empty|it stays",  # the last two: models remove
    errno.ENOSPC: "No space left on device|disk is full",
    errno.EINTR: "interrupted|cannot be driven",
    errno.ENOLCK: "No locks available",
    errno.EPERM: "Operation not permitted",
}
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP}


class Failure:
    """What is made to fail in one run."""

    def __init__(self, kind, error, times, n):
        self.kind, self.error, self.times, self.n = kind, error, times, n

    def __str__(self):
        if self.kind in HARDSHIPS:
            return f"{self.kind} {self.n}"
        name = errno.errorcode.get(self.error, "short")
        return f"{self.kind}:{name}:{self.times} {self.n}"

    @staticmethod
    def read(text):
        what, n = text.split()
        if what in HARDSHIPS:
            return Failure(what, 0, 1, int(n))
        kind, name, times = what.split(":")
        return Failure(kind, 0 if name == "short" else getattr(errno, name), int(times), int(n))

    def befall(self):
        """In the new process."""
        limits = {"size": (resource.RLIMIT_FSIZE, self.n), "files": (resource.RLIMIT_NOFILE, self.n), "space": (resource.RLIMIT_AS, self.n << 20)}
        if self.kind == "closed":
            for fd in range(3):
                if self.n >> fd & 1:
                    os.close(fd)
        elif self.kind in limits:
            what, most = limits[self.kind]
            resource.setrlimit(what, (most, most))

    @property
    def hidden(self):
        """Short reads and writes must not be noticed, nor an interrupted wait. An interrupted read or write of a file may
        end the run: on Linux only the handlers of SIGINT and SIGTERM cause it, and these end it too."""
        return not self.error or (self.error == errno.EINTR and self.kind in ("wait", "lock"))


class Outcome:
    code = 0  # negative: a signal; None: it hung
    stdout = stderr = b""
    tty = None  # what the pseudo-terminal got
    tty_changed = False
    files = None
    before = counts = None
    failed = base = seconds = 0
    frames = ()


class Killer:
    """Kills a process after a while; None: never."""
    def __init__(self, after):
        self.after, self.timer = after, None

    def of(self, process):
        if self.after is not None:
            self.timer = threading.Timer(self.after, process.kill)
            self.timer.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.timer:
            self.timer.cancel()


class Torture:
    def __init__(self, build, folder):
        self.program, self.library = (os.path.join(os.path.abspath(build), *p) for p in (("logitspec",), ("tests", "inject.so")))
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("LOGITSPEC_", "XDG_")) and k not in ("NO_COLOR", "COLUMNS", "LINES", "LD_PRELOAD")}
        self.env.update(LANG="C.UTF-8", LC_ALL="C.UTF-8", HOME=folder, XDG_CONFIG_HOME=os.path.join(folder, "config"), TERM="xterm-256color",
                        EDITOR="true", CUDA_VISIBLE_DEVICES="")
        os.makedirs(os.path.join(folder, "config", "logitspec"))
        with open(os.path.join(folder, "config", "logitspec", "config.yaml"), "w", encoding="utf-8") as f:
            f.write("ui: {mouse: yes}\n")
        self.inputs = cases_of.Inputs(os.path.join(folder, "in"), self.program, ROOT, self.env)
        self.cases = cases_of.cases(self.inputs)
        self.number = itertools.count()
        self.seconds = {}  # of whole runs

    def commands(self):
        """The commands that the program has, by its own help."""
        text = subprocess.run([self.program, "--help"], capture_output=True, text=True, env=self.env, check=True).stdout
        return set(re.findall(r"^  ([a-z]+) +\S", text.split("Commands:")[1].split("\n\n")[0], re.M))

    def work(self, case):
        w = os.path.join(self.folder, f"run{next(self.number)}")
        os.makedirs(os.path.join(w, "state", "logitspec"))
        for name in case.outputs:
            with open(os.path.join(w, name), "wb") as f:
                f.write(cases_of.OLD)
        with open(os.path.join(w, "state", "logitspec", "history"), "wb") as f:
            f.write(cases_of.HISTORY)
        if case.command == "models":
            self.inputs.models(os.path.join(w, "models"))
        return w

    def run(self, case, failure=None, keep=False, stop=False):
        w = self.work(case)
        before = {os.path.relpath(os.path.join(where, n), w) for where, _, names in os.walk(w) for n in names}
        fill = lambda s: s.replace("{w}", w).replace("{i}", self.inputs.folder)
        env = dict(self.env, **{k: fill(v) for k, v in case.env.items()}, XDG_STATE_HOME=w + "/state", XDG_CACHE_HOME=w + "/cache",
                   LOGITSPEC_MODELS=w + "/models", LD_PRELOAD=self.library, TORTURE_STATE=w + ".counts")
        if "KEYS" in env:
            with open(w + "/keys", "w", encoding="utf-8") as f:
                f.write(env.pop("KEYS"))
        with open(w + ".counts", "wb") as f:
            f.write(bytes(STATE.size))
        hard = failure and failure.kind in HARDSHIPS
        if hard:
            del env["LD_PRELOAD"]
        elif failure:
            env.update(TORTURE_KIND=failure.kind, TORTURE_N=str(failure.n), TORTURE_TIMES=str(failure.times), TORTURE_ERROR=str(failure.error))
        elif case.name:
            env.update(TORTURE_KIND="heap")  # no limit: only counted
        if stop:
            env.update(TORTURE_STOP="1")
        args = [self.program] + [fill(x) for x in case.args]
        start = time.monotonic()
        how = {"preexec_fn": failure.befall} if hard else {}
        with Killer(failure.n / 1000 * self.seconds[case.name] if hard and failure.kind == "killed" else None) as killer:
            out = (self.on_terminal if case.screen else self.in_pipes)(args, env, w, case, killer, fill, max(0.4, self.seconds.get(case.name, 0)) if failure else 20, **how)
        out.seconds = time.monotonic() - start
        with open(w + ".counts", "rb") as f:
            numbers = STATE.unpack(f.read())
        out.counts = dict(zip(KINDS, numbers))
        out.failed, out.base, out.frames = hard or numbers[len(KINDS)], numbers[len(KINDS) + 1], [x for x in numbers[len(KINDS) + 2:] if x]
        out.before, out.files = before, {}
        for where, _, names in os.walk(w):
            for n in names:
                path = os.path.join(where, n)
                with open(path, "rb") as f:
                    out.files[os.path.relpath(path, w)] = f.read()
        for name in ("stdout", "stderr", "tty"):  # the folder's name differs from run to run
            text = getattr(out, name)
            setattr(out, name, text and text.replace(w.encode(), b"{w}"))
        out.folder = w
        if not keep:
            self.clean(out)
        return out

    def clean(self, out):
        shutil.rmtree(out.folder, ignore_errors=True)
        os.unlink(out.folder + ".counts")

    def in_pipes(self, args, env, w, case, killer, *_, **how):
        out = Outcome()
        p = subprocess.Popen(args, env=env, cwd=w, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        killer.of(p)
        try:
            out.stdout, out.stderr = p.communicate(case.stdin, timeout=DEADLINE)
            out.code = p.returncode
        except subprocess.TimeoutExpired:
            p.kill()
            out.stdout, out.stderr = p.communicate()
            out.code = None
        return out

    def on_terminal(self, args, env, w, case, killer, fill, patience, **how):
        """patience: seconds of silence after which a key comes whose text has not. What a key waits for may never show where something failed."""
        out = Outcome()
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        before = termios.tcgetattr(theirs)
        p = subprocess.Popen(args, env=env, cwd=w, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, **how)
        killer.of(p)
        out.tty, todo, since = b"", list(case.screen) + [(None, b"\x03\x03")], 0
        end, quiet = time.monotonic() + DEADLINE, time.monotonic()
        while True:
            ended = p.poll() is not None  # asked first: what it wrote last is there to be read then
            if select.select([ours], [], [], 0.02)[0]:
                out.tty += os.read(ours, 65536)
                quiet = time.monotonic()
            elif ended:
                break
            silence = time.monotonic() - quiet
            if todo and b"\x1b[?2004h" in out.tty and silence > 0.05 and (
                    silence > patience or (todo[0][1][:1] != b"\x03" and (not todo[0][0] or re.search(todo[0][0], out.tty[since:])))):
                since, quiet = len(out.tty), time.monotonic()
                os.write(ours, fill(todo.pop(0)[1].decode()).encode())
            if time.monotonic() > end:
                p.kill()
                break
        out.code = p.wait() if time.monotonic() <= end else None
        out.tty_changed = termios.tcgetattr(theirs) != before
        os.close(ours)
        os.close(theirs)
        # what was printed outside curses' own screen
        text = re.split(rb"\x1b\[\?1049l", out.tty)[-1] if b"\x1b[?1049h" in out.tty else out.tty
        out.stderr = re.sub(rb"\x1b\[[?0-9;>]*[a-zA-Z]|\x1b[=>()][B0]?|\r", b"", text)
        return out


# ---- what must hold

def last_mode(tty, number):
    found = re.findall(rb"\x1b\[\?(?:\d+;)*%d(?:;\d+)*([hl])" % number, tty)
    return found[-1] if found else b"l"


def lines_of_ours(stderr):
    return [x for x in stderr.decode("utf-8", "replace").splitlines() if x.startswith("logitspec: ")]


def trace_so_far(data):
    """What is wrong with a trace that was cut: whole lines, a header first; only the last line may be incomplete."""
    lines = data.split(b"\n")
    for at, line in enumerate(lines[:-1]):
        try:
            kind = json.loads(line)["type"]
        except (ValueError, KeyError, TypeError):
            return f"line {at + 1} is no line of a trace"
        if not at and kind != "header":
            return "does not begin with a header"
    return None


class Judge:
    def __init__(self, torture, case, whole):
        self.torture, self.case, self.whole = torture, case, whole

    def hardship(self, failure, out):
        """Nothing is half, and an exit code says what there is to say, where nobody hears words."""
        killed, heard = failure.kind == "killed", not (failure.kind == "closed" and failure.n & 4)
        failed = killed or out.code != self.case.code
        if out.code is not None and out.code < 0 and not (killed and out.code == -signal.SIGKILL):
            yield "signal", f"ended by {signal.Signals(-out.code).name}"
        if not killed and failure.kind != "closed":
            yield from self.terminal(out)
        if failed and not killed and heard and not out.stderr.strip() and not out.stdout.strip():
            yield "words", f"exit code {out.code} without a message"
        # some say by words alone what is no reason to end: a prompt that is not kept, costs that are not cached
        said = [x for x in lines_of_ours(out.stderr) if x not in lines_of_ours(self.whole.stderr)]
        if not failed and not said and not self.case.screen and (heard or not self.case.code):
            wrong = self.case.prints(out.stdout, self.whole.stdout)
            if wrong:
                yield "lost", f"exit code {out.code}, no message, and standard output {wrong}"
        for kind, what in self.files(failure, out, failed or bool(said) or not heard or bool(self.case.screen), failed):
            if not (kind == "part" and killed) and not (kind == "history" and self.case.screen):
                yield kind, what

    def violations(self, failure, out):
        """Pairs of a kind and a sentence."""
        if out.code is not None and failure.kind in HARDSHIPS:
            yield from self.hardship(failure, out)
            return
        if out.code is None:
            yield "hang", f"did not end within {DEADLINE} s"
            return
        if out.code < 0:
            number = signal.Signals(-out.code)
            yield "signal" if number in CRASHES else "ended", f"ended by {number.name}"
        yield from self.terminal(out)
        failed = out.code != self.case.code
        said = [x for x in lines_of_ours(out.stderr) if x not in lines_of_ours(self.whole.stderr)]
        # some commands print what they found wrong, the screen shows it
        reason = WORDS.get(failure.error)
        printed = bool(reason and re.search(reason.encode(), out.tty or out.stdout, re.I) and
                       not re.search(reason.encode(), self.whole.tty or self.whole.stdout, re.I))
        if failure.hidden:
            if failed or said:
                yield "noticed", f"exit code {out.code}: {' | '.join(said) or 'no message'}"
        elif failed and out.code > 0:
            if out.code not in (1, 2, 3) and (out.code, failure.error) != (130, errno.EINTR):
                yield "code", f"exit code {out.code}"
            if not said and not printed and not (failure.kind == "stat" and out.stdout):
                yield "words", f"exit code {out.code} without a message"
        if not failure.hidden and said:
            if failure.kind != "stat" and not any(re.search(WORDS[failure.error], x, re.I) for x in said):
                yield "words", f"does not say the reason: {said[-1]}"
            # a recording that fails is told at once, and how much it lacks at the end
            if len([x for x in said if " without its last " not in x]) > 1 and failure.times == 1:
                yield "words", f"{len(said)} lines: {' | '.join(said)}"
        if printed or failure.kind == "stat":
            pass  # what cannot be looked at is called absent: no disk fails so and works on
        elif not failed and not said and not self.case.screen:
            wrong = self.case.prints(out.stdout, self.whole.stdout)
            if wrong:
                yield "lost", f"exit code {out.code}, no message, and standard output {wrong}"
        elif not self.case.screen and not self.begins(out.stdout, failure.kind == "print" or self.case.prefix):
            yield "half", "standard output is neither empty, whole, nor a beginning"
        yield from self.files(failure, out, failed or printed or bool(said), failed)

    def begins(self, text, beginning):
        if not text or self.case.prefix is None or not self.case.prints(text, self.whole.stdout):
            return True
        if self.case.prints is cases_of.trace:
            return not trace_so_far(text)
        bare = lambda b: re.sub(rb"[\d.\s-]+", b"", b)
        return beginning and bare(self.whole.stdout).startswith(bare(text))

    def terminal(self, out):
        if out.tty is None:
            return
        if out.tty_changed:
            yield "terminal", "the modes of the terminal were not put back"
        for number, what in ((1049, "the other screen was not left"), (2004, "bracketed paste stays on"), (1000, "the mouse stays on"),
                             (1002, "the mouse stays on"), (1006, "the mouse stays on")):
            if last_mode(out.tty, number) == b"h":
                yield "terminal", what
        if b"\x1b[?25l" in out.tty and last_mode(out.tty, 25) == b"l":
            yield "terminal", "the cursor stays hidden"

    def files(self, failure, out, told, failed):
        for name, compare in self.case.outputs.items():
            now, whole = out.files.get(name), self.whole.files.get(name)
            is_trace = compare in (None, cases_of.trace)
            if now is None:
                yield "lost", f"{name} is gone"
            elif now == cases_of.OLD:
                if not told and name != "talk.jsonl":  # that is said on the screen
                    yield "lost", f"exit code {out.code}, no message, and {name} was not written"
            elif is_trace:
                yield from self.trace(name, now, compare, told, failed)
            else:
                wrong = compare(now, whole)
                if wrong:
                    yield ("half" if told else "lost"), f"{name} {wrong}"
        expected = set(self.whole.files) | set(self.case.outputs) | set(out.before)
        rescued = set(re.findall(r"\{w\}/(state/logitspec/conversation[^\s;,:']+)", out.stderr.decode("utf-8", "replace")))
        for name in rescued:
            if name not in out.files:
                yield "lost", "the conversation is not where the message says"
            else:
                yield from self.trace(name, out.files[name], None, True, True)
        # a screen that is idle for long enough, on a busy machine, asks for bigrams
        asked = {x for x in out.files if re.fullmatch("cache/logitspec/bigrams/[0-9a-f]{16}-[0-9a-f]{16}", x)}
        for name in sorted(set(out.files) - expected - rescued - asked):
            # a demo whose recording cannot be looked at is decoded, which leaves what was measured
            if failure.kind != "unlink" and not (failure.kind == "stat" and re.fullmatch(r"cache/.*\.txt", name)):
                yield "part", f"{re.sub('[0-9]{3,}', 'N', name)} is left"
        for name in sorted(out.before & set(self.whole.files) - set(out.files)):
            yield "lost", f"{name} is gone"
        if self.case.history:
            yield from self.history(out, told or b"not saved" in (out.tty or b""))

    def trace(self, name, now, compare, told, failed):
        if compare and not compare(now, None):
            return
        if compare:
            wrong = trace_so_far(now) if told else compare(now, None)
            if wrong:
                yield ("trace" if told else "lost"), f"{name} {wrong}"
                return
            steps = sum(x.startswith(b'{"type":"step"') and x.endswith(b"}") for x in now.split(b"\n")[:-1])
        else:
            steps = 0
        # the program's own reader
        with tempfile.NamedTemporaryFile(suffix="-" + os.path.basename(name), dir=self.torture.folder) as f:
            f.write(now)
            f.flush()
            p = subprocess.run([self.torture.program, "simulate", f.name, "--methods", "pld", "-q"], capture_output=True, env=self.torture.env, timeout=DEADLINE, check=False)
        said = p.stderr.decode("utf-8", "replace").strip()
        if p.returncode < 0 or (p.returncode and steps):
            yield "trace", f"{name} with {steps} whole steps cannot be read: {said.replace(f.name, name)}"
        if not told and (p.returncode or said):
            yield "lost", f"exit code 0, no message, and {name} is not whole: {said.replace(f.name, name)}"

    def history(self, out, told):
        now = out.files.get("state/logitspec/history")
        if now is None:
            yield "history", "is gone"
            return
        try:
            lines = [json.loads(x)[0] for x in now.decode().splitlines()]
        except ValueError:
            yield "history", "holds a line that is no JSON"
            return
        if lines[:2] != ["an older prompt", "another"]:
            yield "history", f"the older prompts are gone: {lines}"
        if not told and self.case.name != "chat-script" and "Retrieval" not in lines:
            yield "history", "the new prompt is not in it, and nothing was said"


# ---- choosing and counting

def plan(judges, rng, rounds):
    """Failures of every case, kind and errno: the first call, the last, and random ones, round by round."""
    spaces = []
    for judge in judges:
        counts = judge.whole.counts
        for kind, ways in FAILURES.items():
            if counts[kind]:
                spaces += [(judge, kind, error, times, counts[kind]) for error, times in ways]
        spaces += [(judge, kind, 0, 1, 0) for kind in HARDSHIPS]
    for r in range(rounds):
        rng.shuffle(spaces)
        for judge, kind, error, times, count in spaces:
            if kind in HARDSHIPS:
                low, high = HARDSHIPS[kind]
                yield judge, Failure(kind, 0, 1, round(high * rng.random() ** 3) if kind == "size" else rng.randint(low, high))
                continue
            low = 1 if kind != "heap" else 1000
            if r > 1 and r - 2 >= count:
                continue
            n = rng.randint(low, max(low, count)) if r == 0 or r > 2 else low if r == 1 else max(low, count)
            yield judge, Failure(kind, error, times, n)


def every(judges, kind):
    """Each call of a kind in turn."""
    for judge in judges:
        for error, times in FAILURES[kind]:
            for n in range(1, judge.whole.counts[kind] + 1):
                yield judge, Failure(kind, error, times, n)


def site_of(torture, out):
    """The functions of the program through which the first failure went, innermost first."""
    at = [hex(x - out.base - 1) for x in out.frames if 0 < x - out.base < 1 << 26]
    if not at:
        return ""
    text = subprocess.run(["addr2line", "-f", "-s", "-e", torture.program, *at], capture_output=True, text=True, check=False).stdout.split("\n")
    names = [f"{f}({p.split(' ')[0]})" for f, p in zip(text[::2], text[1::2]) if f != "??"]
    return " < ".join(names[:7])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--runs", type=int, default=10 ** 9)
    p.add_argument("--only", default="")
    p.add_argument("--case", default="")
    p.add_argument("--kind", default="")
    o = p.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None, prefix="torture-") as folder:
        if o.only:
            return only(Torture(o.build, os.path.join(folder, "t")), o.only)
        report = torture(o.build, os.path.join(folder, "t"), o.seconds, o.seed, o.runs, o.case, o.kind)
    print(report.text())
    return 1 if report.violations or report.problems else 0


def only(t, text):
    name, rest = text.split(" ", 1)
    case = next(c for c in t.cases if c.name == name)
    failure = Failure.read(rest)
    judge = Judge(t, case, t.run(case))
    t.seconds[name] = judge.whole.seconds
    out = t.run(case, failure, keep=True)
    print(f"calls without a failure: { {k: v for k, v in judge.whole.counts.items() if v} }")
    print(f"exit code {out.code}; {out.failed} calls failed, the first in {site_of(t, out)}")
    print(f"--- standard output\n{out.stdout.decode('utf-8', 'replace')[-2000:]}--- standard error\n{out.stderr.decode('utf-8', 'replace')[-4000:]}---")
    for name, data in sorted(out.files.items()):
        print(f"{name}: {len(data)} bytes, as before: {data == judge.whole.files.get(name)}")
    wrong = list(judge.violations(failure, out))
    for kind, what in wrong:
        print(f"VIOLATION {kind}: {what}")
    return 1 if wrong else 0


class Report:
    def __init__(self):
        self.runs = collections.Counter()  # (command, kind)
        self.hit = collections.Counter()
        self.violations = []  # (case, failure, kind, what, site)
        self.problems = []    # without which the rest means nothing
        self.seconds = 0.0

    def text(self):
        commands = sorted({c for c, _ in self.runs})
        kinds = [k for k in (*KINDS, *HARDSHIPS) if any(self.runs[c, k] for c in commands)]
        bad = collections.Counter((c.command, f.kind) for c, f, *_ in self.violations)
        lines = [f"{'':9}" + "".join(f"{k:>11}" for k in kinds)]
        for c in commands:
            lines.append(f"{c:9}" + "".join(f"{(str(self.hit[c, k]) + ('!' + str(bad[c, k]) if bad[c, k] else '')) if self.runs[c, k] else '':>11}" for k in kinds))
        lines.append(f"{sum(self.runs.values())} runs, {sum(self.hit.values())} with a failure in them, {len(self.violations)} violations, {self.seconds:.0f} s")
        groups = collections.defaultdict(list)
        for case, failure, kind, what, site in self.violations:
            groups[kind, re.sub(r"[0-9]+", "N", what)[-90:], failure.kind, site.split(" < ")[0]].append((case, failure, what, site))
        for (kind, _, fails, _), found in sorted(groups.items(), key=lambda x: -len(x[1])):
            case, failure, what, site = found[0]
            names = sorted({c.name for c, *_ in found})
            lines.append(f"\n{kind} ({len(found)} times; {', '.join(names[:6])}): {fails} fails: {what}")
            if site:
                lines.append(f"  in {site}")
            lines.append(f"  make torture ONLY='{case.name} {failure}'")
        return "\n".join(self.problems + lines)


def torture(build, folder, seconds, seed, runs=10 ** 9, case_word="", kind_word="", rounds=10 ** 4, each=None):
    """`each`: pairs of a case and a kind, of which every call is to fail in turn, and no others."""
    start = time.monotonic()
    t = Torture(build, folder)
    report = Report()
    missing = t.commands() - {c.command for c in t.cases}
    if missing:
        report.problems.append(f"commands without a case: {', '.join(sorted(missing))}")
    names = {name for name, _ in each or ()}
    chosen = [c for c in t.cases if (c.name in names if each else case_word in c.name)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        judges = [Judge(t, case, whole) for case, whole in zip(chosen, pool.map(t.run, chosen))]
    t.seconds = {j.case.name: j.whole.seconds for j in judges}
    for judge in judges:
        wrong = list(judge.violations(Failure("none", 0, 1, 0), judge.whole))
        if wrong or judge.whole.code != judge.case.code:
            report.problems.append(f"{judge.case.name} is not right without a failure: exit code {judge.whole.code}: {wrong} "
                                   f"{judge.whole.stderr.decode('utf-8', 'replace')[-300:]}")
    if each:
        todo = itertools.chain(*(every([j for j in judges if j.case.name == name], kind) for name, kind in each))
    else:
        todo = ((j, f) for j, f in plan(judges, random.Random(seed), rounds) if kind_word in f.kind)

    def one(item):
        judge, failure = item
        out = t.run(judge.case, failure)
        found = [(judge.case, failure, kind, what, site_of(t, out)) for kind, what in judge.violations(failure, out)] if out.failed else []
        return judge.case, failure, out.failed, found

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = set()
        while True:
            while len(waiting) < AT_ONCE and runs and time.monotonic() - start < seconds and (item := next(todo, None)):
                waiting.add(pool.submit(one, item))
                runs -= 1
            if not waiting:
                break
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for d in done:
                case, failure, failed, found = d.result()
                report.runs[case.command, failure.kind] += 1
                report.hit[case.command, failure.kind] += bool(failed)
                report.violations += found
    report.seconds = time.monotonic() - start
    return report


if __name__ == "__main__":
    sys.exit(main())
