// The compute libraries on small random models: a row's bits depend on its token, position and ancestors only, at every
// CPU level, dtype, weight format and number of threads, and on a GPU (emulated: tests/gpu/emulation.h). Needs the
// libraries (needs:libtorch), no model file.
#include "tests/unit/random_tensor.h"
#include "torch/kernels/kernels.h"
#include "torch/lst.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CALLS(X)                                                                                                       \
    X(lst_model_open)                                                                                                  \
    X(lst_model_info)                                                                                                  \
    X(lst_model_close)                                                                                                 \
    X(lst_session_new)                                                                                                 \
    X(lst_session_free)                                                                                                \
    X(lst_prefill) X(lst_forward_tree) X(lst_row_logits) X(lst_keep_path) X(lst_last_error) X(lst_watch) X(lst_length)
#define POINTER(name) static __typeof__(&name) p_##name;
CALLS(POINTER)

enum {
    LAYERS = 2,
    EMBD = 64,
    FF = 96,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 32,
    VOCAB = 208,
    CONTEXT = 768,
    MAX_ROWS = 64
};

static char missing[300];
static const char *device = "cpu";

static void use(const char *path, const char *name) {
    void *lib = dlopen(path, RTLD_NOW);
    device = name;
    missing[0] = 0;
    if (!lib) {
        snprintf(missing, sizeof missing, "%s", dlerror());
        return;
    }
#define FIND(call) assert_non_null(p_##call = (__typeof__(&call))dlsym(lib, #call));
    CALLS(FIND)
}

static void use_gpu(void) { // emulated, or LOGITSPEC_TEST_GPU's
    const char *path = getenv("LOGITSPEC_TEST_GPU"), *emulated = getenv("LOGITSPEC_EMULATED");
    use(path ? path : emulated ? emulated : "build/tests/liblstorch_emulated.so", "cuda");
}

static void use_cpu(void) {
    const char *path = getenv("LOGITSPEC_LSTORCH");
    use(path ? path : "build/liblstorch.so", "cpu");
}

static void need_library(void) {
    if (missing[0]) {
        print_message("needs:libtorch: %s\n", missing);
        skip();
    }
}

typedef struct {
    lst_tensor t[3 + 9 * LAYERS];
    char names[3 + 9 * LAYERS][40];
    int n;
} weights;

static void add(weights *w, const char *name, int type, int64_t n_in, int64_t n_out) {
    unsigned char *raw = random_raw(type, n_out, n_in);
    if (n_out == 1) // norms
        for (int64_t i = 0; i < n_in; i++) memcpy(raw + i * 4, &(float){1}, 4);
    snprintf(w->names[w->n], sizeof w->names[0], "%s", name);
    w->t[w->n] = (lst_tensor){w->names[w->n], type, n_in, n_out, raw, lsk_row_bytes(type, n_in) * (size_t)n_out};
    w->n++;
}

static weights *random_weights(int type) {
    static const struct {
        const char *name;
        int n_in, n_out;
    } of_layer[] = {{"attn_q", EMBD, HEADS * HEAD_DIM},
                    {"attn_k", EMBD, KV_HEADS * HEAD_DIM},
                    {"attn_v", EMBD, KV_HEADS * HEAD_DIM},
                    {"attn_output", HEADS * HEAD_DIM, EMBD},
                    {"ffn_gate", EMBD, FF},
                    {"ffn_up", EMBD, FF},
                    {"ffn_down", FF, EMBD},
                    {"attn_norm", EMBD, 1},
                    {"ffn_norm", EMBD, 1}};
    weights *w = calloc(1, sizeof *w);
    add(w, "token_embd.weight", 8, EMBD, VOCAB);
    add(w, "output.weight", type, EMBD, VOCAB);
    add(w, "output_norm.weight", 0, EMBD, 1);
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++) {
            char name[40];
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, of_layer[i].name);
            add(w, name, of_layer[i].n_out == 1 ? LS_GGML_F32 : type, of_layer[i].n_in, of_layer[i].n_out);
        }
    return w;
}

static void free_weights(weights *w) {
    for (int i = 0; i < w->n; i++) free((void *)(uintptr_t)w->t[i].data);
    free(w);
}

typedef struct {
    lst_model *m;
    lst_session *s;
} engine;

static lst_hparams shape(void) {
    static const uint8_t local[LAYERS];
    static float freq[HEAD_DIM / 2];
    for (int i = 0; i < HEAD_DIM / 2; i++) freq[i] = powf(10000, -2.0f * (float)i / HEAD_DIM);
    return (lst_hparams){.size = sizeof(lst_hparams),
                         .n_layers = LAYERS,
                         .n_embd = EMBD,
                         .n_ff = FF,
                         .n_heads = HEADS,
                         .n_kv_heads = KV_HEADS,
                         .head_dim = HEAD_DIM,
                         .n_vocab = VOCAB,
                         .rms_eps = 1e-5f,
                         .embd_scale = 1,
                         .attn_scale = 1 / sqrtf(HEAD_DIM),
                         .residual_scale = 1,
                         .logit_scale = 1,
                         .rope_interleaved = 1,
                         .rope_dims = HEAD_DIM,
                         .rope_freq = {freq, freq},
                         .rope_magnitude = {1, 1},
                         .local = local};
}

// False: this CPU has no such level.
static bool open_engine(engine *e, const weights *w, const char *level, const char *dtype, int threads) {
    const lst_hparams hp = shape();
    const lst_open_options o = {.size = sizeof o, .device = device, .dtype = dtype, .threads = threads};
    lst_model_info_t info = {.size = sizeof info};
    if (level) setenv("LOGITSPEC_CPU", level, 1);
    assert_int_equal(p_lst_model_open(&e->m, &hp, w->t, w->n, &o), LST_OK);
    if (level) unsetenv("LOGITSPEC_CPU");
    assert_int_equal(p_lst_model_info(e->m, &info), LST_OK);
    assert_int_equal(info.exact, 1);
    if (level && (strncmp(info.kernel, level, strlen(level)) || info.kernel[strlen(level)] != ',')) {
        p_lst_model_close(e->m);
        return false;
    }
    assert_int_equal(p_lst_session_new(&e->s, e->m, CONTEXT), LST_OK);
    return true;
}

static void close_engine(engine *e) {
    p_lst_session_free(e->s);
    p_lst_model_close(e->m);
}

static const lst_sampling greedy = {.top_p = 1}, sampled = {.temperature = 0.8, .top_k = 40, .top_p = 0.9, .seed = 7};

static void prefill_in_pieces(lst_session *s, const int32_t *ids, int32_t n) {
    for (int32_t at = 0, piece; at < n; at += piece) {
        piece = 1 + (int32_t)rnd_int((uint32_t)(n - at));
        if (p_lst_prefill(s, ids + at, piece, &greedy, NULL, NULL, NULL)) fail_msg("%s", p_lst_last_error());
    }
}

// The same tree with its rows in another valid order; row i of the old one is row at[i] of the new one.
static void permute(const int32_t *tokens, const int32_t *parents, int32_t n, int32_t *new_tokens, int32_t *new_parents,
                    int32_t *at) {
    for (int32_t i = 0; i < n; i++) at[i] = -1;
    for (int32_t placed = 0; placed < n;) {
        const int32_t i = placed ? (int32_t)rnd_int((uint32_t)n) : 0;
        if (at[i] >= 0 || (i && at[parents[i]] < 0)) continue;
        at[i] = placed;
        new_tokens[placed] = tokens[i];
        new_parents[placed] = i ? at[parents[i]] : -1;
        placed++;
    }
}

static void check_model(const weights *w, const char *level, const char *dtype, int32_t longest,
                        const lst_sampling *how, bool *there) {
    engine tree, line;
    *there = open_engine(&tree, w, level, dtype, 1 + (int)rnd_int(3));
    if (!*there) return;
    assert_true(open_engine(&line, w, level, dtype, 1 + (int)rnd_int(3)));
    int32_t context[CONTEXT], tokens[MAX_ROWS], parents[MAX_ROWS], tokens2[MAX_ROWS], parents2[MAX_ROWS], at[MAX_ROWS],
        root = -1, zero = 0;
    static float logits[MAX_ROWS][VOCAB], other[VOCAB];
    static lst_row rows[MAX_ROWS], rows2[MAX_ROWS], alone;
    const int32_t n_context = longest - (int32_t)rnd_int(100), n = 2 + (int32_t)rnd_int(MAX_ROWS - 1);
    for (int32_t i = 0; i < n_context; i++) context[i] = (int32_t)rnd_int(VOCAB);
    for (int32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)rnd_int(VOCAB), parents[i] = i ? (int32_t)rnd_int((uint32_t)i) : -1;
    prefill_in_pieces(tree.s, context, n_context);
    assert_int_equal(p_lst_forward_tree(tree.s, tokens, parents, n, how, rows), LST_OK);
    for (int32_t i = 0; i < n; i++) assert_int_equal(p_lst_row_logits(tree.s, i, logits[i]), LST_OK);
    // in another order
    permute(tokens, parents, n, tokens2, parents2, at);
    assert_int_equal(p_lst_forward_tree(tree.s, tokens2, parents2, n, how, rows2), LST_OK);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(p_lst_row_logits(tree.s, at[i], other), LST_OK);
        assert_memory_equal(other, logits[i], sizeof other);
        assert_memory_equal(&rows2[at[i]], &rows[i], sizeof *rows);
    }
    // token by token, as plain decoding
    for (int k = longest > 100 ? 2 : 0; k < 3; k++) { // a long context is read once
        int32_t path[MAX_ROWS], depth = 0;
        for (int32_t r = (int32_t)rnd_int((uint32_t)n); r >= 0; r = parents[r]) path[depth++] = r;
        p_lst_session_free(line.s);
        assert_int_equal(p_lst_session_new(&line.s, line.m, CONTEXT), LST_OK);
        prefill_in_pieces(line.s, context, n_context);
        for (int32_t i = depth - 1; i >= 0; i--) {
            assert_int_equal(p_lst_forward_tree(line.s, &tokens[path[i]], &root, 1, how, &alone), LST_OK);
            assert_int_equal(p_lst_row_logits(line.s, 0, other), LST_OK);
            assert_memory_equal(other, logits[path[i]], sizeof other);
            assert_memory_equal(&alone, &rows[path[i]], sizeof alone);
            assert_int_equal(p_lst_keep_path(line.s, &zero, 1), LST_OK);
        }
        // the path committed from the tree leads on to the same bits as the path decoded alone
        if (k == 2) {
            int32_t kept[MAX_ROWS], next = (int32_t)rnd_int(VOCAB);
            for (int32_t i = 0; i < depth; i++) kept[i] = at[path[depth - 1 - i]];
            assert_int_equal(p_lst_forward_tree(line.s, &next, &root, 1, how, &alone), LST_OK);
            assert_int_equal(p_lst_row_logits(line.s, 0, other), LST_OK);
            assert_int_equal(p_lst_keep_path(tree.s, kept, depth), LST_OK);
            assert_int_equal(p_lst_forward_tree(tree.s, &next, &root, 1, how, rows2), LST_OK);
            assert_memory_equal(rows2, &alone, sizeof alone);
            assert_int_equal(p_lst_row_logits(tree.s, 0, logits[0]), LST_OK);
            assert_memory_equal(other, logits[0], sizeof other);
        }
    }
    close_engine(&tree);
    close_engine(&line);
}

static void rows_do_not_depend_on_their_company(void **state) {
    (void)state;
    use_cpu();
    need_library();
    static const char *const levels[] = {NULL, "portable", "avx2", "avxvnni", "avx512", "avx512vnni", "amx"};
    static const char *const dtypes[] = {"f32", "i16", "i8", "bf16"};
    static const int types[] = {LS_GGML_Q4_1, LS_GGML_Q8_0, LS_GGML_Q4_0, LS_GGML_F32};
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        bool there = true;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes && there; d++)
            for (size_t t = 0;
                 t < sizeof types / sizeof *types && there && (types[t] != LS_GGML_F32 || dtypes[d][0] != 'i'); t++)
                for (int round = 0; round < 3 && there; round++) {
                    weights *w = random_weights(types[t]);
                    check_model(w, levels[l], dtypes[d], 100, round == 1 ? &sampled : &greedy, &there);
                    free_weights(w);
                }
        if (levels[l]) print_message("LOGITSPEC_CPU=%s: %s\n", levels[l], there ? "checked" : "not on this CPU");
    }
}

static void nor_on_a_gpu(void **state) {
    (void)state;
    use_gpu();
    need_library();
    static const struct {
        int type, longest;
    } cases[] = {{LS_GGML_Q4_1, 300},
                 {LS_GGML_Q8_0, 100},
                 {LS_GGML_F16, 600}, // 256 positions are a chunk of attention
                 {LS_GGML_BF16, 100},
                 {LS_GGML_Q5_0, 100}};
    bool there;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weights *w = random_weights(cases[i].type);
        check_model(w, NULL, "auto", cases[i].longest, i % 2 ? &sampled : &greedy, &there);
        free_weights(w);
    }
}

static void a_bad_logit_names_its_layer(void **state) {
    (void)state;
    use_cpu();
    need_library();
    weights *w = random_weights(LS_GGML_F32);
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->names[i], "blk.1.ffn_down.weight"))
            for (uint64_t k = 0; k < w->t[i].n_bytes / 4; k++)
                ((float *)(uintptr_t)w->t[i].data)[k] = 3e38f; // finite, but sums are not
    static const char *const dtypes[] = {"f32", "auto", "bf16", "bf16"};
    for (int d = 0; d < 4; d++) {
        if (d == 3) use_gpu();
        need_library();
        engine e;
        int32_t tokens[] = {1, 2, 3}, parents[] = {-1, 0, 0};
        lst_row rows[3];
        assert_true(open_engine(&e, w, NULL, dtypes[d], 2));
        assert_int_equal(p_lst_prefill(e.s, tokens, 3, &greedy, NULL, NULL, NULL), LST_E_NAN);
        assert_non_null(strstr(p_lst_last_error(), "layer 1, feed-forward"));
        assert_int_equal(p_lst_forward_tree(e.s, tokens, parents, 3, &greedy, rows), LST_E_NAN);
        assert_non_null(strstr(p_lst_last_error(), "layer 1, feed-forward"));
        close_engine(&e);
    }
    // integers need weights of few bits
    use_cpu();
    lst_model *m;
    const lst_hparams hp = shape();
    lst_open_options o = {.size = sizeof o, .device = "cpu", .dtype = "i8", .threads = 1};
    assert_int_equal(p_lst_model_open(&m, &hp, w->t, w->n, &o), LST_E_ARG);
    assert_non_null(strstr(p_lst_last_error(), "add --weights q8"));
    // and a value that is not finite is refused at load, with the tensor's name
    ((float *)(uintptr_t)w->t[1].data)[5] = NAN;
    o.dtype = "f32";
    assert_int_equal(p_lst_model_open(&m, &hp, w->t, w->n, &o), LST_E_NAN);
    assert_non_null(strstr(p_lst_last_error(), "output.weight"));
    free_weights(w);
}

// Where the context cannot grow, the call fails and the session goes on with what it has; so it does after room comes
// back. Emulated only: a real device's memory is not ours to fill.
static void a_full_gpu_is_an_error_that_leaves_the_session(void **state) {
    (void)state;
    if (getenv("LOGITSPEC_TEST_GPU")) skip();
    use_gpu();
    need_library();
    enum { PAGE = 1024, LONG = 3 * PAGE };
    weights *w = random_weights(LS_GGML_Q8_0);
    const lst_hparams hp = shape();
    const lst_open_options o = {.size = sizeof o, .device = "cuda", .threads = 1};
    lst_model *m;
    lst_session *s;
    int32_t ids[LONG], root = -1, token = 5, zero = 0;
    static float before[VOCAB], after[VOCAB];
    lst_row row;
    for (int i = 0; i < LONG; i++) ids[i] = (int32_t)rnd_int(VOCAB);
    setenv("LOGITSPEC_EMULATED_MEMORY", "1000", 1);
    assert_int_equal(p_lst_model_open(&m, &hp, w->t, w->n, &o), LST_E_MEMORY);
    assert_non_null(strstr(p_lst_last_error(), "--weights q8 or q4"));
    unsetenv("LOGITSPEC_EMULATED_MEMORY");
    assert_int_equal(p_lst_model_open(&m, &hp, w->t, w->n, &o), LST_OK);
    assert_int_equal(p_lst_session_new(&s, m, LONG), LST_OK);
    assert_int_equal(p_lst_prefill(s, ids, PAGE - 100, &greedy, NULL, NULL, NULL), LST_OK);
    assert_int_equal(p_lst_forward_tree(s, &token, &root, 1, &greedy, &row), LST_OK);
    assert_int_equal(p_lst_row_logits(s, 0, before), LST_OK);
    setenv("LOGITSPEC_EMULATED_MEMORY", "1000", 1); // nothing is left: another page cannot be had
    assert_int_equal(p_lst_prefill(s, ids, PAGE, &greedy, NULL, NULL, NULL), LST_E_MEMORY);
    assert_non_null(strstr(p_lst_last_error(), "the GPU has no"));
    assert_int_equal(p_lst_forward_tree(s, &token, &root, 1, &greedy, &row), LST_OK);
    assert_int_equal(p_lst_row_logits(s, 0, after), LST_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(p_lst_keep_path(s, &zero, 1), LST_OK);
    unsetenv("LOGITSPEC_EMULATED_MEMORY");
    assert_int_equal(p_lst_prefill(s, ids, PAGE, &greedy, NULL, NULL, NULL), LST_OK);
    p_lst_session_free(s);
    p_lst_model_close(m);
    free_weights(w);
}

static int count_down(void *left) {
    return --*(int *)left < 0;
}

// The session after a call that was ended at any of its layers is the session before it: also rows that were kept, and
// wait to be moved to their places, are there.
static void check_cancel(const weights *w) {
    enum { CONTEXT_LEN = 40, ROWS = 12, MORE = 200 }; // more: two blocks on the CPU
    static const int32_t parents[ROWS] = {-1, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10}, kept[] = {0, 2, 4, 6, 8, 10};
    enum { KEPT = sizeof kept / sizeof *kept };
    int32_t context[CONTEXT_LEN], tokens[ROWS], more[MORE];
    static float want[ROWS][VOCAB], got[VOCAB];
    lst_row rows[ROWS], last;
    for (int i = 0; i < CONTEXT_LEN; i++) context[i] = (int32_t)rnd_int(VOCAB);
    for (int i = 0; i < ROWS; i++) tokens[i] = (int32_t)rnd_int(VOCAB);
    for (int i = 0; i < MORE; i++) more[i] = (int32_t)rnd_int(VOCAB);
    int cancelled = 0;
    for (int reads = 0; reads < 2; reads++)                     // what is cancelled: a forward over a tree, or reading
        for (int asks = -1, more_left = 1; more_left; asks++) { // -1: nothing is cancelled
            engine e;
            int left = asks;
            assert_true(open_engine(&e, w, NULL, "auto", 2));
            assert_int_equal(p_lst_prefill(e.s, context, CONTEXT_LEN, &greedy, NULL, NULL, NULL), LST_OK);
            assert_int_equal(p_lst_forward_tree(e.s, tokens, parents, ROWS, &greedy, rows), LST_OK);
            assert_int_equal(p_lst_keep_path(e.s, kept, KEPT), LST_OK);
            if (asks >= 0) {
                assert_int_equal(p_lst_watch(e.s, count_down, &left), LST_OK);
                const int code = reads ? p_lst_prefill(e.s, more, MORE, &greedy, &last, NULL, NULL)
                                       : p_lst_forward_tree(e.s, more, parents, ROWS, &greedy, rows);
                more_left = code == LST_E_CANCELLED;
                if (!more_left) assert_int_equal(code, LST_OK);
                cancelled += more_left;
                assert_int_equal(p_lst_watch(e.s, NULL, NULL), LST_OK);
                if (more_left) assert_int_equal(p_lst_length(e.s), CONTEXT_LEN + KEPT);
            }
            for (int i = 0; i < ROWS && more_left; i++) {
                if (!i) assert_int_equal(p_lst_forward_tree(e.s, tokens, parents, ROWS, &greedy, rows), LST_OK);
                assert_int_equal(p_lst_row_logits(e.s, i, got), LST_OK);
                if (asks < 0) memcpy(want[i], got, sizeof got);
                else assert_memory_equal(got, want[i], sizeof got);
            }
            close_engine(&e);
        }
    // before each forward, and on the CPU between its layers: one over the tree, two of reading
    assert_int_equal(cancelled, !strcmp(device, "cpu") ? 3 * (1 + LAYERS) : cancelled);
    assert_true(cancelled >= 2);
}

static void a_cancelled_forward_leaves_the_session(void **state) {
    (void)state;
    weights *w = random_weights(LS_GGML_Q8_0);
    for (int gpu = 0; gpu < 2; gpu++) {
        if (gpu) use_gpu();
        else use_cpu();
        need_library();
        check_cancel(w);
    }
    free_weights(w);
}

static void a_level_without_integer_dot_products_says_so(void **state) {
    (void)state;
    use_cpu();
    need_library();
    static const struct {
        const char *level, *dtype;
        bool slow;
    } cases[] = {{"portable", "i8", true},    {"portable", "i16", true}, {"portable", "auto", false},
                 {"portable", "bf16", false}, {"avx2", "i8", false},     {"avx512", "i8", false},
                 {"avx512vnni", "i8", false}};
    weights *w = random_weights(LS_GGML_Q4_1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine e;
        lst_model_info_t info = {.size = sizeof info};
        if (!open_engine(&e, w, cases[i].level, cases[i].dtype, 1)) continue;
        assert_int_equal(p_lst_model_info(e.m, &info), LST_OK);
        assert_int_equal(*info.slow != 0, cases[i].slow);
        assert_true(!cases[i].slow || strstr(info.slow, cases[i].level));
        close_engine(&e);
    }
    free_weights(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_their_company),
        cmocka_unit_test(nor_on_a_gpu),
        cmocka_unit_test(a_bad_logit_names_its_layer),
        cmocka_unit_test(a_full_gpu_is_an_error_that_leaves_the_session),
        cmocka_unit_test(a_cancelled_forward_leaves_the_session),
        cmocka_unit_test(a_level_without_integer_dot_products_says_so),
    };
    return cmocka_run_group_tests_name("lst", tests, NULL, NULL);
}
