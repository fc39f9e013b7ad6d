#!/usr/bin/env python3
"""Decodes prompts with a mixture of experts and trees of several sizings, and says what the trees' experts cost.

    tests/bench/mixture_trees.py MODEL [--build build] [--prompts MODEL/prompts.jsonl] [--count 8] [--tokens 160] [--threads 1] [--given] [--rounds 1]

Costs are measured first; --given: steps do not correct them, so that trees are the same in every run; `rows, fitted` is then `rows` by
the times of trees with the experts that the fixed sizings woke on all prompts, which steps would teach it. --rounds: then a step's time is the shortest of as many runs. All sizings answer each prompt in turn, so that a busy machine is busy for all of them. A table of
sizings: tokens a second; the same by one curve (modelled: the rows and experts of the steps that were run, all at the measured
times); means of steps; distinct experts beside those of random routers, L E (1 - (1 - k / E)^rows), and those expected; and how
far costs were off (median of |T - forward| / forward): by rows, corrected by steps as before experts were known, and by experts.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

FIXED = (1, 2, 4, 8, 16)
SIZINGS = (*(f"fixed:{n}" for n in FIXED), "rows", "rows, fitted", "auto")
STEP = re.compile(r"step \d+\.\d+: context \d+, (\d+) rows of at most \d+, \d+ accepted, (\d+) emitted.*us: draft (\d+), "
                  r"forward (\d+), verify \d+, commit \d+, in all (\d+)")
EXPERTS = re.compile(r"experts: (\d+) awake, (\d+) expected; forward ([\d.]+) ms, expected by rows ([\d.]+), by experts ([\d.]+); "
                     r"right by kind (\S+)% (\S+)% (\S+)%")


def decode(o, prompt, sizing, given):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        run = subprocess.run([os.path.join(o.build, "logitspec"), "generate", "--model", o.model, "--raw", "--prompt", prompt, "--threads",
                              str(o.threads), "--max-tokens", str(o.tokens), "--sizing", sizing, "--log", log, "--quiet", "--offline", *given],
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
    found = subprocess.run([os.path.join(o.build, "logitspec"), "doctor", "--calibrate", "--model", o.model, "--threads", str(o.threads), "--offline"],
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


def off_by_rows(of, curve):
    """Relative errors of T(rows), which learns 5% of each deviation for steps of that size."""
    learnt, off = {}, []
    for x in of:
        f = learnt.setdefault(x["rows"], 1.0)
        expected = f * at(curve, 0, x["rows"])
        off.append(abs(expected - x["ms"]) / x["ms"])
        learnt[x["rows"]] = f * (1 + 0.05 * min(1, x["ms"] / expected - 1))
    return off


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model")
    a.add_argument("--build", default="build")
    a.add_argument("--prompts")
    a.add_argument("--count", type=int, default=8)
    a.add_argument("--tokens", type=int, default=160)
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--given", action="store_true")
    a.add_argument("--rounds", type=int, default=1)
    o = a.parse_args()
    with open(os.path.join(o.model, "config.json")) as f:
        c = json.load(f)
    layers, all_experts, used = c["num_hidden_layers"], c["num_experts"], c["num_experts_per_tok"]
    with open(o.prompts or os.path.join(o.model, "prompts.jsonl")) as f:
        prompts = [json.loads(line)["turns"][0] for line in f][:o.count]
    _, how, expert_ms, curve = costs(o)
    print(f"{how}; an expert {1e3 * expert_ms:.1f} us; " + ", ".join(f"{n} rows {curve[n][0]:.3f} ms {curve[n][1]:.0f} experts" for n in sorted(curve)))
    points = ",".join(f"{n}:{ms:.4g}:{awake:g}" for n, (ms, awake) in sorted(curve.items())) + f",expert:{expert_ms:.4g}"
    given = ["--costs", points] if o.given else []
    steps, right, by_rows = {s: [] for s in SIZINGS}, {s: [] for s in SIZINGS}, {s: [] for s in SIZINGS}
    texts = {}

    answers = {}  # (sizing, prompt) -> its steps

    def answer(i, s, given):
        text, of, rates = decode(o, prompts[i], s.split(",")[0], given)
        assert texts.setdefault(i, text) == text, "the texts differ"
        right[s].append(rates)
        for x, before in zip(of, answers.get((s, i), of)):
            assert (x["rows"], x["awake"]) == (before["rows"], before["awake"]), "the trees differ"
            for key in "total", "ms", "draft":
                x[key] = min(x[key], before[key])
        answers[s, i] = of

    def in_turn(sizings):  # [(name, given costs)]
        for k in range((o.rounds if o.given else 1) * len(prompts) * len(sizings)):
            prompt, turn = k // len(sizings) % len(prompts), k % len(sizings) + k // len(sizings)
            answer(prompt, *sizings[turn % len(sizings)])
        for (s, i), of in answers.items():
            if s in (name for name, _ in sizings):
                steps[s] += of
                by_rows[s] += off_by_rows(of, curve)

    if not o.given:
        sizes = [s for s in SIZINGS if "," not in s]
        in_turn([(s, []) for s in sizes])
    else:
        sizes = SIZINGS
        in_turn([(f"fixed:{n}", given) for n in FIXED])
        woke = {n: (0, statistics.fmean(x["awake"] for x in steps[f"fixed:{n}"] if x["rows"] == n)) for n in FIXED}
        fitted = [(n, curve[n][0] + expert_ms * (woke[n][1] - curve[n][1])) for n in FIXED]
        more = fitted[-1][1] / curve[16][0]
        fitted += [(n, curve[n][0] * more) for n in (24, 32, 48, 64)]
        in_turn([("rows", given), ("rows, fitted", ["--costs", ",".join(f"{n}:{ms:.4g}" for n, ms in fitted)]), ("auto", given)])
    print("| sizing | tokens/s | tokens/s by one curve | tokens/step | rows | experts | of random routers | expected | draft, us | forward, ms | off by rows | "
          "by experts |")
    print("|" + "---|" * 12)
    for s in sizes:
        of = steps[s]
        emitted, n = sum(x["emitted"] for x in of), len(of)
        mean = lambda key: statistics.fmean(x[key] for x in of)
        model = sum(at(curve, 0, x["rows"]) + expert_ms * (x["awake"] - at(curve, 1, x["rows"])) for x in of) / emitted
        chance = statistics.fmean(layers * all_experts * (1 - (1 - used / all_experts) ** x["rows"]) for x in of)
        off = statistics.median(abs(x["by_experts"] - x["ms"]) / x["ms"] for x in of)
        print(f"| {s} | {1e3 * emitted / sum(x['total'] for x in of):.0f} | {1e3 / model:.0f} | {emitted / n:.2f} | {mean('rows'):.1f} | {mean('awake'):.1f} | "
              f"{chance:.1f} | {mean('guess'):.1f} | {mean('draft'):.0f} | {mean('ms'):.2f} | {100 * statistics.median(by_rows[s]):.0f}% | {100 * off:.0f}% |")
    for s in ("rows", "auto"):
        kinds = [statistics.fmean(x for x in column if x == x) for column in zip(*right[s])]
        print(f"{s}: predictions by the text's last row {kinds[0]:.0f}%, by the token {kinds[1]:.0f}%, by two tokens {kinds[2]:.0f}% right")


if __name__ == "__main__":
    main()
