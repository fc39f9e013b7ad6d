// The hyper-parameters of a decoder of the Llama family, from GGUF metadata or a Hugging Face config.json, and the
// table of architectures. Sources: llama.cpp's gguf-py constants and the config classes of transformers.
#pragma once
#include "base/json.h"
#include "model/gguf.h"

enum { LS_MAX_LAYERS = 1024, LS_MAX_ROPE = 128 };

typedef enum { LS_ACT_SILU, LS_ACT_GELU_TANH } ls_activation;
typedef enum { LS_QK_NORM_NONE, LS_QK_NORM_HEAD, LS_QK_NORM_WHOLE } ls_qk_norm;

// An architecture: properties that are not in its checkpoints.
typedef struct {
    const char *gguf;             // general.architecture
    const char *hf;               // model_type of config.json
    bool gguf_interleaved;        // GGUF stores rotary pairs side by side (Llama); Hugging Face never does
    bool norm_before, norm_after; // of each sublayer
    ls_qk_norm qk_norm;
    ls_activation activation;
    bool gemma;       // scaled embeddings; Hugging Face's checkpoints store norm weights minus 1
    bool long_rope;   // the rotary factors are for the original context, if that is shorter
    int pattern;      // with a sliding window: every pattern-th layer attends to all positions; 0: no layer does
    bool gguf_window; // its GGUF files have a window; llama.cpp ignores one in files of the other architectures
    bool windowless;  // a sliding_window in config.json is ignored, as in transformers' class
    int late_window;  // the window can be switched on, for the layers from this one on; 0: no switch, all layers
    float local_rope; // base of the local layers' rotary embedding; 0: the same as in the other layers
    // defaults of config.json (transformers' configuration classes); 0: no window, as many key/value heads as heads,
    // head size from the width, queries scaled by the head size, no cap, the usual base
    int32_t heads, kv_heads, head_dim, context, window;
    float rms_eps, query_scalar, attn_softcap, logit_softcap, rope;
} ls_arch;

extern const ls_arch ls_archs[]; // ends with a NULL name

typedef struct {
    const ls_arch *arch;
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_context;
    int32_t stated_head_dim, stated_ff; // head_dim and n_ff before padding; 0: not padded
    bool partial;                       // the checkpoint has more than this decoder, e.g. a vision model
    bool tied; // the output head is the token embedding; n_vocab and tied come from the tensors, unless config.json
               // states tied
    float rms_eps, norm_offset;
    float embd_scale, attn_scale, residual_scale, logit_scale; // multipliers
    float attn_softcap, logit_softcap;                         // 0: none
    bool rope_interleaved;
    int32_t rope_dims;
    float rope_freq[2][LS_MAX_ROPE], rope_magnitude[2]; // [0]: global layers, [1]: local layers
    int32_t window;                                     // of local layers; 0: all layers are global
    uint8_t local[LS_MAX_LAYERS];
} ls_hparams;

// Reads the metadata; ls_checkpoint_open sets n_vocab and tied. LS_E_UNSUPPORTED: the message has the unknown value and
// the supported values.
ls_code ls_hparams_gguf(ls_hparams *out, const ls_gguf *g, ls_err *err);
// config: a parsed config.json. A long-context rotary embedding gets the factors of the original context, which becomes
// the model's context.
ls_code ls_hparams_config(ls_hparams *out, const ls_json *config, ls_err *err);

// An integer of a config.json; without the key, or null, *out stays. LS_E_RANGE: it is not from lo to hi.
ls_code ls_config_int(const ls_json *config, const char *key, int64_t lo, int64_t hi, int32_t *out, ls_err *err);

// Shared by both.
ls_code ls_hparams_check(ls_hparams *h, ls_err *err);
const ls_arch *ls_arch_find(const char *name, size_t n, bool hf); // NULL: not known
void ls_arch_list(bool hf, char *out, size_t size);               // names, by commas
// KV cache bytes of one token, at value_bytes per number.
uint64_t ls_hparams_kv_bytes(const ls_hparams *h, int32_t value_bytes);
// Frequencies of `kind`: base^(-2i / dims), each divided by factor.
void ls_rope_plain(ls_hparams *h, int kind, double base, double factor);
