"""64-bit Arm, by a cross compiler and under qemu-user: the kernels at every level of NEON, and (make check-aarch64, which builds the
compute library for that machine) whole answers beside those of this machine."""
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from program import ENV, PROGRAM, ROOT, without_sanitizers

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import folders  # noqa: E402

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
LIBRARIES = ("libcmocka.so", "libjansson.so")
MISSING = [name for name in (COMPILER, EMULATOR) if not shutil.which(name)]
MISSING += [f"{name} of arm64" for name in LIBRARIES if not os.path.exists(os.path.join("/usr/lib/aarch64-linux-gnu", name))]
ARM = os.path.join(ROOT, os.environ.get("LOGITSPEC_AARCH64", "build/aarch64"))
# of the kernels' tests, what takes half the time and has most of the instructions, and all where one asked for all
MOST = "*" if "LOGITSPEC_AARCH64" in os.environ else "matmul_*"
# qemu shows the /proc/cpuinfo of the machine below, from which libtorch wants to learn which Arm this is
CPUINFO = "".join(f"processor\t: {i}\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n"
                  "CPU revision\t: 1\n\n" for i in range(2))
# by processor, the levels that it has: all; dot products (Graviton 2); neither (Raspberry Pi 4)
PROCESSORS = {"max": ["neoni8mm", "neondot", "neon", "portable"], "neoverse-n1": ["neondot", "neon", "portable"],
              "cortex-a72": ["neon", "portable"]}


def emulated(*command, cpu="max", prefix="/nonexistent", timeout=1200, **env):
    return subprocess.run([EMULATOR, "-cpu", cpu, "-L", prefix, *command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout, env={**ENV, "GOMP_SPINCOUNT": "0", **env}, check=False)


@unittest.skipIf(platform.machine() == "aarch64", "needs:another processor than Arm (here all tests are of Arm)")
@unittest.skipIf(MISSING, f"needs:{', '.join(MISSING)} (make check-aarch64 installs them)")
@without_sanitizers
class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = os.path.join(ROOT, "build", "aarch64", "tests", "kernels")
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        r = subprocess.run(["make", "-s", f"CC={COMPILER}", os.path.relpath(cls.program, ROOT)], cwd=ROOT, env=env, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert r.returncode == 0, r.stdout

    def check(self, cpu, **env):
        r = emulated(self.program, cpu=cpu, **env)
        said = r.stdout + r.stderr
        self.assertEqual(r.returncode, 0, said)
        self.assertNotIn("FAILED", said)
        return said

    def test_every_level_is_right(self):
        said = self.check("max", CMOCKA_FILTER=MOST)
        self.assertEqual(re.findall(r"^level (\w+)", said, re.M), PROCESSORS["max"])
        self.assertIn("       OK ]", said)

    def test_a_processor_takes_only_what_it_has(self):
        for cpu, levels in PROCESSORS.items():
            said = self.check(cpu, CMOCKA_FILTER="integers_*")
            self.assertEqual(re.findall(r"^the same: (\w+)", said, re.M), levels, cpu)


@unittest.skipUnless("LOGITSPEC_AARCH64" in os.environ, "needs:make check-aarch64")
class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.prefix, cls.model = os.path.join(cls.tmp.name, "root"), os.path.join(cls.tmp.name, "model")
        os.makedirs(os.path.join(cls.prefix, "proc"))
        with open(os.path.join(cls.prefix, "proc", "cpuinfo"), "w", encoding="ascii") as f:
            f.write(CPUINFO)
        folders.write(cls.model, num_attention_heads=2, num_key_value_heads=1)  # heads of 32: integers take them

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def arm(self, *args, **kw):
        return emulated(os.path.join(ARM, "logitspec"), *args, prefix=self.prefix, **kw)

    def test_doctor_names_the_level(self):
        for cpu, levels in PROCESSORS.items():
            r = self.arm("doctor", "--json", cpu=cpu)
            checks = {c["check"]: c["detail"] for c in json.loads(r.stdout)}
            self.assertRegex(checks["compute"], rf"^kernels for {levels[0]}$")

    def test_tokens_are_those_of_this_machine(self):
        for dtype in ("i8", "i16", "f32", "bf16"):
            said = []
            for method, budget in (("plain", "1"), ("logitspec", "13")):
                args = ("generate", "--model", self.model, "--raw", "--weights", "q8", "--dtype", dtype, "--threads", "2", "--prompt",
                        "abcabcab", "--max-tokens", "16", "--method", method, "--max-rows", budget, "--json")
                here = subprocess.run([PROGRAM, *args], capture_output=True, text=True, env=ENV, timeout=300, check=False)
                r = self.arm(*args)
                self.assertEqual((here.returncode, r.returncode), (0, 0), here.stderr + r.stderr)
                said += [json.loads(here.stdout)["output_tokens"], json.loads(r.stdout)["output_tokens"]]
            self.assertEqual(said, said[:1] * 4, dtype)

    def test_rows_do_not_depend_on_their_company(self):
        r = emulated(os.path.join(ARM, "tests", "test_lst"), prefix=self.prefix, timeout=3600, CMOCKA_FILTER="*company*")
        said = r.stdout + r.stderr
        self.assertEqual(r.returncode, 0, said)
        for level in PROCESSORS["max"]:
            self.assertIn(f"LOGITSPEC_CPU={level}: checked", said)


if __name__ == "__main__":
    unittest.main()
