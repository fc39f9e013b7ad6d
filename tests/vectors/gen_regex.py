#!/usr/bin/env python3
"""Makes tests/vectors/regex.json: random split expressions of what Oniguruma's Ruby syntax has and PCRE2 has not (classes within
classes, intersections, repeated intervals, \\u), with the pieces that Hugging Face tokenizers cuts texts into.

Needs `pip install tokenizers`. Expressions that match nothing at all are left out: no tokenizer has one.
"""
import json
import os
import random

from tokenizers import Regex, normalizers, pre_tokenizers

COUNT = 120
ATOMS = ["a", "b", "\\p{L}", "\\p{N}", "\\s", "\\S", "\\w", "\\d", " ", ".", "\\u4e00", "\\u00e9", "x"]
ITEMS = ["a", "b", "c", "x-z", "0-5", "\\p{L}", "\\p{N}", "\\s", "\\u0061", "\u00e9", "_"]
TEXTS = ["abc xyz 0123456789 \u00e9\u4e00ab_c", "aaa bbb  xx12 34567 zzz", "_x_ a1b2 \u4e00\u4e00 \u00e9\u00e9  "]


def a_class(rng, depth=0):
    s = "".join(a_class(rng, depth + 1) if rng.random() < 0.2 and depth < 2 else rng.choice(ITEMS) for _ in range(rng.randint(1, 3)))
    while rng.random() < 0.3 and depth < 2:
        s += "&&" + (a_class(rng, depth + 1) if rng.random() < 0.6 else rng.choice(ITEMS))
    return "[" + ("^" if rng.random() < 0.25 else "") + s + "]"


def atom(rng, depth):
    kind = rng.random()
    if kind < 0.35:
        return a_class(rng)
    return "(?:" + expression(rng, depth + 1) + ")" if kind < 0.5 and depth < 2 else rng.choice(ATOMS)


def repeat(rng):
    return rng.choice(["{1,3}", "{2}", "{2,}", "{,2}", "?", "*", "+"]) + rng.choice(["", "", "+", "?"]) if rng.random() < 0.5 else ""


def expression(rng, depth=0):
    return "|".join("".join(atom(rng, depth) + repeat(rng) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 2)))


def main():
    rng, cases = random.Random(1), []
    while len(cases) < COUNT:
        e = expression(rng)
        try:
            if "E" in normalizers.Replace(Regex(f"(?:{e})(?=~)"), "E").normalize_str("~~"):
                continue  # it matches nothing at all
            split = pre_tokenizers.Split(Regex(e), "isolated")
        except Exception:  # not an expression, for the reference
            continue
        cases.append([e, [[piece for piece, _ in split.pre_tokenize_str(t)] for t in TEXTS]])
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "regex.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(TEXTS)[:-1].join(['{"texts": ', '], "cases": [\n']) + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")


main()
