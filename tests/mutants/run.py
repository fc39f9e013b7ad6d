#!/usr/bin/env python3
"""Puts the mistakes of tests/mutants/list.txt into a scratch copy of the sources, one at a time, and says which of them
the unit tests see.

Usage: tests/mutants/run.py [--list | --check] [--shard I/N] [NAME...]

--list   the names and what each breaks     --check  only: does every entry apply
--shard  the I-th of N parts of the list    NAME     these entries only

Exit: 0 all caught or explained, 1 one survived (or does not build, or is explained but caught), 2 an entry that does
not apply, or tests that fail without any change."""
import argparse
import fcntl
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COPIED = ["Makefile", ".ci", "src", "ui", "tests", "demos", "configs"]  # what the unit tests are built from and read
MEMORY = 4 << 30  # bytes of address space: a mistake may ask for all there is
OF_KERNELS = "test_gpu_kernels"  # its tests are in tests/gpu, and an argument names one


class Wrong(Exception):
    """The list or the sources are not as they should be."""


class Entry:
    def __init__(self, name, line):
        self.name, self.line = name, line
        self.file = self.breaks = self.equivalent = ""
        self.tests, self.old, self.new = [], [], []

    def applied(self, text, where):
        """The file's text with the mistake in it."""
        old = "\n".join(self.old)
        found = text.count(old)
        if found != 1:
            raise Wrong(f"{where}:{self.line}: {self.name}: its old text is in {self.file} "
                        f"{found} times, not once: {self.old[0].strip()}")
        return text.replace(old, "\n".join(self.new))


def read_list(path):
    """The format is described at the head of list.txt."""
    entries, where = [], os.path.relpath(path)
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    for number, line in enumerate(lines, 1):
        heading = re.fullmatch(r"\[([a-z0-9-]+)\]", line)
        field = re.fullmatch(r"(file|breaks|tests|equivalent): (.+)", line)
        if not line or line.startswith("#"):
            continue
        if heading:
            entries.append(Entry(heading[1], number))
        elif not entries:
            raise Wrong(f"{where}:{number}: a line before the first [name]")
        elif field and field[1] == "tests":
            entries[-1].tests = field[2].split()
        elif field:
            setattr(entries[-1], field[1], field[2])
        elif line[0] in "-+" and line[1:2] in ("", " "):
            (entries[-1].old if line[0] == "-" else entries[-1].new).append(line[2:])
        else:
            raise Wrong(f"{where}:{number}: not a line of this format: {line}")
    for e in entries:
        missing = [field for field in ("file", "breaks", "tests", "old") if not getattr(e, field)]
        if missing:
            raise Wrong(f"{where}:{e.line}: {e.name} has no {missing[0]}")
        if e.old == e.new:
            raise Wrong(f"{where}:{e.line}: {e.name} changes nothing")
    names = [e.name for e in entries]
    for e in entries:
        if names.count(e.name) > 1:
            raise Wrong(f"{where}:{e.line}: there are two entries named {e.name}")
    return entries


def check_one(e, root, where):
    path = os.path.join(root, e.file)
    if not os.path.isfile(path):
        raise Wrong(f"{where}:{e.line}: {e.name}: there is no {e.file}")
    e.applied(read(path), where)
    for test in e.tests:
        program, _, name = test.partition("/")
        sources = glob.glob(os.path.join(root, "tests", *(("gpu", "*.c") if program == OF_KERNELS else ("unit", program + ".c"))))
        if not sources:
            raise Wrong(f"{where}:{e.line}: {e.name}: there is no test program {program}")
        if name and not any(re.search(rf"\b{re.escape(name)}\b", read(source)) for source in sources):
            raise Wrong(f"{where}:{e.line}: {e.name}: {program} has no test {name}")


def check(entries, root, where):
    """Every entry applies to the sources as they are, and its tests are there; else all that do not are named."""
    wrong = []
    for e in entries:
        try:
            check_one(e, root, where)
        except Wrong as why:
            wrong.append(str(why))
    if wrong:
        raise Wrong("\nmutants: ".join(wrong))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def files_under(folder, name):
    if os.path.isfile(os.path.join(folder, name)):
        return {name}
    return {os.path.relpath(os.path.join(where, f), folder)
            for where, _, files in os.walk(os.path.join(folder, name)) for f in files if not f.endswith(".pyc")}


def copy_sources(root, scratch):
    """Only what differs is written, so that make builds only what changed since the last run."""
    for name in COPIED:
        wanted, there = files_under(root, name), files_under(scratch, name)
        for path in there - wanted:
            os.remove(os.path.join(scratch, path))
        for path in wanted:
            source, target = os.path.join(root, path), os.path.join(scratch, path)
            with open(source, "rb") as f:
                content = f.read()
            if path in there:
                with open(target, "rb") as f:
                    if f.read() == content:
                        continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as f:
                f.write(content)
            shutil.copymode(source, target)
    models = os.path.join(scratch, "models")
    if not os.path.lexists(models) and os.path.isdir(os.path.join(root, "models")):
        os.symlink(os.path.join(root, "models"), models)


class Tests:
    """The unit tests of the scratch copy."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "LIBTORCH")}
        self.env.update(CMOCKA_TEST_ABORT="1", CUDA_VISIBLE_DEVICES="",  # the first failure is enough
                        XDG_CACHE_HOME=os.path.join(scratch, "build", "cache"))
        self.limit = {}  # seconds that a test may take: ten times what it took without a mistake, and some

    def build(self, programs):
        # warnings are no errors here: a mistake may leave a variable unused
        p = subprocess.run(["make", "WARN=-w", "EXTRA_CFLAGS=-O1 -g0", *(f"build/tests/{name}" for name in programs)],
                           cwd=self.scratch, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace")
        return "" if p.returncode == 0 else p.stdout

    def run(self, test):
        """How the test ended: "" (it passed), else what it said; and how many seconds it took."""
        program, _, name = test.partition("/")
        env = dict(self.env, CMOCKA_FILTER=name) if name else dict(self.env)
        only = [name] if program == OF_KERNELS else []
        if program == "test_heads":  # mistakes are made in C: the compute libraries are those of the build
            env.setdefault("LOGITSPEC_LSTORCH", os.path.join(HERE, "..", "..", "build", "liblstorch.so"))
            env.setdefault("LOGITSPEC_EMULATED", os.path.join(HERE, "..", "..", "build", "tests", "liblstorch_emulated.so"))
        start = time.monotonic()
        try:
            p = subprocess.run([os.path.join("build", "tests", program), *only], cwd=self.scratch, env=env, text=True,
                               errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=self.limit.get(test, 600),
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))
        except subprocess.TimeoutExpired:
            return f"{program} did not end", time.monotonic() - start
        took = time.monotonic() - start
        if p.returncode:
            running = re.findall(r"^\[ RUN      \] (\w+)", p.stdout, re.M)
            place = re.search(r"^\[   LINE   \] --- [^:\n]*?(\w+\.c:\d+)", p.stdout, re.M)
            return f"{place[1] if place else f'exit {p.returncode}'} {running[-1] if running else program}", took
        if not re.search(r"^\[\s+OK \]", p.stdout, re.M):
            return f"{test} runs no test", took
        return "", took


def programs_of(tests):
    return sorted({test.partition("/")[0] for test in tests})


def measure(tests, entries):
    """All tests pass without any mistake."""
    named = sorted({test for e in entries for test in e.tests})
    said = tests.build(programs_of(named))
    if said:
        raise Wrong(f"the copy in {tests.scratch} does not build:\n{said}")
    for test in named:
        said, took = tests.run(test)
        if said:
            raise Wrong(f"without any mistake {test} fails: {said}")
        tests.limit[test] = 20 + 10 * took


def try_entry(tests, e, root, where):
    """The verdict, and what there is to say about it."""
    original = read(os.path.join(root, e.file))
    target = os.path.join(tests.scratch, e.file)
    write(target, e.applied(original, where))
    try:
        for test in e.tests:
            said = tests.build(programs_of([test]))
            if said:
                return "does not build", said
            said, _ = tests.run(test)
            if said:
                return "caught", said
        return "survived", ""
    finally:
        write(target, original)


def run(entries, root, scratch, where):
    os.makedirs(scratch, exist_ok=True)
    with open(os.path.join(scratch, "lock"), "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Wrong(f"another run works in {scratch}; wait for it, or name another folder with --scratch") from None
        start = time.monotonic()
        copy_sources(root, scratch)
        tests = Tests(scratch)
        measure(tests, entries)
        print(f"{len(entries)} mistakes; without any, all tests pass ({time.monotonic() - start:.0f} s)", flush=True)
        counts, slowest = {}, 0
        # one file after another: two mistakes of one file cost one compilation each, not two
        for e in sorted(entries, key=lambda e: e.file):
            began = time.monotonic()
            verdict, said = try_entry(tests, e, root, where)
            if e.equivalent:
                verdict = {"survived": "equivalent", "caught": "caught, though explained"}.get(verdict, verdict)
                said = said or e.equivalent
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict == "survived":
                said = f"{e.file}: {e.breaks}"
            slowest = max(slowest, time.monotonic() - began)
            print(f"{verdict:10} {e.name:32} {time.monotonic() - began:5.1f} s  {said}", flush=True)
        print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())),
              f"({time.monotonic() - start:.0f} s, the slowest {slowest:.1f} s)")
    return 0 if set(counts) <= {"caught", "equivalent"} else 1


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(HERE)), help=argparse.SUPPRESS)
    parser.add_argument("--entries", default=os.path.join(HERE, "list.txt"), help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help="where the copy is built; build/mutants")
    o = parser.parse_args(arguments)
    shard = re.fullmatch(r"([0-9]+)/([0-9]+)", o.shard)
    if not shard or not 1 <= int(shard[1]) <= int(shard[2]):
        parser.error(f"--shard is '{o.shard}', expected I/N with I from 1 to N")
    where = os.path.relpath(o.entries)
    try:
        entries = read_list(o.entries)
        unknown = set(o.names) - {e.name for e in entries}
        if unknown:
            raise Wrong(f"{where}: no entry is named {', '.join(sorted(unknown))}")
        if not o.list:
            check(entries, o.root, where)
        if o.names:
            entries = [e for e in entries if e.name in o.names]
        entries = entries[int(shard[1]) - 1::int(shard[2])]
        if o.list:
            for e in entries:
                print(f"{e.name:32} {e.file}: {e.breaks}{' (equivalent)' if e.equivalent else ''}")
        elif o.check:
            print(f"{len(entries)} mistakes apply")
        else:
            return run(entries, o.root, o.scratch or os.path.join(o.root, "build", "mutants"), where)
    except Wrong as e:
        print(f"mutants: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
