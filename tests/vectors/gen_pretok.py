#!/usr/bin/env python3
"""Writes tests/vectors/pretok.json: how the pre-tokenizers behind the names of tokenizer.ggml.pre split texts, by Hugging Face
tokenizers with the models' own expressions. tests/unit/test_pretok.c reads it.

  gen_pretok.py             write the file
  gen_pretok.py --check N   compare N random lines for each name with build/tests/test_pretok

Needs what gen_tokenizers.py needs. `names` lists the names that share a configuration; a text has its different splits (bytes
of each piece) once, and which of them each configuration makes. Texts are chosen so that every two configurations that differ
at all differ in two texts.
"""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import unicodedata

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gen_tokenizers as families  # noqa: E402
from gen_tokenizers import DEEPSEEK, LLAMA3, O200K, QWEN2, TEKKEN  # noqa: E402

OUT = os.path.join(families.HERE, "pretok.json")
BIN = os.path.join(families.ROOT, "build/tests/test_pretok")

ENDINGS, SPACES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
KANA = "[一-龥぀-ゟ゠-ヿ]+"
EAST_ASIAN = "[一-龥ࠀ-一가-퟿]+"
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
AFMOE_SCRIPTS = (r"(?:[\u4E00-\u9FFF\u3040-\u309F\u30A0-\u30FF\u3400-\u4DBF\uf900-\uFAFF\uFF65-\uFF9F\u2F00-\u2FDF]+|[\u0E00-\u0E7F]+|[\u0E80-\u0EFF]+"
                 r"|[\u1780-\u17FF]+|[\u1000-\u109F\uAA60-\uAA7F\uA9E0-\uA9FF]+|[\uAC00-\uD7AF\u1100-\u11FF]+)")
CASED = ("A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdb"
         "ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")

digits = pre_tokenizers.Digits
split = families.isolated


def regex(*patterns):
    return [split(p) for p in patterns] + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


def gpt2(*steps):
    return list(steps) + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]


def line_breaks():
    return [pre_tokenizers.Split(Regex(r"(?:\r?\n)+(?!\r?\n)"), "merged_with_next")]


# names, steps, flags: nfc (normalizer), whole (ignore_merges, or tiktoken), begins (add_bos of llama.cpp)
CONFIGS = [
    ("gpt-2 default phi-2 trillion jais gigachat a.x-4.0 mellum exaone4 granite-docling", gpt2(), ""),
    ("mpt olmo", gpt2(), "nfc"),
    ("smollm refact starcoder granite exaone codeshell minerva-7b mellum2", gpt2(digits(True)), ""),
    ("command-r", gpt2(digits(True)), "nfc"),
    ("llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral", regex(LLAMA3), "whole begins"),
    ("lfm2", regex(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s"), "whole begins"),
    ("midm-2.0", [pre_tokenizers.Split(Regex(LLAMA3), "removed", invert=True)] + regex(), "whole begins"),
    ("dbrx smaug-bpe", regex(LLAMA3), ""),
    ("chatglm-bpe glm4 glm5", regex(LLAMA3), "whole"),
    ("minicpm5", regex(r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")), "whole"),
    ("jais-2", regex(LLAMA3.replace(r"\s+(?!\S)|\s+", "|".join(rf"\s{{{2 ** i}}}(?!\S)" for i in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s{1}")), ""),
    ("k2-horizon", regex(LLAMA3.replace(r"\p{L}+|\p{N}{1,3}", r"(?:\p{L}|\p{M}|\u200C|\u200D)+|\p{N}{1,3}")), ""),
    ("qwen2 deepseek-r1-qwen stablelm2 f2llmv2", regex(QWEN2), "nfc"),
    ("hunyuan", regex(QWEN2), "nfc whole"),
    ("kormo megrez grok-2 solar-open", regex(QWEN2), ""),
    ("bailingmoe bailingmoe2 llada-moe", regex(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), ""),
    ("qwen35", regex(ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES), "nfc"),
    ("seed-coder", regex(ENDINGS + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), ""),
    ("ufakzeka", regex(QWEN2[len(ENDINGS) + 1:]), ""),
    ("laguna", line_breaks() + regex(QWEN2), ""),
    ("exaone-moe", regex(ENDINGS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"), ""),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", regex(O200K), ""),
    ("tekken", regex(TEKKEN), "whole begins"),
    ("tiny_aya cohere2moe", regex(r"\d{1,3}(?=(?:\d{3})*\b)", O200K), ""),
    ("youtu", regex("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + KANA, O200K.replace("{1,3}", "")), "whole"),
    ("kimi-k2", regex(KIMI), "whole"),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", regex(r"\p{N}{1,3}", KANA, DEEPSEEK), ""),
    ("spark2_5", regex(r"\p{N}{1,3}", KANA, DEEPSEEK.replace(r"[\r\n]*|\s*[\r\n]+", r"|[\r\n]"), r"\p{N}"), ""),
    ("deepseek-llm", [split(x) for x in ("[\r\n]", r"\s?[" + CASED + "]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", EAST_ASIAN)] + [digits(True)] + regex(), ""),
    ("deepseek-coder", [split(x) for x in ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN)] + [digits(True)] + regex(), ""),
    ("afmoe", regex(r"\p{Nd}{1,510}(?=(?>\p{Nd}{510})*(?:\P{Nd}|$))|\G\p{Nd}{510}", r"\A\p{Nd}{1,2}(?=\p{Nd}{3}+\z)", r"\A\p{Nd}{3}|\G\p{Nd}{3}", AFMOE_SCRIPTS,
                    DEEPSEEK), ""),
    ("falcon", [pre_tokenizers.Punctuation("contiguous")] + gpt2() + [digits(False), split("[0-9][0-9][0-9]")], ""),
    ("chameleon", [split(x) for x in ("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\t\n]|    |  )")] +
     gpt2(digits(True), pre_tokenizers.Punctuation("isolated")), "begins"),
    ("bloom poro-chat gpt3-finnish", regex(BLOOM), ""),
    ("viking", regex(BLOOM)[:-1] + [digits(True)] + regex(), ""),
    ("superbpe", regex(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), ""),
]
# spelled in another way by their models, and yet the same
SAME = [("lfm2", "midm-2.0"), ("bailingmoe", "kormo")]

TEXTS = ["Hello, World! don't DON'T we'LL it's", "1234567 and 12 345678a 1\u0301 12½3456 ½6789²12", "a  1   b\n\n  c \r\n\r\n\td", "fooBARbaz HTTPServer aBc ABCdef's",
         "x = a/b//\n/c; // end/\r\n", "\u4e2d\u6587abc\u3042\u30a2\uac00\u3131\u3105\uff01\uff0c\u3002\u2026\u201c\u201d", "e\u0301 \u0915\u094d\u0937 re\u0301sume\u0301 a\u200db\u200cc",
         "\u0e2a\u0e27\u0e31\u0e2a \u1780\u17d2\u1798 \u1019\u103c\u1014\u103a \u0eaa\u0eb0", "[($+<=>^`|~)] a.b.c ... !!", "<sentinel:12>IMGIMGABCZ IMGIMG", "   \t\t  x    y",
         "\u043c\u0438\u0440 \u00bc \u00b2\u00b3 \u0663\u0664\u0665\u0661", "world \uac00\ub098 word.word,word\u0964x", "the cat\nsat\r\non\n\n\nthe mat", " 999 1000000 0001 12345678901",
         "\u0130STANBUL'da 'tis d'\u00eatre", "x\u4e2d\u6587Abc\u3007\u3005\u65e5\u672c", "a\u00a0b\u3000c\u2003d", "===---___\n", "tab\there\x0bv\x0cf"]


def names(config):
    return config[0].split()


def pieces(config, text):
    pre = pre_tokenizers.Sequence(config[1])
    return [len(p) for p, _ in pre.pre_tokenize_str(text)] if text else []


def known(text):
    """Characters whose classes are the same in every version of Unicode that is about."""
    old = unicodedata.ucd_3_2_0
    return all(old.category(c) == unicodedata.category(c) and old.category(c) not in ("Cn", "Co", "Cs") for c in text)


def choose():
    rng = random.Random(20260101)
    pool = TEXTS + [x for x in (families.line(rng) for _ in range(6000)) if len(x.encode()) <= 60 and known(x)]
    splits = [[tuple(pieces(c, x)) for c in CONFIGS] for x in pool]
    n = len(CONFIGS)
    first = {}
    for i in range(n):
        first[i] = next(k for k in range(n) if all(s[k] == s[i] for s in splits))
    groups = {tuple(sorted(names(CONFIGS[i])[0] for i in range(n) if first[i] == k)) for k in set(first.values())}
    # configurations that differ only in flags share the steps, so they are the same here
    stepwise = {}
    for c in CONFIGS:
        stepwise.setdefault(str([s.__getstate__() for s in c[1]]), []).append(names(c)[0])
    for g in groups:
        kinds = {next(k for k, v in stepwise.items() if x in v) for x in g}
        assert len(kinds) == 1 or any(a in g for pair in SAME for a in pair), g
    pairs = {p: 2 for p in itertools.combinations(sorted(set(first.values())), 2)}
    chosen = list(range(len(TEXTS)))
    for i in chosen:
        for p in pairs:
            pairs[p] -= splits[i][p[0]] != splits[i][p[1]]
    while any(v > 0 for v in pairs.values()):
        best = max((i for i in range(len(pool)) if i not in chosen), key=lambda i: sum(v > 0 and splits[i][p[0]] != splits[i][p[1]] for p, v in pairs.items()))
        chosen.append(best)
        for p in pairs:
            pairs[p] -= splits[best][p[0]] != splits[best][p[1]]
    chosen += [i for i in range(len(pool)) if i not in chosen][:60 - len(chosen)]
    return [pool[i] for i in chosen], [splits[i] for i in chosen]


def small_vocabulary():
    """Shows flags: a composed letter, and a token that no merges make."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return alphabet + ["Ã©", "xyz"], [("Ã", "©")]


def ids(config, text):
    tokens, merges = small_vocabulary()
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, merges, ignore_merges="whole" in config[2]))
    t.normalizer = normalizers.NFC() if "nfc" in config[2] else None
    t.pre_tokenizer = pre_tokenizers.Sequence(config[1])
    return t.encode(text).ids


def write():
    texts, splits = choose()
    tokens, merges = small_vocabulary()
    flag_texts = ["e\u0301", "xyz"]
    out = {"tokens": tokens, "merges": [" ".join(m) for m in merges], "flag_texts": flag_texts,
           "configs": [{"names": names(c), "begins": "begins" in c[2], "ids": [ids(c, x) for x in flag_texts]} for c in CONFIGS], "texts": []}
    for text, by_config in zip(texts, splits):
        different = sorted(set(by_config), key=by_config.index)
        out["texts"].append({"text": text, "splits": different, "of": [different.index(s) for s in by_config]})
    body = ",\n".join(json.dumps(x, separators=(",", ":")) for x in out.pop("texts"))
    configs = ",\n".join(json.dumps(x, separators=(",", ":")) for x in out.pop("configs"))
    with open(OUT, "w", encoding="utf-8") as f:
        f.write(json.dumps(out, separators=(",", ":"))[:-1] + ',\n"configs":[' + configs + '],\n"texts":[\n' + body + "]}\n")
    return 0


def check(n):
    rng = random.Random(n)
    lines = [x for x in (families.line(rng) for _ in range(n)) if known(x)]
    bad = 0
    for c in CONFIGS:
        want = [pieces(c, x) for x in lines]
        for name in names(c):
            p = subprocess.run([BIN, "split", name], input="".join(json.dumps([x]) + "\n" for x in lines).encode(), stdout=subprocess.PIPE, check=True)
            got = [[int(i) for i in x.split()] for x in p.stdout.decode().split("\n")[:-1]]
            wrong = [i for i in range(len(lines)) if got[i] != want[i]]
            print(f"{name:18} {len(lines)} lines, {len(wrong)} differ", flush=True)
            for i in sorted(wrong, key=lambda i: len(lines[i]))[:3]:
                print("   ", ascii(lines[i]), "\n      want", want[i], "\n      got ", got[i])
            bad += len(wrong)
    return 1 if bad else 0


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--check", type=int)
    a = a.parse_args()
    return check(a.check) if a.check else write()


if __name__ == "__main__":
    sys.exit(main())
