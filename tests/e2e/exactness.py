#!/usr/bin/env python3
"""Every exact method against plain decoding, in every arithmetic, at every CPU level: the same tokens,
and bit for bit the same logits where a trace has them. Prints a table of what was run; exit code 1 on the first difference.
Usage: exactness.py [LEVEL...]; without one: all that this CPU has.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from program import BUILD, HAS_ENGINE, ROOT, cpu_levels, run

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import folders  # noqa: E402

DTYPES = ("f32", "i16", "i8", "bf16")
THREADS = {"tiny": "7", "default": "3"}  # numbers that do not divide what threads share
WAYS = {"greedy": [], "T 0.8, top-p 0.9": ["--temperature", "0.8", "--top-p", "0.9", "--seed", "11"],
        "T 1, top-k 40": ["--temperature", "1", "--top-k", "40", "--seed", "12"],
        "T 1.3": ["--temperature", "1.3", "--seed", "13"]}
# fixed trees: nothing is measured first; every drafter with a small and a larger one
METHODS = [f"{m}:{rows}" for m in ("logitspec", "logitspec-paper", "logit-only", "retrieval-only", "pld", "recycle", "racer",
                                   "cacheback", "suffix", "lookahead") for rows in (3, 13)]
METHODS += ["draft-model:5", "hybrid:13", "hierarchical:7+overlap=on"]


class Differs(AssertionError):
    pass


def env(level):
    return {"LOGITSPEC_PROCESSORS": "7"} | ({"LOGITSPEC_CPU": level} if level else {})


def program(*args, level=None, timeout=3600):
    r = run(*args, env=env(level), timeout=timeout)
    if r.returncode:
        raise Differs(f"LOGITSPEC_CPU={level} logitspec {' '.join(args)}: exit code {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    return r.stdout


def tokens_are_equal(model, level, dtype, way, prompt, n, methods=METHODS):
    """None: the CPU lacks the level. Else how many methods' tokens were compared, and the kernel."""
    o = json.loads(program("compare", *model, "--dtype", dtype, "--prompt", prompt, "--max-tokens", str(n), "--methods",
                           ",".join(["plain:1", *methods]), "--json", *way, level=level))
    if level and not o["manifest"]["kernel"].startswith(level + ","):
        return None
    asked = int(model[model.index("--threads") + 1])
    if not (o["equal"] and o["exact"] and o["manifest"]["threads"] == asked and o["manifest"]["dtype"].split()[-1] == dtype):
        raise Differs(f"{level} {dtype}: {o['methods']}")
    return len(methods), o["manifest"]["kernel"]


def rows_of(trace):
    """[turn] -> {position in the output: (log-sum-exp, best tokens with their logits) of the row that predicts it}"""
    turns = []
    with open(trace, encoding="utf-8") as f:
        for line in map(json.loads, f):
            if line["type"] == "header":
                turns = turns[:line["turn"]] + [{}]
            elif line["type"] == "step":
                at = line["output_pos"]
                turns[-1][at] = (line["last"]["lse"], line["last"]["top"][:8])
                for i, k in enumerate(line["path"]):
                    if line["forward"]:
                        turns[-1][at + i + 1] = (line["nodes"][k]["lse"], line["nodes"][k]["top"])
    return turns


def bits_are_equal(model, level, dtype, way, prompt, n, methods=("logitspec:13", "lookahead:13")):
    """How many rows of logits were compared by their traces."""
    rows, compared = {}, 0
    with tempfile.TemporaryDirectory() as d:
        for method in ("plain:1", *methods):
            trace = os.path.join(d, "t.jsonl")
            name, budget = method.split(":")
            program("generate", *model, "--dtype", dtype, "--prompt", prompt, "--max-tokens", str(n), "--method", name,
                    "--max-rows", budget, "--trace", trace, "--json", *way, level=level)
            rows[method] = rows_of(trace)[0]
            plain = rows["plain:1"]
            for at in set(plain) & set(rows[method]):
                if plain[at] != rows[method][at]:
                    raise Differs(f"{level} {dtype} {method}: logits before token {at}: {rows[method][at]}, plain {plain[at]}")
                compared += method != "plain:1"
    return compared


def screen(d, model, dtype, lines, *args, level=None):
    """Drives the screen by a script; the session's trace."""
    script, trace = os.path.join(d, "keys"), os.path.join(d, "trace.jsonl")
    with open(script, "w", encoding="utf-8") as f:
        f.write("size 120x36\nwait READY\n" + "\n".join(lines) + "\n")
    program("chat", *model, "--dtype", dtype, "--script", script, "--trace", trace, *args, level=level)
    return trace


def say(text, turn):
    return ["key Esc p", f"type {text}", "key Enter", f"wait │ {f'turn {turn}, ' if turn > 1 else ''}step", "wait READY"]


def conversations_go_on(model, dtype, way, n, level=None, method="logitspec:8"):
    """Three turns in one go, plainly; and two, saved, loaded by another program that drafts, and the third there."""
    prompts = ("abc abc", "ab ba ab", "c ab abc")
    name, budget = method.split(":")
    plain, drafts = ["--method", "plain", "--max-rows", "1"], ["--method", name, "--max-rows", budget]
    with tempfile.TemporaryDirectory() as d:
        def go(lines, how):
            return screen(d, model, dtype, lines, "--max-tokens", str(n), *way, *how, level=level)
        whole = rows_of(go(sum((say(p, i + 1) for i, p in enumerate(prompts)), []), plain))
        saved, again = os.path.join(d, "c.jsonl"), os.path.join(d, "e.jsonl")
        go(sum((say(p, i + 1) for i, p in enumerate(prompts[:2])), []) + ["key Esc :", f"type save {saved}", "key Enter",
                                                                           "wait saved"], drafts)
        go(["key Esc :", f"type load {saved}", "key Enter", "wait loaded", "wait READY", *say(prompts[2], 3), "key Esc :",
            f"type save {again}", "key Enter", "wait saved"], drafts)
        broken = rows_of(again)
    if len(whole) != 3 or len(broken) != 3:
        raise Differs(f"{dtype}: {len(whole)} and {len(broken)} turns where there were three")
    compared = 0
    for t, (a, b) in enumerate(zip(whole, broken)):
        for at in set(a) & set(b):
            if a[at] != b[at]:
                raise Differs(f"{dtype}: turn {t + 1}, logits before token {at}: {b[at]} after save and load, {a[at]} without")
            compared += 1
    return compared


def tiny(folder):
    """Two layers, heads of 32 values (as integers need), a window that positions leave."""
    path = folders.write(os.path.join(folder, "tiny"), seed=3, vocab_size=300, num_hidden_layers=2, head_dim=32,
                         model_type="mistral", sliding_window=24)
    return {dtype: ["--model", path, "--raw", "--threads", THREADS["tiny"]] + (["--weights", "q8"] if dtype[0] == "i" else [])
            for dtype in DTYPES}


def main():
    if not HAS_ENGINE:
        sys.exit("exactness: the default model is needed: run 'make setup'")
    began = time.monotonic()
    total = {"runs": 0, "rows": 0}

    def line(*cells):
        print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)
    line("level", "dtype", "model", "sampling", "methods", "tokens each", "rows of logits", "seconds")
    line(*["---"] * 8)

    def row(level, dtype, name, model, way, prompt, n):
        t = time.monotonic()
        got = tokens_are_equal(model, level, dtype, WAYS[way], prompt, n)
        if not got:
            return False
        bits = bits_are_equal(model, level, dtype, WAYS[way], prompt, n)
        total["runs"] += got[0]
        total["rows"] += bits
        line(level, dtype, name, way, got[0], n, bits, f"{time.monotonic() - t:.0f}")
        return True
    with tempfile.TemporaryDirectory() as d:
        models, default = tiny(d), ["--threads", THREADS["default"]]
        for level in sys.argv[1:] or cpu_levels():
            there = True
            for dtype in DTYPES:
                for way in WAYS:
                    there = there and row(level, dtype, "tiny", models[dtype], way, "abc abc ab", 60)
                # the default model: as many tokens as that level's speed allows
                n = 6 if level == "portable" else 40
                for way in ("greedy", "T 0.8, top-p 0.9"):
                    there = there and row(level, dtype, "default", default, way, "List five fruits, then list them again.", n)
            if not there:
                line(level, "not on this CPU", *[""] * 6)
        line("", "", "", "", total["runs"], "", total["rows"], f"{time.monotonic() - began:.0f}")
        print("conversations of three turns, saved after two and loaded by another program:")
        for dtype in DTYPES:
            for method in ("logitspec:8", "suffix:5"):
                n = sum(conversations_go_on(models[dtype], dtype, WAYS[way], 30, method=method) for way in WAYS)
                print(f"  tiny, {dtype}, {method}: {n} rows of logits equal", flush=True)
        print(f"  default, bf16: {conversations_go_on(default, 'bf16', [], 16)} rows of logits equal", flush=True)
    print("first tokens by chi-square:", flush=True)
    p = subprocess.run([os.path.join(BUILD, "tests", "test_chances")], cwd=ROOT, capture_output=True, text=True, check=False,
                       env=dict(os.environ, LOGITSPEC_EXACTNESS="1"))
    print("\n".join("  " + x for x in p.stdout.splitlines() if "seeds" in x))
    print("equal")
    return p.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Differs as e:
        sys.exit(f"exactness: {e}")
