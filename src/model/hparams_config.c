#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const ls_json *j;
    const char *bad; // a key whose value is not a number; NULL: none
    ls_err *err;
} source;

static const ls_json *get(const ls_json *j, const char *key) { // NULL: not there, or null
    const ls_json *v = ls_json_get(j, key);
    return ls_json_is_null(v) ? NULL : v;
}

ls_code ls_config_int(const ls_json *config, const char *key, int64_t lo, int64_t hi, int32_t *out, ls_err *err) {
    const ls_json *v = get(config, key);
    int64_t n;
    if (!v) return LS_OK;
    if (!ls_json_int(v, &n) || n < lo || n > hi)
        return ls_fail(err, LS_E_RANGE, "'%s' is not an integer from %lld to %lld", key, (long long)lo, (long long)hi);
    *out = (int32_t)n;
    return LS_OK;
}

static ls_code may_int(source *s, const char *key, int64_t lo, int64_t hi, int32_t *out) {
    return ls_config_int(s->j, key, lo, hi, out, s->err);
}

static ls_code get_int(source *s, const char *key, int64_t lo, int64_t hi, int32_t *out) {
    if (!get(s->j, key)) return ls_fail(s->err, LS_E_PARSE, "no '%s'", key);
    return may_int(s, key, lo, hi, out);
}

static double number(source *s, const ls_json *j, const char *key, double otherwise) {
    double v = otherwise;
    const ls_json *n = get(j, key);
    if (n && !ls_json_num(n, &v)) s->bad = key;
    return v;
}

// null: 0, which switches the feature off; absent: the default.
static double switched(source *s, const char *key, double otherwise) {
    return number(s, s->j, key, ls_json_get(s->j, key) ? 0 : otherwise);
}

// Llama 3 divides low frequencies, keeps high frequencies, and interpolates between them.
static void rope_llama3(ls_hparams *h, const ls_json *r, source *s) {
    const double factor = number(s, r, "factor", 8), low = number(s, r, "low_freq_factor", 1),
                 high = number(s, r, "high_freq_factor", 4),
                 old = number(s, r, "original_max_position_embeddings", 8192);
    for (int i = 0; i < h->rope_dims / 2; i++) {
        const double f = (double)h->rope_freq[0][i], turns = old * f / (2 * M_PI);
        const double smooth = (turns - low) / (high - low);
        if (turns < low) h->rope_freq[0][i] = (float)(f / factor);
        else if (turns <= high) h->rope_freq[0][i] = (float)((1 - smooth) * f / factor + smooth * f);
    }
}

static ls_code rope_long(ls_hparams *h, const ls_json *r, source *s) {
    const ls_json *factors = get(r, "short_factor");
    if ((int)ls_json_size(factors) != h->rope_dims / 2)
        return ls_fail(s->err, LS_E_PARSE, "'short_factor' has %zu numbers, expected %d", ls_json_size(factors),
                       h->rope_dims / 2);
    for (int i = 0; i < h->rope_dims / 2; i++) {
        double v;
        if (!ls_json_num(ls_json_at(factors, (size_t)i), &v) || !(v > 0))
            return ls_fail(s->err, LS_E_PARSE, "'short_factor' must have only positive numbers");
        h->rope_freq[0][i] = (float)((double)h->rope_freq[0][i] / v);
    }
    const double old =
        number(s, r, "original_max_position_embeddings", number(s, s->j, "original_max_position_embeddings", 4096));
    const double grown = number(s, r, "factor", h->n_context / old);
    const double magnitude = grown <= 1 ? 1 : sqrt(1 + log(grown) / log(old));
    h->rope_magnitude[0] = (float)number(s, r, "attention_factor", magnitude);
    if (old >= 16 && old < h->n_context) h->n_context = (int32_t)old;
    return LS_OK;
}

// One kind of rotary embedding; r: its parameters, NULL: none.
static ls_code read_rope_kind(ls_hparams *h, const ls_json *r, double base, source *s) {
    const ls_json *type = get(r, "rope_type") ? get(r, "rope_type") : get(r, "type");
    size_t n = 0;
    const char *name = ls_json_str(type, &n);
    if (!(base >= 1 && isfinite(base)))
        return ls_fail(s->err, LS_E_RANGE, "'rope_theta' is %g, expected at least 1", base);
    ls_rope_plain(h, 0, base, 1);
    if (r && (!ls_json_is_object(r) || (!name && get(r, "factor"))))
        return ls_fail(s->err, LS_E_PARSE, "the rotary scaling is not an object with a type");
    if (!name || ls_json_is(type, "default")) return LS_OK;
    if (ls_json_is(type, "linear")) {
        if (!get(r, "factor")) return ls_fail(s->err, LS_E_PARSE, "the rotary scaling 'linear' has no 'factor'");
        const double factor = number(s, r, "factor", 1);
        if (!(factor > 0))
            return ls_fail(s->err, LS_E_RANGE, "the factor of 'rope_scaling' is %g, expected a positive number",
                           factor);
        ls_rope_plain(h, 0, base, factor);
    } else if (ls_json_is(type, "dynamic")) { // scaled only beyond the original context, which is the limit here
        const double old = number(s, r, "original_max_position_embeddings", h->n_context);
        if (old >= 16 && old < h->n_context) h->n_context = (int32_t)old;
    } else if (ls_json_is(type, "llama3")) rope_llama3(h, r, s);
    else if (ls_json_is(type, "longrope") || ls_json_is(type, "su")) return rope_long(h, r, s);
    else
        return ls_fail(s->err, LS_E_UNSUPPORTED,
                       "rotary scaling '%.*s' is not supported (supported: default, linear, dynamic, llama3, longrope)",
                       (int)(n < 40 ? n : 40), name);
    return LS_OK;
}

static ls_code read_rope(ls_hparams *h, source *s) {
    // transformers 5 writes rope_parameters, one for each type of layer if they differ
    const ls_json *all = get(s->j, "rope_parameters"), *full = get(all, "full_attention");
    const ls_json *local = get(all, "sliding_attention"), *r = full ? full : all ? all : get(s->j, "rope_scaling");
    const double usual = h->arch->rope > 0 ? (double)h->arch->rope : 10000;
    const double base = number(s, r, "rope_theta", number(s, s->j, "rope_theta", usual));
    // only Phi's classes read this key
    const bool partial = h->arch->long_rope;
    const double part =
        partial ? number(s, s->j, "partial_rotary_factor", number(s, r, "partial_rotary_factor", 1)) : 1;
    h->rope_dims = part > 0 && part <= 1 ? (int32_t)(h->head_dim * part) : 0;
    if (h->rope_dims < 2 || h->rope_dims > 2 * LS_MAX_ROPE || h->rope_dims > h->head_dim)
        return ls_fail(s->err, LS_E_UNSUPPORTED, "rotary embedding over %d of %d dimensions is not supported",
                       h->rope_dims, h->head_dim);
    const ls_code code = read_rope_kind(h, r, base, s);
    if (h->arch->local_rope > 0) { // local layers are never scaled
        const double own = (double)h->arch->local_rope;
        ls_rope_plain(h, 1, number(s, local, "rope_theta", number(s, s->j, "rope_local_base_freq", own)), 1);
    } else {
        memcpy(h->rope_freq[1], h->rope_freq[0], sizeof h->rope_freq[1]);
        h->rope_magnitude[1] = h->rope_magnitude[0];
    }
    return code;
}

// Finds the local layers.
static ls_code read_window(ls_hparams *h, source *s) {
    const bool gemma3 = h->arch->local_rope > 0;
    const ls_json *types = h->arch->long_rope ? NULL : get(s->j, "layer_types"); // Phi's class ignores it
    int32_t from = h->arch->late_window, pattern = h->arch->pattern;
    bool used = !from; // Qwen's window is off by default
    ls_code code;
    ls_json_bool(get(s->j, "use_sliding_window"), &used);
    if (!used || h->arch->windowless) return LS_OK;
    if (!ls_json_get(s->j, "sliding_window")) h->window = h->arch->window; // null switches it off
    if ((code = may_int(s, "sliding_window", 1, 1 << 24, &h->window)) ||
        (code = may_int(s, "max_window_layers", 0, LS_MAX_LAYERS, &from)) ||
        (gemma3 && (code = may_int(s, "sliding_window_pattern", 1, LS_MAX_LAYERS, &pattern))))
        return code;
    for (int i = 0; i < h->n_layers && h->window; i++)
        h->local[i] = ls_json_is_array(types) ? ls_json_is(ls_json_at(types, (size_t)i), "sliding_attention")
                      : h->arch->late_window  ? i >= from
                                              : !pattern || (i + 1) % pattern != 0;
    return LS_OK;
}

static ls_code read_sizes(ls_hparams *h, source *s) {
    ls_code code;
    h->n_heads = h->arch->heads;
    if ((code = get_int(s, "num_hidden_layers", 1, LS_MAX_LAYERS, &h->n_layers)) ||
        (code = get_int(s, "hidden_size", 32, 1 << 16, &h->n_embd)) ||
        (code = get_int(s, "intermediate_size", 1, 1 << 18, &h->n_ff)) ||
        (code = may_int(s, "num_attention_heads", 1, 1024, &h->n_heads)))
        return code;
    const ls_arch *a = h->arch;
    h->n_kv_heads = a->kv_heads && !ls_json_get(s->j, "num_key_value_heads") ? a->kv_heads : h->n_heads;
    h->n_context = a->context;
    h->head_dim = a->head_dim ? a->head_dim : h->n_embd / h->n_heads;
    h->rms_eps = (float)number(s, s->j, "rms_norm_eps", (double)a->rms_eps);
    if ((code = may_int(s, "num_key_value_heads", 1, h->n_heads, &h->n_kv_heads)) ||
        (code = may_int(s, "head_dim", 2, 1024, &h->head_dim)))
        return code;
    return may_int(s, "max_position_embeddings", 16, 1 << 22, &h->n_context);
}

ls_code ls_hparams_config(ls_hparams *out, const ls_json *config, ls_err *err) {
    ls_hparams h = {.residual_scale = 1, .logit_scale = 1, .embd_scale = 1};
    source s = {config, NULL, err};
    char known[160];
    size_t n = 0;
    if (get(config, "text_config")) { // the text part of a vision model
        h.partial = true;
        s.j = config = get(config, "text_config");
    }
    const char *type = ls_json_str(get(config, "model_type"), &n);
    if (!type) return ls_fail(err, LS_E_PARSE, "no 'model_type'");
    h.arch = ls_arch_find(type, n, true);
    if (!h.arch) {
        ls_arch_list(true, known, sizeof known);
        return ls_fail(err, LS_E_UNSUPPORTED, "model_type '%.*s' is not supported (supported: %s)",
                       (int)(n < 64 ? n : 64), type, known);
    }
    if (get(config, "quantization_config"))
        return ls_fail(
            err, LS_E_UNSUPPORTED,
            "quantised weights (quantization_config) are not supported; use the unquantised model or a GGUF file");
    bool both_ways = false;
    ls_json_bool(get(config, "use_bidirectional_attention"), &both_ways);
    if (both_ways)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "the model is an encoder ('use_bidirectional_attention'); only decoders are supported");
    ls_code code;
    if ((code = read_sizes(&h, &s)) || (code = read_rope(&h, &s)) || (code = read_window(&h, &s))) return code;
    const ls_json *act =
        get(config, "hidden_activation") ? get(config, "hidden_activation") : get(config, "hidden_act");
    const bool gelu = ls_json_is(act, "gelu_pytorch_tanh") || (h.arch->gemma && (!act || ls_json_is(act, "gelu")));
    if (act && !gelu && !ls_json_is(act, "silu")) {
        type = ls_json_str(act, &n);
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "activation '%.*s' is not supported (supported: silu and gelu_pytorch_tanh)",
                       (int)(type && n < 40 ? n : 0), type ? type : "");
    }
    if (gelu != (h.arch->activation == LS_ACT_GELU_TANH))
        return ls_fail(err, LS_E_UNSUPPORTED, "the activation does not fit the architecture %s", h.arch->hf);
    h.norm_offset = h.arch->gemma ? 1 : 0;
    h.tied = h.arch->gemma;
    const ls_json *tied = get(config, "tie_word_embeddings");
    if (tied && !ls_json_bool(tied, &h.tied))
        return ls_fail(err, LS_E_PARSE, "'tie_word_embeddings' is not true or false");
    if (h.arch->gemma) h.embd_scale = sqrtf((float)h.n_embd);
    h.attn_scale = (float)(1 / sqrt(h.head_dim));
    if (h.arch->query_scalar > 0) { // Gemma 2 and 3; as in transformers, other classes ignore this key
        const double scalar = number(&s, config, "query_pre_attn_scalar", (double)h.arch->query_scalar);
        h.attn_scale = (float)(1 / sqrt(scalar));
        h.logit_softcap = (float)switched(&s, "final_logit_softcapping", (double)h.arch->logit_softcap);
    }
    if (h.arch->attn_softcap > 0)
        h.attn_softcap = (float)switched(&s, "attn_logit_softcapping", (double)h.arch->attn_softcap);
    if (!strcmp(h.arch->hf, "granite")) {
        h.embd_scale = (float)number(&s, config, "embedding_multiplier", 1);
        h.attn_scale = (float)number(&s, config, "attention_multiplier", 1);
        h.residual_scale = (float)number(&s, config, "residual_multiplier", 1);
        h.logit_scale = (float)(1 / number(&s, config, "logits_scaling", 1));
    }
    if (s.bad) return ls_fail(err, LS_E_PARSE, "'%s' is not a number", s.bad);
    if ((code = ls_hparams_check(&h, err))) return code;
    *out = h;
    return LS_OK;
}
