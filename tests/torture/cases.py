"""What is tortured: for every command of the program some command lines, with what each writes and how that is compared."""
import hashlib
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET

SCRIPT = ["--model", "script"]
PROMPT = ["--prompt", "def fib(n):", "--max-tokens", "24", "--seed", "3"]
OLD = b"what was here before\n"
HISTORY = b'["an older prompt"]\n["another"]\n'

KEYS = """wait READY
type Retrieval
key Enter
wait 24 tokens
wait READY
key Esc
save screen.svg
key :
type save talk.jsonl
key Enter
wait talk.jsonl
key :
type load {t}
key Enter
wait a.jsonl
key p
type more
key Enter
wait READY
"""


# ---- comparing: each takes what is there and what a run without failures wrote, and returns what is wrong or None

def same(now, whole):
    return None if now == whole else "differs from what a run without the failure writes"


def shape(now, whole):
    """The same but for measured numbers, the bars drawn of them, the points of a cost curve, and what is not known of the
    machine and left out."""
    def bare(b):
        b = re.sub(rb'"costs":"[\d:.,]*"|,"(processor|load_before|load_after|waited)":("[^"]*"|[\d.]*)', b"", b)
        return re.sub(rb"[\s#|]+", b" ", re.sub(rb"(\d|nan|null|-|\.)[\d.e+-]*", b"#", b))
    return same(bare(now), bare(whole))


def words(now, whole):
    """The same words in the same order, whatever the numbers, times and settings between them are."""
    return same(re.findall(rb"[a-z_]{4,}", now), re.findall(rb"[a-z_]{4,}", whole))


def on_any_machine(comparison):
    """Where other programs had the processors meanwhile, a line or some words more say so."""
    more = rb"(?m)^(busy:|warning: the machine is busy).*\n|^note: the machine is busy \(.*\n|; the machine was busy(:| \().*$| The machine was busy: the forward took [^\n]*? rows?\."
    return lambda now, whole: comparison(*(re.sub(more, b"", text) for text in (now, whole)))


def some_lines(now, whole):
    return None if set(now.splitlines()) <= set(whole.splitlines()) else "has other lines than a run without the failure"


def apart_from(line):
    """The same but for the line that begins so: what cannot be listed is not offered."""
    return lambda now, whole: same(*([x for x in text.splitlines() if not x.strip().startswith(line.strip())] for text in (now, whole)))


def some_labels(now, whole):
    """Lines that begin alike: what a machine does not tell about itself is left out."""
    return some_lines(*(b"\n".join(x[:13] for x in text.splitlines()) for text in (now, whole)))


def checks(now, whole):
    """The same checks; why one fails may be said in other words."""
    return same([x["check"] for x in json.loads(now)], [x["check"] for x in json.loads(whole)]) if now else "is empty"


def trace(now, _):
    """Whole lines, from a header to an end."""
    try:
        lines = [json.loads(x) for x in now.decode().splitlines()]
    except ValueError as e:
        return f"a line is no JSON: {e}"
    kinds = [x["type"] for x in lines]
    if not now.endswith(b"\n") or not kinds or kinds[0] != "header" or kinds[-1] != "end":
        return "is not a whole trace"
    return None


def cast(now, _):
    try:
        lines = [json.loads(x) for x in now.decode().splitlines()]
    except ValueError as e:
        return f"a line is no JSON: {e}"
    return None if lines and lines[0]["version"] == 2 and lines[-1][2].endswith("\x1b[?25h") else "is not a whole film"


def svg(now, _):
    try:
        ET.fromstring(now)
    except ET.ParseError as e:
        return f"is no XML: {e}"
    return None


class Case:
    """One command line. `outputs`: file in the work folder -> comparison. `prints`: that of standard output.
    `prefix`: a run that failed may have printed a beginning; None: anything, since what is measured decides. `screen`: keys for a pseudo-terminal."""

    def __init__(self, name, args, outputs=None, prints=same, prefix=False, stdin=b"", screen=None, env=None, code=0, history=False):
        self.name, self.args, self.outputs = name, args, outputs or {}
        self.prints, self.prefix, self.stdin, self.screen = prints, prefix, stdin, screen
        self.env, self.code, self.history = env or {}, code, history

    @property
    def command(self):
        return self.args[0]


class Inputs:
    """Files that the cases read, made once."""

    def __init__(self, folder, program, root, env):
        self.folder, self.program, self.env = folder, program, env
        os.makedirs(folder)
        for name, method in (("a", "logitspec"), ("b", "plain")):
            self.run("generate", *SCRIPT, *PROMPT, "--max-rows", "8", "--method", method, "-q", "--trace", self.path(name + ".jsonl"))
        self.run("generate", *SCRIPT, *PROMPT, "-q", "--trace", self.path("a.jsonl.zst"))
        self.run("generate", *SCRIPT, *PROMPT[:2], "--max-tokens", "60", "--max-rows", "32", "-q", "--trace", self.path("wide.jsonl"))
        self.write("suite.jsonl", '{"prompt": "def fib(n):", "category": "code"}\n{"prompt": "One fish"}\n')
        self.write("prompt.txt", "One fish, two fish\n" * 9)
        self.write("system.yaml", "prompt: {system: be brief}\ndecode: {max_rows: 8}\n")
        self.write("leave.script", "wait REPLAY PAUSED\nkey s\nwait step 0\nkey s\nwait step 1\nkey c L\n")
        with open(self.path("a.jsonl"), encoding="utf-8") as f:
            self.write("watched.jsonl", '{"type": "request", "request": 1, "state": "done"}\n' + f.read())
        self.write("watch.script", "wait request 1 done\nkey [ Enter G q\n")
        self.write("demo.script", "key Enter\nkey Space s s\nkey q\n")
        os.makedirs(self.path("texts"))
        for i in range(3):
            self.write(f"texts/{i}.txt", "for i in range(10): print(i)\n" * 40)
        self.run("lab", *SCRIPT, "--suite", self.path("suite.jsonl"), "--methods", "pld", "--max-tokens", "2", "-q", "-o", self.path("lab"))
        self.run("corpus", "build", self.path("texts"), "--out", self.path("c.corpus"), *SCRIPT)
        self.model = os.path.join(root, "models", "smollm2-135m-instruct.Q4_1.gguf")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def run(self, *args):
        subprocess.run([self.program, *args], check=True, capture_output=True, env=self.env, stdin=subprocess.DEVNULL)

    def models(self, folder):
        """A folder of models as `models fetch` leaves it; in each run's own work folder, since it is changed."""
        place = os.path.join(folder, "o--m")
        os.makedirs(place)
        files = []
        for name, data in (("config.json", b"{}"), ("model.safetensors", bytes(70000))):
            path = os.path.join(place, name)
            with open(path, "wb") as f:
                f.write(data)
            files.append({"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mtime_ns": 1})
        with open(os.path.join(place, "logitspec.lock"), "w", encoding="utf-8") as f:
            json.dump({"repository": "o/m", "revision": "main", "commit": "a" * 40, "licence": None, "files": files,
                       "fetched": "2026-01-01T00:00:00Z"}, f)


def cases(i):
    """`i`: the inputs. Paths in arguments that hold {w} lie in the work folder of a run."""
    a, b, z, suite = (i.path(n) for n in ("a.jsonl", "b.jsonl", "a.jsonl.zst", "suite.jsonl"))
    keys = KEYS.replace("{t}", z)
    # the heavy frame of a panel: Esc was read alone (with a key right behind it, it is Alt)
    talk = [(None, b"Retrieval\r"), (rb"continues", b":save talk.jsonl\r"), (rb"talk", b"\x1b"), ("┏".encode(), b"q")]
    return [
        Case("chat-script", ["chat", *SCRIPT, "--max-tokens", "24", "--seed", "3", "--script", "{w}/keys", "--trace", "{w}/t.jsonl"],
             {"screen.svg": svg, "talk.jsonl": trace, "t.jsonl": trace}, history=True, env={"KEYS": keys}),
        Case("chat-film", ["chat", *SCRIPT, *PROMPT, "--cast", "{w}/x.cast", "--size", "80x24"], {"x.cast": cast}),
        Case("chat-screen", ["chat", *SCRIPT, "--max-tokens", "24", "--seed", "3"], {"talk.jsonl": trace}, screen=talk, history=True),
        Case("chat-plain", ["chat", "--plain", *SCRIPT, "--max-tokens", "12", "--max-rows", "1", "--trace", "{w}/t.jsonl"], {"t.jsonl": trace},
             on_any_machine(words), prefix=None, stdin=b"One fish\n\nmore\n"),
        Case("generate-text", ["generate", *SCRIPT, *PROMPT, "-q"], prefix=True),
        Case("generate-stats", ["generate", *SCRIPT, "--prompt-file", "{i}/prompt.txt", "--max-tokens", "24", "--config",
                                "{i}/system.yaml"], prefix=True),
        Case("generate-stdin", ["generate", *SCRIPT, "--prompt-file", "-", "--max-tokens", "24", "-q"], prefix=True, stdin=b"One fish\n" * 99),
        Case("generate-json", ["generate", *SCRIPT, *PROMPT, "--json", "--trace", "{w}/t.jsonl", "--max-rows", "8"], {"t.jsonl": trace}, shape),
        Case("generate-zst", ["generate", *SCRIPT, *PROMPT, "-q", "--trace", "{w}/t.jsonl.zst", "--method", "suffix"],
             {"t.jsonl.zst": None}, prefix=True),
        Case("generate-alt", ["generate", *SCRIPT, *PROMPT, "-q", "--alt", "2", "--max-rows", "8", "--costs", "1:1,8:2"], prefix=True),
        Case("generate-pipe", ["generate", *SCRIPT, *PROMPT, "-q", "--trace", "-"], prints=trace, prefix=True),
        Case("generate-corpus", ["generate", *SCRIPT, *PROMPT, "-q", "--method", "rest", "--set", "rest.corpus={i}/c.corpus"], prefix=True),
        Case("compare", ["compare", *SCRIPT, "--suite", suite, "--methods", "plain,pld", "--max-tokens", "16", "-q"], prints=on_any_machine(words), prefix=True),
        Case("compare-json", ["compare", *SCRIPT, *PROMPT, "--methods", "plain,pld", "--json", "-q"], prints=shape),
        Case("bench", ["bench", *SCRIPT, "-q", "-o", "{w}/b.csv"], {"b.csv": words}, on_any_machine(same)),
        Case("bench-json", ["bench", *SCRIPT, "-q", "--json"], prints=shape),
        Case("demo-list", ["demo"], prints=some_lines),
        Case("demo-text", ["demo", "copy"], prefix=True),
        Case("demo-script", ["demo", "copy", "--script", "{i}/demo.script"]),
        Case("replay-film", ["replay", a, "--speed", "max", "--cast", "{w}/x.cast"], {"x.cast": cast}),
        Case("replay-script", ["replay", a, b, "--paused", "--script", "{i}/leave.script"]),
        Case("replay-screen", ["replay", z, "--speed", "max"], screen=[(rb"ENDED", b"q")]),
        Case("inspect", ["inspect", a]),
        Case("inspect-step", ["inspect", z, "--step", "1-3"]),
        Case("diff", ["diff", a, b]),
        Case("report-html", ["report", a, b, "-o", "{w}/r.html", "-q"], {"r.html": same}),
        Case("report-md", ["report", a, z, "-o", "{w}/r.md", "-q"], {"r.md": same}),
        Case("report-json", ["report", a, "-o", "{w}/r.json", "-q"], {"r.json": same}),
        Case("report-svg", ["report", a, "-o", "{w}/r.svg", "-q"], {"r.svg": same}),
        Case("export-cast", ["export", a, "-o", "{w}/x.cast"], {"x.cast": same}),
        Case("export-svg", ["export", a, "-o", "{w}/x.svg"], {"x.svg": same}),
        Case("export-json", ["export", z, "-o", "{w}/x.json"], {"x.json": same}),
        Case("export-answers", ["export", a, b, "-o", "{w}/x.jsonl", "--suite", suite], {"x.jsonl": shape}),
        Case("simulate", ["simulate", a, "--methods", "pld,suffix", "-q"], prints=shape, prefix=True),
        Case("tune", ["tune", *SCRIPT, "--suite", suite, "--max-tokens", "12", "--methods", "pld", "--out", "{w}/t.yaml", "-q"],
             {"t.yaml": lambda now, _: None if b"\ndecode:\n" in b"\n" + now and now.endswith(b"\n") else "is not whole"},
             lambda now, _: None if b"fastest: " in now and b"use it: " in now else "does not say which is fastest", prefix=None),
        Case("tune-fit", ["tune", "--fit", "c2t", "{i}/wide.jsonl", "--out", "{w}/f.yaml", "-q"], {"f.yaml": same}, words, prefix=True),
        Case("lab", ["lab", "{i}/lab", "-o", "{w}", "-q"], {"index.html": same, "main.csv": same, "capacity.svg": same}),
        Case("corpus-build", ["corpus", "build", "{i}/texts", "--out", "{w}/c.corpus", *SCRIPT], {"c.corpus": same}, shape),
        Case("corpus-info", ["corpus", "info", "{i}/c.corpus"]),
        Case("tokenize", ["tokenize", *SCRIPT, "--prompt", "One fish", "--json"]),
        Case("serve", ["serve", *SCRIPT, "--key-file", "{i}/prompt.txt"], code=2),  # no line is a key
        Case("watch", ["watch", "{i}/watched.jsonl", "--script", "{i}/watch.script"]),
        Case("doctor", ["doctor", *SCRIPT, "--json"], prints=checks, env={"LOGITSPEC_LSTORCH": "/nowhere.so"}),
        Case("rank", ["rank"], env={"RANK": "1", "WORLD_SIZE": "2", "LOGITSPEC_RANKS_TOKEN": "x" * 16}, code=2),  # MASTER_ADDR is missing
        Case("help", ["help", "trace", "--as", "man"]),
        Case("completion", ["completion", "bash"], prints=apart_from(b" *,demo)")),
        Case("config", ["config", "show", "--config", "{i}/system.yaml"]),
        Case("models-list", ["models", "list", "--json"]),
        Case("models-info", ["models", "info", i.model], prints=some_labels, code=0 if os.path.exists(i.model) else 2),
        Case("models-verify", ["models", "verify", "o--m"]),
        Case("models-remove", ["models", "remove", "o--m", "--yes"], prints=lambda now, _: None if now.startswith(b"removed ") else "does not say what was removed"),
        Case("models-fetch", ["models", "fetch", "o--m"], code=2),
    ]
