"""`make install` gives a program that works from where it lies, and `make uninstall` takes all of it away."""
import gzip
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from program import ENV, HAS_ENGINE, HAS_TORCH, ROOT, without_sanitizers

OUTER = {k: v for k, v in ENV.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


def make(*args):
    return subprocess.run(["make", "-s", "-C", ROOT, *args], capture_output=True, text=True, env=OUTER, stdin=subprocess.DEVNULL, timeout=900)


def files(folder):
    return {os.path.relpath(os.path.join(where, n), folder) for where, _, names in os.walk(folder) for n in names}


@without_sanitizers
class Install(unittest.TestCase):
    def test_installed_it_works_and_can_be_removed(self):
        with tempfile.TemporaryDirectory() as d:
            place = ["PREFIX=/opt/x", "DESTDIR=" + d, "CP=cp -s"]
            os.makedirs(d + "/opt/x/share/man/man1")
            with open(d + "/opt/x/share/man/man1/other.1.gz", "w", encoding="utf-8") as f:
                f.write("somebody else's")
            r = make("install", *place)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            there, root = files(d + "/opt/x"), d + "/opt/x"
            for name in ["bin/logitspec", "share/logitspec/configs/default.yaml", "share/logitspec/models/registry.json",
                         "share/logitspec/demos/traces/copy.jsonl.zst", "share/doc/logitspec/README.md", "share/fish/vendor_completions.d/logitspec.fish",
                         "share/bash-completion/completions/logitspec", "share/zsh/site-functions/_logitspec"]:
                self.assertIn(name, there)
            if os.path.exists(d + "/opt/x/lib/logitspec/libtorch_cpu.so"):  # others' work comes with its licences
                self.assertIn("share/doc/logitspec/licenses/torch/LICENSE", there)
            env = {"PATH": "/usr/bin:/bin", "HOME": d + "/home", "LC_ALL": "C.UTF-8"}

            def run(*args):
                return subprocess.run([root + "/bin/logitspec", *args], capture_output=True, text=True, env=env, cwd="/", stdin=subprocess.DEVNULL)
            pages = re.findall(r"^  (\w+) ", run("help").stdout.split("these pages:")[1], re.M)
            manual = [n for n in there if n.endswith(".gz") and "logitspec" in n]
            self.assertEqual(len(manual), len(pages) + 1)
            for name in manual:
                page = os.path.basename(name).split(".")[0].partition("-")[2]
                with gzip.open(os.path.join(root, name), "rt", encoding="utf-8") as f:
                    self.assertEqual(f.read(), run("help", *filter(None, [page]), "--as", "man").stdout, name)
            self.assertIn(root + "/share/logitspec/configs/default.yaml", run("config", "show").stdout)
            self.assertIn("copy ", run("demo").stdout)
            if HAS_TORCH:
                library = root + "/lib/logitspec/liblstorch.so"
                dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
                self.assertEqual(re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", dynamic), ["$ORIGIN"])  # and no folder of this machine
                self.assertIn(", libtorch ", run("--version").stdout.splitlines()[1])
            if HAS_ENGINE:
                r = run("generate", "--prompt", "Hi", "--max-tokens", "3", "--max-rows", "2", "-q")
                self.assertTrue(r.returncode == 0 and r.stdout.strip(), r.stderr)
            self.assertEqual(make("uninstall", *place).returncode, 0)
            self.assertEqual(files(root), {"share/man/man1/other.1.gz"})
            shutil.rmtree(d + "/opt")


if __name__ == "__main__":
    unittest.main()
