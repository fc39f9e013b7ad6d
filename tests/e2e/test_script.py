"""The screen by script, without a terminal: what scripts can say, films, pictures."""
import json
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as ET

from program import read_trace, run

SCRIPT = ["--model", "script", "--max-tokens", "40", "--temperature", "0.7", "--seed", "3"]


class Script(unittest.TestCase):
    maxDiff = None

    def play(self, d, text, *args, command="chat", **more):
        path = os.path.join(d, "keys.script")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return run(command, *args, "--script", path, **more), path

    def test_engine_channel_and_screen_at_once(self):
        """Edits, interruptions, forks, races, saving and leaving while the engine decodes: ThreadSanitizer watches them (make check-tsan)."""
        with tempfile.TemporaryDirectory() as d:
            text = f"""wait READY
type def fib(n):
key Enter
wait RUN
key ^X
wait READY
key p
type and more of it
key Enter
wait RUN
key Esc a Esc i Esc 7
key ^X
wait READY
key Esc g E
type again
key Enter
wait RUN
key Esc Space
wait PAUSED
key s s [ ] Space
wait READY
key Esc G :
type what-if fish
key Enter
wait K: keep it
key Esc K
wait RUN
wait READY
key Esc Esc Esc :
type compare pld
key Enter
key Esc Esc Esc :
type save {d}/talk.jsonl
key Enter
wait saved
key r
wait RUN
key Esc Esc Esc :
type load {d}/talk.jsonl
key Enter
key ^X
wait READY
key p
type the last one
key Enter
key ^X
key Esc Esc Esc :
type save {d}/end.jsonl
key Enter
key Esc Esc Esc Q
"""
            r, _ = self.play(d, "size 120x36\n" + text, "--model", "script:15", "--max-tokens", "60", "--seed", "3", "--trace", d + "/t.jsonl")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            for name in ("t.jsonl", "talk.jsonl", "end.jsonl"):
                with open(os.path.join(d, name), encoding="utf-8") as f:
                    read_trace(f.read())

    def test_shadows_in_the_tour(self):
        """Twice: the second visit lists the methods anew (and a build with sanitizers sees what the first one left)."""
        visit = """wait Or type a number
key 1 Enter
wait Tour 1 of 3
key a
wait Shadows
key Esc
key q
"""
        with tempfile.TemporaryDirectory() as d:
            r, _ = self.play(d, "size 120x36\nwait READY\n" + visit + visit, *SCRIPT)
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_pictures_of_other_kinds(self):
        with tempfile.TemporaryDirectory() as d:
            for name in ("x.png", "x", "x.txt.gz"):
                r, path = self.play(d, f"wait READY\nsave {d}/{name}\n", *SCRIPT)
                self.assertEqual((r.returncode, r.stderr.splitlines()[-1]), (2, f"logitspec: {path}:2: cannot save '{d}/{name}': its name must end in .txt, .ansi or .svg"))
                self.assertEqual(os.listdir(d), ["keys.script"])

    def test_commands_that_need_the_terminal_say_so_or_work(self):
        with tempfile.TemporaryDirectory() as d:
            r, _ = self.play(d, f"""wait READY
type :save-display {d}/a.txt
key Enter
wait saved {d}/a.txt
key F3
wait a script opens no editor
""", *SCRIPT)
            self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))
            with open(os.path.join(d, "a.txt"), encoding="utf-8") as f:
                self.assertIn("READY", f.read())

    def test_a_script_drives_the_screen_and_saves_it(self):
        with tempfile.TemporaryDirectory() as d:
            r, _ = self.play(d, f"""# a comment
wait READY
type Retrieval
expect › Retrieval
key Enter
wait 40 tokens
wait READY
key Esc g
expect behind
reject follow
size 80x24
save {d}/a.txt
save {d}/a.svg
size 200x50
key i
save {d}/b.ansi
key ] : g o t o Space 3 Enter
expect step 3,
key L
expect Log
key L F1
expect run-pause
key L L F1 Esc
expect L closes
key F2 q
expect L closes
key q
reject L closes
""", *SCRIPT)
            self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))
            with open(os.path.join(d, "a.txt"), encoding="utf-8") as f:
                lines = f.read().splitlines()
            self.assertEqual(len(lines), 24)
            self.assertRegex(lines[0], r"^ .*script f32.* │ READY │ step 0")
            svg = ET.parse(os.path.join(d, "a.svg")).getroot()
            texts = "".join(e.text or "" for e in svg.iter() if e.tag.endswith("text"))
            self.assertIn("1 Output", texts)
            with open(os.path.join(d, "b.ansi"), encoding="utf-8") as f:
                ansi = f.read()
            self.assertIn("6 Inspect", re.sub(r"\x1b\[[0-9;]*m", "", ansi))

    def test_every_method_shadows_the_answer_and_can_take_over(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            r, _ = self.play(d, """wait READY
key Esc a
expect no answer yet
key p
type One fish, two fish, red fish.
key Enter
wait 40 tokens
wait READY
key Esc a
wait real
expect logitspec (active)
expect cacheback
key j j j j j Enter q
wait decode.method=pld
key p
type Blue fish
key Enter
wait turn 2
wait 40 tokens
wait READY
key Esc a
wait pld (active)
wait turn 2; a closes
key u
expect u: above 2%
key q
reject Shadows
""", "--trace", trace, *SCRIPT)
            self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))
            r, _ = self.play(d, """wait REPLAY ENDED
key a
wait pld (active)
key Enter
expect its method cannot change
""", trace, "--speed", "max", command="replay")
            self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))

    def test_what_if_goes_on_from_a_draft_or_a_text_and_is_kept(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            r, _ = self.play(d, """wait READY
key Esc x
expect no answer
key p
type One fish, two fish, red fish.
key Enter
wait 40 tokens
wait READY
key Esc K
expect no what-if to keep
key g ) 4 x
wait 40 tokens in
wait K: keep it
key K
wait follow
wait READY
key g
type :what-if , and then
key Enter
wait , and then
wait K: keep it
key K
wait follow
wait READY
expect , and then
key p
type Go on
key Enter
wait turn 2
wait 40 tokens
wait READY
""", "--trace", trace, "--method", "logitspec-paper", *SCRIPT)
            self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))
            with open(trace, encoding="utf-8") as f:
                headers = [line for line in read_trace(f.read()) if line["type"] == "header"]
            self.assertEqual([h["turn"] for h in headers], [0, 0, 0, 1])
            self.assertEqual([h.get("begun_tokens", 0) > 0 for h in headers], [False, True, True, False])
            r, _ = self.play(d, """wait REPLAY ENDED
key x
expect this is a recording
""", trace, "--speed", "max", command="replay")
            self.assertEqual((r.returncode, r.stdout), (0, ""))

    def test_the_quiz_asks_before_it_tells(self):
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            r = run("generate", "--model", "script", "--method", "logitspec-paper", "--max-rows", "8", "--prompt", "One fish, two fish, red fish.",
                    "--max-tokens", "60", "--trace", trace, "--quiet")
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(trace, encoding="utf-8") as f:
                steps = [line for line in read_trace(f.read()) if line["type"] == "step"]
            asked = [i for i, s in enumerate(steps) if i and s["forward"] and s["rows"] > 1]
            first, second = asked[0], asked[1]

            def keys_to(step, row):  # the cursor to the root, then down as the Tree panel lists its nodes
                order, stack = [], [0]
                while stack:
                    node = stack.pop()
                    order.append(node)
                    stack += reversed([i for i, n in enumerate(steps[step]["nodes"]) if n["parent"] == node])
                return "key " + " ".join(["k"] * 70 + ["j"] * order.index(row))

            right, wrong = steps[first]["path"][-1], steps[second]["path"][-1]
            wrong = next(i for i in range(1, steps[second]["rows"]) if i != wrong)
            r, _ = self.play(d, f"""wait REPLAY ENDED
key g u
expect quiz on: trees are shown before their verification
type :goto {first}
key Enter
expect not yet verified
expect quiz: which draft is the last
reject wants
reject root +
{keys_to(first, right)}
key Enter
expect right:
expect score 1 of 1, tokens
expect Enter continues
expect root +
reject not yet verified
key Enter
expect step {second}
expect not yet verified
expect 1/1 right
{keys_to(second, wrong)}
key Enter
expect , you marked
expect score 1 of 2
key [ ]
reject not yet verified
key u
expect quiz off
key ]
reject not yet verified
""", trace, "--speed", "max", command="replay")
            self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))

    def test_what_is_not_so_is_named_with_the_screen(self):
        with tempfile.TemporaryDirectory() as d:
            for text, code, what in (("wait READY\nexpect nonsense\n", 1, ":2: the screen does not show 'nonsense'"),
                                     ("wait READY\nreject READY\n", 1, ":2: the screen shows 'READY'"),
                                     ("jump up\n", 2, ":1: one of the lines that 'logitspec help scripts'"), ("key Nonsense\n", 2, ":1: 'Nonsense' is not a key"),
                                     ("size 0x0\n", 2, ":1: size is"), ("pause soon\n", 2, ":1: pause needs a number of seconds"),
                                     ("wait READY\nsave /nonexistent/x.txt\n", 1, "cannot write")):
                r, path = self.play(d, text, *SCRIPT)
                self.assertEqual(r.returncode, code, r.stderr)
                self.assertIn(what, r.stderr.splitlines()[-1])
                if "screen" in what:
                    self.assertIn("1 Output", r.stderr)

    def test_commands_are_completed(self):
        with tempfile.TemporaryDirectory() as d:
            r, _ = self.play(d, """wait READY
key Esc :
type set decode.max_r
key Tab
type 5
key Enter
wait decode.max_rows=5
key Esc :
type wor
key Tab Enter
expect no step yet
key Esc :
type next-
key Tab
expect next-rejection  next-lossy
""", *SCRIPT)
            self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_settings_are_changed_while_it_runs(self):
        with tempfile.TemporaryDirectory() as d:
            r, _ = self.play(d, """wait READY
key F2
expect decode.method            logitspec
key Right
wait decode.method            logitspec-paper
key Down Right Right Right Left
wait decode.max_rows          2
key Enter
type 7
key Enter
wait decode.max_rows          7
key Right
wait decode.max_rows          auto
key Enter
type x
key Enter
wait decode.max_rows is 'x'
expect decode.max_rows          auto
key F2
reject decode.max_rows          auto
""", *SCRIPT)
            self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_setup_explains_saves_and_completes(self):
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(os.path.join(d, "logitspec"))
            path = os.path.join(d, "logitspec", "config.yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.write("# mine\ndecode:\n  seed: 7  # always\n")
            r, _ = self.play(d, f"""wait READY
key F2
expect LogitSpec and remembered choices
expect logitspec.memory
key Right
wait decode.method            logitspec-paper
expect LogitSpec exactly as published
wait decode.method=logitspec-paper
expect logitspec-paper.ngram
reject logitspec.memory
key w
expect saved 1 setting to {path}
key w
expect already has these values
key F2 Esc :
type set decode.sizing=ada
key Tab Enter
wait decode.sizing=adaedl
key Esc F4
wait decode.sizing=default, decode.max_rows=16
key F2
expect decode.method            logitspec-paper
wait decode.sizing            default
key F4
wait decode.sizing            adaedl
wait decode.max_rows          auto
""", "--model", "script", env={"XDG_CONFIG_HOME": d, "LOGITSPEC_SET_DECODE__COSTS": "auto"})
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            with open(path, encoding="utf-8") as f:
                self.assertEqual(f.read(), "# mine\ndecode:\n  method: logitspec-paper\n  seed: 7  # always\n")
            shown = run("config", "show", env={"XDG_CONFIG_HOME": d}).stdout
            self.assertIn("method: logitspec-paper", shown)

    def test_saved_settings_leave_files_of_drafters_alone(self):
        for name in "a.corpus", "a" * 60 + ".corpus":  # the second one is longer than what Setup shows
            with tempfile.TemporaryDirectory() as d:
                os.mkdir(os.path.join(d, "logitspec"))
                path = os.path.join(d, "logitspec", "config.yaml")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(f"rest:\n  corpus: {d}/{name}\n")
                r, _ = self.play(d, f"wait READY\nkey F2 w\nwait saved\n", *SCRIPT, "--temperature", "0.5",
                                 env={"XDG_CONFIG_HOME": d})
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                with open(path, encoding="utf-8") as f:
                    self.assertIn(f"rest:\n  corpus: {d}/{name}\n", f.read())

    def test_a_long_path_is_not_saved_in_part(self):
        with tempfile.TemporaryDirectory() as d:
            r, _ = self.play(d, f"wait READY\nkey Esc :\ntype set rest.corpus={d}/{'a' * 60}\nkey Enter F2\npause 0.3\nkey w\nwait saved\n",
                             *SCRIPT, env={"XDG_CONFIG_HOME": d})
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            with open(os.path.join(d, "logitspec", "config.yaml"), encoding="utf-8") as f:
                self.assertNotIn("corpus", f.read())

    def test_a_conversation_is_saved_and_goes_on_later(self):
        with tempfile.TemporaryDirectory() as d:
            shown = []
            for name, script in (("one", "type Retrieval\nkey Enter\nwait › Retrieval\nwait 40 tokens\nwait READY\n"
                                         f"key Esc :\ntype save {d}/c.jsonl.zst\nkey Enter\nwait saved\nkey p\n"),
                                 ("two", f"key Esc :\ntype load {d}/c.jsonl.zst\nkey Enter\nwait loaded\n"
                                         "wait READY\nexpect │› Retrieval\nexpect 40 tokens\n")):  # the prompt has the keys
                r, _ = self.play(d, "wait READY\n" + script + f"type five\nkey Enter\nwait │› five\nwait READY\nwait 40 tokens\n"
                                 f"key Esc 1 Space r\nwait PAUSED\nkey Space\nwait READY\nsave {d}/{name}.txt\n"
                                 f"key g E\nwait 0› Retrieval\nkey Esc 1 G\nwait follow\n", *SCRIPT)
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                with open(os.path.join(d, name + ".txt"), encoding="utf-8") as f:
                    shown.append([x[:68] for x in f.read().splitlines()[1:13] if x[0] == "┃" and x[1:68].strip()])  # the line below wraps or not
            self.assertEqual(*shown)  # the answer to the second prompt is the same
            for path, what in (("/nowhere", "cannot read"), (os.devnull, "no complete line")):
                r, _ = self.play(d, f"wait READY\nkey Esc :\ntype load {path}\nkey Enter\nwait {what}\n", *SCRIPT)
                self.assertEqual((r.returncode, r.stderr), (0, ""))
            r, _ = self.play(d, "wait READY\nkey Esc :\ntype save /tmp/x\nkey Enter\nwait no conversation to save\n", *SCRIPT)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            torn = os.path.join(d, "torn.jsonl")
            run("generate", *SCRIPT, "--prompt", "Retrieval", "--trace", torn, "--trace-level", "full", "-q")
            with open(torn, "a", encoding="utf-8") as f:
                f.write('{"type":"step"')
            r, _ = self.play(d, f"wait READY\nkey Esc :\ntype load {torn}\nkey Enter\nwait loaded\nkey Esc L\nwait line of a trace is incomplete\n", *SCRIPT)
            self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_a_model_that_cannot_be_loaded(self):
        with tempfile.TemporaryDirectory() as d:
            r, _ = self.play(d, "wait FAILED\nkey Esc L\nwait 1 message\n", "--model", "/nonexistent.gguf")
            self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
            self.assertIn("logitspec: the model '/nonexistent.gguf' does not exist", r.stderr)

    def test_films_of_runs_recordings_and_demos(self):
        with tempfile.TemporaryDirectory() as d:
            cast, trace = os.path.join(d, "x.cast"), os.path.join(d, "t.jsonl")
            r = run("chat", *SCRIPT, "--prompt", "Retrieval", "--trace", trace, "--cast", cast, "--size", "90x30")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            for args in (None, ("replay", trace, "--speed", "max"), ("demo", "prose", "--live", "--model", "script")):
                if args:
                    r = run(*args, "--cast", cast, "--size", "90x30")
                    self.assertEqual((r.returncode, r.stderr), (0, ""))
                with open(cast, encoding="utf-8") as f:
                    lines = [json.loads(x) for x in f]
                self.assertEqual((lines[0]["version"], lines[0]["width"], lines[0]["height"]), (2, 90, 30))
                times = [x[0] for x in lines[1:]]
                self.assertEqual(times, sorted(times))
                shown = "".join(x[2] for x in lines[1:])
                self.assertIn("1 Output", shown)
            r = run("replay", trace, "--cast", cast, "--size", "9x9")
            self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))


if __name__ == "__main__":
    unittest.main()
