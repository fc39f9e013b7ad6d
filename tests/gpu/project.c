// A matmul together with what follows it, against both one after the other: the same bits.
#include "tests/gpu/check.h"
#include "tests/gpu/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 70 };

// All that a project may write.
typedef struct {
    float *x, *squares, *logits;
    uint16_t *xn, *inner, *q, *page[N_PAGES];
} written;
static written see(const session *s) {
    const lsg_buffers *b = &s->device;
    const size_t r = (size_t)b->rows, e = (size_t)b->n_embd;
    written w = {.x = take(b->x, r * e * sizeof(float)),
                 .squares = take(b->squares, r * e / LSG_TILE * sizeof(float)),
                 .logits = take(b->logits, r * (size_t)b->n_vocab * sizeof(float)),
                 .xn = take(b->xn, r * e * sizeof(uint16_t)),
                 .inner = take(b->inner, r * (size_t)b->n_ff * sizeof(uint16_t)),
                 .q = take(b->q, r * (size_t)(b->n_heads * b->head_dim) * sizeof(uint16_t))};
    for (int i = 0; i < N_PAGES; i++) w.page[i] = take(s->device_page[i], s->page_values * sizeof(uint16_t));
    return w;
}
// first: the first row alone.
static void check_same(const session *s, const written *a, const written *b, int first, const char *what) {
    const lsg_buffers *d = &s->device;
    const size_t r = first ? 1 : (size_t)d->rows, e = (size_t)d->n_embd;
    CHECK(!memcmp(a->x, b->x, r * e * sizeof(float)), "%s: the residual stream", what);
    CHECK(!memcmp(a->squares, b->squares, r * e / LSG_TILE * sizeof(float)), "%s: squares", what);
    CHECK(!memcmp(a->logits, b->logits, r * (size_t)d->n_vocab * sizeof(float)), "%s: logits", what);
    CHECK(!memcmp(a->xn, b->xn, r * e * sizeof(uint16_t)), "%s: what the next matmul reads", what);
    CHECK(!memcmp(a->inner, b->inner, r * (size_t)d->n_ff * sizeof(uint16_t)), "%s: the gate", what);
    CHECK(!memcmp(a->q, b->q, r * (size_t)(d->n_heads * d->head_dim) * sizeof(uint16_t)), "%s: queries", what);
    for (int i = 0; i < N_PAGES && !first; i++) // other rows have written there too
        CHECK(!memcmp(a->page[i], b->page[i], s->page_values * sizeof(uint16_t)), "%s: keys and values", what);
}

// A case: its shape, and what follows.
typedef struct {
    lsg_then_kind kind;
    int type;
    int32_t n_embd, n_ff, heads, kv_heads, head_dim, chunks;
    int interleaved, biased, half_turned;
} setting;

static session session_of(const setting *c, int32_t rows, int32_t there) {
    session s = session_new(rows,
                            (lsg_buffers){.n_embd = c->n_embd,
                                          .n_ff = c->n_ff,
                                          .n_heads = c->heads,
                                          .n_kv_heads = c->kv_heads,
                                          .head_dim = c->head_dim,
                                          .n_vocab = 205,
                                          .n_layers = 1},
                            LSG_MATMUL_CHUNKS * 2048, 0);
    rnd_restart(); // a row's data does not depend on how many there are
    for (int32_t i = 0; i < MOST_ROWS * c->n_embd; i++) {
        const float v = rnd();
        if (i < rows * c->n_embd) s.host.x[i] = v;
    }
    upload(s.device.x, s.host.x, (size_t)(rows * c->n_embd) * sizeof(float));
    send_squares(&s);
    random_tree(s.step, there, 0);
    s.step->length = 100;
    for (int32_t i = 0; i < rows; i++) s.step->column[i] = 1000 + 7 * i;
    float *turns = fresh((size_t)(2 * rows * c->head_dim) * sizeof *turns);
    const int32_t dims = c->half_turned ? c->head_dim / 2 : c->head_dim;
    for (int32_t i = 0; i < 2 * rows * dims; i++) turns[i] = (float)(i % (rows * dims) % 97) / 97;
    upload(s.device.turns, turns, (size_t)(2 * rows * c->head_dim) * sizeof *turns);
    send_step(&s);
    return s;
}

static lsg_then then_of(const setting *c, const session *s) {
    const size_t e = (size_t)c->n_embd, all = (size_t)((c->heads + 2 * c->kv_heads) * c->head_dim);
    rnd_restart();
    const size_t most = e + all + 2 * (size_t)c->n_ff;
    const float *bias = c->biased ? put_floats(random_floats(most, 1, 0), most) : NULL;
    return (lsg_then){.kind = c->kind,
                      .row = -1,
                      .normed = 1,
                      .eps = 1e-5f,
                      .y = s->device.logits,
                      .add = {.bias = bias,
                              .norm = c->interleaved ? NULL : put_floats(random_floats(e, 0.5f, 1), e),
                              .residual_scale = c->biased ? 0.3f : 1,
                              .eps = 1e-5f},
                      .rope = {.normed = 1,
                               .bias = bias,
                               .eps = 1e-5f,
                               .attn_scale = 0.125f,
                               .rope_dims = c->half_turned ? c->head_dim / 2 : c->head_dim,
                               .rope_interleaved = c->interleaved,
                               .rope_kind = 1},
                      .gate = {.normed = !c->interleaved,
                               .activation = c->biased ? LST_ACT_GELU_TANH : LST_ACT_SILU,
                               .bias = bias,
                               .eps = 1e-5f}};
}

// Runs it as one kernel or as two.
static session run(const setting *c, matrix m, const uint16_t *x, int32_t rows, int32_t there, int together) {
    const session s = session_of(c, rows, there);
    const lsg_then t = then_of(c, &s);
    m.device.cut.gpu.clusters = together;
    MUST(lsg_project(&m.device, &s.device, x, &t, stream));
    return s;
}

static void check_setting(const setting *c, const int32_t *counts, int n_counts) {
    const int sums = c->kind == LSG_SUMS;
    const int32_t n_out = sums                    ? 205
                          : c->kind == LSG_ADD    ? c->n_embd
                          : c->kind == LSG_ROTATE ? (c->heads + 2 * c->kv_heads) * c->head_dim
                                                  : 2 * c->n_ff,
                  n_in = c->kind == LSG_ADD ? 768 : c->n_embd;
    char what[200];
    matrix m = random_matrix(c->type, n_out, n_in);
    if (c->kind == LSG_GATE) { // the same weights stand elsewhere
        unsigned char *raw = random_raw(c->type, n_out, n_in);
        lsg_matrix_pair(&m.host);
        uint8_t *host = memset(fresh(lsg_matrix_bytes(&m.host)), 0, lsg_matrix_bytes(&m.host));
        lsg_pack_rows(&m.host, host, 0, c->type, raw, n_out);
        free(raw);
        m.host.weights = host;
        m.device = m.host;
        m.device.weights = put(host, lsg_matrix_bytes(&m.host));
    }
    m.device.cut.chunks = sums ? 1 : c->chunks;
    uint16_t *inputs = fresh((size_t)(MOST_ROWS * n_in) * sizeof *inputs);
    random_bf16(inputs, (size_t)(MOST_ROWS * n_in), 1);
    const uint16_t *x = put(inputs, (size_t)(MOST_ROWS * n_in) * sizeof *inputs);
    for (int i = 0; i < n_counts; i++) {
        const int32_t rows = counts[i], there = i % 3 == 2 ? rows - rows / 3 : rows;
        const session one = run(c, m, x, rows, there, 1), two = run(c, m, x, rows, there, 0);
        const written a = see(&one), b = see(&two);
        snprintf(what, sizeof what, "kind %d, type %d, %d chunks, heads of %d, %d of %d rows", (int)c->kind, c->type,
                 (int)c->chunks, (int)c->head_dim, (int)there, (int)rows);
        check_same(&one, &a, &b, 0, what);
        CHECK(!sums ||
                  (a.logits[0] == a.logits[0] && (there == rows || a.logits[there * 205] != a.logits[there * 205])),
              "%s: nothing is written, or too much", what);
        if (sums && there > 2) { // one row's logits, as a prompt wants them
            lsg_then t = then_of(c, &one);
            t.row = 2;
            MUST(lsg_project(&m.device, &one.device, x, &t, stream));
            const float *got = take(one.device.logits, 205 * sizeof *got);
            CHECK(!memcmp(got, a.logits + (size_t)2 * 205, 205 * sizeof *got), "%s: a row's logits alone", what);
        }
        if (!i) continue; // the first row is what it is alone
        const session alone = run(c, m, x, 1, 1, 1);
        const written w = see(&alone);
        check_same(&alone, &a, &w, 1, what);
    }
    release();
}

static void a_matmul_and_what_follows_are_the_same_in_one_kernel(void) {
    const int32_t counts[] = {1, 8, 13, 33, MOST_ROWS};
    const int of_format[] = {LS_GGML_BF16, LS_GGML_F16, LS_GGML_Q4_1, LS_GGML_Q8_0, LS_GGML_Q4_K, LS_GGML_Q6_K};
    const int32_t heads[][3] = {{4, 2, 64}, {3, 1, 128}, {6, 3, 32}, {3, 1, 96}}; // the last ones stand in no block
    int n = 0;
    for (size_t t = 0; t < LENGTH(of_format); t++)
        for (lsg_then_kind kind = LSG_SUMS; kind <= LSG_GATE; kind++)
            for (int32_t chunks = 1; chunks <= 8; chunks *= 2, n++) {
                if (t && (n + (int)t) % 3) continue; // all of one format, a third of the others
                const setting c = {.kind = kind,
                                   .type = of_format[t],
                                   .n_embd = n % 2 ? 256 : 768,
                                   .n_ff = n % 2 ? 352 : 160,
                                   .heads = heads[n % 4][0],
                                   .kv_heads = heads[n % 4][1],
                                   .head_dim = heads[n % 4][2],
                                   .chunks = chunks,
                                   .interleaved = n / 2 % 2,
                                   .biased = n / 3 % 2,
                                   .half_turned = n / 5 % 2};
                check_setting(&c, counts, kind == LSG_SUMS && chunks > 1 ? 1 : LENGTH(counts));
            }
}

const gpu_test project_tests[] = {
    TEST(a_matmul_and_what_follows_are_the_same_in_one_kernel),
    {0},
};
