"""What transformers makes of folders: for each path of a JSON list on the input, the ids of texts and of a conversation, or its
refusal. Run by check.py under the Python of each version that is compared."""
import json
import logging
import os
import sys
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from transformers import AutoTokenizer  # noqa: E402


def ids_of(path, texts, messages, fast):
    try:
        t = AutoTokenizer.from_pretrained(path, use_fast=fast)
        raw = [t(text)["input_ids"] for text in texts]
    except BaseException as e:  # whatever it is (Rust panics are no Exception), it is a refusal
        return {"refused": f"{type(e).__name__}: {e}"[:200]}
    try:
        return {"raw": raw, "chat": t.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)}
    except BaseException as e:
        return {"raw": raw, "chat": None, "refused": f"{type(e).__name__}: {e}"[:200]}


def main():
    given = json.load(sys.stdin)
    json.dump({p: ids_of(p, given["texts"], given["messages"], given["fast"]) for p in given["paths"]}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # torch without its CUDA half does not end in order


main()
