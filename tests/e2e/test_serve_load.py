"""A short load: serve_load.py says what it does. A long one is run by hand."""
import unittest

from program import SANITIZED
from serve_load import load


class Loads(unittest.TestCase):
    def test_clients_of_all_kinds_leave_nothing_behind(self):
        seen, wrong, before, after = load(250, 400, 1, "--parallel", "2")
        self.assertEqual(wrong, [])
        self.assertEqual(sum(seen.values()), 310)
        self.assertGreater(seen["whole"] + seen["streamed"], 100)
        self.assertLessEqual(after[1], before[1] + 1)  # descriptors: the last connection may not be closed yet
        if not SANITIZED:  # whose allocator keeps what was freed
            self.assertLess(after[0] - before[0], 16 * 1024)


if __name__ == "__main__":
    unittest.main()
