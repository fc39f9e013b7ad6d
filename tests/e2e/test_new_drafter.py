"""A drafter is added as src/README.md says: one file and one line; then it is a method like the others."""
import os
import shutil
import subprocess
import tempfile
import unittest

from program import ROOT

DRAFTER = """
// Drafts the root once more.
#include "spec/drafter.h"

static void again_grow(ls_drafter *d, const ls_draft_state *s, ls_growth *g) {
    (void)d;
    ls_grow_chain(g, &s->root, 1, 1, (ls_branch){.rank = -1, .match_pos = -1, .found = 1});
}
const ls_method ls_method_again = {.name = "again",
                                   .summary = "the root once more",
                                   .source = "a test",
                                   .rows = 2,
                                   .drafter = &(const ls_drafter){.size = sizeof(ls_drafter), .grow = again_grow}};
"""


class NewDrafter(unittest.TestCase):
    def test_one_file_and_one_line(self):
        with tempfile.TemporaryDirectory() as d:
            for name in ("Makefile", ".ci", "src", "demos"):
                path = os.path.join(ROOT, name)
                copy = shutil.copytree if os.path.isdir(path) else shutil.copy
                copy(path, os.path.join(d, name))
            with open(os.path.join(d, "src/spec/draft_again.c"), "w") as f:
                f.write(DRAFTER)
            with open(os.path.join(d, "src/spec/methods.def"), "a") as f:
                f.write('METHOD("again", ls_method_again)\n')
            # the toy engine of demos/ decodes with it, and its text is plain decoding's
            demo = os.path.join(d, "demos/embed.c")
            with open(demo) as f:
                text = f.read()
            self.assertIn('ls_method_find("logitspec")', text)
            with open(demo, "w") as f:
                f.write(text.replace('ls_method_find("logitspec")', 'ls_method_find("again")'))
            environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "SAN")}
            built = subprocess.run(["make", "embed"], cwd=d, env=environment, capture_output=True, text=True)
            self.assertEqual(built.returncode, 0, built.stderr)
            ran = subprocess.run([os.path.join(d, "build/embed")], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertRegex(ran.stdout, r"tokens in \d+ steps: MAT [\d.]+; 0 differ from plain decoding")


if __name__ == "__main__":
    unittest.main()
