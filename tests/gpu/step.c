// What begins a step, steps in graphs, and what else the runtime does.
#include "base/rng.h"
#include "tests/gpu/check.h"
#include "tests/gpu/session.h"

#include <math.h>
#include <string.h>

static void begin_takes_the_step(void) {
    enum { ROWS = 100, N = 1000 };
    const session s = session_new(ROWS, (lsg_buffers){.n_vocab = N}, 1, 0);
    const float *logits = random_floats(ROWS * N, 1, 0);
    upload(s.device.logits, logits, sizeof(float) * ROWS * N);
    for (int i = 0; i < 12; i++) {
        const int32_t n = 1 + (int32_t)rnd_int(ROWS);
        random_tree(s.step, n, i % 3 == 0);
        s.step->n_new = i == 1 ? 0 : i == 2 ? LST_MAX_ROWS : (int32_t)rnd_int(LST_MAX_ROWS);
        s.step->new_from = (int32_t)rnd_int(1000);
        s.step->length = s.step->new_from + s.step->n_new;
        s.step->keep_row = i % 4 == 3 ? -1 : (int32_t)rnd_int(ROWS);
        random_columns(s.step->new_column, LST_MAX_ROWS);
        send_step(&s);
        int32_t *columns = take(s.device.columns, CONTEXT * sizeof *columns);
        const float *last = take(s.device.last, N * sizeof *last);
        for (int k = 0; k < s.step->n_new; k++) columns[s.step->new_from + k] = s.step->new_column[k];
        if (s.step->keep_row >= 0) last = logits + s.step->keep_row * N;
        const int32_t bad = 1;
        upload(&s.device.result->bad, &bad, sizeof bad);
        MUST(lsg_begin(&s.device, &(lsg_rotation){0}, stream));
        const int16_t *ancestors = take(s.device.ancestors, sizeof *ancestors * LST_MAX_ROWS * LST_MAX_ROWS);
        const lsg_result *result = take(s.device.result, sizeof *result);
        CHECK(!memcmp(take(s.device.columns, CONTEXT * sizeof *columns), columns, CONTEXT * sizeof *columns),
              "step %d: columns", i);
        CHECK(!memcmp(take(s.device.last, N * sizeof *last), last, N * sizeof *last), "step %d: logits of the last row",
              i);
        CHECK(result->bad == 0, "step %d: what was bad stays", i);
        for (int32_t r = 0; r < n; r++)
            for (int32_t at = r; at >= 0; at = s.step->parent[at])
                CHECK(ancestors[r * LST_MAX_ROWS + s.step->depth[at]] == at, "step %d: row %d at depth %d", i, (int)r,
                      (int)s.step->depth[at]);
    }
}

// ---- the runtime

// A step of a small decoder, whatever it may compute.
static void put_step_on_stream(const session *s, const matrix *embd, const matrix *qkv, const lsg_rope *r,
                               const lsg_rotation *turn) {
    const lsg_buffers *b = &s->device;
    const lsg_add norm = {.residual_scale = 1, .eps = 1e-5f};
    const lsg_attend a = {.chunks = 2};
    const lsg_head h = {.rows = b->rows, .chunks = 1, .y = b->y, .scale = 1, .sampled = 1};
    MUST(lsg_begin(b, turn, stream));
    MUST(lsg_embed(b, &embd->device, 1, stream));
    MUST(lsg_add_norm(b, &norm, stream));
    MUST(lsg_matmul(&qkv->device, b->xn, b->y, b->rows, b->rows, &b->step->n_rows, stream));
    MUST(lsg_rope_kv(b, r, stream));
    MUST(lsg_attention(b, &a, stream));
    MUST(lsg_matmul(&embd->device, b->xn, b->y, b->rows, b->rows, &b->step->n_rows, stream));
    MUST(lsg_head_rows(b, &h, stream));
}

static void replayed_graphs_compute_what_launches_do(void) {
    enum { ROWS = 20, N_EMBD = 64, N_VOCAB = 300, HEADS = 2, HEAD_DIM = N_EMBD / HEADS };
    const matrix embd = random_matrix(LS_GGML_Q8_0, N_VOCAB, N_EMBD),
                 qkv = random_matrix(LS_GGML_F16, 3 * N_EMBD, N_EMBD);
    CHECK(embd.host.cut.chunks == 1 && qkv.host.cut.chunks == 1, "y has no room for chunks");
    const session s = session_new(ROWS,
                                  (lsg_buffers){.n_embd = N_EMBD,
                                                .n_heads = HEADS,
                                                .n_kv_heads = HEADS,
                                                .head_dim = HEAD_DIM,
                                                .n_vocab = N_VOCAB,
                                                .n_layers = 1},
                                  N_VOCAB, 2);
    float freq[HEAD_DIM / 2];
    for (size_t i = 0; i < LENGTH(freq); i++) freq[i] = 1 / (1 + (float)i);
    const lsg_rope r = {.chunks = 1, .attn_scale = 0.2f, .rope_dims = HEAD_DIM};
    const lsg_rotation turn = {.dims = HEAD_DIM, .magnitude = {1}, .freq = {put_floats(freq, LENGTH(freq))}};
    lsg_graph graph;
    s.step->n_rows = 1; // nothing runs while it is captured
    random_columns(s.step->column, 1);
    send_step(&s);
    const float *before = take(s.device.x, N_EMBD * sizeof *before);
    MUST(lsg_capture_begin(stream));
    put_step_on_stream(&s, &embd, &qkv, &r, &turn);
    MUST(lsg_capture_end(stream, &graph));
    CHECK(!memcmp(before, take(s.device.x, N_EMBD * sizeof *before), N_EMBD * sizeof *before),
          "a captured launch runs");
    int32_t length = 0;
    for (int i = 0; i < 6; i++) { // row after row is kept: the first of each step
        const int32_t kept = i ? s.step->column[0] : 0;
        random_tree(s.step, 1 + (int32_t)rnd_int(ROWS), i % 2);
        s.step->n_new = i ? 1 : 0;
        s.step->new_from = length;
        s.step->new_column[0] = kept;
        s.step->length = length += i ? 1 : 0;
        s.step->keep_row = -1;
        s.step->sampled = i % 2;
        s.step->temperature = s.step->top_p = 0.9;
        for (int k = 0; k < ROWS; k++) {
            s.step->token[k] = (int32_t)rnd_int(N_VOCAB);
            s.step->column[k] = 100 * (i + 1) + k;
            s.step->uniform[k] = ls_uniform_at(3, (uint64_t)k);
        }
        send_step(&s);
        const size_t logits = (size_t)s.step->n_rows * N_VOCAB * sizeof(float);
        MUST(lsg_graph_launch(graph, stream));
        const float *by_graph = take(s.device.logits, logits);
        const lsg_result *result = take(s.device.result, sizeof *result);
        put_step_on_stream(&s, &embd, &qkv, &r, &turn);
        const float *direct = take(s.device.logits, logits);
        CHECK(!memcmp(by_graph, direct, logits) && isfinite(direct[0]), "step %d: logits", i);
        CHECK(!memcmp(result, take(s.device.result, sizeof *result), sizeof *result),
              "step %d: what is said about rows", i);
        CHECK(!result->bad, "step %d is bad", i);
    }
    lsg_graph_free(graph);
}

static void add_one(void *ud) {
    ++*(int *)ud;
}

// A call on the host sees what was copied before it, and what is copied behind it is what it left, whenever its graph
// runs.
static void calls_on_the_host_have_their_turn(void) {
    int *number;
    lsg_graph graph;
    MUST(lsg_alloc_host((void **)&number, sizeof *number));
    int *a = room(sizeof *a), *b = room(sizeof *b);
    *number = 5;
    upload(a, number, sizeof *number);
    MUST(lsg_capture_begin(stream));
    MUST(lsg_download(number, a, sizeof *number, stream));
    MUST(lsg_on_host(add_one, number, stream));
    MUST(lsg_upload(b, number, sizeof *number, stream));
    MUST(lsg_on_host(add_one, number, stream));
    MUST(lsg_upload(a, number, sizeof *number, stream));
    MUST(lsg_capture_end(stream, &graph));
    CHECK(*number == 5, "a captured call runs");
    for (int i = 0; i < 3; i++) {
        int got;
        MUST(lsg_graph_launch(graph, stream));
        MUST(lsg_sync(stream));
        download(&got, b, sizeof got);
        CHECK(got == 6 + 2 * i && *number == 7 + 2 * i, "run %d: %d, then %d", i, got, *number);
    }
    lsg_graph_free(graph);
    lsg_free_host(number);
}

static void check_devices(void) {
    lsg_device d;
    MUST(lsg_device_get(0, &d));
    CHECK(*d.name && d.major > 0 && d.of.multiprocessors > 0 && d.total_bytes > 0 && d.free_bytes <= d.total_bytes,
          "what is said about the device");
    CHECK(lsg_device_get(1000, &d) && lsg_use(1000), "there are a thousand devices");
    MUST(lsg_use(0));
}

static void check_events(void) {
    enum { N = 100000 };
    void *memory = room(N);
    lsg_event from, to;
    float ms = -1;
    MUST(lsg_event_new(&from));
    MUST(lsg_event_new(&to));
    MUST(lsg_event_record(from, stream));
    MUST(lsg_clear(memory, N, stream));
    MUST(lsg_event_record(to, stream));
    MUST(lsg_sync(stream));
    MUST(lsg_event_ms(from, to, &ms));
    CHECK(ms >= 0, "%g ms went by", (double)ms);
    lsg_event_free(from);
    lsg_event_free(to);
    lsg_range_push("nothing");
    lsg_range_pop();
}

static void memory_is_copied_and_ends(void) {
    enum { N = 100000 };
    uint8_t *bytes = fresh(N), *back = fresh(N);
    for (int i = 0; i < N; i++) bytes[i] = (uint8_t)rnd_int(256);
    uint8_t *first = room(N), *second = room(N);
    MUST(lsg_upload(first, bytes, N, stream));
    MUST(lsg_copy(second, first, N, stream));
    MUST(lsg_clear(first, N - 1, stream));
    MUST(lsg_download(back, second, N, stream));
    MUST(lsg_sync(stream));
    CHECK(!memcmp(back, bytes, N), "what was copied is not what was uploaded");
    download(back, first, N);
    for (int i = 0; i < N; i++) CHECK(back[i] == (i < N - 1 ? 0 : bytes[i]), "byte %d is not cleared, or is", i);
    void *p = back, *host;
    CHECK(lsg_alloc(&p, (size_t)1 << 50) == 2, "a petabyte is there");
    CHECK(lsg_error(2) && *lsg_error(2) && lsg_runtime_name() && *lsg_runtime_name(),
          "no words for an error or the runtime");
    MUST(lsg_alloc(&p, 0)); // and it goes on
    lsg_free(p);
    lsg_free(NULL);
    MUST(lsg_alloc_host(&host, N));
    download(host, second, N);
    CHECK(!memcmp(host, bytes, N), "page-locked memory");
    lsg_free_host(host);
    check_devices();
    check_events();
}

const gpu_test step_tests[] = {
    TEST(begin_takes_the_step),
    TEST(replayed_graphs_compute_what_launches_do),
    TEST(calls_on_the_host_have_their_turn),
    TEST(memory_is_copied_and_ends),
    {0},
};
