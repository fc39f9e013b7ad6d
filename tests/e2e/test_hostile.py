"""Strangers' text never reaches a terminal, a page or a table raw: attack strings in every place of a trace, a model, a
configuration, a file name and an argument, through every command, into a pipe and onto a terminal. JSON and an answer
in a pipe stay as they are."""
import base64
import errno
import fcntl
import importlib.machinery
import importlib.util
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata
import unittest
import xml.etree.ElementTree as ET

from program import ENV, HAS_ENGINE, PROGRAM, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import tiny  # noqa: E402


def load_fetch():
    loader = importlib.machinery.SourceFileLoader("fetch", os.path.join(ROOT, "models", "fetch"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch", loader))
    loader.exec_module(module)
    return module


FETCH = load_fetch()
with open(os.path.join(ROOT, "tests", "vectors", "hostile.json"), encoding="utf-8") as corpus:
    ATTACKS = {name: bytes.fromhex(a["hex"]) if "hex" in a else a["text"].encode() for name, a in json.load(corpus).items()}
TEXTS = {name: a.decode() for name, a in ATTACKS.items() if b"\0" not in a and a.decode(errors="replace").encode() == a}
# what a file name or an argument can hold: no NUL
ARGUMENTS = {name: a for name, a in ATTACKS.items() if b"\0" not in a}


def bundles(attacks, most=60):
    """Several in a row, as much as the places of a trace and the quotes of a message have room for; a formula begins one."""
    out, name = {}, ""
    for key, a in attacks.items():
        if not name or len(out[name]) + len(a) > most or key == "formula":
            name = key
            out[name] = a[:0]
        out[name] += a
    return out


SOME_TEXTS, SOME_ARGUMENTS = bundles(TEXTS, 40), bundles(ARGUMENTS)
SCRIPT = ["--model", "script"]
# what this program itself sends beside text: a progress line, faint words, and on the screen what curses needs
OWN = re.compile(rb"\r\x1b\[K|\x1b\[2m|\x1b\[0m")
CURSES = re.compile(rb"\x1b\[\??[0-9;]{0,32}[A-HJKLMPSTXbdfghlmrt@`]|\x1b\[>[0-9;]*[a-z]|\x1b\][0-9]+;\?\x07|\x1b[()][0AB]|\x1b[78=>M]")


def forbidden(c, before):
    """By Unicode's own tables, so that a mistake of the filter is seen."""
    o = ord(c)
    if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or o in range(0xFDD0, 0xFDF0) or o & 0xFFFE == 0xFFFE:
        return True
    if c in "\u200c\u200d":  # joiners: behind what they join only
        return not before or before.isascii()
    if c == "\u180e":
        return not 0x1800 <= ord(before or "x") <= 0x18AF
    return unicodedata.category(c) == "Cf" and not 0x600 <= o <= 0x605 and o not in (0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD) \
        and not 0x13430 <= o <= 0x1343F


def any_of(points):
    """A regular expression of these characters, as ranges."""
    ranges = []
    for o in points:
        if ranges and ranges[-1][1] == o - 1:
            ranges[-1][1] = o
        else:
            ranges.append([o, o])
    return re.compile("[" + "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges) + "]")


SUSPECT = any_of(o for o in range(0x110000) if forbidden(chr(o), ""))  # to be looked at with what is before


def yaml_of(text):
    """A double-quoted string of YAML."""
    return '"' + "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text) + '"'


class Terminal:
    """The program on a pseudo-terminal of its own: standard input, output and errors."""

    def __init__(self, args, env, cols=120, rows=36):
        self.fd, other = pty.openpty()
        modes = termios.tcgetattr(other)
        modes[1] &= ~termios.OPOST  # as it was written
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(other, termios.TCSANOW, modes)
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.p = subprocess.Popen([PROGRAM, *args], stdin=other, stdout=other, stderr=other, env=env, start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(other)
        self.args, self.data = args, b""

    def read(self, until=None, seconds=60, redraw=False):
        """Reads to the end, or until that is on the terminal. redraw: a screen sends only what changes unless it is asked."""
        end = time.monotonic() + seconds
        while until is None or until not in self.data:
            if redraw and not select.select([self.fd], [], [], 0.3)[0]:
                self.keys("\x0c")
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0] or time.monotonic() > end:
                self.p.kill()
                raise AssertionError(f"not on the terminal: {until!r}, {self.args}\n{self.data[-2000:]!r}")
            try:
                got = os.read(self.fd, 65536)
            except OSError as e:
                if e.errno != errno.EIO:
                    raise
                got = b""
            if not got:
                assert until is None, f"ended without {until!r}: {self.data[-2000:]!r}"
                break
            self.data += got
        return self.data

    def keys(self, text):
        for part in re.split("(?<=\x1b)(?=[a-zA-Z\x03])", text):
            os.write(self.fd, part.encode())
            if part.endswith("\x1b"):
                time.sleep(0.15)  # a key right behind it would be another one, with Alt

    def close(self):
        try:
            self.read()
        finally:
            os.close(self.fd)
            self.code = self.p.wait(30)


class Hostile(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = os.path.realpath(tmp.name)
        self.env = dict(ENV, HOME=self.dir, XDG_CONFIG_HOME=self.path("config"), XDG_STATE_HOME=self.path("state"), TERM="xterm-256color",
                        LOGITSPEC_MODELS=self.path("models"), LOGITSPEC_SET_MODEL__NAME="script")
        self.runs = 0

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, data):
        path = os.path.join(os.fsencode(self.dir), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    # ---- what may not be there

    def clean(self, data, what, lines="\n\t"):
        """Strict UTF-8 in which every character shows itself."""
        try:
            text = data.decode()
        except UnicodeDecodeError as e:
            self.fail(f"{what}: {data[max(0, e.start - 40):e.end + 20]!r}")
        for m in SUSPECT.finditer(text):
            i, c = m.start(), m.group()
            if c not in lines and forbidden(c, text[i - 1:i]):
                self.fail(f"{what}: {ascii(c)} in {ascii(text[max(0, i - 60):i + 20])}")
        return text

    def clean_film(self, data, what, own=CURSES):
        """Of terminal output: what is left beside our own sequences."""
        self.assertNotRegex(data, rb"\x1b\[31337|\x1b\[[0-9;]*[nc]|\x1b\[20[01]~|\x1b\]52|\x1b\](0|8);|\x1bP", what)
        self.clean(own.sub(b"", data), what, "\n\t\r\b\x0f")

    def run_in(self, args, env=None, input=b""):
        self.runs += 1
        return subprocess.run([PROGRAM, *args], input=input, capture_output=True, env={**self.env, **(env or {})}, timeout=120, check=False)

    def piped(self, *args, codes=(0, 1, 2), env=None, input=b"", says=None):
        r = self.run_in(args, env, input)
        what = f"{args} in a pipe"
        self.assertIn(r.returncode, codes, (what, r.stderr))
        out, err = self.clean(r.stdout, what), self.clean(r.stderr, what + ", errors")
        for line in err.splitlines():  # a message is one line: no stranger begins another
            self.assertFalse(line.startswith("logitspec: all is well"), what)
        if says:
            self.assertIn(says, out + err, what)
        return out

    def on_terminal(self, *args, env=None):
        """A command that writes its lines and ends."""
        self.runs += 1
        t = Terminal(args, {**self.env, **(env or {})})
        t.keys("q\n")  # where one is asked (a demo's number): none
        t.close()
        self.assertIn(t.code, (0, 1, 2), (args, t.data))
        self.clean(OWN.sub(b"", t.data), f"{args} on a terminal")
        return OWN.sub(b"", t.data)

    def both(self, *args, env=None, says=None):
        out = self.piped(*args, env=env, says=says)
        self.on_terminal(*args, env=env)
        return out

    def screen(self, *args, keys=(), env=None, until=b"\x1b[?2004h"):
        """The screen: keys are (what to wait for, what to press)."""
        self.runs += 1
        t = Terminal(args, {**self.env, **(env or {})})
        t.read(until)
        film = b""
        for wait, press in keys:
            t.read(wait, redraw=True)
            film, t.data = film + t.data, b""
            t.keys(press)
        t.keys("\x03\x03")
        t.close()
        self.clean_film(film + t.data, args)

    def artefact(self, path, kind):
        with open(path, "rb") as f:
            data = f.read()
        os.remove(path)
        if kind == "cast":
            text = self.clean(data, path)  # as JSON it holds no ESC
            head, *events = [json.loads(line) for line in text.splitlines()]
            self.clean(head["title"].encode(), path, "")
            self.assertTrue(events)
            for e in events:
                self.clean_film(e[2].encode(), path)
        elif kind == "ansi":
            self.clean_film(data, path)
        else:
            text = self.clean(data, path, "\r\n\t" if kind == "csv" else "\n\t")
            if kind == "svg":
                ET.fromstring(text)
            if kind in ("html", "svg", "md"):
                self.assertNotIn("<script", text)
            if kind == "csv":
                self.assertFalse(re.search(r'(^|,)"?[=+@]', text, re.M), text[:300])
            return text

    # ---- traces with attacks in every place

    def trace(self, name, tokens, text, spread=1, method="logitspec"):
        """A recording of the scripted model: tokens[i % n] in place of its bytes, text in place of every string."""
        if not hasattr(self, "recorded"):
            r = self.run_in(["generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "40", "--max-rows", "8", "--seed", "3", "--method",
                             "logitspec-paper", "--trace", "-"])
            self.recorded = [json.loads(line) for line in r.stdout.splitlines()]
        out = []
        for line in json.loads(json.dumps(self.recorded)):
            if line["type"] == "tokens":
                line["special"] = [i for i in line["special"] if i % 2]
                line["bytes"] = {k: base64.b64encode(tokens[int(k) * spread % len(tokens)]).decode() for k in line["bytes"]}
            if line["type"] == "header":
                line["program"] = text
                line["model"].update(name=text, sha256=text)
                line["backend"].update(device=text, dtype=text, kernel=text, version=text)
                line["prompt_text"] = text * 3
                line["method"] = text if method is None else method
                line["config"] = {text: text, **{k: text for k in line["config"] if not k.startswith("decode.")}, "decode.sizing": text,
                                  "decode.temperature": text, **{f"{text}.x": text}}
            out.append(json.dumps(line))
        return self.write(name, "\n".join(out) + "\n")

    def use_trace(self, a, b, run):
        """All that reads recordings, on two of them."""
        run("inspect", a, "--step", "0-9")
        run("inspect", a, "--ascii", "--step", "3")
        run("diff", a, b)
        run("simulate", a, "--methods", "plain,pld")
        run("simulate", b, "--methods", "pld:4")
        for form in ("html", "md", "csv", "svg", "json"):
            run("report", a, b, "-o", self.path("o." + form), "--step", "0-3")
            text = self.artefact(self.path("o." + form), form)
            if form == "json":
                yield json.loads(text)
        for form in ("cast", "json", "jsonl"):
            run("export", a, "-o", self.path("e." + form))
            text = self.artefact(self.path("e." + form), form)
            if form == "jsonl":
                yield [json.loads(line) for line in text.splitlines()]

    def test_every_place_of_a_trace(self):
        others = [a for name, a in ATTACKS.items() if name not in TEXTS]
        for name, text in SOME_TEXTS.items():
            with self.subTest(name):
                attack = text.encode()
                a = self.trace("a.jsonl", [attack, b"x", b"\n", attack + b" " + attack], text, method=None)
                b = self.trace("b.jsonl", [b"y", attack, *others], text + "2", method=None)
                report, answers = self.use_trace(a, b, self.piped)
                # JSON says what the trace said; header fields have room for so many bytes
                model = report["groups"][0]["model"]
                self.assertTrue(model and text.startswith(model.rstrip("\ufffd")), (model, text))  # cut off within a character
                self.assertIn(text, "".join(answers[0]["choices"][0]["turns"]))
                self.assertEqual(json.loads(self.piped("simulate", a, "--methods", "plain", "--json"))["model"], model)

    def test_on_a_terminal_and_in_the_words_for_it(self):
        a = self.trace("a.jsonl", list(ATTACKS.values()), "".join(TEXTS.values()), 7, method=None)
        b = self.trace("b.jsonl", list(ATTACKS.values()), "".join(reversed(TEXTS.values())), 3)
        list(self.use_trace(a, b, self.on_terminal))
        out = self.piped("inspect", a, "--step", "0-9", codes=(0,))
        for sign in ("^[", "<U+009B>", "<U+202A>", "^M"):
            self.assertIn(sign, out)

    def test_every_recording_on_the_screen(self):
        a = os.fsdecode(self.trace("a.jsonl", list(ATTACKS.values()), "".join(TEXTS.values()), 7, method=None))
        b = os.fsdecode(self.trace("b.jsonl", list(ATTACKS.values()), "\x1b]0;PWNED\x07\u061c\u202e", 3))
        play = [(b"(MAT)", "g"), (b"history", "4z"), (b"4 Tree", "z2i"), (b"6 Inspect", "L"), (b"L closes", "L\x1b")]
        for args in ([a], [b, a]):
            self.screen("replay", *args, "--speed", "max", keys=play)
        self.piped("replay", b, "--speed", "max", "--cast", self.path("r.cast"), codes=(0,))
        self.artefact(self.path("r.cast"), "cast")
        keys = self.write("keys", "wait ENDED\nkey g\n" + "".join(f"key {k}\nsave {self.dir}/{n}.{form}\n" for n, k in enumerate("24i]]zt")
                                                                 for form in ("txt", "svg", "ansi")))
        for flags in ([], ["--ascii"]):
            self.piped("replay", b, "--speed", "max", "--script", keys, "--size", "200x50", *flags, codes=(0,))
            for n in range(7):
                for form in ("txt", "svg", "ansi"):
                    self.artefact(self.path(f"{n}.{form}"), form)

    def test_every_code_point(self):
        """The program and models/fetch have one rule: what a demo without a terminal says is what `shown` says."""
        planes = [*range(1, 0x20000), *range(0x20000, 0xE0000, 251), *range(0xE0000, 0xE1100), *range(0xF0000, 0x110000, 251)]
        points = [c for c in {*planes, *(p << 16 | n for p in range(17) for n in (0xFFFE, 0xFFFF))}
                  if not 0xD800 <= c < 0xE000 and c not in (9, 10)]
        # behind a letter, an ideograph, a picture, a letter that joins, and itself
        text = "".join(f"a{chr(c)}{chr(c)}" for c in points) + "".join(
            base + chr(c) + chr(c) for base in "葛👩म\u1820,\u200d" for c in [*range(0x180B, 0x1810), *range(0x200B, 0x2070), *range(0xFE00, 0xFE10), 0xE0100])
        chunks = [text[i:i + 20000].encode() for i in range(0, len(text), 20000)]
        self.trace("x.jsonl", [b"."], "x")
        lines = json.loads(json.dumps(self.recorded))
        steps = [x for x in lines if x["type"] == "step"]
        emitted = [t for s in steps for t in s["emitted"]]
        order = list(dict.fromkeys(emitted))
        share = -(-len(chunks) // len(order))
        spelled = {t: b"".join(chunks[i * share:(i + 1) * share]) for i, t in enumerate(order)}
        for x in lines:
            if x["type"] == "tokens":
                x["bytes"] = {k: base64.b64encode(spelled.get(int(k), b".")).decode() for k in x["bytes"]}
                x["special"] = []
        self.write("traces/all.jsonl.zst", "\n".join(map(json.dumps, lines)) + "\n")
        self.write("all.yaml", "title: All\nprompt: p\nnotes:\n  - {when: start, say: before}\n")
        out = self.piped("demo", self.path("all.yaml"), codes=(0,))
        want = FETCH.shown("".join(spelled[t].decode() for t in emitted))
        got = out.partition("before\n\n")[2].rpartition("\n\n# ")[0]
        self.assertEqual(len(got), len(want))
        at = next((i for i, (x, y) in enumerate(zip(got, want)) if x != y), None)
        self.assertIsNone(at, at is not None and (ascii(got[at - 20:at + 20]), ascii(want[at - 20:at + 20])))
        self.assertEqual(FETCH.shown("\udc9bx\udcff"), "<9B>x<FF>")

    # ---- arguments, names of files, configurations

    def test_every_command_with_hostile_arguments(self):
        """The commands are those of the program's own help: a new one must be given its places here."""
        listed = re.findall(r"(?m)^  (\S+) +\S", self.piped("--help", codes=(0,)).partition("Commands:")[2].partition("\n\n")[0])
        self.assertGreater(len(listed), 15)
        # what each takes beside flags; {} is the attack
        places = {
            "chat": [["--script", "{}"], ["--model", "{}", "--script", self.write("none", "wait FAILED\n")], ["--size", "{}", "--cast", "x"]],
            "generate": [["--prompt-file", "{}"], ["--model", "{}", "--prompt", "x"], ["--alt", "{}", "--prompt", "x"],
                         [*SCRIPT, "--prompt", "x", "--trace", "/nowhere/{}"], [*SCRIPT, "--prompt", "x", "--template", "{}"],
                         [*SCRIPT, "--prompt", "{}", "--max-tokens", "5"], [*SCRIPT, "--prompt", "{}", "--max-tokens", "5", "--alt", "2"]],
            "compare": [["--suite", "{}"], [*SCRIPT, "--prompt", "x", "--methods", "{}"], [*SCRIPT, "--prompt", "x", "--methods", "plain,pld+{}=1"]],
            "bench": [["-o", "{}"], ["--model", "{}"]],
            "demo": [["{}"], ["{}.yaml"]],
            "replay": [["{}", "--cast", "x"], ["/nowhere/{}", "x", "--cast", "x"]],
            "inspect": [["{}"], ["{}", "--step", "{}"]],
            "diff": [["{}", "{}"]],
            "report": [["{}", "-o", "x.html"], ["x", "-o", "{}"]],
            "export": [["{}", "-o", "x.cast"], ["x", "-o", "{}"], ["{}", "--suite", "{}", "-o", "x.jsonl"]],
            "simulate": [["{}"], ["x", "--methods", "{}"]],
            "tune": [["--suite", "{}"], [*SCRIPT, "--prompt", "x", "--methods", "{}"], ["--fit", "{}", "x"], ["--fit", "c2t", "{}"], ["{}"]],
            "lab": [["{}"], ["--suite", "{}", "-o", "x"], ["x", "-o", "/nowhere/{}"],
                    [*SCRIPT, "--suite", self.write("suite.jsonl", '{"prompt": "x"}\n'), "-o", "/nowhere/{}", "--methods", "plain,{}"]],
            "corpus": [["{}"], ["info", "{}"], ["build", "{}", "--out", "x", *SCRIPT], ["build", self.dir, "--out", "/nowhere/{}", *SCRIPT]],
            "tokenize": [["--model", "{}", "--prompt", "x"], [*SCRIPT, "--prompt", "{}"], [*SCRIPT, "--prompt", "{}", "--json"]],
            "serve": [["--model", "{}"], [*SCRIPT, "--listen", "{}"], [*SCRIPT, "--key-file", "{}"]],
            "watch": [["{}"], ["http://127.0.0.1:1/{}"], ["x", "--key-file", "{}"]],
            "models": [["{}"], ["info", "{}"], ["fetch", "{}"], ["verify", "{}"], ["remove", "{}"], ["info", "{}", "--json"]],
            "doctor": [["--model", "{}"], ["--model", "{}", "--json"], ["--devices", "{}"]], "rank": [["{}"]],
            "completion": [["{}"]], "help": [["{}"], ["keys", "--as", "{}"]],
            "config": [["{}"], ["show", "--system", "{}"], ["show", "--model", "{}"], ["show", "--config", "{}"]],
        }
        self.assertEqual(sorted(places), sorted(listed), "each command of --help has its attacks here")
        every = [["{}"], ["--{}"], ["--set", "{}"], ["--set", "{}=1"], ["--set", "decode.method={}"], ["--set", "decode.sizing={}"],
                 ["--set", "ui.keys={}"], ["--config", "{}"]]
        everything = b"".join(ARGUMENTS.values())
        for command in listed:
            # a server that does not use its keys would run for ever
            for words in places[command] + [w for w in every if (command, w[-1]) != ("serve", "ui.keys={}")]:
                with self.subTest(command=command, words=words):
                    def put(attack):
                        return [command, *(os.fsencode(w).replace(b"{}", attack) for w in words)]
                    self.on_terminal(*put(everything))
                    one_by_one = words in places[command][:2] and command != "doctor"  # which loads libtorch each time
                    for attack in SOME_ARGUMENTS.values() if one_by_one else [everything]:
                        self.piped(*put(attack))
        self.both(everything)
        self.both("--" + TEXTS["title"])
        for variable in (b"LOGITSPEC_SET_" + everything.replace(b"=", b""), b"LOGITSPEC_SET_DECODE__METHOD", b"LOGITSPEC_SET_UI__COLORS"):
            self.both("chat", "--prompt", "x", env={variable: everything})
        self.both("doctor", *SCRIPT, env={"TERM": TEXTS["title"], "XDG_CONFIG_HOME": "/" + TEXTS["override"], "XDG_CACHE_HOME": "/" + TEXTS["clear"]})

    def test_names_of_files(self):
        trace = self.trace("t.jsonl", [b"x"], "x")
        for name, attack in SOME_ARGUMENTS.items():
            attack = attack.replace(b"/", b"|")
            with self.subTest(name):
                here = os.path.join(os.fsencode(self.dir), attack + b".jsonl")
                shutil.copy(trace, here)
                for _ in self.use_trace(here, trace, self.piped):
                    pass
                out = os.path.join(os.fsencode(self.dir), attack + b".md")
                self.piped("report", here, "-o", out, codes=(0,))
                self.artefact(out, "md")
                with open(here, "ab") as f:
                    f.write(b'{"type":')  # cut short: a warning with the name
                self.piped("diff", here, here)
                self.write(attack + b".txt", "a text\n")
                self.piped("corpus", "build", os.fsencode(self.dir), "--out", os.path.join(os.fsencode(self.dir), attack + b".corpus"), *SCRIPT)

    def test_configurations(self):
        for name, text in SOME_TEXTS.items():
            quoted = yaml_of(text)
            with self.subTest(name):
                for yaml in (f"{quoted}: 1\n", f"decode:\n  {quoted}: 1\n", f"decode:\n  method: {quoted}\n", f"model:\n  name: {quoted}\n",
                             f"ui:\n  keys: [{quoted}]\n", f"ui:\n  colors: [{quoted}]\n", f"decode:\n  sizing: {quoted}\n", f"decode:\n  max_rows: {quoted}\n",
                             f"prompt:\n  system: {quoted}\n", f"decode: {quoted}\n", f"- {quoted}\n", text, f"# {text}\n\t: ["):
                    path = self.write("c.yaml", yaml.encode())
                    self.piped("config", "show", "--config", path)
                    self.piped("chat", "--config", path, *SCRIPT, "--script", self.write("none", "key Esc\n"))
                path = self.write("d.yaml", f"title: {quoted}\npace: 0\nabout: {quoted}\nprompt: {yaml_of('p' + text)}\nsettings:\n  model: {{name: script}}\n"
                                            f"notes:\n  - {{when: start, say: {yaml_of('s' + text)}}}\n")
                self.piped("demo", path)
                self.piped("demo", self.write("d.yaml", f"title: x\n{quoted}: {quoted}\n"))
                suite = self.write("suite.jsonl", "".join(json.dumps({"id": text + str(i), "category": text + str(i % 2), "prompt": "p" + text}) + "\n"
                                                          for i in range(2)))
                self.piped("compare", *SCRIPT, "--suite", suite, "--methods", "plain,pld", "--max-tokens", "4", codes=(0,))
                runs = json.loads(self.piped("compare", *SCRIPT, "--suite", suite, "--methods", "plain,pld", "--max-tokens", "4", "--json", codes=(0,)))["runs"]
                self.assertEqual(runs[0]["category"], text + "0")
        self.on_terminal("compare", *SCRIPT, "--suite", suite, "--methods", "plain,pld", "--max-tokens", "4")
        everything = yaml_of("".join(TEXTS.values()))
        path = self.write("d.yaml", f"title: {everything}\npace: 0\nprompt: {everything}\nsettings:\n  model: {{name: script}}\nnotes:\n"
                                    f"  - {{when: start, say: {everything}}}\n")
        self.piped("demo", path, "--cast", self.path("d.cast"), codes=(0,))
        self.artefact(self.path("d.cast"), "cast")
        path = self.write("d.yaml", "title: x\nprompt: x\nsettings:\n  model: {name: script}\nnotes:\n" + "".join(
            f"  - {{when: start, say: {yaml_of('s' + t)}}}\n" for t in TEXTS.values()))
        self.screen("demo", path, keys=[(b"Enter: next", "\r"), (b"Enter: next", "\r"), (b"Enter: next", "\r")])

    def test_a_corpus_file(self):
        path = self.path("x.corpus")
        self.write("text", "one two three " * 50)
        self.piped("corpus", "build", self.path("text"), "--out", path, *SCRIPT, codes=(0,))
        with open(path, "rb") as f:
            data = f.read()
        self.assertIn(b"script\0", data[:512])
        for attack in (b"\x1b]0;P\x07", b"\xe2\x80\xaexyz", b"\xc2\x9b31m\xff"):
            at = data.index(b"script\0")
            with open(path, "wb") as f:
                f.write(data[:at] + attack + data[at + len(attack):])
            self.both("corpus", "info", path)
            self.both("generate", *SCRIPT, "--prompt", "x", "--max-tokens", "4", "--method", "rest", "--set", f"rest.corpus={path}")

    # ---- models

    def gguf(self, **meta):
        tiny.write_gguf_file(self.path("m.gguf"), meta, [(f"blk.0.{meta.get('tensor', 'x')}", (32,), [0.0] * 32, tiny.F32)])
        return self.path("m.gguf")

    def test_model_files(self):
        commands = [["generate", "--prompt", "x"], ["tokenize", "--prompt", "x"], ["models", "info"], ["doctor"], ["corpus", "build", self.dir, "--out", self.path("c")],
                    ["bench"], ["compare", "--prompt", "x"], ["tune", "--prompt", "x"], ["chat", "--script", os.fsdecode(self.write("none", "wait FAILED\n"))]]

        def use(path, commands=commands[2:3]):
            for c in commands:
                self.piped(*c, *([path] if c[0] == "models" else ["--model", path]))

        with open(os.path.join(ROOT, "tests", "vectors", "tokenizers", "smollm.json"), encoding="utf-8") as f:
            good = json.load(f)
        for name, text in SOME_TEXTS.items():
            with self.subTest(name):
                use(self.gguf(**{"general.architecture": text}))
                use(self.gguf(**{"general.architecture": "llama", text: text}))
                whole = tiny.metadata("llama2")
                use(self.gguf(**whole, tensor=text))
                use(self.gguf(**whole, **{"tokenizer.ggml.model": text}))
                use(self.gguf(**whole, **{"llama.rope.scaling.type": text}))
                os.makedirs(self.path("folder"), exist_ok=True)
                for config in ({"model_type": text}, {"model_type": "llama", text: text}, {**tiny.config_of("llama2"), "hidden_act": text},
                               {**tiny.config_of("llama2"), "rope_scaling": {"rope_type": text, "factor": 2.0}}):
                    self.write("folder/config.json", json.dumps(config))
                    use(self.path("folder"))
                self.write("folder/config.json", json.dumps(tiny.config_of("llama2")))
                self.write("folder/model.safetensors.index.json", json.dumps({"weight_map": {text: text + ".safetensors"}}))
                use(self.path("folder"))
                self.write("folder/model.safetensors.index.json", '{"weight_map": {"' + text)
                use(self.path("folder"))
                os.remove(self.path("folder/model.safetensors.index.json"))
                tiny.write_folder(self.path("folder"), "llama2", tiny.tensors_of("llama2") if name == next(iter(SOME_TEXTS)) else [(text, (32, 32), [0.0] * 1024)])
                for change in ({"model": {**good["model"], "type": text}}, {"pre_tokenizer": {"type": text}}, {"normalizer": {"type": text}}, {"decoder": {"type": text}},
                               {"model": {**good["model"], "merges": [text]}}, {"added_tokens": [{"id": 5, "content": text, "special": True}]}):
                    self.write("folder/tokenizer.json", json.dumps({**good, **change}))
                    self.write("folder/chat_template.jinja", "{{ " + text + " }}" + text)
                    use(self.path("folder"))
                self.write("folder/tokenizer.json", '{"' + text)
                use(self.path("folder"), commands)
                shutil.rmtree(self.path("folder"))
        self.on_terminal("generate", "--prompt", "x", "--model", self.gguf(**{"general.architecture": "".join(TEXTS.values())}))
        self.screen("chat", "--model", self.gguf(**{"general.architecture": "".join(TEXTS.values())}), keys=[(b"FAILED", "\x1bL")])

    def test_registries_and_locks(self):
        for name, text in SOME_TEXTS.items():
            quoted = yaml_of(text)
            with self.subTest(name):
                for entry in (f"{quoted}: {{from: huggingface, repository: o/m}}", f"x: {{from: huggingface, repository: o/m, what: {quoted}}}",
                              f"x: {{from: huggingface, repository: {quoted}}}", f"x: {{from: {quoted}}}", f"x: {{{quoted}: y}}",
                              f"x: {{from: path, path: {quoted}, what: w}}"):
                    self.write("config/logitspec/models.yaml", entry + "\n")
                    for command in (["list"], ["info", "x"], ["fetch", "x"], ["verify"], ["remove", "x", "--yes"], ["list", "--json"]):
                        self.piped("models", *command, env={"HF_ENDPOINT": "http://127.0.0.1:9", "PATH": "/nonexistent"})
                os.remove(self.path("config/logitspec/models.yaml"))
                lock = {"format": 1, "from": "huggingface", "repository": "o/m", "revision": "main", "wanted": [], "commit": "a" * 40, "licence": "x",
                        "fetched": "now", "files": [{"name": "config.json", "size": 2, "sha256": "b" * 64, "mtime_ns": 1}]}
                for key in ("from", "repository", "revision", "commit", "licence", "fetched", "file"):
                    x = json.loads(json.dumps(lock))
                    if key == "file":
                        x["files"][0]["name"] = text
                    else:
                        x[key] = text
                    self.write("models/o--m/logitspec.lock", json.dumps(x))
                    for command in (["list"], ["info", "hf:o/m"], ["verify"], ["list", "--json"]):
                        self.piped("models", *command)
        for text in TEXTS.values():
            if FETCH.shown(text) != text:  # a name that does not show what it is
                self.assertFalse(FETCH.safe(text.replace("/", "")), text)
        self.assertTrue(FETCH.safe("مدل‌ها.json"))
        self.assertTrue(FETCH.safe("déjà vu/模型.safetensors"))

    # ---- an answer

    @unittest.skipUnless(HAS_ENGINE, "needs:model")
    def test_an_answer_is_exact_in_a_pipe_and_visible_on_a_terminal(self):
        tiny.BASE["vocab_size"] = 832
        tiny.write_folder(self.path("m"), "qwen3", tiny.tensors_of("qwen3"))
        tiny.BASE["vocab_size"] = tiny.VOCAB
        with open(os.path.join(ROOT, "tests", "vectors", "tokenizers", "smollm.json"), encoding="utf-8") as f:
            tokenizer = json.load(f)
        first = max([*tokenizer["model"]["vocab"].values(), *(a["id"] for a in tokenizer["added_tokens"])]) + 1
        pieces = [*TEXTS.values(), "👩\u200d💻", "م\u200cی", "é"]
        tokenizer["added_tokens"] += [{"id": first + i, "content": t, "special": False, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
                                      for i, t in enumerate(pieces)]
        self.write("m/tokenizer.json", json.dumps(tokenizer))
        self.write("m/tokenizer_config.json", '{"eos_token": null}')
        args = ["generate", "--model", self.path("m"), "--prompt", "x", "--raw", "--temperature", "100", "--seed", "5", "--max-tokens", "400", "-q"]
        exact = self.run_in([*args, "--json"])
        self.clean(exact.stdout, "JSON")
        text = json.loads(exact.stdout)["text"]
        self.assertGreater(sum(t in text for t in pieces), len(pieces) // 2)
        plain = self.run_in(args)
        self.assertEqual((plain.returncode, plain.stdout), (0, text.encode() + b"\n"))
        self.assertIn(b"\x1b", plain.stdout)
        on_terminal = self.on_terminal(*args).decode()
        self.assertEqual(on_terminal, "\n".join("\t".join(map(FETCH.shown, line.split("\t"))) for line in text.split("\n")) + "\n")
        self.piped(*args, "--alt", "3")
        for more in (["--alt", "3"], ["--trace", self.path("t.jsonl")]):
            self.run_in([*args, *more])
            self.on_terminal(*args, *more)
        for _ in self.use_trace(self.path("t.jsonl"), self.path("t.jsonl"), self.piped):
            pass
        self.screen("chat", *args[1:-1], keys=[(b"400 tokens", "\x1bg"), (b"behind", "4zi")])
        tokens = json.loads(self.piped("tokenize", "--model", self.path("m"), "--prompt", "".join(pieces), "--json", codes=(0,)))["tokens"]
        self.assertEqual("".join(tokens), "".join(pieces))
        self.both("tokenize", "--model", self.path("m"), "--prompt", "".join(pieces))
        self.both("generate", "--model", self.path("m"), "--prompt", "x", "--max-tokens", "3", "--template", self.write("t.jinja", "{{ raise_exception('" + TEXTS["title"] + "') }}"))


if __name__ == "__main__":
    unittest.main()
