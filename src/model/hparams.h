// The hyper-parameters of a decoder of the Llama family and of its architecture: what a forward computes. Also read by
// C++ and CUDA.
#pragma once
#include "base/split.h"

#include <stdbool.h>
#include <stdint.h>

enum { LS_MAX_LAYERS = 1024, LS_MAX_ROPE = 128, LS_MAX_EXPERTS = 1024, LS_MAX_EXPERTS_USED = 64 };

// The activation of the feed-forward part, act(x): x / (1 + e^-x); x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
// x^3))); max(x, 0)^2; xIELU with a layer's four numbers (ls_hparams.xielu); and x / (1 + e^-(SLOPE x)) of x =
// min(gate, CLAMP), whose product with the other half is with 1 + max(min(up, CLAMP), -CLAMP).
typedef enum { LS_ACT_SILU, LS_ACT_GELU_TANH, LS_ACT_RELU2, LS_ACT_XIELU, LS_ACT_CLAMPED } ls_activation;
#define LS_CLAMP 7.0f
#define LS_CLAMP_SLOPE 1.702f
// RMS norm of queries and keys: none; of each head before its rotation; of all heads together before it; of each head
// after it.
typedef enum { LS_QK_NORM_NONE, LS_QK_NORM_HEAD, LS_QK_NORM_WHOLE, LS_QK_NORM_ROTATED } ls_qk_norm;
// What a mixture's router makes of its logits, one for each expert: no router; probabilities of all experts, of which
// the best ones are taken; probabilities of the best ones alone; or the sigmoid of each.
typedef enum { LS_ROUTER_NONE, LS_ROUTER_ALL, LS_ROUTER_BEST, LS_ROUTER_SIGMOID } ls_router;

// An architecture: properties that are not in its checkpoints.
typedef struct {
    const char *gguf;             // general.architecture
    const char *hf;               // model_type of config.json
    const char *wrapper;          // model_type of a model with pictures whose text_config has the one above; NULL: none
    const char *tokenizer;        // class of its tokenizer if the files name none, as in transformers; NULL: none
    const char *models;           // well-known models, for the table of architectures; NULL: those of the row before
    bool gguf_interleaved;        // GGUF stores rotary pairs side by side (Llama)
    bool hf_interleaved;          // and so does Hugging Face's checkpoint
    bool norm_before, norm_after; // of each sublayer
    bool layer_norm;              // norms subtract the mean and have biases; RMS norms otherwise
    bool post_is_before;          // post_attention_layernorm comes before the feed-forward part, although norm_after
    ls_qk_norm qk_norm;
    ls_activation activation;
    bool qk_norm_stated; // some of its models have no such norms (use_qk_norm in config.json)
    ls_router router;    // of a mixture of experts; NONE: the feed-forward part is dense
    bool balanced;       // experts are chosen by their scores plus a bias of each (exp_probs_b.bias)
    bool sinks;          // every head has a score of attention without a value, which takes weight from the others
    bool fused;          // its folders have the matrices of all experts of a layer in one tensor (model/experts.c)
    bool gguf_sum;       // in GGUF files the weights of a row's experts are divided by their sum
    bool ungated;        // the feed-forward part is down(act(up(x))), not down(act(gate(x)) * up(x))
    bool tied;           // the output head is the token embedding unless config.json states otherwise
    bool gemma;          // scaled embeddings; Hugging Face's checkpoints store norm weights minus 1
    bool granite;        // has multipliers of embeddings, attention scores, residuals and logits
    bool long_rope;      // its rotary factors depend on the length of the context (Phi)
    bool rope_stated;    // config.json must state the rotary embedding: the class's default is a scaled one
    bool pictures;       // sees pictures, too; a token of text has one position on all axes of its rotary embedding
    int rope_every;      // each layer whose number, counted from 1, is a multiple of it has no rotation; 0: all rotate
    bool rope_local;     // if there is a window, only the layers that have it rotate
    int pattern;         // with a sliding window: every pattern-th layer attends to all positions; 0: no layer does
    bool gguf_window;    // its GGUF files have a window; llama.cpp ignores one in files of the other architectures
    bool windowless;     // a sliding_window in config.json is ignored, as in transformers' class
    int late_window;     // the window can be switched on, for the layers from this one on; 0: no switch, all layers
    bool plain_local;    // the rotary embedding of the local layers is never scaled
    float local_rope;    // base of the local layers' rotary embedding; 0: the same as in the other layers
    // defaults of config.json (transformers' configuration classes); 0: no window, as many key/value heads as heads,
    // head size from the width, queries scaled by the head size, no cap, the usual base, all of a head rotates
    int32_t heads, kv_heads, head_dim, context, window;
    float rms_eps, query_scalar, attn_softcap, logit_softcap, rope, rope_part;
    int32_t experts, used, expert_ff, shared_ff; // expert_ff 0: intermediate_size
    int32_t shared, dense_first; // shared experts of an expert's width, in place of shared_ff; first layers without any
} ls_arch;

extern const ls_arch ls_archs[]; // ends with a NULL name

// Tensors are found by their GGUF names; a bias, and a norm before or after a sublayer, is used if its tensor is there.
typedef struct {
    const ls_arch *arch;
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_context;
    int32_t stated_head_dim, stated_ff; // head_dim and n_ff before padding; 0: not padded
    ls_qk_norm qk_norm;
    bool partial;        // the checkpoint has more than this decoder, e.g. a vision model
    int32_t n_next;      // layers behind the others that predict further tokens, which are not read
    int32_t n_skipped;   // tensors of those other parts, which are not read
    const char *skipped; // what the name of the last one begins with, of a vision part
    bool tied; // the output head is the token embedding; n_vocab and tied come from the tensors, unless config.json
               // states tied
    float rms_eps;
    float norm_offset; // added to every norm's weights (1 for Gemma, whose checkpoints store them minus 1)
    // multipliers of token embeddings, of queries, of a sublayer's output, and of logits
    float embd_scale, attn_scale, residual_scale, logit_scale;
    float attn_softcap, logit_softcap; // cap * tanh(x / cap); 0: none
    // Attention temperature: the query at position p (from 0) is multiplied by 1 + attn_temperature * ln(1 + floor(p /
    // attn_temperature_length)), beside attn_scale; attn_temperature 0: none.
    float attn_temperature;
    int32_t attn_temperature_length;
    // Rotary embedding: the first rope_dims values of a head are turned in pairs, (2i, 2i + 1) if rope_interleaved,
    // else (i, i + rope_dims / 2), by position * rope_freq[kind][i]; cosine and sine are multiplied by
    // rope_magnitude[kind]. Scaling (linear, Llama 3's, YaRN, longrope's factors) is in these numbers. kind 0: global
    // layers, 1: local layers.
    const char *rope_scaling; // its name in config.json; NULL: none
    bool rope_interleaved;
    int32_t rope_dims;
    float rope_freq[2][LS_MAX_ROPE], rope_magnitude[2];
    // longrope: up to n_context_long tokens; a context of more than n_context has the frequencies rope_long in all
    // layers, in place of rope_freq. 0: there are no others.
    int32_t n_context_long;
    float rope_long[LS_MAX_ROPE];
    uint8_t unrotated[LS_MAX_LAYERS]; // 1: queries and keys of the layer are not turned
    int32_t window;                   // of local layers: their last positions, with the own one; 0: all are global
    uint8_t local[LS_MAX_LAYERS];     // 1: a local layer
    // A mixture of experts: the feed-forward part of a row is the sum over the n_experts_used experts with the largest
    // scores (ties: the lower number), in that order, of the expert's output times its weight, and after that the
    // shared expert's output (n_ff_shared 0: none), times the sigmoid of its own logit if it has one. A weight is the
    // score, divided by the sum of the row's if sum_experts, times expert_scale. If a layer has biases of the choice
    // (exp_probs_b.bias), they are added to the scores to find the largest ones, and not to weights. Then, too, only
    // experts of n_groups_used of n_expert_groups groups of equal size are chosen: those whose two largest sums are
    // largest together. n_experts 0: no mixture. Without dense layers n_ff is n_ff_expert.
    int32_t n_experts, n_experts_used, n_ff_expert, n_ff_shared;
    bool sum_experts;
    float expert_scale;
    int32_t n_expert_groups, n_groups_used; // 1: no groups
    uint8_t dense[LS_MAX_LAYERS];           // 1: the layer has no experts
    // xIELU of a layer with p, n, b and e = xielu[layer]: p * x^2 + b * x if x > 0, otherwise (e^min(x, e) - 1 - x) * n
    // + b * x. p is softplus(alpha_p) of the checkpoint, n is beta + softplus(alpha_n), b beta and e eps.
    float xielu[LS_MAX_LAYERS][4];
} ls_hparams;

// What ranks share of it.
static inline ls_sizes ls_hparams_sizes(const ls_hparams *h) {
    const ls_sizes s = {h->n_heads,    h->n_kv_heads, h->n_ff, h->n_embd, h->n_vocab, h->n_experts ? h->n_ff_expert : 0,
                        h->n_ff_shared};
    return s;
}
