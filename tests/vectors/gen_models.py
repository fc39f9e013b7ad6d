#!/usr/bin/env python3
"""Makes tests/vectors/models.json (of the models that are named, else of all): what Hugging Face transformers says about the tiny checkpoints of tests/tools/tiny.py.

Needs torch and transformers (made with transformers 4.57 and torch 2.13, the
models of tiny.ADDED with 5.24 and 2.15; eager attention in f32): raw logits of three rows of
a seeded prompt, and 200 greedy tokens. Run it from the repository's root; it writes the checkpoints to a temporary folder.
"""
import json
import os
import sys
import tempfile

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

sys.path.insert(0, "tests/tools")
import tiny  # noqa: E402

ROWS = (0, 30, 59)


def main():
    out = {}
    torch.set_num_threads(1)
    if sys.argv[1:]:
        with open("tests/vectors/models.json", encoding="utf-8") as f:
            out = json.load(f)
    with tempfile.TemporaryDirectory() as d:
        for name in sys.argv[1:] or tiny.MODELS:
            tiny.write(d, name)
            folder = os.path.join(d, name)
            config = AutoConfig.from_pretrained(folder)
            auto = AutoModelForImageTextToText if name in tiny.PICTURES else AutoModelForCausalLM
            model = auto.from_pretrained(folder, config=config, dtype=torch.float32,
                                                         attn_implementation="eager").eval()
            r = tiny.Random(100 + tiny.SEEDS[name])
            ids = [min(int((v + 1) / 2 * tiny.VOCAB), tiny.VOCAB - 1) for v in r.values(60, 1.0)]
            with torch.no_grad():
                logits = model(torch.tensor([ids])).logits[0].float()
                all_ids, closest = list(ids), float("inf")
                for _ in range(200):
                    last = model(torch.tensor([all_ids])).logits[0, -1].float()
                    top = torch.topk(last, 2).values
                    closest = min(closest, float(top[0] - top[1]))
                    all_ids.append(int(last.argmax()))
            out[name] = {"prompt": ids, "rows": {str(i): [float(f"{x:.7g}") for x in logits[i].tolist()] for i in ROWS},
                         "greedy": all_ids[60:], "closest": float(f"{closest:.3g}")}
            if name == "phi4-long":  # within the original context the rotation is another one
                with torch.no_grad():
                    short = model(torch.tensor([ids[:31]])).logits[0, 30].float()
                out[name]["short"] = {"30": [float(f"{x:.7g}") for x in short.tolist()]}
            print(name, "closest choice", closest, "distinct", len(set(all_ids[60:])), "range",
                  float(logits.min()), float(logits.max()), flush=True)
    with open("tests/vectors/models.json", "w", encoding="utf-8") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


main()
