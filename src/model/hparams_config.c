#include "model/hparams_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const ls_json *j;
    const char *bad; // a key whose value is not a number; NULL: none
    ls_err *err;
} source;

ls_code ls_config_int(const ls_json *config, const char *key, int64_t lo, int64_t hi, int32_t *out, ls_err *err) {
    const ls_json *v = ls_json_given(config, key);
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
    if (!ls_json_given(s->j, key)) return ls_fail(s->err, LS_E_PARSE, "no '%s'", key);
    return may_int(s, key, lo, hi, out);
}

static double number(source *s, const ls_json *j, const char *key, double otherwise) {
    double v = otherwise;
    const ls_json *n = ls_json_given(j, key);
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
    h->rope_scaling = "llama3";
    for (int i = 0; i < h->rope_dims / 2; i++) {
        const double f = (double)h->rope_freq[0][i], turns = old * f / (2 * M_PI);
        const double smooth = (turns - low) / (high - low);
        if (turns < low) h->rope_freq[0][i] = (float)(f / factor);
        else if (turns <= high) h->rope_freq[0][i] = (float)((1 - smooth) * f / factor + smooth * f);
    }
}

// Divides the frequencies of the plain embedding by a list of factors.
static ls_code divided(const ls_hparams *h, const ls_json *r, const char *key, source *s, float *out) {
    const ls_json *factors = ls_json_get(r, key);
    if ((int)ls_json_size(factors) != h->rope_dims / 2)
        return ls_fail(s->err, LS_E_PARSE, "'%s' has %zu numbers, expected %d", key, ls_json_size(factors),
                       h->rope_dims / 2);
    for (int i = 0; i < h->rope_dims / 2; i++) {
        double v;
        if (!ls_json_num(ls_json_at(factors, (size_t)i), &v) || !(v > 0))
            return ls_fail(s->err, LS_E_PARSE, "'%s' must have only positive numbers", key);
        out[i] = (float)((double)h->rope_freq[0][i] / v);
    }
    return LS_OK;
}

static ls_code rope_long(ls_hparams *h, const ls_json *r, source *s) {
    const double old =
        number(s, r, "original_max_position_embeddings", number(s, s->j, "original_max_position_embeddings", 4096));
    const double grown = number(s, r, "factor", h->n_context / old);
    const double magnitude = grown <= 1 ? 1 : sqrt(1 + log(grown) / log(old));
    ls_code code;
    if (old >= 16 && old < h->n_context) {
        h->n_context_long = h->n_context;
        h->n_context = (int32_t)old;
        if ((code = divided(h, r, "long_factor", s, h->rope_long))) return code;
    }
    h->rope_magnitude[0] = (float)number(s, r, "attention_factor", magnitude);
    h->rope_scaling = "longrope";
    return divided(h, r, "short_factor", s, h->rope_freq[0]);
}

static ls_code rope_yarn(ls_hparams *h, const ls_json *r, double base, source *s) {
    const double old = number(s, r, "original_max_position_embeddings", h->n_context),
                 factor = number(s, r, "factor", h->n_context / old), all = number(s, r, "mscale_all_dim", 0),
                 one = number(s, r, "mscale", 0);
    const double magnitude = one != 0 && all != 0 ? ls_yarn_magnitude(factor, one) / ls_yarn_magnitude(factor, all)
                                                  : ls_yarn_magnitude(factor, 1);
    const double fast = number(s, r, "beta_fast", 32), slow = number(s, r, "beta_slow", 1);
    const ls_yarn y = {.factor = factor,
                       .original = old,
                       .fast = fast != 0 ? fast : 32, // as in transformers, 0 is the usual number
                       .slow = slow != 0 ? slow : 1,
                       .magnitude = number(s, r, "attention_factor", magnitude),
                       .sharp = !ls_json_flag(r, "truncate", true)};
    if (!(factor > 0) || !(old >= 1) || !(y.fast > 0) || !(y.slow > 0) || !(base > 1))
        return ls_fail(s->err, LS_E_RANGE, "the rotary scaling 'yarn' has a factor, a length or a beta out of range");
    ls_rope_yarn(h, base, &y);
    h->rope_scaling = "yarn";
    return LS_OK;
}

// The query is multiplied by a number that grows with its position.
static ls_code read_temperature(ls_hparams *h, const ls_json *r, source *s) {
    if (!h->arch->rope_stated || h->arch->activation != LS_ACT_SILU) return LS_OK;
    h->attn_temperature = (float)number(s, r, "llama_4_scaling_beta", 0);
    const double length = number(s, r, "original_max_position_embeddings", 0);
    if (!(length >= 1 && length < 1 << 30))
        return ls_fail(s->err, LS_E_RANGE, "'original_max_position_embeddings' must be a positive number");
    h->attn_temperature_length = (int32_t)length;
    return LS_OK;
}

// One kind of rotary embedding; r: its parameters, NULL: none.
static ls_code read_rope_kind(ls_hparams *h, const ls_json *r, double base, source *s) {
    const ls_json *type = ls_json_given(r, "rope_type") ? ls_json_given(r, "rope_type") : ls_json_given(r, "type");
    size_t n = 0;
    const char *name = ls_json_str(type, &n);
    if (!(base >= 1 && isfinite(base)))
        return ls_fail(s->err, LS_E_RANGE, "'rope_theta' is %g, expected at least 1", base);
    ls_rope_plain(h, 0, base, 1);
    if (r && (!ls_json_is_object(r) || (!name && ls_json_given(r, "factor"))))
        return ls_fail(s->err, LS_E_PARSE, "the rotary scaling is not an object with a type");
    if (!name || ls_json_is(type, "default") || (h->arch->pictures && ls_json_is(type, "mrope"))) return LS_OK;
    if (ls_json_is(type, "linear")) {
        if (!ls_json_given(r, "factor"))
            return ls_fail(s->err, LS_E_PARSE, "the rotary scaling 'linear' has no 'factor'");
        const double factor = number(s, r, "factor", 1);
        if (!(factor > 0))
            return ls_fail(s->err, LS_E_RANGE, "the factor of 'rope_scaling' is %g, expected a positive number",
                           factor);
        ls_rope_plain(h, 0, base, factor);
        h->rope_scaling = "linear";
    } else if (ls_json_is(type, "yarn")) return rope_yarn(h, r, base, s);
    else if (ls_json_is(type, "dynamic") && ls_json_given(r, "alpha") && h->qk_norm == LS_QK_NORM_ROTATED) {
        const double alpha = number(s, r, "alpha", 1), dims = h->rope_dims; // Hunyuan's: another base, at any length
        if (!(alpha > 0 && dims > 2)) return ls_fail(s->err, LS_E_RANGE, "'alpha' must be a positive number");
        ls_rope_plain(h, 0, base * pow(alpha, dims / (dims - 2)), 1);
    } else if (ls_json_is(type, "dynamic")) { // scaled only beyond the original context, which is the limit here
        const double old = number(s, r, "original_max_position_embeddings", h->n_context);
        if (old >= 16 && old < h->n_context) h->n_context = (int32_t)old;
    } else if (ls_json_is(type, "llama3")) rope_llama3(h, r, s);
    else if (ls_json_is(type, "longrope") || ls_json_is(type, "su")) return rope_long(h, r, s);
    else
        return ls_fail(
            s->err, LS_E_UNSUPPORTED,
            "rotary scaling '%.*s' is not supported (supported: default, linear, dynamic, llama3, yarn, longrope)",
            (int)(n < 40 ? n : 40), name);
    return LS_OK;
}

static ls_code read_rope(ls_hparams *h, source *s) {
    // transformers 5 writes rope_parameters, one for each type of layer if they differ
    const ls_json *all = ls_json_given(s->j, "rope_parameters"), *full = ls_json_given(all, "full_attention"),
                  *local = ls_json_get(all, "sliding_attention"), *old = ls_json_given(s->j, "rope_scaling"),
                  *r = full  ? full
                       : all ? all
                             : old;
    const double usual = h->arch->rope > 0 ? (double)h->arch->rope : 10000;
    const double base = number(s, r, "rope_theta", number(s, s->j, "rope_theta", usual));
    if (h->arch->rope_stated && !r)
        return ls_fail(s->err, LS_E_PARSE, "no 'rope_parameters' or 'rope_scaling', which %s needs", h->arch->hf);
    // only some classes read this key
    const double usual_part = (double)h->arch->rope_part,
                 part = usual_part > 0 ? number(s, s->j, "partial_rotary_factor",
                                                number(s, r, "partial_rotary_factor", usual_part))
                                       : 1;
    h->rope_dims = part > 0 && part <= 1 ? (int32_t)(h->head_dim * part) : 0;
    if (h->rope_dims < 2 || h->rope_dims > 2 * LS_MAX_ROPE || h->rope_dims > h->head_dim)
        return ls_fail(s->err, LS_E_UNSUPPORTED, "rotary embedding over %d of %d dimensions is not supported",
                       h->rope_dims, h->head_dim);
    ls_code code = read_rope_kind(h, r, base, s);
    if (!code) code = read_temperature(h, r, s);
    if (h->arch->plain_local) {
        const double own =
            h->arch->local_rope > 0 ? number(s, s->j, "rope_local_base_freq", (double)h->arch->local_rope) : base;
        ls_rope_plain(h, 1, number(s, local, "rope_theta", own), 1);
    } else {
        memcpy(h->rope_freq[1], h->rope_freq[0], sizeof h->rope_freq[1]);
        h->rope_magnitude[1] = h->rope_magnitude[0];
    }
    return code;
}

// Finds the local layers.
static ls_code read_window(ls_hparams *h, source *s) {
    const bool listed = !h->arch->long_rope && !h->arch->layer_norm; // Phi's and StarCoder's classes ignore a list
    const ls_json *types = listed ? ls_json_get(s->j, "layer_types") : NULL;
    int32_t from = h->arch->late_window, pattern = h->arch->pattern;
    const bool used = ls_json_flag(s->j, "use_sliding_window", !from); // Qwen's window is off by default
    ls_code code;
    if (used && h->arch->rope_every && ls_json_given(s->j, "sliding_window"))
        return ls_fail(s->err, LS_E_UNSUPPORTED, "'use_sliding_window' is not supported in the architecture %s",
                       h->arch->hf);
    if (!used || h->arch->windowless) return LS_OK;
    if (!ls_json_get(s->j, "sliding_window")) h->window = h->arch->window;                       // null switches it off
    const bool letters = ls_json_str(ls_json_get(s->j, "sliding_window_pattern"), NULL) != NULL; // "LLLG": by 4
    if ((code = may_int(s, "sliding_window", 1, 1 << 24, &h->window)) ||
        (code = may_int(s, "max_window_layers", 0, LS_MAX_LAYERS, &from)) ||
        (pattern && !letters && !ls_json_is_array(types) &&
         (code = may_int(s, "sliding_window_pattern", 0, LS_MAX_LAYERS, &pattern))))
        return code;
    if (letters && !ls_json_is_array(types))
        return ls_fail(s->err, LS_E_UNSUPPORTED, "'sliding_window_pattern' must be a number, or 'layer_types' a list");
    for (int i = 0; i < h->n_layers && h->window; i++)
        h->local[i] = ls_json_is_array(types) ? ls_json_is(ls_json_at(types, (size_t)i), "sliding_attention")
                      : h->arch->late_window  ? i >= from
                                              : !pattern || (i + 1) % pattern != 0;
    return LS_OK;
}

// Finds the layers without rotation: a list (1: it rotates), or each whose number is a multiple of an interval.
static ls_code read_unrotated(ls_hparams *h, source *s) {
    const ls_json *list = h->arch->rope_every ? ls_json_given(s->j, "no_rope_layers") : NULL;
    int32_t every = h->arch->rope_every;
    const ls_code code = every ? may_int(s, "no_rope_layer_interval", 1, LS_MAX_LAYERS, &every) : LS_OK;
    if (code) return code;
    if (list && (int64_t)ls_json_size(list) < h->n_layers)
        return ls_fail(s->err, LS_E_PARSE, "'no_rope_layers' has %zu numbers for %d layers", ls_json_size(list),
                       h->n_layers);
    for (int i = 0; i < h->n_layers; i++) {
        int64_t rotates = 1;
        if (list && !ls_json_int(ls_json_at(list, (size_t)i), &rotates))
            return ls_fail(s->err, LS_E_PARSE, "'no_rope_layers' must have only integers");
        h->unrotated[i] =
            list ? !rotates : (every && (i + 1) % every == 0) || (h->arch->rope_local && h->window && !h->local[i]);
    }
    return LS_OK;
}

// The same number has several names, some in the same class.
static ls_code any_int(source *s, const char *const *keys, int64_t lo, int64_t hi, int32_t *out) {
    while (keys[1] && !ls_json_given(s->j, *keys)) keys++;
    return may_int(s, *keys, lo, hi, out);
}
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

// A mixture of experts. Layers are dense if a list names them, if they are the first or last ones, or if an interval
// leaves them out.
static ls_code read_experts(ls_hparams *h, source *s) {
    const ls_arch *a = h->arch;
    const ls_json *list = ls_json_get(s->j, "mlp_only_layers");
    int32_t every = 1, first = a->dense_first, last = -1, shared = a->shared;
    ls_code code;
    if (!a->router) return LS_OK;
    h->n_experts = a->experts, h->n_experts_used = a->used, h->n_ff_shared = a->shared_ff;
    h->n_ff_expert = a->expert_ff ? a->expert_ff : h->n_ff;
    h->n_expert_groups = h->n_groups_used = 1;
    h->expert_scale = 1;
    if ((code = any_int(s, NAMES("num_local_experts", "n_routed_experts", "moe_num_experts", "num_experts"), 1,
                        LS_MAX_EXPERTS, &h->n_experts)) ||
        (code = any_int(s, NAMES("num_experts_per_tok", "moe_k"), 1, LS_MAX_EXPERTS_USED, &h->n_experts_used)) ||
        (a->expert_ff && (code = may_int(s, "moe_intermediate_size", 1, 1 << 18, &h->n_ff_expert))) ||
        (a->shared_ff && (code = may_int(s, "shared_expert_intermediate_size", 0, 1 << 18, &h->n_ff_shared))) ||
        (a->shared && (code = any_int(s, NAMES("n_shared_experts", "moe_num_shared_experts"), 0, 64, &shared))) ||
        (a->dense_first &&
         (code = any_int(s, NAMES("first_k_dense_replace", "moe_layer_start_index"), 0, h->n_layers, &first))) ||
        (a->dense_first && (code = may_int(s, "moe_layer_end_index", -1, LS_MAX_LAYERS, &last))) ||
        (a->expert_ff &&
         (code = any_int(s, NAMES("decoder_sparse_step", "moe_layer_interval"), 1, LS_MAX_LAYERS, &every))))
        return code;
    const bool sigmoid = a->router == LS_ROUTER_SIGMOID;
    const char *const rules[][2] = {{"moe_gate_act", "softmax"},
                                    {"scoring_func", sigmoid ? "sigmoid" : "softmax"},
                                    {"topk_method", sigmoid ? "noaux_tc" : "greedy"}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (ls_json_given(s->j, rules[i][0]) && !ls_json_is(ls_json_get(s->j, rules[i][0]), rules[i][1]))
            return ls_fail(s->err, LS_E_UNSUPPORTED, "'%s' is not supported: only %s is", rules[i][0], rules[i][1]);
    if (sigmoid) {
        h->expert_scale = (float)number(s, s->j, "routed_scaling_factor", 1);
        if ((code = may_int(s, "n_group", 1, LS_MAX_EXPERTS, &h->n_expert_groups)) ||
            (code = may_int(s, "topk_group", 1, LS_MAX_EXPERTS, &h->n_groups_used)) ||
            (code = may_int(s, "num_nextn_predict_layers", 0, 64, &h->n_next)))
            return code;
    }
    if (a->shared) h->n_ff_shared = shared * h->n_ff_expert;
    h->sum_experts = a->router != LS_ROUTER_ALL || a->balanced;
    if (sigmoid || (a->router == LS_ROUTER_ALL && !a->balanced))
        h->sum_experts = ls_json_flag(s->j, "norm_topk_prob", h->sum_experts);
    if (a->activation == LS_ACT_CLAMPED &&
        (number(s, s->j, "swiglu_limit", 7) != 7 || number(s, s->j, "swiglu_alpha", 1.702) != 1.702))
        return ls_fail(s->err, LS_E_UNSUPPORTED, "only 'swiglu_limit' 7 and 'swiglu_alpha' 1.702 are supported");
    if (ls_json_given(s->j, "clip_qkv")) return ls_fail(s->err, LS_E_UNSUPPORTED, "'clip_qkv' is not supported");
    for (int i = 0; i < h->n_layers && a->expert_ff; i++)
        h->dense[i] = (i + 1) % every != 0 || i < first || (last >= 0 && i > last);
    for (size_t i = 0; i < ls_json_size(list) && a->expert_ff; i++) {
        int64_t layer = 0;
        if (!ls_json_int(ls_json_at(list, i), &layer) || layer < 0 || layer >= h->n_layers)
            return ls_fail(s->err, LS_E_RANGE, "'mlp_only_layers' must have only layers of the model");
        h->dense[layer] = 1;
    }
    return LS_OK;
}

static bool is_granite4(const ls_hparams *h) {
    return !strcmp(h->arch->hf, "granitemoehybrid");
}

// Granite 4's class also has experts and Mamba layers.
static ls_code check_granite4(ls_hparams *h, source *s) {
    const ls_json *types = ls_json_get(s->j, "layer_types");
    int32_t experts = 8;
    const ls_code code = may_int(s, "num_local_experts", 0, INT32_MAX, &experts);
    if (code) return code;
    bool dense = !experts && ls_json_is_array(types);
    for (int i = 0; i < h->n_layers && dense; i++) {
        const ls_json *type = ls_json_at(types, (size_t)i);
        dense = ls_json_is(type, "attention") || ls_json_is(type, "full_attention");
    }
    if (!dense)
        return ls_fail(s->err, LS_E_UNSUPPORTED,
                       "the model has experts or Mamba layers; of the class granitemoehybrid only dense models with "
                       "attention in every layer are supported");
    if (!ls_json_is(ls_json_get(s->j, "position_embedding_type"), "rope")) memset(h->unrotated, 1, sizeof h->unrotated);
    return LS_OK;
}

static ls_code read_sizes(ls_hparams *h, source *s) {
    ls_code code;
    const bool granite4 = is_granite4(h);
    h->n_heads = h->arch->heads;
    if ((code = get_int(s, "num_hidden_layers", 1, LS_MAX_LAYERS, &h->n_layers)) ||
        (code = get_int(s, "hidden_size", 32, 1 << 16, &h->n_embd)) ||
        (code = get_int(s, granite4 ? "shared_intermediate_size" : "intermediate_size", 1, 1 << 18, &h->n_ff)) ||
        (code = may_int(s, "num_attention_heads", 1, 1024, &h->n_heads)))
        return code;
    const ls_arch *a = h->arch;
    h->n_kv_heads = a->kv_heads && !ls_json_get(s->j, "num_key_value_heads") ? a->kv_heads : h->n_heads;
    h->n_context = a->context;
    h->head_dim = a->head_dim ? a->head_dim : h->n_embd / h->n_heads;
    h->rms_eps = (float)number(s, s->j, a->layer_norm ? "norm_epsilon" : "rms_norm_eps", (double)a->rms_eps);
    if ((code = may_int(s, "num_key_value_heads", 1, h->n_heads, &h->n_kv_heads)) ||
        (code = may_int(s, "head_dim", 2, 1024, &h->head_dim)))
        return code;
    h->qk_norm = ls_json_flag(s->j, "use_qk_norm", false) || !a->qk_norm_stated ? a->qk_norm : LS_QK_NORM_NONE;
    return may_int(s, "max_position_embeddings", 16, 1 << 22, &h->n_context);
}

ls_code ls_hparams_config(ls_hparams *out, const ls_json *config, ls_err *err) {
    const ls_json *whole = config, *text = ls_json_given(config, "text_config");
    ls_hparams h = {.residual_scale = 1, .logit_scale = 1, .embd_scale = 1};
    source s = {config, NULL, err};
    h.partial = text || ls_json_given(config, "vision_config");
    if (text) s.j = config = text; // the text part of a vision model
    const ls_str type = ls_json_text(ls_json_get(config, "model_type"));
    if (!type.p) return ls_fail(err, LS_E_PARSE, "no 'model_type'");
    h.arch = ls_arch_find(type, true);
    if (!h.arch)
        return ls_fail(err, LS_E_UNSUPPORTED, "model_type '%.*s' is not supported", (int)(type.n < 64 ? type.n : 64),
                       type.p);
    if (ls_json_flag(config, "use_bidirectional_attention", false))
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "the model is an encoder ('use_bidirectional_attention'); only decoders are supported");
    ls_code code;
    if ((code = read_sizes(&h, &s)) || (code = read_rope(&h, &s)) || (code = read_window(&h, &s)) ||
        (code = read_experts(&h, &s)) || (code = read_unrotated(&h, &s)) ||
        (is_granite4(&h) && (code = check_granite4(&h, &s))))
        return code;
    const ls_json *act = ls_json_given(config, "hidden_activation");
    if (!act) act = ls_json_given(config, "hidden_act");
    static const char *const activations[] = {[LS_ACT_SILU] = "silu",
                                              [LS_ACT_GELU_TANH] = "gelu_pytorch_tanh",
                                              [LS_ACT_RELU2] = "relu2",
                                              [LS_ACT_XIELU] = "xielu",
                                              [LS_ACT_CLAMPED] = "silu"};
    bool known_act = !act || (h.arch->gemma && ls_json_is(act, "gelu")), fits = known_act;
    for (size_t i = 0; i < sizeof activations / sizeof *activations && act && !fits; i++) {
        known_act |= ls_json_is(act, activations[i]);
        fits |= h.arch->activation == i && ls_json_is(act, activations[i]);
    }
    if (!known_act) {
        const ls_str name = ls_json_text(act);
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "activation '%.*s' is not supported (supported: silu, gelu_pytorch_tanh, relu2 and xielu)",
                       (int)(name.n < 40 ? name.n : 0), name.p ? name.p : "");
    }
    if (!fits) return ls_fail(err, LS_E_UNSUPPORTED, "the activation does not fit the architecture %s", h.arch->hf);
    h.norm_offset = h.arch->gemma ? 1 : 0;
    h.rope_interleaved = h.arch->hf_interleaved;
    h.tied = h.arch->tied;
    const ls_json *tied = ls_json_given(config, "tie_word_embeddings");
    if (!tied) tied = ls_json_given(whole, "tie_word_embeddings");
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
    if (h.arch->granite) {
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
