"""Published clients of the usual APIs get from the server what `generate` prints. LOGITSPEC_TEST_CLIENTS names a Python that has them
(pip install openai anthropic llm litellm aider-chat), or several, with colons between; without it, this one."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from program import read_trace, run
from recording import unpack
from serving import Server

PYTHONS = os.environ.get("LOGITSPEC_TEST_CLIENTS", sys.executable).split(":")
HERE = os.path.dirname(os.path.abspath(__file__))


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = json.loads(run("generate", "--model", "script", "--prompt", "Count to twenty.", "--max-tokens", "30", "--json").stdout)["text"]

    def results(self, client):
        have = [p for p in PYTHONS if subprocess.run([p, "-c", f"import {client}"], capture_output=True, check=False).returncode == 0]
        if not have:
            self.skipTest(f"needs:clients ({client} is not installed: pip install openai anthropic llm litellm aider-chat)")
        with tempfile.TemporaryDirectory() as folder, Server("--trace-dir", folder + "/traces", "--context", "16384") as s:
            env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
            r = subprocess.run([have[0], os.path.join(HERE, "clients.py"), s.url, client], capture_output=True, text=True, check=False,
                               cwd=folder,
                               env=dict(env, LLM_USER_PATH=folder, HOME=folder), timeout=300)
            self.assertEqual(r.returncode, 0, r.stderr)
            s.stop()
            self.recorded = []
            for name in os.listdir(folder + "/traces"):
                with open(os.path.join(folder, "traces", name), "rb") as f:
                    lines = read_trace(unpack(f.read()).decode())
                self.assertEqual((lines[0]["type"], lines[-1]["type"]), ("header", "end"))
                ids = [i for line in lines if line["type"] == "step" for i in line["emitted"]]
                self.recorded.append(bytes(i for i in ids if i < 256).decode(errors="replace"))
            self.assertTrue(self.recorded)
            return dict(json.loads(line) for line in r.stdout.splitlines() if line.startswith("["))

    def test_openai(self):
        got = self.results("openai")
        self.assertEqual((got["whole"], got["stream"]), (self.text, self.text))
        self.assertEqual((got["models"], got["usage"], got["stream usage"], got["probabilities"]), ("script", 30, 30, [4, 2]))
        self.assertGreater(got["steps"], 0)
        self.assertTrue(got["text"])
        self.assertIn("n is not supported", got["refused"])
        self.assertIn("'another' is not served here", got["no model"])

    def test_anthropic(self):
        got = self.results("anthropic")
        self.assertEqual((got["whole"], got["stream"]), (self.text, self.text))
        self.assertEqual((got["stop"], got["stream stop"], got["usage"]), ("max_tokens", "max_tokens", 30))
        self.assertIn("thinking", got["refused"])

    def test_litellm(self):
        got = self.results("litellm")
        self.assertEqual([got[k] for k in ("openai", "openai stream", "anthropic", "anthropic stream")], [self.text] * 4)

    def test_llm(self):
        got = self.results("llm")
        self.assertEqual((got["whole"], got["stream"]), (self.text, self.text))

    def test_aider(self):
        got = self.results("aider")
        self.assertEqual(len(self.recorded), 1)
        self.assertGreater(len(self.recorded[0]), 10)
        self.assertIn(self.recorded[0].strip(), got["answer"])


if __name__ == "__main__":
    unittest.main()
