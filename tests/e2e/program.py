"""What the end-to-end tests share: the program, a check against a JSON Schema, a terminal to drive."""
import atexit
import functools
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LOGITSPEC_BUILD", os.path.join(ROOT, "build"))
PROGRAM = os.path.join(BUILD, "logitspec")
SANITIZED = os.path.basename(BUILD) in ("san", "tsan")
without_sanitizers = unittest.skipIf(SANITIZED, "needs:a build without sanitizers")
MODEL = os.path.join(ROOT, "models", "smollm2-135m-instruct.Q4_1.gguf")
# settings of the user who runs the tests must not matter
# what people read of a source of drafts
LABEL = {"last-logit": "guess", "guess-tail": "after a guess", "draft-model": "draft model"}
ENV = {k: v for k, v in os.environ.items() if not k.startswith("LOGITSPEC_SET_") and k not in ("NO_COLOR", "COLUMNS", "LINES")}
# What forwards cost is given, and the number of threads: no run measures them, and trees are the same however busy the
# machine is. A test of the measurement itself says "auto", and 0.
LOCALE = os.environ.get("LOGITSPEC_TEST_LOCALE", "C.UTF-8")
COSTS = "1:10,8:15,64:90"
ENV.update(LOGITSPEC_SET_DECODE__COSTS=COSTS, LOGITSPEC_SET_MODEL__THREADS="2", LANG=LOCALE, LC_ALL=LOCALE, XDG_CONFIG_HOME="/nonexistent", XDG_CACHE_HOME=os.path.join(BUILD, "tests", "cache"),
           XDG_STATE_HOME=tempfile.mkdtemp(prefix="logitspec-state-"))  # test programs run side by side
atexit.register(shutil.rmtree, ENV["XDG_STATE_HOME"], ignore_errors=True)
HAS_TORCH = os.path.exists(os.path.join(BUILD, "liblstorch.so"))
HAS_ENGINE = os.path.exists(MODEL) and "LOGITSPEC_TEST_WITHOUT_MODEL" not in os.environ
needs_model = unittest.skipUnless(HAS_ENGINE, "needs:model")


# what work that takes over two seconds writes where standard error is no terminal: a busy machine or a slow build
PROGRESS = re.compile(r"^(?:(?!logitspec: ).* \d+%|sorting|measuring the machine|warming up|reading .*)\n", re.MULTILINE)


def run(*args, **kw):
    """The program's end, status and texts; its standard error without lines of progress, unless progress=True."""
    kw.setdefault("timeout", 1200 if SANITIZED else 600) # a busy machine
    kw.setdefault("stdin", subprocess.DEVNULL)
    if "input" in kw:
        kw.pop("stdin")
    env, progress = dict(ENV, **kw.pop("env", {})), kw.pop("progress", False)
    r = subprocess.run([PROGRAM, *args], capture_output=True, text=True, env=env, **kw)
    if not progress:
        r.stderr = PROGRESS.sub("", r.stderr)
    return r


def cpu_levels():
    """The kernels' levels for this kind of processor, best first, as the program names them; this one may lack some."""
    checks = {c["check"]: c["detail"] for c in json.loads(run("doctor", "--json", env={"LOGITSPEC_CPU": "nonsense"}).stdout)}
    return re.search(r"is not a CPU level \((.*)\)", checks["compute"]).group(1).split(", ")


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def has_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def check(value, schema, root, where="line"):
    """The part of JSON Schema that our schemas use; raises AssertionError with the place."""
    if "$ref" in schema:
        check(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, where)
    if "oneOf" in schema:
        kinds = {root["$defs"][s["$ref"].rsplit("/", 1)[1]]["properties"]["type"]["const"]: s for s in schema["oneOf"]}
        assert value.get("type") in kinds, f"{where}: type {value.get('type')!r}"
        check(value, kinds[value["type"]], root, where)
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(has_type(value, n) for n in names), f"{where}: {value!r} is not {names}"
    if "const" in schema:
        assert value == schema["const"], f"{where}: {value!r}"
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r}"
    if "minimum" in schema and value is not None:
        assert value >= schema["minimum"], f"{where}: {value!r}"
    if isinstance(value, dict):
        for key in schema.get("required", []):
            assert key in value, f"{where}: no {key}"
        for key, v in value.items():
            part = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            assert part is not False, f"{where}: unexpected {key}"
            if part:
                check(v, part, root, f"{where}.{key}")
    if isinstance(value, list) and "items" in schema:
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 30), where
        for i, v in enumerate(value):
            check(v, schema["items"], root, f"{where}[{i}]")


@functools.lru_cache(maxsize=None)
def trace_schema():
    return json.loads(run("export", "--schema").stdout)


def read_trace(text):
    """Lines of a trace, each checked against the schema."""
    schema = trace_schema()
    lines = [json.loads(line) for line in text.splitlines()]
    for i, line in enumerate(lines):
        check(line, schema, schema, f"line {i + 1}")
    return lines


class Screen:
    """The program in a real pseudo-terminal (tmux): keys in, cells out."""

    number = itertools.count()  # a server that is going away must not be met again

    def __init__(self, *args, cols=80, rows=24, env=None, before=""):
        if not shutil.which("tmux"):
            raise unittest.SkipTest("needs:tmux")
        self.tmux = ["tmux", "-u", "-L", f"logitspec-test-{os.getpid()}-{next(Screen.number)}", "-f", "/dev/null"]
        e = dict(ENV, TERM="xterm-256color", **(env or {}))
        # (a shell such as dash would end with a Ctrl-C that was not for it; a program that was killed leaves a terminal where a
        # new line goes on in the same column, and a word could be cut at the edge)
        command = f"""trap : INT; {before} {PROGRAM} {' '.join(args)}; rc=$?
            printf '\\r\\nexit=%s echo=%s\\r\\n' $rc $(stty -a | grep -c -- '[^-]echo '); sleep 60"""
        subprocess.run(self.tmux + ["new-session", "-d", "-s", "s", "-x", str(cols), "-y", str(rows), command],
                       env=e, check=True, stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(self.tmux + ["kill-server"], capture_output=True, check=False)

    def keys(self, *names):
        """Each key, Escape with a pause behind it: else it and the next key are one, as with Alt (within 100 ms, or on a busy
        machine until the program reads)."""
        for name, group in itertools.groupby(names, lambda n: n == "Escape"):
            for part in [[n] for n in group] if name else [list(group)]:
                subprocess.run(self.tmux + ["send-keys", "-t", "s", *part], check=True)
                time.sleep(0.8 if name else 0)

    def send(self, data):
        """Bytes, just as they are."""
        subprocess.run(self.tmux + ["load-buffer", "-"], input=data, check=True)
        subprocess.run(self.tmux + ["paste-buffer", "-r", "-d", "-t", "s"], check=True)

    def type(self, text):
        subprocess.run(self.tmux + ["send-keys", "-t", "s", "-l", text], check=True)

    def paste(self, text):
        subprocess.run(self.tmux + ["set-buffer", text], check=True)
        subprocess.run(self.tmux + ["paste-buffer", "-p", "-t", "s"], check=True)

    def resize(self, cols, rows):
        subprocess.run(self.tmux + ["resize-window", "-t", "s", "-x", str(cols), "-y", str(rows)], check=True)

    def text(self, *flags):
        return subprocess.run(self.tmux + ["capture-pane", "-p", "-t", "s", *flags], capture_output=True, text=True,
                              check=True).stdout

    def wait(self, *words, absent=(), seconds=30):
        """Waits until every word is on the screen (and none of `absent`), else fails with what is there. What it returns was seen
        twice: a frame may be half written on a busy machine. A screen that never rests is taken as it is after a few looks."""
        end = time.monotonic() + seconds
        seen, looks = None, 0
        while True:
            now = self.text()
            if all(w in now for w in words) and not any(w in now for w in absent):
                looks += 1
                if now == seen or looks > 4:
                    return now
            elif time.monotonic() > end:
                raise AssertionError(f"not on the screen: {words} (absent: {absent})\n{now}")
            seen = now
            time.sleep(0.05 if not looks else 0.02)

    def signal(self, name):
        pid = subprocess.run(self.tmux + ["display-message", "-p", "-t", "s", "#{pane_pid}"], capture_output=True,
                             text=True, check=True).stdout.strip()
        subprocess.run(["pkill", f"-{name}", "-P", pid, "-f", "logitspec"], check=True)


class Folder(unittest.TestCase):
    """Tests with a folder of their own."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()
