"""A model of a published shape, with random weights, in our program and in llama.cpp: `make bench-peers SHAPE=3b` (run.py calls
measure()). Each round has both, one after the other: the memory's speed drifts within minutes."""
import json
import os
import subprocess
import tempfile
import time

import peers_setup

PROMPT, DEEP, FEW = 512, 4096, 16  # tokens of a prompt, of a long context, and decoded one by one
ROWS = (8, 32)


def ran(command):
    """(what it printed, seconds, megabytes of memory at most)."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        for f in (out, err):
            f.seek(0)
        if process.returncode:
            raise peers_setup.Failed(f"{os.path.basename(command[0])}: {peers_setup.last_words(err.read()) or process.returncode}")
        return out.read(), seconds, used.ru_maxrss * 1024 / 1e6


def start(command):
    """Of a process that reads the model and computes one token."""
    _, seconds, megabytes = ran(command)
    return {"first token, s": seconds, "memory at most, MB": megabytes}


def read_all(file):
    """Seconds in which the file is only read: what a start needs at least."""
    piece, begin = bytearray(1 << 20), time.monotonic()
    with open(file, "rb", buffering=0) as f:
        while f.readinto(piece):
            pass
    return time.monotonic() - begin


def first_token(program, file, threads):
    return [program, "generate", "--model", file, "--method", "plain", "--max-tokens", "1", "--raw", "--prompt", "the th", "--threads", threads]


def of_ours(program, file, threads):
    out = start(first_token(program, file, threads))
    found = json.loads(ran([program, "bench", "forward", "--model", file, "--threads", threads, "--rows", "1," + ",".join(map(str, ROWS)),
                            "--contexts", f"64,{DEEP}", "--json", "-q"])[0])
    for r in found["results"]:
        if r["what"] == "read":
            out[f"a prompt of {r['rows']}, ms"] = r["median_ms"]
        elif r["context"] < DEEP:
            out[f"{r['rows']} rows, ms" if r["rows"] > 1 else "one row, ms"] = r["median_ms"]
        elif r["rows"] == 1:
            out[f"one row behind {DEEP}, ms"] = r["median_ms"]
    return out


def of_llama(program, file, threads):
    """A prompt of n tokens is one forward of n rows (-ub has 512)."""
    asked = [program, "-m", file, "-t", threads, "-r", "3", "-o", "json"]
    out = start([*asked[:-4], "-r", "1", "-p", "1", "-n", "0", "--no-warmup"])
    for depth, more in ((0, ["-p", ",".join(map(str, (*ROWS, PROMPT))), "-n", str(FEW)]), (DEEP, ["-p", "0", "-n", str(FEW), "-d", str(DEEP)])):
        for r in json.loads(ran([*asked, *more])[0]):
            ms = r["avg_ns"] / 1e6
            if depth:
                out[f"one row behind {DEEP}, ms"] = ms / FEW
            elif r["n_gen"]:
                out["one row, ms"] = ms / FEW
            else:
                out[f"a prompt of {PROMPT}, ms" if r["n_prompt"] == PROMPT else f"{r['n_prompt']} rows, ms"] = ms
    return out


def measure(program, llama, file, threads, rounds, say):
    """{"ours": [{what: number}], "llama.cpp": [...], "read, s": [...]}, one of a round. The first start of each is not counted: ours measures
    the number of threads then, once for a model."""
    found = {"ours": [], "llama.cpp": [], "read, s": []}
    start(first_token(program, file, threads))
    for n in range(rounds):
        both = [("ours", of_ours, program), ("llama.cpp", of_llama, llama)]
        read_all(file)  # into memory
        found["read, s"].append(read_all(file))
        for name, work, path in both[::-1] if n % 2 else both:
            found[name].append(work(path, file, threads))
        say(f"peers: round {n + 1} of {rounds}")
    return found
