#!/usr/bin/env python3
"""Measures the program on this machine: `make bench-cpu [SUITE=FILE] [LLAMA=DIR] [TOKENS=128] [PER_GROUP=5]`.

SUITE: JSON lines with "prompt" or "turns" and "category"; without it demos/prompts/suite.jsonl. The eight kinds of MT-Bench
count as one category; of every category the first PER_GROUP prompts are taken (0: all). LLAMA: folder with llama.cpp's
llama-completion, llama-lookup and llama-bench, built with this CPU's features, for a comparison on the same file.

Ratios are taken inside one run: methods alternate prompt by prompt in one process. Results go to
tests/bench/results/NAME.json and NAME.md (NAME: the processor), and to standard output.
"""
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "logitspec")
TOOLS = os.path.join(ROOT, "build", "tests")
MODEL = os.path.join(ROOT, "models", "smollm2-135m-instruct.Q4_1.gguf")
MT_BENCH = {"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}
METHODS = "ar,logitspec,logitspec:8,logitspec:16,logitspec-paper,pld/auto,recycle/auto,cacheback/auto,suffix/auto,lookahead/auto"
RIVALS = ("pld", "recycle", "cacheback", "suffix", "lookahead")
DTYPES = ["f32", "bf16", "i16", "i8"]
LINEAR_WEIGHTS = 134.5e6  # multiply-adds a row of the default model's matrices
THREADS = "2"


def call(*args):
    return subprocess.run(args, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def processor():
    name, flags = platform.machine(), ""
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            name = line.split(":")[1].strip()
        if line.startswith("flags"):
            flags = line.split(":")[1].split()
    wanted = ["avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"]
    return name, [f for f in wanted if f in flags]


def take(suite, per_group, folder):
    """The suite's first prompts of every category, as a file of our own."""
    seen, out = {}, []
    for line in open(suite, encoding="utf-8"):
        o = json.loads(line)
        category = o.get("category", "")
        if "turns" in o and category in MT_BENCH:
            category = "mt_bench"
        seen[category] = seen.get(category, 0) + 1
        if not per_group or seen[category] <= per_group:
            out.append({"id": str(o.get("question_id", len(out) + 1)), "category": category,
                        "turns": [o["prompt"]] if "prompt" in o else o["turns"]})
    path = os.path.join(folder, "suite.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(o) + "\n" for o in out)
    return path, out


def costs(dtype):
    """ms by rows at 256 tokens of context."""
    checks = json.loads(call(PROGRAM, "doctor", "--calibrate", "--json", "--dtype", dtype, "--threads", THREADS))
    detail = {c["check"]: c["detail"] for c in checks}["costs"]
    one = float(re.search(r"one row ([\d.]+) ms at 256", detail).group(1))
    return {1: one, **{int(rows): one * float(x) for rows, x in re.findall(r"(\d+) rows x([\d.]+)", detail)}}


def long_prompt(tokens):
    """A text of about that many tokens, the same every time."""
    words = open(os.path.join(ROOT, "tests/bench/perplexity.txt"), encoding="utf-8").read().split()
    text = " ".join(words)
    while True:
        n = len(json.loads(call(PROGRAM, "tokenize", "--raw", "--json", "--prompt", text))["ids"])
        if n <= tokens:
            return text, n
        text = text[:len(text) * tokens // n]


def long_context():
    """Prefill of 1,000 tokens (best of 3), and peak memory (MB) while 64 more are decoded."""
    text, n = long_prompt(1000)
    prefill, peak = [], 0
    for _ in range(3):
        p = subprocess.Popen([PROGRAM, "generate", "--raw", "--prompt", text, "--json", "--max-tokens", "64", "--threads", THREADS],
                             stdout=subprocess.PIPE)
        out = p.stdout.read()
        peak = max(peak, os.wait4(p.pid, 0)[2].ru_maxrss / 1024)
        prefill.append(json.loads(out)["prefill_ms"])
    return {"tokens": n, "prefill_ms": min(prefill), "prefill_tokens_per_s": 1000 * n / min(prefill), "peak_mb": peak}


def start():
    """Seconds from exec to the first byte of an answer, median of 5."""
    times = []
    for _ in range(5):
        begin = time.monotonic()
        p = subprocess.Popen([PROGRAM, "generate", "--prompt", "Hello!", "-q", "--max-tokens", "8"], stdout=subprocess.PIPE)
        p.stdout.read(1)
        times.append(time.monotonic() - begin)
        p.stdout.read()
        p.wait()
    return statistics.median(times)


def llama(folder, prompts, tokens, scratch):
    """llama.cpp's plain and lookup decoding of the chats' first turns, greedy."""
    result = {"ar": [], "lookup": []}
    path = os.path.join(scratch, "prompt.txt")
    for o in prompts:
        with open(path, "w", encoding="utf-8") as f:
            f.write("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                    f"<|im_start|>user\n{o['turns'][0]}<|im_end|>\n<|im_start|>assistant\n")
        common = ["-m", MODEL, "-f", path, "-n", str(tokens), "--temp", "0", "-t", THREADS, "-c", "4096"]
        r = subprocess.run([os.path.join(folder, "llama-completion"), "-no-cnv", "--perf", *common], capture_output=True, text=True,
                           errors="replace", stdin=subprocess.DEVNULL)
        m = re.search(r"[^t] eval time = +([\d.]+) ms / +(\d+) runs", r.stderr + r.stdout)
        result["ar"].append((o["category"], int(m.group(2)), float(m.group(1))))
        r = subprocess.run([os.path.join(folder, "llama-lookup"), *common], capture_output=True, text=True, errors="replace",
                           stdin=subprocess.DEVNULL)
        m = re.search(r"decoded +(\d+) tokens in +([\d.]+) seconds", r.stderr + r.stdout)
        result["lookup"].append((o["category"], int(m.group(1)), 1000 * float(m.group(2))))
    out = {name: {"tokens_per_s": 1000 * sum(n for _, n, _ in runs) / sum(ms for _, _, ms in runs),
                  "categories": {c: 1000 * sum(n for k, n, _ in runs if k == c) / sum(ms for k, _, ms in runs if k == c)
                                 for c in dict.fromkeys(k for k, _, _ in runs)}} for name, runs in result.items()}
    bench = call(os.path.join(folder, "llama-bench"), "-m", MODEL, "-t", THREADS, "-p", "1000", "-n", "0", "-r", "3", "-o", "json")
    out["prefill_tokens_per_s"] = json.loads(bench)[0]["avg_ts"]
    return out


def verdict(value, limit, at_most=False):
    return "met" if (value <= limit if at_most else value >= limit) else "NOT met"


def report(r):
    c, by = r["compare"], {m["method"]: m for m in r["compare"]["methods"]}
    names = [k["category"] for k in by["ar"]["categories"]]
    rows = list(r["costs"]["f32"])
    ours, ar = by["logitspec"], by["ar"]
    out = [f"# {r['processor']}, {THREADS} threads ({', '.join(r['features'])})", "",
           f"`make bench-cpu`, {r['suite']}: {len(r['prompts'])} prompts, {r['tokens']} new tokens at most, greedy, default model, dtype {c['dtype']} "
           f"({c['kernel']}), program at {r['commit']}, {r['date']}.", "",
           "## Decoding", "",
           "Text of all methods " + ("is equal, token for token." if c["equal"] else "DIFFERS.") +
           " Speed-up: against whole `ar` runs of the same prompts in the same process; 95% interval by resampling prompts.", "",
           "| method | MAT | accepted / verified drafts | tokens/s | speed-up | 95% | draft us/step | host us/step |", "|---|---|---|---|---|---|---|---|"]
    for m in c["methods"]:
        out.append(f"| {m['method']} | {m['mat']:.2f} | {m['draft_accepted']} / {m['draft_verified']} | {m['tokens_per_s']:.0f} | {m['speedup']:.2f} | "
                   f"{m['speedup_low']:.2f} - {m['speedup_high']:.2f} | {m['draft_us_per_step']:.0f} | {m['host_us_per_step']:.0f} |")
    if "llama" in r:
        for name, label in (("ar", "llama.cpp, plain"), ("lookup", "llama.cpp, lookup")):
            out.append(f"| {label} | | | {r['llama'][name]['tokens_per_s']:.0f} | | | | |")
    out += ["", "Speed-up (MAT) by category:", "", "| method | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for m in c["methods"][1:]:
        out.append(f"| {m['method']} | " + " | ".join(f"{k['speedup']:.2f} ({k['mat']:.2f})" for k in m["categories"]) + " |")
    out += ["", "## Forwards", "", "Milliseconds of a whole step's forward by rows, at 256 tokens of context; in brackets: multiples of one row.", "",
            "| dtype | " + " | ".join(map(str, rows)) + " |", "|---|" + "---|" * len(rows)]
    for d in DTYPES:
        t = r["costs"][d]
        out.append(f"| {d} | " + " | ".join(f"{t[k]:.2f} (x{t[k] / t[rows[0]]:.2f})" for k in rows) + " |")
    f32 = r["costs"]["f32"]
    reached = 32 * LINEAR_WEIGHTS / (f32[32] * 1e-3) / 1e9
    out += ["", f"f32 at 32 rows: {reached:.0f} G multiply-adds/s over the whole step, {100 * reached / r['peak_gmacs']:.0f}% of the {r['peak_gmacs']:.0f} that "
            f"{THREADS} threads reach on bare multiply-adds.", "",
            "## Quality", "", "Perplexity on tests/bench/perplexity.txt (1,575 tokens):", "", "| dtype | perplexity | over f32 |", "|---|---|---|"]
    base = r["perplexity"]["f32"]
    out += [f"| {d} | {r['perplexity'][d]:.3f} | {100 * (r['perplexity'][d] / base - 1):+.2f}% |" for d in DTYPES]
    k = r["long"]
    out += ["", "## Start, memory, prefill", "",
            f"First byte of an answer after {r['start_s']:.2f} s (median of 5, files in the cache). With {k['tokens']} tokens of prompt: prefill "
            f"{k['prefill_ms']:.0f} ms ({k['prefill_tokens_per_s']:.0f} tokens/s), peak memory {k['peak_mb']:.0f} MB." +
            (f" llama.cpp prefills 1,000 tokens at {r['llama']['prefill_tokens_per_s']:.0f} tokens/s." if "llama" in r else ""), "",
            "## What was aimed at", "", "| aim | measured | |", "|---|---|---|"]
    worst = min(k["speedup"] for k in ours["categories"])
    rivals = [m for m in c["methods"] if m["method"].split("/")[0] in RIVALS]
    rival = max(rivals, key=lambda m: m["tokens_per_s"])
    beside = min(k["speedup"] / max(m["categories"][i]["speedup"] for m in rivals) for i, k in enumerate(ours["categories"]))
    aims = [("logitspec over own plain decoding, at least 1.8", f"{ours['speedup']:.2f}", verdict(ours["speedup"], 1.8)),
            ("... in every category, at least 0.97", f"{worst:.2f}", verdict(worst, 0.97)),
            (f"... over the fastest other drafter, sized by cost too ({rival['method']})", f"{ours['tokens_per_s'] / rival['tokens_per_s']:.2f}",
             verdict(ours["tokens_per_s"] / rival["tokens_per_s"], 1)),
            ("... and over the fastest other in every category, at least 0.97", f"{beside:.2f}", verdict(beside, 0.97)),
            ("f32 at 32 rows, at least 70% of the multiply-add peak", f"{100 * reached / r['peak_gmacs']:.0f}%", verdict(reached / r["peak_gmacs"], 0.7)),
            ("peak memory at 1,000 tokens, under 400 MB", f"{k['peak_mb']:.0f} MB", verdict(k["peak_mb"], 400, True)),
            ("host work a step, at most 0.15 ms", f"{ours['host_us_per_step'] / 1000:.3f} ms", verdict(ours["host_us_per_step"], 150, True))]
    if "amx_bf16" in r["features"]:
        b = r["costs"]["bf16"]
        aims += [(f"bf16 on AMX, {n} rows over one, at most {x}", f"{b[n] / b[1]:.2f}", verdict(b[n] / b[1], x, True)) for n, x in ((16, 1.15), (32, 1.4), (64, 2.0))]
    else:
        aims.append(("bf16 on AMX", "this processor has none", "not measured"))
    if "llama" in r:
        q = r["llama"]
        best = max(q["ar"]["tokens_per_s"], q["lookup"]["tokens_per_s"])
        aims += [("plain decoding over llama.cpp's, at least 1.8", f"{ar['tokens_per_s'] / q['ar']['tokens_per_s']:.2f}",
                  verdict(ar["tokens_per_s"] / q["ar"]["tokens_per_s"], 1.8)),
                 ("logitspec over the best of llama.cpp, at least 4", f"{ours['tokens_per_s'] / best:.2f}", verdict(ours["tokens_per_s"] / best, 4)),
                 ("prefill of 1,000 tokens over llama.cpp's, at least 1", f"{k['prefill_tokens_per_s'] / q['prefill_tokens_per_s']:.2f}",
                  verdict(k["prefill_tokens_per_s"] / q["prefill_tokens_per_s"], 1))]
    out += [f"| {what} | {value} | {ok} |" for what, value, ok in aims]
    return "\n".join(out) + "\n"


def main():
    suite = os.environ.get("SUITE") or os.path.join(ROOT, "demos/prompts/suite.jsonl")
    tokens, per_group = int(os.environ.get("TOKENS") or 128), int(os.environ.get("PER_GROUP") or 5)
    name, features = processor()
    r = {"processor": name, "features": features, "suite": os.path.basename(suite), "tokens": tokens,
         "date": time.strftime("%Y-%m-%d"), "commit": call("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()}

    def say(what):
        print(f"bench: {what}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        path, prompts = take(suite, per_group, scratch)
        r["prompts"] = [f"{o['category']}-{o['id']}" for o in prompts]
        say("costs of forwards")
        r["peak_gmacs"] = max(float(call(os.path.join(TOOLS, "peak"), THREADS)) for _ in range(3))
        r["costs"] = {d: costs(d) for d in DTYPES}
        say("perplexity")
        lines = call(os.path.join(TOOLS, "perplexity"), "default", os.path.join(ROOT, "tests/bench/perplexity.txt"), *DTYPES)
        r["perplexity"] = {o["dtype"]: o["perplexity"] for o in map(json.loads, lines.splitlines())}
        say("start, memory, prefill")
        r["start_s"], r["long"] = start(), long_context()
        say(f"{len(prompts)} prompts by {METHODS}")
        r["compare"] = json.loads(call(PROGRAM, "compare", "--suite", path, "--methods", METHODS, "--max-tokens", str(tokens), "--threads", THREADS,
                                       "--json"))
        del r["compare"]["runs"]
        if os.environ.get("LLAMA"):
            say("llama.cpp")
            r["llama"] = llama(os.environ["LLAMA"], prompts, tokens, scratch)
    text = report(r)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    folder = os.path.join(ROOT, "tests/bench/results")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, slug + ".json"), "w", encoding="utf-8") as f:
        json.dump(r, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, slug + ".md"), "w", encoding="utf-8") as f:
        f.write(text)
    print(text)
    return 0 if r["compare"]["equal"] else 3


if __name__ == "__main__":
    sys.exit(main())
