#!/usr/bin/env python3
"""A seeded random user on the real screen.

    tests/e2e/soak.py [--seed N] [--minutes M] [--model script:1|default|...]

He prompts, cancels, resizes, changes settings, edits earlier prompts, asks what if and keeps it, saves, loads, compares and
opens every panel, with short and long contexts, and with templates that rewrite what the model thought. Beside
him a shadow of the conversation is kept from what he did and from the recorded trace, and after every turn, save and load
it must be what the program has. Now and then the whole conversation is decoded again by a second program, plainly and
without a break, and must give the same tokens. Memory and descriptors may not grow. A failure prints the seed and the
last actions; the same seed repeats the same actions, though not their times.
"""
import argparse
import collections
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from program import ENV, PROGRAM, ROOT, SANITIZED, Screen

WORDS = ("def fib(n):", "One fish, two", "Retrieval finds what", "A draft is", "red cats", "for i in range(10):", "hello",
         "the end", "日本語", "naïve café", "List three colours.", "What is 2 + 2?", "🐟🐟", "<|im_end|>", "e\u0301 \u200b x")
METHODS = ("plain", "logitspec", "logitspec-paper", "pld", "suffix", "recycle", "cacheback", "lookahead", "logit-only",
           "retrieval-only")
PANEL_KEYS = ("1 2 3 4 5 6 7 Tab BTab z i t B ~ m M T g G { } ( ) ! w b j k h l o O n N PgUp PgDn Home End F7 F8 Up Down Left "
              "Right").split()
SIZES = ((80, 24), (100, 30), (120, 36), (200, 50), (250, 70), (79, 23), (20, 5), (1, 1))
THINKING = ("qwen3", "deepseek-r1", "granite-3.3")  # templates
LONGEST = 60  # tokens of an answer at most
SLACK_KB = 2048  # that allocators may keep beyond what was seen while warming up


class Failure(AssertionError):
    pass


class Turn:
    """What one turn of the conversation must be."""

    def __init__(self, header, prompt):
        self.prompt, self.ids, self.begun = prompt, header["prompt_ids"], header.get("begun_tokens", 0)
        self.options = {k: header["config"][k] for k in ("decode.temperature", "decode.top_p")}
        self.options["decode.seed"] = header["seed"]
        self.tokens, self.steps, self.end, self.kept = [], 0, None, []

    def add(self, step):
        self.tokens += step["emitted"]
        self.steps += 1
        self.kept = self.tokens[:-1] if step["finish"] == "eos" else self.tokens

    def same(self, other):
        return (self.prompt, self.ids, self.tokens, self.steps, self.end) == (
            other.prompt, other.ids, other.tokens, other.steps, other.end)

    def __repr__(self):
        return f"<{self.prompt!r}: {len(self.ids)} ids, {len(self.tokens)} tokens in {self.steps} steps, {self.end}>"


def read_conversation(path):
    """The turns of a saved file, which holds one conversation: its turns once each, in order."""
    turns = []
    with open(path, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            line = json.loads(text)
            kind = line["type"]
            if kind == "header":
                if line["turn"] != len(turns):
                    raise Failure(f"{path}:{number}: turn {line['turn']} stands where turn {len(turns)} was to be")
                turns.append(Turn(line, line["prompt_text"]))
            elif kind in ("step", "end"):
                if line["turn"] != len(turns) - 1:
                    raise Failure(f"{path}:{number}: a {kind} of turn {line['turn']} within turn {len(turns) - 1}")
                if kind == "step":
                    turns[-1].add(line)
                else:
                    turns[-1].end = line["reason"]
    return turns


class Follower:
    """Reads the trace that the program writes, as it grows."""

    def __init__(self, path):
        self.path, self.at, self.rest, self.waiting = path, 0, b"", collections.deque()

    def lines(self):
        """Those that came since; what the caller leaves is there the next time."""
        if os.path.exists(self.path):
            with open(self.path, "rb") as f:
                f.seek(self.at)
                data = f.read()
            self.at += len(data)
            whole, _, self.rest = (self.rest + data).rpartition(b"\n")
            self.waiting.extend(whole.splitlines())
        while self.waiting:
            yield json.loads(self.waiting.popleft())


class User:
    def __init__(self, seed, model, folder):
        self.seed, self.model, self.folder = seed, model, folder
        self.rng = random.Random(seed)
        self.actions, self.counts = [], {}
        self.turns, self.files = [], {}
        self.number = 0
        self.settings = {}
        self.usage = []  # (KB, descriptors) after each new conversation
        self.room = True  # the context has not been full
        self.tokens = self.mirrored = self.went_on = 0
        env = {"XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder, "VISUAL": "sed -i s/kept/done/",
               "ASAN_OPTIONS": f"log_path={folder}/asan:quarantine_size_mb=4", "UBSAN_OPTIONS": f"log_path={folder}/ubsan",
               # so that memory that was freed is given back, and what is used shows
               "MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}
        self.env = env
        shutil.copytree(ENV["XDG_CACHE_HOME"], folder, dirs_exist_ok=True) if os.path.isdir(ENV["XDG_CACHE_HOME"]) else None
        # few remembered choices and a short history, so that what is bounded reaches its bound while warming up
        self.args = ["--model", model, "--max-tokens", str(LONGEST), "--set", "logitspec.memory=1"]
        template = self.rng.choice((None, *THINKING))
        if template:
            self.args += ["--template", os.path.join(ROOT, "tests", "vectors", "chat", template + ".jinja")]
        if self.rng.random() < 0.4:
            self.args += ["--context", "700"]
        self.trace = Follower(os.path.join(folder, "trace.jsonl"))
        self.screen = Screen(*self.args, "--trace", self.trace.path, cols=120, rows=36, env=env, before=f"cd {folder};")
        self.screen.wait("READY", seconds=120)
        pane = subprocess.run(self.screen.tmux + ["display-message", "-p", "-t", "s", "#{pane_pid}"], capture_output=True,
                              text=True, check=True).stdout.strip()
        with open(f"/proc/{pane}/task/{pane}/children", encoding="utf-8") as f:
            self.pid = int(f.read().split()[0])

    # ---- hands

    def note(self, text):
        self.actions.append(text)
        word = text.split(" ", 1)[0]
        self.counts[word] = self.counts.get(word, 0) + 1

    def name(self):
        self.number += 1
        return f"f{self.number}"

    def panels(self):
        """Whatever is open or half typed is left; a panel has the keys."""
        self.screen.keys(*["Escape"] * 5)

    def home(self):
        self.panels()
        self.screen.keys("p", "C-e", "C-u")

    def command(self, text):
        self.panels()
        self.screen.keys(":")
        self.screen.type(text)
        self.screen.keys("Enter")

    def at_least_usual(self):
        self.screen.resize(120, 36)

    def wait_for(self, what, done, seconds=60):
        end = time.monotonic() + seconds
        while True:
            text = self.screen.text()
            got = done(text)
            if got:
                return got
            if "exit=" in text:
                raise Failure(f"the program ended while {what} was awaited")
            if time.monotonic() > end:
                raise Failure(f"{what} did not come")
            time.sleep(0.02)

    def wait_idle(self):
        self.wait_for("the end of what is done", lambda t: " READY" in t.split("\n")[0] or self.go_on(t))

    def go_on(self, text):
        if "PAUSED" in text.split("\n")[0] and time.monotonic() > self.went_on + 0.3:  # not again before it is seen
            self.went_on = time.monotonic()
            self.screen.keys("F5")
        return False

    # ---- a turn

    def context(self):
        return len(self.turns[-1].ids) + len(self.turns[-1].tokens) if self.turns else 0

    def turn(self, at, prompt):
        """A prompt was sent that is to be turn `at`: what comes of it. False: the context has no room for it."""
        refused = []

        def begun(text):
            for line in self.trace.lines():
                if line["type"] == "header" and line["prompt_text"] == prompt and line["turn"] == at:
                    return [line]
            if "of the context's" in text:
                refused.append(text)
            return refused
        self.at_least_usual()
        header = self.wait_for(f"turn {at} with the prompt {prompt!r}", begun)[0]
        if refused:
            self.note("full context")
            self.room = False
            return False
        del self.turns[at:]
        turn = Turn(header, prompt)
        before = self.turns[-1] if self.turns else None
        was = before.ids + before.kept if before else []
        kept = header.get("kept_tokens", len(was))  # a template may write earlier turns otherwise
        if turn.ids[:kept] != was[:kept]:
            raise Failure(f"turn {at} does not go on from what turn {at - 1} left: {before} {turn}")
        self.turns.append(turn)
        if header["turn"] != at or any(str(header["config"].get(k)) != v for k, v in self.settings.items() if k != "decode.seed"):
            raise Failure(f"settings of turn {at} are {header['config']}, those made were {self.settings}")
        stop_after = self.rng.choice((None, None, 0, 0.02, 0.1, 0.3))
        began = time.monotonic()
        if self.rng.random() < 0.5:
            for _ in range(self.rng.randrange(1, 4)):
                self.rng.choice((self.resize, self.look, self.meddle_set, self.pause, self.refused))()
            self.at_least_usual()
            self.home()
        if stop_after is not None:
            time.sleep(max(0, began + stop_after - time.monotonic()))
            self.note("stop")
            self.screen.keys("C-x")

        def ended(text):
            for line in self.trace.lines():
                if line["type"] == "step":
                    turn.add(line)
                    if line["turn"] != at:
                        raise Failure(f"a step of turn {line['turn']} within turn {at}")
                    if line["finish"] == "length":  # it may go on: its end is written when it does not
                        turn.end = "length"
                        return True
                elif line["type"] == "end" and line["turn"] == at:
                    turn.end = line["reason"]
                    return True
                elif line["type"] == "header":
                    raise Failure(f"turn {line['turn']} begins within turn {at}")
            return self.go_on(text)
        self.wait_for(f"the end of turn {at}", ended, 120)
        self.wait_idle()
        self.tokens += len(turn.tokens)
        if turn.end == "context":
            self.room = False
        return True

    def new_prompt(self):
        r = self.rng
        text = " ".join(r.choice(WORDS) for _ in range(r.choice((1, 1, 2, 3, 3, 40))))
        return text if r.random() < 0.8 else text + "\n" + r.choice(WORDS)

    def prompt(self):
        text = self.new_prompt()
        self.note(f"prompt {text!r}")
        self.home()
        if "\n" in text or self.rng.random() < 0.2:
            self.screen.paste(text)
        else:
            self.screen.type(text)
        self.screen.keys("Enter")
        if not self.turn(len(self.turns), text):
            self.home()
            self.new()

    def again(self):
        if not self.turns:
            return
        self.note("again")
        self.panels()
        self.screen.keys("r")
        if not self.turn(len(self.turns) - 1, self.turns[-1].prompt):
            raise Failure("a prompt that had room has none when it is answered again")

    def edit(self):
        if not self.turns:
            return
        first, at = self.rng.random() < 0.4, 0
        steps = sum(t.steps for t in self.turns)
        viewed = 0 if first else steps - 1
        for i, _ in enumerate(self.turns):  # the turn of the step that is looked at; without steps the last one
            if not steps or sum(t.steps for t in self.turns[:i]) <= viewed:
                at = i
        text = self.turns[at].prompt + " and again"
        self.note(f"edit turn {at}")
        self.panels()
        self.screen.keys("g" if first else "G", "E")
        self.screen.type(" and again")
        self.screen.keys("Enter")
        if not self.turn(at, text):
            self.home()
            self.new()

    def what_if(self):
        """The last answer once more with other words in it, and perhaps in its place."""
        if not self.turns or not self.turns[-1].steps:
            return
        text = self.rng.choice((" fish", "\n", " and", "naïve", " 12"))
        keep = self.rng.random() < 0.6
        self.note(f"what-if {text!r}{', kept' if keep else ''}")
        self.at_least_usual()
        self.panels()
        self.screen.keys(*["G", *["["] * self.rng.randrange(3)])
        self.command("what-if " + text.replace("\n", "and"))
        if self.rng.random() < 0.3:
            self.screen.keys("C-x")
        self.wait_idle()
        self.panels()
        if keep and "K: keep it" in self.screen.text():  # else the context had no room for it
            self.screen.keys("K")
            self.turn(len(self.turns) - 1, self.turns[-1].prompt)

    def new(self):
        self.note("new")
        self.at_least_usual()
        self.home()
        self.screen.keys("C-n")
        self.wait_for("a new conversation", lambda t: " READY" in t.split("\n")[0] and "step" not in t.split("\n")[0])
        self.turns, self.room = [], True
        self.measure()

    # ---- files

    def compare(self, got, want, where):
        if len(got) != len(want) or not all(a.same(b) for a, b in zip(got, want)):
            raise Failure(f"{where} is not the conversation:\n  it has {got}\n  it was {want}")

    def save(self):
        name = self.name() + self.rng.choice((".jsonl", ".jsonl", ".zst"))
        self.note(f"save {name}")
        self.at_least_usual()
        self.command(f"save {name}")
        if not self.turns:
            self.wait_for("the refusal", lambda t: "there is no conversation" in t)
            return
        self.wait_for(f"saved {name}", lambda t: f"saved {name}" in t)
        self.files[name] = copy.deepcopy(self.turns)
        path = os.path.join(self.folder, name)
        if name.endswith(".jsonl"):
            self.compare(read_conversation(path), self.turns, name)
        else:
            with open(path, "rb") as f:
                if f.read(4) != b"\x28\xb5\x2f\xfd":
                    raise Failure(f"{name} is not compressed")
        while len(self.files) > 6:
            old = next(iter(self.files))
            del self.files[old]
            os.unlink(os.path.join(self.folder, old))

    def load(self):
        if not self.files:
            return
        name = self.rng.choice(list(self.files))
        again = self.name() + name[name.index("."):]  # its message is not to be taken for another's
        shutil.copy(os.path.join(self.folder, name), os.path.join(self.folder, again))
        self.note(f"load {again}, which is {name}")
        self.at_least_usual()
        self.command(f"load {again}")
        self.wait_for(f"loaded {again}", lambda t: f"loaded {again}, {len(self.files[name])} turn" in t)
        self.wait_idle()
        self.turns = copy.deepcopy(self.files[name])
        self.room = self.turns[-1].end != "context"
        os.unlink(os.path.join(self.folder, again))
        if self.rng.random() < 0.3:
            self.save()

    def refused(self):
        """Commands that must change nothing, whatever happens meanwhile."""
        text = self.rng.choice(("load /nonexistent", "save /nonexistent/x", "set decode.bugdet=3", "frobnicate", "goto 99999",
                                "set decode.max_rows=0", "compare nonsense", f"load {self.folder}/trace.jsonl.not"))
        self.note(f"refused {text}")
        self.command(text)

    # ---- what changes no text

    def resize(self):
        for _ in range(self.rng.choice((1, 1, 8))):
            cols, rows = self.rng.choice(SIZES) if self.rng.random() < 0.7 else (self.rng.randrange(1, 250), self.rng.randrange(1, 80))
            self.screen.resize(cols, rows)
        self.note(f"resize {cols}x{rows}")

    def look(self):
        what = self.rng.choice(("panels", "help", "log", "setup", "search", "filter"))
        keys = [self.rng.choice(PANEL_KEYS) for _ in range(self.rng.randrange(1, 12))]
        self.note(f"look {what} {' '.join(keys)}")
        self.panels()
        if what == "panels":
            self.screen.keys(*keys)
        elif what in ("search", "filter"):
            self.screen.keys(self.rng.choice("1234"), "/" if what == "search" else "\\")
            self.screen.type(self.rng.choice(("fish", "n", "é", "zzz")))
            self.screen.keys("Enter", "n", "N")
        else:
            self.screen.keys({"help": "F1", "log": "L", "setup": "F2"}[what], *["Down", "PgDn", "Up"][:self.rng.randrange(4)])

    def pause(self):
        self.note("pause")
        self.screen.keys("F5", *["F6"] * self.rng.randrange(4))

    def meddle_set(self):
        text = self.rng.choice([f"decode.method={m}" for m in METHODS] + [f"decode.max_rows={n}" for n in ("auto", 1, 2, 8, 64)])
        self.note(f"set {text}")
        self.command("set " + text)
        key, value = text.split("=")
        self.settings[key] = value

    def sampling(self):
        text = self.rng.choice(("decode.temperature=0", "decode.temperature=0", "decode.temperature=0.8", "decode.top_p=0.9",
                                "decode.top_p=1", f"decode.seed={self.rng.randrange(1, 99)}"))
        self.note(f"sampling {text}")
        self.command("set " + text)
        key, value = text.split("=")
        self.settings[key] = value

    def race(self):
        against = self.rng.choice(("plain", "pld:8", "suffix"))
        wait = self.rng.random() < 0.5
        self.note(f"race {against}{'' if wait else ', left'}")
        self.command(f"compare {against}")
        if wait:
            self.at_least_usual()
            self.wait_idle()

    def editor(self):
        self.note("editor")
        self.at_least_usual()
        self.home()
        self.screen.type("kept")
        self.screen.keys("F3")
        self.wait_for("the prompt after the editor", lambda t: "› done" in t or "> done" in t)  # ASCII was chosen, perhaps
        self.screen.keys("C-u")

    # ---- judgement

    def mirror(self):
        """The conversation again, by plain decoding in one go of another program."""
        if any(t.begun for t in self.turns):  # nobody can type the beginning of an answer
            return
        if not self.turns or self.mirrored > 2000 + self.tokens / 2:
            return
        self.note(f"mirror of {len(self.turns)} turns")
        path = os.path.join(self.folder, "mirror")
        lines = ["wait READY"]
        for i, t in enumerate(self.turns):
            for key, value in {**t.options, "decode.max_tokens": max(1, len(t.tokens))}.items():
                lines += ["key Esc :", f"type set {key}={value}", "key Enter"]
            lines += ["key p"] if t.tokens else ["key p F5"]
            for k, part in enumerate(t.prompt.split("\n")):
                lines += ["key ^J"] * (k > 0) + [f"type {part}"]
            if t.tokens:
                lines += ["key Enter", f"wait │ {'turn %d, ' % (i + 1) if i else ''}step", "wait READY"]
            else:  # it was stopped before it began
                lines += ["key Enter", "wait PAUSED", "key ^X", "wait READY", "key F5"]
        with open(path, "w", encoding="utf-8") as f:
            f.write("size 200x50\n" + "\n".join(lines) + "\n")
        if os.path.exists(path + ".jsonl"):
            os.unlink(path + ".jsonl")
        p = subprocess.run([PROGRAM, "chat", *self.args, "--method", "plain", "--trace", path + ".jsonl", "--script", path],
                           env=dict(ENV, **self.env), capture_output=True, text=True, timeout=600, check=False, cwd=self.folder)
        if p.returncode:
            raise Failure(f"the conversation could not be decoded again: {p.stderr}")
        plain = read_conversation(path + ".jsonl")
        got = [(t.prompt, t.ids, t.tokens) for t in plain]
        want = [(t.prompt, t.ids, t.tokens) for t in self.turns]
        if got != want:
            raise Failure(f"plain decoding without a break differs:\n  it has {plain}\n  it was {self.turns}")
        self.mirrored += sum(len(t.tokens) for t in self.turns)

    def measure(self):
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as f:
            kb = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        self.usage.append((kb, len(os.listdir(f"/proc/{self.pid}/fd"))))

    def judge(self):
        """Memory and descriptors of the last third against those of the first (the very first excepted)."""
        n = len(self.usage)
        if n < 6:
            return
        early, late = self.usage[1:n // 2], self.usage[n - n // 3:]
        if max(fd for _, fd in late) > max(fd for _, fd in early):
            raise Failure(f"descriptors grow: {[fd for _, fd in self.usage]}")
        if not SANITIZED and min(kb for kb, _ in late) > max(kb for kb, _ in early) + SLACK_KB:
            raise Failure(f"memory grows (KB): {[kb for kb, _ in self.usage]}")

    def no_reports(self):
        found = [n for n in os.listdir(self.folder) if n.startswith(("asan", "ubsan"))]
        for name in found:
            with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                raise Failure(f"a sanitizer reports:\n{f.read()}")

    def act(self):
        acts = {self.prompt: 10, self.again: 3, self.edit: 3, self.what_if: 3, self.new: 1, self.save: 3, self.load: 3, self.refused: 1,
                self.resize: 1, self.look: 2, self.meddle_set: 2, self.sampling: 2, self.race: 1, self.editor: 0.3,
                self.mirror: 1}
        if not self.room:
            acts |= {self.new: 10, self.load: 6}
        self.rng.choices(list(acts), list(acts.values()))[0]()
        self.no_reports()

    def quit(self):
        self.at_least_usual()
        self.panels()
        self.screen.keys("Q")
        self.screen.wait("exit=0 echo=1")
        self.no_reports()


def soak(seed, seconds, model):
    """Returns what was done; raises Failure with all that is needed to do it again."""
    folder = tempfile.mkdtemp(prefix="soak-")
    user = User(seed, model, folder)
    began = time.monotonic()
    try:
        user.new()
        while time.monotonic() - began < seconds:
            user.act()
        user.mirror()
        user.judge()
        user.new()
        user.quit()
    except (Failure, AssertionError, OSError, subprocess.SubprocessError, ValueError, KeyError) as e:
        last = "\n  ".join(f"{len(user.actions) - 25 + i if len(user.actions) > 25 else i}: {a}"
                           for i, a in enumerate(user.actions[-25:]))
        raise Failure(f"seed {seed}, model {model}, after {time.monotonic() - began:.0f} s: {e}\nthe last actions:\n  {last}\n"
                      f"files are in {folder}\n{user.screen.text()}") from e
    finally:
        user.screen.__exit__()
    shutil.rmtree(folder)
    kb = [k for k, _ in user.usage]
    return (f"seed {seed}, {model}: {len(user.actions)} actions in {time.monotonic() - began:.0f} s, {user.tokens} tokens, "
            f"{user.mirrored} of them decoded again plainly and equal; memory after each of {len(kb)} conversations (MB) "
            f"{' '.join(f'{k / 1024:.1f}' for k in kb)}; descriptors {user.usage[-1][1]}\n  "
            + ", ".join(f"{n} {w}" for w, n in sorted(user.counts.items(), key=lambda x: -x[1])))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--model", action="append")
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("soak: stopped"))  # the terminal is closed
    models = a.model or ["script:1", "default"]
    for model in models:
        try:
            print(soak(a.seed, 60 * a.minutes / len(models), model), flush=True)
        except Failure as e:
            sys.exit(f"soak: {e}")


if __name__ == "__main__":
    main()
