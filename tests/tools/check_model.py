#!/usr/bin/env python3
"""Compares a model here with Hugging Face transformers: token ids of texts, raw logits, and every layer.

    make check-model MODEL=FOLDER|FILE.gguf [PYTHON=python3] [WEIGHTS=auto] [DTYPE=f32] [TEXT='...']

PYTHON is an interpreter that has torch and transformers (for GGUF files also gguf and accelerate); nothing else here needs them. In f32,
with weights as the file has them, differences are rounding only (some 1e-5 of the largest value); other settings show what
they cost. Exit 1: logits differ by more than TOLERANCE (1e-3 of the largest) in f32, or ids differ.
"""
import argparse
import json
import os
import subprocess
import sys

TEXTS = ["The quick brown fox jumps over the lazy dog. 1234567890 + 3.14 = ?\n\n\tdef f(x):\n    return x  # done\n",
         "L'été, où naîtra-t-il ? Ünïcödé — “quotes”, 日本語のテキスト, 한국어, العربية, עברית, ไทย, 🎉👩‍👩‍👧‍👦.",
         "  leading blanks, trailing blanks  \r\n\r\nIT'S we'll I'VE don't 007 1,000,000 aaaaaaaaaaaaaaaaaaaaaaaaa"]


def transformers_model(path):
    if not os.path.exists(path):
        sys.exit(f"check-model: {path}: no such file or folder (a path is expected, not a name)")
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as e:
        sys.exit(f"check-model: {sys.executable} has no {e.name}: PYTHON=... names an interpreter with torch and transformers")
    logging.set_verbosity_error()
    if os.path.isdir(path):
        place, extra = path, {}
    else:
        place, extra = os.path.dirname(os.path.abspath(path)), {"gguf_file": os.path.basename(path)}
    model = AutoModelForCausalLM.from_pretrained(place, **extra, dtype=torch.float32, attn_implementation="eager").eval()
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **extra)
    except Exception as e:  # a folder without one: ids are made up below
        print(f"no tokenizer for transformers ({type(e).__name__}): ids are not compared")
        tokenizer = None
    return torch, model, tokenizer


def ours(command, text):
    r = subprocess.run(command, input=text, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"check-model: {r.stderr.strip()}")
    return json.loads(r.stdout)


def compare_ids(tokenizer, program, path, texts):
    bad = 0
    for text in texts:
        want = tokenizer(text)["input_ids"]
        got = ours([program, "tokenize", "--model", path, "--prompt-file", "-", "--raw", "--json"], text)["ids"]
        same, begin = got == want, abs(len(got) - len(want)) == 1 and (got[1:] == want or want[1:] == got)
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        print(f"ids of {text[:30]!r}...: " + ("equal" if same else "equal but for a begin token" if begin else f"differ at {at}: {got[at:at + 5]} here, {want[at:at + 5]} there"))
        bad += not (same or begin)
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--build", default="build")
    p.add_argument("--weights", default="auto")
    p.add_argument("--dtype", default="f32")
    p.add_argument("--text", default=TEXTS[0])
    p.add_argument("--tolerance", type=float, default=1e-3)
    a = p.parse_args()
    torch, model, tokenizer = transformers_model(a.model)
    bad = compare_ids(tokenizer, os.path.join(a.build, "logitspec"), a.model, TEXTS + [a.text]) if tokenizer else 0
    ids = tokenizer(a.text)["input_ids"] if tokenizer else [(i * 37 + 5) % model.config.vocab_size for i in range(40)]
    got = ours([os.path.join(a.build, "tests", "probe"), a.model, a.weights, a.dtype], " ".join(map(str, ids)))
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True)
    print(f"{len(ids)} tokens; weights {a.weights}, arithmetic {a.dtype}; the last row, largest difference (largest value):")
    states = [h[0, -1].float() for h in out.hidden_states]
    names = ["embedding"] + [f"layer {i}" for i in range(len(states) - 2)]  # its last one is behind the final norm
    for name, want, have in zip(names, states, got["layers"]):
        print(f"  {name:10} {float((want - torch.tensor(have)).abs().max()):.3g} ({float(want.abs().max()):.3g})")
    want, have = out.logits[0, -1].float(), torch.tensor(got["logits"])[:out.logits.shape[-1]]
    worst, largest = float((want - have).abs().max()), float(want.abs().max())
    print(f"  {'logits':10} {worst:.3g} ({largest:.3g}); best token {int(have.argmax())} here, {int(want.argmax())} there")
    exact = a.dtype == "f32" and a.weights == "auto"
    if bad or (exact and worst > a.tolerance * largest):
        sys.exit(f"check-model: {'ids' if bad else 'logits'} differ")
    print("check-model: " + ("equal within the tolerance" if exact else "ids are equal; the above is what these settings cost"))


main()
