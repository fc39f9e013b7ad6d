#!/usr/bin/env python3
"""cppcheck and clang-tidy over the C sources, and a build of everything by clang, C++ included. Each is one check.

Usage: tests/tools/check_static.py [NAME...] (cppcheck, tidy, analyzer, clang). tidy and analyzer are clang-tidy's own checks
and clang's analyzer, which takes ten times as long. What they are not asked about, with reasons, is in
.clang-tidy and tests/tools/cppcheck.txt. Prints what they find and `N passed, N failed, 0 skipped`.
"""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOBS = len(os.sched_getaffinity(0))
FLAGS = ["-D_GNU_SOURCE", '-DLS_VERSION="0"', '-DLS_COMMIT=""', "-Isrc", "-I."]
# The other levels' kernels are the same source (kernels_impl.h) with other intrinsics; of gpu_plain.c's arrays, which loops
# over a model's numbers fill, the analyzer believes that nobody does.
LEFT_OUT = re.compile(r"(kernels_(avx2|avxvnni|avx512|avx512vnni|avx512bf16|amx|neon|neondot|neoni8mm)|gpu_plain)\.c$")


def sources():
    found = [p for pattern in ("src/*/*.c", "src/compute/kernels/*.c", "ui/*.c") for p in glob.glob(pattern, root_dir=ROOT)]
    return sorted(p for p in found if not LEFT_OUT.search(p))


def run(*command):
    p = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return p.returncode, p.stdout, p.stderr


def cppcheck():
    code, out, err = run("cppcheck", "--quiet", "--enable=warning,performance,portability", "--inline-suppr", "--std=c11",
                         "--library=gnu,posix", "--suppressions-list=tests/tools/cppcheck.txt", "--error-exitcode=1",
                         # jansson's loop, which cppcheck takes for a syntax error
                         "-Djson_object_foreach(o,k,v)=while(((k)=json_next(o))&&((v)=json_value(o)))",
                         f"-j{JOBS}", *FLAGS, *sources())
    return code == 0, out + err


def clang_tidy(checks):
    def check(path):
        code, out, err = run("clang-tidy", "--quiet", "--warnings-as-errors=*", f"--checks={checks}", path, "--", "-std=gnu11", *FLAGS)
        return code, out if out else err if code else ""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(check, sources()))
    return all(code == 0 for code, _ in results), "".join(text for _, text in results)


def clang():
    """Warnings are errors there. The library is not linked: clang's OpenMP is another than libtorch's. C is not optimized: clang
    warns of what it reads, and nobody runs what it makes."""
    build = "build/clang"
    code, out, err = run("env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", "CC=clang", "CXX=clang++", f"B={build}",
                         "EXTRA_CFLAGS=-O0 -U_FORTIFY_SOURCE", "clang-build")
    return code == 0, out + err if code else ""


def main():
    checks = {"cppcheck": cppcheck, "tidy": lambda: clang_tidy("-clang-analyzer-*"),
              "analyzer": lambda: clang_tidy("-bugprone-*,-cert-*,-concurrency-*,-misc-*"), "clang": clang}
    names = sys.argv[1:] or list(checks)
    failed = 0
    for name in names:
        start = time.monotonic()
        clean, text = checks[name]()
        print(f"{name}: {'clean' if clean else 'findings'}  ({time.monotonic() - start:.1f} s)", flush=True)
        if not clean:
            failed += 1
            print(text, flush=True)
    print(f"{len(names) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
