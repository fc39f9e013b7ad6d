// What each kernel takes by itself, on the shapes of an 8B model's layer: a line of JSON each. Where a whole step
// misses its goal, they say which kernel does. Numbers are zeros: what they are does not change the work.
#include "base/ggml.h"
#include "tests/gpu/check.h"
#include "tests/gpu/times.h"

#include <stdio.h>
#include <string.h>

enum { MOST_COPIES = 64 };

static lsg_shape shape = {.n_layers = 1,
                          .n_embd = 4096,
                          .n_ff = 14336,
                          .n_heads = 32,
                          .n_kv_heads = 8,
                          .head_dim = 128,
                          .rope_dims = 128,
                          .n_vocab = 128256};
static size_t beyond_l2 = (size_t)256 << 20; // bytes that no cache holds
static int runs = 20;
static lsg_event from, to;
static const lsg_card *card; // of this device; NULL: not known

// What the plan says of a launch; 0: nothing.
static double on_paper(const char *kernel, lsg_format format, int32_t rows, int32_t context) {
    lsg_format formats[1][LSG_MATRICES];
    lsg_cost costs[LSG_KERNELS];
    double us = 0;
    for (int i = 0; i < LSG_MATRICES; i++) formats[0][i] = format;
    const int n = card ? lsg_step_costs(card, &shape, formats, rows, context, costs) : 0;
    for (int i = 0; i < n; i++) // attention has two rows
        if (!strncmp(costs[i].kernel, kernel, strlen(kernel)))
            us += costs[i].us / (strcmp(kernel, "add, norm") ? 1 : costs[i].launches);
    return us;
}

static void *zeros(size_t bytes) {
    void *p;
    MUST(lsg_alloc(&p, bytes));
    MUST(lsg_clear(p, bytes, stream));
    return p;
}

// Times body(ud, i) for i = 0, 1, ...; bytes: that one call must read of the device's memory.
static void say(const char *kernel, const char *format, int32_t rows, int32_t context, double bytes, double paper_us,
                void (*body)(void *ud, int i), void *ud) {
    float ms;
    for (int i = 0; i < 3; i++) body(ud, i);
    MUST(lsg_event_record(from, stream));
    for (int i = 0; i < runs; i++) body(ud, i);
    MUST(lsg_event_record(to, stream));
    MUST(lsg_sync(stream));
    MUST(lsg_event_ms(from, to, &ms));
    printf(
        "{\"kind\":\"kernel\",\"kernel\":\"%s\",\"format\":\"%s\",\"rows\":%d,\"context\":%d,\"runs\":%d,\"us\":%.3f,"
        "\"bytes\":%.0f,\"paper_us\":%.3f}\n",
        kernel, format, (int)rows, (int)context, runs, 1e3 * (double)ms / runs, bytes, paper_us);
}

typedef struct {
    lsg_matrix m[MOST_COPIES];
    int copies;
    uint16_t *x;
    float *y;
    int32_t rows;
} matmul_run;
static void matmul(void *ud, int i) {
    const matmul_run *r = ud;
    MUST(lsg_matmul(&r->m[i % r->copies], r->x, r->y, r->rows, r->rows, NULL, stream));
}

static void time_matmuls(const int32_t *rows, int n_rows) {
    static const struct {
        const char *name;
        int type;
    } formats[] = {{"bf16", LS_GGML_BF16}, {"f16", LS_GGML_F16},   {"q4", LS_GGML_Q4_1},
                   {"q8", LS_GGML_Q8_0},   {"q4_k", LS_GGML_Q4_K}, {"q6_k", LS_GGML_Q6_K}};
    static const char *const names[] = {"matmul qkv", "matmul out", "matmul gate, up", "matmul down", "matmul head"};
    for (size_t f = 0; f < LENGTH(formats); f++)
        for (lsg_which k = 0; k < LSG_MATRICES; k++) {
            matmul_run r = {0};
            int32_t n_out, n_in;
            lsg_matrix_shape(&shape, k, &n_out, &n_in);
            if (lsg_matrix_init(&r.m[0], formats[f].type, n_out, n_in, shape.resident)) continue;
            const size_t bytes = lsg_matrix_bytes(&r.m[0]);
            r.copies = (int)(beyond_l2 / bytes) + 1;
            if (r.copies > MOST_COPIES) r.copies = MOST_COPIES;
            uint8_t *weights = zeros(bytes * (size_t)r.copies);
            for (int i = 0; i < r.copies; i++) {
                r.m[i] = r.m[0];
                r.m[i].weights = weights + (size_t)i * bytes;
            }
            const int32_t most = rows[n_rows - 1];
            r.x = zeros((size_t)most * (size_t)n_in * sizeof *r.x);
            r.y = zeros((size_t)most * (size_t)n_out * (size_t)r.m[0].cut.chunks * sizeof *r.y);
            for (int i = 0; i < n_rows; i++) {
                r.rows = rows[i];
                say(names[k], formats[f].name, rows[i], 0, (double)bytes, on_paper(names[k], r.m[0].format, rows[i], 0),
                    matmul, &r);
            }
            MUST(lsg_sync(stream));
            lsg_free(weights), lsg_free(r.x), lsg_free(r.y);
        }
}

typedef struct {
    lsg_buffers b;
    lsg_add add;
    lsg_rope rope;
    lsg_attend attend;
    lsg_head head;
    lsg_rotation turn;
} step_run;
static void begin(void *ud, int i) {
    (void)i;
    MUST(lsg_begin(&((step_run *)ud)->b, &((step_run *)ud)->turn, stream));
}
static void add_norm(void *ud, int i) {
    (void)i;
    MUST(lsg_add_norm(&((step_run *)ud)->b, &((step_run *)ud)->add, stream));
}
static void rope(void *ud, int i) {
    (void)i;
    MUST(lsg_rope_kv(&((step_run *)ud)->b, &((step_run *)ud)->rope, stream));
}
static void attention(void *ud, int i) {
    (void)i;
    MUST(lsg_attention(&((step_run *)ud)->b, &((step_run *)ud)->attend, stream));
}
static void gate(void *ud, int i) {
    (void)i;
    MUST(lsg_gate(&((step_run *)ud)->b, 1, NULL, LST_ACT_SILU, stream));
}
static void head(void *ud, int i) {
    (void)i;
    MUST(lsg_head_rows(&((step_run *)ud)->b, &((step_run *)ud)->head, stream));
}

static void time_rest(const int32_t *rows, int n_rows, const int32_t *contexts, int n_contexts) {
    enum { MOST_PAGES = 16 };
    const int32_t longest = contexts[n_contexts - 1];
    const lsg_room room = lsg_room_of(&shape, longest + LST_MAX_ROWS);
    step_run r = {
        .b = {.result = zeros(sizeof(lsg_result)),
              .step = zeros(sizeof(lsg_step)),
              .n_embd = shape.n_embd,
              .n_ff = shape.n_ff,
              .n_heads = shape.n_heads,
              .n_kv_heads = shape.n_kv_heads,
              .head_dim = shape.head_dim,
              .n_vocab = shape.n_vocab,
              .n_layers = 1,
              .columns = zeros(room.columns * sizeof(int32_t)),
              .ancestors = zeros(room.ancestors * sizeof(int16_t)),
              .x = zeros(room.x * sizeof(float)),
              .xn = zeros(room.xn * sizeof(uint16_t)),
              .q = zeros(room.q * sizeof(uint16_t)),
              .y = zeros(room.y * sizeof(float)),
              .part_o = zeros(room.part_o * sizeof(float)),
              .part_ml = zeros(room.part_ml * sizeof(float)),
              .parts = room.parts,
              .resident = shape.resident,
              .turns = zeros(room.turns * sizeof(float)),
              .logits = zeros(room.logits * sizeof(float)),
              .last = zeros(room.last * sizeof(float)),
              .keys = zeros(room.keys * sizeof(uint64_t)),
              .slices = zeros(room.slices * sizeof(float))},
        .add = {.chunks = 4, .norm = zeros((size_t)shape.n_embd * sizeof(float)), .residual_scale = 1, .eps = 1e-5f},
        .rope = {.chunks = 4, .attn_scale = 0.1f, .rope_dims = shape.rope_dims},
        .head = {.chunks = 1, .scale = 1},
        .turn = {.dims = shape.rope_dims, .freq = {zeros((size_t)shape.rope_dims * sizeof(float))}, .magnitude = {1}}};
    r.head.y = r.b.logits;
    uint16_t *pages[MOST_PAGES];
    const int32_t n_pages = (longest + LST_MAX_ROWS) / LSG_PAGE + 1;
    CHECK(n_pages <= MOST_PAGES, "%d pages", (int)n_pages);
    for (int32_t i = 0; i < n_pages; i++) pages[i] = zeros(lsg_page_values(&shape) * sizeof(uint16_t));
    r.b.pages = put(pages, sizeof pages);
    int32_t *columns = fresh(room.columns * sizeof *columns);
    for (size_t i = 0; i < room.columns; i++) columns[i] = (int32_t)i;
    upload(r.b.columns, columns, room.columns * sizeof *columns);
    lsg_step *s = memset(fresh(sizeof *s), 0, sizeof *s);
    for (int c = 0; c < n_contexts; c++)
        for (int k = 0; k < n_rows; k++) {
            s->n_rows = r.b.rows = r.head.rows = rows[k];
            s->length = contexts[c];
            s->keep_row = s->head_row = -1;
            s->temperature = s->top_p = 1;
            for (int32_t i = 0; i < rows[k]; i++) { // chains of eight from the root
                s->parent[i] = !i ? -1 : i % 8 == 1 ? 0 : i - 1;
                s->depth[i] = !i ? 0 : s->depth[s->parent[i]] + 1;
                s->column[i] = contexts[c] + i;
                s->uniform[i] = 0.5;
            }
            const double position = 4.0 * shape.n_kv_heads * shape.head_dim; // bytes of its key and value
            upload((void *)(uintptr_t)r.b.step, s, sizeof *s);
            r.attend.chunks = lsg_bucket_chunks(contexts[c]);
            say("begin", "", rows[k], contexts[c], 0, 0, begin, &r);
            say("attention", "bf16", rows[k], contexts[c], position * (contexts[c] + rows[k]),
                on_paper("attention", LSG_BF16, rows[k], contexts[c]), attention, &r);
            if (c) continue;
            say("add, norm", "", rows[k], 0, 0, on_paper("add, norm", LSG_BF16, rows[k], 0), add_norm, &r);
            say("rotate, keys, values", "", rows[k], 0, 0, on_paper("rotate, keys, values", LSG_BF16, rows[k], 0), rope,
                &r);
            say("gate", "", rows[k], 0, 0, on_paper("gate", LSG_BF16, rows[k], 0), gate, &r);
            const double logits = 4.0 * rows[k] * shape.n_vocab;
            r.head.sampled = 0;
            say("head's rows, greedy", "", rows[k], 0, logits, on_paper("head's rows", LSG_BF16, rows[k], 0), head, &r);
            for (int cut = 0; cut < 2; cut++) {
                s->sampled = r.head.sampled = 1;
                s->top_k = cut ? 40 : 0;
                s->top_p = cut ? 0.9 : 1;
                upload((void *)(uintptr_t)r.b.step, s, sizeof *s);
                say(cut ? "head's rows, top-k 40, top-p 0.9" : "head's rows, temperature 1", "", rows[k], 0, logits, 0,
                    head, &r);
            }
            s->sampled = 0;
        }
    MUST(lsg_sync(stream)); // the process ends: what is left goes with it
}

void kernel_times(int tiny) {
    static const int32_t rows[] = {1, 8, 64}, contexts[] = {640, 8320};
    lsg_device d;
    MUST(lsg_device_get(0, &d));
    card = lsg_card_of(d.name);
    if (tiny) {
        card = lsg_cards; // whichever: the numbers mean nothing
        shape = (lsg_shape){.n_layers = 1,
                            .n_embd = 64,
                            .n_ff = 96,
                            .n_heads = 4,
                            .n_kv_heads = 2,
                            .head_dim = 16,
                            .rope_dims = 16,
                            .n_vocab = 300};
        beyond_l2 = 0;
        runs = 1;
    }
    shape.resident = lsg_resident(d.multiprocessors, d.shared_kib);
    MUST(lsg_event_new(&from));
    MUST(lsg_event_new(&to));
    time_matmuls(rows, LENGTH(rows));
    time_rest(rows, LENGTH(rows), contexts, tiny ? 1 : LENGTH(contexts));
    lsg_event_free(from), lsg_event_free(to);
}
