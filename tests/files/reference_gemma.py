"""What others make of gemma-3-270m: sentencepiece's ids, of the vocabulary in the file, and transformers' logits, of its weights
dequantised to f32. Run by check.py."""
import json
import logging
import os
import sys
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import gguf  # noqa: E402
import sentencepiece  # noqa: E402
import torch  # noqa: E402
from sentencepiece import sentencepiece_model_pb2  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402


def sentencepiece_ids(path, texts):
    """Special tokens are cut out first, longest first, as the file's users do; sentencepiece encodes what is between them."""
    fields = gguf.GGUFReader(path).fields
    pieces = [bytes(fields["tokenizer.ggml.tokens"].parts[i]).decode() for i in fields["tokenizer.ggml.tokens"].data]
    scores, types = (fields["tokenizer.ggml." + k].contents() for k in ("scores", "token_type"))
    m = sentencepiece_model_pb2.ModelProto()
    for piece, score, kind in zip(pieces, scores, types):
        m.pieces.add(piece=piece.replace(" ", "\u2581") if kind == 4 else piece, score=score,
                     type=2 if piece == "<unk>" else kind)  # the file calls it a control token
    m.trainer_spec.model_type, m.trainer_spec.byte_fallback = 2, True
    m.trainer_spec.unk_id, m.trainer_spec.bos_id, m.trainer_spec.eos_id, m.trainer_spec.pad_id = 3, 2, 1, 0
    m.normalizer_spec.add_dummy_prefix = m.normalizer_spec.remove_extra_whitespaces = False
    m.normalizer_spec.escape_whitespaces = True
    sp = sentencepiece.SentencePieceProcessor(model_proto=m.SerializeToString())
    control = {p: i for i, (p, kind) in enumerate(zip(pieces, types)) if kind in (2, 3)}

    def encode(text):
        at = min(((text.find(c), -len(c), c) for c in control if c in text), default=None)
        if at is None:
            return sp.encode(text)
        place, _, token = at
        return (sp.encode(text[:place]) if place else []) + [control[token]] + encode(text[place + len(token):])
    return [[2] + encode(t) for t in texts]


def rows(path, ids, n, best):
    """Of the first n positions of ids: the largest logits, as [id, logit] of each."""
    model = AutoModelForCausalLM.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float()
    out = []
    for row in range(len(ids) - n, len(ids)):
        top = torch.topk(logits[row], best)
        out.append([[int(i), round(float(v), 5)] for i, v in zip(top.indices, top.values)])
    return out


def main():
    given = json.load(sys.stdin)
    ids = sentencepiece_ids(given["path"], given["texts"])
    json.dump({"raw": ids, "rows": rows(given["path"], ids[0], given["rows"], given["best"])}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


main()
