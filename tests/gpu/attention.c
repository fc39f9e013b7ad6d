// Attention against its twin, and the same bits for a row in a tree, alone, and with any part of its path committed.
#include "tests/gpu/check.h"
#include "tests/gpu/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int32_t group, n_kv_heads, head_dim, window;
    float softcap;
    int32_t length, rows, chain, multiprocessors;
} scene;

enum { LAYERS = 2, LAYER = 1, ROOM = 64, CHUNKS = 5 };

// Bytes of a row's queries, and of what its heads see.
static size_t row_bytes(const session *s) {
    return (size_t)(s->host.n_heads * s->host.head_dim) * sizeof(uint16_t);
}

// Puts the step, queries and columns on the device and takes what `rows` launched rows see.
static const uint16_t *see(session *s, int32_t rows, const lsg_attend *a) {
    const size_t bytes = ROOM * row_bytes(s);
    s->host.rows = s->device.rows = rows;
    send_step(s);
    upload(s->device.columns, s->host.columns, CONTEXT * sizeof(int32_t));
    upload(s->device.q, s->host.q, (size_t)s->step->n_rows * row_bytes(s));
    upload(s->device.xn, fresh(bytes), bytes);
    MUST(lsg_begin(&s->device, &(lsg_rotation){0}, stream));
    MUST(lsg_arrive(stream));
    MUST(lsg_attention(&s->device, a, stream));
    return take(s->device.xn, bytes);
}

static uint16_t *key_or_value(const session *s, int value, int32_t head, int32_t column) {
    const size_t at = (size_t)(LAYER * 2 + value) * (size_t)s->host.n_kv_heads + (size_t)head;
    return s->page_of[column / LSG_PAGE] + (at * LSG_PAGE + (size_t)(column % LSG_PAGE)) * (size_t)s->host.head_dim;
}

// The context and rows of a scene at columns of their own; what rows hold stands at spare columns too, for when they
// are committed.
static session scene_session(const scene *c, int32_t *spare) {
    session s = session_new(ROOM,
                            (lsg_buffers){.gpu = {c->multiprocessors, H100.shared_kib},
                                          .n_heads = c->group * c->n_kv_heads,
                                          .n_kv_heads = c->n_kv_heads,
                                          .head_dim = c->head_dim,
                                          .n_layers = LAYERS,
                                          .n_vocab = 1},
                            1, CHUNKS);
    const size_t hd = (size_t)c->head_dim;
    int32_t columns[CONTEXT];
    random_columns(columns, CONTEXT);
    random_tree(s.step, c->rows, c->chain);
    s.step->length = c->length;
    memcpy(s.host.columns, columns, (size_t)c->length * sizeof(int32_t));
    memcpy(s.step->column, columns + c->length, (size_t)c->rows * sizeof(int32_t));
    memcpy(spare, columns + c->length + c->rows, (size_t)c->rows * sizeof(int32_t));
    for (int32_t h = 0; h < 2 * c->n_kv_heads; h++) {
        for (int32_t i = 0; i < c->length + c->rows; i++)
            random_bf16(key_or_value(&s, h % 2, h / 2, columns[i]), hd, 1);
        for (int32_t i = 0; i < c->rows; i++)
            memcpy(key_or_value(&s, h % 2, h / 2, spare[i]), key_or_value(&s, h % 2, h / 2, s.step->column[i]), hd * 2);
    }
    for (int p = 0; p < N_PAGES; p++) upload(s.device_page[p], s.page_of[p], s.page_values * sizeof(uint16_t));
    random_bf16(s.host.q, (size_t)c->rows * row_bytes(&s) / 2, 3);
    return s;
}

static void check_against_twin(const session *s, const lsg_attend *a, const uint16_t *got, const char *what) {
    const size_t hd = (size_t)s->host.head_dim, heads = (size_t)s->host.n_heads, n = (size_t)s->step->n_rows * heads;
    lsg_plain_attention(&s->host, a);
    for (size_t i = 0; i < n; i++) {
        double off = 0, size = 0; // of a head: what one step of bf16 is of a number at most, 2^-8
        for (size_t d = 0; d < hd; d++) {
            const double x = (double)bf16_value(got[i * hd + d]), w = (double)bf16_value(s->host.xn[i * hd + d]);
            off += (x - w) * (x - w);
            size += w * w;
        }
        CHECK(sqrt(off) <= 4e-3 * sqrt(size), "%s: row %zu, head %zu is %g off of %g", what, i / heads, i % heads,
              sqrt(off), sqrt(size));
    }
    for (size_t i = n * hd; i < ROOM * heads * hd; i++)
        CHECK(got[i] == 0xFFFF, "%s: a row that is not there is written", what);
}

// The step is now a path of n rows of the tree, the first of which are committed.
static void commit(session *s, const lsg_step *tree, const uint16_t *q, const int32_t *spare, const int32_t *path,
                   int32_t n, int32_t committed) {
    const size_t row = row_bytes(s) / sizeof *q;
    s->step->length = tree->length + committed;
    s->step->n_rows = n - committed;
    for (int32_t i = 0; i < committed; i++) s->host.columns[tree->length + i] = spare[path[i]];
    for (int32_t i = 0; i < s->step->n_rows; i++) {
        s->step->parent[i] = i - 1;
        s->step->depth[i] = i;
        s->step->column[i] = tree->column[path[committed + i]];
        memcpy(s->host.q + (size_t)i * row, q + (size_t)path[committed + i] * row, row_bytes(s));
    }
}

static void check_scene(const scene *c) {
    int32_t spare[LST_MAX_ROWS], deepest = 0;
    session s = scene_session(c, spare);
    const lsg_step tree = *s.step;
    const size_t row = row_bytes(&s) / 2, all = (size_t)c->rows * row_bytes(&s);
    for (int32_t r = 0; r < c->rows; r++)
        if (tree.depth[r] > deepest) deepest = tree.depth[r];
    const float *of_heads = c->rows % 2 ? random_floats((size_t)s.host.n_heads, 3, 2) : NULL,
                *sinks = of_heads ? put_floats(of_heads, (size_t)s.host.n_heads) : NULL;
    const lsg_attend a = {LAYER, (c->length + deepest) / LSG_CHUNK + 1, c->window, c->softcap, sinks},
                     more = {LAYER, CHUNKS, c->window, c->softcap, sinks};
    lsg_attend twin = a;
    twin.sinks = of_heads;
    char what[160];
    snprintf(what, sizeof what, "group %d, head_dim %d, length %d, %d rows, window %d", (int)c->group, (int)c->head_dim,
             (int)c->length, (int)c->rows, (int)c->window);
    const uint16_t *got = see(&s, c->rows, &a);
    check_against_twin(&s, &twin, got, what);
    CHECK(!memcmp(see(&s, ROOM, &more), got, all), "%s: with room for more rows and chunks they differ", what);
    s.device.large = LSG_LARGE_ALWAYS;
    CHECK(!memcmp(see(&s, c->rows, &a), got, all), "%s: in large blocks they differ", what);
    CHECK(!memcmp(see(&s, ROOM, &more), got, all), "%s: in large blocks with room for more they differ", what);
    s.device.large = LSG_LARGE_OFF;
    const uint16_t *q = memcpy(fresh(all), s.host.q, all);
    for (int32_t k = 0; k < 6; k++) { // some rows alone, none, all or a part of their path committed
        const int32_t r = k == 0 ? c->rows - 1 : (int32_t)rnd_int((uint32_t)c->rows), depth = tree.depth[r],
                      committed = k % 3 == 0   ? 0
                                  : k % 3 == 1 ? depth
                                               : (int32_t)rnd_int((uint32_t)depth + 1);
        int32_t path[LST_MAX_ROWS];
        for (int32_t at = r; at >= 0; at = tree.parent[at]) path[tree.depth[at]] = at;
        commit(&s, &tree, q, spare, path, depth + 1, committed);
        const uint16_t *other = see(&s, s.step->n_rows, k % 2 ? &a : &more);
        for (int32_t i = committed; i <= depth; i++)
            CHECK(!memcmp(other + (size_t)(i - committed) * row, got + (size_t)path[i] * row, row_bytes(&s)),
                  "%s: row %d of depth %d differs with %d of its path committed", what, (int)path[i], (int)i,
                  (int)committed);
    }
    release();
}

static void attention_of_a_row_is_the_same_alone_and_committed(void) {
    const int32_t lengths[] = {0, 1, 5, 255, 256, 257, 500, 1090}, groups[] = {1, 2, 4, 20, 3},
                  dims[] = {16, 32, 64, 80, 96, 128, 256}, rows[] = {1, 7, 40, 64, 3, 17}, windows[] = {0, 100, 300};
    for (int i = 0; i < 56; i++) {
        scene c = {.group = groups[i % 5],
                   .head_dim = dims[i % 7],
                   .window = windows[i % 3],
                   .softcap = i / 2 % 2 ? 30 : 0,
                   .length = lengths[i / 7],
                   .rows = rows[i % 6],
                   .multiprocessors = i / 3 % 2 ? H100.multiprocessors : 1, // 1: nothing is idle
                   .chain = i % 6 == 3 || i % 11 == 0};
        c.n_kv_heads = c.group == 20 ? 1 : 1 + i % 3;
        check_scene(&c);
    }
}

// A drafted row whose key and value are not finite spoils the rows that descend from it, and no others.
static void a_row_that_is_not_finite_spoils_only_its_own_path(void) {
    for (int i = 0; i < 6; i++) {
        const scene c = {.group = 1 + i % 3,
                         .n_kv_heads = 2,
                         .head_dim = i % 2 ? 64 : 32,
                         .length = 250 + 3 * i,
                         .rows = 12,
                         .multiprocessors = 1};
        int32_t spare[LST_MAX_ROWS];
        session s = scene_session(&c, spare);
        const lsg_attend a = {LAYER, CHUNKS, 0, 0, NULL};
        const size_t row = row_bytes(&s) / 2, bad = 1 + (size_t)rnd_int(11);
        const uint16_t *before = see(&s, c.rows, &a);
        for (int32_t h = 0; h < 2 * c.n_kv_heads; h++)
            for (int32_t d = 0; d < c.head_dim; d++)
                key_or_value(&s, h % 2, h / 2, s.step->column[bad])[d] = d % 2 ? 0x7F80 : 0x7FC0; // infinite, NaN
        for (int p = 0; p < N_PAGES; p++) upload(s.device_page[p], s.page_of[p], s.page_values * sizeof(uint16_t));
        const uint16_t *after = see(&s, c.rows, &a);
        for (int32_t r = 0; r < c.rows; r++) {
            int32_t at = r;
            while (at >= 0 && at != (int32_t)bad) at = s.step->parent[at];
            if (at < 0)
                CHECK(!memcmp(after + (size_t)r * row, before + (size_t)r * row, row_bytes(&s)),
                      "row %d is another beside row %d, which is not finite", (int)r, (int)bad);
            else CHECK((after[(size_t)r * row] & 0x7F80) == 0x7F80, "row %d is finite behind row %d", (int)r, (int)bad);
        }
        release();
    }
}

const gpu_test attention_tests[] = {
    TEST(attention_of_a_row_is_the_same_alone_and_committed),
    TEST(a_row_that_is_not_finite_spoils_only_its_own_path),
    {0},
};
