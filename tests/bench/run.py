#!/usr/bin/env python3
"""Measures the program on this machine and writes Markdown: `make bench`, or tests/bench/run.py [PROMPTS.txt].

Ratios are taken inside one run: methods alternate prompt by prompt, and `speedup` is against single-row forwards timed in
the same process. PROMPTS.txt: one prompt a line; without it, the prompts in demos/prompts.
"""
import glob
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "logitspec")
RUNS = [("ar", []), ("logitspec", []), ("logitspec, 8 rows", ["--budget", "8"]), ("logitspec, 16 rows", ["--budget", "16"]),
        ("logitspec-paper", ["--method", "logitspec-paper"])]


def generate(prompt, extra, trace=None):
    command = [PROGRAM, "generate", "--prompt", prompt, "--json", "--max-tokens", "256", *extra]
    if trace:
        command += ["--trace", trace]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def cpu():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def start_and_memory(prompt):
    """Seconds from exec to the first byte of an answer, and peak resident memory (MB)."""
    times, peak = [], 0
    for _ in range(5):
        start = time.monotonic()
        p = subprocess.Popen([PROGRAM, "generate", "--prompt", prompt, "-q", "--max-tokens", "64"], stdout=subprocess.PIPE)
        p.stdout.read(1)
        times.append(time.monotonic() - start)
        p.stdout.read()
        peak = max(peak, os.wait4(p.pid, 0)[2].ru_maxrss / 1024)
    return statistics.median(times), peak


def main():
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as f:
            prompts = [line.rstrip("\n") for line in f if line.strip()]
    else:
        prompts = [open(p, encoding="utf-8").read() for p in sorted(glob.glob(os.path.join(ROOT, "demos/prompts/*.txt")))]
    out = [f"# {cpu()}, {os.cpu_count()} processors, {len(prompts)} prompts", ""]
    first, peak = start_and_memory(prompts[0])
    out += [f"First token after {first:.2f} s (median of 5, warm files); peak memory {peak:.0f} MB.", ""]
    results = {name: [] for name, _ in RUNS}
    host = []
    for prompt in prompts:
        texts = set()
        for name, extra in RUNS:
            with tempfile.NamedTemporaryFile() as trace:
                extra = extra if "--method" in extra else ["--method", name.split(",")[0], *extra]
                o = generate(prompt, extra, trace.name if name == "logitspec" else None)
                if name == "logitspec":
                    for line in trace:
                        s = json.loads(line)
                        if s["type"] == "step" and s["forward"]:
                            host.append((s["us"]["total"] - s["us"]["forward"], s["us"]["total"]))
            results[name].append(o)
            texts.add(tuple(o["output_tokens"]))
        if len(texts) != 1:
            print(f"DIFFERENT OUTPUT for {prompt[:60]!r}", file=sys.stderr)
            return 3
    ar = results["ar"]
    out += ["Text of all methods is equal, token for token. MAT = tokens / steps; speed-up: tokens/s over plain decoding's, by",
            "the process's own single-row forwards (own) and by whole `ar` runs of the same prompts (runs); worst: the slowest prompt by runs.", "",
            "| method | MAT | tokens/s | accepted / drafted | speed-up (own) | speed-up (runs) | worst |", "|---|---|---|---|---|---|---|"]
    for name, _ in RUNS:
        r = results[name]
        emitted, ms = sum(o["emitted"] for o in r), sum(o["decode_ms"] for o in r)
        own = [o["speedup"] for o in r if o["speedup"]]
        runs = [a["decode_ms"] / o["decode_ms"] for a, o in zip(ar, r)]
        out.append(f"| {name} | {emitted / sum(o['steps'] for o in r):.2f} | {1000 * emitted / ms:.0f} | "
                   f"{sum(o['draft_accepted'] for o in r)} / {sum(o['draft_verified'] for o in r)} | "
                   f"{statistics.geometric_mean(own):.2f} | {sum(a['decode_ms'] for a in ar) / ms:.2f} | {min(runs):.2f} |")
    out += ["", f"Work of the host outside the forward: {100 * sum(h for h, _ in host) / sum(t for _, t in host):.2f}% of a step "
            "(draft, verify, commit, record; `logitspec`)."]
    yardstick = os.path.join(ROOT, "build", "tests", "torch_linear")
    if os.path.exists(yardstick):
        t = json.loads(subprocess.run([yardstick], capture_output=True, text=True, check=True).stdout)
        with tempfile.NamedTemporaryFile() as trace:
            generate(prompts[0], ["--method", "ar"], trace.name)
            header = json.loads(trace.readline())
        ours = dict(zip(header["calibration"]["rows"], header["calibration"]["ms"]))
        out += ["", "Milliseconds by rows: all linear layers in libtorch f32 (bare matmuls), and our whole step in f32.", "",
                "| rows | " + " | ".join(t["ms"]) + " |", "|---|" + "---|" * len(t["ms"]),
                "| libtorch, linear layers only | " + " | ".join(f"{v:.1f}" for v in t["ms"].values()) + " |",
                "| logitspec, whole step | " + " | ".join(f"{ours[int(k)]:.1f}" for k in t["ms"]) + " |"]
    print("\n".join(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
