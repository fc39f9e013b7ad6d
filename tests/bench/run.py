#!/usr/bin/env python3
"""Measures the program on this machine: `make bench-cpu`; beside other programs: `make bench-peers`.

SUITE=FILE   JSON lines with "prompt" or "turns" and "category"; without it demos/prompts/suite.jsonl
PER_GROUP=5  prompts of each category (the eight kinds of MT-Bench are one); 0: all
TOKENS=128   new tokens at most      THREADS=  those that measure fastest (peers: the cores)      REPEAT=1  runs of each prompt
MODELS=default,gemma-3-270m  names or files, with commas: the first has the page, the others have a column beside it. A model
             that is not here has an empty column: nothing is fetched
PEERS=       names of other programs, with commas; without it all
SHAPE=3b     peers: instead, random weights in the shape of that model (1b, 3b, 8b) beside llama.cpp; FORMAT=Q4_K_M
RESULTS=DIR  tests/bench/results     SMOKE=1   a minute's run that checks this script, in a folder of its own

Ratios are taken inside one run: methods, and peers, alternate prompt by prompt, and models forward by forward. Beside times stands what memory and
arithmetic need at least at the limits of the same run. Writes NAME.md, NAME.json (for `logitspec bench show` and `diff`)
and NAME-forwards.svg, NAME-MODEL.json of the other models, or NAME-peers.md and NAME-peers.json; NAME is the processor. An interrupted run leaves a part there,
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
ROUNDS = 1 if SMOKE else 3  # of forwards of all models in turn


def call(*args, codes=(0,)):
    r = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=False, stdin=subprocess.DEVNULL)
    if r.returncode not in codes:
        sys.exit(f"bench: {' '.join(args)}: exit code {r.returncode}")
    return r.stdout


def say(what):
    print(f"bench: {what}", file=sys.stderr, flush=True)


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class Model:
    """One of MODELS: its name, whether it is here, the stem of its files, and what was measured."""

    def __init__(self, name, to, number):
        listed = {m["name"]: m for m in json.loads(call(PROGRAM, "models", "list", "--json"))["models"]}
        entry = listed.get(name)
        if entry and entry["alias"]:
            entry = listed[entry["alias"]]
        if not entry and not os.path.exists(name):
            sys.exit(f"bench: MODELS: '{name}' is neither a model of 'logitspec models list' nor a file")
        self.name, self.label = name, entry["name"] if entry else os.path.basename(name)
        self.here = not entry or entry["state"] in ("here", "unchecked")
        self.problem = entry and entry["problem"]
        self.to = to + (f"-{slug(self.label)}" if number else "")
        self.flags = ["--model", name]
        # results of `bench methods`, of rounds of `bench forward`, {dtype: perplexity}, seconds, long_context()
        self.compare, self.forwards, self.perplexity, self.start_s, self.long = None, [], {}, None, None

    def absent(self):
        return self.problem or f"not here: `logitspec models fetch {self.name}`"


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
        self.to = os.path.join(folder, slug(machine["processor"]))
        self.models = [Model(name, self.to, i) for i, name in enumerate((e.get("MODELS") or "default,gemma-3-270m").split(","))]
        if not self.models[0].here:
            sys.exit(f"bench: {self.models[0].absent()}")

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


def long_prompt(m, tokens):
    """A text of about that many tokens, the same every time."""
    with open(os.path.join(ROOT, "tests/bench/perplexity.txt"), encoding="utf-8") as f:
        text = " ".join(f.read().split())
    while True:
        n = len(json.loads(call(PROGRAM, "tokenize", *m.flags, "--raw", "--json", "--prompt", text))["ids"])
        if n <= tokens:
            return text, n
        text = text[:len(text) * tokens // n]


def long_context(s, m):
    """Prefill of 1,000 tokens (best of 3), and peak memory (MB) while 64 more are decoded."""
    text, n = long_prompt(m, 200 if SMOKE else 1000)
    prefill, peak = [], 0
    for _ in range(1 if SMOKE else 3):
        p = subprocess.Popen([PROGRAM, "generate", *m.flags, "--raw", "--prompt", text, "--json", "--max-tokens", "64", "--threads", s.threads],
                             stdout=subprocess.PIPE)
        out = p.stdout.read()
        peak = max(peak, os.wait4(p.pid, 0)[2].ru_maxrss / 1024)
        prefill.append(json.loads(out)["prefill_ms"])
    return {"tokens": n, "prefill_ms": min(prefill), "prefill_tokens_per_s": 1000 * n / min(prefill), "peak_mb": peak}


def start(m):
    """Seconds from exec to the first byte of an answer, median of 5."""
    times = []
    for _ in range(1 if SMOKE else 5):
        begin = time.monotonic()
        p = subprocess.Popen([PROGRAM, "generate", *m.flags, "--prompt", "Hello!", "-q", "--max-tokens", "8"], stdout=subprocess.PIPE)
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


def aimed(value, text, limit, at_most=False):
    return f"{text} {verdict(value, limit, at_most)}"


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


def median_cell(m, rows):
    """Of the rounds: median ms, multiple of one row, least ms at the limits of the round."""
    of = [cells(f)[256, rows] for f in m.forwards]
    return {k: statistics.median(c[k] for c in of) if of[0].get(k) else 0 for k in ("median_ms", "of_one_row", "least_ms")}


def method_of(m, name):
    return next(x for x in m.compare["methods"] if x["method"] == name)


def fastest(m, names):
    return max((x for x in m.compare["methods"] if x["method"] in names), key=lambda x: x["tokens_per_s"], default=None)


def columns(s, lines):
    """lines: (what, function of a model that gives its cell). The column of a model that is not here says so in its first line."""
    out = [[what, *(of(m) if m.here else "" for m in s.models)] for what, of in lines]
    for i, m in enumerate(s.models):
        if not m.here:
            out[0][1 + i] = m.absent()
    return table(["", *(m.label for m in s.models)], out)


def report_models(s):
    """What methods and rows give, a column for each model."""
    def speed(x):
        doubt = f" ({x['speedup_low']:.2f} - {x['speedup_high']:.2f})" if x["speedup_low"] else ""  # not of one or two prompts
        return f"{x['tokens_per_s']:.0f}, x{x['speedup']:.2f}{doubt}"

    def of_read(m):
        return " ".join(f"{f['manifest']['read_gb_per_s']:.1f}" for f in m.forwards)

    def best(m, names):
        x = fastest(m, names)
        return f"{x['method']}: {speed(x)}" if x else ""

    def over_fixed(m):
        x = fastest(m, BUDGETS)
        return f"{method_of(m, 'logitspec')['tokens_per_s'] / x['tokens_per_s']:.2f}" if x else ""
    lines = [("text of all methods", lambda m: "equal" if m.compare["equal"] else "DIFFERS"),
             ("weights that a forward reads, MB", lambda m: f"{m.compare['manifest']['weight_mb']:.0f}"),
             ("plain decoding, tokens/s", lambda m: f"{method_of(m, 'plain')['tokens_per_s']:.0f}"),
             ("... of limit", lambda m: f"{100 * method_of(m, 'plain')['of_limit']:.0f}%"),
             ("`logitspec`: MAT", lambda m: f"{method_of(m, 'logitspec')['mat']:.2f}"),
             ("... tokens/s, speedup", lambda m: speed(method_of(m, "logitspec"))),
             ("fastest fixed number of rows", lambda m: best(m, BUDGETS)),
             ("`logitspec` over it", over_fixed),
             ("fastest other drafter", lambda m: best(m, DRAFTERS)),
             ("busy prompts", lambda m: f"{m.compare['disturbed_prompts']} of {m.compare['prompts']}"),
             ("read bandwidth while rows were measured, GB/s", of_read),
             *((f"{n} row{'s' * (n > 1)}, ms", lambda m, n=n: cell(median_cell(m, n))) for n in ROWS),
             ("first byte of an answer, s", lambda m: f"{m.start_s:.2f}"),
             ("prefill, tokens/s", lambda m: f"{m.long['prefill_tokens_per_s']:.0f} ({m.long['tokens']} tokens, {m.long['prefill_ms']:.0f} ms)"),
             ("peak memory with that prompt, MB", lambda m: f"{m.long['peak_mb']:.0f}")]
    return ["## By model", "", f"The same prompts with each model, then forwards of all models in turn (after 256 tokens, rounds: {len(s.models[0].forwards)}, "
            "medians). In brackets behind tokens/s: the 95% interval of the speedup over plain decoding; behind milliseconds: as under Forwards. "
            "First byte: median of 5, files in the cache.", "", *columns(s, lines)]


def report_aims(s):
    def ours(m):
        return method_of(m, "logitspec")

    def worst(m):
        return min(c["speedup"] for c in [ours(m), *ours(m)["categories"]])

    def rival(m):
        x = fastest(m, DRAFTERS)
        ratio = ours(m)["tokens_per_s"] / x["tokens_per_s"] if x else 0
        return aimed(ratio, f"{ratio:.2f} ({x['method']})", 1) if x else ""

    def rows_over_one(m, rows, most):
        x = median_cell(m, rows)["of_one_row"]
        return aimed(x, f"{x:.2f}", most, True)
    lines = [("logitspec over own plain decoding, at least 1.6", lambda m: aimed(ours(m)["speedup"], f"{ours(m)['speedup']:.2f}", 1.6)),
             ("... in every category, at least 0.97", lambda m: aimed(worst(m), f"{worst(m):.2f}", 0.97)),
             ("plain decoding over the measured read bandwidth, at least 85%",
              lambda m: aimed(method_of(m, "plain")["of_limit"], f"{100 * method_of(m, 'plain')['of_limit']:.0f}%", 0.85)),
             ("peak memory at 1,000 tokens, under 400 MB", lambda m: aimed(m.long["peak_mb"], f"{m.long['peak_mb']:.0f} MB", 400, True)),
             ("host work a step, at most 0.15 ms", lambda m: aimed(ours(m)["host_us_per_step"], f"{ours(m)['host_us_per_step'] / 1000:.3f} ms", 150, True)),
             *((f"{n} rows over one (without AMX), at most {most}", lambda m, n=n, most=most: rows_over_one(m, n, most))
               for n, most in ((8, 1.3), (16, 2.0), (32, 3.6), (64, 7.0)) if n in ROWS),
             ("over the fastest other drafter, sized by cost too, at least 1", rival)]
    return ["## What was aimed at", "", *columns(s, lines)]


def report_loses(s):
    """Where drafting does not pay, in words."""
    out = []
    for model in s.models:
        lost = []
        for m in model.compare["methods"] if model.here else []:
            if m["method"] == "plain" or m["lossy"]:
                continue
            slower = [f"{c['category']} ({c['speedup']:.2f})" for c in m["categories"] if c["speedup"] < 1]
            if slower:
                lost.append(f"* `{m['method']}`: {', '.join(slower)}")
        out += [f"{model.label}:" + ("" if lost else f" {'none' if model.here else model.absent()}."), "", *lost, *([""] * bool(lost))]
    return ["## Where drafting loses", "", "Categories with a speedup below 1. `logitspec` sizes its trees by what rows cost: where no draft is worth "
            "its cost it verifies one row, which is plain decoding.", "", *out]


def methods(s, m):
    """Into its .json. A part of an interrupted run, of the same program and settings, is gone on with."""
    part = m.to + ".part.json"
    command = [PROGRAM, "bench", "methods", *m.flags, *s.prompts(), "--methods", some(METHODS), "--repeat", s.repeat, "--resume", "-q", "-o", part]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
    if code == 1 and os.path.exists(part):
        say("the part that is there is of another run: all of it is measured")
        os.remove(part)
        call(*command, codes=(0, 3))
    elif code not in (0, 3):
        sys.exit(f"bench: the methods were not measured: exit code {code}")
    os.replace(part, m.to + ".json")
    m.compare = read(m.to + ".json")


def measure_models(s):
    here = [m for m in s.models if m.here]
    for m in s.models:
        say(f"{m.label}: methods on the suite" if m.here else f"{m.label}: {m.absent()}")
        if m.here:
            methods(s, m)
    say("forwards of all models in turn")
    for _ in range(ROUNDS):
        for m in here:
            m.forwards.append(forwards(s, *m.flags, "--contexts", "256", "--rows", some(ROWS)))
    say("perplexity, start, memory, prefill")
    for m in here:
        lines = [] if SMOKE else call(os.path.join(TOOLS, "perplexity"), m.name, os.path.join(ROOT, "tests/bench/perplexity.txt"), *DTYPES).splitlines()
        m.perplexity = {o["dtype"]: o for o in map(json.loads, lines)}
        m.start_s, m.long = start(m), long_context(s, m)


def report_quality(s):
    def of(dtype):
        return lambda m: f"{m.perplexity[dtype]['perplexity']:.3f} ({100 * (m.perplexity[dtype]['perplexity'] / m.perplexity['f32']['perplexity'] - 1):+.2f}%)"
    return ["## Quality", "", "Perplexity on tests/bench/perplexity.txt, in brackets over f32:", "",
            *columns(s, [("tokens", lambda m: m.perplexity["f32"]["tokens"]), *((d, of(d)) for d in DTYPES)])]


def own():
    s = Settings()
    first = s.models[0]
    r = {"commit": call("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip(), "date": time.strftime("%Y-%m-%d")}
    measure_models(s)
    say("forwards by arithmetic, context and threads")
    r["dtypes"] = {} if SMOKE else {d: forwards(s, *first.flags, "--dtype", d, "--contexts", "256", "--rows", some(ROWS)) for d in DTYPES}
    r["contexts"] = forwards(s, *first.flags, "--contexts", some(CONTEXTS), "--rows", some(ROWS), "-o", s.to + "-forwards.svg")
    r["dtypes"] = r["dtypes"] or {"i8": r["contexts"]}
    counts = [] if SMOKE else sorted({1, 2, *(2 ** i for i in range(2, 10)), s.cores} & set(range(1, s.cores + 1)))
    r["threads"] = {n: forwards(s, *first.flags, "--contexts", "256", "--rows", "1,8,64", "--threads", str(n)) for n in counts}
    equal = all(m.compare["equal"] for m in s.models if m.here)
    out = [shown(first.to + ".json"), "",
           f"`make bench-cpu`, {os.path.basename(s.suite)}, program at {r['commit']}, {r['date']}. Text of all methods " +
           ("is equal, token for token." if equal else "DIFFERS."), "", *report_models(s), *report_loses(s), *report_forwards(r, s.to),
           *([] if SMOKE else report_quality(s)), *report_aims(s)]
    write(s.to + ".md", "\n".join(out))
    return 0 if equal else 3


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
