"""Files as other people have them: what their own programs make of them was recorded by `make check-files` and is replayed here."""
import json
import os
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from program import ROOT

FILES = os.path.join(ROOT, "tests", "files")
sys.path.insert(0, FILES)
import configs  # noqa: E402
import gemma  # noqa: E402
import ggufs  # noqa: E402
import ours  # noqa: E402
import tokens  # noqa: E402

SOME = 1 if os.environ.get("LOGITSPEC_TEST_WHOLE") else 5  # of what takes long, one of so many


class OtherFiles(unittest.TestCase):
    def replay(self, name, cases, builder, answer, chosen=lambda n: True):
        with open(os.path.join(FILES, name + ".json"), encoding="utf-8") as f:
            record = {k: v for k, v in json.load(f).items() if chosen(k)}
        self.assertTrue(record)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
            made = builder(folder)
            paths = {n: made.build(n, cases[n]) for n in record}
            for n, got in zip(record, pool.map(lambda n: answer(n, paths[n]), record)):
                for key, want in record[n].items():
                    self.assertEqual(got.get(key), want, (n, key, got.get("refused")))

    def test_tokenizers_with_what_stands_beside_them(self):
        self.replay("tokens", tokens.cases(), tokens.Builder, lambda n, p: ours.ids(p, tokens.TEXTS, tokens.MESSAGES[0]["content"]))

    def test_vocabularies_of_gguf_files(self):
        cases = ggufs.cases()
        self.replay("ggufs", cases, ggufs.Builder, lambda n, p: ours.ids(p, ggufs.TEXTS), lambda n: cases[n][0] == "vocabulary")

    @unittest.skipUnless(os.path.exists(gemma.PATH), "needs:gemma: make check-files fetches it")
    def test_the_ids_of_a_second_real_model(self):
        with open(os.path.join(FILES, "gemma.json"), encoding="utf-8") as f:
            want = json.load(f)["raw"]
        self.assertEqual(len(want), len(gemma.TEXTS))
        for text, ids in zip(gemma.TEXTS, want):
            self.assertEqual(ours.ids(gemma.PATH, [text]), {"raw": [ids]}, text)
        html = ours.run("tokenize", "--model", gemma.PATH, "--chat", "--template", "vicuna", "--prompt", "<s>old</s> new<eos>")
        self.assertEqual([t for t in html["tokens"] if t in ("<s>", "</s>", "<eos>")], ["<s>", "</s>"])  # HTML, but no end

    def test_keys_of_gguf_files(self):
        cases = ggufs.cases()
        models = [n for n, c in cases.items() if c[0] == "model"][::SOME]
        self.replay("ggufs", cases, ggufs.Builder, lambda n, p: ours.greedy(p, ggufs.TEXTS[0], ggufs.GREEDY), models.__contains__)

    def test_keys_of_configurations(self):
        cases = configs.cases()
        some = list(cases)[::SOME]
        self.replay("configs", cases, configs.Builder, lambda n, p: ours.greedy(p, configs.TEXT, configs.GREEDY), some.__contains__)


if __name__ == "__main__":
    unittest.main()
