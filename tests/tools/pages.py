#!/usr/bin/env python3
"""The parts of pages in this tree, and the files of configs, that the program's tables hold: as `logitspec help` and
`logitspec config default` print them. Usage: pages.py BUILD"""
import glob
import itertools
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# file, the heading from which on it is written, the page of the manual
PAGES = [("src/trace/trace_format.md", "\n## Fields\n", "trace"), ("ui/README.md", "\n## Keys\n", "keys")]


def output(program, *args):
    return subprocess.run([program, *args], check=True, capture_output=True, text=True).stdout


def page(program, old, head, name):
    text = output(program, "help", name, "--as", "md")
    return old.split(head)[0] + head + f"\n`tests/tools/pages.py build` writes what `logitspec help {name}` prints here.\n" + \
        text[text.index("\n## "):].replace("\n## ", "\n### ")


def listed(program, old, title, flag):
    """models/README.md with the program's table behind its heading."""
    head = f"\n## {title}\n"
    before, _, behind = old.partition(head)
    return before + head + f"\n`logitspec models list {flag}` prints this; `tests/tools/pages.py build` writes it here.\n\n" + \
        output(program, "models", "list", flag) + behind[behind.index("\n## "):]


def fresh(program):
    """Each file, and the text that it must have. A file of configs keeps the comment at its top."""
    with open(os.path.join(ROOT, "models/README.md"), encoding="utf-8") as f:
        models = listed(program, f.read(), "Architectures", "--architectures")
        yield "models/README.md", listed(program, models, "Formats of weights", "--formats")
    for path, head, name in PAGES:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            yield path, page(program, f.read(), head, name)
    for path in sorted(glob.glob("configs/**/*.yaml", root_dir=ROOT, recursive=True)):
        name = os.path.splitext(os.path.basename(path))[0]
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            top = itertools.takewhile(lambda line: line.startswith("#"), f)
            yield path, "".join(top) + output(program, "config", "default", *[name] * (name != "default"))


def main():
    if len(sys.argv) != 2:
        return "usage: pages.py FOLDER, of the built program"
    for path, text in list(fresh(sys.argv[1] + "/logitspec")):  # before open() empties a file: the program may fail
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    sys.exit(main())
