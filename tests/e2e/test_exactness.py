"""Drafting equals plain decoding in every arithmetic at every CPU level, here on a tiny model; `make exactness` does more."""
import itertools
import tempfile
import unittest

import exactness
from program import HAS_ENGINE, cpu_levels

FEW = ("logitspec:13", "logitspec-paper:13", "lookahead:5", "suffix:3")


@unittest.skipUnless(HAS_ENGINE, "needs:model")
class Exactness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.models = exactness.tiny(cls.tmp.name)

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def test_every_level_and_arithmetic_with_seven_threads(self):
        ways = itertools.cycle(exactness.WAYS.values())
        for level in cpu_levels():
            for dtype in exactness.DTYPES:
                if not exactness.tokens_are_equal(self.models[dtype], level, dtype, next(ways), "abc abc ab", 30, FEW):
                    break  # this CPU lacks the level
            next(ways)  # each arithmetic meets each way at some level

    def test_logits_bit_for_bit(self):
        for dtype in exactness.DTYPES:
            rows = exactness.bits_are_equal(self.models[dtype], None, dtype, exactness.WAYS["T 0.8, top-p 0.9"], "abc abc ab", 25)
            self.assertGreaterEqual(rows, 50)

    def test_conversations_through_save_and_load(self):
        for dtype, way in (("bf16", "greedy"), ("i8", "T 0.8, top-p 0.9")):
            self.assertGreaterEqual(exactness.conversations_go_on(self.models[dtype], dtype, exactness.WAYS[way], 20), 50)


if __name__ == "__main__":
    unittest.main()
