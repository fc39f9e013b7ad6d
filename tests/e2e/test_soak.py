"""A random user for a few seconds, each time the same one; `make soak` lets him go on."""
import tempfile
import unittest

import soak
from program import SANITIZED, needs_model


class Soak(unittest.TestCase):
    def test_the_scripted_model(self):
        print(soak.soak(1, 12, "script:1"))

    @needs_model
    def test_a_real_model(self):
        print(soak.soak(2, 8, "default"))

    def test_the_shadow_sees_what_is_wrong(self):
        header = {"type": "header", "turn": 0, "prompt_text": "a", "prompt_ids": [1, 2], "seed": 3,
                  "config": {"decode.temperature": "0", "decode.top_p": "1"}}
        step = {"type": "step", "turn": 0, "emitted": [5, 6], "finish": ""}
        turn = soak.Turn(header, "a")
        turn.add(step)
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            def saved(*lines):
                f.seek(0)
                f.truncate()
                f.write("".join(soak.json.dumps(line) + "\n" for line in lines))
                f.flush()
                return soak.read_conversation(f.name)
            self.assertTrue(saved(header, step)[0].same(turn))
            self.assertFalse(saved(header, step | {"emitted": [5, 7]})[0].same(turn))
            self.assertFalse(saved(header | {"prompt_text": "b"}, step)[0].same(turn))
            for lines in ([header, header], [header, step, header | {"turn": 2}], [header, step | {"turn": 1}]):
                with self.assertRaises(soak.Failure):
                    saved(*lines)
        user = soak.User.__new__(soak.User)
        user.usage = [(9000, 11)] + [(10000 + 40 * i, 11) for i in range(30)]
        user.judge()
        user.usage = [(9000, 11)] + [(10000 + 1000 * i, 11) for i in range(30)]
        if not SANITIZED:  # they keep freed memory for a while
            with self.assertRaisesRegex(soak.Failure, "memory grows"):
                user.judge()
        user.usage = [(9000, 11 + i // 10) for i in range(30)]
        with self.assertRaisesRegex(soak.Failure, "descriptors grow"):
            user.judge()


if __name__ == "__main__":
    unittest.main()
