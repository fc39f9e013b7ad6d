#!/usr/bin/env python3
"""Writes tests/vectors/tokenizers: small tokenizers of every family that src/text reads, trained here with the families'
own configurations, and the ids that the reference libraries give for texts.json. tests/unit/test_tokenizers.c reads them.

  gen_tokenizers.py             write the files
  gen_tokenizers.py --add       keep the tokenizers that are there; write those that are missing, and all ids
  gen_tokenizers.py --check N   compare N random lines for each family with build/tests/test_tokenizers
  gen_tokenizers.py --check N --family NAME

Needs `pip install tokenizers transformers sentencepiece gguf`. Everything comes from this repository and fixed seeds.
"""
import argparse
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gen_tokenizer as texts  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
OUT = os.path.join(HERE, "tokenizers")
BIN = os.path.join(ROOT, "build/tests/test_tokenizers")
VOCAB = 560

# The patterns as the families publish them.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?"
         r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
            r"|\s+(?!\S)|\s+")
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "[INST]", "[/INST]", "<think>", "</think>",
            "<|user|>", "<|end|>", "<bos>", "<start_of_turn>", "<end_of_turn>", "WORD", "[MASK]", "ﬁne", "<0x41>", "<|im_", "_end|>"]
KINDS = sorted(texts.SCRIPTS)
BITS = (texts.SPACES + texts.CONTRACTIONS + SPECIALS * 2 + texts.CODE +
        ["e\u0301", "\u0301", "\u1100\u1161\u11a8", "\uac01", "\u0344", "\ufb01", "\u00bd", "\u2460", "\uff21\uff22", "\u212b", "\u0130", "\u017f",
         "'\u017f", "\u212a", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\u05e9\u05c1\u05dc\u05d5\u05dd",
         "\u202e", "\u200b", "\ufeff", "\x00", "\x01", "\x1f", "\x7f", "\x85", "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\u0958", "\u0f77",
         "\u1e9e", "\u00df", "\u01c5", "\u03c2\u03a3", "\u2581", "\u2581\u2581", "\u2581a", "\r\n\r\n", "\t\t", " \t ", "0" * 7, "12345", "\u0661\u0662\u0663",
         "\u216b", "DON'T", "we'LL", "'RE", "//", "/\n", "___", "a_b", "fooBARbaz", "ABC", "Abc", "aBC", "\u01f2x", "\u02b0", "\u3042\u30a2\u4e2d", "!a", "#if",
         "\u0e33", "\u0e4d\u0e32", "\u0ead\u0eb3", "\u0300\u0301\u0302", "\u0915\u094d\u0937", "\U0001f3fb", "\U00011111", "\u2f88d", "\U0002f80a"])


def char(rng):
    while True:
        c = rng.choice([rng.randint(0, 0x17F), rng.randint(0, 0x2FFF), rng.randint(0, 0xFFFF), rng.randint(0, 0x1FFFF), rng.randint(0, 0x10FFFF)])
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def line(rng):
    kind = rng.random()
    if kind < 0.3:
        return texts.line(rng, rng.choice(KINDS + ["english", "mixed"]))
    parts = []
    for _ in range(rng.randint(1, 10)):
        pick = rng.random()
        if pick < 0.45:
            parts.append(rng.choice(BITS))
        elif pick < 0.6:
            parts.append(rng.choice(texts.WORDS))
        elif pick < 0.7:
            parts.append(texts.word(rng, rng.choice(KINDS)))
        elif pick < 0.78:
            parts.append("".join(char(rng) for _ in range(rng.randint(1, 4))))
        elif pick < 0.84:
            parts.append(rng.choice("a '=-_\n1\u2581e\u0301") * rng.randint(1, 30))
        else:
            parts.append(rng.choice([" ", " ", "\t", "\n", "\r\n", " \n"]) * rng.choice([1, 2, 3, rng.randint(1, 40)]))  # runs of blanks
    return "".join(parts)


def corpus():
    rng = random.Random(7)
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        lines = f.read().split("\n")
    for kind in ["latin", "greek", "cyrillic", "han", "hiragana", "english", "mixed"]:
        lines += [texts.line(rng, kind) for _ in range(12)]
    for _ in range(1500):
        lines.append(" ".join(rng.choice(texts.WORDS) for _ in range(rng.randint(3, 14))))
    return [x for x in lines + texts.CODE * 5 if x.strip()]


def special(*names, **flags):
    return [AddedToken(x, special=True, normalized=False, **flags) for x in names]


def byte_level(steps, added=(), normalizer=None, whole=False, prefix=False, bos=None):
    t = Tokenizer(models.BPE(ignore_merges=whole))
    t.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not steps or steps[-1] == "gpt2")
    steps = [x for x in steps if x != "gpt2"]
    t.pre_tokenizer = pre_tokenizers.Sequence(steps + [level]) if steps else level
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(corpus(), trainer)
    t.add_tokens(list(added))
    if bos:
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, t.token_to_id(bos))])])
    return t


def byte_digits():
    """Falcon: two steps behind ByteLevel."""
    t = byte_level([pre_tokenizers.Punctuation("contiguous"), "gpt2"], special("<|endoftext|>"))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(False),
                                               isolated("[0-9][0-9][0-9]")])
    return t


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def sp_train(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=out, minloglevel=2, num_threads=1, hard_vocab_limit=False,
                                             **{"character_coverage": 0.98, "vocab_size": VOCAB, **options})
    return out.getvalue()


def rules_file(folder):
    """A few rules of normalisation, so that the compiled map is small."""
    rules = [("FF21", "41"), ("FF22", "42"), ("FB01", "66 69"), ("BD", "31 2044 32"), ("65 301", "E9"), ("A0", "20"), ("3000", "20"), ("9", "20"), ("A", "20"),
             ("D A", "20"), ("200B", ""), ("2460", "31"), ("AD", ""), ("E33", "E4D E32"), ("1100 1161", "AC00")]
    path = os.path.join(folder, "rules.tsv")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"{a}\t{b}\n" for a, b in rules)
    return path


GEMMA_SYMBOLS = ["<start_of_turn>", "\n\n", "▁▁", "▁▁▁", "</td>"]


def sp_models(folder, full=False, kept=None):
    if kept:
        return {x[:-6]: open(os.path.join(kept, x), "rb").read() for x in sorted(os.listdir(kept)) if x.endswith(".model")}
    rules = {"normalization_rule_name": "nmt_nfkc"} if full else {"normalization_rule_tsv": rules_file(folder)}
    llama = dict(model_type="bpe", byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True, normalization_rule_name="identity",
                 remove_extra_whitespaces=False, vocab_size=VOCAB + 260)
    return {
        "sp_llama": sp_train(**llama),
        "sp_gemma": sp_train(**{**llama, "add_dummy_prefix": False}, user_defined_symbols=GEMMA_SYMBOLS),
        "sp_bpe_nfkc": sp_train(model_type="bpe", control_symbols=["<ctl>"], user_defined_symbols=["<think>", "a_b"], **rules),
        "sp_unigram": sp_train(model_type="unigram", user_defined_symbols=["<think>", "a_b"], **rules),
        "sp_unigram_bytes": sp_train(model_type="unigram", byte_fallback=True, vocab_size=VOCAB + 260, treat_whitespace_as_suffix=True, **rules),
    }


def pieces(model):
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    return sp, [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]


def merges_of(vocab_scores):
    """As transformers' convert_slow_tokenizer.generate_merges."""
    vocab = {p: i for i, (p, _) in enumerate(vocab_scores)}
    merges = []
    for merge, score in vocab_scores:
        local = [(merge[:i], merge[i:], score) for i in range(1, len(merge)) if merge[:i] in vocab and merge[i:] in vocab]
        merges += sorted(local, key=lambda x: (vocab[x[0]], vocab[x[1]]))
    return [x[:2] for x in sorted(merges, key=lambda x: (x[2], len(x[0]), len(x[1])), reverse=True)]


def char_level(model, added, normalizer=None, pre=None, strip=True, post="<s>"):
    """A sentencepiece BPE model as transformers converts it."""
    _, list_ = pieces(model)
    t = Tokenizer(models.BPE({p: i for i, (p, _) in enumerate(list_)}, merges_of(list_), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer, t.pre_tokenizer = normalizer, pre
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    t.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))
    t.add_tokens(added)
    if post:
        t.post_processor = processors.TemplateProcessing(single=f"{post} $A", pair=f"{post} $A {post}:1 $B:1", special_tokens=[(post, t.token_to_id(post))])
    return t


def unigram(model, full):
    sp, list_ = pieces(model)
    proto = sentencepiece_proto(model)
    t = Tokenizer(models.Unigram(list_, unk_id=sp.unk_id(), byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    t.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    t.add_tokens(special("<s>", "</s>", "<unk>") + [AddedToken("<think>", special=False, normalized=False), AddedToken("a_b", special=False)])
    return t


def sentencepiece_proto(model):
    """normalizer_spec.precompiled_charsmap, by hand: fields 3 and 2 of the two messages."""
    def fields(b):
        i = 0
        while i < len(b):
            key, i = varint(b, i)
            if key & 7 == 0:
                v, i = varint(b, i)
            elif key & 7 == 2:
                n, i = varint(b, i)
                v, i = b[i:i + n], i + n
            else:
                n = {1: 8, 5: 4}[key & 7]
                v, i = b[i:i + n], i + n
            yield key >> 3, v

    def varint(b, i):
        v = shift = 0
        while True:
            v |= (b[i] & 127) << shift
            shift, i = shift + 7, i + 1
            if b[i - 1] < 128:
                return v, i
    spec = next(v for k, v in fields(model) if k == 3)
    return next(v for k, v in fields(spec) if k == 2)


def json_families(sp, full):
    end = special("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    think = [AddedToken(x, special=False, normalized=False) for x in ("<think>", "</think>")]
    digits = pre_tokenizers.Digits(individual_digits=True)
    marks = special("<s>", "</s>", "<unk>", "<|user|>", "<|end|>")
    prefix = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    space = pre_tokenizers.Metaspace
    odd = [AddedToken("[MASK]", special=True, lstrip=True, normalized=False), AddedToken("WORD", single_word=True, normalized=False),
           AddedToken("<think>", rstrip=True, lstrip=True, normalized=True), AddedToken("ﬁne", normalized=True, single_word=True),
           AddedToken("<|im_end|>", special=True, rstrip=True, normalized=True), AddedToken("<|user|>", special=True, single_word=True, normalized=False)]
    return {
        "gpt2": lambda: byte_level([], special("<|endoftext|>")),
        "gpt2_prefix": lambda: byte_level([], special("<|endoftext|>") + odd, prefix=True),
        "smollm": lambda: byte_level([digits, "gpt2"], end),
        "llama3": lambda: byte_level([isolated(LLAMA3)], end + special("<bos>"), whole=True, bos="<bos>"),
        "qwen2": lambda: byte_level([isolated(QWEN2)], end + think, normalizers.NFC()),
        "cl100k": lambda: byte_level([isolated(LLAMA3)], end + [AddedToken("  ", normalized=False), AddedToken("   ", normalized=True)]),
        "tekken": lambda: byte_level([isolated(TEKKEN)], special("<s>", "</s>", "[INST]", "[/INST]"), whole=True, bos="<s>"),
        "o200k": lambda: byte_level([isolated(O200K)], end),
        "deepseek": lambda: byte_level([isolated(r"\p{N}{1,3}"), isolated("[一-龥぀-ゟ゠-ヿ]+"), isolated(DEEPSEEK)], end + think),
        "falcon": lambda: byte_digits(),
        "tiny_aya": lambda: byte_level([isolated(r"\d{1,3}(?=(?:\d{3})*\b)"), isolated(O200K)], end),
        "llama2": lambda: char_level(sp["sp_llama"], special("<s>", "</s>", "<unk>"), prefix),
        "tinyllama": lambda: char_level(sp["sp_llama"], [AddedToken(x, special=True, normalized=True) for x in ("<s>", "</s>", "<unk>")], prefix),
        "phi3": lambda: char_level(sp["sp_llama"], special("<s>", "</s>", "<unk>") + special("<|user|>", "<|end|>", rstrip=True) + odd[1:2], prefix),
        "mistral": lambda: char_level(sp["sp_llama"], special("<s>", "</s>", "<unk>", "[INST]", "[/INST]"), None, space("▁", "first", False)),
        "gemma": lambda: char_level(sp["sp_gemma"], special("<s>", "</s>", "<unk>", "<start_of_turn>") + [AddedToken(x, normalized=False) for x in ("\n\n", "▁▁▁")],
                                    normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), strip=False),
        "t5": lambda: unigram(sp["sp_unigram"], full),
        "nfkd": lambda: byte_level([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(False)], odd,
                                   normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]), prefix=True),
        "splits": lambda: split_family(sp["sp_llama"], marks + odd),
        "unks": lambda: unk_family(),
    }


def split_family(model, added):
    pre = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[\w']+"), "merged_with_next"), pre_tokenizers.Split("=", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[^\s]+"), "contiguous", invert=True), pre_tokenizers.Metaspace("▁", "always", True), pre_tokenizers.Punctuation("removed")])
    return char_level(model, added, normalizers.Sequence([normalizers.Strip(), normalizers.NFKC(), normalizers.Replace(Regex("b+"), "B ")]), pre)


def unk_family():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.Strip(True, False), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Metaspace("▁", "first", True)])
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=300, limit_alphabet=60, special_tokens=["<unk>"], show_progress=False))
    return t


def write_gguf(path, model, tokens, types, merges=None, scores=None, **more):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if merges is not None:
        w.add_token_merges(merges)
    if scores is not None:
        w.add_token_scores(scores)
    for key, value in more.items():
        getattr(w, key)(value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def sp_gguf(path, model, user_defined=(), prefix=True):
    """As llama.cpp's converter writes it: user-defined symbols (type 4) have plain blanks."""
    sp, list_ = pieces(model)
    kind = lambda i: (2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if list_[i][0] in user_defined else 1)  # noqa: E731
    types = [kind(i) for i in range(len(list_))]
    tokens = [(p.replace("\u2581", " ") if t == 4 else p).encode() for (p, _), t in zip(list_, types)]
    write_gguf(path, "llama", tokens, types, scores=[s for _, s in list_], add_bos_token_id=1, add_eos_token_id=2, add_add_bos_token=True,
               add_add_space_prefix=prefix)


def bpe_gguf(path, t, pre):
    doc = json.loads(t.to_str())
    n = t.get_vocab_size()
    added = {x["id"]: x for x in doc["added_tokens"]}
    kind = lambda i: 2 if t.id_to_token(i) == "<unk>" else (3 if added[i]["special"] else 4) if i in added else 6 if is_byte(t.id_to_token(i)) else 1  # noqa: E731
    is_byte = lambda x: doc["model"]["byte_fallback"] and len(x) == 6 and x.startswith("<0x")  # noqa: E731
    types = [kind(i) for i in range(n)]
    merges = [" ".join(m) if isinstance(m, list) else m for m in doc["model"]["merges"]]
    write_gguf(path, "gemma4" if pre == "gemma4" else "gpt2", [t.id_to_token(i).encode() for i in range(n)], types, merges,
               add_tokenizer_pre="default" if pre == "gemma4" else pre)  # which that kind of file does not use


# families that a GGUF file can hold: name -> (the family, its tokenizer.ggml.pre); those that are kept share the family's ids
GGUF = {"gguf_qwen2": ("qwen2", "qwen2"), "gguf_llama3": ("llama3", "llama-bpe"), "gguf_gpt2": ("gpt2", "gpt-2"), "gguf_smollm": ("smollm", "smollm"),
        "gguf_starcoder": ("smollm", "starcoder"), "gguf_refact": ("smollm", "refact"), "gguf_tekken": ("tekken", "tekken"), "gguf_gpt4o": ("o200k", "gpt-4o"),
        "gguf_deepseek": ("deepseek", "deepseek-v3"), "gguf_falcon": ("falcon", "falcon"), "gguf_tiny_aya": ("tiny_aya", "tiny_aya"),
        "gguf_gemma": ("gemma", "gemma4")}
KEPT_GGUF = {"gguf_qwen2": "qwen2", "gguf_llama": "sp_llama", "gguf_sp_gemma": "sp_gemma", "gguf_falcon": "falcon", "gguf_gemma": "gemma"}


def build(folder, full, kept=None):
    """name -> (path, reference: text -> ids). kept: a folder of tokenizers to use instead of training them."""
    sp = sp_models(folder, full, kept)
    out, json_made = {}, {}
    for name, make in json_families(sp, full).items():
        there = kept and os.path.join(kept, name + ".json")
        t = Tokenizer.from_file(there) if there and os.path.exists(there) else make()
        path = os.path.join(folder, name + ".json")
        doc = json.loads(t.to_str())
        with open(path, "w", encoding="utf-8") as f:
            json.dump(doc, f, ensure_ascii=False, separators=(",", ":"))
        t = Tokenizer.from_file(path)  # with the ids and flags of the file
        json_made[name] = t
        out[name] = (path, lambda x, t=t: t.encode(x, add_special_tokens=False).ids)
    for name, model in sp.items():
        path = os.path.join(folder, name + ".model")
        with open(path, "wb") as f:
            f.write(model)
        p = sentencepiece.SentencePieceProcessor(model_proto=model)
        out[name] = (path, p.encode)
    path = os.path.join(folder, "gguf_llama.gguf")
    sp_gguf(path, sp["sp_llama"])
    out["gguf_llama"] = (path, out["sp_llama"][1])
    path = os.path.join(folder, "gguf_sp_gemma.gguf")
    sp_gguf(path, sp["sp_gemma"], GEMMA_SYMBOLS, prefix=False)
    out["gguf_sp_gemma"] = (path, out["sp_gemma"][1])
    for name, (family, pre) in GGUF.items():
        path = os.path.join(folder, name + ".gguf")
        bpe_gguf(path, json_made[family], pre)
        out[name] = (path, out[family][1])
    return out


def comparable(name, text):
    """sentencepiece takes no control tokens from text. tokenizers' classes of characters are of several versions of Unicode, newer and older than ours:
    the families of odd steps are compared on characters that all of them know."""
    if name.startswith("sp_") or name in ("gguf_llama", "gguf_sp_gemma"):
        return not any(x in text for x in ("<s>", "</s>", "<unk>", "<ctl>"))
    old = unicodedata.ucd_3_2_0
    return name not in ("nfkd", "splits", "unks") or all(old.category(c) not in ("Cn", "Co") for x in (text, old.normalize("NFKD", text)) for c in x)


def ours(path, lines):
    p = subprocess.run([BIN, "encode", path], input="".join(json.dumps([x]) + "\n" for x in lines).encode(), stdout=subprocess.PIPE, check=True)
    return [[int(i) for i in x.split()] for x in p.stdout.decode().split("\n")[:-1]]


def check(n, only, full):
    rng = random.Random(n)
    lines = [line(rng) for _ in range(n)]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (path, reference) in build(folder, full).items():
            if only and name != only:
                continue
            mine = [x for x in lines if comparable(name, x)]
            got = ours(path, mine)
            want = [reference(x) for x in mine]
            wrong = [i for i in range(len(mine)) if got[i] != want[i]]
            print(f"{name:18} {len(mine)} lines, {len(wrong)} differ", flush=True)
            for i in sorted(wrong, key=lambda i: len(mine[i]))[:3]:
                print("   ", ascii(mine[i]), "\n      want", want[i], "\n      got ", got[i])
            bad += len(wrong)
    return 1 if bad else 0


def write(add):
    os.makedirs(OUT, exist_ok=True)
    rng = random.Random(20260101)
    lines = ["", " ", "  ", "a", " a", "a ", "Hello, world!", "\x00", "a\x00b", "\n", "a\nb", "aa" * 60, "日本語" * 9]
    lines += [x for x in BITS if len(x) < 30][:: 3]
    while len(lines) < 130:
        x = line(rng)
        if len(x) <= 60:
            lines.append(x)
    with open(os.path.join(OUT, "texts.json"), "w", encoding="utf-8") as f:
        json.dump(lines, f, separators=(",\n", ":"))
    with tempfile.TemporaryDirectory() as folder:
        for name, (path, reference) in build(folder, False, OUT if add else None).items():
            to = os.path.join(OUT, KEPT_GGUF.get(name, name) + os.path.splitext(path)[1])
            if name in GGUF and name not in KEPT_GGUF:
                continue
            if not add or not os.path.exists(to):
                with open(path, "rb") as f:
                    data = f.read()
                with open(to, "wb") as f:
                    f.write(data)
            if name in KEPT_GGUF:
                continue
            ids = [reference(x) if comparable(name, x) else None for x in lines]
            with open(os.path.join(OUT, name + ".ids"), "w", encoding="utf-8") as f:
                json.dump(ids, f, separators=(",", ":"))
    return 0


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--check", type=int)
    a.add_argument("--family")
    a.add_argument("--add", action="store_true")
    a.add_argument("--small", action="store_true", help="with --check: the small map of normalisation that is committed")
    a = a.parse_args()
    return check(a.check, a.family, not a.small) if a.check else write(a.add)


if __name__ == "__main__":
    sys.exit(main())
