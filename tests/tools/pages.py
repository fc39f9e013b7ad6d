#!/usr/bin/env python3
"""The parts of pages in this tree that the program's tables hold, as `logitspec help` prints them. Usage: pages.py BUILD"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# file, the heading from which on it is written, the page of the manual
PAGES = [("src/trace/trace_format.md", "\n## Fields\n", "trace"), ("ui/README.md", "\n## Keys\n", "keys")]


def page(program, old, head, name):
    text = subprocess.run([program, "help", name, "--as", "md"], check=True, capture_output=True, text=True).stdout
    return old.split(head)[0] + head + f"\n`tests/tools/pages.py build` writes what `logitspec help {name}` prints here.\n" + \
        text[text.index("\n## "):].replace("\n## ", "\n### ")


def main():
    for path, head, name in PAGES:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            old = f.read()
        new = page(sys.argv[1] + "/logitspec", old, head, name)  # before open() empties the file: the program may fail
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as f:
            f.write(new)


if __name__ == "__main__":
    main()
