#!/usr/bin/env python3
"""Runs every test and counts them: unit tests (cmocka programs in BUILD/tests) and end-to-end tests (tests/e2e).

Usage: tests/run.py BUILD [PATTERN]. The last line is `N passed, N failed, N skipped`; a skipped test says why.
"""
import glob
import os
import re
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Count:
    passed = failed = skipped = 0


def run_unit(program):
    name = os.path.basename(program)
    start = time.monotonic()
    env = dict(os.environ, UBSAN_OPTIONS="print_stacktrace=1", GOMP_SPINCOUNT="2000",
               XDG_CACHE_HOME=os.path.join(os.path.dirname(os.path.abspath(program)), "cache"))
    p = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                       cwd=os.path.dirname(HERE), text=True, errors="replace")
    passed = len(re.findall(r"^\[\s+OK \]", p.stdout, re.M))
    # the names are listed as the tests run and again at the end
    failed = len(set(re.findall(r"^\[  FAILED  \] ([A-Za-z_]\w*)", p.stdout, re.M)))
    skipped = len(set(re.findall(r"^\[  SKIPPED \] ([A-Za-z_]\w*)", p.stdout, re.M)))
    if p.returncode and not failed:  # a crash, or a sanitizer's report
        failed = 1
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


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    os.environ["LOGITSPEC_BUILD"] = os.path.abspath(build)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # what runs here is the CPU, and a GPU that is emulated
    compute = os.path.join(os.path.dirname(HERE), "build", "liblstorch.so")  # the sanitizer build uses it too
    if os.path.exists(compute):
        os.environ["LOGITSPEC_LSTORCH"] = compute
    for program in sorted(glob.glob(os.path.join(build, "tests", "test_*"))):
        if pattern in os.path.basename(program):
            run_unit(os.path.abspath(program))
    loader = unittest.TestLoader()
    sys.path.insert(0, os.path.join(HERE, "e2e"))
    for path in sorted(glob.glob(os.path.join(HERE, "e2e", "test_*.py"))):
        name = os.path.basename(path)[:-3]
        if pattern in name:
            unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(
                loader.loadTestsFromName(name))
    print(f"{Count.passed} passed, {Count.failed} failed, {Count.skipped} skipped")
    return 1 if Count.failed or not Count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
