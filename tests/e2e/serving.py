"""A running server, and requests to it."""
import http.client
import json
import socket
import subprocess
import threading
import time
import urllib.parse

from program import ENV, PROGRAM


class Server:
    def __init__(self, *args, model="script", env=None, under=(), path=None):
        self.path = path  # of a socket
        self.process = subprocess.Popen([*under, PROGRAM, "serve", "--listen", f"unix:{path}" if path else "0", "--model", model, *args], env=dict(ENV, **(env or {})),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        if (" at unix:" if path else " at http://") not in first:
            raise AssertionError(f"no server: {first} {self.process.communicate()[1]}")
        self.url = first.split(" at ")[1].split()[0]
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()
        self.port = None if path else urllib.parse.urlsplit(self.url).port

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """The exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(60)
        self.reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def connect(self):
        if self.path:
            connection = http.client.HTTPConnection("localhost", timeout=120)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(self.path)
            return connection
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, path, body=None, headers=None, method=None):
        """Status, headers, and the body: of JSON its value."""
        c = self.connect()
        try:
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            c.request(method or ("GET" if body is None else "POST"), path, data, {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            text = r.read().decode()
            return r.status, dict(r.getheaders()), json.loads(text) if r.getheader("Content-Type") == "application/json" else text
        finally:
            c.close()

    def good(self, path, body=None, headers=None):
        status, _, value = self.ask(path, body, headers)
        assert status == 200, (status, value)
        return value

    def stream(self, path, body, headers=None):
        """The events: (name or None, value or text)."""
        status, got, text = self.ask(path, {**body, "stream": True}, headers)
        assert status == 200 and got["Content-Type"].startswith("text/event-stream"), (status, text)
        return events(text)

    def metric(self, name):
        text = self.good("/metrics")
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"logitspec_{name} ")))


def events(text):
    found = []
    assert text.endswith("\n\n")
    for block in text[:-2].split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        if fields:
            data = fields["data"]
            found.append((fields.get("event"), data if data == "[DONE]" else json.loads(data)))
    return found


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}
