"""Formats of quantised safetensors: what `models info` says of each, exact methods against plain decoding, the same text as
the same model in f32, on the CPU and on a GPU (emulated); and damage, each kind of which ends in one line."""
import json
import math
import os
import random
import re
import struct
import sys
import tempfile
import unittest
from unittest import mock

from exactness import bits_are_equal, rows_of, tokens_are_equal
from program import ROOT, run
from test_gpu import EMULATED, gpu

sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
sys.path.insert(0, os.path.join(ROOT, "tests", "files"))
import folders  # noqa: E402
import formats  # noqa: E402
import ggufs  # noqa: E402
import tiny  # noqa: E402

# each row of `models list --formats` that is no type of GGUF, and the models that test it
ROWS = {"FP8 (E4M3) with scales for blocks, outputs or all": ["fp8-blocks", "fp8-rows", "fp8-one-scale"],
        "GPTQ, 4 bits, symmetric": ["gptq", "gptq-one-group", "gptq-order"],
        "GPTQ, 4 bits, zero points": ["gptq-zeros", "gptq-v2", "gptq-order-zeros"],
        "GPTQ, 8 bits, symmetric": ["gptq-8", "gptq-order-8"],
        "AWQ, 4 bits, symmetric": ["awq-symmetric"], "AWQ, 4 bits, zero points": ["awq"],
        "packed integers, 4 bits, symmetric": ["packed", "packed-order"], "packed integers, 4 bits, zero points": ["packed-zeros"],
        "packed integers, 8 bits, symmetric": ["packed-8"],
        "integers with an order of groups that matrices of one input do not share, or of experts": ["gptq-order-apart"],
        "8-bit integers": ["int8"], "NVFP4, multiplied by its scale": ["nvfp4-modelopt"],
        "NVFP4, divided by its scale": ["nvfp4"], "MXFP4": ["mxfp4", "gpt_oss"]}
PROMPT = "abcabcabdabcabcab"
NAN = float("nan")


class Made(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.dir = cls.tmp.name

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def folder(self, name):
        formats.write(self.dir, name)
        for ending in ("", "-plain"):
            folders.tokenizer(os.path.join(self.dir, name + ending), tiny.VOCAB)
        return os.path.join(self.dir, name)


class Formats(Made):
    def test_each_is_exact_and_says_what_is_lost(self):
        compared = 0
        for name, (_, kept, _) in formats.FORMATS.items():
            with self.subTest(name):
                path = self.folder(name)
                about = json.loads(run("models", "info", path, "--json").stdout)["model"]
                self.assertRegex(about["quantized"], rf": kept as {kept}, (without loss|rounded \(each weight|with the same integers; scales)")
                self.assertEqual("rounded (each" in about["quantized"], kept == "BF16")
                model = ("--model", path, "--raw", "--context", "256", "--threads", "7")
                for dtype in ("f32",) if kept == "BF16" else ("f32", "i8"):
                    methods = ("logitspec:13", "lookahead:7", "suffix:5")
                    tokens_are_equal(model, None, dtype, ["--temperature", "0.8", "--seed", "4"], PROMPT, 24, methods)
                    compared += bits_are_equal(model, None, dtype, [], PROMPT, 24, ("logitspec:13",))
        self.assertGreater(compared, 10 * len(formats.FORMATS))  # some texts end early

    def nvfp4_gguf(self, name):
        """The metadata and tensors of a model whose matrices are NVFP4, as llama.cpp has them, and those of the same in f32."""
        with mock.patch.dict(tiny.MODELS, llama2={**tiny.MODELS["llama2"], **formats.SHAPE}):
            meta, tensors = ggufs.Builder(self.dir).model(name)
        r, four, plain = random.Random(3), [], []
        for key, shape, values, form in tensors:
            if key.startswith("blk.") and len(shape) > 1 and "gate_inp" not in key:
                scaled, n = "attn_v" not in key, shape[0] if len(shape) > 2 else 1
                scales = [formats.f32(0.009 + 0.001 * i) if scaled else 1.0 for i in range(n)]
                made = [formats.nvfp4_blocks(r, *shape[-2:], scale) for scale in scales]
                values = [x for _, some in made for x in some]
                four.append((key, shape, b"".join(data for data, _ in made), 40))
                if scaled:
                    four += [(key.replace(".weight", ".scale"), (n,), scales, tiny.F32), (key.replace(".weight", ".input_scale"), (n,), [1.0] * n, tiny.F32)]
            else:
                four.append((key, shape, values, form))
            plain.append((key, shape, values, form))
        return ggufs.typed(meta) | ggufs.simple_vocabulary(ggufs.ROWS), four, plain

    def test_blocks_of_nvfp4_in_gguf(self):
        path, other = os.path.join(self.dir, "four.gguf"), os.path.join(self.dir, "plain.gguf")
        for name in "qwen3_moe", "llama2":  # a scale for each expert, one for each matrix
            meta, four, plain = self.nvfp4_gguf(name)
            ggufs.write(path, meta, four)
            ggufs.write(other, meta, plain)
            self.assertRegex(json.loads(run("models", "info", path, "--json").stdout)["model"]["quantized"], "NVFP4, .*: kept as NVFP4, without loss")
            self.assertGreater(self.same_rows(path, other), 4)
            model = ("--model", path, "--raw", "--context", "256", "--threads", "7")
            for dtype in ("f32", "i8"):
                tokens_are_equal(model, None, dtype, ["--temperature", "0.8", "--seed", "4"], PROMPT, 24, ("logitspec:13",))
                bits_are_equal(model, None, dtype, [], PROMPT, 24, ("logitspec:13",))
        at = next(i for i, t in enumerate(four) if t[0].endswith("ffn_up.scale"))
        key, shape, data, _ = four[at - 1]

        def instead(i, *tensor):
            return four[:i] + [tensor] + four[i + 1:]
        for damaged, why in ((instead(at, four[at][0], (3,), [1.0] * 3, tiny.F32), "'scale' is 3 x 1, expected 1 x 1"),
                             (instead(at, four[at][0], (1,), [1.0], tiny.F16), "'scale' has type 'F16'"),
                             (instead(at, four[at][0], (2, 2), [1.0] * 4, tiny.F32), "'scale' is 2 x 2"),
                             (instead(at, four[at][0], (1,), [NAN], tiny.F32), "holds NaN"), (instead(at, four[at][0], (1,), [math.inf], tiny.F32), "holds NaN"),
                             (instead(at, four[at][0], (1,), [-math.inf], tiny.F32), "holds NaN"), (instead(at, four[at][0], (1,), [1e38], tiny.F32), "holds NaN"),
                             (instead(at, "blk.0.attn_norm.scale", (1,), [1.0], tiny.F32), "another type than NVFP4"),
                             (instead(at, "blk.0.ffn_side.scale", (1,), [1.0], tiny.F32), "another type than NVFP4"),
                             (instead(at, "blk.9.ffn_up.scale", (1,), [1.0], tiny.F32), "another type than NVFP4"),
                             (instead(at, *four[at - 1]), "'blk.0.ffn_up.weight' occurs twice|has no tensor"), (four + [four[at]], "has no tensor '.*scale'|occurs twice"),
                             (instead(at - 1, key, shape, b"\x7f" + data[1:], 40), "holds NaN"), (instead(at - 1, key, shape, data[:3] + b"\xff" + data[4:], 40), "holds NaN"),
                             (instead(at - 1, key, (shape[0], shape[1] // 2), data, 40), "row length 32 is not a multiple of 64"),
                             (instead(at - 1, key, (shape[0] // 2, shape[1] * 2), data, 40), "does not fit the model"),
                             (instead(at - 1, key, (shape[0] * 2, shape[1]), data + data, 40), "does not fit the model"),
                             (instead(at - 1, key, (1 << 40, 1 << 20), data, 40), "four.gguf"), (instead(at - 1, key, shape, [0.0] * (shape[0] * shape[1]), tiny.F32), "another type than NVFP4"),
                             (instead(at - 1, "blk.0.ffn_side.weight", shape, data, 40), "another type than NVFP4"), (four[:at - 1] + four[at:], "ffn_up")):
            with self.subTest(line=why):
                ggufs.write(path, meta, damaged)
                r = run("generate", "--model", path, "--raw", "--prompt", "ab", "--max-tokens", "2")
                self.assertEqual((r.returncode > 0, r.stdout, r.stderr.count("\n")), (True, "", 1), (why, r.stdout, r.stderr))
                self.assertRegex(r.stderr, why)

    def test_each_row_of_the_table_is_tested(self):
        """Types of GGUF have blocks of the reference (test_kernels takes them all, on CPU levels; gpu_kernels on a GPU)."""
        rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in run("models", "list", "--formats").stdout.splitlines()[2:]]
        with open(os.path.join(ROOT, "tests", "vectors", "quants.json"), encoding="utf-8") as f:
            blocks = json.load(f)
        self.assertEqual({r[0] for r in rows if r[1].startswith("GGUF")}, {*blocks, "F32", "F16", "BF16"})
        kept = {r[0]: r[2] for r in rows if r[1].startswith("safetensors")}
        self.assertEqual(kept.keys(), ROWS.keys())
        self.assertEqual(sorted(sum(ROWS.values(), [])), sorted(formats.FORMATS))
        for row, names in ROWS.items():
            self.assertEqual({formats.FORMATS[n][1] for n in names}, {kept[row]}, row)

    def same_rows(self, *paths):
        """Whether two models, in f32 arithmetic, have the same rows; how many there were."""
        rows = []
        for path in paths:
            trace = os.path.join(self.dir, "t.jsonl")
            r = run("generate", "--model", path, "--raw", "--prompt", PROMPT, "--max-tokens", "24", "--dtype", "f32", "--kv", "f32",
                    "--context", "256", "--method", "plain", "--trace", trace, "--quiet")
            self.assertEqual(r.returncode, 0, r.stderr)
            rows.append(rows_of(trace)[0])
        self.assertEqual(rows[0].keys(), rows[1].keys())
        for at, (lse, top) in rows[0].items():
            other_lse, other = rows[1][at]
            self.assertEqual([t[0] for t in top[:1]], [t[0] for t in other[:1]])
            for a, b in zip([lse] + [t[1] for t in top], [other_lse] + [t[1] for t in other]):
                self.assertLess(abs(a - b), 1e-4)
        return len(rows[0])

    def test_the_same_as_in_f32(self):
        """In f32 arithmetic the rows are those of the plain model, whose weights are computed from the format's definition."""
        for name in formats.FORMATS:
            with self.subTest(name):
                path = self.folder(name)
                self.same_rows(path, path + "-plain")

    def test_ranks_put_inputs_in_order(self):
        path = self.folder("gptq-order")
        for dtype in "f32", "i8":
            tokens = [json.loads(run("generate", "--model", path, "--devices", devices, "--dtype", dtype, "--raw", "--context", "256", "--prompt", PROMPT,
                                     "--temperature", "0.8", "--seed", "4", "--max-tokens", "24", "--method", method, "--json").stdout)["output_tokens"]
                      for devices, method in (("cpu", "plain"), ("2", "plain"), ("2", "logitspec"))]
            self.assertEqual(tokens, [tokens[0]] * 3)

    @unittest.skipUnless(os.path.exists(EMULATED), "needs:emulated GPU library")
    def test_on_a_gpu(self):
        for name in formats.FORMATS:
            with self.subTest(name):
                answers = []
                for method in "plain", "logitspec":
                    r = gpu("generate", "--model", self.folder(name), "--device", "cuda", "--raw", "--prompt", PROMPT, "--max-tokens", "6",
                            "--method", method, "--max-rows", "8", "--json")
                    self.assertEqual(r.returncode, 0, r.stderr)
                    answers.append(json.loads(r.stdout))
                self.assertEqual([a["device"] for a in answers], ["cuda", "cuda"])
                self.assertEqual(answers[0]["output_tokens"], answers[1]["output_tokens"])


def changed(part, module="up_proj.", **to):
    """Changes one tensor: dtype, shape or values; a value None removes it."""
    def change(config, tensors):
        key = next(k for k in tensors if k.endswith("layers.1.mlp." + module + part))
        form, shape, values = tensors.pop(key)
        if to:
            tensors[key] = (to.get("dtype", form), to.get("shape", shape), to["values"](list(values)) if "values" in to else values)
    return change


def added(part, dtype, shape, values):
    """A tensor that the format does not have."""
    def change(config, tensors):
        tensors["model.layers.1.mlp.up_proj." + part] = (dtype, shape, values)
    return change


def config(**to):
    def change(c, tensors):
        c["quantization_config"] = {k: v for k, v in (c["quantization_config"] | to).items() if v is not ...}
    return change


def renamed(old, new):
    def change(c, tensors):
        for key in [k for k in tensors if k.endswith(old)]:
            tensors[key.removesuffix(old) + new] = tensors.pop(key)
    return change


def of_experts(part, **to):
    return changed(part, "experts.", **to)


def stated(**to):
    """Changes the configuration of the model."""
    def change(c, tensors):
        c.update(to)
    return change


def floats_too(c, tensors):
    tensors["model.layers.1.mlp.experts.down_proj"] = ("F32", (7, 128, 64), [0.0] * (7 * 128 * 64))


def floats_for_blocks(c, tensors):
    del tensors["model.layers.1.mlp.experts.down_proj_blocks"]
    floats_too(c, tensors)


def first(value):
    return lambda values: [value] + values[1:]


def unquantised(c, tensors):
    del c["quantization_config"]


# format -> what is damaged, and what the line says
DAMAGE = {
    "gptq": [
        (config(bits=3), r"GPTQ with 3 bits is not supported \(4, 8\); use the unquantised model or a GGUF file of it"),
        (config(bits="four"), r"'bits'"),
        (config(bits=...), r"GPTQ with 0 bits"),
        (config(quant_method="bitsandbytes"), r"quant_method 'bitsandbytes' is not supported \(supported: fp8, .*\); use the unquantised"),
        (config(quant_method=...), r"quant_method '\?' is not supported"),
        (config(checkpoint_format="marlin"), r"checkpoint_format 'marlin' is not supported"),
        (config(group_size=128), r"up_proj'|q_proj': 2 scales for 64 inputs do not fit groups of 128"),
        (config(group_size=-1), r"do not fit groups of -1"),
        (config(quant_method="fp8", bits=...), r"'qweight' needs the quant_method 'gptq' or 'awq'"),
        (unquantised, r"is of quantised weights, but config.json has no quantization_config"),
        (changed("qweight"), r"mlp.up_proj': the weight is missing; other parts of it are there"),
        (changed("scales"), r"mlp.up_proj': the scales are missing"),
        (changed("qzeros"), r"mlp.up_proj': 'qzeros' is missing"),
        (changed("qzeros", shape=(16, 2)), r"'qzeros' is 16 x 2, expected 2 x 16"),
        (changed("qweight", shape=(4, 256)), r"do not fit groups|expected"),
        (changed("qweight", shape=(1024,)), r"'qweight' is no matrix"),
        (changed("qweight", dtype="F32"), r"'qweight' has type 'F32', not one of I32"),
        (changed("scales", shape=(128, 2)), r"128 scales for 64 inputs"),
        (changed("scales", dtype="I32", values=lambda v: [0] * len(v)), r"'scales' has type 'I32', not one of F16 BF16 F32"),
        (changed("scales", values=first(NAN)), r"blk.1.ffn_up.weight' holds NaN, infinite or unusable scale values"),
        (changed("scales", values=first(float("inf"))), r"blk.1.ffn_up.weight' holds NaN, infinite"),
        (changed("g_idx", values=first(2)), r"'g_idx' says that input 0 is in group 2 of 2"),
        (changed("g_idx", values=first(-1)), r"input 0 is in group -1"),
        (changed("g_idx", shape=(32, 2)), r"'g_idx' is 32 x 2, expected 64 x 1"),
        (renamed("layers.1.mlp.up_proj.qweight", "layers.1.mlp.side_proj.qweight"), r"has no tensor 'model.layers.1.mlp.side_proj.qweight'"),
    ],
    "gptq-8": [(changed("qzeros", values=first(5)), r"8 bits with zero points other than 128 are not supported; use")],
    "awq": [
        (config(bits=3), r"AWQ with 3 bits is not supported \(4\)"),
        (config(version="gemv"), r"AWQ version 'gemv' is not supported \(supported: gemm\)"),
        (changed("qzeros", shape=(1, 32)), r"'qzeros' is 1 x 32, expected 2 x 16"),
        (changed("qweight", dtype="I16", values=lambda v: [0] * len(v)), r"'I16'"),
    ],
    "packed": [
        (config(format="marlin-24"), r"format 'marlin-24' is not supported"),
        (config(sparsity_config={"format": "sparse-24-bitmask"}), r"sparsity format 'sparse-24-bitmask' is not supported"),
        (config(config_groups=...), r"quantization_config has no config_groups"),
        (config(transform_config={"config_groups": {"R1": {"type": "hadamard"}}}), r"'transform_config' is not supported"),
        (config(config_groups={"group_0": {"weights": {"num_bits": 2}}}), r"packed integers of 2 bits are not supported \(4, 8\)"),
        (config(config_groups={"a": {"weights": {"num_bits": 4}}, "b": {"weights": {"num_bits": 8}}}), r"'b' has other bits or groups"),
        (changed("weight_shape", values=lambda v: [128, 72]), r"'weight_shape' says 128 x 72, but 'weight_packed' has 128 x 64"),
        (changed("weight_scale", shape=(2, 128)), r"128 scales for 64 inputs"),
        (changed("weight_scale", values=first(NAN)), r"holds NaN"),
    ],
    "packed-zeros": [(changed("weight_zero_point", shape=(2, 16)), r"'weight_zero_point' is 2 x 16, expected 16 x 2")],
    "fp8-blocks": [
        (config(fmt="e5m2"), r"fmt 'e5m2' is not supported"),
        (config(weight_block_size=[128]), r"the block of a scale must be two sizes"),
        (config(weight_block_size=[0, 128]), r"the block of a scale must be two sizes"),
        (config(weight_block_size=[64, 64]), r"'weight_scale_inv' is \d x \d, expected \d x \d"),
        (changed("weight_scale_inv"), r"the scales are missing"),
        (changed("weight_scale_inv", values=first(NAN)), r"holds NaN"),
        (changed("weight", values=first(0x7F)), r"holds NaN"),
        (changed("weight", dtype="F8_E5M2"), r"'weight' has type 'F8_E5M2', not one of F8_E4M3"),
        (changed("weight", shape=(64, 128)), r"expected"),
    ],
    "int8": [
        (changed("weight_scale", shape=(64, 2)), r"'weight_scale' is 64 x 2, expected 128 x 1"),
        (added("weight_global_scale", "F32", (1,), [2.0]), r"'weight_global_scale' of weights of this format is not supported"),
    ],
    "nvfp4": [
        (changed("weight_global_scale"), r"the scale of the whole weight \('weight_scale_2' or 'weight_global_scale'\) is missing"),
        (changed("weight_global_scale", values=lambda v: [0.0]), r"holds NaN, infinite"),
        (changed("weight_scale", values=first(0x7F)), r"holds NaN"),
        (changed("weight_scale", shape=(4, 128)), r"'weight_scale' is 4 x 128, expected 128 x 4"),
        (added("weight_zero_point", "U8", (1,), [0]), r"'weight_zero_point' of weights of this format is not supported"),
    ],
    "nvfp4-modelopt": [(config(quant_algo="W4A8_AWQ"), r"quant_algo 'W4A8_AWQ' is not supported \(supported: FP8, NVFP4\)")],
    "gpt_oss": [
        (of_experts("gate_up_proj_blocks"), r"experts.gate_up_proj': the weight is missing; other parts of it are there"),
        (of_experts("gate_up_proj_scales"), r"experts.gate_up_proj': the scales are missing"),
        (of_experts("gate_up_proj_bias"), r"blk.1.ffn_gate_exps.bias"),
        (of_experts("down_proj_blocks", shape=(7, 64, 8, 8)), r"experts.down_proj_blocks' has another shape than 7 x 64 x 4 x 16, which config.json states"),
        (of_experts("down_proj_blocks", shape=(7, 64, 64)), r"another shape than 7 x 64 x 4 x 16"),
        (of_experts("gate_up_proj_blocks", shape=(256, 7, 2, 16)), r"another shape than 7 x 256 x 2 x 16"),
        (of_experts("gate_up_proj_blocks", shape=(7, 256, 2, 4, 4)), r"another shape than 7 x 256 x 2 x 16"),
        (of_experts("gate_up_proj_scales", shape=(7, 2, 256)), r"another shape than 7 x 256 x 2,"),
        (of_experts("gate_up_proj_scales", shape=(7 * 512,)), r"another shape than 7 x 256 x 2,"),
        (of_experts("gate_up_proj_bias", shape=(256, 7)), r"another shape than 7 x 256,"),
        (of_experts("down_proj_bias", shape=(7 * 64,)), r"another shape than 7 x 64,"),
        (stated(num_local_experts=8), r"another shape than 8 x"),
        (stated(num_experts_per_tok=8), r"8 of 7 experts"),
        (stated(intermediate_size=96), r"another shape than 7 x 192 x 2"),
        (stated(swiglu_limit=5.0), r"only 'swiglu_limit' 7 and 'swiglu_alpha' 1.702 are supported"),
        (stated(rope_scaling=None), r"no 'rope_parameters' or 'rope_scaling', which gpt_oss needs"),
        (of_experts("gate_up_proj_blocks", dtype="I8", values=lambda v: [0] * len(v)), r"gate_up_proj_blocks' has type 'I8'; supported: U8"),
        (of_experts("gate_up_proj_bias", dtype="I32", values=lambda v: [0] * len(v)), r"has type 'I32'; supported: F32, F16, BF16"),
        (of_experts("gate_up_proj_scales", values=first(255)), r"blk.1.ffn_gate_exps.weight' holds NaN"),
        (floats_too, r"experts.down_proj' has both '_blocks' and 'weight'"),
        (floats_for_blocks, r"experts.down_proj': '_scales' belong to quantised weights, but 'weight' has F32"),
        (config(quant_method="mxfp8"), r"quant_method 'mxfp8' is not supported"),
        (unquantised, r"is of quantised weights, but config.json has no quantization_config"),
        (renamed("layers.1.mlp.experts.down_proj_blocks", "layers.1.mlp.experts.side_proj_blocks"), r"has no tensor 'model.layers.1.mlp.experts.side_proj_blocks'"),
        (renamed("layers.1.mlp.experts.down_proj_blocks", "layers.9.mlp.experts.down_proj_blocks"), r"has no tensor|is missing"),
        (renamed("layers.1.self_attn.sinks", "layers.1.self_attn.drains"), r"has no tensor 'model.layers.1.self_attn.drains'"),
    ],
    "mxfp4": [
        (changed("weight_scale", values=first(255)), r"holds NaN"),
        (changed("weight_packed", shape=(64, 64)), r"expected"),
    ],
}


def head_edits():
    """Edits of a safetensors header, which has all tensors' places."""
    def of(edit):
        def change(header):
            key = next(k for k in header if ".mlp." in k and "up_proj" in k)
            edit(header, key)
        return change

    def moved(by):
        return of(lambda h, k: h[k].update(data_offsets=[x + by for x in h[k]["data_offsets"]]))
    return {"behind the data": moved(1 << 40), "before the data": moved(-1 << 40), "over another": moved(-8),
            "with places as text": of(lambda h, k: h[k].update(data_offsets=["0", "4"])),
            "with one place": of(lambda h, k: h[k].update(data_offsets=[0])),
            "with a shape that overflows": of(lambda h, k: h[k].update(shape=[1 << 62, 1 << 62])),
            "with a negative shape": of(lambda h, k: h[k].update(shape=[-1, -1])),
            "with a shape of six": of(lambda h, k: h[k].update(shape=[1, 1, 1, 1] + h[k]["shape"])),
            "with a type as a number": of(lambda h, k: h[k].update(dtype=4)),
            "without a type": of(lambda h, k: h[k].pop("dtype")),
            "of a layer that is not there": of(lambda h, k: h.update({k.replace("layers.", "layers.7"): h.pop(k)})),
            "of an unknown matrix": of(lambda h, k: h.update({k.replace("up_proj", "side_proj"): h.pop(k)}))}


# what a weight may lack, in any shape: what scales activations, and the group of each input, which is then its place
MAY_LACK = {"input_scale", "g_idx", "weight_g_idx", "weight_shape", "weight_zero_point"}
UNUSABLE = {"weight_scale_2": (NAN, math.inf, 1e38), "weight_global_scale": (NAN, 0.0, 1e-38)}  # which multiplies, and divides


def part_edits(tensors):
    """Each part of one weight: missing, of another type, of other shapes."""
    edits = {}
    for part in sorted(k.rsplit(".", 1)[1] for k in tensors if ".1.mlp.up_proj." in k):
        form, shape, values = next(v for k, v in tensors.items() if k.endswith(".1.mlp.up_proj." + part))
        if part == "input_scale":
            continue
        if part not in MAY_LACK:
            edits["no " + part] = changed(part)
        edits[part + " of I16"] = changed(part, dtype="I16", values=lambda v: [0] * len(v))
        if part not in UNUSABLE:
            edits[part + " cut"] = changed(part, shape=(max(shape[0] - 1, 1),) + tuple(shape[1:]) if shape else (2,),
                                           values=lambda v, n=len(values) // (shape[0] if shape else 1): v[n:] if len(v) > n else v * 2)
        if len(shape) == 2 and shape[1] > 1:
            edits[part + " turned"] = changed(part, shape=(shape[1], shape[0])) if shape[0] != shape[1] else changed(part, shape=(shape[0] // 2, shape[1] * 2))
            edits[part + " of three dimensions"] = changed(part, shape=(2, shape[0] // 2, shape[1]))
            edits[part + " in a row"] = changed(part, shape=(shape[0] * shape[1],))
        if part in UNUSABLE:
            edits[part + " twice"] = changed(part, shape=(2,), values=lambda v: v * 2)
        for value in UNUSABLE.get(part, ()):
            edits[f"{part} of {value}"] = changed(part, values=lambda v, value=value: [value])
    return edits


class Damage(Made):
    def refused(self, path, why, what):
        r = run("generate", "--model", path, "--raw", "--prompt", "ab", "--max-tokens", "2")
        self.assertEqual((r.returncode > 0, r.stdout, r.stderr.count("\n")), (True, "", 1), (what, r.stdout, r.stderr))
        self.assertRegex(r.stderr, why)

    def test_each_kind_ends_in_one_line(self):
        for name, kinds in DAMAGE.items():
            whole = formats.make(name)
            path = self.folder(name)
            for i, (change, why) in enumerate(kinds):
                with self.subTest(name, kind=i, line=why):
                    c, tensors = json.loads(json.dumps(whole[0])), dict(whole[1])
                    change(c, tensors)
                    formats.write_folder(path, c, tensors)
                    self.refused(path, why, (name, i))

    def test_twenty_kinds_of_each_format(self):
        for name in formats.FORMATS.keys() - {formats.EXPERTS}:  # which has its own list
            whole = formats.make(name)
            path, kinds = self.folder(name), len(DAMAGE.get(name, []))
            weights = os.path.join(path, "model.safetensors")
            for what, change in part_edits(whole[1]).items():
                with self.subTest(name, what=what):
                    tensors = dict(whole[1])
                    change(whole[0], tensors)
                    formats.write_folder(path, whole[0], tensors)
                    self.refused(path, r"mlp\.up_proj|blk\.1\.ffn_up", (name, what))
                    kinds += 1
            formats.write_folder(path, *whole[:2])
            with open(weights, "rb") as f:
                data = f.read()
            n = struct.unpack_from("<Q", data)[0]
            for what, edit in head_edits().items():
                with self.subTest(name, what=what):
                    header = json.loads(data[8:8 + n])
                    edit(header)
                    head = json.dumps(header).encode()
                    with open(weights, "wb") as f:
                        f.write(struct.pack("<Q", len(head)) + head + data[8 + n:])
                    self.refused(path, "model.safetensors", (name, what))
                    kinds += 1
            self.assertGreaterEqual(kinds, 20, name)

    def test_a_file_that_is_cut(self):
        path = self.folder("awq")
        weights = os.path.join(path, "model.safetensors")
        with open(weights, "rb") as f:
            data = f.read()
        head = 8 + struct.unpack("<Q", data[:8])[0]
        for n in (7, 8, head - 1, head, head + 100, len(data) - 1):
            with open(weights, "wb") as f:
                f.write(data[:n])
            self.refused(path, re.escape(weights) + ": ", n)


if __name__ == "__main__":
    unittest.main()
