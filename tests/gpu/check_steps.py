"""The steps of the check on a GPU, one function each, with the words that a plan gives them (plans/, README.md)."""
import importlib.util
import json
import os
import platform
import re
import sys

from check_report import LARGE, SMALL
from check_run import HERE, ROOT, call, commit, find_tool, first_line, json_lines

METHODS = "plain,logitspec,logitspec-paper,pld"
PROMPTS = os.path.join(HERE, "prompts.jsonl")


def prompts():
    with open(PROMPTS, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


# ---- before the tests: the machine, building, the device

def machine(run):
    m = run.r["machine"]
    ask = "name,driver_version,memory.total,compute_cap,clocks.max.sm,clocks.max.memory,power.limit,temperature.gpu"
    gpu = first_line(["nvidia-smi", f"--query-gpu={ask}", "--format=csv,noheader"])
    m["gpu"] = dict(zip(ask.split(","), (s.strip() for s in gpu.split(",")))) if gpu else None
    nvcc = call([find_tool("nvcc") or "nvcc", "--version"], 20)
    m["nvcc"] = (re.findall(r"release.*", nvcc.out) or [None])[-1]
    m["cpu"], m["cores"] = platform.machine(), len(os.sched_getaffinity(0))
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            m["cpu"] = re.search(r"model name\s*: (.*)", f.read()).group(1)
    except (OSError, AttributeError):
        pass
    m["system"], m["libc"], m["python"] = platform.platform(), " ".join(platform.libc_ver()), platform.python_version()
    m["gxx"] = first_line(["g++", "--version"])
    m["torch"] = None
    for place in ("headeronly", "csrc/api/include/torch") if run.torch else ():
        path = os.path.join(run.torch, "include", "torch", place, "version.h")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                numbers = re.findall(r"#define TORCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", f.read())
            m["torch"] = ".".join(numbers) or m["torch"]
    m["commit"] = commit()
    run.note("machine", "passed", (m["gpu"] or {}).get("name") or "no GPU that nvidia-smi shows")


def make(run, name, *targets, limit=300, judge=None):
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "LIBTORCH")}
    torch = [f"LIBTORCH={run.torch}"] if run.torch else []
    return run.step(name, ["make", "PACKAGES=unchecked", *targets, *torch], limit, judge, env)


def build(run):
    if run.emulated:
        make(run, "build: emulated library, tests", "build/tests/liblstorch_emulated.so", "build/tests/gpu_bench_emulated",
             "build/tests/test_gpu_kernels", "build/liblstorch.so", "build/logitspec", "build/tests/test_lst")
        return
    if not run.torch:
        run.note("build", "failed", "no libtorch: LIBTORCH=DIR, or a python3 with torch")
        return
    make(run, "build: CUDA library", "cuda")
    make(run, "build: tests of kernels, benchmark", "build/tests/gpu_kernels", "build/tests/gpu_bench")
    make(run, "build: CPU library", "build/liblstorch.so")

    def judge(d, entry):
        if not d.ok:
            entry.update(state="skipped", detail="it cannot be built here (make gpu-bundle elsewhere makes an archive that "
                         "holds it): " + d.why())
    if not run.prebuilt:
        make(run, "build: program", "build/logitspec", "build/tests/test_lst", "build/tests/test_models", limit=200, judge=judge)


def device(run):
    """Whether the GPU can be used, as the library sees it."""
    d = run.step("device", [run.bench_program, "--library", run.library, "--device-info"], 120)
    if not d or not d.ok:
        return False
    run.r["machine"]["device"] = next(x for x in json_lines(d.out) if x["kind"] == "device")
    return True


# ---- tests

def judge_tests(d, entry):
    text = d.out + d.err
    passed = len(re.findall(r"^\[ +OK \]", text, re.M))
    failed = sorted(set(re.findall(r"^\[  FAILED  \] ([A-Za-z_]\w*)", text, re.M)))
    skipped = sorted(set(re.findall(r"^\[  SKIPPED \] ([A-Za-z_]\w*)", text, re.M)))
    entry["detail"] = (f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped" +
                       (": " + entry["detail"] if entry["detail"] else ""))
    entry.update(tests_passed=passed, tests_failed=failed, tests_skipped=skipped)
    lost = re.findall(r"needs:.*", text)
    if d.ok and lost:  # with a GPU nothing may lack what it needs (what is only for the emulated device says nothing)
        entry["state"] = "failed"
        entry["detail"] += f"; the device was not tested: {lost[0]}"
    elif d.ok and not passed:
        entry.update(state="failed", detail="no test ran")


def judge_heads(d, entry):
    if d.ok and not re.search(r"^OK$", d.err, re.M):  # skipped
        entry.update(state="failed", detail=d.err.strip().splitlines()[-1])


def tests(run, what):
    """what: kernels, test_lst, test_models or heads"""
    if what == "heads":
        there = run.torch and os.path.exists(os.path.join(run.torch, "lib", "libtorch_cuda.so"))
        why = ("make test has it" if run.emulated else "a bundle does not have it" if run.prebuilt else run.cannot_start("logitspec") or (
            None if there else "this libtorch has no operators for GPUs: LIBTORCH=DIR of a PyTorch for CUDA"))
        if why:
            run.note("tests: heads", "skipped", why)
        else:
            run.step("tests: heads", [sys.executable, "-m", "unittest", "discover", "-s", "tests/e2e", "-p", "test_draft_model.py",
                                      "-k", "on_a_gpu"], 120, judge_heads)
        return
    if what == "kernels":
        if run.emulated:  # all of them take a minute there
            for name in ("gate", "add_norm"):
                run.step(f"tests: kernels ({name})", [run.built("test_gpu_kernels"), name], 60, judge_tests)
        else:
            run.step("tests: kernels", [run.built("gpu_kernels")], 120, judge_tests)
        return
    why = run.cannot_start(what)
    if run.emulated and what == "test_models":
        why = "it takes minutes on the emulated device (make test has it)"
    if why:
        run.note(f"tests: {what}", "skipped", why)
    else:
        run.step(f"tests: {what}", [run.program(what)], 180, judge_tests)


def sanitizer(run, kind, what):
    """kind: memcheck, racecheck or initcheck; what: kernels (all tests of them), a part of their names, or model (a tiny one)"""
    tool, name = find_tool("compute-sanitizer"), f"compute-sanitizer: {kind}, {what}"
    if run.emulated or not tool:
        run.note(name, "skipped", "it is not for the emulated device" if run.emulated else "compute-sanitizer is not on PATH")
        return

    def judge(d, entry):
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", d.out + d.err)
        if d.late:  # slow, not wrong: nothing is known
            entry.update(state="skipped", detail=f"not done in {d.seconds:.0f} s")
        elif not found:
            entry.update(state="failed" if d.code else "skipped", detail="it gave no summary: " + d.why())
        else:
            entry["detail"] = found[-1] + ("; " + d.why() if not d.ok else "")
    if what == "model":
        args = [run.bench_program, "--library", run.library, "--exact", "--tiny", "--tokens", "60", "--seconds", "20"]
    else:
        args = [run.built("gpu_kernels"), *([] if what == "kernels" else [what])]
    env = dict(run.env, LOGITSPEC_CUDA_MALLOC="1")  # what is beyond an allocation belongs to nobody then
    run.step(name, [tool, "--tool", kind, "--error-exitcode", "86", "--print-limit", "5", *args], 100, judge, env, needs=10)


def profile(run, *words):
    """words: a kernel of the times step, its format and rows: what the hardware counters say of two of its launches"""
    kernel, form, rows = " ".join(words[:-2]).replace(",", ", "), *words[-2:]
    tool, name = find_tool("ncu"), f"profile: {kernel}, {form}, {rows} rows"
    if run.emulated or not tool:
        run.note(name, "skipped", "it is not for the emulated device" if run.emulated else "ncu is not on PATH")
        return

    def judge(d, entry):
        path = os.path.join(run.out, "profile-" + re.sub(r"[^a-z0-9]+", "-", f"{kernel} {form} {rows}") + ".txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(d.out)
        wanted = ("Duration", "Executed Ipc Active", "One or More Eligible", "DRAM Throughput", "L2 Cache Throughput",
                  "Registers Per Thread", "Achieved Occupancy")
        found = {k: re.findall(re.escape(k) + r"\s+\S+\s+([\d.,]+)", d.out)[-1:] for k in wanted}
        if d.ok:
            entry["detail"] = ", ".join(f"{k} {v[0]}" for k, v in found.items() if v)
        if d.late or not any(found.values()):
            entry["state"] = "skipped"
    run.step(name, [tool, "--clock-control", "none", "--set", "full", "-k", "regex:matmul|attend", "-s", "3", "-c", "2",
                    run.built("gpu_kernels"), "--times-of", kernel, form, rows], 60, judge, needs=10)


# ---- measurements of the library alone

def bench(run, name, *args, limit=120):
    def judge(d, entry):
        new = [x for x in json_lines(d.out) if x["kind"] not in ("device", "error")]
        run.r["bench"] += new
        if not d.ok and not any(x.get("differences") for x in new):
            entry["detail"] += "; what it printed before is kept"
    size = (["--tiny"] if run.emulated else []) + (["--quick"] if run.quick else [])
    run.step(name, [run.bench_program, "--library", run.library, *args, *size], limit, judge)


def copy(run):
    bench(run, "copy bandwidth", "--copy", limit=60)


def kernels(run, what):
    """what: times (each kernel), cuts or cuts-small (matmuls by chunks of their inputs; times.h)"""
    def judge(d, entry):
        run.r["bench"] += [dict(x, kind="kernel" if what == "times" else what) for x in json_lines(d.out)]
    if run.emulated and what != "times":
        run.note(f"kernels: {what}", "skipped", "it takes minutes on the emulated device")
        return
    program, option = run.built("test_gpu_kernels" if run.emulated else "gpu_kernels"), "--times" if what == "times" else "--times-" + what
    run.step(f"kernels: {what}", [program, "--times-tiny" if run.emulated else option], 60, judge)


TINY = {LARGE[0]: "tiny", SMALL: "tiny-tied"}  # what stands for a shape on the emulated device


def small_enough(run, name, shape, weights):
    """The shape to run, or None: it was noted as skipped."""
    why = ("--quick leaves it out" if run.quick and weights == "q8" else
           "a tiny shape stands for the others on the emulated device" if run.emulated and shape not in TINY else None)
    if why:
        run.note(name, "skipped", why)
        return None
    return TINY[shape] if run.emulated else shape


def shapes(run, shape, weights):
    name = f"times: {shape}, {weights}"
    if of := small_enough(run, name, shape, weights):
        bench(run, name, "--shape", of, "--weights", weights, limit=90 if run.emulated else 120)


def exact(run, shape, weights, tokens):
    name = f"exactness: {shape}, {weights}"
    tokens = int(run.tokens or (180 if run.emulated else 10000 if run.quick and int(tokens) > 10000 else tokens))
    if of := small_enough(run, name, shape, weights):
        if run.emulated and shape != SMALL:
            run.note(name, "skipped", "one shape is enough on the emulated device")
            return
        bench(run, f"{name}, {tokens} tokens", "--exact", *([] if run.emulated else ["--shape", of, "--weights", weights]), "--tokens",
              str(tokens), "--seconds", str(int(max(5, run.limit(150) - 25))), limit=175)


# ---- the program on a real model

def compare(run, key, name, limit, on, *args):
    def judge(d, entry):
        if d.late or not d.out.startswith("{"):
            return
        got = run.r["program"][key] = json.loads(d.out)
        wrong = [f"{m['method']} in {m['different']} prompts" for m in got["methods"] if m["different"]]
        if wrong or not got["equal"]:
            entry.update(state="failed", detail="output tokens differ from plain's: " + ", ".join(wrong))
        elif on != "cpu" and got["manifest"]["device"] == "cpu":
            entry.update(state="failed", detail="it ran on the CPU")
    run.step(name, [run.program("logitspec"), "compare", "--device", on, *args, "--json", "--quiet"], limit, judge)


def program(run):
    why = run.cannot_start("logitspec")
    model, tokens, suite, methods = run.model, 128, PROMPTS, METHODS
    few = os.path.join(run.tmp.name, "few.jsonl")
    with open(few, "w", encoding="utf-8") as f:  # one of a kind
        f.writelines(json.dumps(p) + "\n" for p in prompts()[::3][:2 if run.emulated else None])
    if run.emulated and not why:  # a tiny model, with the tokenizer of a real one
        sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
        from test_folders import folder
        model, tokens, suite, methods = folder(run.tmp.name, "qwen3", "qwen2.json"), 12, few, "plain,logitspec"
    if not model:
        why = "needs MODEL=FILE.gguf"
    elif not os.path.exists(model):
        why = f"{model} is not there"
    if not why and run.prebuilt:
        d = call([run.program("logitspec"), "--version"], 20, run.env)
        why = None if d.ok else "the prebuilt program does not start here: " + d.why()
    if why:
        run.note("program", "skipped", why)
        return
    model = os.path.abspath(model)
    run.r["program"]["file"] = os.path.basename(model)
    same = ["--model", model, "--max-tokens", str(tokens), "--methods", methods, "--suite", suite]
    compare(run, "greedy", "program: greedy", 90, "cuda", *same)
    compare(run, "sampled", "program: temperature 1", 90, "cuda", *same, "--temperature", "1", "--seed", "7")
    compare(run, "cpu", "program: the CPU", 60, "cpu", "--model", model, "--max-tokens", str(min(64, tokens)),
            "--methods", "plain,logitspec", "--suite", few)


# ---- transformers, in a process of its own (check_reference.py)

def reference(run, name, work, limit):
    def judge(d, entry):
        got = json_lines(d.out)
        run.r["transformers"] += [x for x in got if "skipped" not in x]
        if not d.ok:  # theirs, not ours
            entry["state"] = "skipped"
        elif got and "skipped" in got[-1]:
            entry.update(state="skipped", detail=got[-1]["skipped"])
    env = dict(os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    args = [sys.executable, os.path.join(HERE, "check_reference.py"), json.dumps(dict(work, tiny=run.emulated))]
    run.step(name, args, limit, judge, env, needs=20)


def transformers(run):
    lost = [m for m in ("torch", "transformers") if not importlib.util.find_spec(m)]
    if lost:
        run.note("transformers", "skipped", f"{sys.executable} has no {' and no '.join(lost)}")
        return
    for shape in ["tiny-tied"] if run.emulated else [SMALL] if run.quick else [SMALL] + LARGE:
        reference(run, f"transformers: {shape}", {"shape": shape}, 90)
    name = "transformers: prompt lookup"
    why = run.cannot_start("logitspec") or (None if run.model else "needs MODEL=FILE.gguf")
    if why:
        run.note(name, "skipped", why)
        return
    model, on = os.path.abspath(run.model), "cpu" if run.emulated else "cuda"
    work = []
    for i, p in enumerate(prompts()[:2 if run.emulated else None]):
        same = ["--model", model, "--chat", "--prompt", p["prompt"], "--json"]
        if not i % 3:  # of one prompt of a kind our text, too
            args = ["generate", *same, "--method", "plain", "--max-tokens", "128", "--temperature", "0", "--device", on, "--quiet"]
        else:
            args = ["tokenize", *same]
        d = call([run.program("logitspec"), *args], run.limit(60), run.env)
        if not d.ok:
            run.note(name, "skipped", "no tokens of prompts: " + d.why())
            return
        o = json.loads(d.out)
        work.append({"prompt": o.get("prompt_tokens") or o["ids"], "output": o.get("output_tokens")})
    path = os.path.join(run.tmp.name, "prompts.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(work, f)
    reference(run, name, {"gguf": model, "prompts": path}, 150)
