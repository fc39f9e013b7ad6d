#!/usr/bin/env python3
"""Writes tokenizer_smollm2.jsonl: texts and their ids by Hugging Face `tokenizers`, the reference for src/text.

Needs `pip install tokenizers gguf` and the default model. The tokenizer is built as the model's authors built it:
Digits(individual) and ByteLevel before BPE, with the file's vocabulary, merges and control tokens.
Every text is made here, from a fixed seed.
"""
import json
import os
import random
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "../../models/smollm2-135m-instruct.Q4_1.gguf")

SCRIPTS = {  # first and last letter of what is drawn from
    "latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F)], "greek": [(0x391, 0x3C9)], "cyrillic": [(0x410, 0x44F)],
    "hebrew": [(0x5D0, 0x5EA)], "arabic": [(0x620, 0x64A)], "devanagari": [(0x904, 0x939), (0x93E, 0x94D)],
    "thai": [(0xE01, 0xE3A), (0xE40, 0xE4E)], "hangul": [(0xAC00, 0xD7A3)], "hiragana": [(0x3041, 0x3096)],
    "han": [(0x4E00, 0x9FA5)], "emoji": [(0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F900, 0x1F9FF)],
    "symbols": [(0x2000, 0x206F), (0x2190, 0x22FF), (0x2500, 0x257F)], "digits": [(0x30, 0x39), (0x660, 0x669), (0xFF10, 0xFF19)],
    "number-like": [(0xB2, 0xB3), (0xBC, 0xBE), (0x2160, 0x2188), (0x2460, 0x249B)],
    "marks": [(0x300, 0x36F), (0x200B, 0x200F), (0xFE00, 0xFE0F)], "controls": [(0x01, 0x1F), (0x7F, 0xA0)],
    "ancient": [(0x10300, 0x1031F), (0x12000, 0x12399), (0x1D400, 0x1D7FF)],
}
WORDS = ("the of and a in is it you that he was for on are with as I his they be at one have this from or had by hot "
         "word but what some we can out other were all there when up use your how said an each she which do their time "
         "if will way about many then them write would like so these her long make thing see him two has look more day "
         "could go come did number sound no most people my over know water than call first who may down side been now "
         "find any new work part take get place made live where after back little only round man year came show every "
         "good me give our under name very through just form sentence great think say help low line differ turn cause").split()
CODE = ["def fib(n):\n    return n if n < 2 else fib(n-1) + fib(n-2)\n", "for (int i = 0; i < 10; ++i) {\n\tsum += a[i];\n}",
        "#include <stdio.h>\n", "SELECT * FROM t WHERE id=42;", "x = {'a': 1, \"b\": [2.5, -3e10]}", "<div class=\"x\">&nbsp;</div>",
        "let f = |x: &str| -> Option<u8> { None };", "$ grep -rn 'foo' . | wc -l", "if (!p) return -1; // oops",
        "https://example.org/a/b?c=d&e=%20f#g", "user@example.com", "C:\\Program Files\\x", "0xDEADBEEF 0b1010 1_000_000"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", " \n ", "\r\n", "\u00a0", "\u3000", "\u2003", "\u180e", "\u1680", "\u0085", "\u2028"]
CONTRACTIONS = ["I'm", "you're", "they've", "it's", "we'll", "he'd", "don't", "DON'T", "it'S", "'tis", "o'clock", "y'all'd've", "rock'n'roll", "'s", "'ve got"]
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<file_sep>", "<|im_", "im_end|>", "<|im_end|"]


def char(rng, script):
    a, b = rng.choice(SCRIPTS[script])
    return chr(rng.randint(a, b))


def word(rng, script):
    return "".join(char(rng, script) for _ in range(rng.randint(1, 9)))


def line(rng, kind):
    parts = []
    for _ in range(rng.randint(1, 12)):
        pick = rng.random()
        if kind == "english" or pick < 0.35:
            parts.append(rng.choice(WORDS) if rng.random() < 0.8 else rng.choice(WORDS).capitalize())
        elif pick < 0.45:
            parts.append(str(rng.randint(0, 10 ** rng.randint(1, 9))))
        elif pick < 0.5:
            parts.append(rng.choice(CONTRACTIONS))
        elif pick < 0.55:
            parts.append(rng.choice(["...", "!?", ",", "--", "(", ")", "“", "”", "€", "§", "&&", "==", "->", "::", "**", "__", "~", "'"]))
        else:
            parts.append(word(rng, kind if kind in SCRIPTS else rng.choice(list(SCRIPTS))))
        parts.append(rng.choice(SPACES) if rng.random() < 0.25 else rng.choice([" ", " ", " ", ""]))
    return "".join(parts)


def texts():
    rng = random.Random(20250701)
    out = ["", " ", "  ", "\n", "a", " a", "a ", "Hello, world!", "1234567890", " 1 2  3", "\x00", "a\x00b", "\ufeffbom", "\U0010ffff"]
    out += CODE + SPACES + CONTRACTIONS + SPECIALS
    out += [chr(c) for c in range(0x20, 0x180)]
    for kind in list(SCRIPTS) + ["english", "mixed"]:
        out += [line(rng, kind) for _ in range(80)]
    out += ["".join(rng.choice(CODE + SPACES + SPECIALS + CONTRACTIONS + WORDS) for _ in range(rng.randint(2, 10))) for _ in range(200)]
    out += ["a" * n for n in (10, 100, 400)] + [" " * n for n in (3, 17, 64, 200)] + ["\n" * n for n in (3, 9, 33)] + ["=" * 80, "日本語" * 30]
    return out


def main():
    field = {f.name: f for f in GGUFReader(MODEL).fields.values()}
    get = lambda name: [bytes(field[name].parts[i]).decode("utf-8") for i in field[name].data]  # noqa: E731
    tokens, merges = get("tokenizer.ggml.tokens"), [tuple(m.split(" ")) for m in get("tokenizer.ggml.merges")]
    types = [int(field["tokenizer.ggml.token_type"].parts[i][0]) for i in field["tokenizer.ggml.token_type"].data]
    t = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(tokens)}, merges=merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s, k in zip(tokens, types) if k == 3])
    with open(os.path.join(HERE, "tokenizer_smollm2.jsonl"), "w", encoding="utf-8") as f:
        n = 0
        for text in texts():
            ids = t.encode(text, add_special_tokens=False).ids
            f.write(json.dumps({"text": text, "ids": ids}, separators=(",", ":")) + "\n")
            n += 1
    print(n, "texts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
