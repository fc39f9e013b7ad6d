"""`help`, the pages of the manual and the completions: they come from the program's tables, so they hold all that those hold."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from program import PROGRAM, ROOT, run

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import pages  # noqa: E402

PAGES = ["configuration", "keys", "methods", "scripts", "trace"]


def table(path, macro, place):
    """A column of a table of the sources: the words in quotation marks count, after the macro's first `place` arguments."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return re.findall(rf"^{macro}\({place}\"([^\"]+)\"", f.read(), re.M)


COMMANDS = re.findall(r"^COMMAND\((\w+),", open(os.path.join(ROOT, "src/cli/commands.def"), encoding="utf-8").read(), re.M)
KEYS = table("src/cli/options.def", "OPTION", r"\w+, \w+, ")
FLAGS = table("src/cli/options.def", "OPTION", r"\w+, \w+, \"[^\"]+\", ") + table("src/cli/flags.def", "FLAG", r"\w+, \w+, ") + \
    table("src/cli/flags.def", "KEYED", "")
ACTIONS = table("ui/actions.def", "ACTION", r"\w+, ")
METHODS = table("src/spec/methods.def", "METHOD", "")
FIELDS = table("src/trace/trace_fields.def", "(?:FIELD|TOLD)", r"\w+, ")


def roff(text):
    """What stands in a man page for a text."""
    return text.replace("-", "\\-").replace("'", "\\(aq")


class Manual(unittest.TestCase):
    def page(self, *args):
        r = run("help", *args)
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return r.stdout

    def test_help_is_what_the_flag_prints(self):
        self.assertEqual(self.page(), run("--help").stdout)
        self.assertGreater(len(COMMANDS), 15)
        for c in COMMANDS:
            self.assertEqual(self.page(c), run(c, "--help").stdout)
            self.assertIn(f"\n  {c}", self.page())
        for p in PAGES:
            self.assertIn(f"\n  {p}", self.page())

    def test_every_row_of_a_table_is_on_its_page(self):
        for page, words in (("configuration", KEYS), ("keys", ACTIONS), ("methods", METHODS), ("trace", FIELDS)):
            self.assertGreater(len(words), 10)
            for form in "text", "man", "md":
                text = self.page(page, "--as", form)
                for word in words:
                    self.assertIn(roff(word) if form == "man" else word, text, (page, form))
        whole = self.page("--as", "man")
        self.assertGreater(len(FLAGS), 50)
        for word in ["--" + f for f in FLAGS] + ["logitspec " + c for c in COMMANDS]:
            self.assertIn(roff(word), whole)

    def test_what_pages_and_configs_of_this_tree_take_from_the_tables_is_fresh(self):
        for path, text in pages.fresh(PROGRAM):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                self.assertEqual(text, f.read(), "tests/tools/pages.py build writes it")

    def test_every_variable_that_the_sources_read_is_told(self):
        text = " ".join(self.page("--as", "text").split())
        read = set()
        for folder in "src", "ui":
            for where, _, files in os.walk(os.path.join(ROOT, folder)):
                for name in files:
                    if name.endswith((".c", ".cpp")):
                        with open(os.path.join(where, name), encoding="utf-8") as f:
                            read.update(re.findall(r'(?:getenv\(|, )"((?:LOGITSPEC|XDG)_[A-Z_]+)"', f.read()))
        self.assertGreater(len(read), 8)
        for name in read - {"XDG_CACHE"}:
            self.assertIn(name, text)

    def test_pages_of_a_manual_are_read_by_groff(self):
        if not shutil.which("groff"):
            self.skipTest("needs:groff")
        for p in [""] + PAGES:
            page = self.page(*filter(None, [p]), "--as", "man")
            r = subprocess.run(["groff", "-k", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
            self.assertEqual((r.returncode, r.stderr), (0, ""), p)
            self.assertIn("logitspec" + ("-" + p if p else ""), r.stdout)

    def test_mistakes_are_one_line(self):
        for args, message in ((["help", "generat"], "no help on 'generat' (did you mean 'generate'?)"),
                              (["help", "xyzzy"], "no help on 'xyzzy' ('logitspec help' lists all)"),
                              (["help", "keys", "--as", "pdf"], "--as pdf: expected one of text, man, md"),
                              (["help", "a", "b"], "takes one command or page"),
                              (["help", "chat", "--as", "man"], "'chat' is a command"),
                              (["completion"], "usage: logitspec completion bash|zsh|fish"),
                              (["completion", "ksh"], "usage: logitspec completion bash|zsh|fish")):
            r = run(*args)
            self.assertEqual((r.returncode, r.stdout, r.stderr.count("\n")), (2, "", 1), args)
            self.assertIn(message, r.stderr)

    def test_a_broken_configuration_does_not_keep_from_help(self):
        with tempfile.TemporaryDirectory() as d:
            os.mkdir(d + "/logitspec")
            with open(d + "/logitspec/config.yaml", "w", encoding="utf-8") as f:
                f.write("decode: [")
            env = {"XDG_CONFIG_HOME": d}
            self.assertEqual(run("config", "show", env=env).returncode, 2)
            for args in (["help"], ["help", "configuration"], ["completion", "bash"]):
                self.assertEqual(run(*args, env=env).returncode, 0, args)


class Links(unittest.TestCase):
    """Every page for people in this tree: what it links to is there, headings too."""

    @staticmethod
    def files():
        for where, folders, names in os.walk(ROOT):
            folders[:] = [f for f in folders if not f.startswith(".") and f != "build"]
            yield from (os.path.join(where, n) for n in names if n.endswith(".md"))

    @staticmethod
    def headings(path):
        with open(path, encoding="utf-8") as f:
            text = re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S)
        return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}

    def test_what_is_linked_is_there(self):
        seen = 0
        for path in self.files():
            with open(path, encoding="utf-8") as f:
                text = re.sub(r"^```.*?^```|`[^`\n]*`", "", f.read(), flags=re.M | re.S)
            for link in re.findall(r"\]\(([^)\s]*)\)", text):
                if link.startswith(("http:", "https:")):
                    continue
                self.assertTrue(link, (path, "a link to nothing"))
                name, _, heading = link.partition("#")
                to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
                self.assertTrue(os.path.exists(to) and to.startswith(ROOT), (path, link))
                if heading:
                    self.assertIn(heading, self.headings(to), (path, link))
                seen += 1
        self.assertGreater(seen, 30)

    def test_the_readme_leads_to_every_page(self):
        found, left = set(), [os.path.join(ROOT, "README.md")]
        while left:
            path = left.pop()
            found.add(path)
            with open(path, encoding="utf-8") as f:
                links = re.findall(r"\]\(([^)\s#]+\.md)", f.read())
            left += [p for p in (os.path.normpath(os.path.join(os.path.dirname(path), x)) for x in links if "://" not in x) if p not in found]
        missing = {os.path.relpath(p, ROOT) for p in set(self.files()) - found}
        self.assertEqual({m for m in missing if "/results/" not in m}, set())

    def test_the_readme_is_one_page(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
            text = f.read()
        self.assertLess(len(text.split("\n")), 90)
        for command in re.findall(r"build/logitspec ([a-z-]+)", text):
            self.assertIn(command, COMMANDS)
        makefile = ""
        for path in ("Makefile", "src/compute/build.mk", "tests/build.mk"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                makefile += f.read()
        for target in re.findall(r"make ([a-z-]+)", text):
            self.assertIn(f"\n{target}:", makefile)


class Completion(unittest.TestCase):
    def script(self, shell):
        r = run("completion", shell)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return r.stdout

    WANTED = (("logitspec gen", "generate"), ("logitspec generate --max-r", "--max-rows"), ("logitspec --meth", "--method"),
              ("logitspec generate --method suff", "suffix"), ("logitspec generate --sizing ada", "adaedl"),
              ("logitspec generate --acceptance typ", "typical"), ("logitspec --model smollm2-135m", "smollm2-135m-instruct"),
              ("logitspec models verif", "verify"), ("logitspec models info olmo", "olmo-2-0425-1b-instruct"),
              ("logitspec demo one-f", "one-forward"), ("logitspec generate --set decode.max_r", "decode.max_rows="),
              ("logitspec completion zs", "zsh"), ("logitspec help configura", "configuration"), ("logitspec doctor --device-model h2", "h200"),
              ("logitspec chat --template vic", "vicuna"), ("logitspec --method suffix gener", "generate"))

    def test_bash(self):
        script = self.script("bash")
        for line, wanted in self.WANTED:
            words = line.split()
            code = script + f"\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _logitspec; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            r = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, cwd="/")
            self.assertEqual((r.returncode, r.stderr, r.stdout.split()), (0, "", [wanted]), line)

    def test_bash_names_files_and_knows_equal_signs(self):
        script = self.script("bash")
        with tempfile.TemporaryDirectory() as d:
            open(d + "/a file.jsonl", "w").close()
            for words, wanted in ((["logitspec", "report", "a"], ["a file.jsonl"]), (["logitspec", "generate", "--method", "=", "suf"], ["suffix"]),
                                  (["logitspec", "generate", "--prompt", "gen"], [])):
                quoted = " ".join(f"'{w}'" for w in words)
                code = script + f"\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _logitspec; printf '%s\\n' \"${{COMPREPLY[@]}}\""
                r = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, cwd=d)
                self.assertEqual((r.stderr, [x for x in r.stdout.split("\n") if x]), ("", wanted), words)

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("needs:fish")
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/c.fish", "w", encoding="utf-8") as f:
                f.write(self.script("fish"))
            code = f"source {d}/c.fish; " + "; ".join(f"echo ==; complete -C '{line}'" for line, _ in self.WANTED)
            env = {**os.environ, "HOME": d, "XDG_CONFIG_HOME": d, "XDG_DATA_HOME": d}
            r = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True, env=env, cwd="/")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            for (line, wanted), got in zip(self.WANTED, r.stdout.split("==\n")[1:]):
                self.assertIn(wanted, [x.split("\t")[0] for x in got.splitlines()], line)

    def test_zsh(self):
        if not shutil.which("zsh"):
            self.skipTest("needs:zsh")
        r = subprocess.run(["zsh", "-n"], input=self.script("zsh"), capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        with tempfile.TemporaryDirectory() as d:  # a terminal in which a user presses Tab
            with open(d + "/c.zsh", "w", encoding="utf-8") as f:
                f.write(self.script("zsh"))
            driver = ("zmodload zsh/zpty; zpty -b z zsh -f -i; "
                      "zpty -w z 'PROMPT=; autoload -Uz compinit && compinit -D; source ./c.zsh; "
                      "done-line() { print -r -- \"<<$BUFFER>>\"; zle kill-whole-line }; zle -N done-line; bindkey \"^G\" done-line; echo re''ady'; "
                      "local out= line; repeat 600; do zpty -rt z line && out+=$line; [[ $out == *ready* ]] && break; sleep .05; done; ")
            for line, wanted in self.WANTED:
                driver += (f"zpty -wn z '{line}'$'\\t'$'\\a'; repeat 600; do zpty -rt z line && out+=$line; [[ $out == *'<<{' '.join(line.split()[:-1])} {wanted}'* ]] && break; sleep .02; done; "
                           f"[[ $out == *'<<{' '.join(line.split()[:-1])} {wanted}'* ]] || print -r -- \"{line}: ${{out[-300,-1]}}\"; ")
            r = subprocess.run(["zsh", "-f", "-c", driver], capture_output=True, text=True, cwd=d, timeout=300,
                               env={"PATH": os.environ["PATH"], "HOME": d, "TERM": "dumb", "LC_ALL": "C.UTF-8"})
            self.assertEqual((r.stdout, r.stderr), ("", ""))


if __name__ == "__main__":
    unittest.main()
