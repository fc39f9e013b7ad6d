#!/usr/bin/env python3
"""Runs every test and counts them: unit tests (cmocka programs in BUILD/tests) and end-to-end tests (tests/e2e).

Usage: tests/run.py BUILD [PATTERN...] [--without-model] [--valgrind] [--sees NAME,...]. A PATTERN selects the programs whose name holds it.
--without-model leaves out what decodes with the real model, for builds that are too slow for it; --valgrind runs unit tests
under it, and nothing else; --sees makes those mistakes of tools/planted.c first, which must be reported. The last line is `N passed, N failed, N skipped`; a skipped test says why. Every report of a
sanitizer or of valgrind counts as a failure, be it of a program whose exit code nobody reads.
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
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Count:
    passed = failed = skipped = 0


class Reports:
    """What sanitizers and valgrind found, in any process of a test: each process that they complain about has a file."""
    folder = ""

    @classmethod
    def expect(cls, build):
        cls.folder = tempfile.mkdtemp(prefix="reports-", dir=os.path.abspath(build))  # two runs may share a build
        atexit.register(shutil.rmtree, cls.folder, ignore_errors=True)
        tools = os.path.join(HERE, "tools")
        common = f"log_path={cls.folder}/report:print_stacktrace=1"
        # thread-local memory of libraries is not followed: how ASan guesses where glibc keeps it reads a wrong block with
        # libtorch's, and its search for leaks crashes
        os.environ["ASAN_OPTIONS"] = common + ":detect_stack_use_after_return=1:strict_string_checks=1:intercept_tls_get_addr=0"
        os.environ["UBSAN_OPTIONS"] = common
        os.environ["LSAN_OPTIONS"] = f"suppressions={tools}/lsan.txt:print_suppressions=0"
        os.environ["TSAN_OPTIONS"] = f"{common}:suppressions={tools}/tsan.txt:second_deadlock_stack=1"

    @classmethod
    def texts(cls):
        """Those since the last call."""
        for path in sorted(glob.glob(cls.folder + "/*")):
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
            os.remove(path)
            # not a finding: the emulated GPU's threads are contexts
            text = re.sub(r"^==\d+==WARNING: ASan doesn't fully support makecontext.*\n", "", text, flags=re.M).strip()
            if text:  # valgrind makes the file before it has anything to say
                yield text

    @classmethod
    def found(cls):
        """How many there are since the last call; prints them."""
        n = 0
        for n, text in enumerate(cls.texts(), 1):
            print(text, flush=True)
        return n


# mistakes of tools/planted.c: what must be said of each, by whatever checks here; "": nothing
PLANTED = {"race": r"data race .* in add\b", "omp-race": r"data race .* in omp_race\b", "omp-barrier": "", "use-after-free": r"heap-use-after-free|Invalid read",
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


def run_unit(program, under=()):
    name = os.path.basename(program)
    start = time.monotonic()
    env = dict(os.environ, GOMP_SPINCOUNT="2000",
               XDG_CACHE_HOME=os.path.join(os.path.dirname(os.path.abspath(program)), "cache"))
    p = subprocess.run([*under, program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                       cwd=os.path.dirname(HERE), text=True, errors="replace")
    passed = len(re.findall(r"^\[\s+OK \]", p.stdout, re.M))
    # the names are listed as the tests run and again at the end
    failed = len(set(re.findall(r"^\[  FAILED  \] ([A-Za-z_]\w*)", p.stdout, re.M)))
    skipped = len(set(re.findall(r"^\[  SKIPPED \] ([A-Za-z_]\w*)", p.stdout, re.M)))
    reports = Reports.found()
    if p.returncode and not failed:  # a crash, or a sanitizer's report
        failed = 1
    failed = max(failed, reports)
    print(f"{name:24} {passed} passed, {failed} failed, {skipped} skipped  ({time.monotonic() - start:.1f} s)", flush=True)
    if failed:
        print(p.stdout, flush=True)
    for line in sorted(set(re.findall(r"needs:.*", p.stdout))):
        print(f"  skipped: {line}", flush=True)
    Count.passed += passed
    Count.failed += failed
    Count.skipped += skipped


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

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        Count.skipped += 1

    def stopTest(self, test):
        super().stopTest(test)
        Count.failed += Reports.found()


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--without-model", action="store_true")
    parser.add_argument("--valgrind", action="store_true")
    parser.add_argument("--sees", default="")
    args = parser.parse_intermixed_args()
    build, patterns = args.build, args.patterns or [""]
    Reports.expect(build)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that ran this with & ignores it, and so would all tests
    if args.without_model:
        os.environ["LOGITSPEC_TEST_WITHOUT_MODEL"] = "1"
    under = ["valgrind", "--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect", "--error-exitcode=99",
             "--show-leak-kinds=definite,indirect", "--num-callers=30",
             f"--log-file={Reports.folder}/report.%p"] if args.valgrind else []
    os.environ["LOGITSPEC_BUILD"] = os.path.abspath(build)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # what runs here is the CPU, and a GPU that is emulated
    compute = os.path.join(os.path.abspath(build), "liblstorch.so")
    if os.path.exists(compute):
        os.environ["LOGITSPEC_LSTORCH"] = compute
    # one of another build would be no test of this one: tests say that it is missing
    os.environ["LOGITSPEC_EMULATED"] = os.path.join(os.path.abspath(build), "tests", "liblstorch_emulated.so")
    for name in filter(None, args.sees.split(",")):
        run_planted(build, name, under)
    for program in sorted(glob.glob(os.path.join(build, "tests", "test_*"))):
        if any(p in os.path.basename(program) for p in patterns):
            run_unit(os.path.abspath(program), under)
    loader = unittest.TestLoader()
    sys.path.insert(0, os.path.join(HERE, "e2e"))
    for path in [] if args.valgrind else sorted(glob.glob(os.path.join(HERE, "e2e", "test_*.py"))):
        name = os.path.basename(path)[:-3]
        if any(p in name for p in patterns):
            unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(
                loader.loadTestsFromName(name))
    Count.failed += Reports.found()  # of processes that outlived their test
    print(f"{Count.passed} passed, {Count.failed} failed, {Count.skipped} skipped")
    return 1 if Count.failed or not Count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
