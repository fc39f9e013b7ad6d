"""What this program makes of a file."""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(os.environ.get("LOGITSPEC_BUILD", os.path.join(ROOT, "build")), "logitspec")
# nothing is measured first, and no settings of whoever runs this count
ENV = {**os.environ, "LOGITSPEC_SET_DECODE__COSTS": "1:10,8:15,64:90", "LOGITSPEC_SET_MODEL__THREADS": "1", "XDG_CONFIG_HOME": "/nonexistent"}


def run(*args):
    r = subprocess.run([PROGRAM, *args, "--json"], capture_output=True, text=True, check=False, env=ENV)
    return json.loads(r.stdout) if not r.returncode else {"refused": r.stderr.strip()}


def ids(path, texts, message=None):
    """Of every text, and of a conversation of one message where there is one."""
    out = {"raw": []}
    for text in texts:
        r = run("tokenize", "--model", path, "--prompt", text)
        if "refused" in r:
            return r
        out["raw"].append(r["ids"])
    if message is not None:
        r = run("tokenize", "--model", path, "--prompt", message, "--chat")
        out["chat"] = r.get("ids")
    return out


def greedy(path, text, n):
    """n tokens of plain decoding in f32, up to a token that ends an answer."""
    r = run("generate", "--model", path, "--raw", "--prompt", text, "--max-tokens", str(n), "--method", "plain", "--dtype", "f32")
    return {"greedy": r["output_tokens"]} if "refused" not in r else r
