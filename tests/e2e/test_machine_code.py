"""What nvcc made of the GPU kernels keeps the rules of tests/gpu/machine_code.py, and the check sees what breaks them."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

from program import ROOT, without_sanitizers

sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import machine_code  # noqa: E402

NONE = 7  # no scoreboard

# A loop as it should be, of matmul<Q4, 8>: it asks for weights, and then works on those that came long ago.
LOOP = ["DEPBAR.LE SB0, 0x3", "@!PT LDS RZ, [RZ]", "LDGSTS.E.BYPASS.128 [R19], desc[UR10][R16.64]", ("LDGDEPBAR", 0, 0),
        ("LDS.128 R36, [R75]", 1, 0), ("SHF.R.U32.HI R24, RZ, 0x4, R36", NONE, 0b10),
        *["HMMA.16816.F32.BF16 R24, R24, R20, RZ"] * 4, "@!P1 BRA 0x10", "EXIT"]


def mangled(name):
    return f"_ZN4_GPU{len(name.split('I')[0])}{name}"


def sass(code, name, arch):
    """A function as cuobjdump writes it; an instruction is a text, or (text, scoreboard, mask of what it waits for)."""
    out = [f"\tcode for {arch}", f"\t\tFunction : {mangled(name)}",
           "        /*0000*/    NOP ;  /* 0x0000000000007918 */", "    /* 0x000fc00000000000 */"]
    for i, x in enumerate(code, 1):
        text, scoreboard, waits = (x, NONE, 0) if isinstance(x, str) else x
        control = (waits << 11 | NONE << 8 | scoreboard << 5 | 1) << 41
        out += [f"        /*{16 * i:04x}*/    {text} ;  /* 0x0000000000000000 */", f"    /* 0x{control:016x} */"]
    return out


def usage(name, arch, registers=91, stack=0):
    return ["Fatbin elf code:", f"arch = {arch}", f" Function {mangled(name)}:",
            f"  REG:{registers} STACK:{stack} SHARED:1024 LOCAL:0 CONSTANT[0]:600 TEXTURE:0 SURFACE:0 SAMPLER:0"]


def read(code, name="matmulILi2ELi1EE", arch="sm_90", **used):
    function, = machine_code.parse_code(sass(code, name, arch))
    return machine_code.analyze(*function, machine_code.parse_usage(usage(name, arch, **used)))


def problems(*args, **kw):
    return list(machine_code.check_kernel(read(*args, **kw)))


def changed(at, *instead):
    return LOOP[:at] + list(instead) + LOOP[at + 1:]


class Rules(unittest.TestCase):
    def one(self, found, word):
        self.assertEqual(len(found), 1, found)
        self.assertIn(word, found[0])

    def test_who_waits_before_the_next_may_start(self):
        for name, code, wrong in (("embed", ["ACQBULK", "PREEXIT", "EXIT"], 0), ("embed", ["PREEXIT", "ACQBULK", "EXIT"], 1),
                                  ("embed", ["PREEXIT", "EXIT"], 1), ("gate", ["PREEXIT", "ACQBULK", "EXIT"], 0)):
            self.assertEqual(len(problems(code, name=name)), wrong, (name, code))

    def test_a_loop_as_it_should_be(self):
        kernel = read(LOOP)
        self.assertEqual((str(kernel), kernel.arch, kernel.registers, kernel.frame), ("matmul<Q4, 8>", "sm_90", 91, 0))
        loop, = kernel.loops
        self.assertEqual((loop.instructions, loop.hmma, loop.copies, loop.leaves), (11, 4, 1, [3]))
        self.assertEqual(list(machine_code.check_kernel(kernel)), [])

    def test_a_wait_for_all_copies(self):
        self.one(problems(changed(0, "DEPBAR.LE SB0, 0x0")), "waits for every copy")
        self.one(problems(LOOP[:7] + ["DEPBAR.LE SB0, 0x0"] + LOOP[7:]), "waits for every copy")  # one more wait
        self.one(problems(changed(5, ("SHF.R.U32.HI R24, RZ, 0x4, R36", NONE, 0b11))), "scoreboard of all copies (at 0x60)")
        self.one(problems(changed(0, "NOP")), "or for none")
        self.assertEqual(problems(changed(1, "DEPBAR.LE SB5, 0x0")), [])  # not the copies' scoreboard

    def test_weights_by_registers(self):
        self.one(problems(changed(1, ("LDG.E.128 R40, desc[UR10][R16.64]", 2, 0))), "loads global memory to registers in its loop (1 LDG)")
        self.one(problems(changed(1, ("@P2 LD.E.128 R40, [R16.64]", 2, 0))), "loads global memory to registers")
        self.one(problems(changed(2, "NOP")), "no LDGSTS")
        self.assertEqual(problems(LOOP + [("LDG.E R10, desc[UR10][R10.64]", 2, 0)]), [])  # behind the loop

    def test_copies_that_start_late(self):
        late = LOOP[:2] + LOOP[4:8] + LOOP[2:4] + LOOP[8:]
        self.one(problems(late), "behind the first HMMA")

    def test_what_the_loop_computes(self):
        self.one(problems(LOOP[:8] + LOOP[9:]), "has 3 HMMA in its loop, not 4")
        self.one(problems(LOOP[:5] + ["NOP"] * 114 + LOOP[5:]), "has 125 instructions a group in its loop; the plan says 108.1")
        self.assertEqual(problems(LOOP[:5] + ["NOP"] * 113 + LOOP[5:]), [])
        self.assertEqual(problems(LOOP[:5] + ["NOP"] * 114 + LOOP[5:], arch="sm_120"), [])  # nobody has set a ceiling there
        plan = [list(machine_code.check_plan(read(LOOP[:5] + ["NOP"] * n + LOOP[5:]))) for n in (82, 83)]
        self.assertEqual(plan, [["has only 93 instructions a group in its loop; the plan says 108.1"], []])
        self.one(problems([x for x in LOOP if "BRA" not in x]), "0 innermost loops")

    def test_registers_and_memory_of_a_thread(self):
        self.one(problems(LOOP, registers=97), "takes 97 registers; the ceiling is 96")
        self.assertEqual(problems(LOOP, registers=97, arch="sm_120"), [])
        self.one(problems(["EXIT"], "combine", registers=169), "takes 169 registers; the ceiling is 168")
        self.one(problems(["EXIT"], "combine", stack=16), "16 bytes of stack")
        self.one(problems(["STL.64 [R1], R8", "EXIT"], "combine"), "1 LDL and STL")
        self.one(problems(["LDL.LU.64 R8, [R1]", "EXIT"], "combine"), "1 LDL and STL")
        self.assertEqual(problems(["STL.64 [R4], R8", "EXIT"], "begin", stack=40), [])
        self.one(problems(["STL.64 [R4], R8", "EXIT"], "begin", stack=48), "48 bytes of stack, 1 LDL and STL; 40 bytes are allowed")

    def test_shared_atomics_that_are_loops(self):
        for atomic in ("ATOMS.CAST.SPIN.64 R10, [R23], R8, R10", "@P0 ATOMS.CAS.64 R10, [R23], R8, R10"):
            self.one(problems([atomic, "EXIT"], "sample"), "1 64-bit shared atomics that are loops")
        self.assertEqual(problems(["ATOMS.CAST.SPIN R10, [R23], R8, R10", "ATOMS.ADD R10, [R23], R8", "EXIT"], "sample"), [])

    def test_variants_that_are_missing(self):
        self.assertEqual(machine_code.check([]), ["There is no machine code."])
        found = machine_code.check([read(LOOP[:5] + ["NOP"] * 90 + LOOP[5:])])
        self.assertEqual(len(found), 2 * 8 + 3 * 4 + 3 - 1 + 6 + 2 + 1)
        self.assertIn("matmul<Q8S, 24> is not there for sm_90.", found)
        self.assertIn("matmul_large<Q8S, 3, 128> is not there for sm_90.", found)

    def test_large_tiles(self):
        """Registers are kept for all stages in the stack's few bytes, but nothing is spilled or loaded in the innermost loop."""
        def of(name, *code, **used):
            return problems([*code, "@!P1 BRA 0x10", "EXIT"], name, **used)
        q4, bf16, fewer = "matmul_largeILi2ELi3ELi128EE", "matmul_largeILi0ELi2ELi128EE", "matmul_largeILi0ELi3ELi64EE"
        hmma = ["HMMA.16816.F32.BF16 R24, R24, R20, RZ"] * 64
        self.assertEqual(of(q4, *hmma[:32], registers=255, stack=16), [])
        self.assertEqual(of(bf16, *hmma, *hmma), [])
        self.assertEqual(of(fewer, *hmma), [])
        self.one(of(fewer, *hmma[:32], *["NOP"] * 100), "the ceiling is 123.75")
        self.one(of(bf16, *hmma, stack=16), "16 bytes of stack")
        self.one(of(q4, *hmma[:31]), "has 31 HMMA in its loop, not 32")
        self.one(of(q4, *hmma[:32], *["NOP"] * 200), "instructions a group in its loop; the ceiling is 200")
        self.one(of(q4, *hmma[:32], ("LDL R1, [R1]", NONE, 0)), "0 LDG, 1 LDL")
        self.one(of(bf16, *hmma, ("LDG.E R1, desc[UR4][R8.64]", 2, 0)), "1 LDG, 0 LDL")
        self.one(problems(["EXIT"], q4), "no innermost loop")

    def test_attention_in_large_blocks(self):
        def of(keys, values, **used):
            hmma = "HMMA.16816.F32.BF16 R24, R24, R20, RZ"
            code = [hmma] * 8 + keys + ["@!P1 BRA 0x10"], [hmma] * 64 + values
            return problems([*code[0], *code[1], f"@!P2 BRA {16 * (len(code[0]) + 1):#x}", "EXIT"], "attend_large", **used)
        self.assertEqual(of([], [], registers=255), [])
        self.one(of(["NOP"] * 32, []), "41 instructions in a loop of 8 HMMA; the ceiling is 40")
        self.one(of([], ["NOP"] * 226), "291 instructions in a loop of 64 HMMA; the ceiling is 290")
        self.one(of([], [("LDG.E R1, desc[UR4][R8.64]", 2, 0)]), "no loop with 64 HMMA that loads nothing")
        self.one(of([], [], stack=8), "8 bytes of stack")

    def test_what_waits_for_a_load(self):
        """In a loop; around its end; for a scoreboard that a later load holds too; by DEPBAR."""
        kernel = read([("LDG.E R1, desc[UR4][R8.64]", 2, 0), ("LDG.E R2, desc[UR4][R8.64+0x4]", 2, 0), "NOP",
                       ("FADD R4, R1, R4", NONE, 0b100), ("FADD R5, R3, R5", NONE, 0b1000), ("LDG.E R3, desc[UR4][R8.64+0x8]", 3, 0),
                       ("LDG.E R6, desc[UR4][R8.64+0x8]", 4, 0), "DEPBAR.LE SB4, 0x0", ("LDG.E R7, desc[UR4][R8.64+0x8]", 5, 0),
                       "@P0 BRA 0x10", ("LDG.E R9, desc[UR4][R8.64+0x8]", 5, 0), "EXIT"], "slice")
        self.assertEqual([(x.load.address, x.waiter and x.waiter.address, x.distance, x.late) for x in kernel.loads],
                         [(0x10, 0x40, 3, 1), (0x20, 0x40, 2, 0), (0x60, 0x50, 9, 0), (0x70, 0x80, 1, 0), (0x90, None, 0, 0)])
        inner, = read([("FADD R4, R1, R4", NONE, 0b100), ("LDG.E R1, desc[UR4][R8.64]", 2, 0), "@P0 BRA 0x20", "FADD R5, R1, R5",
                       "@P1 BRA 0x10"], "slice").loads
        self.assertIsNone(inner.waiter)  # the loop around it is not looked at
        text = "\n".join(machine_code.list_loads([kernel], "slice"))
        self.assertIn("00010 LDG.E R1, desc[UR4][R8.64]: first wait 00040 FADD R4, R1, R4, 3 later, with 1 later loads", text)
        self.assertIn("| slice | sm_90 | 91 |", "\n".join(machine_code.table([kernel])))


PLANTED = """
__global__ void sample(unsigned long long *to, int n) {
    __shared__ unsigned long long sums[32];
    double local[64];
    for (int i = 0; i < 64; i++) local[i] = to[i + n];
    atomicAdd(&sums[n % 32], to[n]);
    __syncthreads();
    to[n] = sums[0] + (unsigned long long)local[to[n] % 64];
}
"""


@without_sanitizers  # nvcc's code is the same there
@unittest.skipUnless(os.path.exists(machine_code.NVCC), "needs:nvcc")
@unittest.skipUnless(machine_code.tools(), "needs:cuobjdump and nvdisasm: `make test-setup` fetches them")
class Built(unittest.TestCase):
    @unittest.skipUnless(glob.glob(os.path.join(machine_code.OBJECTS, "*.cu.o")), "needs:make cuda")
    def test_the_kernels(self):
        self.assertEqual("\n".join(machine_code.check(machine_code.read_objects([machine_code.OBJECTS]))), "")

    def test_nvcc_s_own_words(self):
        """A kernel with mistakes, compiled here: the disassembler writes what the parser reads."""
        with tempfile.TemporaryDirectory() as tmp:
            source, out = os.path.join(tmp, "planted.cu"), os.path.join(tmp, "planted.cu.o")
            with open(source, "w", encoding="utf-8") as f:
                f.write(PLANTED)
            subprocess.run([machine_code.NVCC, "-arch=sm_80", "-c", "-o", out, source], check=True, capture_output=True)
            r = subprocess.run([sys.executable, machine_code.__file__, tmp], capture_output=True, text=True, check=False)
        self.assertEqual((r.returncode, r.stderr), (1, ""))
        self.assertRegex(r.stdout, r"\* sample for sm_80 spills, or keeps an array in memory: \d+ bytes of stack, \d+ LDL and STL;")
        self.assertIn("* sample for sm_80 has 1 64-bit shared atomics that are loops", r.stdout)
        self.assertIn("* matmul<Q4, 8> is not there for sm_80.", r.stdout)


if __name__ == "__main__":
    unittest.main()
