// Packed weights, and products with them.
#include "tests/gpu/check.h"
#include "tests/gpu/session.h"
#include "compute/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Memory for packed weights, zeroed.
static uint8_t *weights_of(lsg_matrix *m) {
    const size_t bytes = lsg_matrix_bytes(m);
    CHECK(bytes % 256 == 0, "format %d: %zu bytes", (int)m->format, bytes);
    uint8_t *host = memset(fresh(bytes), 0, bytes);
    m->weights = host;
    return host;
}

// Rows of m from `first` on are those of the file; raw NULL: zeros.
static void check_rows(const lsg_matrix *m, int64_t first, int type, const unsigned char *raw, int64_t n) {
    float *want = fresh((size_t)m->n_in * sizeof *want);
    for (int64_t o = 0; o < n; o++) {
        if (raw) lsk_dequant_row(type, raw + (size_t)o * lsk_row_bytes(type, m->n_in), m->n_in, want);
        else memset(want, 0, (size_t)m->n_in * sizeof *want);
        for (int64_t k = 0; k < m->n_in; k++) {
            const float x = type != LS_GGML_F32 ? want[k] : bf16_value(ls_to_bf16(want[k])),
                        v = lsg_value(m, first + o, k);
            CHECK(v == x, "type %d, %d x %d: %g instead of %g at %d, %d", type, (int)m->n_out, (int)m->n_in, (double)v,
                  (double)x, (int)(first + o), (int)k);
        }
    }
}

static void packed_values_are_those_of_the_file(void) {
    const int64_t outs[] = {1, 7, 16, 40, 100}, ins[] = {32, 96, 256, 544, 768};
    for (int t = 0; t < MATRIX_TYPES; t++)
        for (size_t i = 0; i < 25; i++) {
            const int64_t n_out = outs[i / 5], n_in = ins[i % 5];
            const int type = matrix_types[t];
            lsg_matrix m;
            if (lsg_matrix_init(&m, type, n_out, n_in, H100)) {
                CHECK(n_in % ls_ggml_layout_of(type)->values, "type %d, %d inputs: not kept", type, (int)n_in);
                continue;
            }
            CHECK(m.n_out == n_out && m.n_in == n_in && m.cut.chunks >= 1 &&
                      m.cut.chunk_groups * m.cut.chunks * LSG_GROUP >= n_in,
                  "type %d: a shape that does not hold %d inputs", type, (int)n_in);
            unsigned char *raw = random_raw(type, n_out, n_in);
            uint8_t *host = weights_of(&m);
            for (int64_t o = n_out; o--;) // in any order
                lsg_pack_rows(&m, host, o, type, raw + (size_t)o * lsk_row_bytes(type, n_in), 1);
            check_rows(&m, 0, type, raw, n_out);
            check_rows(&m, n_out, type, NULL, (n_out + 31) / 32 * 32 - n_out); // what fills the last tiles
            free(raw);
            release();
        }
    lsg_matrix m;
    CHECK(lsg_matrix_init(&m, LS_GGML_F32, 16, 33, H100) && lsg_matrix_init(&m, LS_GGML_Q4_0, 16, 48, H100) &&
              lsg_matrix_init(&m, LS_GGML_Q4_K, 16, 96, H100) && lsg_matrix_init(&m, 99, 16, 32, H100) &&
              lsg_matrix_init(&m, LS_GGML_Q8_0, 0, 32, H100) && lsg_matrix_init(&m, LS_GGML_Q8_0, 16, 0, H100) &&
              lsg_matrix_init(&m, LS_GGML_Q8_0, (int64_t)1 << 40, 32, H100),
          "a shape or type that cannot be kept");
}

static void stacked_tensors_may_have_different_types(void) {
    enum { N_OUT = 40, FIRST = 19, N_IN = 256 };
    const int pairs[][2] = {
        {LS_GGML_Q4_0, LS_GGML_Q4_1}, {LS_GGML_Q4_1, LS_GGML_Q4_0},    {LS_GGML_F32, LS_GGML_BF16},
        {LS_GGML_Q5_0, LS_GGML_Q6_K}, {LS_GGML_Q5_K, LS_GGML_Q2_K},    {LS_GGML_Q3_K, LS_GGML_IQ4_NL},
        {LS_GGML_Q5_1, LS_GGML_Q5_0}, {LS_GGML_IQ4_XS, LS_GGML_MXFP4}, {LS_GGML_NVFP4, LS_GGML_Q5_1}};
    for (size_t i = 0; i < LENGTH(pairs); i++) {
        unsigned char *first = random_raw(pairs[i][0], FIRST, N_IN),
                      *rest = random_raw(pairs[i][1], N_OUT - FIRST, N_IN);
        lsg_matrix m;
        CHECK(!lsg_matrix_init(&m, pairs[i][0], N_OUT, N_IN, H100), "type %d is not kept", pairs[i][0]);
        uint8_t *host = weights_of(&m);
        lsg_pack_rows(&m, host, 0, pairs[i][0], first, FIRST);
        lsg_pack_rows(&m, host, FIRST, pairs[i][1], rest, N_OUT - FIRST);
        check_rows(&m, 0, pairs[i][0], first, FIRST);
        check_rows(&m, FIRST, pairs[i][1], rest, N_OUT - FIRST);
        free(first);
        free(rest);
    }
}

// ---- products

enum { INPUTS = 12, MOST_ROWS = 300, MORE = 3 };

// Each input alone, its chunks [n_out] one after another.
static float *products_alone(const matrix *m, const uint16_t *inputs) {
    const size_t n_in = (size_t)m->host.n_in, row = (size_t)(m->host.cut.chunks * m->host.n_out);
    float *alone = fresh(INPUTS * row * sizeof *alone);
    for (size_t i = 0; i < INPUTS; i++) { // memory no larger than it must be
        const uint16_t *x = put(inputs + i * n_in, n_in * sizeof *x);
        float *y = room(row * sizeof *y);
        MUST(lsg_matmul(&m->device, x, y, 1, 1, NULL, stream));
        download(alone + i * row, y, row * sizeof *y);
    }
    return alone;
}

static void check_against_twin(const matrix *m, const uint16_t *inputs, const float *alone) {
    const size_t n_out = (size_t)m->host.n_out, n_in = (size_t)m->host.n_in, row = (size_t)m->host.cut.chunks * n_out;
    float *want = fresh(INPUTS * n_out * sizeof *want);
    lsg_plain_matmul(&m->host, inputs, want, INPUTS);
    for (size_t o = 0; o < n_out; o++)
        for (size_t i = 0; i < INPUTS; i++) {
            double size = 0;
            for (size_t k = 0; k < n_in; k++)
                size += (double)fabsf(bf16_value(inputs[i * n_in + k]) * lsg_value(&m->host, (int64_t)o, (int64_t)k));
            float sum = alone[i * row + o];
            for (size_t c = n_out; c < row; c += n_out) sum += alone[i * row + c + o];
            const double off = fabs((double)sum - (double)want[i * n_out + o]);
            CHECK(off <= 1e-5 * size, "format %d, %d x %d: %g off of %g at output %d", (int)m->host.format, (int)n_out,
                  (int)n_in, off, size, (int)o); // relative to the sum of the products' magnitudes
        }
}

// A block of rows, any input at any place: the same bits as alone.
static void check_block(const matrix *m, const uint16_t *inputs, const float *alone, int32_t rows, int32_t n) {
    const size_t n_out = (size_t)m->host.n_out, n_in = (size_t)m->host.n_in, row = (size_t)m->host.cut.chunks * n_out;
    const int32_t rows_y = rows + (n % 2 ? MORE : 0), there = n % 3 ? rows : rows - rows / 3;
    const size_t bytes = (size_t)rows_y * row * sizeof(float);
    const float *const nan = fresh(n_out * sizeof *nan);
    size_t of[MOST_ROWS];
    uint16_t *x = fresh((size_t)rows * n_in * sizeof *x); // inputs beyond the rows that are there may be anything
    for (int32_t r = 0; r < rows; r++) {
        of[r] = rnd_int(INPUTS);
        if (r < there) memcpy(x + (size_t)r * n_in, inputs + of[r] * n_in, n_in * sizeof *x);
    }
    float *y_device = room(bytes);
    lsg_matrix shared_out = m->device; // among blocks of all sizes
    shared_out.cut.beside = n % 4 ? n % 4 : 40;
    if (n % 5 == 0) shared_out.cut.most_eights = 3; // as on a device whose blocks have less shared memory
    if (n % 2 && m->device.cut.large) shared_out.cut.gpu = (lsg_gpu){84, 100}; // as there, too: two stages
    MUST(lsg_matmul(&shared_out, put(x, (size_t)rows * n_in * sizeof *x), y_device, rows_y, rows,
                    n % 3 == 1 ? NULL : put(&there, sizeof there), stream));
    const float *y = take(y_device, bytes);
    for (size_t c = 0; c < row; c += n_out)
        for (int32_t r = 0; r < rows_y; r++) {
            const float *got = y + c * (size_t)rows_y + (size_t)r * n_out,
                        *want = r < there ? alone + of[r] * row + c : nan;
            CHECK(!memcmp(got, want, n_out * sizeof *got), "format %d, %d x %d: row %d of %d, %d there, %s",
                  (int)m->host.format, (int)n_out, (int)n_in, (int)r, (int)rows, (int)there,
                  r < there ? "is not what it is alone" : "is written");
        }
}

// Products of one matrix: each input alone against the twin, then blocks of any number of rows. The matrix ends.
static void check_matmul(const matrix *m, const int32_t *counts, int32_t n_counts) {
    uint16_t *inputs = fresh(INPUTS * (size_t)m->host.n_in * sizeof *inputs);
    random_bf16(inputs, INPUTS * (size_t)m->host.n_in, 1);
    const float *alone = products_alone(m, inputs);
    check_against_twin(m, inputs, alone);
    for (int32_t n = 0; n < n_counts; n++) check_block(m, inputs, alone, counts[n], n);
    release();
}

static void matmul_of_a_row_is_the_same_in_any_block(void) {
    const int of_format[] = {LS_GGML_F32, LS_GGML_F16, LS_GGML_Q4_1, LS_GGML_Q8_0, LS_GGML_Q4_K, LS_GGML_Q6_K};
    const int64_t shapes[][2] = {{16, 32}, {40, 96}, {208, 576}, {1, 1056}, {40, 256}, {208, 512}, {72, 1280}};
    const int32_t counts[] = {1, 2, 3, 5, 8, 9, 12, 16, 17, 25, 32, 33, 47, 64, 65, 70, 130};
    for (size_t t = 0; t < LENGTH(of_format); t++)
        for (size_t i = 0; i < LENGTH(shapes); i++) {
            lsg_matrix shape;
            if (lsg_matrix_init(&shape, of_format[t], shapes[i][0], shapes[i][1], H100)) continue;
            const matrix m = random_matrix(of_format[t], shapes[i][0], shapes[i][1]);
            check_matmul(&m, counts, LENGTH(counts));
        }
}

static void matmul_of_other_types_and_large_shapes(void) {
    const int32_t counts[] = {1, 7, 16, 30, 70};
    for (int t = 0; t < MATRIX_TYPES; t++) {
        const matrix m = random_matrix(matrix_types[t], 72, 512);
        check_matmul(&m, counts, 3);
    }
    const int of_format[] = {LS_GGML_BF16, LS_GGML_F16, LS_GGML_Q4_0, LS_GGML_Q8_0, LS_GGML_Q4_K, LS_GGML_Q5_K};
    for (size_t t = 0; t < LENGTH(of_format); t++) {
        const matrix m = random_matrix(of_format[t], 600, 2048);
        check_matmul(&m, counts, 5);
    }
    const matrix wide = random_matrix(LS_GGML_Q4_1, 17000, 32); // one group: the second slice has nothing
    CHECK(wide.host.cut.chunks == 1, "a wide matrix is split");
    check_matmul(&wide, counts, 3);
}

// Every number of chunks, whatever the shape would choose.
static void matmul_is_right_in_any_split(void) {
    const int of_format[] = {LS_GGML_F32, LS_GGML_F16, LS_GGML_Q4_0, LS_GGML_Q8_0, LS_GGML_Q4_K, LS_GGML_Q3_K};
    enum { GROUPS = 40 };
    const int32_t counts[] = {4, 16, 21, 65}, chunk_groups[] = {5, 16, 27, GROUPS}; // from less than a stage to five
    for (size_t t = 0; t < LENGTH(of_format); t++)
        for (size_t i = 0; i < LENGTH(chunk_groups); i++) {
            matrix m = random_matrix(of_format[t], 232, GROUPS * LSG_GROUP);
            m.host.cut.chunk_groups = m.device.cut.chunk_groups = chunk_groups[i];
            m.host.cut.chunks = m.device.cut.chunks = (GROUPS + chunk_groups[i] - 1) / chunk_groups[i];
            check_matmul(&m, counts, LENGTH(counts));
        }
}

// Many rows in large tiles have the bits that each has alone, where few rows are computed.
static void large_tiles_have_the_bits_of_a_row_alone(void) {
    const int of_format[] = {LS_GGML_BF16, LS_GGML_F16, LS_GGML_Q4_1, LS_GGML_Q8_0, LS_GGML_Q4_K, LS_GGML_Q5_K};
    enum { WHOLE = 0 };
    static const struct {
        int64_t n_out, n_in;
        int32_t chunk_groups; // WHOLE: as the shape says
    } shapes[] = {{1, 256, WHOLE},    {40, 32, WHOLE},   {264, 96, WHOLE},  {300, 1280, WHOLE},
                  {600, 1024, WHOLE}, {232, 1280, 5},    {232, 1280, 16},   {232, 1280, 27},
                  {232, 1280, 40},    {512, 768, WHOLE}, {72, 2304, WHOLE}, {300, 1280, 39}};
    const int32_t counts[] = {33, 47, 64, 128, 129, 191, 256, 300};
    for (size_t t = 0; t < LENGTH(of_format); t++)
        for (size_t i = t; i < LENGTH(shapes); i += t ? 3 : 1) { // all shapes of bf16
            lsg_matrix shape;
            if (lsg_matrix_init(&shape, of_format[t], shapes[i].n_out, shapes[i].n_in, H100)) continue;
            matrix m = random_matrix(of_format[t], shapes[i].n_out, shapes[i].n_in);
            lsg_cut cut = m.host.cut;
            if (shapes[i].chunk_groups) {
                const int32_t groups = m.host.n_in / LSG_GROUP;
                cut.chunk_groups = shapes[i].chunk_groups;
                cut.chunks = (groups + cut.chunk_groups - 1) / cut.chunk_groups;
            }
            cut.large = LSG_LARGE_ALWAYS;
            const size_t least = t ? 3 : 0; // few rows are for bf16 alone
            CHECK(lsg_matmul_is_large(m.host.format, counts[least], m.host.n_out, &cut) &&
                      !lsg_matmul_is_large(m.host.format, counts[least] - 1, m.host.n_out, &cut),
                  "large tiles are not taken from %d rows on", (int)counts[least]);
            m.host.cut = m.device.cut = cut;
            check_matmul(&m, counts + least + i % (6 - least), 3); // the second one with two stages
        }
}

// What tensor cores are trusted with: a column of a product depends neither on its place nor on other columns.
static void a_row_is_the_same_in_every_column(void) {
    const int of_format[] = {LS_GGML_BF16, LS_GGML_F16, LS_GGML_Q4_1, LS_GGML_Q8_0, LS_GGML_Q4_K, LS_GGML_Q5_K};
    enum { N_OUT = 72, N_IN = 768, COLUMNS = 8 };
    for (size_t t = 0; t < LENGTH(of_format); t++) {
        const matrix m = random_matrix(of_format[t], N_OUT, N_IN);
        const size_t row = (size_t)m.host.cut.chunks * N_OUT;
        uint16_t x[N_IN];
        random_bf16(x, N_IN, 1);
        float *y = room(row * sizeof *y), *alone = fresh(row * sizeof *alone);
        MUST(lsg_matmul(&m.device, put(x, N_IN * sizeof *x), y, 1, 1, NULL, stream));
        download(alone, y, row * sizeof *y);
        for (size_t at = 0; at < COLUMNS; at++) {
            uint16_t block[COLUMNS * N_IN];
            for (size_t r = 0; r < COLUMNS; r++) // of all sizes, and one that is not finite
                random_bf16(block + r * N_IN, N_IN, ldexpf(1, (int)(r * 9) - 30));
            block[(at + 3) % COLUMNS * N_IN + 5] = 0x7F80;
            memcpy(block + at * N_IN, x, N_IN * sizeof *x);
            y = room(COLUMNS * row * sizeof *y);
            MUST(lsg_matmul(&m.device, put(block, sizeof block), y, COLUMNS, COLUMNS, NULL, stream));
            const float *got = take(y, COLUMNS * row * sizeof *y);
            for (size_t c = 0; c < row / N_OUT; c++)
                CHECK(!memcmp(got + (c * COLUMNS + at) * N_OUT, alone + c * N_OUT, N_OUT * sizeof *got),
                      "format %d: a row in column %d is not what it is alone", (int)m.host.format, (int)at);
        }
        release();
    }
}

const gpu_test matmul_tests[] = {
    TEST(packed_values_are_those_of_the_file),
    TEST(stacked_tensors_may_have_different_types),
    TEST(matmul_of_a_row_is_the_same_in_any_block),
    TEST(matmul_of_other_types_and_large_shapes),
    TEST(matmul_is_right_in_any_split),
    TEST(large_tiles_have_the_bits_of_a_row_alone),
    TEST(a_row_is_the_same_in_every_column),
    {0},
};
