#include "model/hparams_read.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define SAYS(HEADS, KV, HEAD_DIM, CONTEXT, WINDOW, EPS) \
    .heads = HEADS, .kv_heads = KV, .head_dim = HEAD_DIM, .context = CONTEXT, .window = WINDOW, .rms_eps = EPS
#define GEMMA .gemma = true, .tied = true, .activation = LS_ACT_GELU_TANH, .norm_before = true
#define OLMO .norm_after = true, .qk_norm = LS_QK_NORM_WHOLE, .gguf_window = true, .pattern = 4, .plain_local = true

const ls_arch ls_archs[] = {
    {"llama", "llama", NULL, "LlamaTokenizer", "Llama 1-3.x (Vicuna, TinyLlama, SmolLM, OpenLLaMA, Falcon 3)", SAYS(32, 0, 0, 2048, 0, 1e-6f), .gguf_interleaved = true,
     .norm_before = true, .windowless = true},
    {"llama", "mistral", "mistral3", "LlamaTokenizer", "Mistral 7B, Nemo, Small, Devstral Small", SAYS(32, 8, 0, 131072, 4096, 1e-6f), .gguf_interleaved = true, .norm_before = true},
    {"llama", "internlm3", NULL, "LlamaTokenizer", "InternLM 3", SAYS(32, 2, 128, 32768, 0, 1e-5f), .gguf_interleaved = true, .norm_before = true, .windowless = true},
    {"mistral3", "ministral3", "mistral3", NULL, "Ministral 3, Devstral 2", SAYS(32, 8, 128, 262144, 0, 1e-5f), .gguf_interleaved = true, .norm_before = true,
     .rope_stated = true},
    {"granite", "granite", NULL, "GPT2Tokenizer", "Granite 3", SAYS(32, 0, 0, 2048, 0, 1e-6f), .gguf_interleaved = true, .norm_before = true, .windowless = true,
     .granite = true},
    {"granite", "granitemoehybrid", NULL, NULL, "Granite 4 (dense, without Mamba layers)", SAYS(32, 0, 0, 2048, 0, 1e-6f), .gguf_interleaved = true,
     .norm_before = true, .windowless = true, .granite = true},
    {"qwen2", "qwen2", NULL, "Qwen2Tokenizer", "Qwen2, Qwen2.5", SAYS(32, 32, 0, 32768, 4096, 1e-6f), .norm_before = true, .late_window = 28},
    {"qwen3", "qwen3", NULL, "Qwen2Tokenizer", "Qwen3", SAYS(32, 32, 128, 32768, 4096, 1e-6f), .norm_before = true, .late_window = 28, .qk_norm = LS_QK_NORM_HEAD},
    {"qwen2vl", "qwen2_vl", NULL, "Qwen2Tokenizer", "Qwen2-VL, text part", SAYS(64, 8, 0, 32768, 4096, 1e-5f), .norm_before = true, .late_window = 80, .rope = 1000000,
     .pictures = true},
    {"qwen2vl", "qwen2_5_vl", NULL, "Qwen2Tokenizer", "Qwen2.5-VL, text part", SAYS(64, 8, 0, 32768, 4096, 1e-5f), .norm_before = true, .late_window = 80, .rope = 1000000,
     .pictures = true},
    {"qwen3vl", "qwen3_vl", NULL, "Qwen2Tokenizer", "Qwen3-VL, text part", SAYS(32, 32, 128, 128000, 0, 1e-6f), .norm_before = true, .windowless = true,
     .qk_norm = LS_QK_NORM_HEAD, .rope = 500000, .pictures = true},
    {"phi3", "phi3", NULL, "LlamaTokenizer", "Phi-3, Phi-4-mini", SAYS(32, 0, 0, 4096, 0, 1e-5f), .norm_before = true, .long_rope = true, .rope_part = 1, .gguf_window = true},
    {"olmo2", "olmo2", NULL, "GPTNeoXTokenizer", "OLMo 2", SAYS(32, 0, 0, 2048, 0, 1e-5f), OLMO, .windowless = true},
    {"olmo2", "olmo3", NULL, NULL, "OLMo 3", SAYS(32, 0, 0, 2048, 4096, 1e-5f), OLMO, .rope = 500000},
    {"gemma", "gemma", NULL, "GemmaTokenizer", "Gemma", SAYS(16, 16, 256, 8192, 0, 1e-6f), GEMMA, .windowless = true},
    {"gemma2", "gemma2", NULL, "GemmaTokenizer", "Gemma 2", SAYS(8, 4, 256, 8192, 4096, 1e-6f), GEMMA, .norm_after = true, .pattern = 2, .gguf_window = true,
     .query_scalar = 256, .attn_softcap = 50, .logit_softcap = 30},
    {"gemma3", "gemma3_text", "gemma3", "GemmaTokenizer", "Gemma 3", SAYS(8, 4, 256, 131072, 4096, 1e-6f), GEMMA, .norm_after = true, .pattern = 6, .gguf_window = true,
     .query_scalar = 256, .qk_norm = LS_QK_NORM_HEAD, .rope = 1000000, .local_rope = 10000, .plain_local = true},
    {"smollm3", "smollm3", NULL, NULL, "SmolLM3", SAYS(16, 4, 0, 32768, 0, 1e-6f), .gguf_interleaved = true, .norm_before = true, .tied = true, .windowless = true,
     .rope_every = 4, .rope = 2000000},
    {"arcee", "arcee", NULL, NULL, "Arcee AFM", SAYS(32, 0, 0, 4096, 0, 1e-5f), .gguf_interleaved = true, .norm_before = true, .windowless = true,
     .activation = LS_ACT_RELU2, .ungated = true},
    {"seed_oss", "seed_oss", NULL, NULL, "Seed-OSS", SAYS(80, 8, 128, 524288, 0, 1e-6f), .norm_before = true, .windowless = true},
    {"ernie4_5", "ernie4_5", NULL, NULL, "ERNIE 4.5 (dense)", SAYS(16, 2, 128, 131072, 0, 1e-5f), .gguf_interleaved = true, .hf_interleaved = true,
     .norm_before = true, .tied = true, .windowless = true, .rope = 500000},
    {"hunyuan-dense", "hunyuan_v1_dense", NULL, NULL, "Hunyuan (dense)", SAYS(32, 0, 0, 2048, 0, 1e-5f), .norm_before = true, .windowless = true,
     .qk_norm = LS_QK_NORM_ROTATED},
    {"exaone4", "exaone4", NULL, NULL, "EXAONE 4", SAYS(32, 32, 0, 2048, 4096, 1e-5f), .norm_after = true, .qk_norm = LS_QK_NORM_HEAD, .gguf_window = true,
     .pattern = 4, .rope_local = true},
    {"glm4", "glm4", NULL, NULL, "GLM-4", SAYS(32, 2, 128, 131072, 0, 1.5625e-7f), .gguf_interleaved = true, .hf_interleaved = true, .norm_before = true,
     .norm_after = true, .post_is_before = true, .windowless = true, .rope_part = 0.5f},
    {"llama", "mixtral", NULL, "LlamaTokenizer", "Mixtral", SAYS(32, 8, 0, 131072, 0, 1e-5f), .gguf_interleaved = true, .norm_before = true, .router = LS_ROUTER_BEST,
     .gguf_sum = true, .rope = 1000000, .experts = 8, .used = 2},
    {"olmoe", "olmoe", NULL, "GPTNeoXTokenizer", "OLMoE", SAYS(16, 16, 0, 4096, 0, 1e-5f), .norm_before = true, .windowless = true, .qk_norm = LS_QK_NORM_WHOLE,
     .router = LS_ROUTER_ALL, .experts = 64, .used = 8},
    {"qwen2moe", "qwen2_moe", NULL, "Qwen2Tokenizer", "Qwen1.5-MoE, Qwen2-MoE", SAYS(16, 16, 0, 32768, 4096, 1e-6f), .norm_before = true, .late_window = 28,
     .router = LS_ROUTER_ALL, .experts = 60, .used = 4, .expert_ff = 1408, .shared_ff = 5632},
    {"qwen3moe", "qwen3_moe", NULL, "Qwen2Tokenizer", "Qwen3-30B-A3B", SAYS(32, 4, 0, 32768, 4096, 1e-6f), .norm_before = true, .windowless = true,
     .qk_norm = LS_QK_NORM_HEAD, .router = LS_ROUTER_ALL, .gguf_sum = true, .experts = 128, .used = 8, .expert_ff = 768},
    {"gpt-oss", "gpt_oss", NULL, NULL, "gpt-oss", SAYS(64, 8, 64, 131072, 128, 1e-5f), .norm_before = true, .router = LS_ROUTER_BEST,
     .gguf_sum = true, .sinks = true, .activation = LS_ACT_CLAMPED, .pattern = 2, .gguf_window = true, .fused = true, .rope_stated = true, .rope = 150000, .experts = 128,
     .used = 4},
    {"granitemoe", "granitemoe", NULL, "GPT2Tokenizer", "Granite 3 MoE", SAYS(32, 0, 0, 2048, 0, 1e-6f), .gguf_interleaved = true, .norm_before = true, .windowless = true,
     .granite = true, .router = LS_ROUTER_BEST, .gguf_sum = true, .experts = 8, .used = 2},
    {"glm4moe", "glm4_moe", NULL, NULL, "GLM-4.5, 4.6, 4.7 (not Flash)", SAYS(96, 8, 0, 131072, 0, 1e-5f), .norm_before = true, .windowless = true, .rope_part = 0.5f,
     .qk_norm = LS_QK_NORM_HEAD, .qk_norm_stated = true, .router = LS_ROUTER_SIGMOID, .balanced = true, .experts = 128, .used = 8, .expert_ff = 1408, .shared = 1,
     .dense_first = 1},
    {"ernie4_5-moe", "ernie4_5_moe", NULL, NULL, "ERNIE 4.5 (21B-A3B, 300B-A47B)", SAYS(20, 4, 0, 131072, 0, 1e-5f), .gguf_interleaved = true, .hf_interleaved = true,
     .norm_before = true, .tied = true, .windowless = true, .rope = 500000, .router = LS_ROUTER_ALL, .balanced = true, .gguf_sum = true, .experts = 64, .used = 6,
     .expert_ff = 1536, .shared = 2, .dense_first = 1},
    {"apertus", "apertus", NULL, NULL, "Apertus", SAYS(32, 0, 0, 65536, 0, 1e-5f), .norm_before = true, .windowless = true, .qk_norm = LS_QK_NORM_HEAD,
     .activation = LS_ACT_XIELU, .ungated = true, .rope = 12000000, .rope_stated = true},
    {"starcoder2", "starcoder2", NULL, "GPT2Tokenizer", "StarCoder 2", SAYS(24, 2, 0, 4096, 0, 1e-5f), .norm_before = true, .layer_norm = true, .tied = true,
     .activation = LS_ACT_GELU_TANH, .ungated = true},
    {0},
};
// clang-format on

const ls_arch *ls_arch_find(ls_str name, bool hf) {
    const bool text = hf && name.n > 5 && !memcmp(name.p + name.n - 5, "_text", 5);
    for (const ls_arch *a = ls_archs; a->gguf; a++)
        if (ls_str_is(name, hf ? a->hf : a->gguf) ||
            (text && a->pictures && ls_str_is((ls_str){name.p, name.n - 5}, a->hf)))
            return a;
    return NULL;
}

__attribute__((format(printf, 2, 3))) static void say(ls_buf *out, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *what = ls_format_list(fmt, ap);
    va_end(ap);
    ls_buf_fmt(out, "%s%s", out->n ? ", " : "", what);
    free(what);
}

static void say_sublayers(const ls_arch *a, ls_buf *out) {
    static const char *const qk[] = {[LS_QK_NORM_HEAD] = "norms of heads",
                                     [LS_QK_NORM_WHOLE] = "norms of all queries and of all keys",
                                     [LS_QK_NORM_ROTATED] = "norms of rotated heads"},
                             *const act[] = {[LS_ACT_GELU_TANH] = "GELU",
                                             [LS_ACT_RELU2] = "squared ReLU",
                                             [LS_ACT_XIELU] = "xIELU",
                                             [LS_ACT_CLAMPED] = "clamped SwiGLU"};
    if (a->layer_norm) say(out, "layer norms with biases");
    if (a->norm_after) say(out, a->norm_before ? "norms before and after sublayers" : "norms after sublayers");
    if (qk[a->qk_norm]) say(out, "%s", qk[a->qk_norm]);
    if (act[a->activation]) say(out, "%s", act[a->activation]);
    if (a->ungated) say(out, "no gate");
    if (a->router) say(out, a->router == LS_ROUTER_SIGMOID ? "experts by sigmoids" : "experts");
    if (a->balanced) say(out, "biases of the choice");
    if (a->sinks) say(out, "attention sinks");
    if (a->gemma) say(out, "scaled embeddings");
    if (a->granite) say(out, "multipliers");
}

void ls_arch_differs(const ls_arch *a, ls_buf *out) {
    say_sublayers(a, out);
    if (a->attn_softcap > 0) say(out, "soft caps");
    if (a->hf_interleaved) say(out, "interleaved rotation");
    if (a->rope_part > 0 && a->rope_part < 1) say(out, "partial rotation");
    if (a->rope_every || a->rope_local) say(out, "layers without rotation");
    if (a->rope_stated && a->activation == LS_ACT_SILU) say(out, "attention temperature");
    if (!a->windowless && (a->window || a->late_window || a->gguf_window || a->layer_norm)) say(out, "sliding window");
}

void ls_hparams_differs(const ls_hparams *h, ls_buf *out) {
    int unrotated = 0, local = 0, dense = 0;
    for (int i = 0; i < h->n_layers; i++)
        unrotated += h->unrotated[i], local += h->local[i], dense += h->n_experts && h->dense[i];
    say_sublayers(h->arch, out);
    if (h->attn_softcap > 0 || h->logit_softcap > 0) say(out, "soft caps");
    if (h->arch->hf_interleaved) say(out, "interleaved rotation");
    const int32_t head = h->stated_head_dim ? h->stated_head_dim : h->head_dim;
    if (h->n_experts) say(out, "%d of %d experts of width %d a token", h->n_experts_used, h->n_experts, h->n_ff_expert);
    if (h->n_ff_shared) say(out, "a shared expert of width %d", h->n_ff_shared);
    if (h->n_expert_groups > 1) say(out, "experts of %d of %d groups", h->n_groups_used, h->n_expert_groups);
    if (dense) say(out, "%d dense layers", dense);
    if (h->rope_dims < head) say(out, "rotation of %d of %d values", h->rope_dims, head);
    if (h->rope_scaling) say(out, "rotary scaling %s", h->rope_scaling);
    if (unrotated) say(out, "%d layers without rotation", unrotated);
    if (h->attn_temperature > 0)
        say(out, "attention temperature %g per %d positions", (double)h->attn_temperature, h->attn_temperature_length);
    if (local) say(out, "%d layers that attend to the last %d tokens", local, h->window);
}

void ls_rope_plain(ls_hparams *h, int kind, double base, double factor) {
    for (int i = 0; i < h->rope_dims / 2; i++)
        h->rope_freq[kind][i] = (float)(pow(base, -2.0 * i / h->rope_dims) / factor);
    h->rope_magnitude[kind] = 1;
}

double ls_yarn_magnitude(double factor, double weight) {
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

void ls_rope_yarn(ls_hparams *h, double base, const ls_yarn *y) {
    const double dims = h->rope_dims;
    // the index of the frequency that turns so many times in the original context
    double low = dims * log(y->original / (y->fast * 2 * M_PI)) / (2 * log(base)),
           high = dims * log(y->original / (y->slow * 2 * M_PI)) / (2 * log(base));
    low = fmax(y->sharp ? low : floor(low), 0);
    high = fmin(y->sharp ? high : ceil(high), dims - 1);
    const double width = low == high ? 0.001 : high - low;
    for (int i = 0; i < h->rope_dims / 2; i++) {
        const double f = pow(base, -2.0 * i / dims), divided = fmin(fmax((i - low) / width, 0), 1);
        h->rope_freq[0][i] = (float)(f / y->factor * divided + f * (1 - divided));
    }
    h->rope_magnitude[0] = (float)y->magnitude;
}

static double softplus(double x) {
    return x > 20 ? x : log1p(exp(x));
}

void ls_xielu_set(ls_hparams *h, int layer, double alpha_p, double alpha_n, double beta, double eps) {
    const double of[] = {softplus(alpha_p), beta + softplus(alpha_n), beta, eps};
    for (int i = 0; i < 4; i++) h->xielu[layer][i] = (float)of[i];
}

int32_t ls_longest_context(const ls_hparams *h) {
    return h->n_context_long ? h->n_context_long : h->n_context;
}

void ls_rope_for_context(ls_hparams *h, int32_t n) {
    for (int i = 0; h->n_context_long && n > h->n_context && i < h->rope_dims / 2; i++)
        h->rope_freq[0][i] = h->rope_freq[1][i] = h->rope_long[i];
}

uint64_t ls_hparams_kv_bytes(const ls_hparams *h, int32_t value_bytes) {
    return 2 * (uint64_t)value_bytes * (uint64_t)h->n_layers * (uint64_t)h->n_kv_heads * (uint64_t)h->head_dim;
}

ls_code ls_hparams_check(ls_hparams *h, ls_err *err) {
    if (h->n_experts && !memchr(h->dense, 1, (size_t)h->n_layers)) h->n_ff = h->n_ff_expert;
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
    fine &= h->attn_temperature >= 0 && isfinite(h->attn_temperature) &&
            (h->attn_temperature == 0 || h->attn_temperature_length > 0);
    for (int kind = 0; kind < 2; kind++) {
        fine &= isfinite(h->rope_magnitude[kind]);
        for (int i = 0; i < h->rope_dims / 2; i++) fine &= isfinite(h->rope_freq[kind][i]) && isfinite(h->rope_long[i]);
    }
    for (int i = 0; i < h->n_layers; i++)
        for (int k = 0; k < 4; k++) fine &= isfinite(h->xielu[i][k]);
    if (!fine)
        return ls_fail(err, LS_E_RANGE, "a norm's epsilon, a scale or a rotary frequency of the model is out of range");
    if (h->n_experts &&
        (h->n_experts_used > h->n_experts || h->n_ff_expert % 32 || h->n_ff_shared % 32 || h->n_ff % 32))
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "%d of %d experts of width %d, a shared one of width %d and dense layers of width %d are not "
                       "supported (widths must be multiples of 32)",
                       h->n_experts_used, h->n_experts, h->n_ff_expert, h->n_ff_shared, h->n_ff);
    const int32_t groups = h->n_expert_groups, group = groups ? h->n_experts / groups : 0;
    if (groups > 1 && (h->n_experts % groups || group < 2 || h->n_groups_used > groups ||
                       h->n_groups_used * group < h->n_experts_used))
        return ls_fail(err, LS_E_UNSUPPORTED, "%d of %d experts of %d of %d groups are not supported",
                       h->n_experts_used, h->n_experts, h->n_groups_used, groups);
    if (h->n_experts && !(h->expert_scale > 0 && isfinite(h->expert_scale)))
        return ls_fail(err, LS_E_RANGE, "the scale of the experts' weights is %g, expected a positive number",
                       (double)h->expert_scale);
    if (h->qk_norm == LS_QK_NORM_ROTATED && (h->rope_magnitude[0] != 1 || h->rope_magnitude[1] != 1))
        return ls_fail(err, LS_E_UNSUPPORTED, // a GPU's kernel norms before it rotates, which is the same then
                       "rotary scaling that changes magnitudes is not supported with norms after the rotation");
    return LS_OK;
}
