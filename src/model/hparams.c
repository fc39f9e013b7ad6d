#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// clang-format off
#define SAYS(HEADS, KV, HEAD_DIM, CONTEXT, WINDOW, EPS) \
    .heads = HEADS, .kv_heads = KV, .head_dim = HEAD_DIM, .context = CONTEXT, .window = WINDOW, .rms_eps = EPS
#define GEMMA .gemma = true, .activation = LS_ACT_GELU_TANH, .norm_before = true

const ls_arch ls_archs[] = {
    {"llama", "llama", SAYS(32, 0, 0, 2048, 0, 1e-6f), .gguf_interleaved = true, .norm_before = true, .windowless = true},
    {"llama", "mistral", SAYS(32, 8, 0, 131072, 4096, 1e-6f), .gguf_interleaved = true, .norm_before = true},
    {"granite", "granite", SAYS(32, 0, 0, 2048, 0, 1e-6f), .gguf_interleaved = true, .norm_before = true, .windowless = true},
    {"qwen2", "qwen2", SAYS(32, 32, 0, 32768, 4096, 1e-6f), .norm_before = true, .late_window = 28},
    {"qwen3", "qwen3", SAYS(32, 32, 128, 32768, 4096, 1e-6f), .norm_before = true, .late_window = 28, .qk_norm = LS_QK_NORM_HEAD},
    {"phi3", "phi3", SAYS(32, 0, 0, 4096, 0, 1e-5f), .norm_before = true, .long_rope = true, .gguf_window = true},
    {"olmo2", "olmo2", SAYS(32, 0, 0, 2048, 0, 1e-5f), .norm_after = true, .qk_norm = LS_QK_NORM_WHOLE, .windowless = true, .gguf_window = true,
     .pattern = 4},
    {"gemma", "gemma", SAYS(16, 16, 256, 8192, 0, 1e-6f), GEMMA, .windowless = true},
    {"gemma2", "gemma2", SAYS(8, 4, 256, 8192, 4096, 1e-6f), GEMMA, .norm_after = true, .pattern = 2, .gguf_window = true,
     .query_scalar = 256, .attn_softcap = 50, .logit_softcap = 30},
    {"gemma3", "gemma3_text", SAYS(8, 4, 256, 131072, 4096, 1e-6f), GEMMA, .norm_after = true, .pattern = 6, .gguf_window = true,
     .query_scalar = 256, .qk_norm = LS_QK_NORM_HEAD, .rope = 1000000, .local_rope = 10000},
    {0},
};
// clang-format on

const ls_arch *ls_arch_find(const char *name, size_t n, bool hf) {
    for (const ls_arch *a = ls_archs; a->gguf; a++) {
        const char *own = hf ? a->hf : a->gguf;
        if (strlen(own) == n && !memcmp(own, name, n)) return a;
    }
    return NULL;
}

void ls_arch_list(bool hf, char *out, size_t size) {
    size_t used = 0;
    *out = 0;
    for (const ls_arch *a = ls_archs; a->gguf; a++) {
        const char *own = hf ? a->hf : a->gguf;
        bool told = false;
        for (const ls_arch *b = ls_archs; b < a; b++) told |= !strcmp(hf ? b->hf : b->gguf, own);
        if (!told && used < size) used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", own);
    }
}

void ls_rope_plain(ls_hparams *h, int kind, double base, double factor) {
    for (int i = 0; i < h->rope_dims / 2; i++)
        h->rope_freq[kind][i] = (float)(pow(base, -2.0 * i / h->rope_dims) / factor);
    h->rope_magnitude[kind] = 1;
}

uint64_t ls_hparams_kv_bytes(const ls_hparams *h, int32_t value_bytes) {
    return 2 * (uint64_t)value_bytes * (uint64_t)h->n_layers * (uint64_t)h->n_kv_heads * (uint64_t)h->head_dim;
}

ls_code ls_hparams_check(ls_hparams *h, ls_err *err) {
    if (h->n_heads % h->n_kv_heads)
        return ls_fail(err, LS_E_PARSE, "%d attention heads cannot share %d key/value heads", h->n_heads,
                       h->n_kv_heads);
    if (h->head_dim > 2 * LS_MAX_ROPE || h->n_embd % 32)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "head size %d (at most 256) or width %d (a multiple of 32) is not supported", h->head_dim,
                       h->n_embd);
    if (h->rope_dims < 2 || h->rope_dims % 2 || h->rope_dims > h->head_dim)
        return ls_fail(err, LS_E_UNSUPPORTED, "rotary embedding over %d of %d dimensions is not supported",
                       h->rope_dims, h->head_dim);
    bool fine = h->rms_eps > 0 && h->rms_eps < 1;
    const float scales[] = {h->embd_scale, h->attn_scale, h->residual_scale, h->logit_scale};
    for (int i = 0; i < 4; i++) fine &= isfinite(scales[i]) && scales[i] > 0;
    fine &= h->attn_softcap >= 0 && isfinite(h->attn_softcap) && h->logit_softcap >= 0 && isfinite(h->logit_softcap);
    for (int kind = 0; kind < 2; kind++) {
        fine &= isfinite(h->rope_magnitude[kind]);
        for (int i = 0; i < h->rope_dims / 2; i++) fine &= isfinite(h->rope_freq[kind][i]);
    }
    if (!fine)
        return ls_fail(err, LS_E_RANGE, "a norm's epsilon, a scale or a rotary frequency of the model is out of range");
    return LS_OK;
}
