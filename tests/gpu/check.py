#!/usr/bin/env python3
"""Builds, tests and measures the CUDA decoder on the GPU of this machine: `make gpu-check`. tests/gpu/README.md says what.

    tests/gpu/check.py [--model FILE.gguf] [--out DIR] [--steps build,tests,...] [--quick] [--seconds N]
    tests/gpu/check.py --emulated       the same way through, tiny, on the emulated device: a test of this script
    tests/gpu/check.py --bundle FILE    packs sources and prebuilt programs for a machine without development packages

Writes DIR/gpu-check.json and DIR/gpu-check.md (DIR: build), after every step anew, so that what was measured stays. Exit
status: 1 if anything failed or there is no GPU, 0 if all passed or was skipped, which the report says in its first lines.
Nothing but the standard library; torch and transformers only in a process of its own, where they are there.
"""
import argparse
import glob
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "gpu")
CUDA = os.path.join(ROOT, "build", "liblstorch_cuda.so")
EMULATED = os.path.join(ROOT, "build", "tests", "liblstorch_emulated.so")
CPU = os.path.join(ROOT, "build", "liblstorch.so")
STEPS = ["build", "tests", "copy", "shapes", "exact", "program", "transformers", "sanitizer", "kept"]
LARGE = ["llama-3.1-8b", "vicuna-7b"]
SMALL = "smollm2-135m"
SHAPES = {  # as in bench.c
    "llama-3.1-8b": (32, 4096, 14336, 32, 8, 128, 128256, False, 500000.0),
    "vicuna-7b": (32, 4096, 11008, 32, 32, 128, 32000, False, 10000.0),
    "smollm2-135m": (30, 576, 1536, 9, 3, 64, 49152, True, 100000.0)}
METHODS = "ar,logitspec,logitspec-paper,pld"
LOOKUP_TOKENS = 10  # transformers' prompt_lookup_num_tokens
SYSTEM_LIBS = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|libgomp)[-.]")


def say(what):
    print(f"gpu-check: {what}", file=sys.stderr, flush=True)


class Done:
    """How a command ended."""

    def __init__(self, code, out, err, seconds, late):
        self.code, self.out, self.err, self.seconds, self.late = code, out, err, seconds, late
        self.ok = code == 0 and not late

    def why(self):
        """The end of what it said, in a few lines."""
        lines = [s for s in (self.err + "\n" + self.out).splitlines() if s.strip()]
        bad = [s for s in lines if re.search(r"\berror\b|FAILED|fail|\[ +ERROR|differ|needs:|========= (?!COMPUTE)", s, re.I)]
        head = f"stopped after {self.seconds:.0f} s" if self.late else f"exit status {self.code}"
        return head + ": " + " | ".join(s.strip()[:300] for s in (bad or lines)[-6:])


def call(args, limit, env=None, cwd=ROOT):
    """Runs a command in a process group of its own, which ends with it or at the limit."""
    begin, late = time.monotonic(), False
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        try:
            p = subprocess.Popen(args, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=env, cwd=cwd, start_new_session=True)
        except OSError as e:
            return Done(127, "", str(e), 0, False)
        try:
            p.wait(max(1, limit))
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
        out.seek(0), err.seek(0)
        return Done(p.returncode, out.read(), err.read(), time.monotonic() - begin, late)


def lines_of(text):
    """JSON lines among other lines; the last one may be cut."""
    out = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                out.append(json.loads(line))
            except ValueError:
                pass
    return out


def first_line(args):
    d = call(args, 20)
    return d.out.strip().splitlines()[0].strip() if d.ok and d.out.strip() else None


def find_torch():
    """Folder with libtorch's include/ and lib/, and how it was found."""
    if os.environ.get("LIBTORCH"):
        return os.path.abspath(os.environ["LIBTORCH"]), "LIBTORCH"
    if os.path.exists(os.path.join(ROOT, ".deps", "libtorch", "ready")):
        return os.path.join(ROOT, ".deps", "libtorch"), ".deps/libtorch"
    spec = importlib.util.find_spec("torch")  # looked up, not imported: that takes seconds
    for place in (spec.submodule_search_locations or []) if spec else []:
        if os.path.isdir(os.path.join(place, "include")):
            return place, "python's torch package"
    return None, "none"


def find_tool(name):
    nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    return shutil.which(name) or shutil.which(os.path.join(os.path.dirname(os.path.realpath(nvcc)), name))


def has_gpu():
    """Whether there may be one; the library says for sure."""
    d = call(["nvidia-smi", "-L"], 60)
    return (d.ok and "GPU" in d.out) or any(map(os.path.exists, ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")))


class Check:
    def __init__(self, a):
        self.a, self.begin = a, time.monotonic()
        self.total = a.seconds or (115 if a.emulated else 200 if a.quick else 540)
        self.torch, how = find_torch()
        self.library = EMULATED if a.emulated else CUDA
        self.bench_program = os.path.join(ROOT, "build", "tests", "gpu_bench_emulated" if a.emulated else "gpu_bench")
        self.prebuilt = os.path.exists(os.path.join(ROOT, "bin", "logitspec"))
        self.bin = os.path.join(ROOT, "bin" if self.prebuilt else "build")
        self.r = {"date": time.strftime("%Y-%m-%d %H:%M:%S %z"), "emulated": a.emulated, "quick": a.quick, "seconds_allowed": self.total,
                  "torch_found": how, "prebuilt": self.prebuilt, "machine": {}, "steps": [], "bench": [], "program": {},
                  "transformers": [], "goals": []}
        self.out = os.path.abspath(a.out)
        os.makedirs(self.out, exist_ok=True)
        self.tmp = tempfile.TemporaryDirectory(prefix="logitspec-gpu-")
        self.env = self.environment()

    def environment(self):
        """For programs that load libtorch or CUDA: both where they are, ours as built here, no settings of the user's."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("LOGITSPEC_")}
        places = [os.path.join(ROOT, "lib")] if self.prebuilt else []
        if self.torch and not self.a.emulated:
            # a wheel's CUDA libraries stand beside it; its own come before the toolkit's, which may be older
            places += [os.path.join(self.torch, "lib"), *sorted(glob.glob(os.path.join(os.path.dirname(self.torch), "nvidia", "*", "lib")))]
            nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
            places.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64"))
        if places:
            env["LD_LIBRARY_PATH"] = ":".join(places + [p for p in [env.get("LD_LIBRARY_PATH")] if p])
        if not self.a.emulated:  # (what tests take without it)
            env["LOGITSPEC_TEST_GPU"] = self.library
        env.update(LOGITSPEC_LSTORCH=CPU, LOGITSPEC_LSTORCH_CUDA=self.library,
                   XDG_CACHE_HOME=os.path.join(self.tmp.name, "cache"), XDG_CONFIG_HOME="/nonexistent", LANG="C.UTF-8", LC_ALL="C.UTF-8")
        return env

    # ---- steps

    def left(self):
        return self.total - (time.monotonic() - self.begin)

    def limit(self, seconds):
        return min(seconds, max(1, self.left()))

    def wanted(self, step):
        return not self.a.steps or step in self.a.steps

    def note(self, name, state, detail="", seconds=0.0):
        self.r["steps"].append({"name": name, "state": state, "detail": detail, "seconds": round(seconds, 2)})
        say(f"{name}: {state}{f' ({seconds:.1f} s)' if seconds else ''}{': ' + detail if detail else ''}")
        self.save()

    def step(self, name, args, limit, env=None, needs=5.0):
        """A command that passes or fails; None where no time is left."""
        if self.left() < needs:
            self.note(name, "skipped", f"no time is left of {self.total} s: --seconds N, or STEPS= for this part alone")
            return None
        d = call(args, self.limit(limit), env or self.env)
        self.note(name, "passed" if d.ok else "failed", "" if d.ok else d.why(), d.seconds)
        return d

    def save(self):
        self.r["goals"] = goals(self.r)
        for name, text in (("gpu-check.json", json.dumps(self.r, indent=1) + "\n"), ("gpu-check.md", report(self.r))):
            path = os.path.join(self.out, name)
            with open(path + ".new", "w", encoding="utf-8") as f:
                f.write(text)
            os.replace(path + ".new", path)

    def machine(self):
        m = self.r["machine"]
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
        for place in ("headeronly", "csrc/api/include/torch") if self.torch else ():
            path = os.path.join(self.torch, "include", "torch", place, "version.h")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    m["torch"] = ".".join(re.findall(r"#define TORCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", f.read())) or m["torch"]
        bundle = os.path.join(ROOT, "bundle.json")
        if os.path.exists(bundle):
            with open(bundle, encoding="utf-8") as f:
                m["commit"] = json.load(f)["commit"]
        else:
            m["commit"] = commit()
        self.note("machine", "passed", (m["gpu"] or {}).get("name") or "no GPU that nvidia-smi shows")

    def make(self, name, *targets, limit=300, extra=()):
        return self.step(name, ["make", *targets, *([f"LIBTORCH={self.torch}"] if self.torch else []), *extra],
                         limit, {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "LIBTORCH")})

    def build(self):
        if self.a.emulated:
            self.make("build: emulated library, tests", "build/tests/liblstorch_emulated.so", "build/tests/gpu_bench_emulated",
                      "build/tests/test_gpu_kernels", "build/liblstorch.so", "build/logitspec", "build/tests/test_lst")
            return
        if not self.torch:
            self.note("build", "failed", "no libtorch: LIBTORCH=DIR, or a python3 with torch")
            return
        self.make("build: CUDA library", "cuda")
        self.make("build: tests of kernels, benchmark", "build/tests/gpu_kernels", "build/tests/gpu_bench")
        self.make("build: CPU library", "build/liblstorch.so")
        if not self.prebuilt:
            d = call(["make", "build/logitspec", "build/tests/test_lst", "build/tests/test_models",
                      f"LIBTORCH={self.torch}"], self.limit(200),
                     {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "LIBTORCH")})
            self.note("build: program", "passed" if d.ok else "skipped", "" if d.ok else "it cannot be built here (make gpu-bundle elsewhere "
                      "makes an archive that holds it): " + d.why(), d.seconds)

    def starts(self, program):
        """None, or why it cannot be run here."""
        path = os.path.join(self.bin, program)
        if not os.path.exists(path):
            return f"{os.path.relpath(path, ROOT)} is not there"
        d = call(["ldd", path], 20, self.env)
        lost = [s.strip() for s in (d.out + d.err).splitlines() if "not found" in s]
        return "; ".join(lost) if lost else None

    def device(self):
        """Whether the GPU can be used, as the library sees it."""
        d = self.step("device", [self.bench_program, "--library", self.library, "--device-info"], 120)
        if not d or not d.ok:
            return False
        self.r["machine"]["device"] = next(x for x in lines_of(d.out) if x["kind"] == "device")
        return True

    def tests(self):
        e = self.a.emulated
        if e:  # all of them take a minute there
            for name in ("gate", "add_norm"):
                self.test(f"tests: kernels ({name})", [os.path.join(ROOT, "build/tests/test_gpu_kernels"), name], 60)
        else:
            self.test("tests: kernels", [os.path.join(ROOT, "build/tests/gpu_kernels")], 120)
        for program, limit in (("test_lst", 90), ("test_models", 180)):
            why = self.starts(program if self.prebuilt else os.path.join("tests", program))
            if e and program == "test_models":
                why = "it takes minutes on the emulated device (make test has it)"
            if why:
                self.note(f"tests: {program}", "skipped", why)
            else:
                self.test(f"tests: {program}", [os.path.join(self.bin, "" if self.prebuilt else "tests", program)], limit)

    def test(self, name, args, limit):
        d = self.step(name, args, limit)
        if d is None:
            return
        text = d.out + d.err
        passed, failed = len(re.findall(r"^\[ +OK \]", text, re.M)), sorted(set(re.findall(r"^\[  FAILED  \] ([A-Za-z_]\w*)", text, re.M)))
        skipped = sorted(set(re.findall(r"^\[  SKIPPED \] ([A-Za-z_]\w*)", text, re.M)))
        s = self.r["steps"][-1]
        s.update(tests_passed=passed, tests_failed=failed, tests_skipped=skipped)
        s["detail"] = f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped" + (": " + s["detail"] if s["detail"] else "")
        lost = re.findall(r"needs:.*", text)
        if d.ok and lost:  # with a GPU nothing may lack what it needs (what is only for the emulated device says nothing)
            s["state"] = "failed"
            s["detail"] += f"; the device was not tested: {lost[0]}"
        elif d.ok and not passed:
            s["state"], s["detail"] = "failed", "no test ran"
        self.save()

    def bench(self, name, *args, limit=120):
        d = self.step(name, [self.bench_program, "--library", self.library, *args, *(["--tiny"] if self.a.emulated else []),
                             *(["--quick"] if self.a.quick else [])], limit)
        if d is None:
            return
        new = [x for x in lines_of(d.out) if x["kind"] not in ("device", "error")]
        self.r["bench"] += new
        if not d.ok and not any(x.get("differences") for x in new):
            self.r["steps"][-1]["detail"] += "; what it printed before is kept"
        self.save()

    def copy(self):
        self.bench("copy bandwidth", "--copy", limit=60)

    def shapes(self):
        for shape in ("tiny", "tiny-tied") if self.a.emulated else LARGE + [SMALL]:
            self.bench(f"times: {shape}, bf16", "--shape", shape, "--weights", "bf16", limit=90 if self.a.emulated else 120)

    def kept(self):
        for weights in ("q8", "q4"):
            shape = "tiny" if self.a.emulated else LARGE[0]
            if self.a.emulated and weights == "q4":
                continue
            if self.a.quick:
                self.note(f"times: {shape}, {weights}", "skipped", "--quick leaves it out")
            else:
                self.bench(f"times: {shape}, {weights}", "--shape", shape, "--weights", weights)

    def exact(self):
        tokens = self.a.tokens or (180 if self.a.emulated else 10000 if self.a.quick else 50000)
        seconds = self.limit(60 if self.a.quick else 150)
        self.bench(f"exactness over {tokens} tokens", "--exact", "--tokens", str(tokens), "--seconds", str(int(seconds)), limit=seconds + 25)

    # ---- the program on a real model

    def compare(self, key, name, limit, *args):
        d = self.step(name, [os.path.join(self.bin, "logitspec"), "compare", *args, "--json", "--quiet"], limit)
        if d is None or d.late or not d.out.startswith("{"):
            return None
        got = json.loads(d.out)
        self.r["program"][key] = {k: v for k, v in got.items()}
        if not got["equal"] or any(m["different"] for m in got["methods"]):
            self.r["steps"][-1].update(state="failed", detail="output tokens differ from ar's: " + ", ".join(
                f"{m['method']} in {m['different']} prompts" for m in got["methods"] if m["different"]))
        elif got["device"] == "cpu" and "--device" in args and args[args.index("--device") + 1] != "cpu":
            self.r["steps"][-1].update(state="failed", detail="it ran on the CPU")
        self.save()
        return got

    def program(self):
        why = self.starts("logitspec")
        model, tokens = self.a.model, 128
        if self.a.emulated and not why:  # a tiny model, with the tokenizer of a real one
            sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
            from test_folders import folder
            model, tokens = folder(self.tmp.name, "qwen3", "qwen2.json"), 12
        if not model:
            why = "needs MODEL=FILE.gguf"
        elif not os.path.exists(model):
            why = f"{model} is not there"
        if not why and self.prebuilt:
            d = call([os.path.join(self.bin, "logitspec"), "--version"], 20, self.env)
            why = None if d.ok else "the prebuilt program does not start here: " + d.why()
        if why:
            self.note("program", "skipped", why)
            return
        model = os.path.abspath(model)
        self.r["program"]["file"] = os.path.basename(model)
        with open(os.path.join(HERE, "prompts.jsonl"), encoding="utf-8") as f:
            prompts = [json.loads(line) for line in f]
        few, suite = os.path.join(self.tmp.name, "few.jsonl"), os.path.join(HERE, "prompts.jsonl")
        with open(few, "w", encoding="utf-8") as f:  # one of a kind
            f.writelines(json.dumps(p) + "\n" for p in prompts[::3][:2 if self.a.emulated else None])
        if self.a.emulated:
            suite = few
        same = ["--model", model, "--max-tokens", str(tokens), "--methods", "ar,logitspec" if self.a.emulated else METHODS]
        self.compare("greedy", "program: greedy", 90, *same, "--device", "cuda", "--suite", suite)
        self.compare("sampled", "program: temperature 1", 90, *same, "--device", "cuda", "--suite", suite, "--temperature", "1", "--seed", "7")
        cpu = ["--model", model, "--max-tokens", str(min(64, tokens)), "--device", "cpu", "--suite", few]
        self.compare("cpu", "program: the CPU", 60, *cpu, "--methods", "ar,logitspec")

    # ---- transformers, in a process of its own

    def transformers(self):
        lost = [m for m in ("torch", "transformers") if not importlib.util.find_spec(m)]
        if lost:
            self.note("transformers", "skipped", f"{sys.executable} has no {' and no '.join(lost)}")
            return
        env = dict(os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        for shape in [SMALL] if self.a.quick or self.a.emulated else [SMALL] + LARGE:
            self.other(f"transformers: {shape}", {"shape": shape, "tiny": self.a.emulated}, env, 90)
        name = "transformers: prompt lookup"
        if not self.a.model or self.starts("logitspec"):
            self.note(name, "skipped", self.starts("logitspec") or "needs MODEL=FILE.gguf")
            return
        program, model = os.path.join(self.bin, "logitspec"), os.path.abspath(self.a.model)
        with open(os.path.join(HERE, "prompts.jsonl"), encoding="utf-8") as f:
            prompts = [json.loads(line)["prompt"] for line in f]
        work = []
        for i, p in enumerate(prompts[:2] if self.a.emulated else prompts):
            if not i % 3:  # of one prompt of a kind our text, too
                d = call([program, "generate", "--model", model, "--chat", "--prompt", p, "--method", "ar", "--max-tokens", "128", "--temperature", "0",
                          "--device", "cpu" if self.a.emulated else "cuda", "--json", "--quiet"], self.limit(60), self.env)
            else:
                d = call([program, "tokenize", "--model", model, "--chat", "--prompt", p, "--json"], self.limit(30), self.env)
            if not d.ok:
                self.note(name, "skipped", "no tokens of prompts: " + d.why())
                return
            o = json.loads(d.out)
            work.append({"prompt": o.get("prompt_tokens") or o["ids"], "output": o.get("output_tokens")})
        path = os.path.join(self.tmp.name, "prompts.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(work, f)
        self.other(name, {"gguf": model, "prompts": path, "tiny": self.a.emulated}, env, 150)

    def other(self, name, work, env, limit):
        d = self.step(name, [sys.executable, os.path.abspath(__file__), "--transformers", json.dumps(work)], limit, env, needs=20)
        if d is None:
            return
        got = lines_of(d.out)
        self.r["transformers"] += [x for x in got if "skipped" not in x]
        if d.ok and got and "skipped" in got[-1]:
            self.r["steps"][-1].update(state="skipped", detail=got[-1]["skipped"])
        elif not d.ok:  # theirs, not ours
            self.r["steps"][-1]["state"] = "skipped"
        self.save()

    def sanitizer(self):
        tool = find_tool("compute-sanitizer")
        if self.a.emulated or not tool:
            self.note("compute-sanitizer", "skipped", "it is not for the emulated device" if self.a.emulated else "compute-sanitizer is not on PATH")
            return
        kernels = os.path.join(ROOT, "build/tests/gpu_kernels")
        for what, args in (("kernels", [kernels, "is_its_twin"]),
                           ("a model", [self.bench_program, "--library", self.library, "--exact", "--tiny", "--tokens", "60", "--seconds", "20"])):
            for kind in ("memcheck", "racecheck", "initcheck"):
                name = f"compute-sanitizer: {kind}, {what}"
                d = self.step(name, [tool, "--tool", kind, "--error-exitcode", "86", "--print-limit", "5", *args], 60, needs=15)
                if d is None:
                    continue
                s = self.r["steps"][-1]
                found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", d.out + d.err)
                if d.late:  # slow, not wrong: nothing is known
                    s.update(state="skipped", detail=f"not done in {d.seconds:.0f} s")
                elif not found:
                    s.update(state="failed" if d.code else "skipped", detail="it gave no summary: " + d.why())
                else:
                    s["detail"] = found[-1] + ("; " + d.why() if not d.ok else "")
                self.save()

    def run(self):
        self.machine()
        if not self.a.emulated and not has_gpu():
            self.note("GPU", "failed", "no NVIDIA GPU is in this machine (nvidia-smi shows none, no /dev/nvidiactl); --emulated tests this script")
            return self.end()
        if self.wanted("build"):
            self.build()
        if self.device():
            for name in STEPS[1:]:
                if not self.wanted(name):
                    continue
                try:
                    getattr(self, name)()
                except Exception as e:  # what one part stumbles over must not keep the others from running
                    self.note(name, "failed", f"{type(e).__name__}: {e}")
        return self.end()

    def end(self):
        self.r["seconds"] = round(time.monotonic() - self.begin, 1)
        self.save()
        bad = [s["name"] for s in self.r["steps"] if s["state"] == "failed"]
        say(f"{self.r['seconds']:.0f} s; " + (f"FAILED: {', '.join(bad)}" if bad else "nothing failed"))
        return 1 if bad else 0


def commit():
    head = first_line(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"])
    changed = call(["git", "-C", ROOT, "status", "--porcelain", "-uno"], 20).out.strip()
    return head + (" with changes" if changed else "") if head else None


# ---- goals and report

def pick(r, kind, **want):
    return [x for x in r["bench"] if x["kind"] == kind and all(x.get(k) == v for k, v in want.items())]


def one(r, kind, **want):
    found = pick(r, kind, **want)
    return found[-1] if found else None


def at_rows(r, shape, context, rows, key, weights="bf16"):
    x = one(r, "rows", shape=shape, weights=weights, context=context, rows=rows)
    return x[key] if x else None


def method(r, key, name):
    return next((m for m in r["program"].get(key, {}).get("methods", []) if m["method"].split("/")[0] == name), None)


def goals(r):
    out = []

    def goal(what, value, limit, shown, at_most=False, of=""):
        ok = None if value is None else value <= limit if at_most else value >= limit
        state = "not measured" if ok is None else "means nothing (emulated)" if r["emulated"] else "reached" if ok else "NOT reached"
        out.append({"goal": what, "measured": shown.format(value) if value is not None else "", "value": value, "limit": limit, "state": state, "of": of})

    copy = one(r, "copy")
    for shape in LARGE:
        for context in (512, 8192):
            s = one(r, "step", shape=shape, weights="bf16", context=context, sampling="greedy")
            goal(f"{shape} (random bf16), plain step at {context}: at least 85% of copy bandwidth",
                 s["bytes_per_s"] / copy["bytes_per_s"] if s and copy else None, 0.85, "{:.3f}",
                 of="(weights read once + KV cache read) / device time of a step, over measured device-to-device copy (bytes read + written / s)")
    s, ar = one(r, "step", shape=SMALL, weights="bf16", context=512, sampling="greedy"), method(r, "greedy", "ar")
    goal("SmolLM2-135M, real model by the program: plain decoding at least 1500 tokens/s", ar["tokens_per_s"] if ar else None, 1500, "{:.0f}",
         of="output tokens / decoding time of the whole program, greedy, prefill left out")
    goal("SmolLM2-135M's shape (random bf16): plain decoding at least 1500 tokens/s at 512", 1e6 / s["wall_us"] if s else None, 1500, "{:.0f}",
         of="1 / median wall time of forward + commit + list of best tokens")
    for shape in LARGE:
        for rows, context, limit in ((32, 512, 1.06), (64, 512, 1.12), (64, 8192, 1.2)):
            ratios = [a / b for a, b in ((at_rows(r, shape, context, rows, k), at_rows(r, shape, context, 1, k)) for k in ("wall_us", "device_us"))
                      if a and b]
            goal(f"{shape} (random bf16): T({rows}) / T(1) at {context}, at most {limit}", max(ratios) if ratios else None, limit, "{:.3f}", True,
                 of="median time of a forward of so many rows over that of one row; the larger of wall and device time's ratios")
    for shape in LARGE:
        s = one(r, "step", shape=shape, weights="bf16", context=512, sampling="greedy")
        goal(f"{shape} (random bf16): host and copies of a plain step, at most 100 us", s["host_us"] + copy["step_copies_us"] if s and copy else None,
             100, "{:.1f} us", True, of="median (wall - device time) + time of a step's own copy up and copy down, measured alone")
    for key, name in (("greedy", "greedy"), ("sampled", "temperature 1")):
        m = method(r, key, "logitspec")
        goal(f"real model, {name}: logitspec's speed-up at least 0.9 of its MAT", m["speedup"] / m["mat"] if m and m["speedup"] else None, 0.9,
             "{:.3f}", of="speed-up against ar of the same run, over tokens a step")
    for shape in [SMALL] + LARGE:
        t = next((x for x in r["transformers"] if x.get("shape") == shape), None)
        s = one(r, "step", shape=shape, weights="bf16", context=512, sampling="greedy")
        goal(f"{shape} (random bf16): plain decoding at least 2x transformers'", t["ms_a_token"] * 1e3 / s["wall_us"] if t and s else None, 2, "{:.2f}",
             of="transformers' ms a token over 64 tokens after 512 (sdpa, default generate), over our median step at 512 .. 570")
    t, m = next((x for x in r["transformers"] if "lookup_tokens_per_s" in x), None), method(r, "greedy", "logitspec")
    goal("real model: logitspec at least 3x transformers' prompt lookup", m["tokens_per_s"] / t["lookup_tokens_per_s"] if t and m and t.get("valid") else None,
         3, "{:.2f}", of="output tokens / decoding time, the same prompts, greedy, 128 tokens at most")
    e = one(r, "exact_sum")
    goal("drafted trees equal plain decoding, bit for bit, over 50,000 tokens",
         None if not e else e["differences"] if e["differences"] or e["tokens"] >= 50000 else None, 0, "{} differences", True,
         of="tokens compared (random weights): token, logits, row statistics, best 64" + (f"; {e['tokens']} were compared" if e else ""))
    x = [s for s in r["steps"] if s["name"].startswith("compute-sanitizer")]
    bad, good = sum(s["state"] == "failed" for s in x), sum(s["state"] == "passed" for s in x)
    goal("compute-sanitizer (memcheck, racecheck, initcheck) is clean", bad if bad or good == 6 else None, 0, "{} of 6 runs with findings", True,
         of=f"runs: 3 tools x 2 programs; {good} were clean" if x else "")
    return out


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, row)) + " |" for row in rows] + [""]


def cell(text):
    return str(text).replace("|", "/").replace("\n", " ")[:600]


def report(r):
    m, steps = r["machine"], r["steps"]
    by = {k: [s for s in steps if s["state"] == k] for k in ("passed", "failed", "skipped")}
    gpu = m.get("device", {}).get("name") or (m.get("gpu") or {}).get("name") or "no GPU"
    out = [f"# GPU check: {gpu}", ""]
    if r["emulated"]:
        out += ["**On the EMULATED device, tiny shapes: a test of this script. No time here means anything.**", ""]
    out += [f"{len(by['passed'])} steps passed, **{len(by['failed'])} failed**, {len(by['skipped'])} skipped" +
            (f", {r['seconds']:.0f} s" if "seconds" in r else " (not finished)") + f"; {r['date']}, program at {m.get('commit')}" +
            (", prebuilt." if r["prebuilt"] else ".") + (" Quick: fewer repetitions." if r["quick"] else ""), ""]
    out += [f"- FAILED {s['name']}: {cell(s['detail'])}" for s in by["failed"]] + [f"- skipped {s['name']}: {cell(s['detail'])}" for s in by["skipped"]] + [""]
    out += ["## Goals", ""] + table(["goal", "measured", "", "measured how"], [[g["goal"], g["measured"], g["state"], g["of"]] for g in r["goals"]])
    g = m.get("gpu") or {}
    out += ["## Machine", "", f"{gpu}; driver {g.get('driver_version')}, memory {g.get('memory.total')}, clocks at most {g.get('clocks.max.sm')} (memory "
            f"{g.get('clocks.max.memory')}), power limit {g.get('power.limit')}; {m.get('device', {}).get('runtime')}; nvcc {m.get('nvcc')}; {m.get('gxx')}; "
            f"{m.get('cpu')}, {m.get('cores')} processors; {m.get('system')}, {m.get('libc')}, Python {m.get('python')}; libtorch {m.get('torch')} ({r['torch_found']}).", ""]
    out += ["## Steps", ""] + table(["step", "", "s", ""], [[s["name"], s["state"], f"{s['seconds']:.1f}", cell(s["detail"])] for s in steps])
    out += bench_report(r) + program_report(r) + transformers_report(r)
    return "\n".join(out).rstrip() + "\n"


def bench_report(r):
    out, copy = [], one(r, "copy")
    if copy:
        out += ["## Copy bandwidth", "", f"Device to device, {copy['bytes'] / 2**30:.3g} GiB, median of {copy['runs']}: {copy['bytes_per_s'] / 1e9:.0f} GB/s "
                f"(bytes read + bytes written). A step's own copies ({copy['step_up_bytes']} bytes up, {copy['step_down_bytes']} down), alone: "
                f"{copy['step_copies_us']:.1f} us.", ""]
    models = pick(r, "model")
    if models:
        out += ["## Plain decoding (random weights in the shapes of real models)", "",
                "A step: forward of one row, commit, the 64 best tokens; medians. Bandwidth: (weights read once + KV cache read) / device time; in brackets "
                "over the copy's. Host: median of wall - device. Weights of a step leave out an embedding that is no output head; prefill: of a prompt "
                "alone, tokens / wall time.", ""]
        rows = []
        for x in models:
            same = {"shape": x["shape"], "weights": x["weights"]}
            p = one(r, "prefill", **same)
            for s in pick(r, "step", **same):
                rows.append([x["shape"], x["weights"], f"{x['weight_bytes'] / 1e6:.5g}", f"{s['weight_bytes_read'] / 1e6:.5g}", s["sampling"], s["context"],
                             s["steps"], f"{s['wall_us']:.1f}", f"{s['device_us']:.1f}", f"{s['host_us']:.1f}", f"{1e6 / s['wall_us']:.1f}",
                             f"{s['bytes_per_s'] / 1e9:.0f}" + (f" ({s['bytes_per_s'] / copy['bytes_per_s']:.3f})" if copy else ""),
                             f"{p['tokens_per_s']:.0f} ({p['tokens']})" if p else ""])
        out += table(["shape", "weights", "MB in all", "MB a step", "sampling", "context", "steps", "wall us", "device us", "host us", "tokens/s", "GB/s",
                      "prefill tokens/s (of)"], rows)
        out += ["## Forwards by rows (random weights)", "", "Median wall us of one forward (device us); x: over one row, wall. Trees: chains of eight from the root.", ""]
        counts = sorted({x["rows"] for x in pick(r, "rows")})
        rows = []
        for x in models:
            for context in sorted({y["context"] for y in pick(r, "rows", shape=x["shape"], weights=x["weights"])}):
                line = [x["shape"], x["weights"], context]
                base = at_rows(r, x["shape"], context, 1, "wall_us", x["weights"])
                for n in counts:
                    y = one(r, "rows", shape=x["shape"], weights=x["weights"], context=context, rows=n)
                    line.append(f"{y['wall_us']:.0f} ({y['device_us']:.0f}) x{y['wall_us'] / base:.3f}" if y and base else "")
                rows.append(line)
        out += table(["shape", "weights", "context"] + [f"{n}" for n in counts], rows)
    exact = pick(r, "exact")
    if exact:
        out += ["## Drafted trees against plain decoding (random weights)", "",
                "Every accepted row: token, all logits, row statistics; after every tree the best 64 tokens. Trees hold the plain text with errors, "
                "branches, and what followed the same token before; prompts random.", ""]
        out += table(["shape", "sampling", "tokens", "runs", "trees", "rows a tree (largest)", "tokens a tree (longest)", "longest context",
                      "different tokens / logits / statistics / lists", "s"],
                     [[x["shape"], x["sampling"], x["tokens"], x["runs"], x["trees"], f"{x['rows_a_tree']:.1f} ({x['largest_tree']})",
                       f"{x['tokens_a_tree']:.2f} ({x['longest_path']})", x["longest_context"],
                       f"{x['different_tokens']} / {x['different_logits']} / {x['different_rows']} / {x['different_lists']}", x["seconds"]] for x in exact])
    return out


def program_report(r):
    out = []
    for key, name in (("greedy", "greedy"), ("sampled", "temperature 1"), ("cpu", "the CPU beside it, greedy, one prompt of a kind")):
        c = r["program"].get(key)
        if not c:
            continue
        ar = next(m for m in c["methods"] if m["method"] == "ar")
        out += [f"## The program, {'TINY RANDOM model' if r['emulated'] else 'real model'} {r['program']['file']}: {name}", "",
                f"`logitspec compare`, device {c['device']}, {c['dtype']} ({c['kernel']}), {c['threads']} threads, {ar['prompts']} prompts (tests/gpu/prompts.jsonl), "
                f"{c['max_tokens']} tokens at most. Output tokens of all methods " + ("are equal, prompt by prompt." if c["equal"] else "DIFFER.") +
                " tokens/s: output tokens / decoding time, without prefill; speed-up: against ar's time for the same prompts, in the same process. Host: "
                "decoding time less forwards, a step.", ""]
        out += table(["method", "tokens", "steps", "MAT", "tokens/s", "speed-up", "95%", "speed-up / MAT", "draft us/step", "host us/step", "different"],
                     [[m["method"], m["emitted"], m["steps"], f"{m['mat']:.2f}", f"{m['tokens_per_s']:.0f}", f"{m['speedup'] or 0:.2f}",
                       f"{m['speedup_low']:.2f} - {m['speedup_high']:.2f}" if m["speedup_low"] and m["speedup_high"] else "",
                       f"{(m['speedup'] or 0) / m['mat']:.2f}", f"{m['draft_us_per_step']:.0f}", f"{m['host_us_per_step']:.0f}", m["different"]]
                      for m in c["methods"]])
        kinds = [k["category"] for k in ar["categories"]]
        out += ["Speed-up (MAT) by kind:", ""] + table(["method"] + kinds, [[m["method"]] + [f"{k['speedup'] or 0:.2f} ({k['mat']:.2f})" for k in m["categories"]]
                                                                             for m in c["methods"] if m is not ar])
    return out


def transformers_report(r):
    rows = [x for x in r["transformers"] if "shape" in x]
    out = []
    if rows:
        out += ["## Hugging Face transformers (random weights, bf16, sdpa, default generate)", "",
                f"transformers {rows[0]['transformers']}, torch {rows[0]['torch']}: ms a token over 64 tokens after a prompt of 512 (median of {rows[0]['runs']}; the time "
                "of a run of one token is taken off). Ratio: over our median wall step at 512, bf16, same shape.", ""]
        lines = []
        for x in rows:
            s = one(r, "step", shape=x["shape"], weights="bf16", context=512, sampling="greedy")
            lines.append([x["shape"], f"{x['ms_a_token']:.2f}", f"{s['wall_us'] / 1e3:.3f}" if s else "", f"{x['ms_a_token'] * 1e3 / s['wall_us']:.2f}" if s else ""])
        out += table(["shape", "their ms a token", "ours", "ratio"], lines)
    for x in (x for x in r["transformers"] if "lookup_tokens_per_s" in x):
        ours = {n: method(r, "greedy", n) for n in ("ar", "logitspec")}
        out += ["## Hugging Face transformers on the real model", "",
                f"{x['prompts']} prompts as above (plain: one of a kind), greedy, bf16 ({x['loaded']}), {x['tokens']} new tokens at most; tokens / (time of "
                f"generate less that of one token). Plain text agrees with ours for {x['agree']:.0f} tokens (median over prompts; roundings of bf16 part them sooner or later)." +
                ("" if x["valid"] else " **That is too few: the model was not read right, and nothing is compared.**"), ""]
        out += table(["", "tokens/s", "ours: logitspec over it"],
                     [[name, f"{x[k]:.0f}", f"{ours['logitspec']['tokens_per_s'] / x[k]:.2f}" if ours["logitspec"] and x["valid"] else ""]
                      for name, k in (("generate, plain", "plain_tokens_per_s"), (f"generate, prompt_lookup_num_tokens={LOOKUP_TOKENS}", "lookup_tokens_per_s"))])
    return out


# ---- transformers (a process of its own: `--transformers JSON`)

def timed_generate(torch, model, ids, tokens, **more):
    if ids.is_cuda:
        torch.cuda.synchronize()
    begin = time.monotonic()
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, **more)
    if ids.is_cuda:
        torch.cuda.synchronize()
    return time.monotonic() - begin, got[0, ids.shape[1]:].tolist()


def transformers_shape(torch, transformers, work, device):
    layers, embd, ff, heads, kv, head_dim, vocab, tied, theta = (2, 96, 128, 3, 1, 32, 304, True, 1e4) if work["tiny"] else SHAPES[work["shape"]]
    config = transformers.LlamaConfig(
        hidden_size=embd, intermediate_size=ff, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim,
        vocab_size=vocab, tie_word_embeddings=tied, rope_theta=theta, max_position_embeddings=8192, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    torch.set_default_dtype(torch.float32)
    model.generation_config.eos_token_id = None
    ids = torch.randint(0, vocab, (1, 512), device=device)
    timed_generate(torch, model, ids, 8)
    times = []
    for _ in range(3):
        first, _ = timed_generate(torch, model, ids, 1)
        all_, got = timed_generate(torch, model, ids, 65)
        assert len(got) == 65, len(got)
        times.append((all_ - first) * 1e3 / 64)
    print(json.dumps({"shape": "tiny-tied" if work["tiny"] else work["shape"], "ms_a_token": statistics.median(times), "runs": len(times), "parameters": model.num_parameters(),
                      "dtype": str(model.dtype), "transformers": transformers.__version__, "torch": torch.__version__}), flush=True)


class Gguf:
    """A file of the Llama family, for machines without the gguf package: F32, F16, BF16, Q8_0, Q4_0, Q4_1."""
    KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    BLOCKS = {0: (1, 4), 1: (1, 2), 30: (1, 2), 8: (32, 34), 2: (32, 18), 3: (32, 20)}

    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.at, self.keys, self.tensors = 8, {}, {}
        n_tensors, n_keys = self.take("QQ")
        for _ in range(n_keys):
            name = self.text()
            self.keys[name] = self.value(self.take("I")[0])
        for _ in range(n_tensors):
            name = self.text()
            dims = self.take("Q" * self.take("I")[0])
            kind, offset = self.take("IQ")
            self.tensors[name] = (dims, kind, offset)
        align = self.keys.get("general.alignment", 32)
        self.data = (self.at + align - 1) // align * align

    def take(self, form):
        out = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return out

    def text(self):
        n, = self.take("Q")
        self.at += n
        return self.bytes[self.at - n:self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            of, n = self.take("IQ")
            return [self.value(of) for _ in range(n)]
        return self.take(self.KINDS[kind])[0]

    def tensor(self, torch, name):
        dims, kind, offset = self.tensors[name]
        size, width = self.BLOCKS[kind]
        count = 1
        for d in dims:
            count *= d
        raw = torch.frombuffer(bytearray(self.bytes[self.data + offset:self.data + offset + count // size * width]), dtype=torch.uint8)
        shape = tuple(reversed(dims))
        if size == 1:
            return raw.view({0: torch.float32, 1: torch.float16, 30: torch.bfloat16}[kind]).float().reshape(shape)
        raw = raw.reshape(-1, width)

        def half(at):
            return raw[:, at:at + 2].contiguous().view(torch.float16).float()
        if kind == 8:
            return (raw[:, 2:].contiguous().view(torch.int8).float() * half(0)).reshape(shape)
        q = raw[:, width - 16:]
        q = torch.cat([q & 15, q >> 4], 1).float()
        return (q * half(0) + half(2) if kind == 3 else (q - 8) * half(0)).reshape(shape)


def read_gguf(torch, transformers, path, device):
    """A Llama from a GGUF file, without the gguf package."""
    g = Gguf(path)
    k = {name.split(".", 1)[1]: v for name, v in g.keys.items() if name.startswith("llama.")}
    if g.keys.get("general.architecture") != "llama" or "rope_freqs.weight" in g.tensors:
        raise ValueError("only plain Llama files are read without the gguf package")
    heads, embd = k["attention.head_count"], k["embedding_length"]
    kv, head_dim = k.get("attention.head_count_kv", heads), k.get("attention.key_length", embd // heads)
    config = transformers.LlamaConfig(
        hidden_size=embd, intermediate_size=k["feed_forward_length"], num_hidden_layers=k["block_count"], num_attention_heads=heads, num_key_value_heads=kv,
        head_dim=head_dim, vocab_size=g.tensors["token_embd.weight"][0][1], tie_word_embeddings="output.weight" not in g.tensors,
        rope_theta=k.get("rope.freq_base", 1e4), rms_norm_eps=k["attention.layer_norm_rms_epsilon"], max_position_embeddings=k["context_length"])
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")

    def turned(w, n):  # GGUF has the rotary pairs side by side
        return w.reshape(n, head_dim // 2, 2, embd).transpose(1, 2).reshape(n * head_dim, embd)
    state = {"model.embed_tokens.weight": g.tensor(torch, "token_embd.weight"), "model.norm.weight": g.tensor(torch, "output_norm.weight")}
    state["lm_head.weight"] = g.tensor(torch, "output.weight") if "output.weight" in g.tensors else state["model.embed_tokens.weight"]
    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
             "ffn_norm": "post_attention_layernorm"}
    for i in range(k["block_count"]):
        for ours, theirs in names.items():
            w = g.tensor(torch, f"blk.{i}.{ours}.weight")
            state[f"model.layers.{i}.{theirs}.weight"] = turned(w, heads) if ours == "attn_q" else turned(w, kv) if ours == "attn_k" else w
    model.load_state_dict(state, strict=True)
    return model.to(torch.bfloat16).to(device).eval()


def transformers_lookup(torch, transformers, work, device):
    path = work["gguf"]
    try:
        if not importlib.util.find_spec("gguf"):
            raise ImportError("no gguf package")
        model = transformers.AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.bfloat16,
                                                                  attn_implementation="sdpa").to(device).eval()
        loaded = "read by transformers"
    except Exception as e:
        say(f"transformers does not read the file ({type(e).__name__}: {e}); it is read here")
        model, loaded = read_gguf(torch, transformers, path, device), "the file's weights, read by this script"
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = Gguf(path).keys.get("tokenizer.ggml.eos_token_id")  # ours stops there too
    with open(work["prompts"], encoding="utf-8") as f:
        prompts = json.load(f)
    seconds, tokens, agree = {"plain": 0.0, "lookup": 0.0}, {"plain": 0, "lookup": 0}, []
    new = 16 if work["tiny"] else 128
    warm = torch.tensor([prompts[0]["prompt"]], device=device)
    for how, more in (("plain", {}), ("lookup", {"prompt_lookup_num_tokens": LOOKUP_TOKENS})):
        timed_generate(torch, model, warm, 16, **more)
        for p in prompts:
            if how == "plain" and not p["output"]:  # a part is enough to see that the text is ours
                continue
            ids = torch.tensor([p["prompt"]], device=device)
            first, _ = timed_generate(torch, model, ids, 1)
            all_, got = timed_generate(torch, model, ids, new, **more)
            seconds[how] += all_ - first
            tokens[how] += len(got) - 1
            if how == "plain":
                n = min(len(got), len(p["output"]))
                agree.append(next((i for i in range(n) if got[i] != p["output"][i]), n))
    typical = statistics.median(agree) if agree else 0
    print(json.dumps({"loaded": loaded, "prompts": len(prompts), "tokens": new, "plain_tokens_per_s": tokens["plain"] / seconds["plain"],
                      "lookup_tokens_per_s": tokens["lookup"] / seconds["lookup"], "agree": typical, "valid": typical >= 4,
                      "transformers": transformers.__version__, "torch": torch.__version__}), flush=True)


def transformers_main(work):
    try:
        import torch
        import transformers
    except Exception as e:  # broken packages raise all kinds of things
        print(json.dumps({"skipped": f"{type(e).__name__}: {e}"}))
        return 0
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not work["tiny"]:
        print(json.dumps({"skipped": f"torch {torch.__version__} sees no GPU"}))
        return 0
    transformers.utils.logging.set_verbosity_error()
    with torch.no_grad():
        (transformers_lookup if "gguf" in work else transformers_shape)(torch, transformers, work, device)
    return 0


# ---- the archive for another machine

def needed(path):
    """Shared libraries of a program that a machine may lack: all but those of the C and C++ compilers."""
    out = {}
    for line in call(["ldd", path], 20).out.splitlines():
        m = re.match(r"\s*(\S+) => (/\S+)", line)
        if m and not SYSTEM_LIBS.match(m.group(1)):
            out[m.group(1)] = os.path.realpath(m.group(2))
    return out


def bundle(path):
    programs = ["build/logitspec", "build/tests/test_lst", "build/tests/test_models"]
    listed = call(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], 60)
    if not listed.ok:
        say("bundle: a git checkout is needed, to know which files are sources: " + listed.why())
        return 1
    libs = {}
    for p in programs:
        libs.update(needed(os.path.join(ROOT, p)))
    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "libc": " ".join(platform.libc_ver()), "machine": platform.machine()}
    with tempfile.TemporaryDirectory() as tmp, tarfile.open(path + ".new", "w:gz", compresslevel=6) as tar:
        for name in sorted(listed.out.splitlines()):
            if os.path.isfile(os.path.join(ROOT, name)) and not name.startswith("."):
                tar.add(os.path.join(ROOT, name), os.path.join("logitspec-gpu", name))
        for p in programs:
            thin = os.path.join(tmp, os.path.basename(p))  # without what a debugger wants
            if not call(["strip", "-o", thin, os.path.join(ROOT, p)], 60).ok:
                shutil.copy(os.path.join(ROOT, p), thin)
            tar.add(thin, os.path.join("logitspec-gpu", "bin", os.path.basename(p)))
        for name, real in sorted(libs.items()):
            tar.add(real, os.path.join("logitspec-gpu", "lib", name))
        text = os.path.join(tmp, "bundle.json")
        with open(text, "w", encoding="utf-8") as f:
            json.dump(about, f)
            f.write("\n")
        tar.add(text, "logitspec-gpu/bundle.json")
    os.replace(path + ".new", path)
    say(f"{os.path.relpath(path, ROOT)}: {os.path.getsize(path) / 1e6:.1f} MB, {len(libs)} libraries; there: tar xf, cd logitspec-gpu, make gpu-check")
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", help="GGUF file of a real model, for the program and transformers")
    p.add_argument("--out", default=os.path.join(ROOT, "build"), help="folder of the two reports")
    p.add_argument("--steps", help="only these of " + ",".join(STEPS))
    p.add_argument("--quick", action="store_true", help="about three minutes")
    p.add_argument("--seconds", type=int, help="time for everything (540; quick: 200); what does not fit is skipped")
    p.add_argument("--tokens", type=int, help="of the exactness step (50000)")
    p.add_argument("--emulated", action="store_true")
    p.add_argument("--bundle", metavar="FILE")
    p.add_argument("--transformers", metavar="JSON", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.transformers:
        return transformers_main(json.loads(a.transformers))
    if a.bundle:
        return bundle(os.path.abspath(a.bundle))
    a.steps = a.steps.split(",") if a.steps else None
    if a.steps and set(a.steps) - set(STEPS):
        p.error(f"unknown: {', '.join(sorted(set(a.steps) - set(STEPS)))}; steps are {','.join(STEPS)}")
    c = Check(a)
    status = c.run()
    if len(c.r["steps"]) > 2:  # else all is said
        with open(os.path.join(c.out, "gpu-check.md"), encoding="utf-8") as f:
            print(f.read())
    say(f"reports: {os.path.join(c.out, 'gpu-check.json')} and gpu-check.md beside it")
    return status


if __name__ == "__main__":
    sys.exit(main())
