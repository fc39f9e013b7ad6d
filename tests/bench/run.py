#!/usr/bin/env python3
"""Measures the program on this machine: `make bench-cpu`; beside other programs: `make bench-peers`.

SUITE=FILE   JSON lines with "prompt" or "turns" and "category"; without it demos/prompts/suite.jsonl
PER_GROUP=5  prompts of each category (the eight kinds of MT-Bench are one); 0: all
TOKENS=128   new tokens at most      THREADS=  those that measure fastest (peers: the cores)      REPEAT=1  runs of each prompt
PEERS=       names of other programs, with commas; without it all
SHAPE=3b     peers: instead, random weights in the shape of that model (1b, 3b, 8b) beside llama.cpp; FORMAT=Q4_K_M
RESULTS=DIR  tests/bench/results     SMOKE=1   a minute's run that checks this script, in a folder of its own

Ratios are taken inside one run: methods, and peers, alternate prompt by prompt. Beside times stands what memory and
arithmetic need at least at the limits of the same run. Writes NAME.md, NAME.json (for `logitspec bench show` and `diff`)
and NAME-forwards.svg, or NAME-peers.md and NAME-peers.json; NAME is the processor. An interrupted run leaves a part there,
with which the next one goes on if program and settings are the same.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import peers
import peers_setup
import peers_shape
import shapes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "logitspec")
TOOLS = os.path.join(ROOT, "build", "tests")
SMOKE = bool(os.environ.get("SMOKE"))
DRAFTERS = ["pld/auto", "recycle/auto", "cacheback/auto", "suffix/auto", "lookahead/auto"]
BUDGETS = [f"logitspec:{n}" for n in (2, 4, 8, 16, 32, 64)]
METHODS = ["plain", "logitspec"] if SMOKE else ["plain", "logitspec", *BUDGETS, "logitspec-paper", *DRAFTERS]
BESIDE_PEERS = ["plain", "logitspec"] if SMOKE else ["plain", "logitspec", "logitspec:8", "pld/auto", "suffix/auto", "lookahead/auto"]
DTYPES = ["i8"] if SMOKE else ["f32", "bf16", "i16", "i8"]
ROWS = [1, 8] if SMOKE else [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128]
CONTEXTS = [256] if SMOKE else [128, 512, 2048, 8000]


def call(*args, codes=(0,)):
    r = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=False, stdin=subprocess.DEVNULL)
    if r.returncode not in codes:
        sys.exit(f"bench: {' '.join(args)}: exit code {r.returncode}")
    return r.stdout


def say(what):
    print(f"bench: {what}", file=sys.stderr, flush=True)


class Settings:
    def __init__(self):
        e = os.environ
        self.suite = e.get("SUITE") or os.path.join(ROOT, "demos/prompts/suite.jsonl")
        self.tokens = e.get("TOKENS") or ("8" if SMOKE else "128")
        self.per_group = "1" if SMOKE else e.get("PER_GROUP") or "5"
        self.repeat = e.get("REPEAT") or "1"
        self.threads = e.get("THREADS") or "0"  # 0: those that measure fastest
        machine = json.loads(call(PROGRAM, "bench", "limits", "--json", "--threads", self.threads))
        self.cores = machine["threads"]
        folder = e.get("RESULTS") or (tempfile.mkdtemp(prefix="bench-") if SMOKE else os.path.join(ROOT, "tests/bench/results"))
        os.makedirs(folder, exist_ok=True)
        self.to = os.path.join(folder, re.sub(r"[^a-z0-9]+", "-", machine["processor"].lower()).strip("-"))

    def prompts(self):
        return ["--suite", self.suite, *(["--per-category", self.per_group] if self.per_group != "0" else []), "--max-tokens", self.tokens,
                "--threads", self.threads]


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


# ---- parts of the measurement


def forwards(s, *more):
    return json.loads(call(PROGRAM, "bench", "forward", "--json", "-q", "--threads", s.threads, *more))


def some(numbers):
    return ",".join(map(str, numbers))


def long_prompt(tokens):
    """A text of about that many tokens, the same every time."""
    with open(os.path.join(ROOT, "tests/bench/perplexity.txt"), encoding="utf-8") as f:
        text = " ".join(f.read().split())
    while True:
        n = len(json.loads(call(PROGRAM, "tokenize", "--raw", "--json", "--prompt", text))["ids"])
        if n <= tokens:
            return text, n
        text = text[:len(text) * tokens // n]


def long_context(s):
    """Prefill of 1,000 tokens (best of 3), and peak memory (MB) while 64 more are decoded."""
    text, n = long_prompt(200 if SMOKE else 1000)
    prefill, peak = [], 0
    for _ in range(1 if SMOKE else 3):
        p = subprocess.Popen([PROGRAM, "generate", "--raw", "--prompt", text, "--json", "--max-tokens", "64", "--threads", s.threads],
                             stdout=subprocess.PIPE)
        out = p.stdout.read()
        peak = max(peak, os.wait4(p.pid, 0)[2].ru_maxrss / 1024)
        prefill.append(json.loads(out)["prefill_ms"])
    return {"tokens": n, "prefill_ms": min(prefill), "prefill_tokens_per_s": 1000 * n / min(prefill), "peak_mb": peak}


def start():
    """Seconds from exec to the first byte of an answer, median of 5."""
    times = []
    for _ in range(1 if SMOKE else 5):
        begin = time.monotonic()
        p = subprocess.Popen([PROGRAM, "generate", "--prompt", "Hello!", "-q", "--max-tokens", "8"], stdout=subprocess.PIPE)
        p.stdout.read(1)
        times.append(time.monotonic() - begin)
        p.stdout.read()
        p.wait()
    return statistics.median(times)


# ---- the report


def shown(path):
    """What `bench show` makes of it as Markdown."""
    with tempfile.TemporaryDirectory() as d:
        call(PROGRAM, "bench", "show", path, "-q", "-o", os.path.join(d, "a.md"))
        with open(os.path.join(d, "a.md"), encoding="utf-8") as f:
            return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    print(text)


def verdict(value, limit, at_most=False):
    return "met" if (value <= limit if at_most else value >= limit) else "NOT met"


def table(head, rows):
    return [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1), *(f"| {' | '.join(map(str, r))} |" for r in rows), ""]


def cells(f):
    """(context, rows): the cell."""
    return {(c["context"], c["rows"]): c for c in f["results"] if c["what"] == "forward"}


def cell(c):
    share = f", {100 * c['least_ms'] / c['median_ms']:.0f}%" if c.get("least_ms") else ""
    return f"{c['median_ms']:.2f} (x{c['of_one_row']:.2f}{share})"


def report_forwards(r, name):
    out = ["## Forwards", "", "Milliseconds of a whole forward by rows; in brackets: the multiple of one row, and what memory and arithmetic "
           "need at least at the limits of that run, as a share of the time.", "", "At 256 tokens of context, by arithmetic:", ""]
    out += table(["rows", *r["dtypes"]], [[n, *(cell(cells(f)[256, n]) for f in r["dtypes"].values())] for n in ROWS])
    out += [f"By context ({r['contexts']['manifest']['dtype']}):", ""]
    grid = cells(r["contexts"])
    there = [c for c in CONTEXTS if (c, 1) in grid]
    out += table(["rows", *(f"{c} tokens" for c in there)], [[n, *(cell(grid[c, n]) for c in there)] for n in ROWS])
    out += [f"![milliseconds by rows and context]({os.path.basename(name)}-forwards.svg)", ""]
    if len(r["threads"]) > 1:
        out += ["By threads, at 256 tokens of context:", ""]
        out += table(["threads", "read GB/s", "1 row", "8 rows", "64 rows"],
                     [[t, f"{f['manifest']['read_gb_per_s']:.1f}", *(cell(cells(f)[256, n]) for n in (1, 8, 64))] for t, f in r["threads"].items()])
    return out


def report_aims(r, compare):
    by = {m["method"]: m for m in compare["methods"]}
    ours, ar = by["logitspec"], by["plain"]
    rivals = [by[m] for m in DRAFTERS if m in by]
    one = cells(r["dtypes"]["i8"])[256, 1]
    k = r["long"]
    worst = min([ours, *ours["categories"]], key=lambda c: c["speedup"])
    aims = [("logitspec over own plain decoding, at least 1.6", f"{ours['speedup']:.2f}", verdict(ours["speedup"], 1.6)),
            ("... in every category, at least 0.97", f"{worst['speedup']:.2f}", verdict(worst["speedup"], 0.97)),
            ("plain decoding over the measured read bandwidth, at least 85%", f"{100 * ar['of_limit']:.0f}%", verdict(ar["of_limit"], 0.85)),
            ("peak memory at 1,000 tokens, under 400 MB", f"{k['peak_mb']:.0f} MB", verdict(k["peak_mb"], 400, True)),
            ("host work a step, at most 0.15 ms", f"{ours['host_us_per_step'] / 1000:.3f} ms", verdict(ours["host_us_per_step"], 150, True))]
    for rows, most in ((8, 1.3), (16, 2.0), (32, 3.6), (64, 7.0)):
        if (256, rows) in cells(r["dtypes"]["i8"]):
            x = cells(r["dtypes"]["i8"])[256, rows]["median_ms"] / one["median_ms"]
            aims.append((f"{rows} rows over one (i8, without AMX), at most {most}", f"{x:.2f}", verdict(x, most, True)))
    if rivals:
        best = max(rivals, key=lambda m: m["tokens_per_s"])
        aims.append((f"over the fastest other drafter, sized by cost too ({best['method']}), at least 1", f"{ours['tokens_per_s'] / best['tokens_per_s']:.2f}",
                     verdict(ours["tokens_per_s"] / best["tokens_per_s"], 1)))
    return ["## What was aimed at", "", *table(["aim", "measured", ""], aims)]


def report_loses(compare):
    """Where drafting does not pay, in words."""
    out = []
    for m in compare["methods"]:
        if m["method"] == "plain" or m["lossy"]:
            continue
        lost = [f"{c['category']} ({c['speedup']:.2f})" for c in m["categories"] if c["speedup"] < 1]
        if lost:
            out.append(f"* `{m['method']}`: {', '.join(lost)}")
    return ["## Where drafting loses", "", "Categories with a speedup below 1. `logitspec` sizes its trees by what rows cost: where no draft is worth "
            "its cost it verifies one row, which is plain decoding.", "", *(out or ["None here."]), ""]


def methods(s):
    """Into s.to.json. A part of an interrupted run, of the same program and settings, is gone on with."""
    part = s.to + ".part.json"
    command = [PROGRAM, "bench", "methods", *s.prompts(), "--methods", some(METHODS), "--repeat", s.repeat, "--resume", "-q", "-o", part]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
    if code == 1 and os.path.exists(part):
        say("the part that is there is of another run: all of it is measured")
        os.remove(part)
        call(*command, codes=(0, 3))
    elif code not in (0, 3):
        sys.exit(f"bench: the methods were not measured: exit code {code}")
    os.replace(part, s.to + ".json")


def own():
    s = Settings()
    r = {"commit": call("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip(), "date": time.strftime("%Y-%m-%d")}
    say("methods on the suite")
    methods(s)
    say("forwards")
    r["dtypes"] = {} if SMOKE else {d: forwards(s, "--dtype", d, "--contexts", "256", "--rows", some(ROWS)) for d in DTYPES}
    r["contexts"] = forwards(s, "--contexts", some(CONTEXTS), "--rows", some(ROWS), "-o", s.to + "-forwards.svg")
    r["dtypes"] = r["dtypes"] or {"i8": r["contexts"]}
    say("threads")
    counts = [] if SMOKE else sorted({1, 2, *(2 ** i for i in range(2, 10)), s.cores} & set(range(1, s.cores + 1)))
    r["threads"] = {n: forwards(s, "--contexts", "256", "--rows", "1,8,64", "--threads", str(n)) for n in counts}
    say("perplexity, start, memory, prefill")
    lines = [] if SMOKE else call(os.path.join(TOOLS, "perplexity"), "default", os.path.join(ROOT, "tests/bench/perplexity.txt"), *DTYPES).splitlines()
    r["perplexity"] = {o["dtype"]: o["perplexity"] for o in map(json.loads, lines)}
    r["start_s"], r["long"] = start(), long_context(s)
    compare = read(s.to + ".json")
    k = r["long"]
    out = [shown(s.to + ".json"), "",
           f"`make bench-cpu`, {os.path.basename(s.suite)}, program at {r['commit']}, {r['date']}. Text of all methods " +
           ("is equal, token for token." if compare["equal"] else "DIFFERS."), "", *report_loses(compare), *report_forwards(r, s.to)]
    if r["perplexity"]:
        base = r["perplexity"]["f32"]
        out += ["## Quality", "", "Perplexity on tests/bench/perplexity.txt (1,575 tokens):", "",
                *table(["dtype", "perplexity", "over f32"], [[d, f"{p:.3f}", f"{100 * (p / base - 1):+.2f}%"] for d, p in r["perplexity"].items()])]
    out += ["## Start, memory, prefill", "", f"First byte of an answer after {r['start_s']:.2f} s (median of 5, files in the cache). With {k['tokens']} tokens of "
            f"prompt: prefill {k['prefill_ms']:.0f} ms ({k['prefill_tokens_per_s']:.0f} tokens/s), peak memory {k['peak_mb']:.0f} MB.", "",
            *report_aims(r, compare)]
    write(s.to + ".md", "\n".join(out))
    return 0 if compare["equal"] else 3


# ---- beside other programs

MT_BENCH = {"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}  # one task of Spec-Bench


def suite_of(s):
    """Its first prompts of each category, as the peers take them; cut as `bench methods` does."""
    seen, out = {}, []
    with open(s.suite, encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            if not line.strip():
                continue
            o = json.loads(line)
            task = "mt_bench" if {"question_id", "turns"} <= o.keys() and o.get("category") in MT_BENCH else o.get("category", "")
            seen[task] = seen.get(task, 0) + 1
            if s.per_group == "0" or seen[task] <= int(s.per_group):
                out.append({"id": str(o.get("question_id", o.get("id", n))), "category": task, "turns": o.get("turns") or [o["prompt"]]})
    return out


def runs_of(r, method):
    """Of one of our methods, as the peers' are."""
    return [{"id": x["prompt"], "prompt": x.get("of", x["prompt"]), "category": x["category"], "tokens": x["emitted"], "decode_ms": x["decode_us"] / 1e3,
             "prefill_ms": x["prefill_ms"]} for x in r["mine"] if x["method"] == method]


def beside():
    s = Settings()
    folder, to = os.path.join(ROOT, "build", "peers"), s.to + "-peers"
    peers_setup.prepare(folder, say)
    wanted = [p for p in peers.peers(folder) if not os.environ.get("PEERS") or p.name in os.environ["PEERS"].split(",")]
    suite = suite_of(s)
    prompts = [{**p, "prompt": p["id"], "id": p["id"] + (f" (run {n})" if n > 1 else "")} for n in range(1, int(s.repeat) + 1) for p in suite]
    facts = {"tokens": s.tokens, "threads": s.cores, "prompts": [p["id"] for p in suite], "repeat": int(s.repeat), "suite": os.path.basename(s.suite),
             "peers": [p.name for p in wanted], "installed": peers_setup.prepared(folder), "commit": call("git", "-C", ROOT, "rev-parse", "HEAD").strip()}
    part = to + ".part.json"
    result = read(part) if os.path.exists(part) else {}
    if result.get("facts") != facts:
        result = {**peers.new_result(folder, wanted, s.cores, int(s.tokens)), "facts": facts, "mine": [],
                  "manifest": json.loads(call(PROGRAM, "bench", "limits", "--json", "--threads", str(s.cores)))}

    def save(r):
        with open(part + ".new", "w", encoding="utf-8") as f:
            json.dump(r, f, indent=1)
            f.write("\n")
        os.replace(part + ".new", part)

    def ours(prompt):
        """All of our methods, from a process of their own, whose drafters know no other prompt."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
            f.write(json.dumps({"id": prompt["id"], "category": prompt["category"], "prompt": prompt["turns"][0]}) + "\n")
            f.flush()
            o = json.loads(call(PROGRAM, "bench", "methods", "--suite", f.name, "--methods", some(BESIDE_PEERS), "--max-tokens", s.tokens,
                                "--threads", str(s.cores), "--json", "-q", codes=(0, 3)))
        result["mine"] += [{**r, "of": prompt["prompt"], "equal": o["equal"], "disturbed": o["disturbed_prompts"]} for r in o["runs"]]
        ar = next(r for r in o["runs"] if r["method"] == "plain")
        return {"text": ar["turns"][0]["text"], "tokens": ar["emitted"], "decode_ms": ar["decode_us"] / 1e3, "prefill_ms": ar["prefill_ms"]}

    peers.search(wanted, result, say, save)
    peers.measure(wanted, result, prompts, ours, say, save)
    save(result)
    os.replace(part, to + ".json")
    write(to + ".md", report_peers(result))
    return 0


def beside_in_shape(shape):
    if shape not in shapes.SHAPES:
        sys.exit(f"bench: SHAPE={shape}: one of {', '.join(shapes.SHAPES)}")
    s, form = Settings(), os.environ.get("FORMAT") or "Q4_K_M"
    folder, threads = os.path.join(ROOT, "build", "peers"), str(s.cores)
    peers_setup.prepare(folder, say, only=["llama.cpp"])
    ready = peers_setup.prepared(folder)["llama.cpp"]
    if "failed" in ready:
        sys.exit("bench: llama.cpp: " + ready["failed"])
    file = os.path.join(folder, f"{shape}-{form}.gguf")
    if not os.path.exists(file):
        say(f"peers: {os.path.relpath(file)} is written")
        shapes.write(file, shape, form)
    found = peers_shape.measure(PROGRAM, os.path.join(folder, "llama", "bin", "llama-bench"), file, threads, int(os.environ.get("REPEAT") or 3), say)
    manifest = json.loads(call(PROGRAM, "bench", "limits", "--json", "--threads", threads))
    write(f"{s.to}-{shape}.md", report_shape(found, shape, form, os.path.getsize(file) / 1e6, ready["version"], manifest))
    return 0


def report_shape(found, shape, form, megabytes, version, manifest):
    """Medians of the rounds, and the lowest and highest ratio of a round."""
    rows = []
    for what in found["ours"][0]:
        ours, llama = ([r[what] for r in found[name]] for name in ("ours", "llama.cpp"))
        ratios = [b / a for a, b in zip(ours, llama)]
        digits = 2 if what.endswith(" s") else 0 if what.endswith("MB") else 1
        rows.append([what, *(f"{statistics.median(x):.{digits}f}" for x in (ours, llama)),
                     f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"])
    rounds = len(found["ours"])
    return "\n".join([
        f"# {manifest['processor']}, {manifest['threads']} threads: random weights in the shape of Llama {shape.upper()}", "",
        f"`make bench-peers SHAPE={shape} FORMAT={form}`: {megabytes:.0f} MB, in memory; only to read the file takes "
        f"{statistics.median(found['read, s']):.2f} s. llama.cpp {version}. Medians of {rounds} rounds, each with both programs; in brackets the lowest and "
        f"highest ratio of a round. Program {manifest.get('commit', '')}, {manifest['date']}.", "",
        *table(["", "logitspec", "llama.cpp", "llama.cpp over logitspec"], rows), "## Measured where", "", *table(["", ""], manifest.items())])


def report_peers(r):
    m, summary = r["manifest"], peers.summary(r)
    lines = {name: line for name, line in summary.items() if name != "ours" and line["tokens_per_s"]}
    llama = max((name for name in lines if name.startswith("llama.cpp")), key=lambda name: lines[name]["tokens_per_s"], default=None)
    runs = {**{f"logitspec, `{name}`": runs_of(r, name) for name in BESIDE_PEERS}, **{name: r["peers"][name]["runs"] for name in lines}}
    own, best = runs["logitspec, `logitspec`"], runs.get(llama, [])
    equal = "equal to `plain`" if all(x["equal"] for x in r["mine"]) else "DIFFERS"

    def text(name):
        line = lines.get(name)
        if not line:
            return equal
        plain = f"equal to its plain decoding in {line['equal_to_plain']} of {line['compared_to_plain']}; " if line["compared_to_plain"] else ""
        return f"{plain}{100 * (line['share_of_our_text'] or 0):.0f}% of our text until it parts"
    rows = [[name, f"{peers.rate(of):.1f}", f"{peers.rate(of, True):.1f}", peers.ratio_text(of, best), peers.ratio_text(of, own), text(name)]
            for name, of in sorted(runs.items(), key=lambda x: -peers.rate(x[1]))]
    tasks = list(dict.fromkeys(x["category"] for x in r["mine"]))
    out = [f"# {m['processor']}, {r['facts']['threads']} threads: beside other programs", "",
           f"`make bench-peers`, {r['facts']['suite']}: {len(r['facts']['prompts'])} prompts, {r['facts']['tokens']} new tokens at most, greedy, the same file "
           f"(Q4_1), first turns, in rotation prompt by prompt{', the median of %d runs of each' % r['facts']['repeat'] if r['facts'].get('repeat', 1) > 1 else ''}; program {m.get('commit', '')}, {m['date']}. Our methods begin anew at each prompt; "
           "a server keeps what it learned. Another arithmetic writes another text: the last column says how much of ours comes before they part. In brackets: the "
           "95% interval by resampling the prompts; where it has 1 in it, this run shows no difference.", "",
           *table(["program", "tokens/s", "with prompt", f"over {llama or 'llama.cpp'}", "over `logitspec`", "text"], rows)]
    disturbed = len({x["prompt"] for x in r["mine"] if x["disturbed"]})
    if disturbed:
        out += [f"Busy: other programs used the processors at {disturbed} of {len(r['facts']['prompts'])} prompts.", ""]
    out += ["Tokens/s by category:", "", *table(["program", *tasks], [
        [name, *(f"{peers.rate(of_task):.0f}" if (of_task := [x for x in runs[name] if x["category"] == c]) else "" for c in tasks)] for name, *_ in rows])]
    out += ["## Settings of the peers", "", "The fastest of those that were tried on other prompts.", "",
            *table(["program", "version", "settings"], [[name, p["version"], peers.text_of(p["settings"] or {})] for name, p in r["peers"].items()])]
    failed = [*r["missing"].items(), *((name, line["failed"]) for name, line in summary.items() if line.get("failed"))]
    out += ["## Not measured", "", *([f"* {name}: {why}" for name, why in failed] or ["All peers ran."]), "", "## Measured where", "",
            *table(["", ""], m.items())]
    return "\n".join(out)


if __name__ == "__main__":
    if sys.argv[1:] != ["peers"]:
        sys.exit(own())
    sys.exit(beside_in_shape(os.environ["SHAPE"]) if os.environ.get("SHAPE") else beside())
