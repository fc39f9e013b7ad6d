"""The command line as a user meets it: output, exit codes, one line for what is wrong."""
import base64
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from program import BUILD, ENV, HAS_TORCH, LABEL, MODEL, PROGRAM, ROOT, cpu_levels, needs_model, read_trace, run

SCRIPT = ["--model", "script"]


def gguf_without_tensors(strings):
    def string(s):
        return struct.pack("<Q", len(s)) + s.encode()
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(strings)) + b"".join(string(k) + struct.pack("<I", 8) + string(v) for k, v in strings.items())


class Generate(unittest.TestCase):
    def check_object(self, o):
        self.assertEqual(set(o), set("speedup_spread ar_timed cpu_wait model sha256 method device ranks dtype exact guarantee seed prompt_tokens output_tokens text finish_reason "
                                     "steps emitted mat draft_verified draft_accepted draft_forwards ahead_forwards emitted_per_step prefill_ms decode_ms "
                                     "tokens_per_s ar_tokens_per_s speedup".split()))
        self.assertEqual(o["emitted"], len(o["output_tokens"]))
        self.assertEqual(o["emitted"], sum(o["emitted_per_step"]))
        self.assertEqual(o["steps"], len(o["emitted_per_step"]))
        self.assertAlmostEqual(o["mat"], o["emitted"] / o["steps"], places=4)
        self.assertAlmostEqual(o["tokens_per_s"] * o["decode_ms"] / 1000, o["emitted"], delta=0.01 * o["emitted"])
        self.assertLessEqual(o["draft_accepted"], o["draft_verified"])

    def test_json_object(self):
        r = run("generate", *SCRIPT, "--prompt", "def fib(n):", "--json", "--max-tokens", "100", "--seed", "7")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        o = json.loads(r.stdout)
        self.check_object(o)
        self.assertEqual(o["seed"], 7)
        self.assertEqual(o["finish_reason"], "length")
        self.assertEqual(bytes(t for t in o["output_tokens"]).decode("utf-8", "replace"), o["text"])

    def test_every_method_gives_the_same_text(self):
        for extra in [], ["--temperature", "0.9", "--seed", "3"]:
            texts = {m: json.loads(run("generate", *SCRIPT, "--prompt", "One fish", "--json", "--method", m, *extra).stdout)["output_tokens"]
                     for m in ("plain", "logitspec", "logitspec-paper")}
            self.assertEqual(texts["plain"], texts["logitspec"])
            self.assertEqual(texts["plain"], texts["logitspec-paper"])

    def test_plain_text_streams_without_escape_codes(self):
        r = run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "50", "-q")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertNotIn("\x1b", r.stdout)
        self.assertTrue(r.stdout.endswith("\n"))

    def test_flags_that_change_nothing_are_told(self):
        for flags, why in ((["--raw", "--system", "Be brief."], "--system changes nothing: a raw prompt"),
                           (["--raw", "--draft-model", "/nope"], "--draft-model changes nothing"),
                           (["--raw", "--draft-head", "/nope"], "--draft-head changes nothing"),
                           (["--raw", "--threads", "1000"], "--threads 1000: there are ")):
            r = run("generate", "--model", "script", "--prompt", "x", "--max-tokens", "4", "-q", *flags)
            self.assertEqual((r.returncode, r.stderr.count("\n")), (0, 1), r.stderr)
            self.assertIn("logitspec: warning: " + why, r.stderr)
        r = run("compare", "--model", "script", "--prompt", "x", "--max-tokens", "4", "-q", "--methods", "plain", "--method", "pld")
        self.assertEqual((r.returncode, r.stderr), (0, "logitspec: warning: --method changes nothing: --methods names the methods\n"))

    def test_summary_says_what_the_speedup_is_against(self):
        r = run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "200", "--max-rows", "16")
        self.assertIn("plain decoding", r.stderr)
        self.assertIn("speedup x", r.stderr)
        self.assertIn("drafts accepted", r.stderr)

    def test_alternatives_are_lines_of_tokens(self):
        args = ["generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "60", "--max-rows", "8", "-q"]
        r = run(*args, "--alt", "2")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        head, *lines = r.stdout.splitlines()
        self.assertEqual(head.split()[:5], ["token", "step", "from", "text", "p"])
        self.assertEqual([int(line.split()[0]) for line in lines], list(range(60)))
        trace = read_trace(run(*args, "--trace", "-").stdout)
        steps = [t for t in trace if t["type"] == "step"]
        said = [(t["index"], LABEL.get(t["nodes"][row]["source"], t["nodes"][row]["source"])) for t in steps for row in t["path"]][:60]
        self.assertEqual([(int(step), source) for step, source in re.findall(r'(?m)^ *\d+ +(\d+) +(.*?) +"', "\n".join(lines))], said)
        for line in lines:
            chances = [float(x) for x in re.findall(r'" +([01]\.\d{3})', line)]
            self.assertEqual(len(chances), 3)  # its own and two others
            self.assertLessEqual(sum(chances), 1.002)
            self.assertEqual(chances, sorted(chances, reverse=True))  # greedy: it was the best
        for bad in ["0", "9", "x"]:
            self.assertIn(f"--alt {bad}: expected a number from 1 to 8", run(*args, "--alt", bad).stderr)
        self.assertEqual(run(*args, "--alt", "2", "--json").returncode, 2)

    def test_prompt_from_standard_input_and_file(self):
        a = run("tokenize", *SCRIPT, "--prompt-file", "-", "--json", input="a\nb")
        self.assertEqual(json.loads(a.stdout)["ids"], [97, 10, 98])
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("xy")
            f.flush()
            self.assertEqual(json.loads(run("tokenize", *SCRIPT, "--prompt-file", f.name, "--json").stdout)["tokens"], ["x", "y"])

    def test_stop_string_never_shows(self):
        whole = run("generate", *SCRIPT, "--prompt", "Retrieval", "--raw", "--max-tokens", "120", "-q").stdout
        stop = whole[40:44]
        r = run("generate", *SCRIPT, "--prompt", "Retrieval", "--raw", "--max-tokens", "120", "--json", "--stop", stop)
        o = json.loads(r.stdout)
        self.assertEqual(o["finish_reason"], "stop")
        self.assertEqual(o["text"], whole[:whole.index(stop)])
        streamed = run("generate", *SCRIPT, "--prompt", "Retrieval", "--raw", "--max-tokens", "120", "-q", "--stop", stop)
        self.assertEqual(streamed.stdout, o["text"] + "\n")

    def test_the_schema_takes_no_arguments(self):
        for args in (["--schema", "x"], ["--schema", "-o", "x.json"]):
            self.assertEqual(run("export", *args).returncode, 2)

    def test_trace_is_valid_and_adds_up(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            o = json.loads(run("generate", *SCRIPT, "--prompt", "def fib(n):", "--json", "--max-tokens", "80", "--trace", path,
                               "--method", "logitspec-paper").stdout)
            with open(path, encoding="utf-8") as f:
                lines = read_trace(f.read())
        self.assertEqual(lines[0]["type"], "header")
        self.assertEqual(lines[0]["prompt_ids"], o["prompt_tokens"])
        self.assertEqual(lines[-1]["type"], "end")
        steps = [x for x in lines if x["type"] == "step"]
        self.assertEqual([len(s["emitted"]) for s in steps], o["emitted_per_step"])
        self.assertEqual([t for s in steps for t in s["emitted"]], o["output_tokens"])
        self.assertEqual(lines[-1]["totals"]["steps"], o["steps"])
        known = {}
        for x in lines:  # bytes come before the first use of an id
            if x["type"] == "tokens":
                known.update({int(k): base64.b64decode(v) for k, v in x["bytes"].items()})
            if x["type"] == "step":
                for n in x["nodes"]:
                    self.assertIn(n["token"], known)
                self.assertEqual(x["rows"], len(x["nodes"]))
                for i, n in enumerate(x["nodes"]):
                    self.assertLess(n["parent"], i)
                for p, q in zip(x["path"], x["path"][1:]):
                    self.assertEqual(x["nodes"][q]["parent"], p)
                    self.assertEqual(x["nodes"][p]["target"], x["nodes"][q]["token"])
        self.assertEqual(b"".join(known[t] for t in o["output_tokens"]).decode("utf-8", "replace"), o["text"])

    def test_trace_on_standard_output(self):
        r = run("generate", *SCRIPT, "--prompt", "x", "--max-tokens", "5", "--trace", "-", "-q")
        self.assertEqual(read_trace(r.stdout)[-1]["type"], "end")

    def test_interrupt_gives_the_partial_object_and_a_whole_trace(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            p = subprocess.Popen([PROGRAM, "generate", "--model", "script:20", "--prompt", "x", "--json", "--trace", path,
                                  "--max-rows", "3", "--max-tokens", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
            end = time.monotonic() + 30
            while time.monotonic() < end and not (os.path.exists(path) and os.path.getsize(path) > 50000):
                time.sleep(0.05)
            p.send_signal(signal.SIGINT)
            out, _ = p.communicate(timeout=30)
            self.assertEqual(p.returncode, 130)
            o = json.loads(out)
            self.check_object(o)
            self.assertEqual(o["finish_reason"], "interrupted")
            with open(path, encoding="utf-8") as f:
                self.assertEqual(read_trace(f.read())[-1]["reason"], "interrupted")

    def test_a_failed_start_keeps_an_old_trace(self):
        with tempfile.NamedTemporaryFile("w+") as f:
            f.write("precious")
            f.flush()
            self.assertEqual(run("generate", "--model", "/nonexistent.gguf", "--prompt", "x", "--trace", f.name).returncode, 1)
            f.seek(0)
            self.assertEqual(f.read(), "precious")

    def test_closed_standard_output(self):
        with open("/dev/full", "w") as full:
            p = subprocess.run([PROGRAM, "generate", *SCRIPT, "--prompt", "x", "-q"], stdout=full, stderr=subprocess.PIPE, env=ENV,
                               text=True, timeout=60, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertEqual(p.stderr, "logitspec: cannot write to standard output: the disk is full\n")

    def test_a_last_line_that_is_lost_is_said(self):
        with tempfile.TemporaryDirectory() as d, open("/dev/full", "w") as full:
            trace = os.path.join(d, "t.jsonl")
            run("generate", *SCRIPT, "--prompt", "x", "--max-tokens", "5", "--trace", trace)
            p = subprocess.run([PROGRAM, "report", trace, "-o", os.path.join(d, "r.md")], stdout=full, stderr=subprocess.PIPE, env=ENV,
                               text=True, timeout=60, check=False)
            self.assertEqual((p.returncode, p.stderr), (1, "logitspec: cannot write to standard output: the disk is full\n"))
            self.assertTrue(os.path.exists(os.path.join(d, "r.md")))

    def test_standard_streams_that_are_closed(self):
        """No file that is opened gets their numbers, and what cannot be written is an error."""
        with tempfile.TemporaryDirectory() as d:
            trace = os.path.join(d, "t.jsonl")
            for closed, status in (("<&-", 0), ("2>&-", 0), (">&-", 1), ("<&- >&- 2>&-", 1)):
                p = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", PROGRAM, "generate", *SCRIPT, "--prompt", "x", "--max-tokens",
                                    "20", "--trace", trace], env=ENV, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(p.returncode, status, (closed, p.stderr))
                with open(trace, encoding="utf-8") as f:
                    lines = read_trace(f.read())  # nothing else is in it
                self.assertEqual((lines[0]["type"], lines[-1]["type"]), ("header", "end"), closed)
            p = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", PROGRAM, "--version"], env=ENV, capture_output=True, text=True,
                               timeout=60, check=False)
            self.assertEqual((p.returncode, p.stderr), (1, "logitspec: cannot write to standard output: the output is closed\n"))


class BadInput(unittest.TestCase):
    def one_line(self, status, part, *args, **kw):
        r = run(*args, **kw)
        self.assertEqual(r.returncode, status, r.stderr)
        self.assertEqual(r.stdout, "")
        self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
        self.assertTrue(r.stderr.startswith("logitspec: "), r.stderr)
        self.assertIn(part, r.stderr)

    def test_usage(self):
        self.one_line(2, "did you mean 'generate'", "generat")
        self.one_line(2, "did you mean '--prompt'", "generate", "--promt", "x")
        self.one_line(2, "a prompt is needed", "generate", *SCRIPT)
        self.one_line(2, "the prompt is empty", "generate", *SCRIPT, "--prompt", "")
        self.one_line(2, "did you mean 'logitspec'", "generate", *SCRIPT, "--prompt", "x", "--method", "logitspc")
        self.one_line(2, "pass a prompt with --prompt", "generate", *SCRIPT, "hello")
        self.one_line(2, "--json and --trace -", "generate", *SCRIPT, "--prompt", "x", "--json", "--trace", "-")
        self.one_line(2, "needs a terminal", "chat", *SCRIPT)
        self.one_line(2, "usage: logitspec config show", "config")
        self.one_line(2, "expected auto or 1 to 256", "generate", "--prompt", "x",
                      env={"LOGITSPEC_SET_DECODE__BUDGET": "many"})

    def test_files(self):
        self.one_line(1, "the model '/nonexistent.gguf' does not exist", "generate", "--model", "/nonexistent.gguf", "--prompt", "x")
        self.one_line(1, "cannot read the prompt", "generate", *SCRIPT, "--prompt-file", "/nonexistent")
        self.one_line(1, "cannot write", "generate", *SCRIPT, "--prompt", "x", "--trace", "/nonexistent/t")
        with tempfile.NamedTemporaryFile("wb") as f:
            f.write(b"GGUF\x03\x00\x00\x00")
            f.flush()
            self.one_line(1, "the file ends inside", "generate", "--model", f.name, "--prompt", "x")
            self.one_line(1, "the file ends inside", "tokenize", "--model", f.name, "--prompt", "x")

    def test_a_file_that_holds_only_a_vocabulary(self):
        folder = os.path.join(ROOT, "tests/vectors/tokenizers")
        with open(os.path.join(folder, "texts.json"), encoding="utf-8") as f:
            texts = json.load(f)
        for name in ("gemma", "falcon"):
            path = os.path.join(folder, name + ".gguf")
            with open(os.path.join(folder, name + ".ids"), encoding="utf-8") as f:
                want = json.load(f)
            for i in [k for k, text in enumerate(texts) if len(text) > 20 and "\0" not in text][:6]:
                r = run("tokenize", "--model", path, "--prompt-file", "-", "--json", input=texts[i])
                self.assertEqual((r.returncode, r.stderr), (0, ""))
                self.assertEqual(json.loads(r.stdout)["ids"], want[i])
            self.one_line(1, "has no tensors, so only tokenize can use it", "generate", "--model", path, "--prompt", "x")
        with tempfile.NamedTemporaryFile("wb") as f:
            f.write(gguf_without_tensors({"tokenizer.ggml.model": "bert"}))
            f.flush()
            self.one_line(1, "'bert' (WordPiece) is for encoders", "tokenize", "--model", f.name, "--prompt", "x")

    def test_prompt_longer_than_the_context(self):
        self.one_line(1, "shorten it", "generate", *SCRIPT, "--prompt-file", "-", input="x" * 100000)

    def test_without_a_terminal_a_prompt_is_answered_as_text(self):
        r = run("chat", *SCRIPT, "--prompt", "x", "--max-tokens", "5")
        self.assertEqual(r.returncode, 0)
        self.assertNotIn("\x1b", r.stdout)


class Compare(unittest.TestCase):
    def test_table_says_what_is_compared(self):
        r = run("compare", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "80", "--methods", "plain,logitspec:16,logitspec-paper", "-q")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        rows = [line.split() for line in r.stdout.split("\n")]
        named = {row[0]: row for row in rows if row}
        self.assertEqual(named["plain"][1], "1.00")
        self.assertGreater(float(named["logitspec:16"][1]), 1.2)
        self.assertEqual(named["plain"][-1], "reference")
        self.assertEqual(named["logitspec-paper"][-1], "equal")
        self.assertIn("over `plain`", r.stdout)

    def test_json_adds_up(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            for i in range(4):
                f.write(json.dumps({"prompt": f"One fish, {i} fish", "category": "ab"[i % 2], "id": f"q{i}"}) + "\n")
            f.flush()
            r = run("compare", *SCRIPT, "--suite", f.name, "--max-tokens", "60", "--methods", "plain,logitspec:8", "--json")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        o = json.loads(r.stdout)
        self.assertTrue(o["equal"])
        self.assertEqual(len(o["runs"]), 8)
        for m in o["methods"]:
            mine = [x for x in o["runs"] if x["method"] == m["method"]]
            self.assertEqual(m["emitted"], sum(x["emitted"] for x in mine))
            self.assertAlmostEqual(m["decode_ms"], sum(x["decode_us"] for x in mine) / 1e3, delta=0.01)
            self.assertEqual([c["category"] for c in m["categories"]], ["a", "b"])
            self.assertEqual(m["emitted"], sum(c["emitted"] for c in m["categories"]))
        base, spec = o["methods"]
        self.assertAlmostEqual(spec["speedup"], base["decode_ms"] / spec["decode_ms"], places=3)
        self.assertLessEqual(spec["speedup_low"], spec["speedup"])

    def test_turns_are_one_conversation(self):
        turns = [". The end of the s", "."]
        common = (*SCRIPT, "--raw", "--max-tokens", "4")
        def emitted(prompt):
            o = json.loads(run("generate", *common, "--prompt", prompt, "--json").stdout)
            return o["emitted"], o["finish_reason"], o["text"]
        first, _, text = emitted(turns[0])
        second, finish, _ = emitted(turns[0] + text + turns[1])
        self.assertEqual((text, finish), ("tory", "eos"))
        self.assertNotEqual(second, emitted(turns[1])[0])
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            f.write(json.dumps({"turns": turns}) + "\n")
            f.flush()
            for context, answered, n, ended in (("64", 2, first + second, "eos"), ("23", 1, first, "context")):
                o = json.loads(run("compare", *common, "--suite", f.name, "--methods", "plain,logitspec:8", "--context", context, "--json").stdout)
                self.assertTrue(o["equal"])
                for r in o["runs"]:
                    self.assertEqual((len(r["turns"]), r["emitted"], r["finish_reason"]), (answered, n, ended))
                self.assertEqual(o["methods"][0]["turns"], answered)

    def test_bad_input(self):
        for args, what in ((["--methods", "plain,nonsense", "--prompt", "x"], "nonsense"), (["--methods", "logitspec:0", "--prompt", "x"], "1 to 256"),
                           (["--methods", "", "--prompt", "x"], "METHOD[:ROWS]"), (["--methods", "plain,pld+ngram=9", "--prompt", "x"], "from 1 to 3"),
                           (["--methods", "plain,pld+depth=9", "--prompt", "x"], "pld.depth"), (["--methods", "plain/some", "--prompt", "x"], "expected one of default, auto"),
                           (["--methods", "plain@loose", "--prompt", "x"], "expected one of exact"), (["--methods", "rest", "--prompt", "x"], "needs a corpus"),
                           (["--methods", "nothing.yaml", "--prompt", "x"], "nothing.yaml"), (["--suite", "/nonexistent"], "cannot read"),
                           (["--suite", "x", "--prompt", "y"], "cannot be combined"), ([], "a prompt is needed")):
            r = run("compare", *SCRIPT, *args)
            self.assertIn(r.returncode, (1, 2))
            self.assertEqual(r.stderr.count("\n"), 1)
            self.assertIn(what, r.stderr)


    def test_every_way_to_write_a_variant(self):
        with tempfile.TemporaryDirectory() as d:
            mine = os.path.join(d, "mine.yaml")
            with open(mine, "w") as f:
                f.write("decode:\n  method: suffix\n  sizing: tetris:5\nsuffix:\n  min_p: 0.02\n")
            words = ["plain", "logitspec:9", "pld/auto", "logitspec/specdec++:0.8", "pld+ngram=2+tokens=3", "cacheback:4/paper+leader=1", mine]
            o = json.loads(run("compare", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "60", "--methods", ",".join(words), "--json").stdout)
        self.assertEqual([m["method"] for m in o["methods"]], words)
        self.assertTrue(o["equal"])
        drafted = {m["method"]: m["draft_verified"] / m["steps"] for m in o["methods"]}
        self.assertLessEqual(drafted["pld+ngram=2+tokens=3"], 3)
        self.assertLessEqual(drafted["cacheback:4/paper+leader=1"], 3)
        self.assertGreater(drafted["logitspec:9"], 7.5)
        self.assertLessEqual(drafted[mine], 4)

    def test_all_methods(self):
        r = run("compare", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "40", "--methods", "all", "-q")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        for m in "plain logitspec logitspec-paper logit-only retrieval-only pld recycle cacheback suffix lookahead".split():
            self.assertRegex(r.stdout, rf"(?m)^{m} .*(equal|reference)$")

    def test_lossy_is_told_and_is_no_failure(self):
        args = [*SCRIPT, "--prompt", "One fish", "--max-tokens", "100"]
        r = run("compare", *args, "--methods", "plain,logitspec-paper@typical:0:1", "--json")
        self.assertEqual(r.returncode, 0)
        o = json.loads(r.stdout)
        self.assertTrue(o["equal"])  # of the exact ones
        self.assertTrue(o["methods"][1]["lossy"])
        self.assertGreater(o["methods"][1]["tokens_not_chosen"], 2)
        self.assertRegex(run("compare", *args, "--methods", "plain,logitspec-paper@typical:0:1", "-q").stdout, r"LOSSY: \d+ of \d+ tokens")
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            g = json.loads(run("generate", *args, "--method", "logitspec-paper", "--acceptance", "typical:0:1", "--json", "--trace", path).stdout)
            with open(path, encoding="utf-8") as f:
                lines = read_trace(f.read())
        self.assertFalse(g["exact"])
        self.assertEqual(g["acceptance"], "typical:0:1")
        self.assertEqual(lines[0]["acceptance"], "typical:0:1")
        found = []  # the trace says the same: emitted tokens that are not what the target chose
        for s in (x for x in lines if x["type"] == "step" and x["forward"]):
            for k in range(1, len(s["emitted"])):
                if s["nodes"][s["path"][k]]["token"] != s["nodes"][s["path"][k - 1]]["target"]:
                    found.append(s["output_pos"] + k)
        self.assertEqual(g["tokens_not_chosen"], found)
        self.assertGreater(len(found), 2)
        self.assertIn("LOSSY", run("generate", *args, "--method", "logitspec-paper", "--acceptance", "typical:0:1").stderr)
        bare = json.loads(run("generate", *args, "--method", "plain", "--acceptance", "typical:0:1", "--json").stdout)
        self.assertEqual((bare["exact"], bare["guarantee"]), (True, "text"))  # nothing is drafted

    def test_what_a_reflection_judged_is_told(self):
        args = ["--model", "script", "--method", "logitspec-paper", "--max-rows", "24", "--max-tokens", "150",
                "--prompt", "One fish, two fish, red fish, blue fish. One cat, two", "--raw", "--temperature", "0.8", "--seed", "3", "--acceptance", "reflective:1", "--set", "decode.reflection="]
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            p = run("generate", *args, "--json", "--trace", path)
            g = json.loads(p.stdout)
            with open(path, encoding="utf-8") as f:
                steps = [x for x in read_trace(f.read()) if x["type"] == "step"]
            changed = [s for s in steps if any(n.get("own", n["target"]) != n["target"] for n in s["nodes"])]
            shown = run("inspect", path, "--step", str(changed[0]["index"])).stdout
            run("generate", *args, "--acceptance", "exact", "--trace", path, "--quiet")
            exact = run("inspect", path, "--step", "0-9").stdout
        self.assertEqual(g["guarantee"], "none")
        self.assertEqual(g["probe_rows"], sum(s.get("probe_rows", 0) for s in steps))
        self.assertEqual(g["draft_verified"], sum(s["rows"] - 1 for s in steps))  # a probe is no draft
        self.assertTrue(all(s["rows"] == len(s["nodes"]) for s in steps))
        judged = sum("own" in n for n in changed[0]["nodes"])
        self.assertEqual(shown.count(" the target chose "), judged)
        self.assertIn(f"{judged} choice", shown)
        self.assertIn(f"of {changed[0]['rows'] + changed[0]['probe_rows']} rows, {changed[0]['probe_rows']} of them for the probe", shown)
        self.assertIn("with the reflection", shown)
        self.assertFalse(any(word in exact for word in ("Judged", "probe")))
        loose = [s["output_pos"] + k for s in steps for k in range(1, len(s["emitted"]))
                 if s["nodes"][s["path"][k]]["token"] != (lambda n: n.get("own", n["target"]))(s["nodes"][s["path"][k - 1]])]
        self.assertEqual(g["tokens_not_chosen"], loose)
        self.assertTrue(loose)
        greedy = run("generate", *[x if x != "0.8" else "0" for x in args])
        self.assertIn("LOSSY", greedy.stderr)


class Recorded(unittest.TestCase):
    def record(self, d, name, *args):
        path = os.path.join(d, name)
        o = json.loads(run("generate", *SCRIPT, "--json", "--trace", path, *args).stdout)
        with open(path, encoding="utf-8") as f:
            return path, o, [x for x in map(json.loads, f) if x["type"] == "step"]

    def test_inspect_shows_a_step_in_words_and_as_a_tree(self):
        with tempfile.TemporaryDirectory() as d:
            path, _, steps = self.record(d, "a.jsonl", "--prompt", "def fib(n):", "--max-tokens", "60", "--max-rows", "12")
            alone = [run("inspect", path, "--step", str(i), "--ascii").stdout for i in (4, 2, 3)]
            r = run("inspect", path, "--step", "4,2-3", "--ascii")
            self.assertEqual(r.stdout, "\n\n".join(alone))
            first = run("inspect", path, "--ascii").stdout  # with a note which step it is
            self.assertEqual(first, f"step 0 of turn 1, which has steps 0 to {len(steps) - 1}: --step LIST and --turn N show others\n" +
                             run("inspect", path, "--step", "0", "--ascii").stdout)
            with open(path) as f:
                self.assertEqual(run("inspect", "-", "--step", "4,2-3", "--ascii", stdin=f).stdout, r.stdout)
            some = os.path.join(d, "some.jsonl")  # lines of steps are missing: the others keep their numbers
            with open(path, encoding="utf-8") as f, open(some, "w", encoding="utf-8") as to:
                to.writelines(x for x in f if json.loads(x)["type"] != "step" or json.loads(x)["index"] not in (0, 1, 2, 7))
            for i in 3, 6, 8, len(steps) - 1:
                got = run("inspect", some, "--step", str(i), "--ascii")
                self.assertEqual((got.returncode, got.stderr), (0, ""))
                self.assertIn(f"step {i}: root ", got.stdout)
            self.assertIn(f"step 3 of turn 1, which has steps 3 to {len(steps) - 1}", run("inspect", some).stdout)
            for i, what in (2, "the first is 3"), (len(steps), f"there are 3 to {len(steps) - 1}"), (7, "the line of this step is missing"):
                got = run("inspect", some, "--step", str(i))
                self.assertEqual((got.returncode, got.stdout), (2, ""))
                self.assertIn(what, got.stderr)
            n, step = max(enumerate(steps), key=lambda x: len(x[1]["path"]))
            r = run("inspect", path, "--step", str(n), "--ascii")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertIn(f"step {n}: root ", r.stdout)
            taken = len(step["emitted"]) - 1
            self.assertIn(f"; {taken} of {step['rows'] - 1} drafts accepted", r.stdout)
            self.assertIn(f"Tree: {step['rows']} rows, root + {taken} accepted", r.stdout)
            tree = r.stdout[r.stdout.index("\nTree"):]
            self.assertEqual(tree.count("*"), taken + 1)  # accepted nodes by sign
            self.assertNotIn("\x1b", r.stdout)
            for args, what in (([path, "--step", "999"], "there are 0 to"), ([path, "--step", "x"], "expected steps such as"),
                               ([path, "--step", "2-1"], "expected steps such as"), ([path, "--step", "1,"], "expected steps such as"),
                               ([path, "--turn", "3"], "turns 1 to 1"), ([], "TRACE"), (["/nowhere"], "cannot read")):
                r = run("inspect", *args)
                self.assertIn(r.returncode, (1, 2))
                self.assertEqual(r.stderr.count("\n"), 1)
                self.assertIn(what, r.stderr)

    def test_levels_and_compression(self):
        with tempfile.TemporaryDirectory() as d:
            seen, sizes = set(), []
            for level in ("steps", "nodes", "full"):
                path, o, steps = self.record(d, "t.jsonl", "--prompt", "def fib(n):", "--max-tokens", "60", "--max-rows", "9",
                                             "--seed", "1", "--trace-level", level)
                with open(path, encoding="utf-8") as f:
                    lines = read_trace(f.read())
                self.assertEqual(lines[0]["level"], level)
                self.assertEqual([t for s in steps for t in s["emitted"]], o["output_tokens"])
                for s in steps:
                    self.assertEqual("last" in s, level != "steps")
                    self.assertEqual(len(s["nodes"]), len(s["path"]) if level == "steps" else s["rows"])
                    self.assertTrue(all(("p" in n, "top" in n) == (level != "steps", level == "full") for n in s["nodes"]))
                seen.add((sum(s["rows"] for s in steps), o["draft_accepted"]))
                sizes.append(os.path.getsize(path))
                packed, _, _ = path + ".zst", run("generate", *SCRIPT, "-q", "--prompt", "def fib(n):", "--max-tokens", "60", "--max-rows",
                                                  "9", "--seed", "1", "--trace-level", level, "--trace", path + ".zst"), 0
                self.assertLess(os.path.getsize(packed), sizes[-1] / 2)
                drop = lambda text: re.sub(r"[\d.]+ ms \(.*\)", "", text)  # times differ from run to run
                self.assertEqual(drop(run("inspect", packed, "--step", "1-4").stdout), drop(run("inspect", path, "--step", "1-4").stdout))
                self.assertIn(f"recorded with logitspec: MAT {o['mat']:.2f}", run("simulate", packed, "--methods", "pld").stdout)
            self.assertEqual(len(seen), 1)
            self.assertEqual(sizes, sorted(sizes))

    def test_diff_aligns_two_methods(self):
        with tempfile.TemporaryDirectory() as d:
            a, x, sa = self.record(d, "a.jsonl", "--prompt", "def fib(n):", "--max-tokens", "80", "--method", "plain")
            b, y, sb = self.record(d, "b.jsonl", "--prompt", "def fib(n):", "--max-tokens", "80", "--method", "logitspec-paper")
            r = run("diff", a, b)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertIn("the texts are equal, 80 tokens", r.stdout)
            self.assertIn(f"80 tokens in {x['steps']} steps, MAT 1.00", r.stdout)
            self.assertIn(f"80 tokens in {y['steps']} steps, MAT {y['mat']:.2f}", r.stdout)
            self.assertIn(f"steps of both methods begin at {len(sb)} common positions", r.stdout)  # plain decoding begins one everywhere
            widest = max(len(s["emitted"]) for s in sb)
            self.assertRegex(r.stdout, rf"(?m)^\d+-\d+ +{widest} +1 ")
            c, z, _ = self.record(d, "c.jsonl", "--prompt", "def fib(n):", "--max-tokens", "80", "--temperature", "1.5", "--seed", "3")
            part = next(i for i, (p, q) in enumerate(zip(x["output_tokens"], z["output_tokens"])) if p != q)
            self.assertIn(f"the texts differ from output token {part} on: A ", run("diff", a, c).stdout)
            other, _, _ = self.record(d, "d.jsonl", "--prompt", "One fish", "--max-tokens", "20")
            r = run("diff", a, other)
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertIn("have different prompts", r.stderr)
            self.assertEqual(run("diff", a).returncode, 2)

    def test_replay_needs_a_terminal_and_a_trace(self):
        for args, what in (([], "TRACE"), (["x", "--speed", "0"], "--speed"), (["x"], "terminal")):
            r = run("replay", *args)
            self.assertEqual(r.returncode, 2)
            self.assertEqual(r.stderr.count("\n"), 1)
            self.assertIn(what, r.stderr)


class Simulate(unittest.TestCase):
    def test_a_method_on_its_own_trace_is_repeated(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "t.jsonl")
            o = json.loads(run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "150", "--json", "--method", "suffix", "--trace", path).stdout)
            r = run("simulate", path, "--methods", "suffix,pld,logitspec/auto", "--json")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            s = json.loads(r.stdout)
            self.assertEqual(s["recorded_with"], "suffix")
            mine = s["methods"][0]
            self.assertEqual([mine[k] for k in ("steps", "emitted", "mat", "draft_verified", "draft_accepted")],
                             [o[k] for k in ("steps", "emitted", "mat", "draft_verified", "draft_accepted")])
            self.assertEqual(mine["rows_known"], mine["rows"])
            self.assertIsNotNone(mine["estimated_speedup"])
            text = run("simulate", path, path).stdout  # two traces of the same: what was learnt helps the second
            self.assertIn("2 turns, 300 tokens, recorded with suffix", text)
            self.assertRegex(text, r"(?m)^suffix ")
            with open(path, "rb+") as f:
                f.truncate(os.path.getsize(path) - 40)
            r = run("simulate", path, "--methods", "pld")
            self.assertEqual(r.returncode, 0)
            self.assertIn("the last line of a trace is incomplete", r.stderr)

    def test_bad_input(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            f.write('{"type":"step"}\n')
            f.flush()
            for args, what in (([], "TRACE"), (["/nowhere"], "cannot read"), ([f.name], ":1: a 'step' line before any header"), ([f.name, "--methods", "x"], "x")):
                r = run("simulate", *args)
                self.assertIn(r.returncode, (1, 2))
                self.assertEqual(r.stderr.count("\n"), 1)
                self.assertIn(what, r.stderr)


class Tune(unittest.TestCase):
    def test_a_long_method_is_not_cut_where_a_sizing_goes_into_it(self):
        r = run("tune", *SCRIPT, "--prompt", "x", "-q", "--methods", "logitspec+retrieved=off+last_logit=off+remembered=off+read_prompt=0.010")
        self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (2, "", 1))
        self.assertIn("is not METHOD", r.stderr)

    def test_it_writes_a_configuration_that_decodes(self):
        with tempfile.TemporaryDirectory() as d:
            suite, out = os.path.join(d, "s.jsonl"), os.path.join(d, "tuned.yaml")
            with open(suite, "w") as f:
                for p in ("def fib(n):", "One fish", "for i in range"):
                    f.write(json.dumps({"prompt": p}) + "\n")
            r = run("tune", *SCRIPT, "--suite", suite, "--max-tokens", "60", "--out", out, "-q")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            winner = re.search(r"(?m)^fastest: (\S+) \((\d+) simulated, (\d+) run\)(.*)$", r.stdout)
            # ways whose intervals reach into the winner's are not told apart
            rows = re.findall(r"(?m)^(\S+) +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+) - ([\d.]+)$", r.stdout)
            low = {name: float(a) for name, a, _ in rows}[winner[1]]
            for name, _, high in rows:
                if abs(float(high) - low) > 0.02 and name != winner[1]:
                    self.assertEqual(float(high) > low, name in re.split(": |, ", winner[4]), r.stdout)
            self.assertGreater(int(winner[2]), 150)
            self.assertEqual(int(winner[3]), 7)
            self.assertIn(f"use it: logitspec --config {out}", r.stdout)
            measured = {m[0]: float(m[1]) for m in re.findall(r"(?m)^(\S+) +[\d.]+ +([\d.]+) +[\d.]+ ", r.stdout)}
            self.assertEqual(max(measured, key=measured.get), winner[1])
            with open(out) as f:
                text = f.read()
            self.assertIn("method: " + re.split("[:/+]", winner[1])[0], text)
            a = json.loads(run("generate", *SCRIPT, "--prompt", "One fish", "--json", "--max-tokens", "60").stdout)
            b = json.loads(run("generate", *SCRIPT, "--prompt", "One fish", "--json", "--max-tokens", "60", "--config", out).stdout)
            self.assertEqual(a["text"], b["text"])
            self.assertEqual(b["method"], re.split("[:/+]", winner[1])[0])
            only = run("tune", *SCRIPT, "--suite", suite, "--max-tokens", "40", "--methods", "pld,suffix:3", "-q").stdout
            self.assertIn("decode:\n", only)  # without --out: shown
            two = run("tune", *SCRIPT, "--prompt", "One fish", "--max-tokens", "20", "--methods", "pld", "-q").stdout
            self.assertIn("; a confidence interval needs at least 3 prompts", two)
            self.assertIn("(17 simulated", only)
            self.assertNotIn("cacheback", only)

    def test_a_classifier_is_fitted_to_recordings(self):
        with tempfile.TemporaryDirectory() as d:
            def record(name, *args):
                path = os.path.join(d, name)
                run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "60", "--trace", path, *args)
                return path
            wide, packed, plain = record("w.jsonl", "--max-rows", "32"), record("w.jsonl.zst", "--max-rows", "32"), record("p.jsonl", "--method", "pld")
            shown = run("tune", "--fit", "c2t", wide)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertEqual(run("tune", "--fit", "c2t", packed).stdout, shown.stdout)
            with open(wide) as f:
                steps = [s for s in map(json.loads, f) if s["type"] == "step"]
            drafts = [n for s in steps for n in s["nodes"][1:]]
            self.assertIn(f"1 turns, {len(steps)} steps, {len(drafts)} drafted rows,\n# {sum(n['state'] == 'accepted' for n in drafts)} of them accepted",
                          shown.stdout)
            before, after = map(float, re.search(r"row: ([\d.]+) with path estimates alone, ([\d.]+) with", shown.stdout).groups())
            self.assertLess(after, before)
            self.assertIn("  method: logitspec\n", shown.stdout)
            self.assertIn("and other methods;", run("tune", "--fit", "c2t", wide, plain).stdout)
            out = os.path.join(d, "c2t.yaml")
            r = run("tune", "--fit", "c2t", wide, "-o", out)
            self.assertIn(f"use it: logitspec --config {out}", r.stdout)
            with open(out) as f:
                self.assertEqual(f.read(), shown.stdout)
            config = run("config", "show", "--config", out).stdout
            for key in ("sizing: c2t:", "  bias: ", "  path: ", "  estimate: ", "  entropy: ", "  depth: "):
                self.assertEqual(re.findall(f"{key}(\\S+)", config)[-1], re.findall(f"{key}(\\S+)", shown.stdout)[-1])
            a, b = (json.loads(run("generate", *SCRIPT, "--prompt", "One fish", "--json", "--max-tokens", "60", *more).stdout)
                    for more in ([], ["--config", out]))
            self.assertEqual(a["text"], b["text"])
            self.assertNotEqual(a["draft_verified"], b["draft_verified"])
            bare, lossy = record("plain.jsonl", "--method", "plain"), record("l.jsonl", "--acceptance", "typical")
            short = record("s.jsonl", "--max-rows", "4", "--max-tokens", "8")
            for args, what in ((["--fit", "c2t"], "TRACE..."), (["--fit", "auto", wide], "--fit is 'auto', expected c2t"), ([wide], "--fit c2t"),
                               (["--fit", "c2t", "/nowhere"], "cannot read"), (["--fit", "c2t", bare], "no drafts with estimates"),
                               (["--fit", "c2t", record("t.jsonl", "--trace-level", "steps")], "no drafts with estimates"),
                               (["--fit", "c2t", wide, lossy], "lossy acceptance typical"), (["--fit", "c2t", short], "a fit needs 100 rows")):
                r = run("tune", *args)
                self.assertIn(r.returncode, (1, 2), args)
                self.assertEqual((r.stdout, r.stderr.count("\n")), ("", 1), args)
                self.assertIn(what, r.stderr)


class Corpus(unittest.TestCase):
    def test_build_and_draft_from_it(self):
        with tempfile.TemporaryDirectory() as d:
            answer = json.loads(run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "200", "--json").stdout)["text"]
            os.mkdir(os.path.join(d, "texts"))
            for name, data in (("a.txt", answer.encode()), ("b.bin", b"\0\1"), ("empty", b""), (".hidden", b"no")):
                with open(os.path.join(d, "texts", name), "wb") as f:
                    f.write(data)
            path = os.path.join(d, "my.corpus")
            r = run("corpus", "build", os.path.join(d, "texts"), "--out", path, "--model", "script")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertIn("of 1 file ", r.stdout)
            self.assertIn("2 empty or binary files were skipped", r.stdout)
            self.assertIn("script", run("corpus", "info", path).stdout)
            o = json.loads(run("generate", *SCRIPT, "--prompt", "def fib(n):", "--max-tokens", "200", "--json", "--method", "rest",
                               "--set", f"rest.corpus={path}").stdout)
            self.assertEqual(o["text"], answer)
            self.assertGreater(o["mat"], 4)  # it has seen the answer

    def test_bad_input(self):
        with tempfile.TemporaryDirectory() as d:
            for name, data in (("binary", b"a\0b"), ("empty", b"")):
                with open(os.path.join(d, name), "wb") as f:
                    f.write(data)
            out = os.path.join(d, "c")
            for args, what in ((["build", "--out", out], "usage:"), (["build", "x"], "usage:"), (["build", "/nowhere", "--out", out], "No such file"),
                               (["build", os.path.join(d, "binary"), "--out", out], "binary"), (["build", os.path.join(d, "empty"), "--out", out], "empty"),
                               (["build", d, "--out", out], "no text"), (["info", os.path.join(d, "binary")], "not a corpus"), (["sort"], "corpus build"), ([], "corpus build")):
                r = run("corpus", *args, *(["--model", "script"] if args[:1] == ["build"] else []))
                self.assertIn(r.returncode, (1, 2), args)
                self.assertEqual(r.stderr.count("\n"), 1)
                self.assertIn(what, r.stderr)
                self.assertFalse(os.path.exists(out))


class Other(unittest.TestCase):
    def test_drafters_alone_in_another_engine(self):
        r = subprocess.run([os.path.join(BUILD, "embed")], capture_output=True, text=True, timeout=30)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertRegex(r.stdout, r"0 differ from plain decoding")
        self.assertGreater(float(r.stdout.split("MAT ")[1].split(";")[0]), 1.5)

    def test_help_and_version(self):
        for args in ["--help"], ["generate", "--help"], ["chat", "-h"], ["--version"], ["-V"]:
            r = run(*args)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertTrue(r.stdout)
        self.assertIn("--max-rows", run("generate", "--help").stdout)

    def test_config_show_has_origins(self):
        r = run("config", "show", "--max-rows", "9", env={"LOGITSPEC_SET_DECODE__TOP_K": "4"})
        self.assertRegex(r.stdout, r"max_rows: 9 +# --max-rows")
        self.assertRegex(r.stdout, r"top_k: 4 +# environment LOGITSPEC_SET_DECODE__TOP_K")
        self.assertRegex(r.stdout, r"method: logitspec +# .*default.yaml:\d+:\d+")

    def test_doctor(self):
        r = run("doctor", *SCRIPT, "--json")
        checks = {c["check"]: c for c in json.loads(r.stdout)}
        self.assertTrue(checks["model"]["ok"])
        self.assertEqual(r.returncode, 0 if checks["compute"]["ok"] else 1)
        self.assertEqual(r.returncode, int(any(c["needed"] and not c["ok"] for c in checks.values())))
        lines = run("doctor", *SCRIPT).stdout.splitlines()
        self.assertEqual(list(dict.fromkeys(line[9:].split("  ")[0].rstrip() for line in lines)), list(checks))  # measurements are several
        self.assertEqual((checks["program"]["processors"], checks["program"]["version"] in lines[0]), (os.cpu_count(), True))
        self.assertGreater(checks["program"]["memory_bytes"], checks["program"]["free_bytes"])

    def test_drafts_outlive_a_run(self):
        """Only generate and chat use the default file; the answer is the same with it."""
        with tempfile.TemporaryDirectory() as d:
            env, drafts = {"XDG_STATE_HOME": d, "LOGITSPEC_SET_LOGITSPEC__FILE": "auto"}, os.path.join(d, "logitspec", "drafts")

            def generate(*flags):
                r = run("generate", *SCRIPT, "--prompt", "One fish", "--max-tokens", "40", "--max-rows", "4", "--trace", d + "/t", *flags, env=env)
                with open(d + "/t", encoding="utf-8") as f:
                    lines = [json.loads(line) for line in f]
                return r.stdout, lines[0].get("memory"), sum(o["type"] == "step" for o in lines)

            def kept():
                checks = json.loads(run("doctor", *SCRIPT, "--json", env=env).stdout)
                return next(c["detail"] for c in checks if c["check"] == "drafts")
            self.assertIn("nothing of earlier answers is kept", kept())
            self.assertEqual(run("compare", *SCRIPT, "--prompt", "One fish", "--methods", "logitspec", "--max-tokens", "9", env=env).returncode, 0)
            text, memory, steps = generate("--private")
            self.assertFalse(os.path.exists(drafts))
            self.assertEqual(generate(), (text, None, steps))
            with open(glob.glob(drafts + "/*")[0], "rb") as f:
                before = f.read()
            self.assertEqual(generate("--private"), (text, None, steps))
            with open(glob.glob(drafts + "/*")[0], "rb") as f:
                self.assertEqual(f.read(), before)
            again, memory, fewer = generate()
            self.assertEqual(again, text)
            self.assertRegex(memory, "^[0-9a-f]{16}$")
            self.assertLess(fewer, steps)
            self.assertEqual([os.stat(os.path.join(drafts, f)).st_mode & 0o777 for f in os.listdir(drafts)], [0o600])
            self.assertRegex(kept(), r"^1 file of earlier answers, 0\.0 MB, the newest of \d{4}-\d\d-\d\d")
            r = run("doctor", *SCRIPT, "--forget-drafts", env=env)
            self.assertIn("1 of 1 file of earlier answers removed", r.stdout)
            self.assertEqual(generate(), (text, None, steps))

    def test_bigrams_are_asked_once_and_used(self):
        with tempfile.TemporaryDirectory() as d:
            env = {"XDG_CACHE_HOME": d}

            def generate(*flags):
                r = run("generate", *SCRIPT, "--prompt", "One fish", "--max-tokens", "40", "--max-rows", "4", "--trace", d + "/t", *flags, env=env)
                self.assertEqual(r.returncode, 0, r.stderr)
                with open(d + "/t", encoding="utf-8") as f:
                    lines = [json.loads(line) for line in f]
                return r.stdout, lines[0].get("memory"), sum(o["type"] == "step" for o in lines)
            text, memory, steps = generate()
            self.assertIsNone(memory)
            r = run("doctor", *SCRIPT, "--bigrams", env=env)
            found = re.search(r"ok       bigrams +what script chooses after each of (\d+) tokens, in [\d.]+ s: (\S+)", re.sub(r"\n +", " ", r.stdout))
            path = found[2]
            self.assertEqual((r.returncode, os.stat(path).st_mode & 0o777), (0, 0o600))
            again, memory, others = generate()
            self.assertEqual(again, text)
            self.assertRegex(memory, "^[0-9a-f]{16}$")
            self.assertEqual(generate("--private"), (again, memory, others))  # they hold nothing of the user
            self.assertEqual(generate("--set", "logitspec.bigrams=none"), (text, None, steps))
            r = run("compare", *SCRIPT, "--prompt", "One fish", "--max-tokens", "9", "--methods", "logitspec", "-o", d + "/b.json", env=env)
            with open(d + "/b.json", encoding="utf-8") as f:
                self.assertEqual(json.load(f)["manifest"]["memory"], memory)
            r = run("generate", *SCRIPT, "--prompt", "x", "--set", "logitspec.bigrams=" + __file__, env=env)
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertIn("not a bigram-table of drafts", r.stderr)
            os.truncate(path, 200)
            r = run("generate", *SCRIPT, "--prompt", "One fish", "--max-tokens", "40", "--max-rows", "4", env=env)
            self.assertEqual((r.returncode, r.stdout), (0, text))
            self.assertIn("cut short; it is not used: doctor --bigrams writes it anew", r.stderr)
            r = run("doctor", *SCRIPT, "--bigrams", env={"XDG_CACHE_HOME": "/proc/nowhere"})
            self.assertEqual(r.returncode, 1)
            self.assertIn("MISSING  bigrams", r.stdout)

    def test_version(self):
        first, compute, libraries, built = run("--version").stdout.splitlines()
        self.assertRegex(first, r"^logitspec \d+\.\d+\.\d+$")
        for name in "ncurses", "libyaml", "PCRE2", "utf8proc", "OpenSSL", "jansson", "libmicrohttpd", "zstd", "glibc":
            self.assertRegex(libraries, name + r" \d+\.\d+")
        self.assertRegex(built, r"^built by (gcc|clang) \d+")
        self.assertRegex(compute, r"^CPU kernels for \w+, " + (r"libtorch \d+\.\d+\.\d+$" if HAS_TORCH else "no libtorch$"))
        with tempfile.TemporaryDirectory() as d:  # the reason is that of the library which is there
            shutil.copy(PROGRAM, d + "/logitspec")
            env = {k: v for k, v in ENV.items() if not k.startswith("LOGITSPEC_LSTORCH")}
            for made, why in ((False, r"no such file"), (True, r"[^()]*liblstorch\.so: [a-z ]*file[a-z ]*")):
                if made:
                    with open(d + "/liblstorch.so", "w", encoding="ascii") as f:
                        f.write("no library")
                r = subprocess.run([d + "/logitspec", "doctor", "--json"], env=env, capture_output=True, text=True, check=False)
                self.assertRegex(r.stdout, r"needs the library liblstorch\.so, which cannot be loaded \(" + why + r"\): run 'make torch'")
        r = run("--version", env={"LOGITSPEC_LSTORCH": "/nowhere.so"})
        self.assertEqual((r.returncode, r.stdout.count("\n")), (0, 4))
        self.assertRegex(r.stdout, r"\nCPU kernels for \w+, no libtorch\n")

    @needs_model
    def test_doctor_checks_the_context(self):
        def context(*args):
            r = run("doctor", "--device", "cpu", *args, "--json")
            return next(c for c in json.loads(r.stdout) if c["check"] == "context"), r.returncode
        whole, code = context("--context", "8192")
        half, _ = context("--context", "4096")
        self.assertEqual((code, whole["ok"], whole["kv_bytes"]), (0, True, 2 * half["kv_bytes"]))
        self.assertEqual(whole["weight_bytes"], json.loads(run("models", "info", MODEL, "--json").stdout)["model"]["weight_bytes"]["auto"])
        more, code = context("--context", "8193")
        self.assertEqual((code, more["ok"]), (1, False))
        self.assertIn("use --context 8192 or less", more["detail"])
        wider, _ = context("--context", "8192", "--weights", "f32")
        self.assertGreater(wider["weight_bytes"], 3 * whole["weight_bytes"])

    def test_bench_in_every_form(self):
        with tempfile.TemporaryDirectory() as d:
            o = json.loads(run("bench", "--model", "script:2", "--json").stdout)
            cells = {(c["what"], c["context"], c["rows"]): c for c in o["results"]}
            self.assertEqual(len(cells), len(o["results"]))
            self.assertEqual({rows for what, _, rows in cells if what == "forward"}, {1, 2, 4, 8, 16, 32, 64})
            for c in o["results"]:
                self.assertTrue(0 < c["low_ms"] <= c["median_ms"] <= c["high_ms"])
            self.assertGreaterEqual(cells["forward", 64, 1]["low_ms"], 2)  # that long the fake model sleeps
            self.assertEqual(cells["forward", 64, 1]["of_one_row"], 1)
            for name, first in [("b.md", "script"), ("b.csv", "model,device")]:
                path = os.path.join(d, name)
                self.assertEqual(run("bench", *SCRIPT, "-q", "-o", path).returncode, 0)
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                self.assertTrue(text.startswith(first), text)
                self.assertEqual(text.count("forward"), sum(what == "forward" for what, _, _ in cells))
            r = run("bench", *SCRIPT, "-o", os.path.join(d, "b.txt"))
            self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))


class Templates(unittest.TestCase):
    """`models template`: what a chat template makes of a conversation, without a model."""

    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)

    def file(self, name, text):
        path = os.path.join(self.tmp.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_it_prints_what_the_reference_writes(self):
        template, n, refused = None, 0, 0
        with open(os.path.join(ROOT, "tests/vectors/chat.jsonl"), encoding="utf-8") as f:
            for o in map(json.loads, f):
                template = o if "template" in o else template
                if "conversation" not in o or not o["conversation"]["messages"][0]["content"]:
                    continue
                if template["template"] not in ("smollm2", "gemma-2", "gpt-oss", "qwen3.5", "mistral-small-3.2"):
                    continue
                given = json.dumps({"bos_token": template["bos"], "eos_token": template["eos"], "add_generation_prompt": True,
                                    **o["conversation"]})
                r = run("models", "template", os.path.join(ROOT, f"tests/vectors/chat/{template['template']}.jinja"), "--messages", "-",
                        input=given)
                if o["want"] is None:
                    self.assertEqual((r.returncode, r.stdout), (2, ""))
                    self.assertRegex(r.stderr, r"^logitspec: .*\.jinja: line \d+: .+\n$")
                    refused += 1
                else:
                    self.assertEqual((r.returncode, r.stdout, r.stderr), (0, o["want"], ""))
                n += 1
        self.assertTrue(n > 30 and refused)

    def test_marks_and_mistakes(self):
        t = self.file("t.jinja", "<|{{ messages[0].role }}|>{{ messages[0].content | upper }}<|end|>{{ x }}")
        m = self.file("m.json", '{"messages": [{"role": "user", "content": "<|end|>"}], "x": "y"}')
        r = run("models", "template", t, "--messages", m, "--marks")
        self.assertEqual((r.returncode, r.stdout), (0, "<|user|>\u27e6<|END|>\u27e7<|end|>y"))
        for args, words in (((t,), "--messages"), ((self.file("b.jinja", "a\n{% if %}"), "--messages", m), "b.jinja: line 2: "),
                            ((t, "--messages", self.file("b.json", "{")), "not JSON"), ((t, "--messages", "/nonexistent"), "No such file"),
                            ((t, "--messages", self.file("l.json", "[]")), "an object"), (("/nonexistent", "--messages", m), "nonexistent")):
            r = run("models", "template", *args)
            self.assertNotEqual(r.returncode, 0)
            self.assertEqual((r.stdout, r.stderr.count("\n")), ("", 1))
            self.assertIn(words, r.stderr)

    @needs_model
    def test_variables_reach_the_template(self):
        t = self.file("t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}{{ who }}{% if n | length == 1 %}{% endif %}")
        texts = [json.loads(run("tokenize", "--model", "default", "--chat", "--json", "--prompt", "Hi", "--template", t,
                                "--template-set", f"who={who}", "--template-set", "n=[1]").stdout)["ids"] for who in ("<|im_end|>", "you")]
        plain = json.loads(run("tokenize", "--model", "default", "--raw", "--json", "--prompt", "Hi<|im_end|>").stdout)["ids"]
        self.assertEqual(texts[0], plain)  # the template's own tokens are tokens
        self.assertNotEqual(texts[0], texts[1])
        r = run("tokenize", "--model", "default", "--chat", "--prompt", "Hi", "--template", t, "--template-set", "n=3")
        self.assertEqual((r.returncode != 0, r.stderr.count("\n")), (True, 1))
        self.assertIn("object of type 'int' has no len()", r.stderr)
        r = run("tokenize", "--model", "default", "--chat", "--json", "--prompt", "Hi", "--template", t,
                "--template-set", "who=I", "--template-set", "n=[1]", "--template-set", "who=you")
        self.assertEqual(json.loads(r.stdout)["ids"], texts[1])  # the last value of a name counts


@needs_model
class RealModel(unittest.TestCase):
    @unittest.skipUnless(os.path.exists("/proc/self/schedstat"), "needs:a kernel that counts waits for processors")
    def test_a_busy_machine_is_told(self):
        """Everything on one processor, beside a program that never rests: about half of the time is waiting."""
        cpu = {min(os.sched_getaffinity(0))}
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, cpu)) for _ in range(2)]
        self.addCleanup(lambda: [(p.kill(), p.wait()) for p in busy])
        r = run("compare", "--prompt", "Count to twelve.", "--max-tokens", "8", "--methods", "plain,pld:4", "--threads", "1", "--json",
                preexec_fn=lambda: os.sched_setaffinity(0, cpu))
        self.assertEqual(json.loads(r.stdout)["disturbed_prompts"], 1)
        r = run("generate", "--prompt", "Count to twelve.", "--max-tokens", "48", "--method", "pld", "--max-rows", "4", "--threads", "1", "--json",
                preexec_fn=lambda: os.sched_setaffinity(0, cpu))
        self.assertGreater(json.loads(r.stdout)["cpu_wait"], 0.1)

    def test_tokens_steps_and_a_measured_speedup(self):
        r = run("generate", "--model", "default", "--prompt", "Repeat: one fish, two fish, red fish, blue fish.", "--chat",
                "--method", "logitspec", "--max-tokens", "60", "--json")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        o = json.loads(r.stdout)
        Generate.check_object(self, o)
        self.assertTrue(o["exact"])
        self.assertIn(o["dtype"], ("f32", "i8"))  # auto: by what the CPU has
        self.assertEqual(len(o["sha256"]), 64)
        if o["speedup"] is not None:  # a busy machine may leave it unknown, and the text then has '?'
            self.assertGreater(o["speedup"], 0)
        self.assertGreater(o["ar_tokens_per_s"], 0)
        ar = json.loads(run("generate", "--prompt", "Repeat: one fish, two fish, red fish, blue fish.", "--method", "plain",
                            "--max-tokens", "60", "--json").stdout)
        self.assertEqual(ar["output_tokens"], o["output_tokens"])
        self.assertEqual(ar["mat"], 1)

    def test_bf16_runs(self):
        o = json.loads(run("generate", "--prompt", "What is the capital of France?", "--dtype", "bf16", "--json").stdout)
        self.assertTrue(o["exact"])
        self.assertEqual(o["dtype"], "bf16")
        self.assertIn("Paris", o["text"])

    def test_how_keys_and_values_are_kept(self):
        def told(*args):
            o = json.loads(run("generate", "--prompt", "What is the capital of France?", "--max-tokens", "8", *args, "--json").stdout)
            return o["dtype"], o["text"]
        usual, text = told("--dtype", "bf16")
        self.assertEqual((usual, told("--dtype", "bf16", "--kv", "bf16")), ("bf16", (usual, text)))
        self.assertEqual(told("--dtype", "bf16", "--kv", "f32")[0], "bf16 kv f32")
        self.assertEqual([told("--dtype", "f32", "--kv", kv)[0] for kv in ("auto", "f32", "bf16")], ["f32", "f32", "f32 kv bf16"])
        self.assertEqual(told("--weights", "q8", "--dtype", "f32", "--kv", "bf16")[0], "q8 f32 kv bf16")
        r = run("generate", "--device", "cpu", "--prompt", "x", "--kv", "f16")
        self.assertEqual((r.returncode, r.stderr.count("\n")), (2, 1))
        self.assertIn("expected one of auto, f32, bf16", r.stderr)

    def test_cpu_levels(self):
        def compute(level):
            r = run("doctor", "--json", env={"LOGITSPEC_CPU": level})
            return {c["check"]: (c["ok"], c["detail"]) for c in json.loads(r.stdout)}["compute"]
        self.assertIn("several times slower", compute("portable")[1])
        self.assertEqual(compute("nonsense")[0], False)
        self.assertEqual(cpu_levels()[-1], "portable")
        r = run("generate", "--prompt", "x", env={"LOGITSPEC_CPU": "nonsense"})
        self.assertEqual((r.returncode, r.stderr.count("\n")), (1, 1))
        self.assertIn("is not a CPU level", r.stderr)
        # another level, the same greedy text in f32: sums differ in their last bits only
        texts = {run("generate", "--prompt", "The capital of France is", "--raw", "--dtype", "f32", "--max-tokens", "4", "-q",
                     env={"LOGITSPEC_CPU": level}).stdout for level in (*cpu_levels()[-2:], "")}
        self.assertEqual(len(texts), 1)

    def test_doctor_measures_costs(self):
        o = json.loads(run("doctor", "--calibrate", "--json", env={"LOGITSPEC_SET_MODEL__THREADS": "0", "LOGITSPEC_PROCESSORS": "3"}).stdout)
        detail = {c["check"]: c["detail"] for c in o}["costs"]
        self.assertRegex(detail, r"^i8, [123] threads?, ")
        self.assertRegex(detail, r"one row \d+\.\d+ ms at 256 tokens of context; 2 rows x\d")
        self.assertRegex(detail, r"64 rows x\d")

    def test_what_is_measured_is_kept_shown_and_forgotten(self):
        with tempfile.TemporaryDirectory() as d:
            env = {"LOGITSPEC_SET_DECODE__COSTS": "auto", "XDG_CACHE_HOME": d}

            def measured(*args):
                checks = json.loads(run("doctor", "--json", *args, env=env).stdout)
                return [c for c in checks if c["check"] == "measured"]

            self.assertIn("nothing yet", measured()[0]["detail"])
            r = run("generate", "--raw", "--prompt", "One, two,", "--max-tokens", "3", env=env)
            self.assertEqual(r.returncode, 0, r.stderr)
            (c,) = measured()  # the answer did not wait
            self.assertEqual((c["what"], c["how"]), ("costs", "briefly"))
            self.assertIn("measured again when idle", c["detail"])
            script = os.path.join(d, "s")
            with open(script, "w", encoding="utf-8") as f:
                f.write("wait READY\n" + "pause 1\n" * 300)
            screen = subprocess.Popen([PROGRAM, "--script", script], env={**ENV, **env}, stdout=subprocess.DEVNULL)
            end = time.monotonic() + 120
            while measured()[0]["how"] == "briefly" and time.monotonic() < end:  # on the screen nobody asks for anything
                time.sleep(0.2)
            screen.kill()
            screen.wait()
            self.assertIn(measured()[0]["how"], ("busy", "quietly"))
            self.assertIn("1 measurement removed", measured("--forget")[0]["detail"])
            self.assertIn("nothing yet", measured()[0]["detail"])

    def test_threads_are_measured_once_where_nobody_says(self):
        with tempfile.TemporaryDirectory() as d:
            env = {"LOGITSPEC_SET_MODEL__THREADS": "0", "LOGITSPEC_PROCESSORS": "5", "XDG_CACHE_HOME": d}

            def threads(*args):
                r = run("generate", "--raw", "--prompt", "One, two,", "--max-tokens", "3", "--method", "plain", *args, env=env)
                self.assertEqual(r.returncode, 0, r.stderr)
                return r.stdout, int(re.search(r" on cpu, (\d) thread", r.stderr).group(1))

            text, n = threads()
            kept = glob.glob(d + "/logitspec/costs/*")
            if kept:  # else the machine was busy
                with open(kept[0], encoding="utf-8") as f:
                    lines = f.readlines()
                self.assertEqual((lines[0], lines[3:]), ("logitspec-threads 3\n", [f"threads {n}\n"]))
                self.assertRegex(lines[2], r"^measured \d+ (busy|quietly)$")
                with open(kept[0], "w", encoding="utf-8") as f:
                    f.writelines([*lines[:3], "threads 4\n"])
                self.assertEqual(threads(), (text, 4))
            else:
                self.assertEqual(n, 5)
            self.assertEqual(threads("--threads", "3"), (text, 3))
            r = run("generate", "--raw", "--prompt", "a", "--max-tokens", "1", "--context", "2", "--method", "plain", "--dtype", "i16", env=env)
            self.assertEqual(r.returncode, 0, r.stderr)  # no room for what would be timed
            self.assertIn(" on cpu, 5 threads", r.stderr)

    def test_damaged_model_files(self):
        with open(MODEL, "rb") as f:
            head = f.read(3 << 20)
        with tempfile.NamedTemporaryFile("wb", suffix=".gguf") as f:
            f.write(head)
            f.flush()
            r = run("generate", "--model", f.name, "--prompt", "x")
            self.assertEqual(r.returncode, 1)
            self.assertEqual(r.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
