"""What `make mutants` says of a mistake, on a project of one file, whose test is a script; and that its list can be read."""
import os
import subprocess
import sys
import tempfile
import unittest

from program import ROOT

RUN = os.path.join(ROOT, "tests", "mutants", "run.py")

MAKEFILE = """build/tests/test_toy: src/toy.sh tests/unit/test_toy.c
\t@mkdir -p build/tests
\t@! grep BROKEN src/toy.sh
\t@cp src/toy.sh $@ && chmod +x $@
"""
TOY = """#!/bin/sh
echo '[ RUN      ] adds'
# twice twice
test $((1 + 1)) = 2 || { echo '[   LINE   ] --- tests/unit/test_toy.c:3: error: Failure!'; exit 1; }
echo '[       OK ] adds'
"""


def entry(name, old, new, *more):
    return "\n".join([f"[{name}]", "file: src/toy.sh", f"breaks: {name} breaks", "tests: test_toy", *more, f"- {old}", f"+ {new}", ""])


CAUGHT = entry("caught", "1 + 1", "1 + 2")
SURVIVES = entry("survives", "# twice twice", "# thrice")
SAME = entry("same", "$((1 + 1))", "$((2 + 0))", "equivalent: two is two")


def mutants(*args):
    return subprocess.run([sys.executable, RUN, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)


class List(unittest.TestCase):
    def test_shards_are_the_whole_list(self):
        whole = mutants("--list").stdout.splitlines()
        parts = [line for i in "123" for line in mutants("--list", "--shard", f"{i}/3").stdout.splitlines()]
        self.assertEqual(sorted(parts), sorted(whole))
        self.assertEqual(mutants("--list", "--shard", "4/3").returncode, 2)


class Verdicts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for path, text in (("Makefile", MAKEFILE), ("src/toy.sh", TOY), ("tests/unit/test_toy.c", "adds\n")):
            self.put(path, text)

    def put(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def run_list(self, *entries):
        self.put("list.txt", "# a remark\n\n" + "\n".join(entries))
        p = mutants("--root", self.root, "--entries", os.path.join(self.root, "list.txt"))
        with open(os.path.join(self.root, "src", "toy.sh"), encoding="utf-8") as f:
            self.toy = f.read()
        return p

    def test_what_is_caught_or_explained_is_well(self):
        p = self.run_list(CAUGHT, SAME)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertRegex(p.stdout, r"caught +caught .*test_toy.c:3 adds")
        self.assertRegex(p.stdout, r"equivalent +same .*two is two")
        self.assertIn("1 caught, 1 equivalent", p.stdout)
        self.assertEqual(self.toy, TOY)  # the sources themselves are not touched

    def test_what_survives_fails(self):
        p = self.run_list(CAUGHT, SURVIVES)
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
        self.assertRegex(p.stdout, r"survived +survives .*src/toy.sh: survives breaks")

    def test_an_explanation_that_is_wrong_fails(self):
        p = self.run_list(CAUGHT + "equivalent: nobody adds\n")
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
        self.assertIn("caught, though explained", p.stdout)

    def test_what_does_not_build_fails(self):
        p = self.run_list(entry("broken", "1 + 1", "BROKEN"), CAUGHT)
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
        self.assertRegex(p.stdout, r"does not build broken")
        self.assertRegex(p.stdout, r"caught +caught")

    def test_what_does_not_apply_is_named(self):
        for old, times in (("1 + 3", 0), ("twice", 2)):
            p = self.run_list(CAUGHT, entry("moved", old, "x"))
            self.assertEqual(p.returncode, 2, p.stdout + p.stderr)
            self.assertRegex(p.stderr, rf"list.txt:\d+: moved: its old text is in src/toy.sh {times} times, not once: {old[0]}")

    def test_lists_that_are_wrong_are_refused(self):
        for text, what in ((CAUGHT + CAUGHT, "two entries named caught"), ("file: x\n", "before the first"),
                           (CAUGHT.replace("tests: test_toy\n", ""), "caught has no tests"),
                           (CAUGHT.replace("test_toy", "test_other"), "no test program test_other"),
                           (CAUGHT.replace("test_toy", "test_toy/other"), "test_toy has no test other"),
                           (CAUGHT.replace("toy.sh", "other.sh"), "there is no src/other.sh"),
                           (CAUGHT.replace("+ 1 + 2", "+ 1 + 1"), "caught changes nothing"),
                           (CAUGHT.replace("breaks:", "brakes:"), "not a line of this format: brakes")):
            p = self.run_list(text)
            self.assertEqual(p.returncode, 2, text)
            self.assertIn(what, p.stderr)

    def test_tests_that_fail_anyway_say_nothing_of_mistakes(self):
        self.assertEqual(self.run_list(CAUGHT).returncode, 0)
        self.put("src/toy.sh", TOY.replace("= 2", "= 3"))  # the copy of the run before is brought up to date
        p = self.run_list(CAUGHT)
        self.assertEqual(p.returncode, 2, p.stdout + p.stderr)
        self.assertIn("without any mistake test_toy fails", p.stderr)
