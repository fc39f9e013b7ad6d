"""How soon a key shows its effect while the model writes: the help opens and closes on a terminal of 200x50. The time is
from the key's write to the read that holds text which only the help has. Prints one JSON object.

Usage: latency.py [PROGRAM [KEYS]]"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/logitspec"
KEYS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
PROMPT = "Write a very long story about a dog, a cat and the sea.\r"


def read_until(fd, word, seconds):
    """Reads until `word` has come; the time when it had, or None."""
    seen, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.05)[0]:
            try:
                seen = seen[-4000:] + os.read(fd, 65536)
            except OSError:
                return None
            if word in seen:
                return time.monotonic()
    return None


def main():
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8", LC_ALL="C.UTF-8", XDG_STATE_HOME="/nonexistent")
        os.execv(PROGRAM, [PROGRAM, "--max-tokens", "100000", "--set", "ui.history=no", "--stop", "\x01"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    if not read_until(fd, b"READY", 60):
        sys.exit("latency.py: the screen did not come up")
    os.write(fd, PROMPT.encode())
    time.sleep(2)  # it writes: 2.5 ms a step
    os.write(fd, b"\x1b")
    time.sleep(0.5)
    while select.select([fd], [], [], 0)[0]:
        os.read(fd, 65536)
    times = []
    for i in range(KEYS):
        start = time.monotonic()
        os.write(fd, b"?")
        shown = read_until(fd, b"closes", 5)  # curses writes changed cells only: one word
        if not shown:
            sys.exit(f"latency.py: key {i} had no effect")
        times.append(1e3 * (shown - start))
        os.write(fd, b"\x1b")
        time.sleep(0.05 + 0.013 * (i % 7))
        while select.select([fd], [], [], 0)[0]:
            os.read(fd, 65536)
    os.write(fd, b"\x03")
    times.sort()
    print(json.dumps({"keys": KEYS, "median_ms": round(times[KEYS // 2], 2), "p95_ms": round(times[KEYS * 95 // 100], 2),
                      "worst_ms": round(times[-1], 2)}))


main()
