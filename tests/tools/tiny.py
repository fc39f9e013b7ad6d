#!/usr/bin/env python3
"""Writes tiny seeded checkpoints of every architecture, as a Hugging Face folder and as a GGUF file with the same weights.

    tests/tools/tiny.py DIR [NAME...]     -> DIR/NAME/{config.json,model.safetensors} and DIR/NAME.gguf

Nothing but the standard library: the same bytes everywhere. What the reference library says about them is committed in
tests/vectors/models.json (made by tests/vectors/gen_models.py).
"""
import json
import math
import os
import struct
import sys

F32, F16, BF16, Q8_0, I64, U8 = 0, 1, 30, 8, 27, -1
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
VOCAB = 128

BASE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 2}
GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh", "head_dim": 32,
         "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 4.0, "beta_slow": 1.0}
# name -> what differs from BASE in config.json
MODELS = {
    "llama2": {"model_type": "llama"},
    "llama3": {"model_type": "llama", "tie_word_embeddings": True, "rope_theta": 500000.0, "num_key_value_heads": 1,
               "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 64}},
    "linear": {"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "attention_bias": True,
               "mlp_bias": True, "num_key_value_heads": 4},
    "mistral": {"model_type": "mistral", "sliding_window": 12, "head_dim": 32},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": 12},
    "qwen3": {"model_type": "qwen3", "head_dim": 32, "attention_bias": False},
    "gemma": {"model_type": "gemma", **GEMMA},
    "gemma2": {"model_type": "gemma2", **GEMMA, "sliding_window": 12, "query_pre_attn_scalar": 32,
               "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "num_hidden_layers": 4},
    "gemma3": {"model_type": "gemma3_text", **GEMMA, "sliding_window": 12, "query_pre_attn_scalar": 32,
               "num_hidden_layers": 7, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
               "sliding_window_pattern": 6},
    "phi3": {"model_type": "phi3", "num_key_value_heads": 4, "original_max_position_embeddings": 512,
             "sliding_window": 20},
    "phi4": {"model_type": "phi3", "tie_word_embeddings": True, "head_dim": 32, "partial_rotary_factor": 0.5,
             "original_max_position_embeddings": 384, "hidden_size": 128,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0 + 0.05 * i for i in range(8)],
                              "long_factor": [1.0 + 2.0 * i for i in range(8)]}},
    "granite": {"model_type": "granite", "tie_word_embeddings": True, "embedding_multiplier": 12.0,
                "attention_multiplier": 0.0725, "residual_multiplier": 0.22, "logits_scaling": 0.0625},
    "olmo2": {"model_type": "olmo2"},
    "smollm3": {"model_type": "smollm3", "tie_word_embeddings": True, "no_rope_layer_interval": 4, "num_hidden_layers": 5,
                "no_rope_layers": [1, 1, 1, 0, 1]},
    "ministral3": {"model_type": "ministral3", "head_dim": 32, "rope_parameters": {
        **YARN, "rope_theta": 10000.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}},
    "yarn": {"model_type": "qwen3", "head_dim": 32, "attention_bias": False, "rope_scaling": {**YARN}},
    "olmo3": {"model_type": "olmo3", "num_hidden_layers": 5, "rope_theta": 500000.0, "sliding_window": 12, "rope_scaling": {**YARN}},
    "granite4": {"model_type": "granitemoehybrid", "tie_word_embeddings": True, "embedding_multiplier": 12.0, "attention_multiplier": 0.0725,
                 "residual_multiplier": 0.22, "logits_scaling": 0.0625, "num_local_experts": 0, "num_experts_per_tok": 0,
                 "shared_intermediate_size": 128, "position_embedding_type": "rope", "layer_types": ["attention"] * 3, "mamba_n_heads": 4},
    "seed_oss": {"model_type": "seed_oss", "head_dim": 32, "attention_bias": True, "attention_out_bias": False},
    "ernie4_5": {"model_type": "ernie4_5", "tie_word_embeddings": True, "head_dim": 32, "use_bias": False, "rope_theta": 500000.0},
    "hunyuan": {"model_type": "hunyuan_v1_dense", "tie_word_embeddings": True, "head_dim": 32,
                "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}},
    "exaone4": {"model_type": "exaone4", "num_hidden_layers": 5, "sliding_window": 12, "sliding_window_pattern": 4,
                "layer_types": ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"]},
    "exaone4-small": {"model_type": "exaone4", "tie_word_embeddings": True, "sliding_window": None, "layer_types": ["full_attention"] * 3,
                      "rope_scaling": {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                       "original_max_position_embeddings": 64}},
    "glm4": {"model_type": "glm4", "head_dim": 32, "partial_rotary_factor": 0.5, "attention_bias": True},
    "apertus": {"model_type": "apertus", "hidden_act": "xielu", "num_key_value_heads": 4,
                "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 64}},
    "arcee": {"model_type": "arcee", "hidden_act": "relu2", "head_dim": 16, "rope_scaling": {**YARN}},
    # mixtures of experts
    "mixtral": {"model_type": "mixtral", "intermediate_size": 160, "num_local_experts": 6, "num_experts_per_tok": 3},
    "olmoe": {"model_type": "olmoe", "num_key_value_heads": 4, "num_experts": 9, "num_experts_per_tok": 3},
    "qwen2_moe": {"model_type": "qwen2_moe", "hidden_size": 128, "moe_intermediate_size": 128, "shared_expert_intermediate_size": 160, "num_experts": 7,
                  "num_experts_per_tok": 3, "decoder_sparse_step": 1, "use_sliding_window": False},
    "qwen3_moe": {"model_type": "qwen3_moe", "head_dim": 32, "moe_intermediate_size": 128, "num_experts": 10, "num_experts_per_tok": 4,
                  "norm_topk_prob": True, "mlp_only_layers": [0], "decoder_sparse_step": 1},
    "granitemoe": {"model_type": "granitemoe", "tie_word_embeddings": True, "embedding_multiplier": 12.0, "attention_multiplier": 0.0725,
                   "residual_multiplier": 0.22, "logits_scaling": 0.0625, "num_local_experts": 7,
                   "num_experts_per_tok": 3},
    "internlm3": {"model_type": "internlm3", "head_dim": 32, "rope_theta": 50000.0, "rope_scaling": {"rope_type": "dynamic", "factor": 6.0}},
    "glm4_moe": {"model_type": "glm4_moe", "head_dim": 32, "attention_bias": True, "use_qk_norm": True, "partial_rotary_factor": 0.5,
                 "moe_intermediate_size": 128, "n_routed_experts": 12, "num_experts_per_tok": 3, "n_shared_experts": 1, "first_k_dense_replace": 1,
                 "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5, "norm_topk_prob": True, "num_nextn_predict_layers": 1},
    "glm4_moe-air": {"model_type": "glm4_moe", "head_dim": 32, "attention_bias": True, "partial_rotary_factor": 0.5, "moe_intermediate_size": 128,
                     "n_routed_experts": 9, "num_experts_per_tok": 4, "n_shared_experts": 2, "first_k_dense_replace": 0, "routed_scaling_factor": 2.5,
                     "norm_topk_prob": False, "num_nextn_predict_layers": 0},
    "ernie4_5_moe": {"model_type": "ernie4_5_moe", "tie_word_embeddings": True, "head_dim": 32, "use_bias": False, "rope_theta": 500000.0, "num_hidden_layers": 5,
                     "moe_intermediate_size": 128, "moe_num_experts": 8, "moe_k": 3, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
                     "moe_layer_interval": 2},
    "starcoder2": {"model_type": "starcoder2", "norm_epsilon": 1e-5, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    "starcoder2-window": {"model_type": "starcoder2", "norm_epsilon": 1e-5, "hidden_act": "gelu_pytorch_tanh", "sliding_window": 12},
    "phi4-long": {"model_type": "phi3", "tie_word_embeddings": True, "head_dim": 32, "partial_rotary_factor": 0.5,
                  "original_max_position_embeddings": 32, "hidden_size": 128,
                  "rope_scaling": {"type": "longrope", "short_factor": [1.0 + 0.05 * i for i in range(8)],
                                   "long_factor": [1.0 + 2.0 * i for i in range(8)]}},
    "gpt_oss": {"model_type": "gpt_oss", "head_dim": 32, "num_local_experts": 7, "num_experts_per_tok": 3, "sliding_window": 12,
                "rope_theta": 150000.0, "rope_scaling": {**YARN, "truncate": False}},
    "gpt_oss-mxfp4": {"model_type": "gpt_oss", "head_dim": 32, "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 12,
                      "rope_theta": 150000.0, "rope_scaling": {**YARN, "truncate": False},
                      "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                                                  "model.embed_tokens", "lm_head"]}},
    # the text parts of models that also see pictures
    "qwen2vl": {"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": [4, 2, 2]}, "rope_theta": 1000000.0},
    "qwen2_5_vl": {"model_type": "qwen2_5_vl_text", "tie_word_embeddings": True, "rope_theta": 1000000.0,
                   "rope_scaling": {"rope_type": "default", "type": "default", "mrope_section": [4, 2, 2]}},
    "qwen3vl": {"model_type": "qwen3_vl_text", "head_dim": 32, "attention_bias": False, "rope_theta": 5000000.0,
                "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [8, 4, 4]}},
    "gemma3-vision": {"model_type": "gemma3_text", **GEMMA, "sliding_window": 12, "query_pre_attn_scalar": 32,
                      "num_hidden_layers": 7, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6},
    "mistral3-vision": {"model_type": "ministral3", "head_dim": 32, "rope_parameters": {
        **YARN, "rope_theta": 10000.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}},
    # sizes that are padded with zeros: OpenLLaMA 3B's heads, stories260K's, and odd ones with biases
    "heads100": {"model_type": "llama", "hidden_size": 128, "num_attention_heads": 8, "head_dim": 100, "intermediate_size": 172, "num_hidden_layers": 2},
    "heads8": {"model_type": "llama", "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 172, "tie_word_embeddings": True},
    "heads36": {"model_type": "llama", "hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 36, "intermediate_size": 33, "attention_bias": True,
                "mlp_bias": True},
    "heads24": {"model_type": "phi3", "hidden_size": 96, "num_key_value_heads": 4, "intermediate_size": 100, "original_max_position_embeddings": 512},
}
ADDED = "smollm3 ministral3 yarn olmo3 granite4 seed_oss ernie4_5 hunyuan exaone4 exaone4-small glm4 apertus arcee starcoder2 starcoder2-window qwen2vl qwen2_5_vl qwen3vl gemma3-vision mistral3-vision phi4-long mixtral olmoe qwen2_moe qwen3_moe granitemoe gpt_oss gpt_oss-mxfp4 glm4_moe-air ernie4_5_moe glm4_moe internlm3".split()
VISION = {"depth": 1, "embed_dim": 16, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "num_attention_heads": 2, "num_hidden_layers": 1,
          "patch_size": 2, "image_size": 8, "out_hidden_size": 64, "deepstack_visual_indexes": [], "num_position_embeddings": 16}
# name -> of models with pictures: model_type (None: config.json has the text part's keys beside vision_config), what
# names of tensors begin with in place of "model.", and tensors of the vision part
PICTURES = {"qwen2vl": (None, "model.", {"visual.patch_embed.proj.weight": (16, 3, 2, 2, 2)}),
            "qwen2_5_vl": ("qwen2_5_vl", "model.", {"visual.patch_embed.proj.weight": (16, 3, 2, 2, 2), "visual.merger.ln_q.weight": (16,)}),
            "qwen3vl": ("qwen3_vl", "model.language_model.", {"model.visual.patch_embed.proj.weight": (16, 3, 2, 2, 2)}),
            "gemma3-vision": ("gemma3", "language_model.model.", {"multi_modal_projector.mm_soft_emb_norm.weight": (16,)}),
            "mistral3-vision": ("mistral3", "language_model.model.", {"multi_modal_projector.norm.weight": (16,), "vision_tower.ln_pre.weight": (16,)})}
# those that were added keep the others' seeds
SEEDS = {name: i + 1 for i, name in enumerate([n for n in MODELS if n not in ADDED] + ADDED)}
KEPT = {"mistral": BF16, "qwen2": F16}  # else F32


def config_of(name):
    c = {**BASE, **MODELS[name]}
    if c["model_type"] == "gemma3_text":
        n = c["sliding_window_pattern"]
        c["layer_types"] = ["full_attention" if (i + 1) % n == 0 else "sliding_attention"
                            for i in range(c["num_hidden_layers"])]
    return c


def written_config(name):
    c = config_of(name)
    if name not in PICTURES:
        return c
    outer, vision = PICTURES[name][0], {"vision_config": VISION}
    return {"model_type": outer, "text_config": c, "tie_word_embeddings": c["tie_word_embeddings"], **vision} if outer else {**c, **vision}


def rounded(x):  # to single precision
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Random:
    """A 64-bit linear congruential generator's upper bits: uniform in -1..1."""

    def __init__(self, seed):
        self.state = seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1

    def values(self, n, scale, offset=0.0):
        s, out = self.state, []
        for _ in range(n):
            s = s * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            out.append(rounded(offset + scale * ((s >> 40) / (1 << 23) - 1)))
        self.state = s
        return out


def to_type(values, kind):
    """The bytes, and the values that they stand for."""
    if kind == U8:
        return bytes(values), values
    if kind in (F32, I64):
        return struct.pack(f"<{len(values)}{'f' if kind == F32 else 'q'}", *values), values
    if kind == F16:
        data = struct.pack(f"<{len(values)}e", *values)
        return data, list(struct.unpack(f"<{len(values)}e", data))
    words = [struct.unpack("<I", struct.pack("<f", v))[0] >> 16 for v in values]
    return struct.pack(f"<{len(words)}H", *words), [struct.unpack("<f", struct.pack("<I", w << 16))[0] for w in words]


def tensors_of(name):
    """[(name, shape, values)] with Hugging Face's names, values as the file will hold them."""
    c, r = config_of(name), Random(SEEDS[name])
    d, ff, kind = c["hidden_size"], c["intermediate_size"], c["model_type"]
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    hd = c.get("head_dim") or d // heads
    gemma, out = kind.startswith("gemma"), []
    ungated = kind in ("apertus", "arcee")
    # a tied model that does not move far from its embeddings would only repeat what it reads
    embd = 0.006 if kind.startswith("granite") else 0.03 if gemma else 0.2 if c["tie_word_embeddings"] else 1.0

    def add(key, *shape):
        n = math.prod(shape)
        if key.endswith("e_score_correction_bias"):
            values = r.values(n, 0.1)
        elif len(shape) > 1:
            # an expert of few, each with a large share: rounding that chooses another one must not change everything
            little = 0.1 if kind in BALANCED and ".experts." in key and "down_proj" in key else 1.0
            values = r.values(n, little * 2.0 / math.sqrt(shape[-1]) if key != "model.embed_tokens.weight" else embd)
        elif key.endswith("bias"):  # of a matrix or of a layer norm
            values = r.values(n, 0.3)
        else:
            values = r.values(n, 0.3, 0.0 if gemma else 1.0)
        if "quantization_config" in c and len(shape) == 3:
            values = unpacked(*packed(values, shape), shape)
        out.append((key, shape, to_type(values, KEPT.get(name, F32))[1]))

    add("model.embed_tokens.weight", c["vocab_size"], d)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        q_bias = kind in ("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl_text", "starcoder2", "gpt_oss") or c.get("attention_bias")
        if kind not in ("olmo2", "olmo3", "exaone4"):
            add(p + ("attention_layernorm.weight" if kind == "apertus" else "input_layernorm.weight"), d)
        if kind == "phi3":
            add(p + "self_attn.qkv_proj.weight", (heads + 2 * kv) * hd, d)
        else:
            for part, n in (("q", heads), ("k", kv), ("v", kv)):
                add(p + f"self_attn.{part}_proj.weight", n * hd, d)
                if q_bias:
                    add(p + f"self_attn.{part}_proj.bias", n * hd)
        if kind == "hunyuan_v1_dense":
            add(p + "self_attn.query_layernorm.weight", hd)
            add(p + "self_attn.key_layernorm.weight", hd)
        if kind in ("qwen3", "qwen3_moe", "qwen3_vl_text", "gemma3_text", "exaone4", "apertus") or c.get("use_qk_norm"):
            add(p + "self_attn.q_norm.weight", hd)
            add(p + "self_attn.k_norm.weight", hd)
        if kind in ("olmo2", "olmo3", "olmoe"):
            add(p + "self_attn.q_norm.weight", heads * hd)
            add(p + "self_attn.k_norm.weight", kv * hd)
        add(p + "self_attn.o_proj.weight", d, heads * hd)
        if kind == "starcoder2" or kind == "llama" and c.get("attention_bias"):
            add(p + "self_attn.o_proj.bias", d)
        add(p + ("feedforward_layernorm.weight" if kind == "apertus" else "post_attention_layernorm.weight"), d)
        if kind == "glm4":
            add(p + "post_self_attn_layernorm.weight", d)
            add(p + "post_mlp_layernorm.weight", d)
        if kind in ("gemma2", "gemma3_text"):
            add(p + "pre_feedforward_layernorm.weight", d)
        if kind in ("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4"):
            add(p + "post_feedforward_layernorm.weight", d)
        if kind in ("phi3", "glm4"):
            add(p + "mlp.gate_up_proj.weight", 2 * ff, d)
        if kind == "granitemoehybrid":
            add(p + "shared_mlp.input_linear.weight", 2 * ff, d)
            add(p + "shared_mlp.output_linear.weight", d, ff)
            continue
        if kind == "gpt_oss":
            add(p + "self_attn.o_proj.bias", d)
            add(p + "self_attn.sinks", heads)
            add(p + "mlp.router.weight", experts_of(c), d)
            add(p + "mlp.router.bias", experts_of(c))
            for part, a, b in ("gate_up", d, 2 * ff), ("down", ff, d):  # [expert][input][output], gate and up in turn
                add(p + f"mlp.experts.{part}_proj", experts_of(c), a, b)
                add(p + f"mlp.experts.{part}_proj_bias", experts_of(c), b)
            continue
        if experts_of(c) and not is_dense(c, i):
            wide = c.get("moe_intermediate_size", ff)
            if kind == "granitemoe":
                add(p + "block_sparse_moe.router.layer.weight", experts_of(c), d)
                add(p + "block_sparse_moe.input_linear.weight", experts_of(c), 2 * wide, d)
                add(p + "block_sparse_moe.output_linear.weight", experts_of(c), d, wide)
                continue
            block, gate, up, down = (("block_sparse_moe", "w1", "w3", "w2") if kind == "mixtral"
                                     else ("mlp", "gate_proj", "up_proj", "down_proj"))
            add(p + block + ".gate.weight", experts_of(c), d)
            if kind in BALANCED:
                add(p + "mlp." + BALANCED[kind], *([1] if kind == "ernie4_5_moe" else []), experts_of(c))
            for e in range(experts_of(c)):
                for part, a, b in ((gate, wide, d), (up, wide, d), (down, d, wide)):
                    add(p + f"{block}.experts.{e}.{part}.weight", a, b)
            shared = c.get("n_shared_experts", c.get("moe_num_shared_experts", 0)) * wide
            for part, a, b in (("gate", shared, d), ("up", shared, d), ("down", d, shared)) if shared else ():
                add(p + f"mlp.shared_experts.{part}_proj.weight", a, b)
            if kind == "qwen2_moe":
                wide = c["shared_expert_intermediate_size"]
                for part, a, b in (("gate", wide, d), ("up", wide, d), ("down", d, wide)):
                    add(p + f"mlp.shared_expert.{part}_proj.weight", a, b)
                add(p + "mlp.shared_expert_gate.weight", 1, d)
            continue
        if kind == "starcoder2":
            add(p + "input_layernorm.bias", d)
            add(p + "post_attention_layernorm.bias", d)
            for part, a, b in ("c_fc", ff, d), ("c_proj", d, ff):
                add(p + f"mlp.{part}.weight", a, b)
                add(p + f"mlp.{part}.bias", a)
            continue
        for part, a, b in (("gate", ff, d), ("up", ff, d), ("down", d, ff)):
            if kind in ("phi3", "glm4") and part != "down" or ungated and part == "gate":
                continue
            add(p + f"mlp.{part}_proj.weight", a, b)
            if c.get("mlp_bias"):
                add(p + f"mlp.{part}_proj.bias", a)
        if kind == "apertus":
            for key, value in ("alpha_p", 0.2 + 0.1 * i), ("alpha_n", -0.8 + 0.3 * i), ("beta", 0.5), ("eps", -1e-6):
                out.append((p + "mlp.act_fn." + key, (1,) if "alpha" in key else (), [rounded(value)]))
    for i in range(c.get("num_nextn_predict_layers", 0)):
        add(f"model.layers.{c['num_hidden_layers'] + i}.eh_proj.weight", d, 2 * d)
    add("model.norm.weight", d)
    if kind == "starcoder2":
        add("model.norm.bias", d)
    if not c["tie_word_embeddings"]:
        add("lm_head.weight", c["vocab_size"], d)
    if kind == "ernie4_5_moe":
        add("model.mtp_linear_proj.0.weight", d, 2 * d)  # GGUF files lack it
    return out


def packed(values, shape):
    """Experts' matrices [expert][input][output] as MXFP4: codes [expert][output][input], and a power of two for 32 inputs."""
    n, n_in, n_out = shape
    codes, powers = [], []
    for e in range(n):
        for o in range(n_out):
            row = [values[(e * n_in + i) * n_out + o] for i in range(n_in)]
            for at in range(0, n_in, 32):
                some = row[at:at + 32]
                power = math.frexp(max(abs(v) for v in some))[1] - 3  # the largest below 6 * 2^power
                powers.append(power + 127)
                codes += [min(range(16), key=lambda c, v=v / 2.0 ** power: abs(E2M1[c] - v)) for v in some]
    return codes, powers


def unpacked(codes, powers, shape):
    n, n_in, n_out = shape
    return [E2M1[codes[(e * n_out + o) * n_in + i]] * 2.0 ** (powers[((e * n_out + o) * n_in + i) // 32] - 127)
            for e in range(n) for i in range(n_in) for o in range(n_out)]


def experts_of(c):
    return c.get("num_local_experts") or c.get("num_experts") or c.get("n_routed_experts") or c.get("moe_num_experts")


def is_dense(c, layer):
    return (layer in c.get("mlp_only_layers", []) or layer < c.get("first_k_dense_replace", c.get("moe_layer_start_index", 0))
            or (layer + 1) % c.get("moe_layer_interval", 1) != 0)


def write_folder(folder, name, tensors, shards=1):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(written_config(name), f, indent=1)
    kind = KEPT.get(name, F32)
    if name in PICTURES:
        _, prefix, vision = PICTURES[name]
        head = prefix.removesuffix("model.") if prefix.startswith("language") else ""
        tensors = [(prefix + key.removeprefix("model.") if key.startswith("model.") else head + key, *rest) for key, *rest in tensors]
        tensors += [(key, shape, [0.5] * math.prod(shape)) for key, shape in vision.items()]
    if "quantization_config" in config_of(name):
        for key, shape, values in [t for t in tensors if len(t[1]) == 3]:
            codes, powers = packed(values, shape)
            rows = (shape[0], shape[2], shape[1] // 32)
            tensors = [t for t in tensors if t[0] != key] + [(key + "_blocks", (*rows, 16), [a | b << 4 for a, b in zip(codes[::2], codes[1::2])], U8),
                                                             (key + "_scales", rows, powers, U8)]
    if shards == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), kind, tensors)
        return
    names = {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(os.path.join(folder, file), kind, tensors[i::shards])
        names |= {t[0]: file for t in tensors[i::shards]}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": names}, f)


def write_safetensors(path, kind, tensors):
    header, data = {}, b""
    for key, shape, values, *own in tensors:
        form = own[0] if own else kind
        raw = to_type(values, form)[0]
        header[key] = {"dtype": {F32: "F32", F16: "F16", BF16: "BF16", U8: "U8"}[form], "shape": list(shape),
                       "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm", "attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm",
         "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
         "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm", "shared_mlp.output_linear": "ffn_down", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
         "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.router.layer": "ffn_gate_inp",
         "block_sparse_moe.output_linear": "ffn_down_exps", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
         "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
         "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
         "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp", "eh_proj": "nextn.eh_proj"}
# where a class has the biases of the choice
BALANCED = {"glm4_moe": "gate.e_score_correction_bias", "ernie4_5_moe": "moe_statics.e_score_correction_bias"}
OF_EXPERT = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}
ARCH = {"llama": "llama", "mistral": "llama", "gemma3_text": "gemma3", "ministral3": "mistral3", "olmo3": "olmo2", "granitemoehybrid": "granite",
        "internlm3": "llama", "hunyuan_v1_dense": "hunyuan-dense", "qwen2_vl": "qwen2vl", "qwen2_5_vl_text": "qwen2vl", "qwen3_vl_text": "qwen3vl",
        "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss", "glm4_moe": "glm4moe",
        "ernie4_5_moe": "ernie4_5-moe"}
PAIRED = ("llama", "internlm3", "mistral", "granite", "granitemoehybrid", "smollm3", "arcee", "ministral3", "mixtral", "granitemoe")


def gguf_name(key, kind):
    key = key.removeprefix("model.")
    if not key.startswith("layers."):
        return {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "norm.bias": "output_norm.bias",
                "lm_head.weight": "output.weight"}[key]
    _, layer, rest = key.split(".", 2)
    if rest.endswith("e_score_correction_bias"):
        return f"blk.{layer}.exp_probs_b.bias"
    if rest == "self_attn.sinks":
        return f"blk.{layer}.attn_sinks.weight"
    part, last = rest.rsplit(".", 1)
    if part == "post_attention_layernorm":
        part = "post_attention_norm" if kind in ("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4", "seed_oss", "gpt_oss", "glm4_moe") else "ffn_norm"
    return f"blk.{layer}.{NAMES.get(part, part)}.{last}"


def paired(values, shape, heads):
    """Rotary pairs side by side, as Llama's GGUF files have them."""
    width = shape[1] if len(shape) == 2 else 1
    hd = shape[0] // heads
    rows = [values[i * width:(i + 1) * width] for i in range(shape[0])]
    out = []
    for h in range(heads):
        for i in range(hd // 2):
            out += rows[h * hd + i] + rows[h * hd + hd // 2 + i]
    return out


def metadata(name):
    c = config_of(name)
    kind = c["model_type"]
    arch = ARCH.get(kind, kind)
    hd = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
    m = {"general.architecture": arch, "block_count": c["num_hidden_layers"], "embedding_length": c["hidden_size"],
         "feed_forward_length": c["intermediate_size"], "attention.head_count": c["num_attention_heads"],
         "attention.head_count_kv": c["num_key_value_heads"], "context_length": c["max_position_embeddings"],
         "attention.layer_norm_rms_epsilon": c["rms_norm_eps"], "rope.freq_base": c["rope_theta"],
         "rope.dimension_count": int(hd * c.get("partial_rotary_factor", 1)), "attention.key_length": hd,
         "attention.value_length": hd, "vocab_size": c["vocab_size"]}
    if experts_of(c):
        m |= {"expert_count": experts_of(c), "expert_used_count": c.get("num_experts_per_tok") or c["moe_k"]}
    if c.get("moe_intermediate_size"):
        m |= {"expert_feed_forward_length": c["moe_intermediate_size"]}
    if c.get("shared_expert_intermediate_size"):
        m |= {"expert_shared_feed_forward_length": c["shared_expert_intermediate_size"]}
    if c.get("mlp_only_layers"):
        m |= {"leading_dense_block_count": len(c["mlp_only_layers"])}
    if kind == "glm4_moe":
        m |= {"leading_dense_block_count": c["first_k_dense_replace"], "expert_shared_count": c["n_shared_experts"], "expert_gating_func": 2,
              "expert_weights_scale": c["routed_scaling_factor"], "expert_weights_norm": c["norm_topk_prob"],
              "nextn_predict_layers": c["num_nextn_predict_layers"], "block_count": c["num_hidden_layers"] + c["num_nextn_predict_layers"]}
        if c.get("n_group"):
            m |= {"expert_group_count": c["n_group"], "expert_group_used_count": c["topk_group"]}
    if kind == "ernie4_5_moe":
        m |= {"leading_dense_block_count": c["moe_layer_start_index"], "interleave_moe_layer_step": c["moe_layer_interval"],
              "expert_shared_count": c["moe_num_shared_experts"],
              "expert_shared_feed_forward_length": c["moe_num_shared_experts"] * c["moe_intermediate_size"]}
    if kind not in ("qwen2", "mistral") and c.get("sliding_window"):  # converters write none of theirs
        m["attention.sliding_window"] = c["sliding_window"]
    if kind in ("olmo3", "exaone4") and c.get("sliding_window"):
        m["attention.sliding_window_pattern"] = [(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])]
    if rope.get("rope_type") == "yarn":
        m |= {"rope.scaling.type": "yarn", "rope.scaling.factor": rope["factor"],
              "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
              "rope.scaling.yarn_beta_fast": rope["beta_fast"], "rope.scaling.yarn_beta_slow": rope["beta_slow"]}
    if kind == "ministral3":
        m |= {"rope.scaling.yarn_log_multiplier": rope["mscale_all_dim"], "attention.temperature_scale": rope["llama_4_scaling_beta"]}
    if kind == "starcoder2":
        m["attention.layer_norm_epsilon"] = m.pop("attention.layer_norm_rms_epsilon")
        m.pop("attention.sliding_window", None)  # llama.cpp has none in this architecture
    if rope.get("mrope_section"):
        m["rope.dimension_sections"] = [*rope["mrope_section"], 0]
    if kind == "hunyuan_v1_dense":
        m |= {"rope.freq_base": c["rope_theta"] * rope["alpha"] ** (hd / (hd - 2)), "rope.scaling.type": "none", "rope.scaling.factor": 1.0}
    if kind == "apertus":
        n = range(c["num_hidden_layers"])
        m |= {"xielu.alpha_p": [0.2 + 0.1 * i for i in n], "xielu.alpha_n": [-0.8 + 0.3 * i for i in n], "xielu.beta": [0.5 for _ in n],
              "xielu.eps": [-1e-6 for _ in n]}
    if rope.get("rope_type") == "linear":
        m |= {"rope.scaling.type": "linear", "rope.scaling.factor": rope["factor"]}
    if rope.get("type") == "longrope":
        old = c["original_max_position_embeddings"]
        grown = c["max_position_embeddings"] / old
        m |= {"rope.scaling.original_context_length": old,
              "rope.scaling.attn_factor": math.sqrt(1 + math.log(grown) / math.log(old))}
    if kind == "gemma2":
        m |= {"attn_logit_softcapping": c["attn_logit_softcapping"],
              "final_logit_softcapping": c["final_logit_softcapping"]}
    if kind.startswith("granite"):
        m |= {"embedding_scale": c["embedding_multiplier"], "attention.scale": c["attention_multiplier"],
              "residual_scale": c["residual_multiplier"], "logit_scale": c["logits_scaling"]}
    return {k if k.startswith("general.") else f"{arch}.{k}": v for k, v in m.items()}


def llama3_factors(c):
    """What divides each rotary frequency (what convert_hf_to_gguf.py writes as rope_freqs.weight)."""
    r, out = c["rope_scaling"], []
    hd = c["hidden_size"] // c["num_attention_heads"]
    low, high, old = r["low_freq_factor"], r["high_freq_factor"], r["original_max_position_embeddings"]
    for i in range(hd // 2):
        wave = 2 * math.pi * c["rope_theta"] ** (2 * i / hd)
        if wave < old / high:
            out.append(1.0)
        elif wave > old / low:
            out.append(r["factor"])
        else:
            smooth = (old / wave - low) / (high - low)
            out.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return out


def experts_of_gpt_oss(key, shape, values):
    n, out, last = shape[0], [], "bias" if key.endswith("_bias") else "weight"
    for part, start, step in ((("gate", 0, 2), ("up", 1, 2)) if "gate_up" in key else (("down", 0, 1),)):
        if last == "bias":
            some, new = values[start::step], (n, shape[1] // step)
        else:
            rows, wide = shape[1], shape[2]
            some = [values[(e * rows + i) * wide + o] for e in range(n) for o in range(start, wide, step) for i in range(rows)]
            new = (n, wide // step, rows)
        out.append((f"blk.{key.split('.')[2]}.ffn_{part}_exps.{last}", new, some, F32))
    return out


def write_gguf(path, name, tensors, parts=1):
    c = config_of(name)
    kind, scaling = c["model_type"], c.get("rope_scaling") or {}
    out = []
    stacked = {}  # the experts' tensors of a layer
    for key, shape, values in tensors:
        if ".act_fn." in key or ".mtp_" in key:
            continue  # metadata; not there
        if "mlp.experts.gate_up_proj" in key or "mlp.experts.down_proj" in key and kind == "gpt_oss":
            out += experts_of_gpt_oss(key, shape, values)
            continue
        if ".experts." in key:
            part = f"blk.{key.split('.')[2]}.ffn_{OF_EXPERT[key.split('.')[-2]]}_exps.weight"
            stacked.setdefault(part, []).append((shape, values))
            continue
        if key.endswith("block_sparse_moe.input_linear.weight"):
            n, wide, width = shape
            for k, part in enumerate(("gate", "up")):
                some = [v for e in range(n) for v in values[(2 * e + k) * wide // 2 * width:][:wide // 2 * width]]
                out.append((f"blk.{key.split('.')[2]}.ffn_{part}_exps.weight", (n, wide // 2, width), some, F32))
            continue
        if key.endswith("shared_mlp.input_linear.weight"):
            half = len(values) // 2
            for part, some in ("ffn_gate", values[:half]), ("ffn_up", values[half:]):
                out.append((f"blk.{key.split('.')[2]}.{part}.weight", (shape[0] // 2, shape[1]), some, F32))
            continue
        if kind in PAIRED and ("q_proj" in key or "k_proj" in key):
            values = paired(values, shape, c["num_attention_heads" if "q_proj" in key else "num_key_value_heads"])
        if kind.startswith("gemma") and "norm" in key:
            values = [rounded(v + 1) for v in values]
        if key.endswith("e_score_correction_bias"):
            shape = shape[-1:]
        out.append((gguf_name(key, kind), shape, values, KEPT.get(name, F32) if len(shape) == 2 else F32))
    for part, experts in stacked.items():
        out.append((part, (len(experts), *experts[0][0]), [v for _, values in experts for v in values], F32))
    if scaling.get("rope_type") == "llama3":
        factors = llama3_factors(c)
        out.append(("rope_freqs.weight", (len(factors),), factors, F32))
    if scaling.get("type") == "longrope":
        for length in ("long", "short"):
            factors = scaling[length + "_factor"]
            out.append((f"rope_factors_{length}.weight", (len(factors),), factors, F32))

    if parts == 1:
        write_gguf_file(path, metadata(name), out)
        return
    for i in range(parts):
        split = {"split.no": i, "split.count": parts, "split.tensors.count": len(out)}
        write_gguf_file(path.replace(".gguf", f"-{i + 1:05}-of-{parts:05}.gguf"), split | (metadata(name) if i == 0 else {}),
                        out[i::parts])


def write_gguf_file(path, meta, out):
    def string(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def value(v):
        if isinstance(v, list):
            kind, form = (7, "?") if isinstance(v[0], bool) else (5, "i") if isinstance(v[0], int) else (6, "f")
            return struct.pack(f"<IIQ{len(v)}{form}", 9, kind, len(v), *v)
        if isinstance(v, str):
            return struct.pack("<I", 8) + string(v)
        if isinstance(v, bool):
            return struct.pack("<I?", 7, v)
        return struct.pack("<II", 4, v) if isinstance(v, int) else struct.pack("<If", 6, v)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(out), len(meta)) + b"".join(string(k) + value(v) for k, v in meta.items())
    data = b""
    for key, shape, values, form in out:
        raw = to_type(values, form)[0]
        head += string(key) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), form, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


def write(folder, name):
    tensors = tensors_of(name)
    write_folder(os.path.join(folder, name), name, tensors)
    write_gguf(os.path.join(folder, name + ".gguf"), name, tensors)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):  # no folder is named like an option
        sys.exit(__doc__)
    for model in sys.argv[2:] or MODELS:
        write(sys.argv[1], model)
    if len(sys.argv) == 2:  # the same in several files
        write_folder(os.path.join(sys.argv[1], "sharded"), "qwen3", tensors_of("qwen3"), 3)
        write_gguf(os.path.join(sys.argv[1], "split.gguf"), "llama3", tensors_of("llama3"), 3)
