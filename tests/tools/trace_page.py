#!/usr/bin/env python3
"""The lists of fields in src/trace/trace_format.md, from `logitspec help trace`. Usage: trace_page.py BUILD"""
import os
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/trace/trace_format.md")
HEAD = "\n## Fields\n"


def page(program, old):
    text = subprocess.run([program, "help", "trace", "--as", "md"], check=True, capture_output=True, text=True).stdout
    return old.split(HEAD)[0] + HEAD + "\nAs `logitspec help trace` tells them; `tests/tools/trace_page.py build` writes them here.\n" + \
        text[text.index("\n## "):].replace("\n## ", "\n### ")


def main():
    with open(PAGE, encoding="utf-8") as f:
        old = f.read()
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(page(sys.argv[1] + "/logitspec", old))


if __name__ == "__main__":
    main()
