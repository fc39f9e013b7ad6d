#!/usr/bin/env python3
"""A scripted agent that lets the model edit a file ten times over /v1/chat/completions, as agents do: each request has the
whole conversation.

Usage: agent.py [--rounds 5] [--model FILE] [--peer FOLDER]   tables: plain and with drafts, with and without what a server
                                                   keeps between requests, beside llama.cpp's server (build/peers)
       agent.py --url URL --minutes 30 [--pid PID]   talks with a running server for so long; prints what it saw

The conversation is recorded once, plainly; then every server gets the same requests, in turn, round by round."""
import argparse
import http.client
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "smollm2-135m-instruct.Q4_1.gguf")
TOKENS = 128  # of an answer at most
SYSTEM = "You edit a Python file. Answer with the whole new file in one code block, and nothing else."
FILE = '''import json


class Basket:
    """What a customer wants to buy."""

    def __init__(self, owner):
        self.owner = owner
        self.items = []

    def add(self, name, price, count=1):
        self.items.append({"name": name, "price": price, "count": count})

    def total(self):
        return sum(i["price"] * i["count"] for i in self.items)

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"owner": self.owner, "items": self.items}, f)
'''
EDITS = ("Rename the class to Cart.", "Add a method clear that removes all items.", "Rename the method add to put.",
         "Let total take a discount in percent.", "Write a docstring for each method.", "Add a method count that returns the number of items.",
         "Open the file in save with encoding utf-8.", "Add a method load that reads what save wrote.", "Rename price to cost.",
         "Remove the method clear again.")


def ask(port, messages, tokens=TOKENS):
    """The answer, and the seconds that the client waited for it."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    start = time.perf_counter()
    c.request("POST", "/v1/chat/completions", json.dumps({"messages": messages, "max_tokens": tokens, "temperature": 0}),
              {"Content-Type": "application/json"})
    r = c.getresponse()
    answer = json.loads(r.read())
    seconds = time.perf_counter() - start
    c.close()
    if r.status != 200:
        raise SystemExit(f"agent.py: {r.status}: {answer}")
    return answer, seconds


def converse(port, edits, file=FILE):
    """Plays the agent; returns the requests' messages, and the answers."""
    messages, requests, answers = [{"role": "system", "content": SYSTEM}], [], []
    for i, edit in enumerate(edits):
        messages.append({"role": "user", "content": f"basket.py:\n```python\n{file}```\n{edit}" if i == 0 else edit})
        requests.append(list(messages))
        answer, seconds = ask(port, messages)
        answers.append((answer, seconds))
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
    return requests, answers


class Server:
    def __init__(self, name, command):
        self.name, self.command, self.results = name, command, []

    def __enter__(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        command = [w.replace("PORT", str(self.port)) for w in self.command]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                c.request("GET", "/health")
                if c.getresponse().status == 200:
                    break
            except OSError:
                pass
            finally:
                c.close()
            if self.process.poll() is not None:
                raise SystemExit(f"agent.py: {' '.join(command)}: exit code {self.process.returncode}")
            time.sleep(0.05)
        ask(self.port, [{"role": "user", "content": "Hi"}], 8)  # the first answer is slower
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def processor_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def play(self, requests):
        """The recorded requests: tokens, seconds as the client waits, and those of the processor."""
        tokens, waited, kept, texts, before = 0, 0, 0, [], self.processor_s()
        for messages in requests:
            answer, seconds = ask(self.port, messages)
            own = answer.get("logitspec")
            n = answer["usage"]["completion_tokens"]
            tokens, waited = tokens + n, waited + seconds
            kept += own["kept_tokens"] if own else answer["timings"].get("cache_n", 0)
            texts.append(answer["choices"][0]["message"]["content"])
        self.results.append({"tokens": tokens, "waited_s": waited, "processor_s": self.processor_s() - before, "kept": kept, "texts": texts})


def servers(args):
    own = [os.path.join(ROOT, "build", "logitspec"), "serve", "--listen", "PORT", "--model", args.model, "--threads", str(args.threads)]
    yield Server("plain", [*own, "--method", "plain"])
    yield Server("plain, `--fresh`", [*own, "--method", "plain", "--fresh"])
    yield Server("drafts", own)
    yield Server("drafts, `--fresh`", [*own, "--fresh"])
    llama = [os.path.join(args.peer, "llama", "bin", "llama-server"), "--offline", "--no-ui", "-m", args.model, "--host", "127.0.0.1", "--port", "PORT",
             "-t", str(args.threads), "-c", "8192", "-np", "1", "-fa", "on", "--jinja"]
    if os.path.exists(llama[0]):
        yield Server("llama.cpp", llama)
        yield Server("llama.cpp, ngram-map-k4v", [*llama, "--spec-type", "ngram-map-k4v"])
    else:
        print(f"agent.py: no {llama[0]}: run.py peers builds it", file=sys.stderr)


def measure(args):
    every = list(servers(args))
    with every[0] as s:
        requests, answers = converse(s.port, EDITS)
    said = [a["choices"][0]["message"]["content"] for a, _ in answers]
    if args.show:
        print("\n----\n".join(said), file=sys.stderr)
    for r in range(args.rounds):
        for s in random.Random(r).sample(every, len(every)):
            with s:
                s.play(requests)
            last = s.results[-1]
            print(f"round {r + 1}: {s.name}: {last['tokens']} tokens in {last['waited_s']:.1f} s, {last['processor_s']:.1f} s of processor time", file=sys.stderr, flush=True)
    print(f"{len(requests)} requests, {answers[-1][0]['usage']['prompt_tokens']} tokens in the last prompt; median of {args.rounds} (least - most); load "
          f"{os.getloadavg()[1]:.1f}\n")
    print("| server | tokens/s, as a client waits | tokens a second of processor time | prompt tokens kept | answers as recorded |\n|---|---:|---:|---:|---:|")
    for s in every:
        rates = sorted(r["tokens"] / r["waited_s"] for r in s.results)
        work = sorted(r["tokens"] / r["processor_s"] for r in s.results)
        same = sum(a == b for a, b in zip(s.results[0]["texts"], said))
        print(f"| {s.name} | {statistics.median(rates):.0f} ({rates[0]:.0f} - {rates[-1]:.0f}) | {statistics.median(work):.0f} ({work[0]:.0f} - {work[-1]:.0f}) | {s.results[0]['kept']} | {same} of {len(said)} |")


def memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def talk(args):
    port, end, n, tokens, draws = urllib.parse.urlsplit(args.url).port, time.monotonic() + 60 * args.minutes, 0, 0, random.Random(1)
    before = args.pid and memory_kib(args.pid)
    while time.monotonic() < end:
        edits = draws.sample(EDITS, len(EDITS))
        _, answers = converse(port, edits, FILE.replace("Basket", draws.choice(("Basket", "Order", "Shelf", "Box"))))
        n += len(answers)
        tokens += sum(a["usage"]["completion_tokens"] for a, _ in answers)
        last, seconds = answers[-1]
        own = last["logitspec"]
        print(f"{n} requests, {tokens} tokens; last: {last['usage']['prompt_tokens']} + {own['emitted']}, kept {own['kept_tokens']}, MAT {own['mat']:.2f}, "
              f"{own['tokens_per_s']:.0f} tokens/s, {seconds:.2f} s" + (f", {memory_kib(args.pid) / 1024:.1f} MiB" if args.pid else ""), flush=True)
    if args.pid:
        print(f"memory: {before / 1024:.1f} -> {memory_kib(args.pid) / 1024:.1f} MiB")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=2, help="with one, and processor time, other programs matter least")
    p.add_argument("--model", default=MODEL)
    p.add_argument("--peer", default=os.path.join(ROOT, "build", "peers"))
    p.add_argument("--show", action="store_true", help="print the recorded answers")
    p.add_argument("--url")
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--pid", type=int)
    args = p.parse_args()
    if args.url:
        talk(args)
    else:
        measure(args)


if __name__ == "__main__":
    main()
