// Measures the CUDA library, and checks over many tokens that drafted trees give what plain decoding gives. Weights are
// random (seeded), in the shapes of real models: times do not depend on their values. Prints JSON lines; needs no test
// library, so that it builds on a bare GPU machine. tests/gpu/README.md says what is measured and how.
//
//     gpu_bench [--library FILE] [--tiny] [--quick] [--device-info] [--copy] [--exact] [--tokens N] [--seconds S]
//               [--shape NAME] [--weights bf16|q8|q4]
//
// --tiny: small shapes and counts, which the emulated device has done in seconds. Without anything to do: everything.
#include "base/ggml.h"
#include "compute/kernels/gpu_runtime.h"
#include "compute/lst.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// clang-format off
#define CALLS(X) \
    X(last_error) X(device) X(model_open) X(model_info) X(model_close) X(kv_cache_new) X(kv_cache_free) X(length) X(prefill) \
    X(forward_tree) X(row_top) X(row_logits) X(keep_path) X(timings)
// clang-format on
#define POINTER(name) static __typeof__(&lst_##name) p_lst_##name;
CALLS(POINTER)

enum {
    LISTED = 64, // best tokens that a drafter asks for
    CONTEXTS = 2,
    MOST_STEPS = 64
};

typedef struct {
    const char *name;
    int32_t layers, embd, ff, heads, kv_heads, head_dim, vocab;
    bool tied;
    double theta;
} shape;
static const shape shapes[] = {
    {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, false, 500000},
    {"vicuna-7b", 32, 4096, 11008, 32, 32, 128, 32000, false, 10000},
    {"smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152, true, 100000},
};
static const shape tiny_shapes[] = {
    {"tiny", 2, 64, 96, 4, 2, 32, 208, false, 10000},
    {"tiny-tied", 2, 96, 128, 3, 1, 32, 304, true, 10000},
};

static struct {
    const char *library, *shape, *weights;
    bool tiny, quick, device_info, copy, exact;
    long tokens, layers; // layers: as many of a shape's; 0: all
    double seconds;
} options = {.tokens = -1, .seconds = 1e9};
static int n_failed;

// ---- small things

__attribute__((format(printf, 1, 2))) static void line(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout); // what was measured stays, whatever comes
}
__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...) {
    char what[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    for (char *p = what; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ') *p = '\'';
    line("{\"kind\":\"error\",\"what\":\"%s\"}", what);
    exit(1);
}
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const int code_ = (call);                                                                                      \
        if (code_) die("%s: %s", #call, p_lst_last_error());                                                           \
    } while (0)
#define MUST_DEVICE(call)                                                                                              \
    do {                                                                                                               \
        const int code_ = (call);                                                                                      \
        if (code_) die("%s: %s", #call, lsg_error(code_));                                                             \
    } while (0)

static void *get(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p) die("no %zu bytes of memory", bytes);
    return p;
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *values, int n) { // sorts them
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static uint64_t random_state = 1;
static uint64_t random_bits(void) { // splitmix64
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static int32_t below(int32_t n) {
    return (int32_t)(random_bits() >> 33) % n;
}
static bool chance(double p) {
    return (double)(random_bits() >> 11) * 0x1p-53 < p;
}

// ---- a model of random weights

enum { PER_LAYER = 9 };
typedef struct {
    const shape *of;
    int n;
    lst_tensor *t;
    char (*names)[40];
    uint16_t *noise; // bf16; tensors are pieces of it, from different places on
    size_t n_noise;
} checkpoint;

static void add(checkpoint *c, const char *name, int type, int64_t n_in, int64_t n_out) {
    snprintf(c->names[c->n], sizeof c->names[0], "%s", name);
    c->t[c->n] = (lst_tensor){.name = c->names[c->n],
                              .type = type,
                              .n_in = n_in,
                              .n_out = n_out,
                              .n_bytes = (uint64_t)n_in * (uint64_t)n_out * (type == LS_GGML_F32 ? 4 : 2)};
    c->n++;
}

static checkpoint make_checkpoint(const shape *s) {
    const size_t most = 3 + (size_t)s->layers * PER_LAYER;
    checkpoint c = {.of = s, .t = get(most * sizeof *c.t), .names = get(most * sizeof *c.names)};
    const struct {
        const char *name;
        int type, n_in, n_out;
    } of_layer[PER_LAYER] = {{"attn_q", LS_GGML_BF16, s->embd, s->heads * s->head_dim},
                             {"attn_k", LS_GGML_BF16, s->embd, s->kv_heads * s->head_dim},
                             {"attn_v", LS_GGML_BF16, s->embd, s->kv_heads * s->head_dim},
                             {"attn_output", LS_GGML_BF16, s->heads * s->head_dim, s->embd},
                             {"ffn_gate", LS_GGML_BF16, s->embd, s->ff},
                             {"ffn_up", LS_GGML_BF16, s->embd, s->ff},
                             {"ffn_down", LS_GGML_BF16, s->ff, s->embd},
                             {"attn_norm", LS_GGML_F32, s->embd, 1},
                             {"ffn_norm", LS_GGML_F32, s->embd, 1}};
    add(&c, "token_embd.weight", LS_GGML_BF16, s->embd, s->vocab);
    if (!s->tied) add(&c, "output.weight", LS_GGML_BF16, s->embd, s->vocab);
    add(&c, "output_norm.weight", LS_GGML_F32, s->embd, 1);
    for (int l = 0; l < s->layers; l++)
        for (int i = 0; i < PER_LAYER; i++) {
            char name[40];
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, of_layer[i].name);
            add(&c, name, of_layer[i].type, of_layer[i].n_in, of_layer[i].n_out);
        }
    // an odd number, so that rows of a tensor that is longer than this are not the same ones again
    c.n_noise = (options.tiny ? (size_t)1 << 16 : (size_t)1 << 25) + 35;
    c.noise = get(c.n_noise * sizeof *c.noise);
    random_state = 20240601;
    for (size_t i = 0; i < c.n_noise; i++) { // uniform, -0.05 .. 0.05: logits stay finite
        const float f = ((float)(random_bits() >> 40) * 0x1p-23f - 1) * 0.05f;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        c.noise[i] = (uint16_t)(bits >> 16);
    }
    return c;
}

static int read_tensor(void *ud, int32_t i, uint64_t at, uint64_t bytes, void *dst) {
    const checkpoint *c = ud;
    const lst_tensor *t = &c->t[i];
    if (t->type == LS_GGML_F32) {
        for (size_t k = 0; k < bytes / 4; k++) ((float *)dst)[k] = 1; // norms
        return 0;
    }
    const size_t n = bytes / 2;
    size_t from = ((size_t)i * 7919 * 4099 + at / 2) % c->n_noise;
    for (size_t done = 0; done < n; from = 0) {
        const size_t piece = n - done < c->n_noise - from ? n - done : c->n_noise - from;
        memcpy((uint16_t *)dst + done, c->noise + from, piece * 2);
        done += piece;
    }
    return 0;
}

static lst_model *open_model(const shape *s, const char *weights) {
    checkpoint c = make_checkpoint(s);
    static const ls_arch plain;
    ls_hparams hp = {.arch = &plain,
                     .n_layers = s->layers,
                     .n_embd = s->embd,
                     .n_ff = s->ff,
                     .n_heads = s->heads,
                     .n_kv_heads = s->kv_heads,
                     .head_dim = s->head_dim,
                     .n_vocab = s->vocab,
                     .tied = s->tied,
                     .rms_eps = 1e-5f,
                     .embd_scale = 1,
                     .attn_scale = 1 / sqrtf((float)s->head_dim),
                     .residual_scale = 1,
                     .logit_scale = 1,
                     .rope_interleaved = 1,
                     .rope_dims = s->head_dim,
                     .rope_magnitude = {1, 1}};
    for (int i = 0; i < s->head_dim / 2; i++)
        hp.rope_freq[0][i] = hp.rope_freq[1][i] = (float)pow(s->theta, -2.0 * i / s->head_dim);
    const lst_open_options o = {.device = "cuda", .dtype = "auto", .weights = weights, .read = read_tensor, .ud = &c};
    lst_model *m;
    MUST(p_lst_model_open(&m, &hp, c.t, c.n, &o));
    free(c.t), free(c.names), free(c.noise);
    return m;
}

static void random_prompt(int32_t *ids, int32_t n, const shape *s) {
    for (int32_t i = 0; i < n; i++) ids[i] = below(s->vocab);
}

// ---- times

static const lst_sampling greedy = {.top_p = 1}, plain_sampling = {.temperature = 1, .top_p = 1, .seed = 5},
                          cut_sampling = {.temperature = 1, .top_k = 40, .top_p = 0.9, .seed = 5};

static double device_us(const lst_kv_cache *s) {
    lst_timing t = {0};
    MUST(p_lst_timings(s, &t));
    return t.device_us;
}

// Plain decoding: a forward of one row, its commit, and the list of best tokens that drafters read.
static int32_t time_steps(lst_kv_cache *s, const shape *of, const char *weights, const char *sampling_name,
                          const lst_sampling *sampling, int32_t context, int32_t token, uint64_t step_bytes) {
    const int warm = 5, n = options.tiny ? 6 : sampling->temperature > 0 ? 20 : options.quick ? 30 : 50;
    double wall[MOST_STEPS], device[MOST_STEPS], host[MOST_STEPS];
    const int32_t root = -1, zero = 0, from = p_lst_length(s) + warm;
    for (int i = -warm; i < n; i++) {
        lst_row row;
        int32_t ids[LISTED];
        float values[LISTED];
        const double start = now_us();
        MUST(p_lst_forward_tree(s, &token, &root, 1, sampling, &row));
        MUST(p_lst_keep_path(s, &zero, 1));
        MUST(p_lst_row_top(s, -1, LISTED, ids, values));
        const double took = now_us() - start;
        token = row.chosen;
        if (i < 0) continue;
        wall[i] = took;
        device[i] = device_us(s);
        host[i] = took - device[i];
    }
    const double mean_context = from + (n + 1) / 2.0; // of the cache that a step reads, its own row included
    const double kv_bytes = 4.0 * of->layers * of->kv_heads * of->head_dim * mean_context, us = median(device, n);
    line("{\"kind\":\"step\",\"shape\":\"%s\",\"weights\":\"%s\",\"sampling\":\"%s\",\"context\":%d,\"mean_context\":%."
         "1f,"
         "\"steps\":%d,\"wall_us\":%.2f,\"device_us\":%.2f,\"host_us\":%.2f,\"weight_bytes_read\":%llu,\"kv_bytes_"
         "read\":%.0f,"
         "\"bytes_per_s\":%.5g}",
         of->name, weights, sampling_name, context, mean_context, n, median(wall, n), us, median(host, n),
         (unsigned long long)step_bytes, kv_bytes, ((double)step_bytes + kv_bytes) / us * 1e6);
    return token;
}

// A tree of n rows: chains of eight from the root. large: of a KV cache that computes many rows in large tiles.
static void time_rows(lst_kv_cache *s, const shape *of, const char *weights, int32_t context, bool large) {
    static const int counts[] = {1, 8, 16, 24, 32, 48, 64, 128, 256};
    static lst_row rows[LST_MAX_ROWS];
    const int warm = 2, n = options.tiny ? 1 : options.quick ? 10 : 15;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int32_t tokens[LST_MAX_ROWS], parents[LST_MAX_ROWS];
        double wall[MOST_STEPS], device[MOST_STEPS];
        if (options.tiny && counts[k] > 16) break;
        if (large && !options.tiny && counts[k] < 48) continue;
        random_prompt(tokens, counts[k], of);
        for (int i = 0; i < counts[k]; i++) parents[i] = !i ? -1 : i % 8 == 1 ? 0 : i - 1;
        for (int i = -warm; i < n; i++) {
            const double start = now_us();
            MUST(p_lst_forward_tree(s, tokens, parents, counts[k], &greedy, rows));
            if (i < 0) continue;
            wall[i] = now_us() - start;
            device[i] = device_us(s);
        }
        line("{\"kind\":\"%s\",\"shape\":\"%s\",\"weights\":\"%s\",\"context\":%d,\"rows\":%d,\"runs\":%d,"
             "\"wall_us\":%.2f,\"device_us\":%.2f}",
             large ? "rows_large" : "rows", of->name, weights, context, counts[k], n, median(wall, n),
             median(device, n));
    }
}

static uint64_t free_bytes(void) {
    lst_device_info d = {0};
    MUST(p_lst_device(0, &d));
    return d.free_bytes;
}

// What recording a step costs: wall time of a first forward of each number of rows, over a second one; and memory.
static void time_graphs(lst_kv_cache *s, const shape *of, const char *weights, int32_t context) {
    static lst_row rows[LST_MAX_ROWS];
    enum { SIZES = 9 };
    double us[SIZES];
    int32_t tokens[LST_MAX_ROWS], parents[LST_MAX_ROWS];
    random_prompt(tokens, LST_MAX_ROWS, of);
    for (int i = 0; i < LST_MAX_ROWS; i++) parents[i] = i - 1;
    const uint64_t before = free_bytes();
    for (int i = 0; i < SIZES; i++) { // sampled ones: none of them was recorded yet
        double took[2];
        for (int k = 0; k < 2; k++) {
            const double start = now_us();
            MUST(p_lst_forward_tree(s, tokens, parents, 8 * (i + 1), &plain_sampling, rows));
            took[k] = now_us() - start;
        }
        us[i] = took[0] - took[1];
    }
    const uint64_t after = free_bytes();
    line("{\"kind\":\"graphs\",\"shape\":\"%s\",\"weights\":\"%s\",\"context\":%d,\"graphs\":%d,\"record_us\":%.1f,"
         "\"bytes\":%lld}",
         of->name, weights, context, SIZES, median(us, SIZES), (long long)before - (long long)after);
}

// KV caches that begin now compute many rows in large tiles, or as usual.
static void use_large_tiles(bool large) {
    if (large) setenv("LOGITSPEC_CUDA_LARGE_TILES", options.tiny ? "all" : "1", 1);
    else unsetenv("LOGITSPEC_CUDA_LARGE_TILES");
}

// Reading a prompt as usual and in large tiles, which must give the same logits of its last token.
static void time_prefill(lst_model *m, const shape *of, const char *weights) {
    const int32_t n = options.tiny ? 300 : 2048;
    const int runs = options.tiny ? 1 : 3;
    const size_t bytes = (size_t)of->vocab * sizeof(float);
    int32_t *ids = get((size_t)n * sizeof *ids);
    float *logits[2] = {get(bytes), get(bytes)};
    double ms[3];
    random_prompt(ids, n, of);
    for (int large = 0; large < 2; large++) {
        use_large_tiles(large);
        for (int i = options.tiny ? 0 : -1; i < runs; i++) {
            lst_kv_cache *s;
            MUST(p_lst_kv_cache_new(&s, m, n + 1, 0));
            const double start = now_us();
            MUST(p_lst_prefill(s, ids, n, &greedy, NULL, NULL, NULL));
            if (i >= 0) ms[i] = (now_us() - start) / 1e3;
            MUST(p_lst_row_logits(s, -1, logits[large]));
            p_lst_kv_cache_free(s);
        }
        const double took = median(ms, runs);
        const int differs = large && memcmp(logits[0], logits[1], bytes);
        line("{\"kind\":\"%s\",\"shape\":\"%s\",\"weights\":\"%s\",\"tokens\":%d,\"runs\":%d,\"ms\":%.3f,"
             "\"tokens_per_s\":%.1f,\"differences\":%d}",
             large ? "prefill_large" : "prefill", of->name, weights, n, runs, took, n / took * 1e3, differs);
        n_failed += differs;
    }
    use_large_tiles(false);
    free(logits[0]), free(logits[1]);
    free(ids);
}

static void measure(const shape *whole, const char *weights) {
    shape some = *whole;
    const shape *of = &some;
    if (options.layers) some.layers = (int32_t)options.layers;
    // no multiples of LSG_CHUNK, which would hide the ends
    const int32_t contexts[CONTEXTS] = {options.tiny ? 100 : 640, options.tiny ? 300 : 8320};
    const int32_t n_context = contexts[CONTEXTS - 1] + 2 * LST_MAX_ROWS;
    const double start = now_us();
    lst_model *m = open_model(of, weights);
    lst_model_info_t info = {0};
    MUST(p_lst_model_info(m, &info));
    // an embedding that is not the output head's matrix stays bf16 as it came, and a step reads one row of it
    const bool apart = !of->tied || strcmp(weights, "bf16");
    const uint64_t step_bytes = info.weight_bytes - (apart ? 2 * (uint64_t)of->vocab * (uint64_t)of->embd : 0);
    line("{\"kind\":\"model\",\"shape\":\"%s\",\"weights\":\"%s\",\"weight_bytes\":%llu,\"weight_bytes_a_step\":%llu,"
         "\"open_s\":%.2f,\"exact\":%d,\"kernel\":\"%s\",\"version\":\"%s\",\"layers\":%d,\"embd\":%d,\"ff\":%d,"
         "\"heads\":%d,\"kv_heads\":%d,\"head_dim\":%d,\"vocab\":%d,\"tied\":%d}",
         of->name, weights, (unsigned long long)info.weight_bytes, (unsigned long long)step_bytes,
         (now_us() - start) / 1e6, info.exact, info.kernel, info.version, of->layers, of->embd, of->ff, of->heads,
         of->kv_heads, of->head_dim, of->vocab, of->tied);
    lst_kv_cache *s;
    lst_row last;
    int32_t *ids = get((size_t)n_context * sizeof *ids);
    random_prompt(ids, n_context, of);
    MUST(p_lst_kv_cache_new(&s, m, n_context, 0));
    for (int c = 0; c < CONTEXTS; c++) {
        const int32_t at = p_lst_length(s);
        MUST(p_lst_prefill(s, ids + at, contexts[c] - at, &greedy, &last, NULL, NULL));
        time_rows(s, of, weights, contexts[c], false);
        if (!c) time_graphs(s, of, weights, contexts[c]);
        const int32_t token = time_steps(s, of, weights, "greedy", &greedy, contexts[c], last.chosen, step_bytes);
        if (!c)
            time_steps(s, of, weights, "temperature 1, top-k 40, top-p 0.9", &cut_sampling, contexts[c], token,
                       step_bytes);
    }
    p_lst_kv_cache_free(s);
    use_large_tiles(true);
    MUST(p_lst_kv_cache_new(&s, m, n_context, 0));
    for (int c = 0; c < CONTEXTS; c++) {
        const int32_t at = p_lst_length(s);
        MUST(p_lst_prefill(s, ids + at, contexts[c] - at, &greedy, NULL, NULL, NULL));
        time_rows(s, of, weights, contexts[c], true);
    }
    p_lst_kv_cache_free(s);
    time_prefill(m, of, weights);
    p_lst_model_close(m);
    free(ids);
}

// ---- the device alone

// Device to device, bytes read and bytes written; and what a step's own copies take.
static void measure_copy(void) {
    enum { RUNS = 9, SMALL_RUNS = 50 };
    lsg_device d;
    lsg_stream s;
    lsg_event from, to;
    void *a, *b, *host;
    MUST_DEVICE(lsg_use(0));
    MUST_DEVICE(lsg_device_get(0, &d));
    uint64_t bytes = options.tiny ? (uint64_t)1 << 20 : (uint64_t)4 << 30;
    while (bytes * 2 > d.free_bytes / 4 * 3) bytes /= 2;
    MUST_DEVICE(lsg_stream_new(&s));
    MUST_DEVICE(lsg_event_new(&from));
    MUST_DEVICE(lsg_event_new(&to));
    MUST_DEVICE(lsg_alloc(&a, bytes));
    MUST_DEVICE(lsg_alloc(&b, bytes));
    MUST_DEVICE(lsg_clear(a, bytes, s));
    double times[RUNS], small[SMALL_RUNS];
    for (int i = -2; i < RUNS; i++) {
        float ms;
        MUST_DEVICE(lsg_event_record(from, s));
        MUST_DEVICE(lsg_copy(b, a, bytes, s));
        MUST_DEVICE(lsg_event_record(to, s));
        MUST_DEVICE(lsg_sync(s));
        MUST_DEVICE(lsg_event_ms(from, to, &ms));
        if (i >= 0) times[i] = ms > 0 ? (double)ms : 1e-6;
    }
    const size_t up = sizeof(lsg_step), down = offsetof(lsg_result, row) + sizeof(lst_row);
    MUST_DEVICE(lsg_alloc_host(&host, up + down));
    memset(host, 0, up + down);
    for (int i = -5; i < SMALL_RUNS; i++) {
        float ms;
        MUST_DEVICE(lsg_event_record(from, s));
        MUST_DEVICE(lsg_upload(a, host, up, s));
        MUST_DEVICE(lsg_download(host, b, down, s));
        MUST_DEVICE(lsg_event_record(to, s));
        MUST_DEVICE(lsg_sync(s));
        MUST_DEVICE(lsg_event_ms(from, to, &ms));
        if (i >= 0) small[i] = 1e3 * (double)ms;
    }
    const double ms = median(times, RUNS);
    line("{\"kind\":\"copy\",\"bytes\":%llu,\"runs\":%d,\"ms\":%.4f,\"bytes_per_s\":%.5g,\"step_up_bytes\":%zu,"
         "\"step_down_bytes\":%zu,\"step_copies_us\":%.2f}",
         (unsigned long long)bytes, RUNS, ms, 2 * (double)bytes / ms * 1e3, up, down, median(small, SMALL_RUNS));
    lsg_free(a), lsg_free(b), lsg_free_host(host);
    lsg_event_free(from), lsg_event_free(to), lsg_stream_free(s);
}

static void device_info(void) {
    char why[300];
    if (!lsg_devices(why, sizeof why)) die("no GPU can be used: %s", why);
    lst_device_info info = {0};
    lsg_device d;
    MUST(p_lst_device(0, &info));
    MUST_DEVICE(lsg_device_get(0, &d));
    line("{\"kind\":\"device\",\"name\":\"%s\",\"runtime\":\"%s\",\"multiprocessors\":%d,\"free_bytes\":%llu,"
         "\"total_bytes\":%llu}",
         info.name, lsg_runtime_name(), d.of.multiprocessors, (unsigned long long)info.free_bytes,
         (unsigned long long)info.total_bytes);
}

// ---- exactness: decoding with drafted trees against plain decoding

typedef struct { // what plain decoding said
    int32_t n;
    int32_t *history; // prompt and then token[]
    int32_t prompt;
    int32_t *token; // [n + 1]: the root of each step; the last one is not decoded
    float *logits;  // [n][vocab]
    lst_row *row;   // [n]
    int32_t (*top)[LISTED];
    float (*top_value)[LISTED];
} plain_run;

typedef struct {
    long tokens, runs, trees, rows, longest_path, largest_tree, longest_context;
    long bad_tokens, bad_logits, bad_rows, bad_tops;
} tally;

static void decode_plain(lst_kv_cache *s, const shape *of, const lst_sampling *how, plain_run *p) {
    const int32_t root = -1, zero = 0;
    lst_row last;
    MUST(p_lst_prefill(s, p->history, p->prompt, how, &last, NULL, NULL));
    p->token[0] = last.chosen;
    for (int32_t i = 0; i < p->n; i++) {
        MUST(p_lst_forward_tree(s, &p->token[i], &root, 1, how, &p->row[i]));
        MUST(p_lst_row_logits(s, 0, p->logits + (size_t)i * (size_t)of->vocab));
        MUST(p_lst_keep_path(s, &zero, 1));
        MUST(p_lst_row_top(s, -1, LISTED, p->top[i], p->top_value[i]));
        p->token[i + 1] = p->row[i].chosen;
    }
}

// A tree on top of token[at]: the tokens to come with errors, branches, and what followed the same token before.
static int32_t draft(const plain_run *p, const shape *of, int32_t at, int32_t *tokens, int32_t *parents) {
    static const double errors[] = {0, 0.05, 0.3, 0.7};
    const int32_t left = p->n - at; // rows of a path at most
    const double wrong = errors[below(4)];
    int32_t depth[LST_MAX_ROWS], n = 1, chain = 0;
    const int32_t most = chance(0.1)   ? LST_MAX_ROWS
                         : chance(0.5) ? 64
                                       : 12,
                  wanted = 1 + below(options.tiny ? 12 : most);
    tokens[0] = p->token[at];
    parents[0] = -1;
    depth[0] = 0;
    int32_t look = -1; // where the root's token stands before
    for (int32_t i = p->prompt + at - 1; i >= 0 && look < 0; i--)
        if (p->history[i] == tokens[0]) look = i;
    int32_t looked = 0, copied = 0; // the row, and how many rows, of that branch
    while (n < wanted) {
        int32_t parent = chance(0.6) ? chain : below(n), token;
        const bool copy = look >= 0 && copied < 8 && look + 1 + copied < p->prompt + at && chance(0.2);
        if (copy) parent = looked;
        if (depth[parent] + 1 >= left) {
            if (chance(0.1)) break;
            parent = 0;
        }
        if (left < 2) break;
        const int32_t d = depth[parent] + 1;
        if (copy && parent == looked) token = p->history[look + 1 + copied++];
        else token = chance(wrong) ? below(of->vocab) : p->token[at + d];
        tokens[n] = token;
        parents[n] = parent;
        depth[n] = d;
        if (copy && parent == looked) looked = n;
        else if (parent == chain) chain = n;
        n++;
    }
    return n;
}

static void decode_drafted(lst_kv_cache *s, const shape *of, const lst_sampling *how, const plain_run *p, tally *t) {
    static lst_row rows[LST_MAX_ROWS];
    float *logits = get((size_t)of->vocab * sizeof *logits);
    lst_row last;
    for (int32_t at = 0; at < p->prompt;) { // in pieces: where they are cut must not matter either
        const int32_t piece = chance(0.5) ? p->prompt - at : 1 + below(p->prompt - at);
        MUST(p_lst_prefill(s, p->history + at, piece, how, &last, NULL, NULL));
        at += piece;
    }
    t->bad_tokens += last.chosen != p->token[0];
    for (int32_t at = 0; at < p->n;) {
        int32_t tokens[LST_MAX_ROWS], parents[LST_MAX_ROWS], path[LST_MAX_ROWS], n_path = 0;
        const int32_t n = draft(p, of, at, tokens, parents);
        MUST(p_lst_forward_tree(s, tokens, parents, n, how, rows));
        for (int32_t r = 0; r >= 0;) {
            const int32_t i = at + n_path;
            path[n_path++] = r;
            MUST(p_lst_row_logits(s, r, logits));
            const size_t bytes = (size_t)of->vocab * sizeof *logits;
            t->bad_logits += memcmp(logits, p->logits + (size_t)i * (size_t)of->vocab, bytes) != 0;
            t->bad_rows += memcmp(&rows[r], &p->row[i], sizeof *rows) != 0;
            if (rows[r].chosen != p->token[i + 1]) { // what is decoded goes on from what plain decoding said
                t->bad_tokens++;
                break;
            }
            int32_t next = -1;
            for (int32_t k = r + 1; k < n && next < 0; k++)
                if (parents[k] == r && tokens[k] == rows[r].chosen) next = k;
            r = next;
        }
        MUST(p_lst_keep_path(s, path, n_path));
        at += n_path;
        int32_t ids[LISTED];
        float values[LISTED];
        MUST(p_lst_row_top(s, -1, LISTED, ids, values));
        t->bad_tops += memcmp(ids, p->top[at - 1], sizeof ids) || memcmp(values, p->top_value[at - 1], sizeof values);
        t->trees++;
        t->rows += n;
        if (n > t->largest_tree) t->largest_tree = n;
        if (n_path > t->longest_path) t->longest_path = n_path;
    }
    free(logits);
}

static const shape *shape_named(const char *name) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(shapes[i].name, name)) return &shapes[i];
    die("no shape '%s'", name);
}

static void exact(void) {
    const shape *of = options.tiny ? &tiny_shapes[1] : options.shape ? shape_named(options.shape) : &shapes[2];
    static const struct {
        const char *name;
        const lst_sampling *how;
    } cases[] = {
        {"greedy", &greedy}, {"temperature 1", &plain_sampling}, {"temperature 1, top-k 40, top-p 0.9", &cut_sampling}};
    enum { CASES = sizeof cases / sizeof *cases };
    const long wanted = options.tokens > 0 ? options.tokens : options.tiny ? 450 : 50000;
    const int32_t most_prompt = options.tiny ? 1000 : 1800, most = options.tiny ? 60 : 1600;
    const int32_t n_context = most_prompt + most + LST_MAX_ROWS;
    const double start = now_us();
    lst_model *m = open_model(of, options.weights ? options.weights : "auto");
    plain_run p = {.history = get((size_t)(most_prompt + most + 1) * sizeof *p.history),
                   .logits = get((size_t)most * (size_t)of->vocab * sizeof *p.logits),
                   .row = get((size_t)most * sizeof *p.row),
                   .top = get((size_t)most * sizeof *p.top),
                   .top_value = get((size_t)most * sizeof *p.top_value)};
    random_state = 77;
    long sum = 0, differences = 0;
    for (int c = 0; c < CASES; c++) {
        tally t = {0};
        lst_sampling how = *cases[c].how;
        const double case_start = now_us(), left_s = options.seconds - (case_start - start) / 1e6;
        bool late = false; // each case has its share of what is left
        while (t.tokens < (wanted + CASES - 1) / CASES && !late) {
            lst_kv_cache *plain, *drafted;
            const long left = (wanted + CASES - 1) / CASES - t.tokens;
            // the first run of a case reaches the longest context; on the emulated device one of all
            const bool longest = !t.runs && (!c || !options.tiny);
            p.prompt = longest ? most_prompt : 1 + below(options.tiny ? 300 : most_prompt);
            p.n = left < most ? (int32_t)left : most;
            p.token = p.history + p.prompt;
            how.seed++;
            random_prompt(p.history, p.prompt, of);
            MUST(p_lst_kv_cache_new(&plain, m, n_context, 0));
            decode_plain(plain, of, &how, &p);
            p_lst_kv_cache_free(plain);
            use_large_tiles(t.runs % 2 == 0); // every other prompt, and its largest trees
            MUST(p_lst_kv_cache_new(&drafted, m, n_context, 0));
            use_large_tiles(false);
            decode_drafted(drafted, of, &how, &p, &t);
            p_lst_kv_cache_free(drafted);
            t.tokens += p.n;
            t.runs++;
            if (p.prompt + p.n > t.longest_context) t.longest_context = p.prompt + p.n;
            late = (now_us() - case_start) / 1e6 > left_s / (CASES - c);
        }
        const long bad = t.bad_tokens + t.bad_logits + t.bad_rows + t.bad_tops;
        line("{\"kind\":\"exact\",\"shape\":\"%s\",\"weights\":\"%s\",\"sampling\":\"%s\",\"tokens\":%ld,\"runs\":%ld,"
             "\"trees\":%ld,"
             "\"rows_a_tree\":%.2f,\"largest_tree\":%ld,\"tokens_a_tree\":%.3f,\"longest_path\":%ld,\"longest_"
             "context\":%ld,"
             "\"different_tokens\":%ld,\"different_logits\":%ld,\"different_rows\":%ld,\"different_lists\":%ld,"
             "\"seconds\":%.1f}",
             of->name, options.weights ? options.weights : "auto", cases[c].name, t.tokens, t.runs, t.trees,
             t.trees ? (double)t.rows / (double)t.trees : 0, t.largest_tree,
             t.trees ? (double)t.tokens / (double)t.trees : 0, t.longest_path, t.longest_context, t.bad_tokens,
             t.bad_logits, t.bad_rows, t.bad_tops, (now_us() - case_start) / 1e6);
        sum += t.tokens;
        differences += bad;
    }
    line("{\"kind\":\"exact_sum\",\"shape\":\"%s\",\"weights\":\"%s\",\"tokens\":%ld,\"wanted\":%ld,\"differences\":%"
         "ld,\"seconds\":%.1f}",
         of->name, options.weights ? options.weights : "auto", sum, wanted, differences, (now_us() - start) / 1e6);
    n_failed += differences != 0;
    p_lst_model_close(m);
    free(p.history), free(p.logits), free(p.row), free(p.top), free(p.top_value);
}

// ----

static void load(void) {
    const char *set = getenv("LOGITSPEC_TEST_GPU");
    const char *path = options.library ? options.library : set ? set : "build/liblstorch_cuda.so";
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) die("%s", dlerror());
#define NAME_OF(table) #table
#define NAME(table) NAME_OF(table)
    const lst_decoder *table = dlsym(lib, NAME(lst_decoder_table));
    if (!table) die("%s is of another version", path);
#define FIND(name) p_lst_##name = table->name;
    CALLS(FIND)
}

static void measure_shapes(void) {
    const shape *of = options.tiny ? tiny_shapes : shapes;
    const size_t n = options.tiny ? sizeof tiny_shapes / sizeof *tiny_shapes : sizeof shapes / sizeof *shapes;
    static const char *const kept[] = {"bf16", "q8", "q4"};
    bool any = false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
            if (options.shape && strcmp(options.shape, of[i].name)) continue;
            if (options.weights ? strcmp(options.weights, kept[k]) != 0 : k > 0 && i > 0) continue;
            measure(&of[i], kept[k]);
            any = true;
        }
    if (!any)
        die("no shape '%s' with weights '%s'", options.shape ? options.shape : "",
            options.weights ? options.weights : "");
}

int main(int argc, char **argv) {
    bool any = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--tiny")) options.tiny = true;
        else if (!strcmp(a, "--quick")) options.quick = true;
        else if (!strcmp(a, "--device-info")) any = options.device_info = true;
        else if (!strcmp(a, "--copy")) any = options.copy = true;
        else if (!strcmp(a, "--exact")) any = options.exact = true;
        else if (!value) die("%s: unknown, or it needs a value", a);
        else {
            if (!strcmp(a, "--library")) options.library = value;
            else if (!strcmp(a, "--tokens")) options.tokens = strtol(value, NULL, 10);
            else if (!strcmp(a, "--layers")) options.layers = strtol(value, NULL, 10);
            else if (!strcmp(a, "--seconds")) options.seconds = strtod(value, NULL);
            else if (!strcmp(a, "--shape")) any = true, options.shape = value;
            else if (!strcmp(a, "--weights")) any = true, options.weights = value;
            else die("%s: unknown", a);
            i++;
        }
    }
    load();
    device_info();
    MUST_DEVICE(lsg_use(0));
    if (!any || options.copy) measure_copy();
    if (!any || ((options.shape || options.weights) && !options.exact)) measure_shapes();
    if (!any || options.exact) exact();
    return n_failed != 0;
}
