#!/usr/bin/env python3
"""Decodes prompts with a mixture of experts and trees of several sizings, and says what the trees' experts cost.

    tests/bench/mixture_trees.py MODEL [--build build] [--prompts MODEL/prompts.jsonl] [--count 8] [--tokens 160] [--threads 1]

All sizings answer each prompt in turn, so that a busy machine is busy for all of them. A table of sizings: tokens a second,
medians of steps, distinct experts of a step against routers that choose at random, the errors of both costs; and how often
predictions are right. `by one curve` is modelled: all steps with the same times, those measured before, by rows and experts.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

SIZINGS = ("fixed:1", "fixed:2", "fixed:4", "fixed:8", "fixed:16", "rows", "auto")
STEP = re.compile(r"step \d+\.\d+: context \d+, (\d+) rows of at most \d+, \d+ accepted, (\d+) emitted.*us: draft (\d+), "
                  r"forward (\d+), verify \d+, commit \d+, in all (\d+)")
EXPERTS = re.compile(r"experts: (\d+) awake, (\d+) expected; forward ([\d.]+) ms, expected by rows ([\d.]+), by experts ([\d.]+); "
                     r"right by kind (\S+)% (\S+)% (\S+)%")


def decode(o, prompt, sizing):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        run = subprocess.run([os.path.join(o.build, "logitspec"), "generate", "--model", o.model, "--raw", "--prompt", prompt, "--threads",
                              str(o.threads), "--max-tokens", str(o.tokens), "--sizing", sizing, "--log", log, "--quiet", "--offline"],
                             stdout=subprocess.PIPE, check=True)
        steps, experts = [], None
        with open(log, encoding="utf-8", errors="replace") as f:
            for line in f:
                if m := EXPERTS.search(line):
                    experts = m
                if m := STEP.search(line):
                    if experts:
                        rows, emitted, draft, forward, total = map(int, m.groups())
                        awake, guess, ms, by_rows, by_experts = map(float, experts.groups()[:5])
                        steps.append(dict(rows=rows, emitted=emitted, draft=draft, ms=ms, total=total / 1e3, awake=awake, guess=guess,
                                          by_rows=by_rows, by_experts=by_experts))
                        right = experts.groups()[5:]
                    experts = None
    return run.stdout, steps, [float(x) for x in right]


def costs(o):
    """The times that were measured before, from the cache: {rows: (ms, awake)}, and ms of an expert."""
    found = subprocess.run([os.path.join(o.build, "logitspec"), "doctor", "--model", o.model, "--threads", str(o.threads), "--offline"],
                           stdout=subprocess.PIPE, check=False).stdout.decode()
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "logitspec", "costs")
    files = [os.path.join(folder, f) for f in os.listdir(folder)]
    text = max((f for f in files if open(f).read(15) == "logitspec-costs"), key=os.path.getmtime)
    lines = open(text).read().split("\n")
    expert = float(lines[3].split()[7])
    return found, lines[2], expert, {int(a): (float(b), float(c)) for a, b, c in (x.split() for x in lines[4:] if x)}


def at(curve, i, rows):
    sizes = sorted(curve)
    for a, b in zip(sizes, sizes[1:]):
        if rows <= b:
            return curve[a][i] + (curve[b][i] - curve[a][i]) * (rows - a) / (b - a)
    return curve[sizes[-1]][i]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model")
    a.add_argument("--build", default="build")
    a.add_argument("--prompts")
    a.add_argument("--count", type=int, default=8)
    a.add_argument("--tokens", type=int, default=160)
    a.add_argument("--threads", type=int, default=1)
    o = a.parse_args()
    with open(os.path.join(o.model, "config.json")) as f:
        c = json.load(f)
    layers, all_experts, used = c["num_hidden_layers"], c["num_experts"], c["num_experts_per_tok"]
    with open(o.prompts or os.path.join(o.model, "prompts.jsonl")) as f:
        prompts = [json.loads(line)["turns"][0] for line in f][:o.count]
    _, how, expert_ms, curve = costs(o)
    print(f"{how}; an expert {1e3 * expert_ms:.1f} us; " + ", ".join(f"{n} rows {curve[n][0]:.3f} ms {curve[n][1]:.0f} experts" for n in sorted(curve)))
    steps, right = {s: [] for s in SIZINGS}, {s: [] for s in SIZINGS}
    for i, prompt in enumerate(prompts):
        texts = set()
        for k in range(len(SIZINGS)):
            s = SIZINGS[(k + i) % len(SIZINGS)]
            text, of, rates = decode(o, prompt, s)
            steps[s] += of
            right[s].append(rates)
            texts.add(text)
        assert len(texts) == 1, "the texts differ"
    print("| sizing | tokens/s | ms/token by one curve | tokens/step | rows/step | experts/step | random routers | expected | forward, ms | off by rows, ms | by experts, ms |")
    print("|" + "---|" * 11)
    for s, of in steps.items():
        emitted, n = sum(x["emitted"] for x in of), len(of)
        mean = lambda key: statistics.fmean(x[key] for x in of)
        model = sum(at(curve, 0, x["rows"]) + expert_ms * (x["awake"] - at(curve, 1, x["rows"])) for x in of) / emitted
        chance = statistics.fmean(layers * all_experts * (1 - (1 - used / all_experts) ** x["rows"]) for x in of)
        off = [statistics.median(abs(x[key] - x["ms"]) for x in of) for key in ("by_rows", "by_experts")]
        print(f"| {s} | {1e3 * emitted / sum(x['total'] for x in of):.0f} | {model:.3f} | {emitted / n:.2f} | {mean('rows'):.1f} | {mean('awake'):.1f} | "
              f"{chance:.1f} | {mean('guess'):.1f} | {mean('ms'):.3f} | {off[0]:.3f} | {off[1]:.3f} |")
    for s in ("rows", "auto"):
        kinds = [statistics.fmean(x for x in column if x == x) for column in zip(*right[s])]
        print(f"{s}: predictions by the text's last row {kinds[0]:.0f}%, by the token {kinds[1]:.0f}%, by two tokens {kinds[2]:.0f}% right")


if __name__ == "__main__":
    main()
