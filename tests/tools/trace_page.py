#!/usr/bin/env python3
"""The lists of fields in src/trace/trace_format.md, from the program's schema. Usage: trace_page.py BUILD"""
import json
import os
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/trace/trace_format.md")
HEAD = "\n## Fields\n"


def type_name(s):
    if "const" in s:
        return f"`{json.dumps(s['const'])}`"
    if "enum" in s:
        return ", ".join(f"`{json.dumps(v)}`" for v in s["enum"])
    if s["type"] == "array":
        items = s["items"]
        return "list of pairs" if "minItems" in items else "list" if "$ref" in items else f"list of {type_name(items)}s"
    if "additionalProperties" in s:
        return "object of strings"
    return " or ".join(s["type"]) if isinstance(s["type"], list) else s["type"]


def rows(schema, name, before=""):
    for field, s in schema["$defs"][name]["properties"].items():
        is_list = s.get("type") == "array"
        ref = (s["items"] if is_list else s).get("$ref")
        yield f"| `{before}{field}` | {type_name(s)} | {s['description']} |\n"
        if ref:
            yield from rows(schema, ref.rsplit("/", 1)[1], before + field + ("[]." if is_list else "."))


def page(schema, old):
    text = old.split(HEAD)[0] + HEAD + "\nFrom trace_fields.def, by `tests/tools/trace_page.py build`.\n"
    for line in schema["oneOf"]:
        text += "\n| field | type | |\n|---|---|---|\n" + "".join(rows(schema, line["$ref"].rsplit("/", 1)[1]))
    return text


def main():
    schema = json.loads(subprocess.run([sys.argv[1] + "/logitspec", "export", "--schema"], check=True, capture_output=True).stdout)
    with open(PAGE, encoding="utf-8") as f:
        old = f.read()
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(page(schema, old))


if __name__ == "__main__":
    main()
