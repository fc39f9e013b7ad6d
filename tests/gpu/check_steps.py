"""The steps of the check on a GPU, one function each; check.py has their order, README.md what they are for."""
import importlib.util
import json
import os
import platform
import re
import sys

from check_report import LARGE, SMALL
from check_run import HERE, ROOT, call, commit, find_tool, first_line, json_lines

METHODS = "ar,logitspec,logitspec-paper,pld"
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
    return run.step(name, ["make", *targets, *torch], limit, judge, env)


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


def tests(run):
    if run.emulated:  # all of them take a minute there
        for name in ("gate", "add_norm"):
            run.step(f"tests: kernels ({name})", [run.built("test_gpu_kernels"), name], 60, judge_tests)
    else:
        run.step("tests: kernels", [run.built("gpu_kernels")], 120, judge_tests)
    for program, limit in (("test_lst", 90), ("test_models", 180)):
        why = run.cannot_start(program)
        if run.emulated and program == "test_models":
            why = "it takes minutes on the emulated device (make test has it)"
        if why:
            run.note(f"tests: {program}", "skipped", why)
        else:
            run.step(f"tests: {program}", [run.program(program)], limit, judge_tests)


def sanitizer(run):
    tool = find_tool("compute-sanitizer")
    if run.emulated or not tool:
        run.note("compute-sanitizer", "skipped",
                 "it is not for the emulated device" if run.emulated else "compute-sanitizer is not on PATH")
        return

    def judge(d, entry):
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", d.out + d.err)
        if d.late:  # slow, not wrong: nothing is known
            entry.update(state="skipped", detail=f"not done in {d.seconds:.0f} s")
        elif not found:
            entry.update(state="failed" if d.code else "skipped", detail="it gave no summary: " + d.why())
        else:
            entry["detail"] = found[-1] + ("; " + d.why() if not d.ok else "")
    model = [run.bench_program, "--library", run.library, "--exact", "--tiny", "--tokens", "60", "--seconds", "20"]
    env = dict(run.env, LOGITSPEC_CUDA_MALLOC="1")  # what is beyond an allocation belongs to nobody then
    for what, args, limit in (("kernels", [run.built("gpu_kernels")], 100), ("a model", model, 60)):
        for kind in ("memcheck", "racecheck", "initcheck"):
            run.step(f"compute-sanitizer: {kind}, {what}",
                     [tool, "--tool", kind, "--error-exitcode", "86", "--print-limit", "5", *args], limit, judge, env, needs=15)


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


def kernels(run):
    def judge(d, entry):
        run.r["bench"] += json_lines(d.out)
    program = "test_gpu_kernels" if run.emulated else "gpu_kernels"
    run.step("times of single kernels", [run.built(program), "--times-tiny" if run.emulated else "--times"], 60, judge)


def shapes(run):
    for shape in ("tiny", "tiny-tied") if run.emulated else LARGE + [SMALL]:
        bench(run, f"times: {shape}, bf16", "--shape", shape, "--weights", "bf16", limit=90 if run.emulated else 120)


def kept(run):
    shape = "tiny" if run.emulated else LARGE[0]
    for weights in ["q8"] if run.emulated else ["q8", "q4"]:
        name = f"times: {shape}, {weights}"
        if run.quick:
            run.note(name, "skipped", "--quick leaves it out")
        else:
            bench(run, name, "--shape", shape, "--weights", weights)


def exact(run):
    tokens = run.tokens or (180 if run.emulated else 10000 if run.quick else 50000)
    seconds = run.limit(60 if run.quick else 150)
    bench(run, f"exactness over {tokens} tokens", "--exact", "--tokens", str(tokens), "--seconds", str(int(seconds)),
          limit=seconds + 25)
    if run.emulated or run.quick:
        return
    for weights in ("bf16", "q4"):  # the shapes that people decode: fewer tokens, in what time there is
        bench(run, f"exactness: {LARGE[0]}, {weights}", "--exact", "--shape", LARGE[0], "--weights", weights, "--tokens", "5000",
              "--seconds", "30", limit=75)


# ---- the program on a real model

def compare(run, key, name, limit, on, *args):
    def judge(d, entry):
        if d.late or not d.out.startswith("{"):
            return
        got = run.r["program"][key] = json.loads(d.out)
        wrong = [f"{m['method']} in {m['different']} prompts" for m in got["methods"] if m["different"]]
        if wrong or not got["equal"]:
            entry.update(state="failed", detail="output tokens differ from ar's: " + ", ".join(wrong))
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
        model, tokens, suite, methods = folder(run.tmp.name, "qwen3", "qwen2.json"), 12, few, "ar,logitspec"
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
            "--methods", "ar,logitspec", "--suite", few)


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
            args = ["generate", *same, "--method", "ar", "--max-tokens", "128", "--temperature", "0", "--device", on, "--quiet"]
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
