"""For the check on a GPU (check.py): commands with a limit, what this machine has, and one run: its time, its record."""
import glob
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import check_report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def say(what):
    print(f"gpu-check: {what}", file=sys.stderr, flush=True)


# ---- commands

class Done:
    """How a command ended."""

    def __init__(self, code, out, err, seconds, late):
        self.code, self.out, self.err, self.seconds, self.late = code, out, err, seconds, late
        self.ok = code == 0 and not late

    def why(self):
        """The end of what it said, in a few lines."""
        lines = [s for s in (self.err + "\n" + self.out).splitlines() if s.strip()]
        telling = r"\berror\b|FAILED|fail|\[ +ERROR|differ|needs:|========= (?!COMPUTE)"
        bad = [s for s in lines if re.search(telling, s, re.I)]
        head = f"stopped after {self.seconds:.0f} s" if self.late else f"exit status {self.code}"
        return head + ": " + " | ".join(s.strip()[:300] for s in (bad or lines)[-6:])


def call(args, limit, env=None):
    """Runs a command in a process group of its own, which ends with it or at the limit."""
    begin, late = time.monotonic(), False
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        try:
            p = subprocess.Popen(args, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=env, cwd=ROOT,
                                 start_new_session=True)
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


def json_lines(text):
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


# ---- what this machine has

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


def cuda_bin():
    nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    return os.path.dirname(os.path.realpath(nvcc))


def find_tool(name):
    return shutil.which(name) or shutil.which(os.path.join(cuda_bin(), name))


def has_gpu():
    """Whether there may be one; the library says for sure."""
    d = call(["nvidia-smi", "-L"], 60)
    return (d.ok and "GPU" in d.out) or any(map(os.path.exists, ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")))


def commit():
    """Of the sources: of the bundle that they came in, or of this checkout."""
    bundle = os.path.join(ROOT, "bundle.json")
    if os.path.exists(bundle):
        with open(bundle, encoding="utf-8") as f:
            return json.load(f)["commit"]
    head = first_line(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"])
    changed = call(["git", "-C", ROOT, "status", "--porcelain", "-uno"], 20).out.strip()
    return head + (" with changes" if changed else "") if head else None


class Run:
    """One run of the check: what it works with, how much time is left, and what came out (r, the report's JSON)."""

    def __init__(self, a):
        self.begin, self.earlier, self.until = time.monotonic(), 0, None
        self.model, self.quick, self.tokens, self.emulated = a.model, a.quick, a.tokens, a.emulated
        self.total = a.seconds or (380 if a.emulated else 200 if a.quick else 540)
        self.torch, how = find_torch()
        self.library = self.built("liblstorch_emulated.so") if a.emulated else os.path.join(ROOT, "build/liblstorch_cuda.so")
        self.bench_program = self.built("gpu_bench_emulated" if a.emulated else "gpu_bench")
        self.prebuilt = os.path.exists(os.path.join(ROOT, "bin", "logitspec"))
        self.r = {"date": time.strftime("%Y-%m-%d %H:%M:%S %z"), "emulated": a.emulated, "quick": a.quick,
                  "seconds_allowed": self.total, "torch_found": how, "prebuilt": self.prebuilt, "machine": {}, "steps": [],
                  "bench": [], "program": {}, "transformers": [], "goals": []}
        self.out = os.path.abspath(a.out)
        os.makedirs(self.out, exist_ok=True)
        self.tmp = tempfile.TemporaryDirectory(prefix="logitspec-gpu-")
        self.env = self.environment()

    def environment(self):
        """For programs that load libtorch or CUDA: both where they are, ours as built here, no settings of the user's."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("LOGITSPEC_")}
        places = [os.path.join(ROOT, "lib")] if self.prebuilt else []
        if self.torch and not self.emulated:
            # a wheel's CUDA libraries stand beside it; its own come before the toolkit's, which may be older
            beside = glob.glob(os.path.join(os.path.dirname(self.torch), "nvidia", "*", "lib"))
            places += [os.path.join(self.torch, "lib"), *sorted(beside), os.path.join(os.path.dirname(cuda_bin()), "lib64")]
        if places:
            env["LD_LIBRARY_PATH"] = ":".join(places + [p for p in [env.get("LD_LIBRARY_PATH")] if p])
        if not self.emulated:  # (what tests take without it)
            env["LOGITSPEC_TEST_GPU"] = self.library
        env.update(LOGITSPEC_LSTORCH=os.path.join(ROOT, "build/liblstorch.so"), LOGITSPEC_LSTORCH_CUDA=self.library,
                   XDG_CACHE_HOME=os.path.join(self.tmp.name, "cache"), XDG_CONFIG_HOME="/nonexistent",
                   LANG="C.UTF-8", LC_ALL="C.UTF-8",
                   GOMP_SPINCOUNT="2000")  # as the program sets it: else threads that wait starve beside another program
        return env

    @staticmethod
    def built(name):
        """A program for tests that is always built here."""
        return os.path.join(ROOT, "build", "tests", name)

    def program(self, name):
        """A program that a bundle holds."""
        if self.prebuilt:
            return os.path.join(ROOT, "bin", name)
        return os.path.join(ROOT, "build", name) if name == "logitspec" else self.built(name)

    def cannot_start(self, name):
        """Why such a program cannot be run here, or None."""
        path = self.program(name)
        if not os.path.exists(path):
            return f"{os.path.relpath(path, ROOT)} is not there"
        d = call(["ldd", path], 20, self.env)
        return "; ".join(s.strip() for s in (d.out + d.err).splitlines() if "not found" in s) or None

    def add(self, files):
        """Takes over what earlier runs measured, so that a machine that is lent in pieces gives one report."""
        for path in files:
            with open(path, encoding="utf-8") as f:
                earlier = json.load(f)
            for key in ("steps", "bench", "transformers"):
                self.r[key] += earlier[key]
            self.r["program"].update(earlier["program"])
            self.earlier += earlier.get("seconds", 0)

    def limit(self, seconds):
        return min(seconds, max(1, self.left()))

    def allow(self, seconds):
        """From here on, until it is called again: so much for all commands of a step of the plan."""
        self.until = time.monotonic() + seconds * (4 if self.emulated else 1)  # a test, beside others

    def left(self):
        now = time.monotonic()
        of_all = self.total - (now - self.begin)
        return of_all if self.until is None else min(of_all, self.until - now)

    def note(self, name, state, detail="", seconds=0.0, **more):
        self.r["steps"] = [s for s in self.r["steps"] if s["name"] != name]  # an earlier run had it
        self.r["steps"].append({"name": name, "state": state, "detail": detail, "seconds": round(seconds, 2), **more})
        say(f"{name}: {state}{f' ({seconds:.1f} s)' if seconds else ''}{': ' + detail if detail else ''}")
        check_report.write(self.r, self.out)

    def step(self, name, args, limit, judge=None, env=None, needs=5.0):
        """A command that passes or fails; judge(done, its entry of the record) may know better. None: no time is left."""
        if self.left() < needs:
            self.note(name, "skipped", f"no time is left, of {self.total} s for all or of what the plan gives this step: "
                      "--seconds N, or STEPS= for this part alone")
            return None
        d = call(args, self.limit(limit * (4 if self.emulated else 1)), env or self.env)
        entry = {"state": "passed", "detail": ""} if d.ok else {"state": "failed", "detail": d.why()}
        if judge:
            judge(d, entry)
        self.note(name, seconds=d.seconds, **entry)
        return d

    def end(self):
        self.r["seconds"] = round(self.earlier + time.monotonic() - self.begin, 1)
        check_report.write(self.r, self.out)
        bad = [s["name"] for s in self.r["steps"] if s["state"] == "failed"]
        say(f"{self.r['seconds']:.0f} s; " + (f"FAILED: {', '.join(bad)}" if bad else "nothing failed"))
        return 1 if bad else 0
