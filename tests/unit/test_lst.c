// The decoders on small random models: a row's bits depend on its token, position and ancestors only, at every
// CPU level, dtype, weight format and number of threads, and on a GPU (emulated: tests/gpu/emulation.h). Needs no model
// file.
#include "engine/library.h"
#include "tests/unit/random_tensor.h"
#include "compute/kernels/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const lst_decoder *lib;

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

static char missing[600];
static const char *device = "cpu";

static void use_gpu(void) { // emulated, or LOGITSPEC_TEST_GPU's
    const char *path = getenv("LOGITSPEC_TEST_GPU"), *emulated = getenv("LOGITSPEC_EMULATED");
    ls_err err = {0};
    setenv("LOGITSPEC_LSTORCH_CUDA", path ? path : emulated ? emulated : "build/tests/liblstorch_emulated.so", 1);
    device = "cuda";
    missing[0] = 0;
    if (ls_decoder_load(&lib, LS_DECODER_GPU, &err)) snprintf(missing, sizeof missing, "%s", err.msg);
}

static void use_cpu(void) {
    device = "cpu";
    missing[0] = 0;
    ls_decoder_load(&lib, LS_DECODER_CPU, NULL);
}

static const lst_decoder *reference; // NULL: not loaded

static void use_reference(void) {
    ls_err err = {0};
    use_cpu();
    if (ls_decoder_load(&reference, LS_DECODER_REFERENCE, &err)) snprintf(missing, sizeof missing, "%s", err.msg);
    else lib = reference;
}

static void need_library(void) {
    if (missing[0]) {
        print_message("needs:%s: %s\n", strcmp(device, "cpu") ? "emulated GPU library" : "libtorch", missing);
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
    w->t[w->n] = (lst_tensor){w->names[w->n], type, n_in, n_out, raw, lsk_row_bytes(type, n_in) * (size_t)n_out, NULL};
    w->n++;
}

static int embd = EMBD, ff = FF; // of the models that are made and opened

static weights *random_weights(int type) {
    const struct {
        const char *name;
        int n_in, n_out;
    } of_layer[] = {{"attn_q", embd, HEADS * HEAD_DIM},
                    {"attn_k", embd, KV_HEADS * HEAD_DIM},
                    {"attn_v", embd, KV_HEADS * HEAD_DIM},
                    {"attn_output", HEADS * HEAD_DIM, embd},
                    {"ffn_gate", embd, ff},
                    {"ffn_up", embd, ff},
                    {"ffn_down", ff, embd},
                    {"attn_norm", embd, 1},
                    {"ffn_norm", embd, 1}};
    weights *w = calloc(1, sizeof *w);
    add(w, "token_embd.weight", 8, embd, VOCAB);
    add(w, "output.weight", type, embd, VOCAB);
    add(w, "output_norm.weight", 0, embd, 1);
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
    lst_kv_cache *s;
} engine;

static ls_hparams shape(void) {
    static const ls_arch plain;
    ls_hparams hp = {.arch = &plain,
                     .n_layers = LAYERS,
                     .n_embd = embd,
                     .n_ff = ff,
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
                     .rope_magnitude = {1, 1}};
    for (int i = 0; i < HEAD_DIM / 2; i++)
        hp.rope_freq[0][i] = hp.rope_freq[1][i] = powf(10000, -2.0f * (float)i / HEAD_DIM);
    return hp;
}

static const char *kv = "auto"; // how the engines that are opened keep keys and values

// False: this CPU has no such level.
static bool open_engine(engine *e, const weights *w, const char *level, const char *dtype, int threads) {
    const ls_hparams hp = shape();
    const lst_open_options o = {.device = device, .dtype = dtype, .kv = kv, .threads = threads};
    lst_model_info_t info = {0};
    if (level) setenv("LOGITSPEC_CPU", level, 1);
    assert_int_equal(lib->model_open(&e->m, &hp, w->t, w->n, &o), LST_OK);
    if (level) unsetenv("LOGITSPEC_CPU");
    assert_int_equal(lib->model_info(e->m, &info), LST_OK);
    assert_int_equal(info.exact, lib != reference);
    if (level && (strncmp(info.kernel, level, strlen(level)) || info.kernel[strlen(level)] != ',')) {
        lib->model_close(e->m);
        return false;
    }
    assert_int_equal(lib->kv_cache_new(&e->s, e->m, CONTEXT, 0), LST_OK);
    return true;
}

static void close_engine(engine *e) {
    lib->kv_cache_free(e->s);
    lib->model_close(e->m);
}

static const lst_sampling greedy = {.top_p = 1}, sampled = {.temperature = 0.8, .top_k = 40, .top_p = 0.9, .seed = 7};

static void prefill_in_pieces(lst_kv_cache *s, const int32_t *ids, int32_t n) {
    for (int32_t at = 0, piece; at < n; at += piece) {
        piece = 1 + (int32_t)rnd_int((uint32_t)(n - at));
        if (lib->prefill(s, ids + at, piece, &greedy, NULL, NULL, NULL)) fail_msg("%s", lib->last_error());
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
    assert_int_equal(lib->forward_tree(tree.s, tokens, parents, n, how, rows), LST_OK);
    for (int32_t i = 0; i < n; i++) assert_int_equal(lib->row_logits(tree.s, i, logits[i]), LST_OK);
    // in another order, and grown piece by piece
    permute(tokens, parents, n, tokens2, parents2, at);
    for (int32_t from = 0, piece; from < n; from += piece) {
        piece = 1 + (int32_t)rnd_int((uint32_t)(n - from));
        assert_int_equal((from ? lib->grow_tree : lib->forward_tree)(tree.s, tokens2 + from, parents2 + from, piece,
                                                                     how, rows2 + from),
                         LST_OK);
    }
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(lib->row_logits(tree.s, at[i], other), LST_OK);
        assert_memory_equal(other, logits[i], sizeof other);
        assert_memory_equal(&rows2[at[i]], &rows[i], sizeof *rows);
    }
    // token by token, as plain decoding
    for (int k = longest > 100 ? 2 : 0; k < 3; k++) { // a long context is read once
        int32_t path[MAX_ROWS], depth = 0;
        for (int32_t r = (int32_t)rnd_int((uint32_t)n); r >= 0; r = parents[r]) path[depth++] = r;
        lib->kv_cache_free(line.s);
        assert_int_equal(lib->kv_cache_new(&line.s, line.m, CONTEXT, 0), LST_OK);
        prefill_in_pieces(line.s, context, n_context);
        for (int32_t i = depth - 1; i >= 0; i--) {
            assert_int_equal(lib->forward_tree(line.s, &tokens[path[i]], &root, 1, how, &alone), LST_OK);
            assert_int_equal(lib->row_logits(line.s, 0, other), LST_OK);
            assert_memory_equal(other, logits[path[i]], sizeof other);
            assert_memory_equal(&alone, &rows[path[i]], sizeof alone);
            assert_int_equal(lib->keep_path(line.s, &zero, 1), LST_OK);
        }
        // the path committed from the tree leads on to the same bits as the path decoded alone
        if (k == 2) {
            int32_t kept[MAX_ROWS], next = (int32_t)rnd_int(VOCAB);
            for (int32_t i = 0; i < depth; i++) kept[i] = at[path[depth - 1 - i]];
            assert_int_equal(lib->forward_tree(line.s, &next, &root, 1, how, &alone), LST_OK);
            assert_int_equal(lib->row_logits(line.s, 0, other), LST_OK);
            assert_int_equal(lib->keep_path(tree.s, kept, depth), LST_OK);
            assert_int_equal(lib->forward_tree(tree.s, &next, &root, 1, how, rows2), LST_OK);
            assert_memory_equal(rows2, &alone, sizeof alone);
            assert_int_equal(lib->row_logits(tree.s, 0, logits[0]), LST_OK);
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
    static const char *const dtypes[] = {"f32", "i16", "i8", "bf16"};
    static const int types[] = {LS_GGML_Q4_1, LS_GGML_Q8_0, LS_GGML_Q4_0, LS_GGML_Q5_0, LS_GGML_F32, LS_GGML_BF16};
    for (int l = -1; l < 0 || lsk_level_name(l); l++) { // the one that is chosen, then each by its name
        const char *level = lsk_level_name(l);
        bool there = true;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes && there; d++)
            for (size_t t = 0; t < sizeof types / sizeof *types && there && (t < 4 || dtypes[d][0] != 'i'); t++)
                for (int round = 0; round < 3 && there; round++) {
                    weights *w = random_weights(types[t]);
                    kv = round < 2 ? "auto" : strcmp(dtypes[d], "f32") ? "f32" : "bf16"; // then what is not usual
                    check_model(w, level, dtypes[d], 100, round == 1 ? &sampled : &greedy, &there);
                    kv = "auto";
                    free_weights(w);
                }
        if (level) print_message("LOGITSPEC_CPU=%s: %s\n", level, there ? "checked" : "not on this CPU");
    }
}

static void retype(lst_tensor *t, int type) {
    free((void *)(uintptr_t)t->data);
    t->type = type;
    t->data = random_raw(type, t->n_out, t->n_in);
    t->n_bytes = lsk_row_bytes(type, t->n_in) * (size_t)t->n_out;
}

// Queries, keys and values are one matrix; files have them in several types (Q4_K_M: values in Q6_K).
static void a_matrix_keeps_the_types_of_its_tensors(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int type;
    } types[] = {{"blk.0.attn_q.", LS_GGML_Q4_K},  {"blk.0.attn_k.", LS_GGML_Q4_K}, {"blk.0.attn_v.", LS_GGML_Q6_K},
                 {"blk.1.attn_k.", LS_GGML_Q5_0},  {"blk.1.attn_v.", LS_GGML_F16},  {"blk.1.attn_output.", LS_GGML_F16},
                 {"ffn_gate.", LS_GGML_Q5_K},      {"ffn_up.", LS_GGML_Q5_K},       {"blk.0.ffn_down.", LS_GGML_Q3_K},
                 {"blk.1.ffn_down.", LS_GGML_Q6_K}};
    use_cpu();
    need_library();
    embd = ff = 256; // whole blocks of K formats
    weights *mixed = random_weights(LS_GGML_Q4_1), *floats = calloc(1, sizeof *floats);
    size_t bytes = 0;
    for (int i = 0; i < mixed->n; i++) {
        lst_tensor *t = &mixed->t[i], *f = &floats->t[floats->n++];
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            if (strstr(t->name, types[k].name)) retype(t, types[k].type);
        *f = *t;
        const bool matrix = t->n_out > 1 && strcmp(t->name, "token_embd.weight");
        if (matrix) f->type = LS_GGML_F32, f->n_bytes = sizeof(float) * (size_t)(t->n_in * t->n_out);
        if (matrix) bytes += lsk_pack_bytes(t->type, t->n_out, t->n_in, LSK_ARITH_F32);
        f->data = malloc(f->n_bytes);
        if (!matrix) memcpy((void *)(uintptr_t)f->data, t->data, t->n_bytes);
        for (int64_t o = 0; matrix && o < t->n_out; o++)
            lsk_dequant_row(t->type, (const char *)t->data + (size_t)o * lsk_row_bytes(t->type, t->n_in), t->n_in,
                            (float *)(uintptr_t)f->data + o * t->n_in);
    }
    engine a, b;
    lst_model_info_t info = {0};
    assert_true(open_engine(&a, mixed, NULL, "f32", 2));
    assert_true(open_engine(&b, floats, NULL, "f32", 2));
    assert_int_equal(lib->model_info(a.m, &info), LST_OK);
    assert_int_equal(info.weight_bytes, bytes);
    int32_t ids[50], parents[] = {-1, 0, 0, 2};
    lst_row of_a[4], of_b[4];
    for (int i = 0; i < 50; i++) ids[i] = (int32_t)rnd_int(VOCAB);
    for (engine **e = (engine *[]){&a, &b, NULL}; *e; e++) {
        assert_int_equal(lib->prefill((*e)->s, ids, 46, &greedy, NULL, NULL, NULL), LST_OK);
        assert_int_equal(lib->forward_tree((*e)->s, ids + 46, parents, 4, &greedy, *e == &a ? of_a : of_b), LST_OK);
    }
    assert_memory_equal(of_a, of_b, sizeof of_a); // in f32 a product is the same however its weight is kept
    close_engine(&a), close_engine(&b);
    bool there;
    check_model(mixed, NULL, "i8", 100, &greedy, &there);
    check_model(mixed, NULL, "bf16", 100, &greedy, &there);
    free_weights(mixed), free_weights(floats);
    embd = EMBD, ff = FF;
}

// A permutation for each kind of matrix; those of one input share it.
static int32_t *order_for(const lst_tensor *t) {
    const int step = strstr(t->name, "attn_output") ? 7
                     : strstr(t->name, "ffn_down")  ? 11
                     : strstr(t->name, "ffn")       ? 5
                                                    : 3;
    int32_t *order = malloc((size_t)t->n_in * sizeof *order);
    for (int32_t k = 0; k < t->n_in; k++) order[k] = (int32_t)((k * step + 1) % t->n_in);
    return order;
}

// Columns in another order than the inputs: the same values. On the CPU sums run in another order.
static void check_order(void) {
    weights *plain = random_weights(LS_GGML_BF16), *ordered = calloc(1, sizeof *ordered);
    int32_t *orders[sizeof plain->t / sizeof *plain->t] = {0}, ids[44], parents[] = {-1, 0, 0, 2};
    for (int i = 0; i < plain->n; i++) {
        const lst_tensor *from = &plain->t[i];
        lst_tensor *t = &ordered->t[ordered->n++];
        *t = *from;
        uint16_t *to = malloc(t->n_bytes);
        memcpy(to, from->data, t->n_bytes);
        t->data = to;
        if (t->n_out == 1 || strncmp(t->name, "blk.", 4)) continue;
        t->order = orders[i] = order_for(t);
        for (int64_t at = 0; at < t->n_in * t->n_out; at++)
            to[at] = ((const uint16_t *)from->data)[at / t->n_in * t->n_in + orders[i][at % t->n_in]];
    }
    engine a, b;
    lst_row of_a[4], of_b[4];
    for (int i = 0; i < 44; i++) ids[i] = (int32_t)rnd_int(VOCAB);
    assert_true(open_engine(&a, plain, NULL, "auto", 2));
    assert_true(open_engine(&b, ordered, NULL, "auto", 2));
    for (engine **e = (engine *[]){&a, &b, NULL}; *e; e++) {
        assert_int_equal(lib->prefill((*e)->s, ids, 40, &greedy, NULL, NULL, NULL), LST_OK);
        assert_int_equal(lib->forward_tree((*e)->s, ids + 40, parents, 4, &greedy, *e == &a ? of_a : of_b), LST_OK);
    }
    if (strcmp(device, "cpu")) assert_memory_equal(of_a, of_b, sizeof of_a); // columns are put in the inputs' order
    for (int i = 0; i < 4; i++) {
        assert_int_equal(of_a[i].chosen, of_b[i].chosen);
        assert_true(fabsf(of_a[i].lse - of_b[i].lse) < 1e-3f * fabsf(of_a[i].lse));
    }
    close_engine(&a), close_engine(&b);
    ls_hparams hp = shape();
    const lst_open_options o = {.device = device, .threads = 1};
    for (int i = 0; i < ordered->n; i++) { // what shares its input has none then, or the head has one
        const int32_t *was = ordered->t[i].order;
        const bool head = !strcmp(ordered->t[i].name, "output.weight");
        if (!head && !strstr(ordered->t[i].name, "ffn_up") && !strstr(ordered->t[i].name, "attn_v")) continue;
        ordered->t[i].order = head ? ordered->t[3].order : NULL;
        assert_int_equal(lib->model_open(&a.m, &hp, ordered->t, ordered->n, &o), LST_E_ARG);
        ordered->t[i].order = was;
    }
    free_weights(plain), free_weights(ordered);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) free(orders[i]);
}

static void columns_may_have_another_order(void **state) {
    (void)state;
    use_cpu();
    check_order();
    static const char *const dtypes[] = {"f32", "i8", "i16", "bf16"};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) { // rows and threads change no bit
        weights *w = random_weights(LS_GGML_Q4_0);
        int32_t *orders[sizeof w->t / sizeof *w->t] = {0};
        bool there;
        for (int i = 0; i < w->n; i++)
            if (w->t[i].n_out > 1 && !strncmp(w->t[i].name, "blk.", 4)) w->t[i].order = orders[i] = order_for(&w->t[i]);
        check_model(w, NULL, dtypes[d], 100, &greedy, &there);
        free_weights(w);
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) free(orders[i]);
    }
    use_gpu();
    if (!missing[0]) check_order();
    use_reference();
    if (!missing[0]) check_order();
}

// Q4_1 as Q5_1, which holds the same values.
static void widen(lst_tensor *t) {
    const size_t blocks = t->n_bytes / 20;
    unsigned char *to = calloc(blocks, 24);
    for (size_t i = 0; i < blocks; i++) {
        memcpy(to + 24 * i, (const unsigned char *)t->data + 20 * i, 4);
        memcpy(to + 24 * i + 8, (const unsigned char *)t->data + 20 * i + 4, 16);
    }
    free((void *)(uintptr_t)t->data);
    t->type = LS_GGML_Q5_1, t->data = to, t->n_bytes = 24 * blocks;
}

// On a GPU, where a matrix has one type, that is one which holds the values of all: as large as of the widest.
static void a_gpu_keeps_the_values_of_mixed_types(void **state) {
    (void)state;
    use_gpu();
    need_library();
    uint64_t bytes[2];
    int32_t ids[10];
    lst_row last[2];
    for (int i = 0; i < 10; i++) ids[i] = (int32_t)rnd_int(VOCAB);
    for (int mixed = 0; mixed < 2; mixed++) {
        rnd_restart();
        weights *w = random_weights(LS_GGML_Q4_1);
        for (int i = 0; i < w->n; i++) {
            if (strstr(w->t[i].name, "attn_v")) retype(&w->t[i], LS_GGML_Q5_1);
            else if (!mixed && (strstr(w->t[i].name, "attn_q") || strstr(w->t[i].name, "attn_k"))) widen(&w->t[i]);
        }
        engine e;
        lst_model_info_t info = {0};
        bool there;
        assert_true(open_engine(&e, w, NULL, "auto", 1));
        assert_int_equal(lib->model_info(e.m, &info), LST_OK);
        bytes[mixed] = info.weight_bytes;
        assert_int_equal(lib->prefill(e.s, ids, 10, &greedy, &last[mixed], NULL, NULL), LST_OK);
        close_engine(&e);
        if (mixed) check_model(w, NULL, "auto", 100, &greedy, &there);
        free_weights(w);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(&last[0], &last[1], sizeof *last);
}

static void check_layers(const weights *w, const char *dtype) {
    ls_hparams hp = shape();
    const lst_open_options o = {.device = device, .dtype = dtype, .threads = 2};
    lst_model *whole, *cut;
    lst_kv_cache *a, *b, *all;
    int32_t ids[40], parents[] = {-1, 0, 0, 2};
    lst_row said[4], rows[4];
    for (int i = 0; i < 40; i++) ids[i] = (int32_t)rnd_int(VOCAB);
    assert_int_equal(lib->model_open(&whole, &hp, w->t, w->n, &o), LST_OK);
    hp.n_layers = 1;
    assert_int_equal(lib->model_open(&cut, &hp, w->t, w->n, &o), LST_OK);
    assert_int_equal(lib->kv_cache_new(&a, whole, CONTEXT, LAYERS + 1), LST_E_ARG);
    assert_int_equal(lib->kv_cache_new(&a, whole, CONTEXT, 1), LST_OK);
    assert_int_equal(lib->kv_cache_new(&all, whole, CONTEXT, LAYERS), LST_OK);
    assert_int_equal(lib->kv_cache_new(&b, cut, CONTEXT, 0), LST_OK);
    assert_int_equal(lib->prefill(a, ids, 36, &greedy, said, NULL, NULL), LST_OK);
    assert_int_equal(lib->prefill(b, ids, 36, &greedy, rows, NULL, NULL), LST_OK);
    assert_memory_equal(rows, said, sizeof *rows);
    assert_int_equal(lib->forward_tree(a, ids + 36, parents, 4, &sampled, said), LST_OK);
    assert_int_equal(lib->forward_tree(b, ids + 36, parents, 4, &sampled, rows), LST_OK);
    assert_memory_equal(rows, said, sizeof rows);
    assert_int_equal(lib->copy(all, a, 30), LST_E_ARG); // it lacks keys and values of the other layers
    for (lst_kv_cache **s = (lst_kv_cache *[]){a, b, all, NULL}; *s; s++) lib->kv_cache_free(*s);
    lib->model_close(whole);
    lib->model_close(cut);
}

static void a_part_of_the_layers_is_a_model_of_these(void **state) {
    (void)state;
    weights *w = random_weights(LS_GGML_Q8_0);
    for (int gpu = 0; gpu < 2; gpu++) {
        if (gpu) use_gpu();
        else use_cpu();
        need_library();
        check_layers(w, gpu ? "auto" : "i8");
    }
    free_weights(w);
}

static void check_growing(void) {
    weights *w = random_weights(LS_GGML_Q8_0);
    engine e;
    int32_t ids[3] = {1, 2, 3}, parents[3] = {-1, 0, 0}, bad[] = {3}, root[] = {-1}, after[] = {2};
    lst_row rows[3], more, again;
    assert_true(open_engine(&e, w, NULL, "f32", 2));
    assert_int_equal(lib->prefill(e.s, ids, 3, &greedy, NULL, NULL, NULL), LST_OK);
    assert_int_equal(lib->grow_tree(e.s, ids, after, 1, &greedy, &more), LST_E_ARG);
    assert_int_equal(lib->forward_tree(e.s, ids, parents, 3, &greedy, rows), LST_OK);
    assert_int_equal(lib->grow_tree(e.s, ids, after, 1, &greedy, &more), LST_OK);
    assert_int_equal(lib->forward_tree(e.s, ids, parents, 3, &greedy, rows), LST_OK);
    assert_int_equal(lib->grow_tree(e.s, ids, bad, 1, &greedy, &again), LST_E_ARG);
    assert_int_equal(lib->grow_tree(e.s, ids, root, 1, &greedy, &again), LST_E_ARG);
    assert_int_equal(lib->grow_tree(e.s, ids, after, 1, &greedy, &again), LST_OK); // the old rows stayed
    assert_memory_equal(&again, &more, sizeof more);
    close_engine(&e);
    free_weights(w);
}

static void a_tree_grows_only_where_there_is_one(void **state) {
    (void)state;
    use_cpu();
    check_growing();
}

// What lst_hidden hands out, by position of committed tokens and by row of the tree.
enum { ASKED = 4, SEEN = 64 };
static const int32_t asked[ASKED] = {LAYERS + 1, 0, LAYERS, 1};
typedef struct {
    float committed[SEEN][ASKED][EMBD], tree[SEEN][ASKED][EMBD];
    int32_t committed_tokens[SEEN], tree_tokens[SEEN], parents[SEEN], calls;
} seen;

static void see(void *ud, const lst_rows_seen *rows) {
    seen *s = ud;
    s->calls++;
    for (int32_t i = 0; i < rows->n_rows; i++) {
        const int32_t at = rows->tree ? rows->first + i : rows->length + i;
        assert_in_range(at, 0, SEEN - 1);
        memcpy(rows->tree ? s->tree[at] : s->committed[at], rows->values + (size_t)i * ASKED * EMBD,
               sizeof s->tree[at]);
        (rows->tree ? s->tree_tokens : s->committed_tokens)[at] = rows->tokens[i];
        if (rows->tree) s->parents[at] = rows->parents[i];
        else assert_null(rows->parents);
    }
}

static void equal_values(const float values[ASKED][EMBD], const float again[ASKED][EMBD], double tolerance) {
    enum { NORM, LAST = 2 }; // places in `asked`
    assert_memory_equal(values, again, sizeof(float[ASKED][EMBD]));
    double square = 0; // the norm's weights are 1
    for (int i = 0; i < EMBD; i++) square += (double)values[LAST][i] * (double)values[LAST][i];
    for (int i = 0; i < EMBD; i++) {
        const double want = (double)values[LAST][i] / sqrt(square / EMBD + 1e-5);
        assert_true(fabs((double)values[NORM][i] - want) <= tolerance * (1 + fabs(want)));
    }
}

static void check_hidden(const weights *w, const char *dtype) {
    enum { N = 24, ROWS = 20 };
    const double tolerance = strcmp(dtype, "f32") && strcmp(dtype, "i8") ? 1e-2 : 1e-5; // what is rounded to bf16
    static seen a, b, c;
    engine grown, whole, alone;
    int32_t context[N], tokens[ROWS], parents[ROWS];
    lst_row rows[ROWS], plain[ROWS], last;
    for (int i = 0; i < N; i++) context[i] = (int32_t)rnd_int(VOCAB);
    for (int32_t i = 0; i < ROWS; i++)
        tokens[i] = (int32_t)rnd_int(VOCAB), parents[i] = i ? (int32_t)rnd_int((uint32_t)i) : -1;
    for (engine **e = (engine *[]){&grown, &whole, &alone, NULL}; *e; e++)
        assert_true(open_engine(*e, w, NULL, dtype, 1 + (int)rnd_int(3)));
    a.calls = 0;
    assert_int_equal(lib->hidden(grown.s, asked, ASKED, 0, see, &a), LST_OK);
    prefill_in_pieces(grown.s, context, N);
    for (int32_t from = 0, piece; from < ROWS; from += piece) {
        piece = 1 + (int32_t)rnd_int((uint32_t)(ROWS - from));
        assert_int_equal((from ? lib->grow_tree : lib->forward_tree)(grown.s, tokens + from, parents + from, piece,
                                                                     &greedy, rows + from),
                         LST_OK);
    }
    assert_memory_equal(a.committed_tokens, context, sizeof context);
    assert_memory_equal(a.tree_tokens, tokens, sizeof tokens);
    assert_memory_equal(a.parents, parents, sizeof parents);
    // in one go, the results are those of a KV cache that nobody asks
    assert_int_equal(lib->prefill(alone.s, context, N, &greedy, &last, NULL, NULL), LST_OK);
    assert_int_equal(lib->forward_tree(alone.s, tokens, parents, ROWS, &greedy, plain), LST_OK);
    const int32_t there = !getenv("LOGITSPEC_TEST_GPU"); // here the emulated device's memory is the host's
    assert_int_equal(lib->hidden(whole.s, asked, ASKED, there, see, &b), LST_OK);
    b.calls = 0;
    assert_int_equal(lib->prefill(whole.s, context, N, &greedy, &last, NULL, NULL), LST_OK);
    assert_int_equal(lib->forward_tree(whole.s, tokens, parents, ROWS, &greedy, rows), LST_OK);
    assert_int_equal(b.calls, 2);
    assert_memory_equal(rows, plain, sizeof plain);
    assert_memory_equal(a.committed, b.committed, N * sizeof *a.committed);
    assert_memory_equal(a.tree, b.tree, ROWS * sizeof *a.tree);
    // one by one
    assert_int_equal(lib->hidden(alone.s, asked, ASKED, 0, see, &c), LST_OK);
    for (int32_t i = 0; i < ROWS; i++) {
        assert_int_equal(lib->forward_tree(alone.s, tokens, parents, i + 1, &greedy, plain), LST_OK);
        equal_values(a.tree[i], c.tree[i], tolerance);
    }
    for (int32_t i = 0; i < N; i += 1 + (int32_t)rnd_int(6)) {
        assert_int_equal(lib->rewind(alone.s, 0), LST_OK);
        assert_int_equal(lib->prefill(alone.s, context, i + 1, &greedy, &last, NULL, NULL), LST_OK);
        equal_values(a.committed[i], c.committed[i], tolerance);
    }
    // nobody asks any more
    assert_int_equal(lib->hidden(whole.s, NULL, 0, 0, NULL, NULL), LST_OK);
    assert_int_equal(lib->forward_tree(whole.s, tokens, parents, ROWS, &greedy, rows), LST_OK);
    assert_int_equal(b.calls, 2);
    const int32_t wrong[] = {0, LAYERS + 2};
    assert_int_equal(lib->hidden(whole.s, wrong, 2, 0, see, &b), LST_E_ARG);
    assert_non_null(strstr(lib->last_error(), "there is no layer 4 of 2"));
    assert_int_equal(lib->hidden(whole.s, wrong, 0, 0, see, &b), LST_E_ARG);
    for (engine **e = (engine *[]){&grown, &whole, &alone, NULL}; *e; e++) close_engine(*e);
}

static void hidden_states_are_handed_out_to_who_asks(void **state) {
    (void)state;
    weights *w = random_weights(LS_GGML_Q8_0);
    static const char *const dtypes[] = {"f32", "i8", "bf16", "auto"};
    for (int i = 0; i < 4; i++) {
        if (i == 3) use_gpu();
        else use_cpu();
        need_library();
        for (int round = 0; round < 2; round++) check_hidden(w, dtypes[i]);
    }
    free_weights(w);
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

static weights *weights_with_a_bad_layer(void) {
    weights *w = random_weights(LS_GGML_F32);
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->names[i], "blk.1.ffn_down.weight"))
            for (uint64_t k = 0; k < w->t[i].n_bytes / 4; k++)
                ((float *)(uintptr_t)w->t[i].data)[k] = 3e38f; // finite, but sums are not
    return w;
}

static void check_bad_layer(const weights *w, const char *dtype) {
    engine e;
    int32_t tokens[] = {1, 2, 3}, parents[] = {-1, 0, 0};
    lst_row rows[3];
    assert_true(open_engine(&e, w, NULL, dtype, 2));
    assert_int_equal(lib->prefill(e.s, tokens, 3, &greedy, NULL, NULL, NULL), LST_E_NAN);
    assert_non_null(strstr(lib->last_error(), "layer 1, feed-forward"));
    assert_int_equal(lib->forward_tree(e.s, tokens, parents, 3, &greedy, rows), LST_E_NAN);
    assert_non_null(strstr(lib->last_error(), "layer 1, feed-forward"));
    close_engine(&e);
}

static void a_bad_logit_names_its_layer(void **state) {
    (void)state;
    use_cpu();
    weights *w = weights_with_a_bad_layer();
    static const char *const dtypes[] = {"f32", "auto", "bf16", "bf16"};
    for (int d = 0; d < 4; d++) {
        if (d == 3) use_gpu();
        need_library();
        check_bad_layer(w, dtypes[d]);
    }
    // integers need weights of few bits
    use_cpu();
    lst_model *m;
    const ls_hparams hp = shape();
    lst_open_options o = {.device = "cpu", .dtype = "i8", .threads = 1};
    assert_int_equal(lib->model_open(&m, &hp, w->t, w->n, &o), LST_E_ARG);
    assert_non_null(strstr(lib->last_error(), "add --weights q8"));
    o.dtype = "f32";
    o.kv = "f16";
    assert_int_equal(lib->model_open(&m, &hp, w->t, w->n, &o), LST_E_ARG);
    assert_non_null(strstr(lib->last_error(), "'f16' are unknown on a CPU (auto, f32, bf16)"));
    o.kv = "auto";
    // and a value that is not finite is refused at load, with the tensor's name
    ((float *)(uintptr_t)w->t[1].data)[5] = NAN;
    assert_int_equal(lib->model_open(&m, &hp, w->t, w->n, &o), LST_E_NAN);
    assert_non_null(strstr(lib->last_error(), "output.weight"));
    free_weights(w);
}

// Where the context cannot grow, the call fails and the KV cache goes on with what it has; so it does after room comes
// back. Emulated only: a real device's memory is not ours to fill.
static void a_full_gpu_is_an_error_that_leaves_the_kv_cache(void **state) {
    (void)state;
    if (getenv("LOGITSPEC_TEST_GPU")) skip();
    use_gpu();
    need_library();
    enum { PAGE = 1024, LONG = 3 * PAGE };
    weights *w = random_weights(LS_GGML_Q8_0);
    const ls_hparams hp = shape();
    const lst_open_options o = {.device = "cuda", .threads = 1};
    lst_model *m;
    lst_kv_cache *s;
    int32_t ids[LONG], root = -1, token = 5, zero = 0;
    static float before[VOCAB], after[VOCAB];
    lst_row row;
    for (int i = 0; i < LONG; i++) ids[i] = (int32_t)rnd_int(VOCAB);
    setenv("LOGITSPEC_EMULATED_MEMORY", "1000", 1);
    assert_int_equal(lib->model_open(&m, &hp, w->t, w->n, &o), LST_E_MEMORY);
    assert_non_null(strstr(lib->last_error(), "--weights q8 or q4"));
    unsetenv("LOGITSPEC_EMULATED_MEMORY");
    assert_int_equal(lib->model_open(&m, &hp, w->t, w->n, &o), LST_OK);
    assert_int_equal(lib->kv_cache_new(&s, m, LONG, 0), LST_OK);
    assert_int_equal(lib->prefill(s, ids, PAGE - 100, &greedy, NULL, NULL, NULL), LST_OK);
    assert_int_equal(lib->forward_tree(s, &token, &root, 1, &greedy, &row), LST_OK);
    assert_int_equal(lib->row_logits(s, 0, before), LST_OK);
    setenv("LOGITSPEC_EMULATED_MEMORY", "1000", 1); // nothing is left: another page cannot be had
    assert_int_equal(lib->prefill(s, ids, PAGE, &greedy, NULL, NULL, NULL), LST_E_MEMORY);
    assert_non_null(strstr(lib->last_error(), "the GPU has no"));
    assert_int_equal(lib->forward_tree(s, &token, &root, 1, &greedy, &row), LST_OK);
    assert_int_equal(lib->row_logits(s, 0, after), LST_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(lib->keep_path(s, &zero, 1), LST_OK);
    unsetenv("LOGITSPEC_EMULATED_MEMORY");
    assert_int_equal(lib->prefill(s, ids, PAGE, &greedy, NULL, NULL, NULL), LST_OK);
    lib->kv_cache_free(s);
    lib->model_close(m);
    free_weights(w);
}

// Large tiles read a prompt as small ones do, however it is cut and whatever is kept of another one; and a large tree.
static void large_tiles_change_no_bit(void **state) {
    (void)state;
    use_gpu();
    need_library();
    enum { LENGTH = 290, TREE = 130, CUTS = 3 };
    static const int types[] = {LS_GGML_BF16, LS_GGML_Q4_1};
    static const int32_t cut_at[CUTS] = {LENGTH, 130, 7}; // the first one: as without large tiles
    static lst_row rows[CUTS][TREE + 1];
    static float logits[CUTS][2][VOCAB];
    int32_t ids[LENGTH], tokens[TREE], parents[TREE];
    for (int i = 0; i < LENGTH; i++) ids[i] = (int32_t)rnd_int(VOCAB);
    for (int i = 0; i < TREE; i++) tokens[i] = (int32_t)rnd_int(VOCAB), parents[i] = i ? (int32_t)rnd_int(i) : -1;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        weights *w = random_weights(types[t]);
        const ls_hparams hp = shape();
        const lst_open_options o = {.device = device, .threads = 1};
        lst_model *m;
        assert_int_equal(lib->model_open(&m, &hp, w->t, w->n, &o), LST_OK);
        for (int c = 0; c < CUTS; c++) {
            lst_kv_cache *s;
            if (c) setenv("LOGITSPEC_CUDA_LARGE_TILES", "all", 1);
            assert_int_equal(lib->kv_cache_new(&s, m, CONTEXT, 0), LST_OK);
            unsetenv("LOGITSPEC_CUDA_LARGE_TILES");
            assert_int_equal(lib->prefill(s, ids, cut_at[c], &greedy, &rows[c][TREE], NULL, NULL), LST_OK);
            if (c == 1) { // of which a part is kept
                assert_int_equal(lib->prefill(s, ids, 50, &greedy, NULL, NULL, NULL), LST_OK);
                assert_int_equal(lib->rewind(s, cut_at[c]), LST_OK);
            }
            if (cut_at[c] < LENGTH)
                assert_int_equal(
                    lib->prefill(s, ids + cut_at[c], LENGTH - cut_at[c], &greedy, &rows[c][TREE], NULL, NULL), LST_OK);
            assert_int_equal(lib->row_logits(s, -1, logits[c][0]), LST_OK);
            assert_int_equal(lib->forward_tree(s, tokens, parents, TREE, &sampled, rows[c]), LST_OK);
            assert_int_equal(lib->row_logits(s, TREE - 1, logits[c][1]), LST_OK);
            lib->kv_cache_free(s);
            assert_memory_equal(logits[c], logits[0], sizeof logits[0]);
            assert_memory_equal(rows[c], rows[0], sizeof rows[0]);
        }
        lib->model_close(m);
        free_weights(w);
    }
}

// A KV cache keeps fewer recorded steps than there are sizes of trees: one that was dropped is recorded again. (The
// emulated device refuses more than a KV cache has counted memory for.)
static void steps_of_all_sizes_share_a_few_graphs(void **state) {
    (void)state;
    use_gpu();
    need_library();
    enum { CONTEXT_LEN = 20, SIZES = 18 };
    static const int32_t sizes[SIZES] = {1,  8,  16, 24,  32,  40,  48,  56,  64,
                                         72, 80, 96, 112, 128, 160, 192, 224, 256}; // of every bucket
    weights *w = random_weights(LS_GGML_Q8_0);
    int32_t context[CONTEXT_LEN], tokens[LST_MAX_ROWS], parents[LST_MAX_ROWS];
    static float first[2][SIZES][VOCAB], again[VOCAB];
    static lst_row rows[LST_MAX_ROWS];
    lst_row last;
    engine e;
    for (int i = 0; i < CONTEXT_LEN; i++) context[i] = (int32_t)rnd_int(VOCAB);
    for (int i = 0; i < LST_MAX_ROWS; i++) tokens[i] = (int32_t)rnd_int(VOCAB), parents[i] = i - 1 < 8 ? i - 1 : i - 9;
    assert_true(open_engine(&e, w, NULL, "auto", 1));
    assert_int_equal(lib->prefill(e.s, context, CONTEXT_LEN, &greedy, &last, NULL, NULL), LST_OK);
    for (int i = 0; i < 4 * SIZES; i++) {
        const int size = i % SIZES, how = i / SIZES % 2;
        assert_int_equal(lib->forward_tree(e.s, tokens, parents, sizes[size], how ? &sampled : &greedy, rows), LST_OK);
        assert_int_equal(lib->row_logits(e.s, sizes[size] - 1, again), LST_OK);
        if (i < 2 * SIZES) memcpy(first[how][size], again, sizeof again);
        else assert_memory_equal(first[how][size], again, sizeof again);
    }
    close_engine(&e);
    free_weights(w);
}

static bool count_down(void *left) {
    return --*(int *)left < 0;
}

// The KV cache after a call that was ended at any of its layers is the KV cache before it: also rows that were kept,
// and wait to be moved to their places, are there.
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
            assert_int_equal(lib->prefill(e.s, context, CONTEXT_LEN, &greedy, NULL, NULL, NULL), LST_OK);
            assert_int_equal(lib->forward_tree(e.s, tokens, parents, ROWS, &greedy, rows), LST_OK);
            assert_int_equal(lib->keep_path(e.s, kept, KEPT), LST_OK);
            if (asks >= 0) {
                assert_int_equal(lib->watch(e.s, count_down, &left), LST_OK);
                const int code = reads ? lib->prefill(e.s, more, MORE, &greedy, &last, NULL, NULL)
                                       : lib->forward_tree(e.s, more, parents, ROWS, &greedy, rows);
                more_left = code == LST_E_CANCELLED;
                if (!more_left) assert_int_equal(code, LST_OK);
                cancelled += more_left;
                assert_int_equal(lib->watch(e.s, NULL, NULL), LST_OK);
                if (more_left) assert_int_equal(lib->length(e.s), CONTEXT_LEN + KEPT);
            }
            for (int i = 0; i < ROWS && more_left; i++) {
                if (!i) assert_int_equal(lib->forward_tree(e.s, tokens, parents, ROWS, &greedy, rows), LST_OK);
                assert_int_equal(lib->row_logits(e.s, i, got), LST_OK);
                if (asks < 0) memcpy(want[i], got, sizeof got);
                else assert_memory_equal(got, want[i], sizeof got);
            }
            close_engine(&e);
        }
    // before each forward, and on the CPU between its layers: one over the tree, two of reading
    assert_int_equal(cancelled, !strcmp(device, "cpu") ? 3 * (1 + LAYERS) : cancelled);
    assert_true(cancelled >= 2);
}

static void a_cancelled_forward_leaves_the_kv_cache(void **state) {
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

// The logits of the last committed row stay where nothing is taken back.
static void a_rewind_to_the_present_length_changes_nothing(void **state) {
    (void)state;
    weights *w = random_weights(LS_GGML_Q8_0);
    const int32_t ids[] = {1, 2, 3}, root[] = {-1}, row[] = {0};
    static float before[VOCAB], after[VOCAB];
    for (int gpu = 0; gpu < 2; gpu++) {
        if (gpu) use_gpu();
        else use_cpu();
        need_library();
        engine e;
        lst_row rows[1];
        assert_true(open_engine(&e, w, NULL, "auto", 2));
        assert_int_equal(lib->prefill(e.s, ids, 3, &greedy, NULL, NULL, NULL), LST_OK);
        assert_int_equal(lib->forward_tree(e.s, ids, root, 1, &greedy, rows), LST_OK);
        assert_int_equal(lib->keep_path(e.s, row, 1), LST_OK);
        assert_int_equal(lib->row_logits(e.s, -1, before), LST_OK);
        assert_int_equal(lib->rewind(e.s, 4), LST_OK);
        assert_int_equal(lib->row_logits(e.s, -1, after), LST_OK);
        assert_memory_equal(before, after, sizeof before);
        close_engine(&e);
    }
    free_weights(w);
}

// The reference engine keeps the same contracts, but for the bits of a row in other company, and refuses what it lacks.
static void the_reference_engine_is_a_decoder(void **state) {
    (void)state;
    use_reference();
    need_library();
    weights *w = random_weights(LS_GGML_Q8_0), *bad = weights_with_a_bad_layer();
    check_cancel(w);
    check_growing();
    check_bad_layer(bad, "f32");
    check_bad_layer(bad, "bf16");
    const ls_hparams hp = shape();
    static const struct {
        lst_open_options o;
        const char *why;
    } refused[] = {{{.dtype = "i8"}, "dtype 'i8' is not of the reference engine: choose f32 or bf16"},
                   {{.dtype = "f32", .kv = "bf16"}, "keeps keys and values in its dtype: omit --kv bf16"},
                   {{.device = "cuda"}, "no operators for GPUs"},
                   {{.weights = "i4"}, "weights 'i4' are unknown"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        lst_model *m;
        assert_int_equal(lib->model_open(&m, &hp, w->t, w->n, &refused[i].o), LST_E_ARG);
        if (!strstr(lib->last_error(), refused[i].why)) fail_msg("'%s'", lib->last_error());
    }
    engine e, other;
    lst_row rows[LST_MAX_ROWS], row;
    int32_t tokens[CONTEXT], parents[LST_MAX_ROWS];
    double us[LST_PARTS];
    static float a[VOCAB], b[VOCAB];
    for (int i = 0; i < CONTEXT; i++) tokens[i] = (int32_t)rnd_int(VOCAB);
    for (int i = 0; i < LST_MAX_ROWS; i++) parents[i] = i ? (int32_t)rnd_int((uint32_t)i) : -1;
    assert_true(open_engine(&e, w, NULL, "f32", 2) && open_engine(&other, w, NULL, "f32", 2));
    assert_int_equal(lib->parts(e.s, us), LST_E_ARG);
    assert_int_equal(lib->use_threads(e.m, 3), LST_E_ARG); // results would change
    // up to the last position, with a tree of the most rows, and no further
    assert_int_equal(lib->prefill(e.s, tokens, CONTEXT - 40, &greedy, &row, NULL, NULL), LST_OK);
    assert_int_equal(lib->forward_tree(e.s, tokens, parents, LST_MAX_ROWS, &sampled, rows), LST_OK);
    assert_int_equal(lib->prefill(e.s, tokens, 40, &greedy, &row, NULL, NULL), LST_OK);
    assert_int_equal(lib->prefill(e.s, tokens, 1, &greedy, &row, NULL, NULL), LST_E_ARG);
    assert_int_equal(lib->forward_tree(e.s, tokens, parents, 1, &greedy, rows), LST_E_ARG);
    // a shorter context goes on as one that was read anew
    assert_int_equal(lib->rewind(e.s, 100), LST_OK);
    assert_int_equal(lib->row_logits(e.s, -1, a), LST_E_ARG);
    assert_int_equal(lib->forward_tree(e.s, tokens, parents, 5, &greedy, rows), LST_OK);
    assert_int_equal(lib->row_logits(e.s, 4, a), LST_OK);
    assert_int_equal(lib->prefill(other.s, tokens, 100, &greedy, &row, NULL, NULL), LST_OK);
    assert_int_equal(lib->forward_tree(other.s, tokens, parents, 5, &greedy, rows), LST_OK);
    assert_int_equal(lib->row_logits(other.s, 4, b), LST_OK);
    for (int i = 0; i < VOCAB; i++) assert_float_equal(a[i], b[i], 1e-4);
    // and so does a copy
    lst_kv_cache *copy;
    assert_int_equal(lib->kv_cache_new(&copy, e.m, CONTEXT, 0), LST_OK);
    assert_int_equal(lib->copy(copy, e.s, 100), LST_OK);
    assert_int_equal(lib->forward_tree(copy, tokens, parents, 5, &greedy, rows), LST_OK);
    assert_int_equal(lib->row_logits(copy, 4, b), LST_OK);
    assert_memory_equal(a, b, sizeof a);
    lib->kv_cache_free(copy);
    close_engine(&e), close_engine(&other);
    free_weights(w), free_weights(bad);
}

// Forwards of one row, few and many, with another number of threads before each.
static void the_number_of_threads_changes_no_bit(void **state) {
    (void)state;
    use_cpu();
    need_library();
    enum { MOST = 5, CONTEXT_LEN = 150, MANY = 12 };
    static float want[3][MANY][VOCAB], got[VOCAB];
    static const int32_t sizes[] = {1, 5, MANY};
    int32_t context[CONTEXT_LEN], tokens[MANY], parents[MANY];
    lst_row rows[MANY];
    weights *w = random_weights(LS_GGML_Q4_1);
    engine e;
    for (int i = 0; i < CONTEXT_LEN; i++) context[i] = (int32_t)rnd_int(VOCAB);
    for (int i = 0; i < MANY; i++) tokens[i] = (int32_t)rnd_int(VOCAB), parents[i] = i ? (i - 1) / 2 : -1;
    setenv("LOGITSPEC_PROCESSORS", "5", 1);
    assert_true(open_engine(&e, w, NULL, "auto", 0));
    unsetenv("LOGITSPEC_PROCESSORS");
    lst_model_info_t info = {0};
    assert_int_equal(lib->model_info(e.m, &info), LST_OK);
    assert_true(info.threads == MOST && info.most_threads == MOST);
    static const int32_t bad[] = {-1, 0, MOST + 1};
    for (int i = 0; i < 3; i++) assert_int_equal(lib->use_threads(e.m, bad[i]), LST_E_ARG);
    for (int round = 0; round < 20; round++) {
        assert_int_equal(lib->rewind(e.s, 0), LST_OK);
        assert_int_equal(lib->prefill(e.s, context, CONTEXT_LEN, &greedy, NULL, NULL, NULL), LST_OK);
        for (int size = 0; size < 3; size++) {
            const int32_t threads = 1 + (int32_t)rnd_int(MOST);
            assert_int_equal(lib->use_threads(e.m, threads), LST_OK);
            assert_int_equal(lib->model_info(e.m, &info), LST_OK);
            assert_true(info.threads == threads && info.most_threads == MOST);
            assert_int_equal(lib->forward_tree(e.s, tokens, parents, sizes[size], &sampled, rows), LST_OK);
            for (int i = 0; i < sizes[size]; i++) {
                assert_int_equal(lib->row_logits(e.s, i, got), LST_OK);
                if (!round) memcpy(want[size][i], got, sizeof got);
                else assert_memory_equal(got, want[size][i], sizeof got);
            }
        }
    }
    close_engine(&e);
    assert_true(open_engine(&e, w, NULL, "auto", 1)); // the number that was asked for
    assert_int_equal(lib->use_threads(e.m, 1), LST_OK);
    assert_int_equal(lib->use_threads(e.m, 2), LST_E_ARG);
    close_engine(&e);
    free_weights(w);
}

// auto: bf16 where all weights are bf16 and the level multiplies pairs of them.
static void weights_choose_the_arithmetic(void **state) {
    (void)state;
    use_cpu();
    need_library();
    weights *all = random_weights(LS_GGML_BF16), *few = random_weights(LS_GGML_BF16);
    for (int i = 0; i < few->n; i++)
        if (!strcmp(few->names[i], "blk.1.ffn_down.weight")) { // a type that needs no more bytes
            few->t[i].type = LS_GGML_F16;
            memset((void *)(uintptr_t)few->t[i].data, 0, few->t[i].n_bytes);
        }
    const struct {
        const weights *w;
        const char *level, *dtype;
    } cases[] = {{all, "avx512bf16", "bf16"}, {few, "avx512bf16", "f32"}, {all, "portable", "f32"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine e;
        lst_model_info_t info = {0};
        if (!open_engine(&e, cases[i].w, cases[i].level, "auto", 1)) continue;
        assert_int_equal(lib->model_info(e.m, &info), LST_OK);
        assert_string_equal(info.dtype, cases[i].dtype);
        close_engine(&e);
    }
    free_weights(all);
    free_weights(few);
}

static void a_level_without_integer_dot_products_says_so(void **state) {
    (void)state;
    use_cpu();
    need_library();
    static const struct {
        const char *level, *dtype;
        bool slow;
    } cases[] = {
        {"portable", "i8", true},
        {"portable", "i16", true},
        {"portable", "auto", false},
        {"portable", "bf16", false},
#if defined(__aarch64__)
        {"neon", "i8", true},
        {"neon", "auto", false},
        {"neondot", "i8", false},
        {"neoni8mm", "i8", false}
#else
        {"avx2", "i8", false},
        {"avx512", "i8", false},
        {"avx512vnni", "i8", false},
        {"avx512bf16", "i8", false}
#endif
    };
    weights *w = random_weights(LS_GGML_Q4_1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine e;
        lst_model_info_t info = {0};
        if (!open_engine(&e, w, cases[i].level, cases[i].dtype, 1)) continue;
        assert_int_equal(lib->model_info(e.m, &info), LST_OK);
        assert_int_equal(*info.slow != 0, cases[i].slow);
        assert_true(!cases[i].slow || strstr(info.slow, cases[i].level));
        close_engine(&e);
    }
    free_weights(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_their_company),
        cmocka_unit_test(a_matrix_keeps_the_types_of_its_tensors),
        cmocka_unit_test(a_gpu_keeps_the_values_of_mixed_types),
        cmocka_unit_test(columns_may_have_another_order),
        cmocka_unit_test(nor_on_a_gpu),
        cmocka_unit_test(a_part_of_the_layers_is_a_model_of_these),
        cmocka_unit_test(a_tree_grows_only_where_there_is_one),
        cmocka_unit_test(hidden_states_are_handed_out_to_who_asks),
        cmocka_unit_test(a_bad_logit_names_its_layer),
        cmocka_unit_test(a_full_gpu_is_an_error_that_leaves_the_kv_cache),
        cmocka_unit_test(large_tiles_change_no_bit),
        cmocka_unit_test(steps_of_all_sizes_share_a_few_graphs),
        cmocka_unit_test(a_cancelled_forward_leaves_the_kv_cache),
        cmocka_unit_test(a_rewind_to_the_present_length_changes_nothing),
        cmocka_unit_test(the_reference_engine_is_a_decoder),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(weights_choose_the_arithmetic),
        cmocka_unit_test(a_level_without_integer_dot_products_says_so),
    };
    return cmocka_run_group_tests_name("lst", tests, NULL, NULL);
}
