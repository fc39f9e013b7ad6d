"""Files that change while they are used: another file in the place of a model, a corpus that is cut, a saved text that two
programs write. What a trace says of a file must be true of the bytes that were used, and nothing may end the program."""
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
import unittest

from program import ENV, PROGRAM, Folder, run
from test_folders import folder



def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class Models(Folder):
    """Two folders of equal sizes; each model writes a text of its own."""
    def setUp(self):
        super().setUp()
        self.env = {"XDG_CACHE_HOME": self.path("cache")}
        self.model = folder(self.folder, "llama3", "sp_llama.model")
        self.weights = os.path.join(self.model, "model.safetensors")
        shutil.copy(self.weights, self.path("a"))
        with open(self.path("a"), "rb") as f:
            data = bytearray(f.read())
        for i in range(len(data) // 2 - len(data) // 2 % 4, len(data), 4):  # weights of f32: other signs
            data[i + 3] ^= 0x80
        with open(self.path("b"), "wb") as f:
            f.write(data)
        self.texts = {}
        for name in ("a", "b"):
            self.put(name)
            said, text = self.generate()
            self.assertEqual(said, self.sum())
            self.texts[said] = text
        self.assertEqual(len(set(map(str, self.texts.values()))), 2)
        self.put("a")

    def put(self, name):
        """One of the two becomes the model's, with the same times whichever it is."""
        shutil.copy(self.path(name), self.path("new"))
        os.utime(self.path("new"), (1000000000, 1000000000))
        os.replace(self.path("new"), self.weights)

    def sum(self):
        files = [self.weights, os.path.join(self.model, "config.json")]
        return hashlib.sha256("".join(f"{sha256(f)}  {os.path.basename(f)}\n" for f in files).encode()).hexdigest()

    def generate(self):
        """The sum that the trace names, and the tokens."""
        r = run("generate", "--model", self.model, "--prompt", "ab", "--raw", "--max-tokens", "8", "--trace", self.path("t.jsonl"),
                env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(self.path("t.jsonl"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        return lines[0]["model"]["sha256"], [line["emitted"] for line in lines if line["type"] == "step"]

    def test_another_file_of_equal_size_and_time(self):
        time.sleep(3.1)  # sums of files that just changed are not kept
        first, _ = self.generate()
        self.put("b")
        second, text = self.generate()
        self.assertEqual(second, self.sum())
        self.assertNotEqual(first, second)
        self.assertEqual(text, self.texts[second])

    def test_written_in_place_with_its_time_set_back(self):
        time.sleep(3.1)
        st = os.stat(self.weights)
        self.generate()
        with open(self.path("b"), "rb") as b, open(self.weights, "r+b") as f:
            f.write(b.read())
        os.utime(self.weights, ns=(st.st_atime_ns, st.st_mtime_ns))
        self.assertEqual(self.generate(), (self.sum(), self.texts[self.sum()]))

    def test_a_sum_that_was_kept_is_used(self):
        time.sleep(3.1)
        right, _ = self.generate()
        kept = os.path.join(self.path("cache/logitspec/sha256"), *os.listdir(self.path("cache/logitspec/sha256")))
        with open(kept, "r+", encoding="ascii") as f:
            self.assertTrue(f.read().startswith(sha256(self.weights)))
            f.seek(0)
            f.write("0" * 64)
        self.assertNotEqual(self.generate()[0], right)

    def test_moved_while_it_is_loaded(self):
        stop = threading.Event()

        def swap():
            n = 0
            while not stop.is_set():
                n += 1
                self.put("ab"[n % 2])
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            for _ in range(12):
                said, text = self.generate()
                self.assertEqual(text, self.texts[said])
        finally:
            stop.set()
            thread.join()

    def test_pinned_files(self):
        names = ["model.safetensors", "config.json", "tokenizer.model"]
        paths = {n: os.path.join(self.model, n) for n in names}
        with open(os.path.join(self.model, "logitspec.lock"), "w", encoding="utf-8") as f:
            json.dump({"format": 1, "wanted": [], "files": [
                {"name": n, "size": os.path.getsize(p), "sha256": sha256(p), "mtime_ns": os.stat(p).st_mtime_ns}
                for n, p in paths.items()]}, f)
        self.generate()
        for name, path in paths.items():
            shutil.copy2(path, self.path("old"))
            st = os.stat(path)
            with open(path, "r+b") as f:
                f.seek(-2, os.SEEK_END)
                f.write(b" " if name == "config.json" else b"?")
            os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
            r = run("generate", "--model", self.model, "--prompt", "ab", "--max-tokens", "1", env=self.env)
            self.assertEqual(r.returncode, 1, name + r.stderr)
            self.assertIn(f"{name} differs from the verified file", r.stderr)
            shutil.copy2(self.path("old"), path)
        self.generate()


class FullConversations(Folder):
    """A conversation that filled its context is saved, loaded, saved again and edited like any other."""
    def chat(self, model, *lines):
        r = run("chat", "--plain", "--raw", "--model", model, "--context", "100", "--max-tokens", "500", input="".join(f"{x}\n" for x in lines))
        return r, [line for line in r.stdout.splitlines() if line.startswith(("turn", "end", "note"))]

    def check(self, model):
        full = 0
        for n in range(1, 6):
            saved, again = self.path("saved.jsonl"), self.path("again.jsonl")
            r, _ = self.chat(model, "def f" + "x" * n, f":save {saved}")
            if "end (context)" not in r.stdout:
                continue
            full += 1
            self.assertIn("note: saved", r.stdout)
            r, _ = self.chat(model, f":load {saved}", "y" * 120, f":save {again}")
            self.assertIn("shorten it, increase --context, or start a new conversation", r.stderr)
            self.assertNotIn("the conversation has", r.stderr)
            with open(saved, "rb") as a, open(again, "rb") as b:
                self.assertEqual(a.read(), b.read())
            r, said = self.chat(model, f":load {saved}", ":regenerate")
            ends = [line for line in said if line.startswith("end (context)")]
            self.assertEqual([line.split(",")[0] for line in ends], 2 * [ends[0].split(",")[0]])
            r = run("chat", "--plain", "--raw", "--model", model, "--context", "50", input=f":load {saved}\n")
            self.assertRegex(r.stderr, r"the conversation has (\d+) tokens, but the context has 50: start with --context \1")
        self.assertGreater(full, 0)

    def test_the_scripted_model(self):
        self.check("script")

    def test_a_model(self):
        self.check(folder(self.folder, "llama3", "sp_llama.model"))


class CutFiles(Folder):
    def chat(self, lines, meanwhile, *args):
        """The steps of answers to each line, with something done after the first began."""
        p = subprocess.Popen([PROGRAM, "chat", "--plain", "--model", "script", *args], env=ENV, text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        try:
            p.stdin.write(lines[0] + "\n")
            p.stdin.flush()
            said = os.read(p.stdout.fileno(), 1).decode()  # read() would take more than it gives, and communicate() miss it
            meanwhile()
            rest, errors = p.communicate("".join(line + "\n" for line in lines[1:]), timeout=120)
        finally:
            p.kill()
        return p.returncode, [line for line in (said + rest).splitlines() if line.startswith("step ")], errors

    def test_a_corpus(self):
        lines, corpus = ["def fib(n):", "once more", "and again"], self.path("corpus")
        with open(self.path("text"), "w") as f:
            f.write("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n" * 500)
        undisturbed = None
        for change in (lambda: None, lambda: os.truncate(corpus, 0), lambda: os.truncate(corpus, 5000),
                       lambda: os.unlink(corpus), lambda: shutil.copy(PROGRAM, corpus)):
            r = run("corpus", "build", self.path("text"), "--out", corpus, "--model", "script")
            self.assertEqual(r.returncode, 0, r.stderr)
            got = self.chat(lines, change, "--method", "rest", "--set", "rest.corpus=" + corpus)
            self.assertEqual((got[0], got[2]), (0, ""))
            undisturbed = undisturbed or got
            self.assertEqual(got, undisturbed)


if __name__ == "__main__":
    unittest.main()
