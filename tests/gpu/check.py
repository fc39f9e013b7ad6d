#!/usr/bin/env python3
"""Builds, tests and measures the CUDA decoder on the GPU of this machine: `make gpu-check`. tests/gpu/README.md says what.

    tests/gpu/check.py [--plan FILE] [--model FILE.gguf] [--out DIR] [--steps build,tests,...] [--quick] [--seconds N]
                       [--add FILE.json ...]
    tests/gpu/check.py --emulated       the same way through, tiny, on the emulated device: a test of this script
    tests/gpu/check.py --bundle FILE    packs sources and prebuilt programs for a machine without development packages

Writes DIR/gpu-check.json and DIR/gpu-check.md (DIR: build), after every step anew, so that what was measured stays. Exit
status: 1 if anything failed or there is no GPU, 0 if all passed or was skipped, which the report says in its first lines.
Nothing but the standard library; torch and transformers only in a process of its own, where they are there.
"""
import argparse
import os
import sys

import check_bundle
import check_steps
from check_run import HERE, ROOT, Run, has_gpu, say

STEPS = ["build", "tests", "copy", "kernels", "shapes", "exact", "program", "transformers", "sanitizer", "profile"]


def read_plan(path):
    """(seconds, step, words) of each line; # begins a comment."""
    plan = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) < 2 or not words[0].isdecimal() or words[1] not in STEPS:
                sys.exit(f"{path}:{number}: a line is SECONDS STEP [WORDS], and steps are {', '.join(STEPS)}")
            plan.append((int(words[0]), words[1], words[2:]))
    return plan


def take(run, name, function, *words):
    """One part; what it stumbles over must not keep the others from running."""
    try:
        return function(run, *words)
    except Exception as e:
        run.note(name, "failed", f"{type(e).__name__}: {e}")
        return False


def check(run, plan):
    take(run, "machine", check_steps.machine)
    if not run.emulated and not has_gpu():
        run.note("GPU", "failed", "this machine has no NVIDIA GPU (nvidia-smi shows none, no /dev/nvidiactl); "
                 "--emulated tests this script")
        return run.end()
    usable = None
    for seconds, name, words in plan:
        if name != "build" and usable is None:
            usable = take(run, "device", check_steps.device)
        if name == "build" or usable:
            run.allow(seconds)
            take(run, " ".join([name, *words]), getattr(check_steps, name), *words)
    if usable is None:
        take(run, "device", check_steps.device)
    return run.end()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", help="GGUF file of a real model, for the program and transformers")
    p.add_argument("--out", default=os.path.join(ROOT, "build"), help="folder of the two reports")
    p.add_argument("--plan", default=os.path.join(HERE, "plans", "all.txt"), help="steps in order, with seconds for each")
    p.add_argument("--steps", help="of the plan only these, of " + ",".join(STEPS))
    p.add_argument("--quick", action="store_true", help="about three minutes")
    p.add_argument("--seconds", type=int, help="time for everything (540; quick: 200); what does not fit is skipped")
    p.add_argument("--tokens", type=int, help="of the exactness step (50000)")
    p.add_argument("--add", nargs="+", default=[], metavar="FILE",
                   help="gpu-check.json of earlier runs on this machine, with other steps: the report holds theirs too")
    p.add_argument("--emulated", action="store_true")
    p.add_argument("--bundle", metavar="FILE")
    a = p.parse_args()
    if a.bundle:
        return check_bundle.pack(os.path.abspath(a.bundle))
    wanted = STEPS if a.steps is None else [s for s in a.steps.split(",") if s]
    unknown = sorted(set(wanted) - set(STEPS))
    if unknown:
        p.error(f"unknown: {', '.join(unknown)}; steps are {','.join(STEPS)}")
    plan = [line for line in read_plan(a.plan) if line[1] in wanted]
    run = Run(a)
    run.add(a.add)
    status = check(run, plan)
    if len(run.r["steps"]) > 2:  # else all is said
        with open(os.path.join(run.out, "gpu-check.md"), encoding="utf-8") as f:
            print(f.read())
    say(f"reports: {os.path.join(run.out, 'gpu-check.json')} and gpu-check.md beside it")
    return status


if __name__ == "__main__":
    sys.exit(main())
