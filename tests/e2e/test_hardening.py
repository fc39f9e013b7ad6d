"""What was built is hard to misuse (ELF headers), and so is the running program: nothing is writable and executable."""
import os
import struct
import subprocess
import unittest

from program import BUILD, ENV, PROGRAM, Screen, needs_model

LIBRARY = os.path.join(BUILD, "liblstorch.so")
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_TEXTREL, DT_FLAGS, DT_FLAGS_1 = 22, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 8, 1, 0x8000000
X, W = 1, 2


class Elf:
    """Program headers as (type, flags), the dynamic section as tag: value, and all bytes."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = b = f.read()
        assert b[:6] == b"\x7fELF\x02\x01", f"{path}: no little-endian 64-bit ELF file"
        (self.kind,), (at,), (size, n) = (struct.unpack_from(form, b, where) for form, where in (("<H", 16), ("<Q", 32), ("<HH", 54)))
        self.segments, self.dynamic = [], {}
        for i in range(n):
            kind, flags, offset, _, _, in_file = struct.unpack_from("<IIQQQQ", b, at + i * size)
            self.segments.append((kind, flags))
            if kind == PT_DYNAMIC:
                self.dynamic = dict(struct.unpack_from("<QQ", b, offset + j) for j in range(0, in_file, 16))


def writable_and_executable(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        maps = f.read().splitlines()
    assert len(maps) > 20, maps
    return [line for line in maps if "w" in line.split()[1] and "x" in line.split()[1]]


@unittest.skipUnless(os.path.basename(BUILD) == "build", "needs:plain build: sanitizers are built without hardening")
class Hardening(unittest.TestCase):
    def check_file(self, path):
        elf = Elf(path)
        kinds = dict(elf.segments)
        self.assertEqual(kinds[PT_GNU_STACK] & X, 0, "the stack is executable")
        self.assertIn(PT_GNU_RELRO, kinds)
        self.assertTrue(elf.dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW, "symbols are bound late, in a table that stays writable")
        self.assertTrue(elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW)
        self.assertNotIn(DT_TEXTREL, elf.dynamic)
        self.assertEqual([s for s in elf.segments if s[0] == PT_LOAD and s[1] & W and s[1] & X], [])
        self.assertIn(b"__stack_chk_fail\0", elf.bytes)
        self.assertIn(b"__snprintf_chk\0", elf.bytes)  # _FORTIFY_SOURCE
        return elf

    def test_the_program(self):
        elf = self.check_file(PROGRAM)
        self.assertEqual(elf.kind, 3)  # position-independent
        self.assertTrue(elf.dynamic[DT_FLAGS_1] & DF_1_PIE)

    @unittest.skipUnless(os.path.exists(LIBRARY), "needs:libtorch")
    def test_the_compute_library(self):
        self.check_file(LIBRARY)

    @needs_model
    def test_decoding_maps_nothing_writable_and_executable(self):
        command = [PROGRAM, "generate", "--prompt", "Tell me a long story.", "--max-tokens", "1500", "--quiet"]
        with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            try:
                self.assertTrue(p.stdout.read(1))  # tokenizer, library and kernels are at work
                self.assertEqual(writable_and_executable(p.pid), [])
            finally:
                p.kill()

    def test_the_screen_maps_nothing_writable_and_executable(self):
        with Screen("--model", "script", "--prompt", "hello") as s:
            s.wait("READY")
            pane = subprocess.run(s.tmux + ["display-message", "-p", "-t", "s", "#{pane_pid}"], capture_output=True, text=True,
                                  check=True).stdout.strip()
            with open(f"/proc/{pane}/task/{pane}/children", encoding="utf-8") as f:
                children = f.read().split()
            found = [c for c in children if os.path.realpath(f"/proc/{c}/exe") == os.path.realpath(PROGRAM)]
            self.assertEqual(len(found), 1)
            self.assertEqual(writable_and_executable(found[0]), [])


if __name__ == "__main__":
    unittest.main()
