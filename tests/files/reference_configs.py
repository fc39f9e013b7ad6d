"""What transformers makes of model folders: for each path of a JSON list on the input its greedy continuation of a prompt, or its
refusal. A weight that the folder lacks, or that the model does not use, is a refusal too. Run by check.py."""
import json
import logging
import os
import sys
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402


def continued(path, prompt, n):
    try:
        model, about = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        wrong = [k for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if about[k]]
        if wrong:
            return {"refused": f"{wrong[0]}: {sorted(about[wrong[0]])[:3]}"}
        ids = list(prompt)
        with torch.no_grad():
            for _ in range(n):
                ids.append(int(model.eval()(torch.tensor([ids])).logits[0, -1].argmax()))
        return {"greedy": ids[len(prompt):]}
    except Exception as e:  # whatever it is, it is a refusal
        return {"refused": f"{type(e).__name__}: {e}"[:200]}


def main():
    given = json.load(sys.stdin)
    json.dump({p: continued(p, given["prompt"], given["n"]) for p in given["paths"]}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # torch without its CUDA half does not end in order


main()
