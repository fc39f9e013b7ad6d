"""Load on a server: many connections, clients that read nothing, leave, are reset, or send half a request, among others whose answers are
checked. Then all connections are gone, no request waits, and memory and descriptors are what they were.

Usage: python3 serve_load.py [--requests 10000] [--connections 1000] [--seed 1] [--parallel 2]
test_serve_load.py runs a short one."""
import argparse
import collections
import json
import os
import random
import re
import resource
import socket
import struct
import threading
import time

from serving import Server, chat, wait_for

CHAT, WORKERS, UNREAD = "/v1/chat/completions", 12, 16
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset, as the system does for a client that is killed


def size_of(pid):
    """KiB of memory, and descriptors."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)), len(os.listdir(f"/proc/{pid}/fd"))


class Load:
    PROMPTS = [f"Count to {n}." for n in range(5)]

    def __init__(self, server, seed):
        self.s, self.draws = server, random.Random(seed)
        self.lock, self.seen, self.wrong, self.silent = threading.Lock(), collections.Counter(), [], collections.deque()
        self.want = {p: server.good(CHAT, chat(p, max_tokens=12))["choices"][0]["message"]["content"] for p in self.PROMPTS}

    def raw(self, path, body):
        data = json.dumps(body).encode()
        return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data

    def open(self):
        return socket.create_connection(("127.0.0.1", self.s.port), timeout=120)

    def answered(self, prompt, streams):
        if streams:
            status, _, text = self.s.ask(CHAT, chat(prompt, max_tokens=12, stream=True))
            got = "".join(json.loads(line[6:])["choices"][0]["delta"].get("content", "") for line in text.splitlines()
                          if line.startswith("data: {")) if status == 200 else ""
        else:
            status, _, value = self.s.ask(CHAT, chat(prompt, max_tokens=12))
            got = value["choices"][0]["message"]["content"] if status == 200 else ""
        if status == 429:
            return "busy"
        if got != self.want[prompt]:
            self.wrong.append((prompt, status, got))
        return "streamed" if streams else "whole"

    def act(self, what, prompt, at):
        if what in ("whole", "streamed"):
            return self.answered(prompt, what == "streamed")
        long = self.raw(CHAT, chat(prompt, max_tokens=3000, stream=at % 2 == 0))
        c = self.open()
        if what == "half":
            c.sendall(long[:1 + at % (len(long) - 1)])
        elif what == "noise":
            c.sendall(random.Random(at).randbytes(300) + b"\r\n\r\n")
        else:
            c.sendall(long)
        if what == "unread":  # stays open, and nobody reads
            with self.lock:
                self.silent.append(c)
                c = self.silent.popleft() if len(self.silent) > UNREAD else None
        elif what == "reset":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if c:
            c.close()
        return what

    def work(self, left):
        kinds = ["whole"] * 5 + ["streamed"] * 4 + ["half", "noise", "leaves", "reset", "unread"]
        while True:
            with self.lock:
                if not left:
                    return
                left.pop()
                what, prompt, at = self.draws.choice(kinds), self.draws.choice(self.PROMPTS), self.draws.randrange(1 << 20)
            did = self.act(what, prompt, at)
            with self.lock:
                self.seen[did] += 1

    def run(self, n):
        left = [None] * n
        workers = [threading.Thread(target=self.work, args=(left,)) for _ in range(WORKERS)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()

    def settle(self):
        """All clients are gone: so are their connections and requests."""
        while self.silent:
            self.silent.pop().close()
        wait_for(lambda: self.s.metric("connections") == 1 and self.s.metric("requests_running") + self.s.metric("requests_waiting") == 0, 120)
        return size_of(self.s.process.pid)


def load(requests, connections, seed, *args):
    """Counts of what was done, wrong answers, and (KiB, descriptors) after a first tenth and at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, connections + 300)), hard))
    with Server(*args, "--queue", "40") as s:
        run = Load(s, seed)

        def part(n):
            idle = [run.open() for _ in range(max(0, connections - WORKERS - UNREAD - 8))]
            for c in idle[::2]:
                c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost:")
            run.run(n)
            for c in idle:
                c.close()
            return run.settle()
        before, after = part(max(requests // 10, 60)), part(requests)
        assert s.stop() == 0
    return run.seen, run.wrong, before, after


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in ("requests", 10000), ("connections", 1000), ("seed", 1), ("parallel", 2):
        p.add_argument(f"--{name}", type=int, default=value)
    a = p.parse_args()
    start = time.monotonic()
    seen, wrong, before, after = load(a.requests, a.connections, a.seed, "--parallel", str(a.parallel))
    print(f"{sum(seen.values())} requests, {a.connections} connections, {time.monotonic() - start:.0f} s: {dict(seen)}; wrong answers: {len(wrong)} {wrong[:3]}\n"
          f"memory after a tenth {before[0]} KiB, at the end {after[0]} KiB; descriptors {before[1]}, {after[1]}")


if __name__ == "__main__":
    main()
