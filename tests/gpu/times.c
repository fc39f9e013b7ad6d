// What each kernel takes by itself, on the shapes of an 8B model's layer: a line of JSON each. Where a whole step
// misses its goal, they say which kernel does. Weights and inputs are random bits of finite numbers: zeros would take
// less power, and so less time.
#include "base/ggml.h"
#include "tests/gpu/check.h"
#include "tests/gpu/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COPIES = 64, MANY = 2 * LSG_LARGE_ROWS };

static const lsg_shape small = {.n_layers = 1,
                                .n_embd = 576,
                                .n_ff = 1536,
                                .n_heads = 9,
                                .n_kv_heads = 3,
                                .head_dim = 64,
                                .rope_dims = 64,
                                .n_vocab = 49152};
static lsg_shape shape = {.n_layers = 1,
                          .n_embd = 4096,
                          .n_ff = 14336,
                          .n_heads = 32,
                          .n_kv_heads = 8,
                          .head_dim = 128,
                          .rope_dims = 128,
                          .n_vocab = 128256};
static size_t beyond_l2 = (size_t)256 << 20; // bytes that no cache holds
static int runs = 40;
static lsg_event from, to;
static const lsg_card *card; // of this device; NULL: not known
static char **only;          // kernel, format and rows that are timed alone; NULL: all

// What the plan says of a launch; 0: nothing.
static double on_paper(const char *kernel, lsg_format format, int32_t rows, int32_t context) {
    lsg_format formats[1][LSG_MATRICES];
    lsg_cost costs[LSG_KERNELS];
    double us = 0;
    for (int i = 0; i < LSG_MATRICES; i++) formats[0][i] = i <= LSG_HEAD ? format : LSG_NO_FORMAT;
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

// bf16, f16 and f32 numbers among them are below 2 in size.
static void *noise(size_t bytes) {
    enum { PIECE = (1 << 20) + 48 };
    static uint8_t host[PIECE];
    uint8_t *p;
    if (!host[0])
        for (size_t i = 0; i < PIECE; i++) host[i] = (uint8_t)(rnd_int(256) & 0xBF) | !i;
    MUST(lsg_alloc((void **)&p, bytes));
    for (size_t at = 0; at < bytes; at += PIECE)
        MUST(lsg_upload(p + at, host, bytes - at < PIECE ? bytes - at : PIECE, stream));
    MUST(lsg_sync(stream));
    return p;
}

// Times body(ud, i) for i = 0, 1, ..., recorded as a graph, as a step is: the host would take longer to launch small
// kernels. bytes: that one call must read of the device's memory.
static void say(const char *kernel, const char *format, int32_t rows, int32_t context, double bytes, double paper_us,
                void (*body)(void *ud, int i), void *ud) {
    float ms;
    if (only && (strcmp(kernel, only[0]) || strcmp(format, only[1]) || rows != (int32_t)strtol(only[2], NULL, 10)))
        return;
    lsg_graph graph;
    MUST(lsg_capture_begin(stream));
    for (int i = 0; i < runs; i++) body(ud, i);
    MUST(lsg_capture_end(stream, &graph));
    MUST(lsg_graph_launch(graph, stream));
    MUST(lsg_event_record(from, stream));
    MUST(lsg_graph_launch(graph, stream));
    MUST(lsg_event_record(to, stream));
    MUST(lsg_sync(stream));
    lsg_graph_free(graph);
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
// Weights for as many copies of m[0] as no cache holds.
static uint8_t *copies_of(matmul_run *r, size_t bytes) {
    r->copies = (int)(beyond_l2 / bytes) + 1;
    if (r->copies > MOST_COPIES) r->copies = MOST_COPIES;
    uint8_t *weights = noise(bytes * (size_t)r->copies);
    for (int i = 0; i < r->copies; i++) {
        r->m[i] = r->m[0];
        r->m[i].weights = weights + (size_t)i * bytes;
    }
    return weights;
}
static void matmul(void *ud, int i) {
    const matmul_run *r = ud;
    MUST(lsg_matmul(&r->m[i % r->copies], r->x, r->y, r->rows, r->rows, NULL, stream));
}

static const char *const names[] = {"matmul qkv", "matmul out", "matmul gate, up", "matmul down", "matmul head"};

static void time_matmuls(const int32_t *rows, int n_rows) {
    static const struct {
        const char *name;
        int type;
    } formats[] = {{"bf16", LS_GGML_BF16}, {"f16", LS_GGML_F16},   {"q4", LS_GGML_Q4_1},
                   {"q8", LS_GGML_Q8_0},   {"q4_k", LS_GGML_Q4_K}, {"q6_k", LS_GGML_Q6_K}};
    for (size_t f = 0; f < LENGTH(formats); f++)
        for (lsg_which k = 0; k <= LSG_HEAD; k++) {
            matmul_run r = {0};
            int32_t n_out, n_in;
            lsg_matrix_shape(&shape, k, &n_out, &n_in);
            if (lsg_matrix_init(&r.m[0], formats[f].type, n_out, n_in, shape.gpu)) continue;
            const size_t bytes = lsg_matrix_bytes(&r.m[0]);
            uint8_t *weights = copies_of(&r, bytes);
            const int32_t most = MANY;
            r.x = noise((size_t)most * (size_t)n_in * sizeof *r.x);
            r.y = zeros((size_t)most * (size_t)n_out * (size_t)r.m[0].cut.chunks * sizeof *r.y);
            for (int i = 0; i < n_rows; i++) {
                r.rows = rows[i];
                say(names[k], formats[f].name, rows[i], 0, (double)bytes, on_paper(names[k], r.m[0].format, rows[i], 0),
                    matmul, &r);
            }
            for (int large = 0; large < 2; large++) // many rows both ways
                for (r.rows = MANY / 2; r.rows <= MANY; r.rows *= 2) {
                    char what[64];
                    snprintf(what, sizeof what, "%s%s", names[k], large ? ", large tiles" : "");
                    for (int c = 0; c < r.copies; c++) r.m[c].cut.large = large ? LSG_LARGE_ALWAYS : LSG_LARGE_OFF;
                    say(what, formats[f].name, r.rows, 0, (double)bytes, 0, matmul, &r);
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
    lsg_gating gate;
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
    MUST(lsg_gate(&((step_run *)ud)->b, &((step_run *)ud)->gate, stream));
}
static void head(void *ud, int i) {
    (void)i;
    MUST(lsg_head_rows(&((step_run *)ud)->b, &((step_run *)ud)->head, stream));
}

enum { MOST_PAGES = 16 };

// A step's buffers, with room for `chunks` of every matrix's inputs; its kernels read as many chunks as the plan gives.
static step_run step_of(int32_t longest, size_t chunks) {
    const lsg_room room = lsg_room_of(&shape, longest + LST_MAX_ROWS);
    const size_t y = (size_t)LST_MAX_ROWS * (size_t)(2 * shape.n_ff + shape.n_embd) * chunks,
                 logits = room.logits * chunks;
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
              .x = noise(room.x * sizeof(float)),
              .xn = noise(room.xn * sizeof(uint16_t)),
              .q = noise(room.q * sizeof(uint16_t)),
              .y = noise((room.y > y ? room.y : y) * sizeof(float)),
              .part_o = zeros(room.part_o * sizeof(float)),
              .part_ml = zeros(room.part_ml * sizeof(float)),
              .parts = room.parts,
              .gpu = shape.gpu,
              .turns = zeros(room.turns * sizeof(float)),
              .logits = noise(logits * sizeof(float)),
              .last = zeros(room.last * sizeof(float)),
              .keys = zeros(room.keys * sizeof(uint64_t)),
              .slices = zeros(room.slices * sizeof(float))},
        .add = {.chunks = lsg_matrix_cut(&shape, LSG_DOWN, LSG_BF16).chunks,
                .norm = noise((size_t)shape.n_embd * sizeof(float)),
                .residual_scale = 1,
                .eps = 1e-5f},
        .rope = {.chunks = lsg_matrix_cut(&shape, LSG_QKV, LSG_BF16).chunks,
                 .attn_scale = 0.1f,
                 .rope_dims = shape.rope_dims},
        .head = {.chunks = lsg_matrix_cut(&shape, LSG_HEAD, LSG_BF16).chunks, .scale = 1},
        .turn = {.dims = shape.rope_dims, .freq = {zeros((size_t)shape.rope_dims * sizeof(float))}, .magnitude = {1}},
        .gate = {.chunks = lsg_matrix_cut(&shape, LSG_GATE_UP, LSG_BF16).chunks}};
    r.head.y = r.b.logits;
    uint16_t *pages[MOST_PAGES];
    const int32_t n_pages = (longest + LST_MAX_ROWS) / LSG_PAGE + 1;
    CHECK(n_pages <= MOST_PAGES, "%d pages", (int)n_pages);
    for (int32_t i = 0; i < n_pages; i++) pages[i] = zeros(lsg_page_values(&shape) * sizeof(uint16_t));
    void *at;
    MUST(lsg_alloc(&at, sizeof pages));
    upload(at, pages, sizeof pages);
    r.b.pages = at;
    int32_t *columns = fresh(room.columns * sizeof *columns);
    for (size_t i = 0; i < room.columns; i++) columns[i] = (int32_t)i;
    upload(r.b.columns, columns, room.columns * sizeof *columns);
    return r;
}

// A step of chains of eight from the root.
static void fill_step(step_run *r, lsg_step *s, int32_t rows, int32_t context) {
    memset(s, 0, sizeof *s);
    s->n_rows = r->b.rows = r->head.rows = rows;
    s->length = context;
    s->keep_row = s->head_row = -1;
    s->temperature = s->top_p = 1;
    for (int32_t i = 0; i < rows; i++) {
        s->parent[i] = !i ? -1 : i % 8 == 1 ? 0 : i - 1;
        s->depth[i] = !i ? 0 : s->depth[s->parent[i]] + 1;
        s->column[i] = context + i;
        s->uniform[i] = 0.5;
    }
    upload((void *)(uintptr_t)r->b.step, s, sizeof *s);
}

static void time_rest(const int32_t *rows, int n_rows, const int32_t *contexts, int n_contexts) {
    static lsg_step step, *const s = &step;
    step_run r = step_of(contexts[n_contexts - 1], 1);
    for (int c = 0; c < n_contexts; c++)
        for (int k = 0; k < n_rows; k++) {
            const double position = 4.0 * shape.n_kv_heads * shape.head_dim; // bytes of its key and value
            fill_step(&r, s, rows[k], contexts[c]);
            r.attend.chunks = lsg_bucket_chunks(contexts[c]);
            say("begin", "", rows[k], contexts[c], 0, 0, begin, &r);
            say("attention", "bf16", rows[k], contexts[c], position * (contexts[c] + rows[k]),
                on_paper("attention", LSG_BF16, rows[k], contexts[c]), attention, &r);
            r.b.large = LSG_LARGE_FILLING;
            if (lsg_attention_large_chunks(r.b.large, r.b.gpu, r.b.head_dim, r.b.n_kv_heads,
                                           rows[k] * r.b.n_heads / r.b.n_kv_heads, r.attend.chunks))
                say("attention, large", "bf16", rows[k], contexts[c], position * (contexts[c] + rows[k]), 0, attention,
                    &r);
            r.b.large = LSG_LARGE_OFF;
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

// A matmul and the kernel that reads its sums, as they follow each other in a step.
typedef struct {
    matmul_run m;
    step_run step;
    void (*reader)(void *ud, int i);
} pair_run;
static void pair(void *ud, int i) {
    pair_run *r = ud;
    MUST(lsg_matmul(&r->m.m[i % r->m.copies], r->m.x, r->m.y, r->m.rows, r->m.rows, NULL, stream));
    r->reader(&r->step, i);
}

// Every matrix with every number of chunks: what lsg_cut_of chooses among.
static void time_cuts(const int32_t *rows, int n_rows) {
    static const struct {
        const char *name;
        int type;
    } formats[] = {{"bf16", LS_GGML_BF16}, {"q4", LS_GGML_Q4_1}};
    static void (*const readers[])(void *, int) = {rope, add_norm, gate, add_norm, head};
    static lsg_step step;
    pair_run r = {.step = step_of(640, LSG_MATMUL_CHUNKS)};
    for (size_t f = 0; f < LENGTH(formats); f++)
        for (lsg_which k = 0; k <= LSG_HEAD; k++) {
            int32_t n_out, n_in;
            lsg_matrix_shape(&shape, k, &n_out, &n_in);
            if (lsg_matrix_init(&r.m.m[0], formats[f].type, n_out, n_in, shape.gpu)) continue;
            const size_t bytes = lsg_matrix_bytes(&r.m.m[0]);
            const int32_t groups = n_in / LSG_GROUP, planned = r.m.m[0].cut.chunks;
            uint8_t *weights = copies_of(&r.m, bytes);
            r.reader = readers[k];
            r.m.x = r.step.b.xn;
            r.m.y = k == LSG_HEAD ? r.step.b.logits : r.step.b.y;
            for (int32_t chunks = 1; chunks <= LSG_MATMUL_CHUNKS && groups >= 4 * chunks; chunks++)
                for (int i = 0; i < n_rows; i++) {
                    lsg_cut cut = r.m.m[0].cut;
                    cut.chunk_groups = (groups + chunks - 1) / chunks;
                    if ((groups + cut.chunk_groups - 1) / cut.chunk_groups != chunks) continue;
                    const int32_t blocks = (n_out + LSG_BLOCK_OUT - 1) / LSG_BLOCK_OUT * chunks;
                    cut.chunks = chunks;
                    cut.beside = blocks < shape.gpu.multiprocessors ? shape.gpu.multiprocessors / blocks : 1;
                    for (int c = 0; c < r.m.copies; c++) r.m.m[c].cut = cut;
                    r.step.rope.chunks = r.step.add.chunks = r.step.head.chunks = r.step.gate.chunks = chunks;
                    r.m.rows = rows[i];
                    fill_step(&r.step, &step, rows[i], 640);
                    char what[64];
                    snprintf(what, sizeof what, "%s, %d chunks%s", names[k], (int)chunks,
                             chunks == planned ? " (plan)" : "");
                    say(what, formats[f].name, rows[i], 0, (double)bytes, 0, pair, &r);
                }
            MUST(lsg_sync(stream));
            lsg_free(weights);
        }
}

void kernel_times(const char *what, char **of) {
    static const int32_t rows[] = {1, 8, 64}, cut_rows[] = {1, 8, 32, 64}, contexts[] = {640, 8320};
    const int tiny = !strcmp(what, "tiny"), cuts = !strncmp(what, "cuts", 4);
    lsg_device d;
    only = of;
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
    } else if (strstr(what, "small")) shape = small;
    shape.gpu = d.of;
    MUST(lsg_event_new(&from));
    MUST(lsg_event_new(&to));
    if (cuts) time_cuts(cut_rows, LENGTH(cut_rows));
    else {
        time_matmuls(rows, LENGTH(rows));
        time_rest(rows, LENGTH(rows), contexts, tiny ? 1 : LENGTH(contexts));
    }
    lsg_event_free(from), lsg_event_free(to);
}
