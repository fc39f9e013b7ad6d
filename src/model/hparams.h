// The hyper-parameters of a decoder of the Llama family, from GGUF metadata or a Hugging Face config.json, and the
// table of architectures. Sources: llama.cpp's gguf-py constants and the config classes of transformers.
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "base/split.h"
#include "model/gguf.h"

enum { LS_MAX_LAYERS = 1024, LS_MAX_ROPE = 128, LS_MAX_EXPERTS = 1024, LS_MAX_EXPERTS_USED = 64 };

// The activation of the feed-forward part, act(x): x / (1 + e^-x); x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
// x^3))); max(x, 0)^2; and xIELU with a layer's four numbers (ls_hparams.xielu).
typedef enum { LS_ACT_SILU, LS_ACT_GELU_TANH, LS_ACT_RELU2, LS_ACT_XIELU, LS_ACT_CLAMPED } ls_activation;
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
    float rms_eps, norm_offset;
    float embd_scale, attn_scale, residual_scale, logit_scale; // multipliers
    float attn_softcap, logit_softcap;                         // cap * tanh(x / cap); 0: none
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
    // A mixture of experts: each row's router takes n_experts_used of n_experts; their outputs are summed with the
    // router's weights. A shared expert, if n_ff_shared is not 0, is added for every row, times the sigmoid of its own
    // gate if the checkpoint has one. n_experts 0: no mixture. Without dense layers n_ff is n_ff_expert.
    int32_t n_experts, n_experts_used, n_ff_expert, n_ff_shared;
    bool sum_experts;             // the weights of a row's experts are divided by their sum
    float expert_scale;           // and multiplied by it
    int32_t n_expert_groups;      // of equal size; a row's experts are of the n_groups_used best groups, those with the
    int32_t n_groups_used;        // largest sums of their two best experts. 1: no groups
    uint8_t dense[LS_MAX_LAYERS]; // 1: the layer has no experts
    // xIELU of a layer with p, n, b and e = xielu[layer]: p * x^2 + b * x if x > 0, otherwise (e^min(x, e) - 1 - x) * n
    // + b * x. p is softplus(alpha_p) of the checkpoint, n is beta + softplus(alpha_n), b beta and e eps.
    float xielu[LS_MAX_LAYERS][4];
} ls_hparams;

// Reads the metadata; ls_checkpoint_open sets n_vocab and tied. LS_E_UNSUPPORTED: the message has the unknown value and
// the supported values.
// as: read the keys of general.architecture, whatever it is, as those of this architecture; NULL: it must be known.
ls_code ls_hparams_gguf(ls_hparams *out, const ls_gguf *g, const ls_arch *as, ls_err *err);
// config: a parsed config.json.
ls_code ls_hparams_config(ls_hparams *out, const ls_json *config, ls_err *err);

// An integer of a config.json; without the key, or null, *out stays. LS_E_RANGE: it is not from lo to hi.
ls_code ls_config_int(const ls_json *config, const char *key, int64_t lo, int64_t hi, int32_t *out, ls_err *err);

// Shared by both.
ls_code ls_hparams_check(ls_hparams *h, ls_err *err);
const ls_arch *ls_arch_find(const char *name, size_t n, bool hf); // NULL: not known
// What a layer of the architecture does otherwise than Llama's; "": nothing.
void ls_arch_differs(const ls_arch *a, ls_buf *out);
// The same of a model, with its numbers.
void ls_hparams_differs(const ls_hparams *h, ls_buf *out);
// What ranks share of it.
ls_sizes ls_hparams_sizes(const ls_hparams *h);
// KV cache bytes of one token, at value_bytes per number.
uint64_t ls_hparams_kv_bytes(const ls_hparams *h, int32_t value_bytes);
// Frequencies of `kind`: base^(-2i / dims), each divided by factor.
void ls_rope_plain(ls_hparams *h, int kind, double base, double factor);
// YaRN: frequencies that turn at least `fast` times in the original context stay, those that turn at most `slow` times
// are divided by factor, and the others are mixed linearly by their index. sharp: the ends of the mix are not rounded
// to indices.
typedef struct {
    double factor, original, fast, slow, magnitude;
    bool sharp;
} ls_yarn;
void ls_rope_yarn(ls_hparams *h, double base, const ls_yarn *y);
// 0.1 * weight * ln(factor) + 1: YaRN's magnitude; 1 if factor is at most 1.
double ls_yarn_magnitude(double factor, double weight);
// One layer's xIELU from the checkpoint's numbers.
void ls_xielu_set(ls_hparams *h, int layer, double alpha_p, double alpha_n, double beta, double eps);
// The longest context that --context may choose; without --context it is n_context.
int32_t ls_longest_context(const ls_hparams *h);
// Puts longrope's frequencies for a context of n tokens into rope_freq.
void ls_rope_for_context(ls_hparams *h, int32_t n);
