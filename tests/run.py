#!/usr/bin/env python3
"""Runs every test and counts them: unit tests (cmocka programs in BUILD/tests) and end-to-end tests (tests/e2e).

Usage: tests/run.py BUILD [PATTERN...] [--jobs N] [--without-model] [--valgrind] [--sees NAME,...]. A PATTERN that is
a unit test's name selects that one, another the programs whose name holds it (end-to-end tests are NAME.py). --jobs: how
many run side by side; each prints what it says when it has ended. --without-model leaves out what decodes with the real
model, for builds that are too slow for it; --valgrind runs unit tests under it, and nothing else; --sees makes those
mistakes of tools/planted.c first, which must be reported. The slowest five are listed; the last line is `N passed, N
failed, N skipped`; a skipped test says why. Every report of a sanitizer or of valgrind counts as a failure, be it of a
program whose exit code nobody reads.
"""
import argparse
import atexit
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Count:
    passed = failed = skipped = 0

    @classmethod
    def add(cls, passed, failed, skipped):
        cls.passed += passed
        cls.failed += failed
        cls.skipped += skipped


class Reports:
    """What sanitizers and valgrind found, in any process of a test: each process that they complain about has a file."""
    folder = ""  # of this process; each unit test has one in it

    @classmethod
    def expect(cls, build):
        cls.folder = tempfile.mkdtemp(prefix="reports-", dir=os.path.abspath(build))  # two runs may share a build
        atexit.register(shutil.rmtree, cls.folder, ignore_errors=True)
        os.environ.update(cls.options(cls.folder))

    @staticmethod
    def options(folder):
        """The environment of programs whose reports go there."""
        tools = os.path.join(HERE, "tools")
        common = f"log_path={folder}/report:print_stacktrace=1"
        # thread-local memory of libraries is not followed: how ASan guesses where glibc keeps it reads a wrong block with
        # libtorch's, and its search for leaks crashes
        return {"ASAN_OPTIONS": common + ":detect_stack_use_after_return=1:strict_string_checks=1:intercept_tls_get_addr=0",
                "UBSAN_OPTIONS": common,
                "LSAN_OPTIONS": f"suppressions={tools}/lsan.txt:print_suppressions=0",
                "TSAN_OPTIONS": f"{common}:suppressions={tools}/tsan.txt:second_deadlock_stack=1"}

    @classmethod
    def texts(cls, folder=None):
        """Those since the last call."""
        for path in sorted(glob.glob((folder or cls.folder) + "/report*")):
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
            os.remove(path)
            # not a finding: the emulated GPU's threads are contexts
            text = re.sub(r"^==\d+==WARNING: ASan doesn't fully support makecontext.*\n", "", text, flags=re.M).strip()
            if text:  # valgrind makes the file before it has anything to say
                yield text

    @classmethod
    def found(cls, folder=None):
        """How many there are since the last call; prints them."""
        n = 0
        for n, text in enumerate(cls.texts(folder), 1):
            print(text, flush=True)
        return n


# mistakes of tools/planted.c: what must be said of each, by whatever checks here; "": nothing
PLANTED = {"race": r"data race .* in add\b", "use-after-free": r"heap-use-after-free|Invalid read",
           "overflow": r"signed integer overflow", "leak": r"1000 byte\(s\) leaked|1,000 bytes in 1 blocks are definitely lost",
           "uninitialised": r"depends on uninitialised"}


def run_planted(build, name, under):
    p = subprocess.run([*under, os.path.join(os.path.abspath(build), "tests", "planted"), name], capture_output=True, text=True,
                       check=False)
    said = "\n".join(Reports.texts())
    seen = bool(re.search(PLANTED[name], said, re.I)) if PLANTED[name] else not said and not p.returncode
    print(f"planted {name:16} {'as it should be' if seen else 'NOT as it should be: ' + (said or p.stderr or 'no report')}", flush=True)
    Count.passed += seen
    Count.failed += not seen


class Job:
    """A test program: a unit test, or the end-to-end tests of a file in a Python of its own."""
    # Those that take longest begin first, so that none of them is left over at the end.
    LONG = ("test_ranks.py", "test_gpu_ranks.py", "test_engine", "test_hostile.py", "test_models", "test_limits.py", "test_gpu_kernels", "test_gpu.py", "test_extremes.py",
            "test_ranks", "test_bench.py", "test_draft_model.py", "test_lst", "test_cli.py", "test_exactness.py")
    # Of these only one runs at a time: each takes more than a gigabyte, or measures how much memory is taken.
    HUNGRY = ("test_extremes.py", "test_hostile.py", "test_memory.py", "test_limits.py", "test_soak.py")
    # These wait more than they compute, for a screen or for limits to pass: one of them runs beside the others.
    WAITING = ("test_ranks.py", "test_gpu_ranks.py", "test_screen.py", "test_script.py", "test_demo.py", "test_outputs.py", "test_models.py",
               "test_serve.py", "test_serve_turns.py")

    def __init__(self, path, command, **env):
        self.name, self.command, self.env, self.said, self.code, self.wall, self.processor = os.path.basename(path), command, env, "", 0, 0, 0

    def run(self):
        start = time.monotonic()
        with tempfile.TemporaryFile() as out, subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=dict(os.environ, **self.env),
                cwd=os.path.dirname(HERE)) as p:
            _, status, used = os.wait4(p.pid, 0)
            self.code = p.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            self.said = out.read().decode(errors="replace")
        self.wall, self.processor = time.monotonic() - start, used.ru_utime + used.ru_stime

    def times(self):
        return f"({self.wall:.1f} s, {self.processor:.1f} s of processor time)"


class Unit(Job):
    def __init__(self, program, under=()):
        self.reports = os.path.join(Reports.folder, os.path.basename(program))
        os.mkdir(self.reports)
        super().__init__(program, [x.replace("REPORTS", self.reports) for x in under] + [program], GOMP_SPINCOUNT="2000",
                         XDG_CACHE_HOME=os.path.join(os.path.dirname(program), "cache"),
                         XDG_STATE_HOME=os.path.join(os.path.dirname(program), "state"), **Reports.options(self.reports))

    def count(self):
        passed = len(re.findall(r"^\[\s+OK \]", self.said, re.M))
        # the names are listed as the tests run and again at the end
        failed = len(set(re.findall(r"^\[  FAILED  \] ([A-Za-z_]\w*)", self.said, re.M)))
        skipped = len(set(re.findall(r"^\[  SKIPPED \] ([A-Za-z_]\w*)", self.said, re.M)))
        if self.code and not failed:  # a crash, or a sanitizer's report
            failed = 1
        failed = max(failed, Reports.found(self.reports))
        print(f"{self.name:24} {passed} passed, {failed} failed, {skipped} skipped  {self.times()}")
        if failed:
            print(self.said)
        for line in sorted(set(re.findall(r"needs:.*", self.said))):
            print(f"  skipped: {line}")
        Count.add(passed, failed, skipped)


class EndToEnd(Job):
    def __init__(self, path, build):
        super().__init__(path, [sys.executable, os.path.abspath(__file__), build, "--only", os.path.basename(path)[:-3]])

    def count(self):
        text, _, last = self.said.rstrip().rpartition("\n")
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", last)
        print(f"{text if counts else self.said}\n{self.name:24} {last if counts else 'crashed'}  {self.times()}")
        Count.add(*map(int, counts.groups()) if counts else (0, 1, 0))


def run_all(jobs, workers):
    """Side by side; what each said is printed as a whole when it has ended."""
    left = sorted(jobs, key=lambda j: Job.LONG.index(j.name) if j.name in Job.LONG else len(Job.LONG))
    # (re-entrant for the sake of Ctrl-C, which may come anywhere)
    turn, hungry = threading.Condition(threading.RLock()), []

    def work(waiting):
        while True:
            with turn:
                while True:
                    mine = [j for j in left if (j.name in Job.WAITING) == waiting]
                    able = [j for j in mine if not (hungry and j.name in Job.HUNGRY)]
                    if able or not mine:
                        break
                    turn.wait()
                if not mine:
                    return
                job = able[0]
                left.remove(job)
                if job.name in Job.HUNGRY:
                    hungry.append(job)
            try:
                job.run()
            except OSError as e:  # else its thread would end without a word, and the test with it
                job.said, job.code = str(e), 1
            with turn:
                if job in hungry:
                    hungry.remove(job)
                job.count()
                sys.stdout.flush()
                turn.notify_all()

    threads = [threading.Thread(target=work, args=(i == workers,), daemon=True) for i in range(workers + 1)]
    for t in threads:
        t.start()
    try:
        for t in threads:
            t.join()
    except KeyboardInterrupt:  # the terminal has sent it to all of them
        with turn:
            left.clear()
        raise
    for j in sorted(jobs, key=lambda j: -j.wall)[:5] if len(jobs) > 5 else []:
        print(f"slowest: {j.name:24} {j.times()}")
    print(f"{len(jobs)} programs, {sum(j.processor for j in jobs):.0f} s of processor time", flush=True)


class Result(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        Count.passed += 1

    def addError(self, test, err):
        super().addError(test, err)
        Count.failed += 1

    def addFailure(self, test, err):
        super().addFailure(test, err)
        Count.failed += 1

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        Count.failed += err is not None  # unittest tells of it nowhere else

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        Count.skipped += 1

    def stopTest(self, test):
        super().stopTest(test)
        Count.failed += Reports.found()


def run_end_to_end(name):
    """The tests of one file, in this process."""
    sys.path.insert(0, os.path.join(HERE, "e2e"))
    unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(unittest.TestLoader().loadTestsFromName(name))


def jobs_of(build, patterns, under):
    programs = sorted(glob.glob(os.path.join(os.path.abspath(build), "tests", "test_*")))
    files = [] if under else sorted(glob.glob(os.path.join(HERE, "e2e", "test_*.py")))
    names = {os.path.basename(p) for p in programs}

    def is_wanted(path):
        name = os.path.basename(path)
        return any(x == name if x in names else x in name for x in patterns)
    return [EndToEnd(p, build) if p.endswith(".py") else Unit(p, under) for p in programs + files if is_wanted(p)]


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--jobs", type=int, default=min(8, max(2, len(os.sched_getaffinity(0)) // 2)))
    parser.add_argument("--only", help="the tests of this file, in this process: how the script runs them")
    parser.add_argument("--without-model", action="store_true")
    parser.add_argument("--valgrind", action="store_true")
    parser.add_argument("--sees", default="")
    args = parser.parse_intermixed_args()
    build = args.build
    Reports.expect(build)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that ran this with & ignores it, and so would all tests
    if args.without_model:
        os.environ["LOGITSPEC_TEST_WITHOUT_MODEL"] = "1"
    under = ["valgrind", "--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect", "--error-exitcode=99",
             "--show-leak-kinds=definite,indirect", "--num-callers=30",
             "--log-file=REPORTS/report.%p"] if args.valgrind else []
    os.environ["LOGITSPEC_BUILD"] = os.path.abspath(build)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # what runs here is the CPU, and a GPU that is emulated
    compute = os.path.join(os.path.abspath(build), "liblstorch.so")
    if os.path.exists(compute):
        os.environ["LOGITSPEC_LSTORCH"] = compute
    # one of another build would be no test of this one: tests say that it is missing
    os.environ["LOGITSPEC_EMULATED"] = os.path.join(os.path.abspath(build), "tests", "liblstorch_emulated.so")
    for name in filter(None, args.sees.split(",")):
        run_planted(build, name, [x.replace("REPORTS", Reports.folder) for x in under])
    if args.only:
        run_end_to_end(args.only)
    else:
        run_all(jobs_of(build, args.patterns or [""], under), args.jobs)
    Count.failed += Reports.found()  # of processes that outlived their test
    print(f"{Count.passed} passed, {Count.failed} failed, {Count.skipped} skipped")
    return 1 if Count.failed or not Count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
