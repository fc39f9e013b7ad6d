#!/usr/bin/env python3
"""Tiny seeded models in every format of quantised safetensors, each beside the same model in f32, whose weights are what the
definition of the format says (rounded to bf16 where the program keeps bf16).

    tests/tools/formats.py DIR [NAME...]     -> DIR/NAME/ and DIR/NAME-plain/

Nothing but the standard library. FORMATS has the names, models/README.md the same table.
"""
import json
import math
import os
import random
import struct
import sys

import tiny

E2M1 = tiny.E2M1
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the output of each nibble of a word
MODEL, SHAPE = "llama2", {"num_hidden_layers": 2, "head_dim": 32}
EXPERTS = "gpt_oss"  # the model whose format has this name
f32 = tiny.rounded


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16 & 0xFFFFFFFF))[0]


def e4m3(b):
    e, m = b >> 3 & 15, b & 7
    x = math.ldexp(8 + m, e - 10) if e else math.ldexp(m, -9)
    return -x if b >> 7 else x


def raw(form, values):
    if form == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack(f"<{len(values)}" + {"F32": "f", "F16": "e", "I32": "i", "I64": "q", "I16": "h", "I8": "b", "U8": "B", "F8_E4M3": "B", "F8_E5M2": "B"}[form], *values)


def words(values, bits, order=None):
    """Integers of so many bits, from the lowest bits of 32 on."""
    out, per = [], 32 // bits
    for i in range(0, len(values), per):
        some = values[i:i + per] + [0] * (per - len(values[i:i + per]))
        w = sum(some[order[n] if order else n] << n * bits for n in range(per))
        out.append(w - (1 << 32) if w >> 31 else w)
    return out


def columns(matrix):
    return [list(c) for c in zip(*matrix)]


def flat(matrix):
    return [v for row in matrix for v in row]


# Each takes a generator of numbers and a shape, and returns {ending: (dtype, shape, values)} and the weights.
def integers(r, n_out, n_in, layout, bits=4, group=32, zeros=None, ordered=False, scales="F16"):
    group = group if group > 0 else n_in
    n = n_in // group
    q = [[r.randrange(1 << bits) for _ in range(n_in)] for _ in range(n_out)]
    of = [i // group for i in range(n_in)]
    if ordered == "apart":  # matrices of one input differ, and groups of the others have several sizes
        of = r.sample(of, n_in) if r.shared else [n - 1] * 3 + of[3:]
    elif ordered:
        r.of_input.shuffle(of)
    scale = [[(half if scales == "F16" else bf16)(0.02 * (0.5 + r.random()) * 8 / (1 << bits)) for _ in range(n)] for _ in range(n_out)]
    zero = [[r.choice(zeros) if zeros else 1 << bits - 1 for _ in range(n)] for _ in range(n_out)]
    w = [[(q[o][i] - zero[o][of[i]]) * scale[o][of[i]] for i in range(n_in)] for o in range(n_out)]
    if ordered == "apart":
        w = [[bf16(f32(x)) for x in row] for row in w]
    per = 32 // bits
    if layout == "packed":
        parts = {"weight_packed": ("I32", (n_out, n_in // per), flat([words(row, bits) for row in q])),
                 "weight_scale": (scales, (n_out, n), flat(scale)), "weight_shape": ("I64", (2,), [n_out, n_in])}
        if zeros:
            parts["weight_zero_point"] = ("I32", (-(-n_out // per), n), flat(columns([words(c, bits) for c in columns(zero)])))
        if ordered:
            parts["weight_g_idx"] = ("I32", (n_in,), of)
        return parts, w
    less = 1 if layout == "gptq" else 0
    stored = [[z - less for z in row] for row in columns(zero)]
    if layout == "awq":
        parts = {"qweight": ("I32", (n_in, n_out // 8), flat([words(c, 4, AWQ_ORDER) for c in columns(q)])),
                 "qzeros": ("I32", (n, n_out // 8), flat([words(c, 4, AWQ_ORDER) for c in stored]))}
    else:
        parts = {"qweight": ("I32", (n_in // per, n_out), flat(columns([words(row, bits) for row in q]))),
                 "qzeros": ("I32", (n, n_out // per), flat([words(c, bits) for c in stored])), "g_idx": ("I32", (n_in,), of)}
    return parts | {"scales": ("F16", (n, n_out), flat(columns(scale)))}, w


def bytes_of_rows(r, n_out, n_in, kind, per, ending="weight_scale", scales="F32"):
    """per: (outputs, inputs) of a scale; 0: all."""
    a, b = per[0] or n_out, per[1] or n_in
    rows, n = -(-n_out // a), -(-n_in // b)
    fp8 = kind == "F8_E4M3"
    code = [[r.randrange(256) & (0xF7 if fp8 else 0xFF) for _ in range(n_in)] for _ in range(n_out)]  # no NaN
    if not fp8:
        code = [[c - 128 for c in row] for row in code]
    rounds = f32 if scales == "F32" else bf16
    scale = [[rounds((3e-3 if fp8 else 1e-3) * (0.5 + r.random())) for _ in range(n)] for _ in range(rows)]
    if fp8:
        w = [[bf16(f32(e4m3(c) * scale[o // a][i // b])) for i, c in enumerate(row)] for o, row in enumerate(code)]
    else:
        w = [[c * half(scale[o // a][i // b]) for i, c in enumerate(row)] for o, row in enumerate(code)]
    shape = () if not per[0] and not per[1] else (rows, n)
    return {"weight": (kind, (n_out, n_in), flat(code)), ending: (scales, shape, flat(scale)), "input_scale": ("F32", (), [1.0])}, w


def fours(r, n_out, n_in, kind):
    code = [[r.randrange(16) for _ in range(n_in)] for _ in range(n_out)]
    pairs = ("U8", (n_out, n_in // 2), [row[i] | row[i + 1] << 4 for row in code for i in range(0, n_in, 2)])
    if kind == "mxfp4":
        power = [[r.choice((119, 120, 121)) for _ in range(n_in // 32)] for _ in range(n_out)]
        w = [[E2M1[c] * 2.0 ** (power[o][i // 32] - 127) for i, c in enumerate(row)] for o, row in enumerate(code)]
        return {"weight_packed": pairs, "weight_scale": ("U8", (n_out, n_in // 32), flat(power))}, w
    scale = [[r.randrange(0x30, 0x50) for _ in range(n_in // 16)] for _ in range(n_out)]
    g = f32(0.009 if kind == "modelopt" else 1 / 0.009)

    def value(c, s):
        return f32(E2M1[c] * f32(e4m3(s) * (g if kind == "modelopt" else f32(1 / g))))
    w = [[value(c, scale[o][i // 16]) for i, c in enumerate(row)] for o, row in enumerate(code)]
    scales = ("F8_E4M3", (n_out, n_in // 16), flat(scale))
    if kind == "modelopt":
        return {"weight": pairs, "weight_scale": scales, "weight_scale_2": ("F32", (), [g]), "input_scale": ("F32", (), [1.0])}, w
    return {"weight_packed": pairs, "weight_scale": scales, "weight_global_scale": ("F32", (1,), [g])}, w


def nvfp4_blocks(r, n_out, n_in, scale):
    """The bytes of a GGUF tensor of type 40, and the weights with the scale beside it."""
    data, w = b"", []
    for _ in range(n_out * n_in // 64):
        scales, nibbles = [r.randrange(0x30, 0x50) for _ in range(4)], [[r.randrange(16) for _ in range(16)] for _ in range(4)]
        data += bytes(scales) + bytes(some[i] | some[i + 8] << 4 for some in nibbles for i in range(8))
        w += [f32(E2M1[c] * f32(e4m3(s) * scale)) for s, some in zip(scales, nibbles) for c in some]
    return data, w


def gptq(**more):
    return {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False, **more}


def compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


PACKED = {"num_bits": 4, "group_size": 32, "type": "int"}
# name -> quantization_config, the type that the program keeps, what makes a weight
FORMATS = {
    "gptq": (gptq(), "Q4_0", lambda *a: integers(*a, "gptq")),
    "gptq-zeros": (gptq(sym=False, checkpoint_format="gptq"), "Q5_0", lambda *a: integers(*a, "gptq", zeros=range(1, 17))),
    "gptq-v2": (gptq(sym=False, checkpoint_format="gptq_v2"), "Q5_0", lambda *a: integers(*a, "gptq-v2", zeros=range(16))),
    "gptq-order": (gptq(desc_act=True), "Q4_0", lambda *a: integers(*a, "gptq", ordered=True)),
    "gptq-order-zeros": (gptq(desc_act=True, sym=False), "Q5_0", lambda *a: integers(*a, "gptq", zeros=range(1, 17), ordered=True)),
    "gptq-order-8": (gptq(desc_act=True, bits=8), "Q8_0", lambda *a: integers(*a, "gptq", bits=8, ordered=True)),
    "gptq-order-apart": (gptq(desc_act=True), "BF16", lambda *a: integers(*a, "gptq", ordered="apart")),
    "gptq-one-group": (gptq(group_size=-1), "Q4_0", lambda *a: integers(*a, "gptq", group=-1)),
    "gptq-8": (gptq(bits=8), "Q8_0", lambda *a: integers(*a, "gptq", bits=8)),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}, "Q5_0",
            lambda *a: integers(*a, "awq", zeros=range(16))),
    "awq-symmetric": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": False}, "Q4_0",
                      lambda *a: integers(*a, "awq", zeros=(8,))),
    "packed": (compressed("pack-quantized", **PACKED), "Q4_0", lambda *a: integers(*a, "packed", scales="BF16")),
    "packed-zeros": (compressed("pack-quantized", **PACKED, symmetric=False), "Q5_0", lambda *a: integers(*a, "packed", zeros=range(16), scales="BF16")),
    "packed-order": (compressed("pack-quantized", **PACKED), "Q4_0", lambda *a: integers(*a, "packed", ordered=True)),
    "packed-8": (compressed("pack-quantized", num_bits=8, group_size=None), "Q8_0", lambda *a: integers(*a, "packed", bits=8, group=-1)),
    "fp8-blocks": ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [48, 40]}, "BF16",
                   lambda *a: bytes_of_rows(*a, "F8_E4M3", (48, 40), "weight_scale_inv")),
    "fp8-rows": (compressed("float-quantized", num_bits=8, type="float"), "BF16", lambda *a: bytes_of_rows(*a, "F8_E4M3", (1, 0), scales="BF16")),
    "fp8-one-scale": ({"quant_method": "modelopt", "quant_algo": "FP8"}, "BF16", lambda *a: bytes_of_rows(*a, "F8_E4M3", (0, 0))),
    "int8": (compressed("int-quantized", num_bits=8, type="int"), "Q8_0", lambda *a: bytes_of_rows(*a, "I8", (1, 0))),
    "nvfp4": (compressed("nvfp4-pack-quantized", num_bits=4, type="float", group_size=16), "NVFP4", lambda *a: fours(*a, "nvfp4")),
    "nvfp4-modelopt": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4", lambda *a: fours(*a, "modelopt")),
    "mxfp4": (compressed("mxfp4-pack-quantized", num_bits=4, type="float", group_size=32), "MXFP4", lambda *a: fours(*a, "mxfp4")),
    EXPERTS: ({"quant_method": "mxfp4"}, "MXFP4", lambda *a: fours(*a, "mxfp4")),
}


def save(path, tensors):
    """tensors: {name: (dtype, shape, values)}"""
    header, data = {}, b""
    for name, (form, shape, values) in tensors.items():
        part = raw(form, values)
        header[name] = {"dtype": form, "shape": list(shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def make(name):
    """The configuration, the tensors of the quantised model, and those of the plain one."""
    config, _, weight = FORMATS[name]
    r = random.Random(sorted(FORMATS).index(name) + 1)
    model = EXPERTS if name == EXPERTS else MODEL
    kept = {**tiny.MODELS[model]}
    tiny.MODELS[model] = {**kept, **SHAPE}
    quantised, plain = {}, {}
    for key, shape, values in tiny.tensors_of(model):
        if len(shape) == 3:
            n, n_in, n_out = shape
            each = [weight(r, n_out, n_in) for _ in range(n)]
            for part, ending, last in (("weight_packed", "_blocks", (16,)), ("weight_scale", "_scales", ())):
                quantised[key + ending] = ("U8", (n, n_out, n_in // 32, *last), sum((parts[part][2] for parts, _ in each), []))
            values = flat([flat(columns(w)) for _, w in each])
        elif "_proj." in key and model == MODEL:
            siblings = next((s for s in ("q_proj k_proj v_proj", "gate_proj up_proj") if key.split(".")[-2] in s), None)
            r.shared, r.of_input = siblings is not None, random.Random(key.split(".")[2] + (siblings or key))
            parts, w = weight(r, *shape)
            quantised |= {f"{key.removesuffix('.weight')}.{ending}": part for ending, part in parts.items()}
            values = flat(w)
        else:
            quantised[key] = ("F32", shape, values)
        plain[key] = ("BF16" if len(shape) == 3 else "F32", shape, values)  # which MXFP4's numbers are without rounding
    c = tiny.config_of(model)
    tiny.MODELS[model] = kept
    return {**c, "quantization_config": config}, quantised, plain


def write_folder(path, config, tensors):
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    save(os.path.join(path, "model.safetensors"), tensors)


def write(folder, name):
    config, quantised, plain = make(name)
    write_folder(os.path.join(folder, name), config, quantised)
    write_folder(os.path.join(folder, name + "-plain"), {k: v for k, v in config.items() if k != "quantization_config"}, plain)


if __name__ == "__main__":
    for one in sys.argv[2:] or FORMATS:
        write(sys.argv[1], one)
        print(one, FORMATS[one][1])
