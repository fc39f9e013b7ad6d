"""Pages for people stay short and their sentences easy: words of a page, words of a sentence. Links: test_manual.py."""
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST_WORDS = 1100  # of a page, as wc counts them, tables too; WORDS: of the larger ones, their size of 28 November 2026
WORDS = {"models/README.md": 1460, "src/README.md": 1115, "src/compute/README.md": 1280, "src/glossary.md": 1225, "src/spec/README.md": 1870,
         "tests/files/README.md": 1350}  # mostly tables
ALL_WORDS = 19400  # of all pages together
MEAN = 20  # words of a sentence are fewer than this on average
LONGEST = 40  # words of any sentence
FREE = ("CHANGELOG.md", "tests/bench/experiments.md")
GENERATED = "`tests/tools/pages.py build` writes what"  # what stands below it comes from the program
GENERATED_TABLE = r"`tests/tools/pages.py build` writes it here.\n\n(\|.*\n)+"
CODE_FENCE = r"(?ms)^ *```.*?^ *```[^\n]*$"


def pages():
    for where, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f == ".github" or not f.startswith(".") and f != "build"]
        for name in names:
            path = os.path.relpath(os.path.join(where, name), ROOT)
            if name.endswith(".md") and path not in FREE and not re.match(r"tests/[^/]+/results/", path):
                yield path


def written(path):
    """A page without its generated part."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = re.sub(GENERATED_TABLE, "", f.read())
    return text.split(GENERATED)[0]


def prose(text):
    """Its paragraphs and list items: no code, table, heading or target of a link. Inline code is one word."""
    text = re.sub(CODE_FENCE, "", text)
    text = re.sub(r"`[^`]+`", "Code", text)
    text = re.sub(r"!\[[^]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?m)^ *(\||#).*$", "", text)
    text = re.sub(r"(?m)^ *([*+-]|\d+\.) +", "\n", text)
    for block in re.split(r"\n\s*\n", text.replace("**", "")):
        lines = block.strip("\n").split("\n")
        if not all(line.startswith("    ") for line in lines):
            yield " ".join(line.strip() for line in lines)


def words(sentence):
    return sum(any(c.isalnum() for c in word) for word in sentence.split())


def sentences(text):
    for block in prose(text):
        for sentence in re.split(r"(?<=[.!?])[\"')]*\s+(?=[^a-z])", block):
            if words(sentence):
                yield sentence


class Pages(unittest.TestCase):
    def test_pages_are_short(self):
        sizes = {path: len(written(path).split()) for path in pages()}
        self.assertGreater(len(sizes), 10)
        self.assertLessEqual(sum(sizes.values()), ALL_WORDS)
        for path, size in sorted(sizes.items()):
            with self.subTest(path):
                self.assertLessEqual(size, WORDS.get(path, MOST_WORDS), f"{path}: words of the page")

    def test_sentences_are_short(self):
        for path in sorted(pages()):
            found = sorted(sentences(written(path)), key=words, reverse=True)
            with self.subTest(path):
                self.assertTrue(found, f"{path} has no sentence")
                mean = sum(map(words, found)) / len(found)
                worst = "".join(f"\n  {words(s)} words: {s}" for s in found[:3])
                self.assertLess(mean, MEAN, f"{path}: words of a sentence on average; the longest:{worst}")
                self.assertLessEqual(words(found[0]), LONGEST, f"{path}: words of the longest sentence:{worst}")

    def test_no_page_counts_what_a_table_counts(self):
        """How many methods or mutants there are is told by the program and its tests; a page would be wrong after the next one."""
        counted = r"\b(\d+|eleven|twelve|[a-z]+teen|twenty|thirty|forty) (methods|flags|mutants|mistakes|architectures|demos|commands|settings|models)\b"
        for path in sorted(pages()):
            with self.subTest(path):
                self.assertEqual(re.findall(counted, " ".join(prose(written(path)))), [])

    def test_what_counts_as_a_sentence(self):
        text = ("# A heading that is left out\n\nOne `a b c` two, [three four](x.md#y). Next (it ends.) Last\nline: 3.5 ms\n\n"
                "* an item\n  of two lines\n* another\n\n| a | table |\n|---|---|\n\n```\ncode, no sentence.\n```\n\n    more code\n\n"
                "![a picture](x.svg)\n\n1. Numbered.\n")
        self.assertEqual([words(s) for s in sentences(text)], [5, 3, 4, 5, 1, 1])


if __name__ == "__main__":
    unittest.main()
