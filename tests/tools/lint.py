#!/usr/bin/env python3
"""Which folder may include which, who uses which third-party library, who changes the environment, and the format of all C, C++ and
CUDA sources. Exit 1 with file:line on a breach. --format formats the sources instead."""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# folder -> folders (or single headers) whose headers it may include; its own are always allowed
ALLOWED = {
    "src/base": [],
    "src/text": ["src/base"],
    "src/model": ["src/base"],
    "src/spec": ["src/base"],
    "src/gpu": ["src/base", "src/model/hparams.h", "src/compute/lst.h"],
    "src/engine": ["src/base", "src/text", "src/model", "src/spec/cost_curve.h", "src/gpu", "src/compute/lst.h", "src/compute/lst_torch.h"],
    "src/decode": ["src/base", "src/text", "src/spec", "src/engine", "src/compute/lst.h"],
    "src/trace": ["src/base", "src/text", "src/spec", "src/engine", "src/decode"],
    "src/source": ["src/base", "src/engine", "src/decode", "src/trace"],
    "src/compute": ["src/base", "src/gpu", "src/model/hparams.h", "src/model/head.h"],
    "src/compute/kernels": ["src/base", "src/gpu", "src/compute/lst.h"],
    # names that a header of libtorch's wants and the wheel lacks: declarations only
    **{"src/compute/gloo_names/gloo" + sub: [] for sub in ("", "/common", "/rendezvous", "/transport")},
    "ui": ["src/base", "src/decode/step.h", "src/decode/conversation.h", "src/source/source.h", "src/decode/shadows.h", "src/decode/stats.h"],
    "src/serve": ["src/base", "src/text", "src/spec", "src/engine", "src/decode", "src/trace", "src/compute/lst.h"],
    "src/report": ["src/base", "src/spec/misses.def", "src/decode", "src/trace"],
    "src/cli": ["src/report", "src/serve", "src/base", "src/gpu", "src/text", "src/model", "src/spec", "src/engine", "src/decode", "src/trace", "src/source", "ui"],
}
# header prefix -> the only source folder or files that may include it
USERS = {
    "yaml.h": ["src/base/yaml.c"],
    "jansson.h": ["src/base/json.c"],
    "microhttpd.h": ["src/serve/http.c"],
    "zstd.h": ["src/base/io.c"],
    "pcre2.h": ["src/text/regex.c"],
    "utf8proc.h": ["src/text/normalize.c", "src/base/utf8.c"],
    "openssl/": ["src/base/sha256.c"],
    "curses.h": ["ui/term_curses.c"],
    "ncurses.h": ["ui/term_curses.c"],
    "dlfcn.h": ["src/engine/library.c"],
    "ATen/": ["src/compute"],
    "torch/": ["src/compute"],
    "c10/": ["src/compute"],
    "cuda_runtime.h": ["src/compute"],
    "nvtx3/": ["src/compute"],
    "getopt.h": ["src/cli/options_args.c"],
}
# who may change the environment: other threads read it. The library for GPUs does so before CUDA starts.
SETENV = ["src/cli/main.c", "src/compute/gpu_runtime.cpp"]
MAX_LINES = 800
FORMATTER = "clang-format-14"  # versions differ in what they write; .ci/packages installs this one
FORMATTED = ["src", "ui", "tests", "demos"]
UNFORMATTED = ["tests/gpu/results"]  # what ran, as it ran


def under(path, places):
    return any(path == p or path.startswith(p + "/") for p in places)


def sources():
    for folder in FORMATTED:
        for where, _, files in os.walk(os.path.join(ROOT, folder)):
            if not under(os.path.relpath(where, ROOT), UNFORMATTED):
                yield from (os.path.join(where, name) for name in sorted(files) if re.search(r"\.(c|h|cpp|cu)$", name))


def format_sources(*options):
    """Runs the formatter; its messages as they are, one line each. None: it is not installed."""
    if not shutil.which(FORMATTER):
        return None
    r = subprocess.run([FORMATTER, *options, *sources()], capture_output=True, text=True, cwd=ROOT)
    return re.findall(r"^(\S+:\d+):\d+: error: code should be clang-formatted", r.stderr, re.M)


def main():
    if sys.argv[1:] == ["--format"]:
        return 0 if format_sources("-i") is not None else f"format: {FORMATTER} is not installed: .ci/packages check"
    problems = []
    for folder in ["src", "ui"]:
        for where, _, files in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(files):
                path = os.path.relpath(os.path.join(where, name), ROOT)
                if not re.search(r"\.(c|h|cpp|def|cu)$", name):
                    continue
                here = os.path.dirname(path)
                included = set()
                if here not in ALLOWED:
                    problems.append(f"{path}:1: folder {here} is not in the table of {os.path.relpath(__file__, ROOT)}")
                    continue
                lines = open(os.path.join(ROOT, path), encoding="utf-8").read().split("\n")
                if len(lines) > MAX_LINES:
                    problems.append(f"{path}:{MAX_LINES}: more than {MAX_LINES} lines")
                for number, line in enumerate(lines, 1):
                    if re.search(r"\b(un)?setenv\(|\bputenv\(", line) and path not in SETENV:
                        problems.append(f"{path}:{number}: the environment is changed in {', '.join(SETENV)} only")
                    if re.match(r"(static )?(const )?char \*\w+\(char (\*\w+[,)]|\w+\[)", line):
                        problems.append(f"{path}:{number}: return a struct by value (ls_short_text): arguments of one call are "
                                        "evaluated in any order, and another may read the buffer before it is filled")
                    m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)', line)
                    if not m:
                        continue
                    kind, header = m.groups()
                    if header.endswith(".h") and header in included:
                        problems.append(f"{path}:{number}: {header} was included before")
                    included.add(header)
                    if kind == '"':
                        own = [p for p in ("src/" + header, header) if os.path.exists(os.path.join(ROOT, p))]
                        if not own:
                            problems.append(f"{path}:{number}: \"{header}\" is no header of this project from src/ or the root")
                        elif os.path.dirname(own[0]) != here and not under(own[0], ALLOWED[here]) and not (
                                here == "src/compute" and own[0].startswith("src/compute/")):
                            problems.append(f"{path}:{number}: {here} must not include {own[0]}")
                    else:
                        for prefix, users in USERS.items():
                            if (header == prefix or (prefix.endswith("/") and header.startswith(prefix))) and not under(path, users):
                                problems.append(f"{path}:{number}: <{header}> belongs to {', '.join(users)} only")
    places = format_sources("--dry-run", "--Werror")
    if places is None:
        print(f"lint: {FORMATTER} is not installed (.ci/packages check): the format was not checked")
    problems += sorted({f"{os.path.relpath(p.rsplit(':', 1)[0], ROOT)}: is not formatted: make format" for p in places or []})
    mutants = subprocess.run([sys.executable, os.path.join(ROOT, "tests/mutants/run.py"), "--check"], capture_output=True, text=True, check=False)
    if mutants.returncode:  # a line was changed, and not the mistake that is put into it
        problems.append(mutants.stderr.strip())
    for p in problems:
        print(p)
    print(f"lint: {len(problems)} problem{'s' if len(problems) != 1 else ''}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
