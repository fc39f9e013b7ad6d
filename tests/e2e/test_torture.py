"""A short part of `make torture`: in every command some calls fail, always the same ones."""
import os
import platform
import sys
import tempfile
import unittest

from program import BUILD, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "torture"))
import torture  # noqa: E402


@unittest.skipUnless(os.path.exists(os.path.join(BUILD, "tests", "inject.so")) and platform.machine() == "x86_64",
                     "needs:a build without sanitizers, on x86-64")
class Torture(unittest.TestCase):
    def test_what_once_was_hidden_or_called_something_else(self):
        each = [("inspect-step", "seek"), ("inspect", "descriptor"), ("corpus-build", "list"), ("models-list", "list"), ("models-verify", "list"),
                ("chat-script", "thread"), ("models-verify", "open"), ("chat-screen", "stat"), ("demo-list", "open"), ("config", "stat")]
        with tempfile.TemporaryDirectory() as d:
            report = torture.torture(BUILD, os.path.join(d, "t"), seconds=60, seed=1, each=each)
        self.assertFalse(report.problems, report.text())
        self.assertEqual(report.violations, [], report.text())
        for name, kind in each:
            self.assertGreater(report.hit[name.split("-")[0], kind], 0)

    def test_calls_that_fail_leave_nothing_half_done(self):
        with tempfile.TemporaryDirectory() as d:
            report = torture.torture(BUILD, os.path.join(d, "t"), seconds=120, seed=1, runs=250)
        self.assertFalse(report.problems, report.text())
        self.assertEqual(report.violations, [], report.text())
        self.assertGreater(sum(report.hit.values()), 30)


if __name__ == "__main__":
    unittest.main()
