// Every CUDA kernel against its plain twin, and the promise that a row's bits do not depend on what else is computed
// with it. Runs alike on a GPU and on the emulated device; needs no test library, so that it builds on a bare GPU
// machine. Prints as cmocka does, so that tests/run.py counts it. An argument runs only the tests whose name holds it.
#include "base/rng.h"
#include "base/sample.h"
#include "tests/unit/random_tensor.h"
#include "torch/kernels/gpu.h"
#include "torch/kernels/gpu_runtime.h"
#include "torch/kernels/kernels.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OWNED = 512, MOST_SAID = 8 };

static const char *running;
static int wrong; // failed checks of the running test
static lsg_stream stream;
static void *on_device[MAX_OWNED], *on_host[MAX_OWNED]; // memory of the running test
static int n_device, n_host;

__attribute__((format(printf, 2, 3))) static void fail(int line, const char *format, ...) {
    if (wrong++ >= MOST_SAID) return;
    va_list args;
    va_start(args, format);
    printf("tests/gpu/kernels.c:%d: ", line);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}
#define CHECK(is, ...)                                                                                                 \
    do {                                                                                                               \
        if (!(is)) fail(__LINE__, __VA_ARGS__);                                                                        \
    } while (0)

// Nothing goes on after an error of the device: what it holds is unknown.
static void must(int error, int line) {
    if (!error) return;
    printf("tests/gpu/kernels.c:%d: %s (%d)\n[  FAILED  ] %s\n", line, lsg_error(error), error, running);
    exit(1);
}
#define MUST(call) must((call), __LINE__)

// ---- memory: all of it begins as NaN, and ends with the test

static void *fresh(size_t bytes) {
    void *p = malloc(bytes + 1);
    if (!p || n_host == MAX_OWNED) abort();
    on_host[n_host++] = p;
    return memset(p, 0xFF, bytes);
}
static void send(void *device, const void *host, size_t bytes) {
    MUST(lsg_upload(device, host, bytes, stream));
    MUST(lsg_sync(stream));
}
static void fetch(void *host, const void *device, size_t bytes) {
    MUST(lsg_download(host, device, bytes, stream));
    MUST(lsg_sync(stream));
}
static void *put(const void *host, size_t bytes) {
    void *p;
    if (n_device == MAX_OWNED) abort();
    MUST(lsg_alloc(&p, bytes));
    on_device[n_device++] = p;
    send(p, host, bytes);
    return p;
}
static void *room(size_t bytes) {
    void *nan = malloc(bytes + 1);
    if (!nan) abort();
    void *p = put(memset(nan, 0xFF, bytes), bytes);
    free(nan);
    return p;
}
static void release(void) {
    MUST(lsg_sync(stream));
    while (n_device) lsg_free(on_device[--n_device]);
    while (n_host) free(on_host[--n_host]);
}

// ---- numbers

static float bf16_value(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, 4);
    return f;
}
// bf16 numbers from a to b
static int32_t ulps(uint16_t a, uint16_t b) {
    const int32_t x = a & 0x8000 ? -(a & 0x7FFF) : a, y = b & 0x8000 ? -(b & 0x7FFF) : b;
    return x > y ? x - y : y - x;
}
static float *random_floats(size_t n, float scale, float offset) {
    float *v = fresh(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = scale * rnd() + offset;
    return v;
}
static void random_bf16(uint16_t *v, size_t n, float scale) {
    for (size_t i = 0; i < n; i++) v[i] = lsk_float_to_bf16(scale * rnd());
}

// bf16 that came from floats which agree to their last digits: now and then they round to neighbours. Where terms
// nearly cancel each other that says nothing: `small` is what such floats may differ by.
static void close_bf16(int line, const char *what, const uint16_t *got, const uint16_t *want, size_t n, float small) {
    size_t other = 0;
    for (size_t i = 0; i < n; i++) {
        if (got[i] == want[i] || fabsf(bf16_value(got[i]) - bf16_value(want[i])) <= small) continue;
        other++;
        if (ulps(got[i], want[i]) > 1)
            fail(line, "%s: %g instead of %g at %zu", what, (double)bf16_value(got[i]), (double)bf16_value(want[i]), i);
    }
    if (other * 100 > n + 100) fail(line, "%s: %zu of %zu numbers differ", what, other, n);
}
#define CLOSE_BF16(what, got, want, n, small) close_bf16(__LINE__, what, got, want, n, small)

// ---- packed weights

static const int types[] = {0, 1, 30, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20};
enum { TYPES = sizeof types / sizeof *types };

typedef struct {
    lsg_matrix host, device;
} matrix;

// rows_first, of type, come first; the others are of type_rest, which has the same format.
static matrix stacked(int type, int64_t rows_first, int type_rest, int64_t n_out, int64_t n_in) {
    matrix m;
    unsigned char *first = random_raw(type, rows_first, n_in), *rest = random_raw(type_rest, n_out - rows_first, n_in);
    if (lsg_matrix_init(&m.host, type, n_out, n_in)) abort();
    const size_t w = lsg_weight_bytes(&m.host), s = lsg_scale_bytes(&m.host);
    uint8_t *host = fresh(w + s);
    memset(host, 0, w + s);
    lsg_pack_rows(&m.host, host, rows_first, type_rest, rest, n_out - rows_first);
    lsg_pack_rows(&m.host, host, 0, type, first, rows_first);
    free(first);
    free(rest);
    const uint8_t *device = put(host, w + s);
    m.device = m.host;
    m.host.weights = host;
    m.host.scales = host + w;
    m.device.weights = device;
    m.device.scales = device + w;
    return m;
}
static matrix random_matrix(int type, int64_t n_out, int64_t n_in) {
    return stacked(type, n_out / 2, type, n_out, n_in);
}

static void packed_values_are_those_of_the_file(void) {
    const int64_t outs[] = {1, 7, 16, 40, 100}, ins[] = {32, 96, 256, 544, 768};
    for (int t = 0; t < TYPES; t++)
        for (size_t i = 0; i < 25; i++) {
            const int64_t n_out = outs[i / 5], n_in = ins[i % 5];
            lsg_matrix m;
            if (lsg_matrix_init(&m, types[t], n_out, n_in)) {
                CHECK(n_in % 256 && types[t] >= 10 && types[t] <= 14, "type %d, %d inputs: not kept", types[t],
                      (int)n_in);
                continue;
            }
            CHECK(m.n_out == n_out && m.n_in == n_in && m.chunks >= 1 && m.chunk_groups * m.chunks * LSG_GROUP >= n_in,
                  "type %d: a shape that does not hold %d inputs", types[t], (int)n_in);
            unsigned char *raw = random_raw(types[t], n_out, n_in);
            const size_t row = lsk_row_bytes(types[t], n_in), w = lsg_weight_bytes(&m), s = lsg_scale_bytes(&m);
            CHECK(w % 256 == 0 && s % 256 == 0, "type %d: %zu and %zu bytes", types[t], w, s);
            uint8_t *host = calloc(w + s, 1);
            float *want = malloc((size_t)n_in * sizeof *want);
            for (int64_t o = n_out; o--;)
                lsg_pack_rows(&m, host, o, types[t], raw + (size_t)o * row, 1); // in any order
            m.weights = host;
            m.scales = host + w;
            for (int64_t o = 0; o < (n_out + 31) / 32 * 32; o++) {
                if (o < n_out) lsk_dequant_row(types[t], raw + (size_t)o * row, n_in, want);
                else memset(want, 0, (size_t)n_in * sizeof *want); // what fills the last tiles
                for (int64_t k = 0; k < n_in; k++) {
                    const float x = types[t] ? want[k] : bf16_value(lsk_float_to_bf16(want[k])),
                                v = lsg_value(&m, o, k);
                    CHECK(v == x, "type %d, %d x %d: %g instead of %g at %d, %d", types[t], (int)n_out, (int)n_in,
                          (double)v, (double)x, (int)o, (int)k);
                }
            }
            free(raw);
            free(host);
            free(want);
        }
    lsg_matrix m;
    CHECK(lsg_matrix_init(&m, 0, 16, 33) && lsg_matrix_init(&m, 2, 16, 48) && lsg_matrix_init(&m, 12, 16, 96) &&
              lsg_matrix_init(&m, 99, 16, 32) && lsg_matrix_init(&m, 8, 0, 32) && lsg_matrix_init(&m, 8, 16, 0) &&
              lsg_matrix_init(&m, 8, (int64_t)1 << 40, 32),
          "a shape or type that cannot be kept");
}

static void stacked_tensors_may_have_different_types(void) {
    const int pairs[][2] = {{2, 3}, {3, 2}, {0, 30}, {6, 14}, {13, 10}, {11, 20}, {7, 6}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        enum { N_OUT = 40, FIRST = 19, N_IN = 256 };
        unsigned char *first = random_raw(pairs[i][0], FIRST, N_IN),
                      *rest = random_raw(pairs[i][1], N_OUT - FIRST, N_IN);
        lsg_matrix m;
        CHECK(!lsg_matrix_init(&m, pairs[i][0], N_OUT, N_IN), "type %d is not kept", pairs[i][0]);
        const size_t w = lsg_weight_bytes(&m);
        uint8_t *host = calloc(w + lsg_scale_bytes(&m), 1);
        m.weights = host;
        m.scales = host + w;
        lsg_pack_rows(&m, host, 0, pairs[i][0], first, FIRST);
        lsg_pack_rows(&m, host, FIRST, pairs[i][1], rest, N_OUT - FIRST);
        for (int o = 0; o < N_OUT; o++) {
            const int type = pairs[i][o >= FIRST];
            float want[N_IN];
            lsk_dequant_row(
                type, (o < FIRST ? first : rest) + (size_t)(o < FIRST ? o : o - FIRST) * lsk_row_bytes(type, N_IN),
                N_IN, want);
            for (int k = 0; k < N_IN; k++) {
                const float x = type ? want[k] : bf16_value(lsk_float_to_bf16(want[k]));
                CHECK(lsg_value(&m, o, k) == x, "types %d, %d: %d, %d", pairs[i][0], pairs[i][1], o, k);
            }
        }
        free(first);
        free(rest);
        free(host);
    }
}

// ---- matmul

// Products of one matrix: each input alone against the twin, then blocks of any number of rows, any input at any place,
// which must have the same bits.
static void check_matmul(const matrix *m, const int32_t *counts, int32_t n_counts) {
    enum { INPUTS = 12, MOST_ROWS = 130, MORE = 3 };
    const int32_t n_out = m->host.n_out, n_in = m->host.n_in, chunks = m->host.chunks;
    const size_t row = (size_t)chunks * (size_t)n_out;
    uint16_t *inputs = malloc(sizeof *inputs * INPUTS * (size_t)n_in),
             *x = malloc(sizeof *x * MOST_ROWS * (size_t)n_in);
    float *alone = malloc(sizeof *alone * INPUTS * row), *want = malloc(sizeof *want * INPUTS * (size_t)n_out);
    const size_t y_bytes = sizeof(float) * (MOST_ROWS + MORE) * row;
    float *y = malloc(y_bytes);
    void *const nan = memset(malloc(y_bytes), 0xFF, y_bytes);
    void *x_device, *y_device, *n_device_rows; // no larger than they must be
    MUST(lsg_alloc(&x_device, sizeof *x * (size_t)n_in));
    MUST(lsg_alloc(&y_device, sizeof *y * row));
    MUST(lsg_alloc(&n_device_rows, sizeof(int32_t)));
    random_bf16(inputs, (size_t)INPUTS * (size_t)n_in, 1);
    for (int32_t i = 0; i < INPUTS; i++) {
        send(x_device, inputs + (size_t)i * (size_t)n_in, (size_t)n_in * sizeof *x);
        send(y_device, nan, row * sizeof *y);
        MUST(lsg_matmul(&m->device, x_device, y_device, 1, 1, NULL, stream));
        fetch(alone + (size_t)i * row, y_device, row * sizeof *y);
    }
    lsg_plain_matmul(&m->host, inputs, want, INPUTS);
    for (int32_t o = 0; o < n_out; o++)
        for (int32_t i = 0; i < INPUTS; i++) {
            double size = 0;
            for (int32_t k = 0; k < n_in; k++)
                size +=
                    (double)fabsf(bf16_value(inputs[(size_t)i * (size_t)n_in + (size_t)k]) * lsg_value(&m->host, o, k));
            float sum = alone[(size_t)i * row + (size_t)o];
            for (int32_t c = 1; c < chunks; c++) sum += alone[(size_t)i * row + (size_t)c * (size_t)n_out + (size_t)o];
            const double off = fabs((double)sum - (double)want[(size_t)i * (size_t)n_out + (size_t)o]);
            CHECK(off <= 1e-5 * size, "format %d, %d x %d: %g off of %g at output %d", (int)m->host.format, (int)n_out,
                  (int)n_in, off, size, (int)o); // relative to the sum of the products' magnitudes
        }
    for (int32_t n = 0; n < n_counts; n++) {
        const int32_t rows = counts[n], rows_y = rows + (n % 2 ? MORE : 0), there = n % 3 ? rows : rows - rows / 3;
        int32_t of[MOST_ROWS];
        for (int32_t r = 0; r < rows; r++) {
            of[r] = (int32_t)rnd_int(INPUTS);
            memcpy(x + (size_t)r * (size_t)n_in, inputs + (size_t)of[r] * (size_t)n_in, (size_t)n_in * sizeof *x);
        }
        // inputs beyond the rows that are there may be anything
        memset(x + (size_t)there * (size_t)n_in, 0xFF, (size_t)(rows - there) * (size_t)n_in * sizeof *x);
        lsg_free(x_device);
        lsg_free(y_device);
        MUST(lsg_alloc(&x_device, sizeof *x * (size_t)rows * (size_t)n_in));
        MUST(lsg_alloc(&y_device, sizeof *y * (size_t)rows_y * row));
        send(x_device, x, sizeof *x * (size_t)rows * (size_t)n_in);
        send(y_device, nan, sizeof *y * (size_t)rows_y * row);
        send(n_device_rows, &there, sizeof there);
        MUST(lsg_matmul(&m->device, x_device, y_device, rows_y, rows, n % 3 == 1 ? NULL : n_device_rows, stream));
        fetch(y, y_device, sizeof *y * (size_t)rows_y * row);
        for (int32_t c = 0; c < chunks; c++)
            for (int32_t r = 0; r < rows_y; r++) {
                const float *got = y + ((size_t)c * (size_t)rows_y + (size_t)r) * (size_t)n_out;
                const void *expected =
                    r < there ? alone + (size_t)of[r] * row + (size_t)c * (size_t)n_out : (float *)nan;
                CHECK(!memcmp(got, expected, (size_t)n_out * sizeof *got),
                      "format %d, %d x %d: row %d of %d, %d there, %s", (int)m->host.format, (int)n_out, (int)n_in,
                      (int)r, (int)rows, (int)there, r < there ? "is not what it is alone" : "is written");
            }
    }
    lsg_free(x_device);
    lsg_free(y_device);
    lsg_free(n_device_rows);
    free(inputs);
    free(x);
    free(alone);
    free(want);
    free(y);
    free(nan);
}

static void matmul_of_a_row_is_the_same_in_any_block(void) {
    const int of_format[] = {0, 1, 3, 8, 12, 14};
    const int64_t shapes[][2] = {{16, 32}, {40, 96}, {208, 576}, {1, 1056}, {40, 256}, {208, 512}, {72, 1280}};
    for (size_t t = 0; t < sizeof of_format / sizeof *of_format; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            lsg_matrix shape;
            if (lsg_matrix_init(&shape, of_format[t], shapes[i][0], shapes[i][1])) continue;
            const int32_t counts[] = {1, 2, 3, 5, 8, 9, 12, 16, 17, 25, 32, 33, 47, 64, 65, 70, 130};
            const matrix m = random_matrix(of_format[t], shapes[i][0], shapes[i][1]);
            check_matmul(&m, counts, sizeof counts / sizeof *counts);
        }
}

static void matmul_of_other_types_and_large_shapes(void) {
    const int32_t counts[] = {1, 7, 16, 30, 70};
    for (int t = 0; t < TYPES; t++) {
        const matrix m = random_matrix(types[t], 72, 512);
        check_matmul(&m, counts, 3);
    }
    const int of_format[] = {30, 1, 2, 8, 12, 13};
    for (size_t t = 0; t < sizeof of_format / sizeof *of_format; t++) {
        const matrix m = random_matrix(of_format[t], 600, 2048);
        check_matmul(&m, counts, 5);
    }
    const matrix wide = random_matrix(3, 17000, 32); // all warps side by side
    CHECK(wide.host.warps_out == 4 && wide.host.chunks == 1, "a wide matrix is split");
    check_matmul(&wide, counts, 3);
}

// Every split of the work, whatever the shape would choose.
static void matmul_is_right_in_any_split(void) {
    const int of_format[] = {0, 1, 2, 8, 12, 11};
    enum { GROUPS = 40 };
    const int32_t counts[] = {4, 16, 21, 65}, chunk_groups[] = {5, 16, 27, GROUPS}; // from less than a stage to five
    for (size_t t = 0; t < sizeof of_format / sizeof *of_format; t++)
        for (int32_t warps = 1; warps <= 4; warps *= 2)
            for (size_t i = 0; i < sizeof chunk_groups / sizeof *chunk_groups; i++) {
                matrix m = random_matrix(of_format[t], 104, GROUPS * LSG_GROUP);
                m.host.warps_out = m.device.warps_out = warps;
                m.host.chunk_groups = m.device.chunk_groups = chunk_groups[i];
                m.host.chunks = m.device.chunks = (GROUPS + chunk_groups[i] - 1) / chunk_groups[i];
                check_matmul(&m, counts, 4);
            }
}

// ---- buffers of a session, on the host for the twins and on the device

enum { N_PAGES = 3, CONTEXT = N_PAGES * LSG_PAGE };

typedef struct {
    lsg_buffers host, device;
    lsg_step *step; // host.step
    uint16_t *page_of[N_PAGES], *device_page[N_PAGES];
    size_t y_floats, page_values;
} session;

// sizes: n_embd ... n_layers, what is 0 has no buffers.
static session session_new(int32_t rows, lsg_buffers sizes, size_t y_of_row, int32_t attention_chunks) {
    session s = {.host = sizes, .device = sizes, .y_floats = (size_t)rows * y_of_row};
    const size_t r = (size_t)rows, q = (size_t)sizes.n_heads * (size_t)sizes.head_dim;
    size_t widest = (size_t)sizes.n_embd > q ? (size_t)sizes.n_embd : q;
    if ((size_t)sizes.n_ff > widest) widest = (size_t)sizes.n_ff;
    s.page_values = 2 * (size_t)(sizes.n_layers * sizes.n_kv_heads) * LSG_PAGE * (size_t)sizes.head_dim;
    s.host.rows = s.device.rows = rows;
    s.host.step = s.step = fresh(sizeof(lsg_step));
    memset(s.step, 0, sizeof *s.step);
    s.step->keep_row = s.step->head_row = -1;
    s.device.step = room(sizeof(lsg_step));
#define BOTH(field, bytes)                                                                                             \
    s.host.field = fresh(bytes);                                                                                       \
    s.device.field = room(bytes)
    BOTH(result, sizeof(lsg_result));
    BOTH(columns, CONTEXT * sizeof(int32_t));
    BOTH(ancestors, sizeof(int16_t) * LST_MAX_ROWS * LST_MAX_ROWS);
    BOTH(x, r * (size_t)sizes.n_embd * sizeof(float));
    BOTH(xn, r * widest * sizeof(uint16_t));
    BOTH(q, r * q * sizeof(uint16_t));
    BOTH(y, s.y_floats * sizeof(float));
    BOTH(part_o, (size_t)attention_chunks * r * q * sizeof(float));
    BOTH(part_ml, (size_t)attention_chunks * r * (size_t)sizes.n_heads * 2 * sizeof(float));
    BOTH(logits, r * (size_t)sizes.n_vocab * sizeof(float));
    BOTH(last, (size_t)sizes.n_vocab * sizeof(float));
    BOTH(keys, lsg_keys_count(rows, sizes.n_vocab) * sizeof(uint64_t));
    BOTH(slices, lsg_slices_floats(rows, sizes.n_vocab) * sizeof(float));
#undef BOTH
    for (int i = 0; i < N_PAGES; i++) {
        s.page_of[i] = fresh(s.page_values * sizeof(uint16_t));
        s.device_page[i] = room(s.page_values * sizeof(uint16_t));
    }
    uint16_t **pages = fresh(sizeof s.page_of);
    memcpy(pages, s.page_of, sizeof s.page_of);
    s.host.pages = pages;
    s.device.pages = put(s.device_page, sizeof s.device_page);
    return s;
}

static void send_step(const session *s) {
    send((void *)(uintptr_t)s->device.step, s->step, sizeof *s->step);
}

// A tree of n rows: one path, or any.
static void random_tree(lsg_step *s, int32_t n, int chain) {
    s->n_rows = n;
    for (int32_t i = 0; i < n; i++) {
        s->parent[i] = i == 0 ? -1 : chain || rnd_int(2) ? i - 1 : (int32_t)rnd_int((uint32_t)i);
        s->depth[i] = i == 0 ? 0 : s->depth[s->parent[i]] + 1;
    }
}

// Different cache columns, of all pages.
static void random_columns(int32_t *columns, int32_t n) {
    static int32_t all[CONTEXT];
    for (int32_t i = 0; i < CONTEXT; i++) all[i] = i;
    for (int32_t i = 0; i < n; i++) {
        const int32_t at = i + (int32_t)rnd_int((uint32_t)(CONTEXT - i)), c = all[at];
        all[at] = all[i];
        columns[i] = all[i] = c;
    }
}

// ---- rows

static void embedding_rows_are_the_weights(void) {
    enum { ROWS = 9, N_EMBD = 512, N_VOCAB = 40 };
    for (int t = 0; t < TYPES; t++) {
        const matrix m = random_matrix(types[t], N_VOCAB, N_EMBD);
        session s = session_new(ROWS, (lsg_buffers){.n_embd = N_EMBD}, 1, 0);
        const float scale = t % 2 ? 1 : 1.7f;
        s.step->n_rows = ROWS - 2;
        for (int r = 0; r < ROWS; r++) s.step->token[r] = r == 1 ? N_VOCAB - 1 : (int32_t)rnd_int(N_VOCAB);
        send_step(&s);
        MUST(lsg_embed(&s.device, &m.device, scale, stream));
        fetch(s.host.x, s.device.x, sizeof(float) * ROWS * N_EMBD);
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < N_EMBD; i++) {
                const float got = s.host.x[r * N_EMBD + i], want = lsg_value(&m.host, s.step->token[r], i) * scale;
                CHECK(r < ROWS - 2 ? got == want : isnan(got), "type %d: %g instead of %g in row %d", types[t],
                      (double)got, (double)want, r);
            }
        release();
    }
}

static void add_norm_is_its_twin(void) {
    enum { ROWS = 4, THERE = 3 };
    const int32_t widths[] = {32, 96, 576, 2048};
    for (int i = 0; i < 96; i++) {
        const int32_t n = widths[i % 4];
        const int bias = i / 8 % 2, post = i / 16 % 2, norm = i / 4 % 2, chunks = i / 32 == 0 ? 1 : i / 32 == 1 ? 3 : 0;
        session s = session_new(ROWS, (lsg_buffers){.n_embd = n}, (size_t)n * 3, 0);
        const size_t values = ROWS * (size_t)n, vector = (size_t)n * sizeof(float);
        for (size_t k = 0; k < values; k++) s.host.x[k] = 2 * rnd();
        for (size_t k = 0; k < 3 * values; k++) s.host.y[k] = rnd();
        send(s.device.x, s.host.x, values * sizeof(float));
        send(s.device.y, s.host.y, 3 * values * sizeof(float));
        s.step->n_rows = THERE;
        send_step(&s);
        const float *w[3] = {random_floats((size_t)n, 1, 0), random_floats((size_t)n, 0.5f, 1),
                             random_floats((size_t)n, 0.5f, 1)};
        lsg_add a = {chunks,
                     bias ? w[0] : NULL,
                     post ? w[1] : NULL,
                     norm ? w[2] : NULL,
                     i % 3 ? 1 : 0.22f,
                     i % 5 ? 1e-5f : 0.3f},
                d = a;
        if (bias) d.bias = put(a.bias, vector);
        if (post) d.post_norm = put(a.post_norm, vector);
        if (norm) d.norm = put(a.norm, vector);
        MUST(lsg_add_norm(&s.device, &d, stream));
        lsg_plain_add_norm(&s.host, &a);
        float *x = fresh(values * sizeof *x);
        uint16_t *xn = fresh(values * sizeof *xn);
        fetch(x, s.device.x, values * sizeof *x);
        fetch(xn, s.device.xn, values * sizeof *xn);
        for (size_t k = 0; k < values; k++) // relative to what is added up
            CHECK(fabsf(x[k] - s.host.x[k]) <= 1e-5f * (1 + fabsf(s.host.x[k])), "case %d: %g instead of %g", i,
                  (double)x[k], (double)s.host.x[k]);
        CLOSE_BF16("the norm", xn, s.host.xn, values, 1e-5f); // rows that are not there: NaN in both
        release();
    }
}

static void rope_kv_is_its_twin(void) {
    enum { ROWS = 6, THERE = 5, LAYER = 1 };
    const int32_t shapes[][3] = {
        {4, 2, 32}, {2, 2, 16}, {9, 3, 64}, {5, 1, 96}, {8, 1, 128}}; // heads of q, of k; head_dim
    for (int i = 0; i < 60; i++) {
        const int32_t *shape = shapes[i % 5], hd = shape[2], n = (shape[0] + 2 * shape[1]) * hd;
        const int chunks = 1 + i % 2, qk_norm = i % 3;
        session s =
            session_new(ROWS, (lsg_buffers){.n_heads = shape[0], .n_kv_heads = shape[1], .head_dim = hd, .n_layers = 2},
                        2 * (size_t)n, 0);
        for (size_t k = 0; k < s.y_floats; k++) s.host.y[k] = rnd();
        send(s.device.y, s.host.y, s.y_floats * sizeof(float));
        random_tree(s.step, THERE, 0);
        s.step->length = (int32_t)rnd_int(3000);
        random_columns(s.step->column, ROWS);
        send_step(&s);
        lsg_rope a = {.layer = LAYER,
                      .chunks = chunks,
                      .qk_norm = qk_norm,
                      .eps = i / 3 % 2 ? 1e-6f : 0.2f,
                      .attn_scale = 0.125f,
                      .rope_dims = i / 4 % 2 ? hd / 2 : hd,
                      .rope_interleaved = i / 2 % 2,
                      .rope_magnitude = i / 8 % 2 ? 1 : 1.2f};
        float *freq = fresh((size_t)hd / 2 * sizeof *freq);
        for (int k = 0; k < a.rope_dims / 2; k++) freq[k] = (float)pow(10000, -2.0 * k / a.rope_dims);
        const size_t norms[2] = {(size_t)(qk_norm == LST_QK_NORM_WHOLE ? shape[0] * hd : hd),
                                 (size_t)(qk_norm == LST_QK_NORM_WHOLE ? shape[1] * hd : hd)};
        a.rope_freq = freq;
        if (i / 3 % 2) a.bias = random_floats((size_t)n, 1, 0);
        if (qk_norm) a.q_norm = random_floats(norms[0], 0.5f, 1), a.k_norm = random_floats(norms[1], 0.5f, 1);
        lsg_rope d = a;
        d.rope_freq = put(freq, (size_t)hd / 2 * sizeof *freq);
        if (a.bias) d.bias = put(a.bias, (size_t)n * sizeof(float));
        if (qk_norm)
            d.q_norm = put(a.q_norm, norms[0] * sizeof(float)), d.k_norm = put(a.k_norm, norms[1] * sizeof(float));
        MUST(lsg_rope_kv(&s.device, &d, stream));
        lsg_plain_rope_kv(&s.host, &a);
        const size_t nq = ROWS * (size_t)(shape[0] * hd);
        uint16_t *q = fresh(nq * sizeof *q), *page = fresh(s.page_values * sizeof *page);
        fetch(q, s.device.q, nq * sizeof *q);
        CLOSE_BF16("queries", q, s.host.q, nq, 1e-6f);
        size_t other = 0, written = 0;
        for (int p = 0; p < N_PAGES; p++) {
            fetch(page, s.device_page[p], s.page_values * sizeof *page);
            for (size_t k = 0; k < s.page_values; k++) {
                const uint16_t want = s.page_of[p][k];
                written += want != 0xFFFF;
                if (page[k] == want) continue;
                other++;
                CHECK(ulps(page[k], want) <= 1 || fabsf(bf16_value(page[k]) - bf16_value(want)) < 1e-6f,
                      "case %d: page %d has %g instead of %g at %zu", i, p, (double)bf16_value(page[k]),
                      (double)bf16_value(want), k);
            }
        }
        CHECK(written == THERE * 2 * (size_t)(shape[1] * hd) && other * 100 <= written + 100,
              "case %d: %zu of %zu differ", i, other, written);
        release();
    }
}

static void gate_is_its_twin(void) {
    enum { ROWS = 5, THERE = 4, N_FF = 700 };
    for (int i = 0; i < 8; i++) {
        const int32_t chunks = i % 2 ? 3 : 1, activation = i / 2 % 2 ? LST_ACT_GELU_TANH : LST_ACT_SILU;
        session s = session_new(ROWS, (lsg_buffers){.n_ff = N_FF}, 2 * N_FF * 3, 0);
        for (size_t k = 0; k < s.y_floats; k++) s.host.y[k] = k % 100 ? 4 * rnd() : 60 * rnd(); // some saturate
        send(s.device.y, s.host.y, s.y_floats * sizeof(float));
        s.step->n_rows = THERE;
        send_step(&s);
        const float *bias = i / 4 ? random_floats(2 * N_FF, 1, 0) : NULL;
        MUST(lsg_gate(&s.device, chunks, bias ? put(bias, 2 * N_FF * sizeof *bias) : NULL, activation, stream));
        lsg_plain_gate(&s.host, chunks, bias, activation);
        uint16_t *xn = fresh(ROWS * N_FF * sizeof *xn);
        fetch(xn, s.device.xn, ROWS * N_FF * sizeof *xn);
        CLOSE_BF16("the gate", xn, s.host.xn, ROWS * N_FF, 2e-5f); // 1 + tanh of a number far below 0
        release();
    }
}

// ---- attention

typedef struct {
    int32_t group, n_kv_heads, head_dim, window;
    float softcap;
    int32_t length, rows, chain;
} scene;

enum { LAYERS = 2, LAYER = 1, ROOM = 64, CHUNKS = 5 };

// Puts the step, queries and columns on the device and takes what `rows` launched rows see.
static void see(session *s, int32_t rows, const lsg_attend *a, uint16_t *out) {
    const size_t row = (size_t)(s->host.n_heads * s->host.head_dim);
    s->host.rows = s->device.rows = rows;
    send_step(s);
    send(s->device.columns, s->host.columns, CONTEXT * sizeof(int32_t));
    send(s->device.q, s->host.q, (size_t)s->step->n_rows * row * sizeof(uint16_t));
    memset(out, 0xFF, ROOM * row * sizeof *out);
    send(s->device.xn, out, ROOM * row * sizeof *out);
    MUST(lsg_begin(&s->device, stream));
    MUST(lsg_attention(&s->device, a, stream));
    fetch(out, s->device.xn, ROOM * row * sizeof *out);
}

static uint16_t *key_or_value(const session *s, int value, int32_t head, int32_t column) {
    return s->page_of[column / LSG_PAGE] +
           (((size_t)(LAYER * 2 + value) * (size_t)s->host.n_kv_heads + (size_t)head) * LSG_PAGE +
            (size_t)(column % LSG_PAGE)) *
               (size_t)s->host.head_dim;
}

static void check_attention(const scene *c) {
    session s = session_new(ROOM,
                            (lsg_buffers){.n_heads = c->group * c->n_kv_heads,
                                          .n_kv_heads = c->n_kv_heads,
                                          .head_dim = c->head_dim,
                                          .n_layers = LAYERS,
                                          .n_vocab = 1},
                            1, CHUNKS);
    const size_t hd = (size_t)c->head_dim, row = (size_t)s.host.n_heads * hd;
    lsg_step *step = s.step;
    int32_t columns[CONTEXT]; // of the context, of rows, spare ones
    random_columns(columns, CONTEXT);
    random_tree(step, c->rows, c->chain);
    step->length = c->length;
    memcpy(step->column, columns + c->length, (size_t)c->rows * sizeof(int32_t));
    memcpy(s.host.columns, columns, (size_t)c->length * sizeof(int32_t));
    int32_t *spare = columns + c->length + c->rows;
    for (int32_t i = 0; i < c->length + c->rows; i++)
        for (int32_t h = 0; h < 2 * c->n_kv_heads; h++) random_bf16(key_or_value(&s, h % 2, h / 2, columns[i]), hd, 1);
    // what rows hold stands at other columns too, for when they are committed
    for (int32_t i = 0; i < c->rows; i++)
        for (int32_t h = 0; h < 2 * c->n_kv_heads; h++)
            memcpy(key_or_value(&s, h % 2, h / 2, spare[i]), key_or_value(&s, h % 2, h / 2, step->column[i]), hd * 2);
    for (int p = 0; p < N_PAGES; p++) send(s.device_page[p], s.page_of[p], s.page_values * sizeof(uint16_t));
    random_bf16(s.host.q, (size_t)c->rows * row, 3);
    int32_t deepest = 0;
    for (int32_t r = 0; r < c->rows; r++)
        if (step->depth[r] > deepest) deepest = step->depth[r];
    const lsg_attend a = {LAYER, (c->length + deepest) / LSG_CHUNK + 1, c->window, c->softcap},
                     more = {LAYER, CHUNKS, c->window, c->softcap};
    uint16_t *got = fresh(ROOM * row * 2), *other = fresh(ROOM * row * 2), *q = fresh((size_t)c->rows * row * 2);
    see(&s, c->rows, &a, got);
    lsg_plain_attention(&s.host, &a);
    for (size_t i = 0; i < (size_t)c->rows * (size_t)s.host.n_heads; i++) {
        double off = 0, size = 0; // of a head: what one step of bf16 is of a number at most, 2^-8
        for (size_t d = 0; d < hd; d++) {
            const double x = (double)bf16_value(got[i * hd + d]), w = (double)bf16_value(s.host.xn[i * hd + d]);
            off += (x - w) * (x - w);
            size += w * w;
        }
        CHECK(sqrt(off) <= 4e-3 * sqrt(size),
              "group %d, head_dim %d, length %d, %d rows: row %d, head %d is %g off of %g", (int)c->group,
              (int)c->head_dim, (int)c->length, (int)c->rows, (int)(i / (size_t)s.host.n_heads),
              (int)(i % (size_t)s.host.n_heads), sqrt(off), sqrt(size));
    }
    for (size_t i = (size_t)c->rows * row; i < ROOM * row; i++)
        CHECK(got[i] == 0xFFFF, "a row that is not there is written");
    // with room for more rows and chunks than there are
    see(&s, ROOM, &more, other);
    CHECK(!memcmp(other, got, (size_t)c->rows * row * 2), "rows of a larger launch differ");
    // some rows alone, a part of their path committed
    const lsg_step tree = *step;
    memcpy(q, s.host.q, (size_t)c->rows * row * 2);
    for (int32_t k = 0; k < 6; k++) {
        const int32_t r = k == 0 ? c->rows - 1 : (int32_t)rnd_int((uint32_t)c->rows), depth = tree.depth[r],
                      committed = k % 3 == 0   ? 0
                                  : k % 3 == 1 ? depth
                                               : (int32_t)rnd_int((uint32_t)depth + 1);
        int32_t path[LST_MAX_ROWS];
        for (int32_t at = r; at >= 0; at = tree.parent[at]) path[tree.depth[at]] = at;
        step->length = c->length + committed;
        step->n_rows = depth + 1 - committed;
        for (int32_t i = 0; i < committed; i++) s.host.columns[c->length + i] = spare[path[i]];
        for (int32_t i = 0; i < step->n_rows; i++) {
            step->parent[i] = i - 1;
            step->depth[i] = i;
            step->column[i] = tree.column[path[committed + i]];
            memcpy(s.host.q + (size_t)i * row, q + (size_t)path[committed + i] * row, row * 2);
        }
        see(&s, step->n_rows, k % 2 ? &a : &more, other);
        for (int32_t i = 0; i < step->n_rows; i++)
            CHECK(!memcmp(other + (size_t)i * row, got + (size_t)path[committed + i] * row, row * 2),
                  "group %d, head_dim %d, length %d, %d rows, window %d: row %d of depth %d differs with %d of its "
                  "path committed",
                  (int)c->group, (int)c->head_dim, (int)c->length, (int)c->rows, (int)c->window,
                  (int)path[committed + i], (int)tree.depth[path[committed + i]], (int)committed);
    }
    release();
}

static void attention_of_a_row_is_the_same_alone_and_committed(void) {
    const int32_t lengths[] = {0, 1, 5, 255, 256, 257, 500, 600}, groups[] = {1, 2, 4, 20},
                  dims[] = {16, 32, 64, 96, 128}, rows[] = {1, 7, 40, 64, 3, 17}, windows[] = {0, 100, 300};
    for (int i = 0; i < 56; i++) {
        scene c = {.group = groups[i % 4],
                   .head_dim = dims[i % 5],
                   .window = windows[i % 3],
                   .softcap = i / 2 % 2 ? 30 : 0,
                   .length = lengths[i / 7],
                   .rows = rows[i % 6],
                   .chain = i % 6 == 3 || i % 11 == 0};
        c.n_kv_heads = c.group == 20 ? 1 : 1 + i % 3;
        check_attention(&c);
    }
}

// ---- head

static void descend_logits(session *s, const lsg_head *h) {
    send_step(s);
    MUST(lsg_begin(&s->device, stream));
    MUST(lsg_head_rows(&s->device, h, stream));
    fetch(s->host.result, s->device.result, sizeof(lsg_result));
    fetch(s->host.logits, s->device.logits, (size_t)s->host.rows * (size_t)s->host.n_vocab * sizeof(float));
}

static void check_top(const session *s, int32_t row) {
    static int32_t ids[LSG_TOP];
    static float values[LSG_TOP];
    lsk_level("portable")
        ->top(s->host.logits + (size_t)row * (size_t)s->host.n_vocab, s->host.n_vocab, LSG_TOP, ids, values);
    for (int i = 0; i < LSG_TOP; i++)
        CHECK(s->host.result->top_id[i] == ids[i] && s->host.result->top_logit[i] == values[i],
              "%d tokens: place %d has %d, %g instead of %d, %g", (int)s->host.n_vocab, i,
              (int)s->host.result->top_id[i], (double)s->host.result->top_logit[i], (int)ids[i], (double)values[i]);
}

static void head_describes_rows(void) {
    const int32_t vocabs[] = {208, 5000, 49152, 70000, 4096, 4097, 513, 3};
    for (int i = 0; i < 24; i++) {
        enum { ROWS = 3, CHUNKS_MOST = 3 };
        const int32_t n = vocabs[i % 8], there = i % 3 ? ROWS : ROWS - 1;
        session s = session_new(ROWS, (lsg_buffers){.n_vocab = n}, (size_t)n * CHUNKS_MOST, 0);
        lsg_head h = {ROWS, 1 + i / 8, s.host.y, NULL, i % 4 == 1 ? 0.5f : 1, i % 5 == 2 ? 15 : 0, 0};
        const int in_place = i == 3 || i == 7; // y is the logits, as they are or changed
        const int ties = i / 2 % 2;
        for (size_t k = 0; k < s.y_floats; k++)
            s.host.y[k] = ties ? floorf(8 * rnd()) / 4 : 8 * rnd() / (float)h.chunks;
        if (i % 4 == 2)
            for (int32_t k = 0; k < n; k++)
                s.host.y[k] = k % 7 ? -0.0f : k % 14 ? 0 : -INFINITY; // row 0: hardly any differ
        if (i % 4 == 3) h.bias = random_floats((size_t)n, 1, 0);
        if (in_place) h.chunks = 1;
        lsg_head d = h;
        d.y = in_place ? s.device.logits : s.device.y;
        if (h.bias) d.bias = put(h.bias, (size_t)n * sizeof(float));
        send(in_place ? s.device.logits : s.device.y, s.host.y,
             (in_place ? (size_t)n * ROWS : s.y_floats) * sizeof(float));
        random_tree(s.step, there, 0);
        for (int r = 0; r < ROWS; r++) s.step->token[r] = (int32_t)rnd_int((uint32_t)n);
        s.step->last_known = 0;
        descend_logits(&s, &d);
        CHECK(!s.host.result->bad, "case %d: finite logits are bad", i);
        for (int32_t r = 0; r < there; r++) {
            const float *logits = s.host.logits + (size_t)r * (size_t)n;
            for (int32_t o = 0; o < n; o++) {
                float v = h.y[(size_t)r * (size_t)n + (size_t)o];
                for (int32_t c = 1; c < h.chunks; c++) v += h.y[((size_t)c * ROWS + (size_t)r) * (size_t)n + (size_t)o];
                if (h.bias) v += h.bias[o];
                v *= h.scale;
                if (h.softcap > 0) v = h.softcap * tanhf(v / h.softcap);
                CHECK(h.softcap > 0 ? fabsf(logits[o] - v) <= 1e-5f * (1 + fabsf(v)) : logits[o] == v,
                      "case %d: logit %d of row %d is %g instead of %g", i, (int)o, (int)r, (double)logits[o],
                      (double)v);
            }
            lst_row want;
            const lst_row *got = &s.host.result->row[r];
            lsk_level("portable")->row_stats(logits, n, &want);
            for (int k = 0; k < LST_ROW_TOP; k++)
                CHECK(got->top_id[k] == want.top_id[k] && got->top_logit[k] == want.top_logit[k],
                      "case %d, %d tokens: place %d of row %d is %d instead of %d", i, (int)n, k, (int)r,
                      (int)got->top_id[k], (int)want.top_id[k]);
            CHECK(fabsf(got->lse - want.lse) <= 1e-5f * (1 + fabsf(want.lse)), "case %d: log-sum-exp %g instead of %g",
                  i, (double)got->lse, (double)want.lse);
            CHECK(fabsf(got->entropy - want.entropy) <= 1e-4f * (1 + fabsf(want.entropy)),
                  "case %d: entropy %g instead of %g", i, (double)got->entropy, (double)want.entropy);
            CHECK(got->chosen == want.top_id[0] && got->chosen_logit == want.top_logit[0],
                  "case %d: not the best is chosen", i);
            const int32_t p = s.step->parent[r];
            CHECK(p < 0 ? isnan(got->parent_logit) && isnan(got->parent_lse)
                        : got->parent_logit == s.host.logits[(size_t)p * (size_t)n + (size_t)s.step->token[r]] &&
                              got->parent_lse == s.host.result->row[p].lse,
                  "case %d: the parent of row %d", i, (int)r);
        }
        check_top(&s, s.host.result->last_row);
        // and of any row, with the same memory
        int32_t row = there - 1;
        const int32_t *row_device = put(&row, sizeof row);
        MUST(lsg_top(s.device.logits, n, row_device, s.device.keys, s.device.result->top_id, s.device.result->top_logit,
                     stream));
        fetch(s.host.result, s.device.result, sizeof(lsg_result));
        check_top(&s, row);
        MUST(lsg_top(s.device.logits, n, NULL, s.device.keys, s.device.result->top_id, s.device.result->top_logit,
                     stream));
        fetch(s.host.result, s.device.result, sizeof(lsg_result));
        check_top(&s, 0);
        release();
    }
}

static void head_says_what_is_not_finite(void) {
    enum { ROWS = 2, N = 5000 };
    const float values[] = {NAN, INFINITY, -INFINITY, -NAN};
    session s = session_new(ROWS, (lsg_buffers){.n_vocab = N}, N, 0);
    const lsg_head d = {ROWS, 1, s.device.y, NULL, 1, 0, 0};
    random_tree(s.step, ROWS, 1);
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < ROWS * N; k++) s.host.y[k] = rnd();
        const int at = i % 2 ? (int)rnd_int(ROWS * N) : i < 8 ? 0 : ROWS * N - 1;
        s.host.y[at] = values[i / 2 % 4];
        send(s.device.y, s.host.y, sizeof(float) * ROWS * N);
        descend_logits(&s, &d);
        CHECK(s.host.result->bad == (i / 2 % 4 != 2), "%g at %d: bad is %d", (double)values[i / 2 % 4], at,
              (int)s.host.result->bad);
    }
    for (int k = 0; k < N; k++) s.host.y[k] = rnd(), s.host.y[N + k] = -INFINITY; // nothing can follow a row
    send(s.device.y, s.host.y, sizeof(float) * ROWS * N);
    descend_logits(&s, &d);
    CHECK(s.host.result->bad, "no logit is finite: not bad");
    s.step->n_rows = 1; // that row is not there
    descend_logits(&s, &d);
    CHECK(!s.host.result->bad, "a row that is not there makes it bad");
    release();
}

static void head_follows_the_chosen_path(void) {
    enum { ROWS = 48, N = 208 };
    session s = session_new(ROWS, (lsg_buffers){.n_vocab = N}, N, 0);
    const lsg_head d = {ROWS, 1, s.device.y, NULL, 1, 0, 0};
    lsg_step *step = s.step;
    int longest = 0;
    float last[N];
    for (int k = 0; k < N; k++) last[k] = rnd();
    send(s.device.last, last, sizeof last);
    for (int i = 0; i < 60; i++) {
        const int32_t n = i % 5 ? 1 + (int32_t)rnd_int(ROWS) : ROWS;
        random_tree(step, n, i % 4 == 0);
        int32_t best[ROWS];
        for (int32_t r = 0; r < ROWS; r++) {
            for (int k = 0; k < N; k++) s.host.y[r * N + k] = rnd();
            best[r] = (int32_t)rnd_int(N);
            s.host.y[r * N + best[r]] = 2;
        }
        // often the chosen one, so that siblings hold the same
        for (int32_t r = 0; r < n; r++) step->token[r] = r && rnd_int(5) ? best[step->parent[r]] : (int32_t)rnd_int(N);
        step->head_row = i % 10 == 9 ? n - 1 : -1;
        step->last_known = i % 2;
        step->last_lse = 3.25f;
        send(s.device.y, s.host.y, sizeof(float) * ROWS * N);
        descend_logits(&s, &d);
        const lsg_result *got = s.host.result;
        if (step->head_row >= 0) { // the only row of logits
            CHECK(got->last_row == 0 && isnan(got->row[0].parent_logit) && isnan(got->row[0].parent_lse) &&
                      got->row[0].chosen == best[0],
                  "the only row: last %d, chosen %d", (int)got->last_row, (int)got->row[0].chosen);
            check_top(&s, 0);
            continue;
        }
        int on_way[ROWS], want = 0;
        for (int32_t r = 0; r < n; r++) {
            on_way[r] = r == 0 || (on_way[step->parent[r]] && best[step->parent[r]] == step->token[r]);
            if (on_way[r] && step->depth[r] > step->depth[want]) want = r;
            const int32_t p = step->parent[r];
            const float logit = p >= 0  ? s.host.y[p * N + step->token[r]]
                                : i % 2 ? last[step->token[r]]
                                        : NAN,
                        lse = p >= 0  ? got->row[p].lse
                              : i % 2 ? 3.25f
                                      : NAN;
            CHECK(!memcmp(&logit, &got->row[r].parent_logit, 4) || (isnan(logit) && isnan(got->row[r].parent_logit)),
                  "row %d: %g instead of %g at its parent", (int)r, (double)got->row[r].parent_logit, (double)logit);
            CHECK(lse == got->row[r].parent_lse || (isnan(lse) && isnan(got->row[r].parent_lse)), "row %d: log-sum-exp",
                  (int)r);
            CHECK(got->row[r].chosen == best[r], "row %d: %d is chosen, not %d", (int)r, (int)got->row[r].chosen,
                  (int)best[r]);
        }
        CHECK(got->last_row == want, "%d rows: the path ends in %d, not in %d", (int)n, (int)got->last_row, want);
        check_top(&s, want);
        if (step->depth[want] > longest) longest = step->depth[want];
    }
    CHECK(longest > 3, "no path was followed");
    release();
}

// ---- sampling

static void sampling_chooses_as_the_cpu(void) {
    enum { ROWS = 128, N = 700 };
    const struct {
        double temperature;
        int32_t top_k;
        double top_p;
    } how[] = {{1, 0, 1}, {0.7, 40, 1}, {1.3, 0, 0.9}, {0.8, 50, 0.95}, {2, 1, 0.5}, {0.05, 0, 1}, {1, N, 0.3}};
    enum { HOW = sizeof how / sizeof *how };
    session s = session_new(ROWS, (lsg_buffers){.n_vocab = N}, N, 0);
    const lsg_head d = {ROWS, 1, s.device.y, NULL, 1, 0, 1};
    random_tree(s.step, ROWS, 1);
    s.step->sampled = 1;
    int draws = 0, differ = 0;
    for (int i = 0; i < 2 * HOW; i++) {
        s.step->temperature = how[i % HOW].temperature;
        s.step->top_k = how[i % HOW].top_k;
        s.step->top_p = how[i % HOW].top_p;
        for (int r = 0; r < ROWS; r++) {
            s.step->uniform[r] = ls_uniform_at(42 + (uint64_t)i, (uint64_t)r);
            for (int k = 0; k < N; k++) s.host.y[r * N + k] = 6 * rnd();
        }
        send(s.device.y, s.host.y, sizeof(float) * ROWS * N);
        descend_logits(&s, &d);
        for (int r = 0; r < ROWS; r++) {
            const float *logits = s.host.logits + r * N;
            const int32_t want = ls_sample(logits, N, how[i % HOW].temperature, how[i % HOW].top_k, how[i % HOW].top_p,
                                           42 + (uint64_t)i, (uint64_t)r),
                          got = s.host.result->row[r].chosen;
            CHECK(got >= 0 && got < N && s.host.result->row[r].chosen_logit == logits[got], "row %d: token %d", r,
                  (int)got);
            draws++;
            differ += got != want;
        }
    }
    // The device's masses are 40-bit integers of a float exponential, the CPU's are doubles: the sum up to a token may
    // fall on the other side of u, or of top_p, where both lie within some 1e-6 of each other.
    CHECK(differ * 1000 <= draws, "%d of %d draws are not the CPU's", differ, draws);
    // where the step says so, the best is taken
    s.step->sampled = 0;
    descend_logits(&s, &d);
    for (int r = 0; r < ROWS; r++)
        CHECK(s.host.result->row[r].chosen == s.host.result->row[r].top_id[0], "row %d is sampled", r);
    // the only row has the random number of the row that it is
    s.step->sampled = 1;
    s.step->temperature = 1;
    s.step->top_k = 0;
    s.step->top_p = 1;
    for (int i = 0; i < 20; i++) {
        s.step->head_row = 5 + i;
        descend_logits(&s, &d);
        s.step->uniform[5 + i] = ls_uniform_at(1, (uint64_t)i);
        descend_logits(&s, &d);
        CHECK(s.host.result->row[0].chosen == ls_sample(s.host.logits, N, 1, 0, 1, 1, (uint64_t)i),
              "the only row, draw %d", i);
    }
    release();
}

static void sampling_has_the_right_frequencies(void) {
    enum { ROWS = 128, N = 24, BLOCKS = 4, DRAWS = ROWS * BLOCKS };
    session s = session_new(ROWS, (lsg_buffers){.n_vocab = N}, N, 0);
    const lsg_head d = {ROWS, 1, s.device.y, NULL, 1, 0, 1};
    float logits[N];
    for (int k = 0; k < N; k++) logits[k] = floorf(4 * rnd()); // with ties
    for (int r = 0; r < ROWS; r++) memcpy(s.host.y + r * N, logits, sizeof logits);
    send(s.device.y, s.host.y, sizeof(float) * ROWS * N);
    random_tree(s.step, ROWS, 1);
    s.step->sampled = 1;
    s.step->temperature = 1.5;
    for (int how = 0; how < 3; how++) {
        s.step->top_k = how == 1 ? 9 : 0;
        s.step->top_p = how == 2 ? 0.8 : 1;
        int seen[N] = {0}, order[N];
        for (int i = 0; i < BLOCKS; i++) {
            for (int r = 0; r < ROWS; r++) s.step->uniform[r] = ((double)(i * ROWS + r) + 0.5) / DRAWS; // evenly
            descend_logits(&s, &d);
            for (int r = 0; r < ROWS; r++) seen[s.host.result->row[r].chosen]++;
        }
        double p[N], total = 0, kept = 0;
        for (int k = 0; k < N; k++) { // best first, ties: lower id first
            int at = k;
            for (; at > 0 && logits[order[at - 1]] < logits[k]; at--) order[at] = order[at - 1];
            order[at] = k;
            total += p[k] = exp((double)logits[k] / 1.5);
        }
        int n = how == 1 ? 9 : 0;
        if (how == 0) n = N;
        if (how == 2)
            for (double sum = 0; sum < 0.8 * total; n++) sum += p[order[n]];
        for (int k = 0; k < n; k++) kept += p[order[k]];
        for (int k = 0; k < N; k++) { // evenly spaced numbers: each token takes its part of them, but for its ends
            const double want = k < n ? p[order[k]] / kept * DRAWS : 0;
            CHECK(fabs(seen[order[k]] - want) <= 1.001, "how %d: token %d is drawn %d times, not %g", how, order[k],
                  seen[order[k]], want);
        }
    }
    release();
}

// ---- a step

static void begin_takes_the_step(void) {
    enum { ROWS = 100, N = 1000 };
    session s = session_new(ROWS, (lsg_buffers){.n_vocab = N}, 1, 0);
    float *logits = random_floats(ROWS * N, 1, 0), last[N];
    int32_t columns[CONTEXT];
    send(s.device.logits, logits, sizeof(float) * ROWS * N);
    for (int i = 0; i < 12; i++) {
        const int32_t n = 1 + (int32_t)rnd_int(ROWS);
        random_tree(s.step, n, i % 3 == 0);
        s.step->n_new = i == 1 ? 0 : i == 2 ? LST_MAX_ROWS : (int32_t)rnd_int(LST_MAX_ROWS);
        s.step->new_from = (int32_t)rnd_int(1000);
        s.step->length = s.step->new_from + s.step->n_new;
        s.step->keep_row = i % 4 == 3 ? -1 : (int32_t)rnd_int(ROWS);
        random_columns(s.step->new_column, LST_MAX_ROWS);
        send_step(&s);
        fetch(columns, s.device.columns, sizeof columns);
        fetch(last, s.device.last, sizeof last);
        for (int k = 0; k < s.step->n_new; k++) columns[s.step->new_from + k] = s.step->new_column[k];
        if (s.step->keep_row >= 0) memcpy(last, logits + s.step->keep_row * N, sizeof last);
        const int32_t bad = 1;
        send(&s.device.result->bad, &bad, sizeof bad);
        MUST(lsg_begin(&s.device, stream));
        int32_t now[CONTEXT];
        float last_now[N];
        fetch(now, s.device.columns, sizeof now);
        fetch(last_now, s.device.last, sizeof last_now);
        fetch(s.host.ancestors, s.device.ancestors, sizeof(int16_t) * LST_MAX_ROWS * LST_MAX_ROWS);
        fetch(s.host.result, s.device.result, sizeof(lsg_result));
        CHECK(!memcmp(now, columns, sizeof now), "step %d: columns", i);
        CHECK(!memcmp(last_now, last, sizeof last), "step %d: logits of the last row", i);
        CHECK(s.host.result->bad == 0, "step %d: what was bad stays", i);
        for (int32_t r = 0; r < n; r++)
            for (int32_t at = r; at >= 0; at = s.step->parent[at])
                CHECK(s.host.ancestors[r * LST_MAX_ROWS + s.step->depth[at]] == at, "step %d: row %d at depth %d", i,
                      (int)r, (int)s.step->depth[at]);
    }
    release();
}

// ---- the runtime

// A step of a small decoder, whatever it may compute.
static void put_step_on_stream(const session *s, const matrix *embd, const matrix *qkv, const lsg_rope *r,
                               const lsg_attend *a, const lsg_head *h) {
    const lsg_add norm = {0, NULL, NULL, NULL, 1, 1e-5f};
    const lsg_buffers *b = &s->device;
    MUST(lsg_begin(b, stream));
    MUST(lsg_embed(b, &embd->device, 1, stream));
    MUST(lsg_add_norm(b, &norm, stream));
    MUST(lsg_matmul(&qkv->device, b->xn, b->y, b->rows, b->rows, &b->step->n_rows, stream));
    MUST(lsg_rope_kv(b, r, stream));
    MUST(lsg_attention(b, a, stream));
    MUST(lsg_matmul(&embd->device, b->xn, b->y, b->rows, b->rows, &b->step->n_rows, stream));
    MUST(lsg_head_rows(b, h, stream));
}

static void replayed_graphs_compute_what_launches_do(void) {
    enum { ROWS = 20, N_EMBD = 64, N_VOCAB = 300, HEADS = 2 };
    const matrix embd = random_matrix(8, N_VOCAB, N_EMBD), qkv = random_matrix(1, 3 * N_EMBD, N_EMBD);
    session s = session_new(ROWS,
                            (lsg_buffers){.n_embd = N_EMBD,
                                          .n_heads = HEADS,
                                          .n_kv_heads = HEADS,
                                          .head_dim = N_EMBD / HEADS,
                                          .n_vocab = N_VOCAB,
                                          .n_layers = 1},
                            N_VOCAB, 2);
    float freq[N_EMBD / HEADS / 2];
    for (size_t i = 0; i < sizeof freq / sizeof *freq; i++) freq[i] = 1 / (1 + (float)i);
    CHECK(embd.host.chunks == 1 && qkv.host.chunks == 1, "y has no room for chunks");
    const lsg_rope r = {.chunks = 1,
                        .attn_scale = 0.2f,
                        .rope_dims = N_EMBD / HEADS,
                        .rope_magnitude = 1,
                        .rope_freq = put(freq, sizeof freq)};
    const lsg_attend a = {0, 2, 0, 0};
    const lsg_head h = {ROWS, 1, s.device.y, NULL, 1, 0, 1};
    lsg_graph graph;
    s.step->n_rows = 1; // nothing runs while it is captured
    random_columns(s.step->column, 1);
    send_step(&s);
    float before[N_EMBD], after[N_EMBD];
    fetch(before, s.device.x, sizeof before);
    MUST(lsg_capture_begin(stream));
    put_step_on_stream(&s, &embd, &qkv, &r, &a, &h);
    MUST(lsg_capture_end(stream, &graph));
    fetch(after, s.device.x, sizeof after);
    CHECK(!memcmp(before, after, sizeof before), "a captured launch runs");
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
        MUST(lsg_graph_launch(graph, stream));
        const size_t logits = (size_t)s.step->n_rows * N_VOCAB;
        float *by_graph = fresh(logits * sizeof *by_graph), *direct = fresh(logits * sizeof *direct);
        lsg_result *result = fresh(sizeof *result);
        fetch(by_graph, s.device.logits, logits * sizeof *by_graph);
        fetch(result, s.device.result, sizeof *result);
        put_step_on_stream(&s, &embd, &qkv, &r, &a, &h);
        fetch(direct, s.device.logits, logits * sizeof *direct);
        fetch(s.host.result, s.device.result, sizeof *result);
        CHECK(!memcmp(by_graph, direct, logits * sizeof *direct) && isfinite(direct[0]), "step %d: logits", i);
        CHECK(!memcmp(result, s.host.result, sizeof *result), "step %d: what is said about rows", i);
        CHECK(!result->bad, "step %d is bad", i);
    }
    lsg_graph_free(graph);
    release();
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
    fetch(back, first, N);
    for (int i = 0; i < N; i++) CHECK(back[i] == (i < N - 1 ? 0 : bytes[i]), "byte %d is not cleared, or is", i);
    void *p = back, *host;
    CHECK(lsg_alloc(&p, (size_t)1 << 50) == 2, "a petabyte is there");
    CHECK(lsg_error(2) && *lsg_error(2) && lsg_runtime_name() && *lsg_runtime_name(),
          "no words for an error or the runtime");
    MUST(lsg_alloc(&p, 0)); // and it goes on
    lsg_free(p);
    lsg_free(NULL);
    MUST(lsg_alloc_host(&host, N));
    fetch(host, second, N);
    CHECK(!memcmp(host, bytes, N), "page-locked memory");
    lsg_free_host(host);
    lsg_device d;
    MUST(lsg_device_get(0, &d));
    CHECK(*d.name && d.major > 0 && d.multiprocessors > 0 && d.total_bytes > 0 && d.free_bytes <= d.total_bytes,
          "what is said about the device");
    CHECK(lsg_device_get(1000, &d) && lsg_use(1000), "there are a thousand devices");
    MUST(lsg_use(0));
    lsg_event from, to;
    float ms = -1;
    MUST(lsg_event_new(&from));
    MUST(lsg_event_new(&to));
    MUST(lsg_event_record(from, stream));
    MUST(lsg_clear(first, N, stream));
    MUST(lsg_event_record(to, stream));
    MUST(lsg_sync(stream));
    MUST(lsg_event_ms(from, to, &ms));
    CHECK(ms >= 0, "%g ms went by", (double)ms);
    lsg_event_free(from);
    lsg_event_free(to);
    lsg_range_push("nothing");
    lsg_range_pop();
    release();
}

int main(int argc, char **argv) {
#define TEST(name)                                                                                                     \
    { #name, name }
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        TEST(packed_values_are_those_of_the_file),
        TEST(stacked_tensors_may_have_different_types),
        TEST(matmul_of_a_row_is_the_same_in_any_block),
        TEST(matmul_of_other_types_and_large_shapes),
        TEST(matmul_is_right_in_any_split),
        TEST(embedding_rows_are_the_weights),
        TEST(add_norm_is_its_twin),
        TEST(rope_kv_is_its_twin),
        TEST(gate_is_its_twin),
        TEST(attention_of_a_row_is_the_same_alone_and_committed),
        TEST(head_describes_rows),
        TEST(head_says_what_is_not_finite),
        TEST(head_follows_the_chosen_path),
        TEST(sampling_chooses_as_the_cpu),
        TEST(sampling_has_the_right_frequencies),
        TEST(begin_takes_the_step),
        TEST(replayed_graphs_compute_what_launches_do),
        TEST(memory_is_copied_and_ends),
    };
    enum { TESTS = sizeof tests / sizeof *tests };
    setvbuf(stdout, NULL, _IOLBF, 0);
    char why[256];
    const int there = lsg_devices(why, sizeof why) > 0;
    if (there) {
        running = "a_stream";
        MUST(lsg_use(0));
        MUST(lsg_stream_new(&stream));
    }
    int n_failed = 0;
    for (int i = 0; i < TESTS; i++) {
        if (argc > 1 && !strstr(tests[i].name, argv[1])) continue;
        running = tests[i].name;
        wrong = 0;
        printf("[ RUN      ] %s\n", running);
        if (!there) {
            printf("needs: a GPU that CUDA sees (%s)\n[  SKIPPED ] %s\n", why, running);
            continue;
        }
        tests[i].run();
        release();
        if (wrong > MOST_SAID) printf("and %d more\n", wrong - MOST_SAID);
        printf("%s %s\n", wrong ? "[  FAILED  ]" : "[       OK ]", running);
        n_failed += wrong != 0;
    }
    if (there) lsg_stream_free(stream);
    return n_failed != 0;
}
