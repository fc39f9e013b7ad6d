#include "model/hparams_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const ls_gguf *g;
    char key[128]; // the last key that was looked up
    ls_err *err;
} source;

static const char *key_of(source *s, const char *name) {
    ls_str arch = {"", 0};
    ls_gguf_str(s->g, "general.architecture", &arch, NULL);
    snprintf(s->key, sizeof s->key, "%.*s.%s", (int)(arch.n < 40 ? arch.n : 40), arch.p, name);
    return s->key;
}

static bool has(source *s, const char *name) {
    return ls_gguf_has(s->g, key_of(s, name));
}

static ls_code get_int(source *s, const char *name, int64_t lo, int64_t hi, int32_t *out) {
    uint32_t v = 0;
    const char *key = key_of(s, name);
    const ls_code code = ls_gguf_shared_u32(s->g, key, &v, s->err);
    if (code) return code;
    if (v < lo || v > hi)
        return ls_fail(s->err, LS_E_RANGE, "metadata '%s' is %u, expected %lld to %lld", key, v, (long long)lo,
                       (long long)hi);
    *out = (int32_t)v;
    return LS_OK;
}

// Leaves *out as it is if the key is absent.
static ls_code may_int(source *s, const char *name, int64_t lo, int64_t hi, int32_t *out) {
    return has(s, name) ? get_int(s, name, lo, hi, out) : LS_OK;
}
static ls_code may_num(source *s, const char *name, float *out) {
    return has(s, name) ? ls_gguf_f32(s->g, s->key, out, s->err) : LS_OK;
}
static ls_code may_bool(source *s, const char *name, bool *out) {
    return has(s, name) ? ls_gguf_bool(s->g, s->key, out, s->err) : LS_OK;
}

// YaRN's magnitude: attn_factor times what the factor says; with yarn_log_multiplier m (mscale_all_dim of config.json,
// whose mscale is taken to be 1) the latter is divided by what m says.
static ls_code read_yarn(ls_hparams *h, source *s, double base, double factor, int32_t original) {
    float fast = 32, slow = 1, weight = 0, own = 0;
    ls_code code;
    if ((code = may_num(s, "rope.scaling.yarn_beta_fast", &fast)) ||
        (code = may_num(s, "rope.scaling.yarn_beta_slow", &slow)) ||
        (code = may_num(s, "rope.scaling.yarn_log_multiplier", &weight)) ||
        (code = may_num(s, "rope.scaling.yarn_attn_factor", &own)))
        return code;
    if (!(fast > 0) || !(slow > 0) || !(base > 1))
        return ls_fail(s->err, LS_E_RANGE, "metadata of the rotary scaling 'yarn': a beta or the base is out of range");
    const double all = weight != 0 ? ls_yarn_magnitude(factor, (double)weight) : 1,
                 magnitude = own > 0 ? (double)own : ls_yarn_magnitude(factor, 1) / all;
    ls_rope_yarn(h, base,
                 &(ls_yarn){.factor = factor,
                            .original = original,
                            .fast = (double)fast,
                            .slow = (double)slow,
                            .magnitude = magnitude * (double)h->rope_magnitude[0],
                            .sharp = h->arch->sinks}); // gpt-oss; its files do not say so
    return LS_OK;
}

static ls_code read_rope(ls_hparams *h, source *s) {
    float base = 10000, local = h->arch->local_rope, factor = 1, magnitude = 1; // the format's defaults
    ls_str kind = {"linear", 6}; // a factor without a type divides, as in llama.cpp
    ls_code code;
    // if the current name of the factor is missing, its old name is read
    const char *scale = has(s, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    if ((code = may_int(s, "rope.dimension_count", 1, 1024, &h->rope_dims)) ||
        (code = may_num(s, "rope.freq_base", &base)) || (code = may_num(s, scale, &factor)) ||
        (h->arch->gguf_window && h->arch->pattern && (code = may_num(s, "rope.freq_base_swa", &local))) ||
        (code = may_num(s, "rope.scaling.attn_factor", &magnitude)) ||
        (has(s, "rope.scaling.type") && (code = ls_gguf_str(s->g, s->key, &kind, s->err))))
        return code;
    const bool linear = ls_str_is(kind, "linear"), yarn = ls_str_is(kind, "yarn"),
               longrope = ls_str_is(kind, "longrope"),
               plain = ls_str_is(kind, "none"); // rope_freqs.weight may still divide (Llama 3)
    if (!linear && !plain && !yarn && !longrope)
        return ls_fail(s->err, LS_E_UNSUPPORTED,
                       "rotary scaling '%.*s' is not supported (supported: none, linear, yarn, longrope)",
                       (int)(kind.n < 40 ? kind.n : 40), kind.p);
    if (factor == 0) factor = 1; // not scaled
    h->rope_scaling = yarn ? "yarn" : longrope ? "longrope" : linear && factor != 1 ? "linear" : NULL;
    if (h->rope_dims > h->head_dim || h->rope_dims > 2 * LS_MAX_ROPE || !(base >= 1 && isfinite(base)) ||
        !(local == 0 || (local >= 1 && isfinite(local))) || !(factor > 0))
        return ls_fail(s->err, LS_E_RANGE,
                       "rotary embedding over %d of %d dimensions, base %g, factor %g is not supported", h->rope_dims,
                       h->head_dim, (double)base, (double)factor);
    ls_rope_plain(h, 0, (double)base, linear ? (double)factor : 1);
    ls_rope_plain(h, 1, (double)(local > 0 ? local : base), linear && !h->arch->plain_local ? (double)factor : 1);
    int32_t original = h->n_context;
    if ((code = may_int(s, "rope.scaling.original_context_length", 16, 1 << 22, &original))) return code;
    h->rope_magnitude[0] = magnitude;
    if (yarn && (code = read_yarn(h, s, (double)base, (double)factor, original))) return code;
    if (yarn && !h->arch->plain_local) memcpy(h->rope_freq[1], h->rope_freq[0], sizeof h->rope_freq[1]);
    h->rope_magnitude[1] =
        h->arch->plain_local ? magnitude : h->rope_magnitude[0]; // llama.cpp: attn_factor is every layer's
    if ((longrope || h->arch->long_rope) && original < h->n_context) {
        h->n_context_long = h->n_context; // rope_factors_long.weight has its frequencies
        h->n_context = original;
    }
    bool rotates = true; // Granite switches the rotary embedding off with this key
    if (h->arch->granite && (code = may_bool(s, "rope.scaling.finetuned", &rotates))) return code;
    if (!rotates) memset(h->unrotated, 1, sizeof h->unrotated);
    if ((code = may_num(s, "attention.temperature_scale", &h->attn_temperature))) return code;
    h->attn_temperature_length = original;
    return LS_OK;
}

static ls_code read_sizes(ls_hparams *h, source *s) {
    ls_code code;
    if ((code = get_int(s, "block_count", 1, LS_MAX_LAYERS, &h->n_layers)) ||
        (code = get_int(s, "embedding_length", 32, 1 << 16, &h->n_embd)) ||
        (code = get_int(s, "feed_forward_length", 1, 1 << 18, &h->n_ff)) ||
        (code = get_int(s, "attention.head_count", 1, 1024, &h->n_heads)) ||
        (code = get_int(s, "context_length", 16, 1 << 22, &h->n_context)))
        return code;
    h->n_kv_heads = h->n_heads;
    if ((code = may_int(s, "attention.head_count_kv", 1, h->n_heads, &h->n_kv_heads))) return code;
    h->head_dim = h->n_embd / h->n_heads;
    if ((code = may_int(s, "attention.key_length", 2, 1024, &h->head_dim))) return code;
    if (h->arch->router == LS_ROUTER_SIGMOID) { // the format counts them with the others
        if ((code = may_int(s, "nextn_predict_layers", 0, h->n_layers - 1, &h->n_next))) return code;
        h->n_layers -= h->n_next;
    }
    h->qk_norm = h->arch->qk_norm;
    h->rope_dims = h->head_dim;
    const char *eps = h->arch->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
    return ls_gguf_f32(s->g, key_of(s, eps), &h->rms_eps, s->err);
}

// Finds the local layers: all but every pattern-th layer, or those of a list.
static ls_code read_window(ls_hparams *h, source *s) {
    static const char name[] = "attention.sliding_window_pattern";
    int32_t pattern = h->arch->pattern, *list = NULL;
    size_t n = 0;
    ls_code code;
    if (!h->arch->gguf_window) return LS_OK;
    if (!strcmp(h->arch->gguf, "gemma2")) h->window = h->arch->window; // llama.cpp's default
    if ((code = may_int(s, "attention.sliding_window", 0, 1 << 24, &h->window))) return code;
    if (ls_gguf_is_array(s->g, key_of(s, name))) code = ls_gguf_i32_array(s->g, s->key, &list, &n, s->err);
    else code = may_int(s, name, 0, LS_MAX_LAYERS, &pattern);
    if (!code && list && n < (size_t)h->n_layers)
        code = ls_fail(s->err, LS_E_PARSE, "metadata '%s' has %zu elements for %d layers", s->key, n, h->n_layers);
    for (int i = 0; i < h->n_layers && h->window && !code; i++)
        h->local[i] = list ? list[i] != 0 : !pattern || (i + 1) % pattern != 0;
    free(list);
    for (int i = 0; i < h->n_layers && h->arch->rope_local && h->window; i++) h->unrotated[i] = !h->local[i];
    return code;
}

// One number for all layers, or a list of one for each.
static ls_code read_each_layer(source *s, const char *name, int32_t n_layers, float *out) {
    float *list = NULL, one = 0;
    size_t n = 0;
    const bool array = ls_gguf_is_array(s->g, key_of(s, name));
    ls_code code = array ? ls_gguf_f32_array(s->g, s->key, &list, &n, s->err) : ls_gguf_f32(s->g, s->key, &one, s->err);
    if (!code && array && n < (size_t)n_layers)
        code = ls_fail(s->err, LS_E_PARSE, "metadata '%s' has %zu elements for %d layers", s->key, n, n_layers);
    for (int i = 0; i < n_layers && !code; i++) out[i] = array ? list[i] : one;
    free(list);
    return code;
}

static ls_code read_xielu(ls_hparams *h, source *s) {
    static const char *const names[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    static _Thread_local float v[4][LS_MAX_LAYERS];
    ls_code code;
    for (int i = 0; i < 4; i++)
        if ((code = read_each_layer(s, names[i], h->n_layers, v[i]))) return code;
    for (int i = 0; i < h->n_layers; i++)
        ls_xielu_set(h, i, (double)v[0][i], (double)v[1][i], (double)v[2][i], (double)v[3][i]);
    return LS_OK;
}

// A mixture of experts. Some files lack the experts' width.
static ls_code read_experts(ls_hparams *h, source *s) {
    const bool sigmoid = h->arch->router == LS_ROUTER_SIGMOID;
    int32_t leading = 0, every = 1, shared = 0, gate = sigmoid ? 2 : 1;
    ls_code code;
    h->n_expert_groups = h->n_groups_used = 1;
    h->expert_scale = 1;
    h->sum_experts = h->arch->gguf_sum;
    if (!h->arch->router) return LS_OK;
    if ((code = get_int(s, "expert_count", 1, LS_MAX_EXPERTS, &h->n_experts)) ||
        (code = get_int(s, "expert_used_count", 1, LS_MAX_EXPERTS_USED, &h->n_experts_used)))
        return code;
    h->n_ff_expert = h->arch->expert_ff ? h->n_ff / h->n_experts_used : h->n_ff;
    h->n_ff_shared = h->arch->shared_ff ? h->n_ff : 0;
    if ((code = may_int(s, "expert_feed_forward_length", 1, 1 << 18, &h->n_ff_expert)) ||
        (code = may_int(s, "expert_shared_count", 0, 64, &shared)))
        return code;
    if (h->arch->shared) h->n_ff_shared = shared * h->n_ff_expert;
    const bool wide = h->arch->shared || h->arch->shared_ff;
    if ((wide && (code = may_int(s, "expert_shared_feed_forward_length", 0, 1 << 18, &h->n_ff_shared))) ||
        (code = may_int(s, "leading_dense_block_count", 0, h->n_layers, &leading)) ||
        (code = may_int(s, "interleave_moe_layer_step", 1, LS_MAX_LAYERS, &every)) ||
        (code = may_int(s, "expert_gating_func", 0, 100, &gate)) ||
        (code = may_num(s, "expert_weights_scale", &h->expert_scale)) ||
        (sigmoid && ((code = may_bool(s, "expert_weights_norm", &h->sum_experts)) ||
                     (code = may_int(s, "expert_group_count", 1, LS_MAX_EXPERTS, &h->n_expert_groups)) ||
                     (code = may_int(s, "expert_group_used_count", 1, LS_MAX_EXPERTS, &h->n_groups_used)))))
        return code;
    if (h->expert_scale == 0) h->expert_scale = 1; // not scaled
    if (gate && gate != (sigmoid ? 2 : 1))
        return ls_fail(s->err, LS_E_UNSUPPORTED, "the router has the gating function %d; only %s is supported", gate,
                       sigmoid ? "2 (sigmoid)" : "1 (softmax)");
    for (int i = 0; i < h->n_layers; i++) h->dense[i] = i < leading || (i + 1) % every != 0;
    return LS_OK;
}

// Rejects metadata that would change the results and is not implemented.
static ls_code refuse_others(const ls_hparams *h, source *s) {
    const struct {
        const char *name;
        int32_t allowed;
        bool local; // of local layers only
    } sizes[] = {{"attention.value_length", h->head_dim, false},    {"expert_count", h->n_experts, false},
                 {"nextn_predict_layers", h->n_next, false},        {"attention.key_length_swa", h->head_dim, true},
                 {"attention.value_length_swa", h->head_dim, true}, {"rope.dimension_count_swa", h->rope_dims, true}};
    bool causal = true;
    ls_code code;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int32_t v = sizes[i].allowed;
        if ((code = may_int(s, sizes[i].name, 0, INT32_MAX, &v))) return code;
        if (v != sizes[i].allowed && (h->window || !sizes[i].local))
            return ls_fail(s->err, LS_E_UNSUPPORTED, "metadata '%s' is %d; only %d is supported", s->key, v,
                           sizes[i].allowed);
    }
    if ((code = may_bool(s, "attention.causal", &causal))) return code;
    return causal ? LS_OK
                  : ls_fail(s->err, LS_E_UNSUPPORTED,
                            "the model is an encoder (metadata '%s' is false); only decoders are supported", s->key);
}

ls_code ls_hparams_gguf(ls_hparams *out, const ls_gguf *g, const ls_arch *as, ls_err *err) {
    ls_hparams h = {.embd_scale = 1, .residual_scale = 1, .logit_scale = 1};
    source s = {.g = g, .err = err};
    ls_str arch;
    ls_code code;
    if ((code = ls_gguf_str(g, "general.architecture", &arch, err))) return code;
    h.arch = as ? as : ls_arch_find(arch, false);
    uint32_t experts = 0; // Mixtral has the name of a dense architecture
    if (h.arch && !as && ls_gguf_has(g, key_of(&s, "expert_count"))) {
        if ((code = ls_gguf_shared_u32(g, s.key, &experts, err))) return code;
        for (const ls_arch *a = ls_archs; a->gguf && experts && !h.arch->router; a++)
            if (a->router && !strcmp(a->gguf, h.arch->gguf)) h.arch = a;
    }
    if (!h.arch)
        return ls_fail(err, LS_E_UNSUPPORTED, "architecture '%.*s' is not supported", (int)(arch.n < 64 ? arch.n : 64),
                       arch.p);
    if ((code = read_sizes(&h, &s)) || (code = read_rope(&h, &s))) return code;
    h.rope_interleaved = h.arch->gguf_interleaved;
    h.attn_scale = 1 / sqrtf((float)h.head_dim);
    if (h.arch->gemma) h.embd_scale = sqrtf((float)h.n_embd);
    const bool gemma2 = !strcmp(h.arch->gguf, "gemma2"), gemma3 = !strcmp(h.arch->gguf, "gemma3"),
               granite = h.arch->granite;
    // the largest Gemma 2 and 3 scale by width, but their metadata lack this
    if ((gemma2 && h.n_layers == 46) || (gemma3 && h.n_layers == 62))
        h.attn_scale = 1 / sqrtf((float)h.n_embd / (float)h.n_heads);
    h.attn_softcap = h.arch->attn_softcap; // Gemma 2's, which are llama.cpp's defaults
    h.logit_softcap = h.arch->logit_softcap;
    float divisor = 1; // as in llama.cpp, only the architecture's own keys are read
    if ((gemma2 && (code = may_num(&s, "attn_logit_softcapping", &h.attn_softcap))) ||
        ((gemma2 || gemma3) && (code = may_num(&s, "final_logit_softcapping", &h.logit_softcap))) ||
        (granite &&
         ((code = may_num(&s, "attention.scale", &h.attn_scale)) || (code = may_num(&s, "logit_scale", &divisor)) ||
          (code = may_num(&s, "embedding_scale", &h.embd_scale)) ||
          (code = may_num(&s, "residual_scale", &h.residual_scale)))) ||
        (code = read_window(&h, &s)) || (code = read_experts(&h, &s)) || (code = refuse_others(&h, &s)) ||
        (h.arch->activation == LS_ACT_XIELU && (code = read_xielu(&h, &s))))
        return code;
    for (int i = 0; i < h.n_layers && h.arch->rope_every; i++) h.unrotated[i] = (i + 1) % h.arch->rope_every == 0;
    h.logit_scale = 1 / divisor;
    if ((code = ls_hparams_check(&h, err))) return code;
    *out = h;
    return LS_OK;
}
