#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ls_code get_int(const ls_gguf *g, const char *key, int64_t lo, int64_t hi, int32_t *out, ls_err *err) {
    uint32_t v = 0;
    ls_code code = ls_gguf_u32(g, key, &v, err);
    if (code) return code;
    if (v < lo || v > hi)
        return ls_fail(err, LS_E_RANGE, "metadata '%s' is %u, expected %lld to %lld", key, v, (long long)lo,
                       (long long)hi);
    *out = (int32_t)v;
    return LS_OK;
}

// dim1 0: a vector
static ls_code expect(const ls_gguf *g, const char *name, int64_t dim0, int64_t dim1, ls_err *err) {
    const ls_gguf_tensor *t = ls_gguf_find(g, name);
    if (!t) return ls_fail(err, LS_E_PARSE, "tensor '%s' is missing", name);
    if (t->n_dims != (dim1 ? 2 : 1) || t->dim[0] != (uint64_t)dim0 || (dim1 && t->dim[1] != (uint64_t)dim1))
        return ls_fail(err, LS_E_PARSE, "tensor '%s' has shape %llu x %llu, expected %lld x %lld", name,
                       (unsigned long long)t->dim[0], (unsigned long long)t->dim[1], (long long)dim0, (long long)dim1);
    if (!dim1 && t->type != LS_GGML_F32)
        return ls_fail(err, LS_E_UNSUPPORTED, "tensor '%s' is %s, expected F32", name, ls_ggml_type_name(t->type));
    return LS_OK;
}

static ls_code check_tensors(const ls_hparams *h, const ls_gguf *g, ls_err *err) {
    const int64_t d = h->n_embd, q = (int64_t)h->n_heads * h->head_dim, kv = (int64_t)h->n_kv_heads * h->head_dim;
    const struct {
        const char *name;
        int64_t dim0, dim1;
    } per_layer[] = {
        {"attn_norm", d, 0},    {"attn_q", d, q},         {"attn_k", d, kv},
        {"attn_v", d, kv},      {"attn_output", q, d},    {"ffn_norm", d, 0},
        {"ffn_up", d, h->n_ff}, {"ffn_gate", d, h->n_ff}, {"ffn_down", h->n_ff, d},
    };
    ls_code code;
    if ((code = expect(g, "token_embd.weight", d, h->n_vocab, err)) ||
        (code = expect(g, "output_norm.weight", d, 0, err)))
        return code;
    if (!h->tied && (code = expect(g, "output.weight", d, h->n_vocab, err))) return code;
    char name[64];
    for (int layer = 0; layer < h->n_layers; layer++)
        for (size_t i = 0; i < sizeof per_layer / sizeof *per_layer; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, per_layer[i].name);
            if ((code = expect(g, name, per_layer[i].dim0, per_layer[i].dim1, err))) return code;
            snprintf(name, sizeof name, "blk.%d.%s.bias", layer, per_layer[i].name);
            if (ls_gguf_find(g, name))
                return ls_fail(err, LS_E_UNSUPPORTED, "tensor '%s': biases are not supported", name);
        }
    return LS_OK;
}

ls_code ls_hparams_read(ls_hparams *out, const ls_gguf *g, ls_err *err) {
    ls_hparams h = {0};
    ls_str arch;
    ls_code code;
    if ((code = ls_gguf_str(g, "general.architecture", &arch, err))) return code;
    if (arch.n != 5 || memcmp(arch.p, "llama", 5))
        return ls_fail(err, LS_E_UNSUPPORTED, "architecture '%.*s'; only 'llama' is supported",
                       (int)(arch.n < 64 ? arch.n : 64), arch.p);
    if ((code = get_int(g, "llama.block_count", 1, 1024, &h.n_layers, err)) ||
        (code = get_int(g, "llama.embedding_length", 32, 1 << 16, &h.n_embd, err)) ||
        (code = get_int(g, "llama.feed_forward_length", 32, 1 << 18, &h.n_ff, err)) ||
        (code = get_int(g, "llama.attention.head_count", 1, 1024, &h.n_heads, err)) ||
        (code = get_int(g, "llama.context_length", 16, 1 << 22, &h.n_context, err)))
        return code;
    h.n_kv_heads = h.n_heads;
    if (ls_gguf_has(g, "llama.attention.head_count_kv") &&
        (code = get_int(g, "llama.attention.head_count_kv", 1, h.n_heads, &h.n_kv_heads, err)))
        return code;
    if (h.n_heads % h.n_kv_heads)
        return ls_fail(err, LS_E_PARSE, "%d attention heads cannot share %d key/value heads", h.n_heads, h.n_kv_heads);
    h.head_dim = h.n_embd / h.n_heads;
    if (ls_gguf_has(g, "llama.attention.key_length") &&
        (code = get_int(g, "llama.attention.key_length", 2, 1024, &h.head_dim, err)))
        return code;
    if (h.head_dim % 16 || h.head_dim > 256 || h.n_embd % 32 || h.n_ff % 32)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "head size %d (a multiple of 16 up to 256 is needed), width %d or feed-forward width %d "
                       "(multiples of 32 are needed)",
                       h.head_dim, h.n_embd, h.n_ff);
    int32_t rope_dims = h.head_dim;
    if (ls_gguf_has(g, "llama.rope.dimension_count") &&
        (code = get_int(g, "llama.rope.dimension_count", 1, 1024, &rope_dims, err)))
        return code;
    if (rope_dims != h.head_dim)
        return ls_fail(err, LS_E_UNSUPPORTED, "rotary embedding over %d of %d dimensions", rope_dims, h.head_dim);
    if (ls_gguf_has(g, "llama.rope.scaling.type"))
        return ls_fail(err, LS_E_UNSUPPORTED, "rotary scaling is not supported");
    h.rope_base = 10000.0f; // the format's default
    if (ls_gguf_has(g, "llama.rope.freq_base") && (code = ls_gguf_f32(g, "llama.rope.freq_base", &h.rope_base, err)))
        return code;
    if ((code = ls_gguf_f32(g, "llama.attention.layer_norm_rms_epsilon", &h.rms_eps, err))) return code;
    if (!(h.rope_base >= 1 && isfinite(h.rope_base)) || !(h.rms_eps > 0 && h.rms_eps < 1))
        return ls_fail(err, LS_E_RANGE, "rotary base %g or norm epsilon %g is not possible", (double)h.rope_base,
                       (double)h.rms_eps);
    const ls_gguf_tensor *embd = ls_gguf_find(g, "token_embd.weight");
    if (!embd) return ls_fail(err, LS_E_PARSE, "tensor 'token_embd.weight' is missing");
    if (embd->n_dims != 2 || embd->dim[1] < 2 || embd->dim[1] > 1 << 22)
        return ls_fail(err, LS_E_PARSE, "tensor 'token_embd.weight' has an impossible shape");
    h.n_vocab = (int32_t)embd->dim[1];
    h.tied = !ls_gguf_find(g, "output.weight");
    if ((code = check_tensors(&h, g, err))) return code;
    *out = h;
    return LS_OK;
}
