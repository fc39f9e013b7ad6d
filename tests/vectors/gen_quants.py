#!/usr/bin/env python3
"""Makes tests/vectors/quants.json: seeded blocks of every GGUF weight format and the values that the `gguf` package says
they stand for. Needs gguf and numpy (made with gguf 0.19). Run it from the repository's root."""
import json

import gguf
import numpy

r = numpy.random.default_rng(5)
out = {}
for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4"):
    kind = gguf.GGMLQuantizationType[name]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    n = 2 if values == 256 else 4
    raw = r.integers(0, 256, (n, size), dtype=numpy.uint8)
    scales = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
              "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": []}[name]
    for at in scales:  # a random half may be infinite
        raw[:, at:at + 2] = r.normal(0, 0.1, (n, 1)).astype(numpy.float16).view(numpy.uint8)
    if name == "MXFP4":  # a power of two: the least, and common ones
        raw[:, 0] = [0, 1, 120, 130]
    if name == "NVFP4":  # 127 stands for NaN here; the sign of a scale is not read there
        raw[:, :4] %= 127
    floats = gguf.quants.dequantize(raw.reshape(1, -1), kind).astype(numpy.float32).reshape(-1)
    if name == "NVFP4":  # before each block the number that scales the matrix, which a file has beside it
        floats *= numpy.float32(0.25)
        raw = numpy.hstack([numpy.tile(numpy.float32([0.25]).view(numpy.uint8), (n, 1)), raw])
    out[name] = {"type": int(kind), "raw": raw.tobytes().hex(), "values": [float(f"{v:.9g}") for v in floats]}
with open("tests/vectors/quants.json", "w", encoding="utf-8") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
