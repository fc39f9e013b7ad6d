#!/usr/bin/env python3
"""Runs the fuzz targets one after the other and prints what each did.

Usage: tests/fuzz/run.py [TARGET...] [--seconds N] [--runs N]. Without a target: all of tests/fuzz/targets.def. Inputs that
reached something new are kept in build/fuzz/NAME, inputs that failed in build/fuzz/NAME-*. Exit 1 where one failed.
"""
import argparse
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def targets():
    found = {}
    for line in open(os.path.join(ROOT, "tests/fuzz/targets.def")):
        m = re.match(r'FUZZ\((\w+), "(\w+)", (\d+), (.*)\)$', line)
        if m:
            found[m[1]] = (m[2], int(m[3]), re.findall(r'"(.*?)"', m[4]))
    return found


def fuzz(name, dictionary, longest, folders, seconds, runs):
    kept = f"build/fuzz/{name}"
    os.makedirs(kept, exist_ok=True)
    limit = [f"-runs={runs}"] if runs else [f"-max_total_time={seconds}"]
    command = [f"build/fuzz/fuzz_{name}", *limit, f"-max_len={longest}", "-timeout=20", "-rss_limit_mb=2048",
               f"-dict=tests/fuzz/{dictionary}.dict", f"-artifact_prefix={kept}-", "-print_final_stats=1", kept,
               *(f for f in folders if os.path.isdir(f))]
    start = time.monotonic()
    with open(f"{kept}.log", "wb") as log:
        code = subprocess.run(command, stdout=log, stderr=log).returncode
    took = time.monotonic() - start
    text = open(f"{kept}.log", errors="replace").read()
    executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", text)
    covered = re.findall(r"cov: (\d+)", text)
    failed = re.findall(r"Test unit written to (\S+)", text)
    n = int(executed[-1]) if executed else 0
    print(f"{name:<10} {n:>10,} {took:>8.0f} {n / max(took, 1e-9):>8,.0f} {covered[-1] if covered else '-':>8}  "
          + ("none" if code == 0 else f"{failed[-1] if failed else 'failed'}, see {kept}.log"), flush=True)
    return code == 0, n


def main():
    known = targets()
    p = argparse.ArgumentParser()
    p.add_argument("target", nargs="*", choices=[[], *known])
    p.add_argument("--seconds", type=int, default=60)
    p.add_argument("--runs", type=int, default=0)
    a = p.parse_args()
    os.chdir(ROOT)
    print(f"{'target':<10} {'executions':>10} {'seconds':>8} {'a second':>8} {'edges':>8}  findings", flush=True)
    results = [fuzz(name, *known[name], a.seconds, a.runs) for name in a.target or known]
    print(f"{'all':<10} {sum(n for _, n in results):>10,}")
    return 0 if all(ok for ok, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
