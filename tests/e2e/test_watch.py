"""Whoever watches a server sees its requests, and disturbs nothing."""
import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from itertools import zip_longest

from program import ENV, PROGRAM, ROOT, SANITIZED, Screen, run
from serving import Server, chat

CHAT = "/v1/chat/completions"
KEY, WATCH_KEY = "client-key-0123456789", "watch-key-0123456789"
SLOW = ("--model", "script:20")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_link_to(path, name):
    try:
        return name in os.readlink(path)
    except OSError:  # of another user, or gone
        return False


def is_server(fd, port):
    with open(os.path.join(os.path.dirname(fd), "..", "cmdline"), "rb") as f:
        return str(port).encode() in f.read().split(b"\0")


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


class Watcher:
    """The lines of /watch, as they come."""

    def __init__(self, port, headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.connection.request("GET", "/watch", headers=headers or {})
        self.socket = self.connection.sock
        self.response = self.connection.getresponse()
        assert self.response.status == 200, (self.response.status, self.response.read())
        self.lines = []
        self.ended = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for line in self.response:
                self.lines.append(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.response.close()
        self.connection.close()
        self.ended = True

    def facts(self):
        """The last of each request."""
        return {line["request"]: line for line in list(self.lines) if line["type"] == "request" and line["request"]}

    def wait(self, n, state="done"):
        wait_for(lambda: sum(f["state"] == state for f in self.facts().values()) >= n)
        return self

    def recording(self, request):
        """Its lines, without those of requests."""
        now, found = None, []
        for line in list(self.lines):
            if line["type"] == "request":
                now = line["request"]
            elif line["type"] != "alive" and now == request:
                found.append(line)
        return found

    def close(self):
        """As if it were killed."""
        self.socket.shutdown(socket.SHUT_RDWR)


class Stream(unittest.TestCase):
    def emitted(self, w, request):
        return [t for line in w.recording(request) if line["type"] == "step" for t in line["emitted"]]

    def test_watchers_see_what_clients_get(self):
        body = chat("Count to twenty.", max_tokens=60, return_token_ids=True)
        with Server() as s:
            alone = s.good(CHAT, body)["logitspec"]["output_tokens"]
            first = Watcher(s.port)
            seen = [s.good(CHAT, body, {"User-Agent": "tester/1"})["logitspec"]["output_tokens"] for _ in range(3)]
            s.ask(CHAT, chat("x", max_tokens=5, n=2))  # refused before it is queued
            late = Watcher(s.port)
            for w in first, late:
                w.wait(4)
                wait_for(lambda w=w: all(self.emitted(w, i) for i in range(1, 5)))
                wait_for(lambda w=w: all(w.recording(i)[-1]["type"] == "end" for i in range(1, 5)))
                self.assertEqual([alone] * 4, [alone, *seen])
                for i in range(1, 5):
                    self.assertEqual(alone, self.emitted(w, i))
                    facts, steps = w.facts()[i], [line for line in w.recording(i) if line["type"] == "step"]
                    self.assertEqual((facts["emitted"], facts["steps"], facts["path"], facts["client"]), (len(alone), len(steps), CHAT, "127.0.0.1"))
                    self.assertEqual(facts["prompt_tokens"], len(w.recording(i)[0]["prompt_ids"]))
                self.assertEqual(w.facts()[4]["agent"], "tester/1")
                self.assertGreater(w.facts()[4]["kept_tokens"], 0)
                self.assertEqual(sorted(w.facts()), [1, 2, 3, 4])
                self.assertEqual(w.recording(0)[0]["model"]["name"], "script")
                w.close()
            self.assertEqual(s.good(CHAT, body)["logitspec"]["output_tokens"], alone)

    def test_requests_that_are_decoded_in_turn(self):
        bodies = [chat(f"Count to {n}. " * 30, max_tokens=200, return_token_ids=True) for n in ("ten", "twenty")]
        with Server() as s:
            alone = [s.good(CHAT, b)["logitspec"]["output_tokens"] for b in bodies]
        with Server(*SLOW, "--parallel", "2", model="script:20") as s:
            w, got = Watcher(s.port), {}
            threads = [threading.Thread(target=lambda i=i: got.update({i: s.good(CHAT, bodies[i])})) for i in range(2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            w.wait(2)
            wait_for(lambda: all(w.recording(i) and w.recording(i)[-1]["type"] == "end" for i in (1, 2)))
            self.assertEqual(alone, [got[i]["logitspec"]["output_tokens"] for i in range(2)])
            self.assertEqual(sorted(alone), sorted(self.emitted(w, i) for i in (1, 2)))
            order = [line["request"] for line in w.lines if line["type"] == "request" and line["state"] == "decoding"]
            self.assertGreater(sum(a != b for a, b in zip(order, order[1:])), 4)  # they took turns

    def test_what_was_watched_is_a_recording(self):
        with Server() as s, tempfile.TemporaryDirectory() as folder:
            s.good(CHAT, chat("Count.", max_tokens=20))
            w = Watcher(s.port).wait(1)
            wait_for(lambda: w.recording(1) and w.recording(1)[-1]["type"] == "end")
            s.good(CHAT, chat("Count.", max_tokens=7, temperature=0.5))
            w.wait(2)
            wait_for(lambda: w.recording(2))
            self.assertEqual([w.recording(2)[0]["config"][k] for k in ("decode.temperature", "decode.max_tokens")], ["0.5", "7"])
            path = os.path.join(folder, "watched.jsonl")
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(line) + "\n" for line in w.lines)
            r = run("report", path)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("20", r.stdout)

    def test_turns_whose_lines_are_mixed(self):
        with Server() as s, tempfile.TemporaryDirectory() as folder:
            for n in (20, 30):
                s.good(CHAT, chat(f"Count to {n}.", max_tokens=n))
            w = Watcher(s.port).wait(2)
            wait_for(lambda: all(w.recording(i) and w.recording(i)[-1]["type"] == "end" for i in (1, 2)))
            path, mixed, empty = (os.path.join(folder, name) for name in ("watched.jsonl", "mixed.jsonl", "empty.jsonl"))
            server = next(line for line in w.lines if line["type"] == "header")
            facts = {line["request"]: line for line in w.lines if line["type"] == "request"}
            pairs = zip_longest(*(w.recording(i) for i in (2, 1)))
            with open(path, "w", encoding="utf-8") as f, open(mixed, "w", encoding="utf-8") as g, open(empty, "w", encoding="utf-8") as h:
                for to, lines in (f, w.lines), (h, [dict(facts[2], request=0), server]):
                    to.writelines(json.dumps(line) + "\n" for line in lines)
                print(json.dumps(dict(facts[2], request=0)), json.dumps(server), sep="\n", file=g)
                for two, one in pairs:
                    for i, line in (2, two), (1, one):
                        if line:
                            print(json.dumps(facts[i]), json.dumps(line), sep="\n", file=g)
            seen = []
            for name in path, mixed:
                out = name + ".json"
                r = run("report", "-q", name, "-o", out)
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                with open(out, encoding="utf-8") as f:
                    o = json.load(f)
                seen.append(sorted((t["emitted"], t["steps"]) for t in o["turns"]))
                self.assertEqual((len(o["groups"]), [n for n, _ in seen[-1]]), (1, [20, 30]))
                r = run("simulate", name, "--methods", "logitspec", "--json")
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                o = json.loads(r.stdout)
                self.assertEqual((o["turns"], o["recorded_tokens"]), (2, 50))
                self.assertIsNotNone(o["methods"][0]["estimated_speedup"])  # by the costs of the requests
            self.assertEqual(*seen)
            r = run("report", empty)
            self.assertEqual(r.returncode, 1)
            self.assertIn("no request was answered", r.stderr)

    def test_lines_that_the_server_lost(self):
        with Server() as s, tempfile.TemporaryDirectory() as folder:
            s.good(CHAT, chat("Count.", max_tokens=30))
            w = Watcher(s.port).wait(1)
            wait_for(lambda: w.recording(1) and w.recording(1)[-1]["type"] == "end")
            path, out = os.path.join(folder, "watched.jsonl"), os.path.join(folder, "out")
            lines = [dict(x, lost_lines=3) if x["type"] == "request" and x["request"] else x for x in w.lines]
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(line) + "\n" for line in lines[:-3])
            says = "3 lines of requests are missing, for which the server had no memory (serve.watch_mib)"
            for args in ("report",), ("simulate", "--methods", "logitspec"), ("export", "-o", out + ".json"):
                r = run(args[0], path, *args[1:])
                self.assertEqual((r.returncode, r.stderr.count(says)), (0, 1), r.stderr)
                if args[0] == "report":
                    self.assertIn(f"Incomplete: {says}.", r.stdout)
            for form in "json", "html":
                r = run("report", "-q", path, "-o", f"{out}.{form}")
                self.assertEqual((r.returncode, r.stderr.count(says)), (0, 1), r.stderr)
                with open(f"{out}.{form}", encoding="utf-8") as f:
                    self.assertIn('"lost_lines":3' if form == "json" else says, f.read())
            self.assertEqual(json.loads(run("simulate", path, "--methods", "logitspec", "--json").stdout)["lost_lines"], 3)
            script = os.path.join(folder, "keys")
            with open(script, "w", encoding="utf-8") as f:
                f.write("size 120x30\nwait 3 lines of requests are missing\n")
            r = run("replay", path, "--speed", "max", "--script", script)
            self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_states_of_a_request(self):
        with Server(*SLOW, "--queue", "2") as s:
            w = Watcher(s.port)
            threads = [threading.Thread(target=s.ask, args=(CHAT, chat("x", max_tokens=30))) for _ in range(3)]
            for t in threads:
                t.start()
                wait_for(lambda t=t: len(w.facts()) > threads.index(t))
            c = s.connect()
            c.request("POST", CHAT, json.dumps(chat("x", max_tokens=4)), {"Content-Type": "application/json"})
            refused = c.getresponse().status == 429
            c.close()
            for t in threads:
                t.join()
            w.wait(3)
            states = {}
            for line in w.lines:
                if line["type"] == "request" and line["request"] and line["state"] not in states.setdefault(line["request"], []):
                    states[line["request"]].append(line["state"])
            # a watcher may miss states in between, but their order is always this
            order = ["queued", "reading", "decoding", "done"]
            for seen in states.values():
                self.assertEqual(seen, [x for x in order if x in seen])
            self.assertTrue(any("queued" in seen for seen in states.values()))
            self.assertEqual(len(states), 3 if refused else 4)
            # a client that leaves
            c = s.connect()
            c.request("POST", CHAT, json.dumps(chat("x", max_tokens=4000, stream=True)), {"Content-Type": "application/json"})
            c.getresponse().read(10)
            c.sock.shutdown(socket.SHUT_RDWR)
            c.close()
            w.wait(1, "cancelled")
            # a prompt that does not fit
            status, _, _ = s.ask(CHAT, chat("x " * 20000, max_tokens=4))
            self.assertEqual(status, 400)
            w.wait(1, "failed")
            self.assertIn("context", [f["why"] for f in w.facts().values() if f["state"] == "failed"][0])

    def test_a_watcher_that_does_not_read_delays_nobody(self):
        with Server() as s:
            body = chat("Count to twenty.", max_tokens=300, return_token_ids=True)
            want = s.good(CHAT, body)["logitspec"]["output_tokens"]
            stuck = []
            for _ in range(3):
                c = socket.create_connection(("127.0.0.1", s.port))
                c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                c.sendall(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
                stuck.append(c)
            w = Watcher(s.port)
            for _ in range(4 if SANITIZED else 12):
                self.assertEqual(s.good(CHAT, body)["logitspec"]["output_tokens"], want)
            n = 5 if SANITIZED else 13
            w.wait(n)
            wait_for(lambda: self.emitted(w, n) == want)
            for c in stuck:
                c.close()
            w.close()
            self.assertEqual(s.good(CHAT, body)["logitspec"]["output_tokens"], want)

    def test_old_requests_are_forgotten(self):
        with Server("--set", "serve.watch_mib=1") as s:
            w = Watcher(s.port)
            for _ in range(8):
                s.good(CHAT, chat("Count to twenty.", max_tokens=200))
            wait_for(lambda: w.facts().get(1, {}).get("state") == "forgotten")
            late = Watcher(s.port)
            wait_for(lambda: 8 in late.facts())
            self.assertNotIn(1, late.facts())

    def test_the_number_of_watchers_is_bounded(self):
        with Server() as s:
            watchers = [Watcher(s.port) for _ in range(16)]
            self.assertEqual(s.ask("/watch")[0], 503)
            watchers[3].close()
            wait_for(lambda: s.metric("connections") <= 16)
            watchers.append(Watcher(s.port))
            self.assertEqual(s.stop(), 0)  # and the server ends with watchers
            wait_for(lambda: all(w.ended for w in watchers))


class Permission(unittest.TestCase):
    def test_keys(self):
        keys = {"LOGITSPEC_SERVE_KEY": KEY}
        with Server(env=keys) as s:
            for headers in None, {"Authorization": f"Bearer {KEY}"}:
                status, _, value = s.ask("/watch", headers=headers)
                self.assertEqual(status, 403)
                self.assertIn("--watch-key-file", value["error"]["message"])
        with Server(env={**keys, "LOGITSPEC_WATCH_KEY": WATCH_KEY}) as s:
            for headers in None, {"Authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}, {"x-api-key": WATCH_KEY + "x"}:
                self.assertEqual(s.ask("/watch", headers=headers)[0], 401)
            Watcher(s.port, {"Authorization": f"Bearer {WATCH_KEY}"}).close()
            Watcher(s.port, {"x-api-key": WATCH_KEY}).close()
            self.assertEqual(s.ask(CHAT, chat("x"), {"x-api-key": WATCH_KEY})[0], 401)  # who may watch may not ask
            s.good(CHAT, chat("x", max_tokens=4), {"x-api-key": KEY})
            w = Watcher(s.port, {"x-api-key": WATCH_KEY}).wait(1)
            self.assertEqual(w.facts()[1]["key"], 1)
            self.assertNotIn(KEY, json.dumps(w.lines))
            w.close()

    def test_pages_and_foreign_hosts(self):
        with Server("--origin", "http://page.example") as s:
            self.assertEqual(s.ask("/watch", headers={"Host": "evil.example"})[0], 403)
            for origin in "http://evil.example", "http://page.example":  # none may, not even one that may ask
                self.assertEqual(s.ask("/watch", headers={"Origin": origin})[0], 403)
            self.assertEqual(s.ask("/watch", body={}, method="POST")[0], 405)

    def test_nobody_may_watch(self):
        with Server("--set", "serve.watch_mib=0") as s:
            self.assertEqual(s.ask("/watch")[0], 404)
            s.good(CHAT, chat("x", max_tokens=4))


class OnTheScreen(unittest.TestCase):
    def test_serve_on_a_terminal(self):
        port = free_port()
        with Screen("serve", "--listen", str(port), *SLOW, "--max-tokens", "40", cols=120, rows=36) as t:
            t.wait("8 Requests", "no request yet", f"http://127.0.0.1:{port}")
            ask(port, "Count.", 20)
            t.wait("request 1 done", "curl-like/1", "20")
            ask(port, "Count again.", 22)
            t.wait("request 2 done", "Count again.")
            t.keys("Down", "Enter")
            t.wait("request 1 done", "Count.", "G follows", absent=["Count again."])
            t.keys("Tab", "[")
            t.wait("behind")
            t.keys("G")
            t.wait("request 2 done", "Count again.")
            t.keys("L")
            t.wait("20 tokens, MAT", "22 tokens")  # the lines that a server without a screen prints
            t.keys("q", "8", "q")
            t.wait("exit=0 echo=1")

    def test_lines_behind_the_screen_take_no_more_memory(self):
        port = free_port()
        with Screen("serve", "--listen", str(port), "--model", "script:0") as t:
            t.wait("8 Requests")
            for _ in range(200):
                self.assertEqual(ask(port, "x", 1), 200)
            t.wait("request 200 done")
            t.keys("L")
            t.wait("1 tokens")
            files = [f for f in glob.glob("/proc/[0-9]*/fd/1") if is_link_to(f, "logitspec-output") and is_server(f, port)]
            self.assertEqual(len(files), 1)
            has = os.stat(files[0])
            self.assertGreater(has.st_size, 16384)
            self.assertLessEqual(has.st_blocks * 512, 12288)
            t.keys("q", "q")
            t.wait("exit=0")

    def test_recordings_that_fail_are_told_on_the_screen(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "traces")
            with Screen("serve", "--listen", str(port), "--model", "script:0", "--trace-dir", path, cols=120) as t:
                t.wait("8 Requests")
                shutil.rmtree(path, ignore_errors=True)
                with open(path, "w", encoding="utf-8"):
                    pass
                self.assertEqual(ask(port, "x", 1), 200)
                t.wait("Not a directory")
                t.keys("q")
                t.wait("exit=0")

    def test_a_socket_of_the_file_system(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "s")
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(path)  # as a server leaves it that was killed
            with Server(path=path) as s:
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                for target in (path, f"unix:{path}"):
                    with Screen("watch", target, cols=120, rows=36) as t:
                        t.wait("8 Requests")
                        s.good(CHAT, chat("Count.", max_tokens=8))
                        t.wait("WATCH: request", "done", "a socket")
                        t.keys("q")
                        t.wait("exit=0")
                r = run("serve", "--model", "script", "--listen", f"unix:{path}", "--no-screen")
                self.assertEqual(r.returncode, 1)
                self.assertIn(f"cannot listen at {path}: another server listens there", r.stderr)
                s.good(CHAT, chat("It is still there.", max_tokens=2))
                self.assertEqual(s.stop(), 0)
            self.assertFalse(os.path.exists(path))
            for bad, why in ((os.path.join(d, "no", "s"), "No such file"), ("x" * 200, "the path has 1 to 107 bytes"), ("", "the path has")):
                self.assertIn(why, run("serve", "--model", "script", "--listen", f"unix:{bad}", "--no-screen").stderr)
            with open(path, "w", encoding="utf-8"):
                pass
            self.assertIn("Address already in use", run("serve", "--model", "script", "--listen", f"unix:{path}", "--no-screen").stderr)
            self.assertTrue(os.path.exists(path))  # a file that is no socket stays

    def test_no_screen(self):
        for flag, before in ("--no-screen", ""), ("", "TERM=dumb"):
            with Screen("serve", "--listen", "0", *SLOW, flag, before=before) as t:
                t.wait("serving script:20 at http", absent=["Requests"])
                t.keys("C-c")
                t.wait("exit=0")

    def test_in_the_background_of_a_shell(self):
        port = free_port()
        with Screen("serve", "--listen", str(port), *SLOW, "& echo pid=$!; sleep 60", before="set -m;") as t:
            t.wait("serving script:20 at http", absent=["Requests"])
            self.assertEqual(ask(port, "Count.", 4), 200)
            os.kill(int(re.search(r"pid=(\d+)", t.text()).group(1)), signal.SIGTERM)  # it would outlive its terminal

    def test_watch_a_pipe(self):
        with Server() as s, Screen("watch", "-", before=f"curl -sN {s.url}/watch |") as t:
            t.wait("no request yet")
            ask(s.port, "Count.", 8)
            t.wait("WATCH: request 1 done")
            t.keys("q")
            t.wait("exit=0")

    def test_quitting_warns_while_requests_are_answered(self):
        port = free_port()
        with Screen("serve", "--listen", str(port), *SLOW) as t:
            t.wait("8 Requests")
            got = {}
            client = threading.Thread(target=lambda: got.update(status=ask(port, "Count.", 3000)))
            client.start()
            t.wait("request 1 decoding")
            t.keys("q")
            t.wait("1 request is not answered yet")
            t.keys("q")
            t.wait("exit=0")
            client.join()
            self.assertEqual(got["status"], 503)

    def test_a_port_in_use_is_told_without_a_screen(self):
        with Server() as s, Screen("serve", "--listen", str(s.port), *SLOW) as t:
            text = t.wait("exit=1 echo=1")
            self.assertIn("cannot listen", text)

    def test_watch_from_elsewhere(self):
        for env, cols in ({}, 120), ({"LANG": "C", "LC_ALL": "C"}, 80):
            with self.subTest(cols=cols), Server(*SLOW, model="script:20") as s:
                ask(s.port, "Count.", 20)
                with Screen("watch", s.url, cols=cols, rows=36, env=env) as a, Screen("watch", s.url + "/", cols=80, rows=24) as b:
                    for t in a, b:
                        t.wait("WATCH: request 1 done", "Count.")
                    ask(s.port, "Count again.", 22)
                    for t in a, b:
                        t.wait("WATCH: request 2 done", "Count again.")
                    a.keys("q")
                    a.wait("exit=0")
                    b.signal("KILL")
                    self.assertEqual(ask(s.port, "Still here?", 4), 200)

    def test_a_signal_ends_screen_and_server(self):
        port = free_port()
        with Screen("serve", "--listen", str(port), *SLOW) as t:
            t.wait("8 Requests")
            w = Watcher(port)
            t.signal("TERM")
            t.wait("exit=143 echo=1")
            wait_for(lambda: w.ended)

    def test_the_server_is_killed_and_comes_back(self):
        port = free_port()
        first = Server("--listen", str(port))
        with Screen("watch", f"http://127.0.0.1:{port}", cols=120, rows=36) as t:
            try:
                ask(port, "Before.", 8)
                t.wait("WATCH: request 1 done", "Before.")
            finally:
                first.process.kill()
                first.stop()
            t.wait(f"the server http://127.0.0.1:{port} has ended; trying again", "Before.")
            with Server("--listen", str(port)):
                t.wait("the server is back")
                ask(port, "After.", 8)
                t.wait("WATCH: request 1 done", "After.", absent=["Before."])
            t.keys("q")
            t.wait("exit=0")


def ask(port, text, tokens):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    c.request("POST", CHAT, json.dumps(chat(text, max_tokens=tokens)), {"Content-Type": "application/json", "User-Agent": "curl-like/1"})
    status = c.getresponse().status
    c.close()
    return status


class CommandLine(unittest.TestCase):
    def refused(self, *args, code=1, env=None):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as script:
            r = run("watch", *args, "--script", script.name, env=env or {})
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
        return r.stderr

    def test_a_file_of_what_was_watched(self):
        with Server() as s, tempfile.TemporaryDirectory() as folder:
            s.good(CHAT, chat("Count.", max_tokens=20))
            w = Watcher(s.port).wait(1)
            wait_for(lambda: w.recording(1) and w.recording(1)[-1]["type"] == "end")
            path, script = os.path.join(folder, "watched.jsonl"), os.path.join(folder, "keys")
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(line) + "\n" for line in w.lines)
            with open(script, "w", encoding="utf-8") as f:
                f.write("wait request 1 done\nexpect Count.\nkey [\nexpect behind\nkey x\nexpect a request ends when its client leaves\n")
            r = run("watch", path, "--script", script)
            self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_a_stream_is_replayed_as_it_comes(self):
        with Server() as s, tempfile.TemporaryDirectory() as folder:
            last = s.good(CHAT, chat("Count.", max_tokens=20))["choices"][0]["message"]["content"].split()[-1]
            w = Watcher(s.port).wait(1)
            wait_for(lambda: w.recording(1) and w.recording(1)[-1]["type"] == "end")
            script = os.path.join(folder, "keys")
            with open(script, "w", encoding="utf-8") as f:
                f.write(f"wait {last}\n")
            p = subprocess.Popen([PROGRAM, "replay", "-", "--speed", "max", "--script", script], stdin=subprocess.PIPE, env=ENV)
            p.stdin.write("".join(json.dumps(line) + "\n" for line in w.lines).encode())
            p.stdin.flush()  # and no end
            self.assertEqual(p.wait(60), 0)
            p.stdin.close()

    def test_bad_addresses(self):
        self.assertIn("cannot watch http://127.0.0.1:1", self.refused("http://127.0.0.1:1"))
        self.assertIn("neither a file nor", self.refused("gopher://127.0.0.1", code=2))
        self.assertIn("no-such-file", self.refused("no-such-file"))
        self.assertIn("usage", self.refused(code=2))
        self.assertIn("'logitspec replay' shows a recording", self.refused(os.path.join(ROOT, "demos/traces/copy.jsonl.zst")))
        r = run("watch", "http://127.0.0.1:1")
        self.assertEqual(r.returncode, 2)
        self.assertIn("needs a terminal", r.stderr)

    def test_keys_come_from_files_and_the_environment(self):
        with Server(env={"LOGITSPEC_SERVE_KEY": KEY, "LOGITSPEC_WATCH_KEY": WATCH_KEY}) as s, tempfile.TemporaryDirectory() as folder:
            self.assertIn("it needs a watch key", self.refused(s.url, env={"LOGITSPEC_WATCH_KEY": ""}))
            file, script = os.path.join(folder, "key"), os.path.join(folder, "script")
            with open(script, "w", encoding="utf-8") as f:
                f.write("wait no request yet\nwait script\n")
            with open(file, "w", encoding="utf-8") as f:
                f.write(f"# a comment\n{WATCH_KEY}\n")
            for args, env in ((), {"LOGITSPEC_WATCH_KEY": WATCH_KEY}), (("--key-file", file), None):
                r = run("watch", s.url, *args, "--script", script, env=env or {})
                self.assertEqual((r.returncode, r.stderr), (0, ""))
            # the key is in no command line
            with Screen("watch", s.url, "--key-file", file) as t:
                t.wait("no request yet")
                lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
                self.assertIn("/watch", lines)
                self.assertNotIn(WATCH_KEY, lines)
            with open(file, "w", encoding="utf-8") as f:
                f.write(f"\n# mine\n\n{WATCH_KEY}\n")
            self.assertEqual(run("watch", s.url, "--key-file", file, "--script", script).returncode, 0)
            # the keys of the user's own server go to no other one
            self.assertIn("it needs a watch key", self.refused(s.url, env={"LOGITSPEC_WATCH_KEY": "", "LOGITSPEC_SET_SERVE__KEY_FILE": file}))
            for text in "# none\n", WATCH_KEY + " x\n":
                with open(file, "w", encoding="utf-8") as f:
                    f.write(text)
                self.assertIn("has no key", self.refused(s.url, "--key-file", file, code=2))

    def test_a_hostile_server(self):
        """Whatever it sends: one line, no crash, and nothing that the terminal obeys."""
        answers = (b"HTTP/1.1 200 OK\r\n\r\n<html>", b"HTTP/1.1 200 OK\r\n\r\n{\"type\":\"request\",\"request\":1e9}\n",
                   b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", b"\x1b[2J\r\n\r\n", b"",
                   b"HTTP/1.1 200 OK\r\n\r\n" + b"{\"type\":\"request\"," + b"[" * 100000 + b"\n")
        for answer in answers:
            with self.subTest(answer=answer[:60]), socket.create_server(("127.0.0.1", 0)) as listener:
                def serve(listener=listener, answer=answer):
                    c, _ = listener.accept()
                    with c:
                        c.recv(4096)
                        c.sendall(answer)
                threading.Thread(target=serve, daemon=True).start()
                said = self.refused(f"http://127.0.0.1:{listener.getsockname()[1]}")
                self.assertNotRegex(said, r"[\x00-\x08\x0b-\x1f\x7f]")


if __name__ == "__main__":
    unittest.main()
