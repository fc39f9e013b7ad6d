"""What the check on a GPU has to say: goals, and the two report files, from the record of a run (check_run.py)."""
import json
import os

LARGE = ["llama-3.1-8b", "vicuna-7b"]  # shapes of bench.c
SMALL = "smollm2-135m"


def write(r, folder):
    """Both files, each whole at every moment."""
    r["goals"] = goals(r)
    for name, text in (("gpu-check.json", json.dumps(r, indent=1) + "\n"), ("gpu-check.md", report(r))):
        path = os.path.join(folder, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(path + ".new", path)


# ---- what was measured; {} or None where it was not

def pick(r, kind, **want):
    return [x for x in r["bench"] if x["kind"] == kind and all(x.get(k) == v for k, v in want.items())]


def one(r, kind, **want):
    found = pick(r, kind, **want)
    return found[-1] if found else {}


def plain_step(r, shape, context=640):
    return one(r, "step", shape=shape, weights="bf16", context=context, sampling="greedy")


def rows_us(r, shape, context, rows, key, weights="bf16"):
    return one(r, "rows", shape=shape, weights=weights, context=context, rows=rows).get(key)


def method(r, key, name):
    found = r["program"].get(key, {}).get("methods", [])
    return next((m for m in found if m["method"].split("/")[0] == name), {})


def ratio(a, b):
    return a / b if a and b else None


# ---- goals

def goals(r):
    out = []

    def goal(what, value, limit, shown, of, at_most=False):
        reached = value is not None and (value <= limit if at_most else value >= limit)
        state = ("not measured" if value is None else "means nothing (emulated)" if r["emulated"] else
                 "reached" if reached else "NOT reached")
        out.append({"goal": what, "measured": "" if value is None else shown.format(value), "value": value, "limit": limit,
                    "state": state, "of": of})

    copy = one(r, "copy")
    for shape in LARGE:
        for context in (640, 8320):
            s = plain_step(r, shape, context)
            goal(f"{shape} (random bf16), plain step at {context}: at least 88% of copy bandwidth",
                 ratio(s.get("bytes_per_s"), copy.get("bytes_per_s")), 0.88, "{:.3f}",
                 "(weights read once + KV cache read) / device time of a step, over measured device-to-device copy (bytes "
                 "read + written / s)")
    goal("SmolLM2-135M, real model by the program: plain decoding at least 1600 tokens/s",
         method(r, "greedy", "plain").get("tokens_per_s"), 1600, "{:.0f}",
         "output tokens / decoding time of the whole program, greedy, prefill left out")
    goal("SmolLM2-135M's shape (random bf16): plain decoding at least 1600 tokens/s at 640",
         ratio(1e6, plain_step(r, SMALL).get("wall_us")), 1600, "{:.0f}",
         "1 / median wall time of forward + commit + list of best tokens")
    for shape in LARGE:
        for rows, context, limit in ((32, 640, 1.06), (64, 640, 1.12), (64, 8320, 1.2)):
            ratios = [ratio(rows_us(r, shape, context, rows, k), rows_us(r, shape, context, 1, k))
                      for k in ("wall_us", "device_us")]
            goal(f"{shape} (random bf16): T({rows}) / T(1) at {context}, at most {limit}",
                 max((x for x in ratios if x), default=None), limit, "{:.3f}",
                 "median time of a forward of so many rows over that of one row; the larger of wall and device time's ratios",
                 True)
    for shape in LARGE:
        cut = next((x for x in pick(r, "step", shape=shape, weights="bf16") if x["sampling"] != "greedy"), {})
        goal(f"{shape} (random bf16): a sampled plain step (top-k, top-p), at most 1.05 of a greedy one",
             ratio(cut.get("device_us"), plain_step(r, shape).get("device_us")), 1.05, "{:.3f}",
             "median device time of a step that samples over that of a greedy one", True)
    same = {"shape": LARGE[0], "weights": "q4", "context": 640}
    goal(f"{LARGE[0]} in 4 bits, T(64) / T(1) at 640, at most 1.4",
         ratio(one(r, "rows", rows=64, **same).get("device_us"), one(r, "rows", rows=1, **same).get("device_us")), 1.4, "{:.3f}",
         "median device time of a forward of 64 rows over that of one row", True)
    for shape in LARGE:
        s = plain_step(r, shape)
        goal(f"{shape} (random bf16): host and copies of a plain step, at most 100 us",
             s["host_us"] + copy["step_copies_us"] if s and copy else None, 100, "{:.1f} us",
             "median (wall - device time) + time of a step's own copy up and copy down, measured alone", True)
    for key, name in (("greedy", "greedy"), ("sampled", "temperature 1")):
        m = method(r, key, "logitspec")
        goal(f"real model, {name}: logitspec's speedup at least 0.9 of its MAT", ratio(m.get("speedup"), m.get("mat")), 0.9,
             "{:.3f}", "speedup against plain of the same run, over tokens a step")
    for shape in [SMALL] + LARGE:
        t = next((x for x in r["transformers"] if x.get("shape") == shape), {})
        goal(f"{shape} (random bf16): plain decoding at least 2x transformers'",
             ratio(t.get("ms_a_token", 0) * 1e3, plain_step(r, shape).get("wall_us")), 2, "{:.2f}",
             "transformers' ms a token over 64 tokens after 640 (sdpa, default generate), over our median step at 640 .. 700")
    t = next((x for x in r["transformers"] if x.get("valid")), {})
    goal("real model: logitspec at least 3x transformers' prompt lookup",
         ratio(method(r, "greedy", "logitspec").get("tokens_per_s"), t.get("lookup_tokens_per_s")), 3, "{:.2f}",
         "output tokens / decoding time, the same prompts, greedy, 128 tokens at most")
    e = one(r, "exact_sum", shape="tiny-tied" if r["emulated"] else SMALL)
    goal("drafted trees equal plain decoding, bit for bit, over 50,000 tokens",
         e["differences"] if e and (e["differences"] or e["tokens"] >= 50000) else None, 0, "{} differences",
         "tokens compared (random weights): token, logits, row statistics, best 64" +
         (f"; {e['tokens']} were compared" if e else ""), True)
    runs = [s for s in r["steps"] if s["name"].startswith("compute-sanitizer")]
    bad, good = ([s for s in runs if s["state"] == state] for state in ("failed", "passed"))
    kinds = {s["name"].split(": ")[1].split(",")[0] for s in good}
    goal("compute-sanitizer (memcheck, racecheck, initcheck) is clean", len(bad) if bad or len(kinds) == 3 else None, 0,
         "{} of " + str(len(bad) + len(good)) + " runs with findings", f"pieces that ended: {', '.join(s['name'][19:] for s in good)}"
         if runs else "", True)
    return out


# ---- the report to read

def table(head, rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:], ""]


def cell(text):
    return str(text).replace("|", "/").replace("\n", " ")[:600]


def report(r):
    m, steps = r["machine"], r["steps"]
    by = {k: [s for s in steps if s["state"] == k] for k in ("passed", "failed", "skipped")}
    g = m.get("gpu") or {}
    gpu = m.get("device", {}).get("name") or g.get("name") or "no GPU"
    out = [f"# GPU check: {gpu}", ""]
    if r["emulated"]:
        out += ["**On the EMULATED device, tiny shapes: a test of this script. No time here means anything.**", ""]
    out += [f"{len(by['passed'])} steps passed, **{len(by['failed'])} failed**, {len(by['skipped'])} skipped" +
            (f", {r['seconds']:.0f} s" if "seconds" in r else " (not finished)") +
            f"; {r['date']}, program at {m.get('commit')}" + (", prebuilt." if r["prebuilt"] else ".") +
            (" Quick: fewer repetitions." if r["quick"] else ""), ""]
    out += [f"- {shown} {s['name']}: {cell(s['detail'])}" for shown in ("FAILED", "skipped") for s in by[shown.lower()]] + [""]
    out += ["## Goals", ""]
    out += table(["goal", "measured", "", "measured how"], [[x["goal"], x["measured"], x["state"], x["of"]] for x in r["goals"]])
    out += ["## Machine", "", f"{gpu}; driver {g.get('driver_version')}, memory {g.get('memory.total')}, clocks at most "
            f"{g.get('clocks.max.sm')} (memory {g.get('clocks.max.memory')}), power limit {g.get('power.limit')}; "
            f"{m.get('device', {}).get('runtime')}; nvcc {m.get('nvcc')}; {m.get('gxx')}; {m.get('cpu')}, {m.get('cores')} "
            f"processors; {m.get('system')}, {m.get('libc')}, Python {m.get('python')}; libtorch {m.get('torch')} "
            f"({r['torch_found']}).", ""]
    out += ["## Steps", ""]
    out += table(["step", "", "s", ""], [[s["name"], s["state"], f"{s['seconds']:.1f}", cell(s["detail"])] for s in steps])
    for part in (copy_report, kernels_report, steps_report, rows_report, exact_report, program_report, transformers_report):
        out += part(r)
    return "\n".join(out).rstrip() + "\n"


def copy_report(r):
    x = one(r, "copy")
    if not x:
        return []
    return ["## Copy bandwidth", "", f"Device to device, {x['bytes'] / 2**30:.3g} GiB, median of {x['runs']}: "
            f"{x['bytes_per_s'] / 1e9:.0f} GB/s (bytes read + bytes written). A step's own copies ({x['step_up_bytes']} bytes "
            f"up, {x['step_down_bytes']} down), alone: {x['step_copies_us']:.1f} us.", ""]


def kernels_report(r):
    copy, rows = one(r, "copy"), []
    for x in pick(r, "kernel"):
        rate = x["bytes"] / x["us"] * 1e6 if x["us"] and x["bytes"] else 0
        share = f" ({rate / copy['bytes_per_s']:.3f})" if copy and rate else ""
        paper = f"{x['paper_us']:.1f} (x{x['us'] / x['paper_us']:.2f})" if x["paper_us"] else ""
        rows.append([x["kernel"], x["format"], x["rows"], x["context"] or "", f"{x['us']:.1f}",
                     f"{rate / 1e9:.0f}{share}" if rate else "", paper])
    if not rows:
        return []
    return ["## Single kernels (the shapes of Llama 3.1 8B, one layer)", "", "Mean device time of launches in a row; each matmul "
            "reads another copy of its weights, so that no cache holds them. GB/s: bytes that must come from memory over that "
            "time; in brackets over the copy's. On paper: what src/gpu/cost.c says (measured over it).", ""] + \
        table(["kernel", "format", "rows", "context", "us", "GB/s", "on paper, us"], rows)


def steps_report(r):
    copy, rows = one(r, "copy"), []
    for x in pick(r, "model"):
        same = {"shape": x["shape"], "weights": x["weights"]}
        p, large = one(r, "prefill", **same), one(r, "prefill_large", **same)
        for s in pick(r, "step", **same):
            share = f" ({s['bytes_per_s'] / copy['bytes_per_s']:.3f})" if copy else ""
            rows.append([*same.values(), f"{x['weight_bytes'] / 1e6:.5g}", f"{s['weight_bytes_read'] / 1e6:.5g}", s["sampling"],
                         s["context"], s["steps"], f"{s['wall_us']:.1f}", f"{s['device_us']:.1f}", f"{s['host_us']:.1f}",
                         f"{1e6 / s['wall_us']:.1f}", f"{s['bytes_per_s'] / 1e9:.0f}{share}",
                         f"{p['tokens_per_s']:.0f} ({p['tokens']})" if p else "",
                         f"{large['tokens_per_s']:.0f}{' DIFFERS' if large['differences'] else ''}" if large else ""])
    if not rows:
        return []
    return ["## Plain decoding (random weights in the shapes of real models)", "",
            "A step: forward of one row, commit, the 64 best tokens; medians. Bandwidth: (weights read once + KV cache read) / "
            "device time; in brackets over the copy's. Host: median of wall - device. Weights of a step leave out an embedding "
            "that is no output head; prefill: of a prompt alone, tokens / wall time; large tiles: LOGITSPEC_CUDA_LARGE_TILES.", ""] + \
        table(["shape", "weights", "MB in all", "MB a step", "sampling", "context", "steps", "wall us", "device us", "host us",
               "tokens/s", "GB/s", "prefill tokens/s (of)", "in large tiles"], rows)


def rows_report(r):
    counts, rows = sorted({x["rows"] for x in pick(r, "rows")}), []
    for x in pick(r, "model"):
        same = {"shape": x["shape"], "weights": x["weights"]}
        for kind, context in sorted({(k, y["context"]) for k in ("rows", "rows_large") for y in pick(r, k, **same)}):
            of = [one(r, kind, context=context, rows=n, **same) for n in counts]
            base = rows_us(r, x["shape"], context, 1, "wall_us", x["weights"])
            rows.append([*same.values(), f"{context}{', in large tiles' * (kind == 'rows_large')}"] + [
                f"{y['wall_us']:.0f} ({y['device_us']:.0f}) x{y['wall_us'] / base:.3f}" if y and base else "" for y in of])
    if not rows:
        return []
    return ["## Forwards by rows (random weights)", "", "Median wall us of one forward (device us); x: over one row, wall. "
            "Trees: chains of eight from the root.", ""] + table(["shape", "weights", "context"] + counts, rows)


def exact_report(r):
    rows = [[f"{x['shape']}, {x['weights']}", x["sampling"], x["tokens"], x["runs"], x["trees"], f"{x['rows_a_tree']:.1f} ({x['largest_tree']})",
             f"{x['tokens_a_tree']:.2f} ({x['longest_path']})", x["longest_context"],
             " / ".join(str(x["different_" + k]) for k in ("tokens", "logits", "rows", "lists")), x["seconds"]]
            for x in pick(r, "exact")]
    if not rows:
        return []
    return ["## Drafted trees against plain decoding (random weights)", "",
            "Every accepted row: token, all logits, row statistics; after every tree the best 64 tokens. Trees hold the plain "
            "text with errors, branches, and what followed the same token before; prompts random.", ""] + \
        table(["shape", "sampling", "tokens", "runs", "trees", "rows a tree (largest)", "tokens a tree (longest)",
               "longest context", "different tokens / logits / statistics / lists", "s"], rows)


def program_report(r):
    out, kind = [], "TINY RANDOM model" if r["emulated"] else "real model"
    names = {"greedy": "greedy", "sampled": "temperature 1", "cpu": "the CPU beside it, greedy, one prompt of a kind"}
    for key in (k for k in names if k in r["program"]):
        c = r["program"][key]
        of = c["manifest"]
        ar = next(m for m in c["methods"] if m["method"] == "plain")
        out += [f"## The program, {kind} {r['program']['file']}: {names[key]}", "",
                f"`logitspec compare`, device {of['device']}, {of['dtype']} ({of['kernel']}), {of['threads']} threads, "
                f"{ar['prompts']} prompts (tests/gpu/prompts.jsonl), {c['max_tokens']} tokens at most. Output tokens of all "
                "methods " + ("are equal, prompt by prompt." if c["equal"] else "DIFFER.") + " tokens/s: output tokens / "
                "decoding time, without prefill; speedup: against plain's time for the same prompts, in the same process. Host: "
                "decoding time less forwards, a step.", ""]
        rows = []
        for m in c["methods"]:
            speedup, low, high = m["speedup"] or 0, m["speedup_low"], m["speedup_high"]
            rows.append([m["method"], m["emitted"], m["steps"], f"{m['mat']:.2f}", f"{m['tokens_per_s']:.0f}", f"{speedup:.2f}",
                         f"{low:.2f} - {high:.2f}" if low and high else "", f"{speedup / m['mat']:.2f}",
                         f"{m['draft_us_per_step']:.0f}", f"{m['host_us_per_step']:.0f}", m["different"]])
        out += table(["method", "tokens", "steps", "MAT", "tokens/s", "speedup", "95%", "speedup / MAT", "draft us/step",
                      "host us/step", "different"], rows)
        out += ["Speedup (MAT) by kind:", ""]
        out += table(["method"] + [k["category"] for k in ar["categories"]],
                     [[m["method"]] + [f"{k['speedup'] or 0:.2f} ({k['mat']:.2f})" for k in m["categories"]]
                      for m in c["methods"] if m is not ar])
    return out


def transformers_report(r):
    out, shapes = [], [x for x in r["transformers"] if "shape" in x]
    if shapes:
        x = shapes[0]
        out += ["## Hugging Face transformers (random weights, bf16, sdpa, default generate)", "",
                f"transformers {x['transformers']}, torch {x['torch']}: ms a token over 64 tokens after a prompt of 640 (median "
                f"of {x['runs']}; the time of a run of one token is taken off). Ratio: over our median wall step at 640, bf16, "
                "same shape.", ""]
        rows = []
        for x in shapes:
            us = plain_step(r, x["shape"]).get("wall_us")
            ours = [f"{us / 1e3:.3f}", f"{x['ms_a_token'] * 1e3 / us:.2f}"] if us else ["", ""]
            rows.append([x["shape"], f"{x['ms_a_token']:.2f}", *ours])
        out += table(["shape", "their ms a token", "ours", "ratio"], rows)
    ours = method(r, "greedy", "logitspec")
    for x in (x for x in r["transformers"] if "lookup_tokens_per_s" in x):
        out += ["## Hugging Face transformers on the real model", "",
                f"{x['prompts']} prompts as above (plain: one of a kind), greedy, bf16 ({x['loaded']}), {x['tokens']} new tokens "
                "at most; tokens / (time of generate less that of one token). Plain text agrees with ours for "
                f"{x['agree']:.0f} tokens (median over prompts; roundings of bf16 part them sooner or later)." +
                ("" if x["valid"] else " **That is too few: the model was not read right, and nothing is compared.**"), ""]
        rows = []
        for name, key in (("generate, plain", "plain_tokens_per_s"),
                          (f"generate, prompt_lookup_num_tokens={x['lookup_num_tokens']}", "lookup_tokens_per_s")):
            over = f"{ours['tokens_per_s'] / x[key]:.2f}" if ours and x["valid"] else ""
            rows.append([name, f"{x[key]:.0f}", over])
        out += table(["", "tokens/s", "ours: logitspec over it"], rows)
    return out
