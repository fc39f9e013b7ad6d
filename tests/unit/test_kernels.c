// CPU kernels: every level against a plain reference, and the guarantee that a row's bits do not depend on what
// else is computed with it.
#include "compute/kernels/kernels.h"
#include "tests/unit/plain_integers.h"
#include "tests/unit/random_tensor.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#if defined(__x86_64__)
extern const lsk_table lsk_avxvnni_emulated;      // avxvnni_emulated.c
extern const lsk_table lsk_neondot, lsk_neoni8mm; // neon*_emulated.c
extern const lsk_table lsk_avx512bf16;            // kernels_avx512bf16.c
// amx*_emulated.c
extern const lsk_table emulated_amx;
int emulated_amx_right(int wrong, int in);
void emulated_amx_from(int32_t rows);
static int unpacks(void) { // what kernels_amxpacked.c needs beside tiles
    return lsk_level("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
}
#endif

// Level i that this CPU has; NULL behind the last.
static const lsk_table *level(int i) {
    for (int at = 0; lsk_level_name(at); at++) {
        const lsk_table *k = lsk_level(lsk_level_name(at));
        if (k && i-- == 0) return k;
    }
    return NULL;
}

// ... or what stands for one in plain C.
static const lsk_table *level_of_integers(int i) {
    int n = 0;
    while (level(n)) n++;
    if (i < n) return level(i);
#if defined(__x86_64__)
    static lsk_table tiles;
    const lsk_table *vnni = lsk_level("avx512vnni"), *emulated[5] = {&lsk_neondot, &lsk_neoni8mm};
    int more = 2;
    if (lsk_level("avx2")) emulated[more++] = &lsk_avxvnni_emulated;
    if (vnni) {
        tiles = *vnni, tiles.name = "amx, emulated", tiles.matmul_int = emulated_amx.matmul_int;
        emulated_amx_from(LSK_AMX_LEAST);
        emulated[more++] = &tiles;
    }
    return emulated[i - n];
#else
    return NULL;
#endif
}

static void *aligned(size_t n) {
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    memset(p, 0, n);
    return p;
}

typedef void (*matmul_bf16)(const lsk_matrix *, const uint16_t *, int64_t, float *, int64_t, int32_t, int32_t, int32_t,
                            void *);

// Of inputs that bf16 holds. near: what matmul gave, whose sums have another order.
static void pairs_are_right_and_row_independent(matmul_bf16 multiply, const lsk_matrix *m, const float *x, int32_t rows,
                                                const float *near, float *room) {
    const int32_t n_in = m->n_in, tiles = (m->n_out + LSK_TILE - 1) / LSK_TILE, ld = tiles * LSK_TILE;
    uint16_t *bits = malloc(sizeof *bits * (size_t)(rows * n_in));
    float *y = malloc(sizeof *y * (size_t)(rows * ld)), *z = room;
    for (int32_t i = 0; i < rows * n_in; i++) bits[i] = ls_to_bf16(x[i]);
    multiply(m, bits, n_in, y, ld, rows, 0, 2, NULL); // split over tiles, as threads do
    multiply(m, bits, n_in, y, ld, rows, 2, tiles, NULL);
    for (int32_t r = 0; r < rows; r++) {
        float most = 0;
        for (int32_t o = 0; o < m->n_out; o++) most = fmaxf(most, fabsf(near[r * ld + o]));
        for (int32_t o = 0; o < m->n_out; o++) assert_true(fabsf(y[r * ld + o] - near[r * ld + o]) < 1e-5f * most);
    }
    for (int32_t some = 1; some <= 30; some++)
        for (int32_t first = 0; first + some <= rows; first += 9) {
            multiply(m, bits + first * n_in, n_in, z, ld, some, 0, tiles, NULL);
            for (int32_t r = 0; r < some; r++)
                assert_memory_equal(z + r * ld, y + (first + r) * ld, (size_t)m->n_out * sizeof *y);
        }
    free(bits), free(y);
}

static void matmul_is_right_and_row_independent(void **state) {
    (void)state;
#define NUMBER(name, ...) LS_GGML_##name,
    const int types[] = {LS_GGML_TYPES(NUMBER)};
    const lsk_table *k;
    for (int l = 0; (k = level(l)); l++) {
        print_message("level %s\n", k->name);
        for (size_t t = 0; t < 2 * sizeof types / sizeof *types; t++) {
            const int type = types[t / 2];
            enum { MOST = 256 };
            const int64_t n_in = lsk_row_bytes(type, 96) ? 96 : MOST, n_out = 77; // an odd last tile
            const lsk_arith arith = t % 2 ? LSK_ARITH_BF16 : LSK_ARITH_F32;
            unsigned char *raw = random_raw(type, n_out, n_in);
            lsk_matrix m;
            lsk_pack_init(&m, type, n_out, n_in, arith);
            m.data = aligned(lsk_pack_bytes(type, n_out, n_in, arith));
            lsk_pack_rows(&m, 0, type, raw, n_out);
            enum { ROWS = 70 };
            float x[ROWS * MOST], *y = malloc(sizeof(float) * ROWS * 80), w[MOST];
            float *scratch = aligned(sizeof(float) * MOST * 64);
            uint16_t bits[ROWS * MOST];
            for (int i = 0; i < ROWS * n_in; i++) x[i] = rnd();
            if (arith == LSK_ARITH_BF16) k->to_bf16(x, (int32_t)(ROWS * n_in), bits);
            k->matmul(&m, x, n_in, y, 80, ROWS, 0, 2, scratch); // split over tiles, as threads do
            k->matmul(&m, x, n_in, y, 80, ROWS, 2, 5, scratch);
            for (int64_t o = 0; o < n_out; o++) {
                lsk_dequant_row(type, raw + (size_t)o * lsk_row_bytes(type, n_in), n_in, w);
                if (arith == LSK_ARITH_BF16) k->to_bf16(w, (int32_t)n_in, bits);
                for (int r = 0; r < ROWS; r += 23) {
                    double want = 0, size = 0;
                    for (int64_t i = 0; i < n_in; i++) {
                        want += (double)w[i] * (double)x[r * n_in + i];
                        size += fabs((double)w[i] * (double)x[r * n_in + i]);
                    }
                    assert_true(fabs(want - (double)y[r * 80 + o]) < 2e-6 * size);
                }
            }
            if (m.format == LSK_BF16 && arith == LSK_ARITH_BF16 && k->matmul_bf16)
                pairs_are_right_and_row_independent(k->matmul_bf16, &m, x, ROWS, y, scratch);
            for (int rows = 1; rows <= 13; rows++) // any company, any place: the same bits
                for (int first = 0; first + rows <= ROWS; first += 9) {
                    float *z = malloc(sizeof(float) * 80 * (size_t)rows);
                    k->matmul(&m, x + first * n_in, n_in, z, 80, rows, 0, 5, scratch);
                    for (int r = 0; r < rows; r++)
                        assert_memory_equal(z + r * 80, y + (first + r) * 80, (size_t)n_out * sizeof(float));
                    free(z);
                }
            free(raw), free(m.data), free(y), free(scratch);
        }
    }
}

// A packed row is the file's row, bit for bit, in every format that says so; rows packed piece by piece are those
// packed at once.
static void packed_rows_come_back(void **state) {
    (void)state;
    enum { N_IN = 512, N_OUT = 53 };
#define NUMBER(name, ...) LS_GGML_##name,
    const int types[] = {LS_GGML_TYPES(NUMBER)};
#undef NUMBER
    const lsk_arith ariths[] = {LSK_ARITH_F32, LSK_ARITH_I8, LSK_ARITH_BF16, LSK_ARITH_BF16_PACKED};
    int back = 0;
    for (size_t t = 0; t < 4 * sizeof types / sizeof *types; t++) {
        const int type = types[t / 4];
        const lsk_arith arith = ariths[t % 4];
        const size_t row_bytes = lsk_row_bytes(type, N_IN), bytes = lsk_pack_bytes(type, N_OUT, N_IN, arith);
        const ls_ggml_layout *l = ls_ggml_layout_of(type);
        if (arith == LSK_ARITH_F32)
            assert_int_equal(lsk_pack_bytes(type, LSK_TILE, 256, arith), 8 * l->kept * LSK_TILE);
        if (arith == LSK_ARITH_I8)
            assert_int_equal(lsk_pack_bytes(type, LSK_TILE, 256, arith),
                             (l->kept_integers + (type == LS_GGML_NVFP4 ? 4 : 0)) * LSK_TILE); // 4: of a row
        unsigned char *raw = random_raw(type, N_OUT, N_IN);
        lsk_matrix m, pieces;
        lsk_pack_init(&m, type, N_OUT, N_IN, arith);
        pieces = m;
        m.data = aligned(bytes);
        pieces.data = aligned(bytes);
        memset(m.data, 0, bytes);
        memset(pieces.data, 0, bytes);
        lsk_pack_rows(&m, 0, type, raw, N_OUT);
        for (int64_t at = 0, n; at < N_OUT; at += n) {
            n = 1 + at % 7 < N_OUT - at ? 1 + at % 7 : N_OUT - at;
            lsk_pack_rows(&pieces, at, type, raw + (size_t)at * row_bytes, n);
        }
        assert_memory_equal(m.data, pieces.data, bytes);
        back += lsk_packs_back(&m, type) != 0;
        for (int64_t r = 0; r < N_OUT && lsk_packs_back(&m, type); r++) {
            float want[N_IN], got[N_IN];
            lsk_dequant_row(type, raw + (size_t)r * row_bytes, N_IN, want);
            lsk_packed_row(&m, r, got);
            assert_memory_equal(want, got, sizeof want);
        }
        free(raw), free(m.data), free(pieces.data);
    }
    assert_int_equal(back, 14 + 2 + 4); // quantised types as integers; f32 in two arithmetics; bf16 in all
}

// i16, i8: every level equals the plain twin bit for bit, whatever the company, and is as right as the bits allow.
static void integer_matmul_is_right_and_the_same_everywhere(void **state) {
    (void)state;
    const int types[] = {LS_GGML_Q4_0,   LS_GGML_Q4_1,   LS_GGML_Q8_0,  LS_GGML_Q5_0, LS_GGML_Q5_1,
                         LS_GGML_IQ4_NL, LS_GGML_Q2_K,   LS_GGML_Q3_K,  LS_GGML_Q4_K, LS_GGML_Q5_K,
                         LS_GGML_Q6_K,   LS_GGML_IQ4_XS, LS_GGML_MXFP4, LS_GGML_NVFP4};
    enum { TYPES = sizeof types / sizeof *types, N_IN = 512, N_OUT = 77, ROWS = 40, LDY = 80, GROUPS = N_IN / 32 };
    const lsk_arith ariths[] = {LSK_ARITH_I16, LSK_ARITH_I8, LSK_ARITH_MIXED};
    for (size_t t = 0; t < 3 * TYPES; t++) {
        const int type = types[t % TYPES];
        const lsk_arith arith = ariths[t / TYPES];
        unsigned char *raw = random_raw(type, N_OUT, N_IN);
        lsk_matrix m;
        lsk_pack_init(&m, type, N_OUT, N_IN, arith);
        m.data = aligned(lsk_pack_bytes(type, N_OUT, N_IN, arith));
        lsk_pack_rows(&m, 0, type, raw, N_OUT);
        static float x[ROWS * N_IN], y[ROWS * LDY], z[ROWS * LDY], w[N_IN];
        static lsk_group plain[ROWS * GROUPS], other[ROWS * GROUPS];
        static bool wide[ROWS][GROUPS];
        static float scratch[64 * N_IN] __attribute__((aligned(64)));
        int n_wide = 0;
        for (int i = 0; i < ROWS * N_IN; i++) x[i] = rnd() * (i % 7 ? 1 : 3) * (i % 173 ? 1 : 20); // outliers
        for (int i = 0; i < 32; i++) x[i] = 0, x[N_IN + i] = 1e-42f; // a group of zeros, one of subnormals
        for (int r = 0; r < ROWS; r++) plain_quantize(x + r * N_IN, N_IN, arith, plain + r, ROWS);
        plain_matmul_int(&m, arith, plain, ROWS, y, LDY, ROWS, 0, 5, scratch);
        for (int r = 0; r < ROWS; r++) { // wide: four times its share of the row's energy, or more
            double all = 0;
            for (int g = 0; g < GROUPS; g++) all += pow((double)plain[g * ROWS + r].scale, 2);
            for (int g = 0; g < GROUPS; g++) {
                wide[r][g] = pow((double)plain[g * ROWS + r].scale, 2) * GROUPS > 4 * all;
                n_wide += wide[r][g];
            }
        }
        assert_true(n_wide > ROWS / 4 && n_wide < ROWS * GROUPS / 4);
        for (int64_t o = 0; o < N_OUT; o++) {
            lsk_dequant_row(type, raw + (size_t)o * lsk_row_bytes(type, N_IN), N_IN, w);
            for (int r = 0; r < ROWS; r++) {
                double want = 0, allowed = 1e-6;
                for (int i = 0; i < N_IN; i++) {
                    want += (double)w[i] * (double)x[r * N_IN + i];
                    const double step = arith == LSK_ARITH_MIXED && wide[r][i / 32] ? 1.0 / 256 : 1;
                    allowed += fabs((double)w[i]) * (0.51 * step * (double)plain[i / 32 * ROWS + r].scale +
                                                     2e-6 * fabs((double)x[r * N_IN + i]));
                }
                assert_true(fabs(want - (double)y[r * LDY + o]) <= allowed);
            }
        }
        const lsk_table *k;
        for (int l = 0; (k = level_of_integers(l)); l++) {
            for (int r = 0; r < ROWS; r++) k->quantize(x + r * N_IN, N_IN, arith, other + r, ROWS);
            for (int g = 0; g < ROWS * GROUPS; g++) {
                assert_memory_equal(other[g].hi, plain[g].hi, sizeof plain->hi);
                if (arith != LSK_ARITH_I8) assert_memory_equal(other[g].lo, plain[g].lo, sizeof plain->lo);
                assert_memory_equal(&other[g].scale, &plain[g].scale, sizeof plain->scale);
                assert_memory_equal(&other[g].sum, &plain[g].sum, sizeof plain->sum);
                assert_int_equal(other[g].total128, plain[g].total128);
                assert_int_equal(other[g].first32, plain[g].first32);
            }
            for (int rows = 1; rows <= ROWS; rows += rows < 18 ? 1 : 11)
                for (int first = 0; first + rows <= ROWS; first += 11) {
                    k->matmul_int(&m, arith, other + first, ROWS, z, LDY, rows, 0, 2, scratch); // split, as threads do
                    k->matmul_int(&m, arith, other + first, ROWS, z, LDY, rows, 2, 5, scratch);
                    for (int r = 0; r < rows; r++)
                        assert_memory_equal(z + r * LDY, y + (first + r) * LDY, N_OUT * sizeof(float));
                }
        }
        free(raw), free(m.data);
    }
}

// Weights and inputs at their largest, which random ones are not: no sum on the way may saturate. A row's first group
// is wide; inputs of the last row have the lowest low halves.
static void sums_at_their_largest_are_exact(void **state) {
    (void)state;
#define QUANTISED(name, number, values, ...) (values) > 1 ? LS_GGML_##name : -1,
    static const int types[] = {LS_GGML_TYPES(QUANTISED)};
    const lsk_arith ariths[] = {LSK_ARITH_I16, LSK_ARITH_I8, LSK_ARITH_MIXED};
    enum { N_IN = 256, N_OUT = 16, ROWS = 12 };
    static float x[ROWS * N_IN], y[ROWS * N_OUT], z[ROWS * N_OUT], scratch[64 * N_IN] __attribute__((aligned(64)));
    static lsk_group groups[ROWS * N_IN / 32];
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < N_IN; i++) {
            const float sign = r % 4 == 0 ? 1 : r % 4 == 1 ? -1 : i / (r % 4 - 1) % 2 ? 1 : -1;
            x[r * N_IN + i] = (i < 32 ? 1 : 0.125f) * (r < ROWS - 1 ? sign : i % 32 ? 32384.0f / 32512 : 1);
        }
    for (size_t t = 0; t < 3 * sizeof types / sizeof *types; t++) {
        const int type = types[t / 3];
        const lsk_arith arith = ariths[t % 3];
        const ls_ggml_layout *l = ls_ggml_layout_of(type);
        if (type < 0) continue;
        for (int low = 0; low < 2; low++) { // every integer as large as can be, then as small
            unsigned char *raw = malloc(lsk_row_bytes(type, N_IN) * N_OUT);
            memset(raw, low ? 0 : type == LS_GGML_Q8_0 ? 0x7F : 0xFF, lsk_row_bytes(type, N_IN) * N_OUT);
            for (size_t at = 0; at < lsk_row_bytes(type, N_IN) * N_OUT; at += (size_t)l->bytes) {
                if (low && type == LS_GGML_Q8_0) memset(raw + at, 0x80, (size_t)l->bytes);
                for (int h = 0; h < l->n_halves; h++) memcpy(raw + at + l->halves_at + 2 * h, &(uint16_t){0x2E66}, 2);
                if (low && type == LS_GGML_Q2_K) memset(raw + at, 0xFF, 16); // scales and minima
                if (low && (type == LS_GGML_Q4_K || type == LS_GGML_Q5_K)) memset(raw + at + 4, 0xFF, 12);
                if (type == LS_GGML_MXFP4) raw[at] = 124;
                if (type == LS_GGML_NVFP4) {
                    memcpy(raw + at, &(float){0.01f}, 4);
                    memset(raw + at + 4, low ? 0xFE : 0x7E, 4);
                    memset(raw + at + 8, low ? 0xFF : 0x77, 32);
                }
                if (low && type == LS_GGML_Q6_K) memset(raw + at + 192, 0x80, 16);
            }
            lsk_matrix m;
            lsk_pack_init(&m, type, N_OUT, N_IN, arith);
            m.data = aligned(lsk_pack_bytes(type, N_OUT, N_IN, arith));
            lsk_pack_rows(&m, 0, type, raw, N_OUT);
            const lsk_table *k;
            for (int r = 0; r < ROWS; r++) plain_quantize(x + r * N_IN, N_IN, arith, groups + r, ROWS);
            if (arith != LSK_ARITH_I8) assert_int_equal(groups[ROWS - 1].lo[1], -128);
            plain_matmul_int(&m, arith, groups, ROWS, y, N_OUT, ROWS, 0, 1, scratch);
            for (int n = 0; (k = level_of_integers(n)); n++) {
                k->matmul_int(&m, arith, groups, ROWS, z, N_OUT, ROWS, 0, 1, scratch);
                assert_memory_equal(z, y, sizeof y);
            }
            free(raw), free(m.data);
        }
    }
}

// The same numbers on every kind of processor: a hash (FNV-1a) of what the integers' arithmetic makes of seeded inputs.
static uint64_t hash_of(const lsk_table *k, const int *types, size_t n_types, int n_in) {
    enum { MOST = 512, N_OUT = 40, ROWS = 5 };
    const lsk_arith ariths[] = {LSK_ARITH_I16, LSK_ARITH_I8, LSK_ARITH_MIXED};
    static float x[ROWS * MOST], y[ROWS * N_OUT], scratch[64 * MOST] __attribute__((aligned(64)));
    static lsk_group groups[ROWS * MOST / 32];
    uint64_t hash = 0xCBF29CE484222325u;
    rnd_restart();
    for (size_t t = 0; t < 3 * n_types; t++) {
        const int type = types[t % n_types];
        const lsk_arith arith = ariths[t / n_types];
        lsk_matrix m;
        unsigned char *raw = random_raw(type, N_OUT, n_in);
        lsk_pack_init(&m, type, N_OUT, n_in, arith);
        m.data = aligned(lsk_pack_bytes(type, N_OUT, n_in, arith));
        lsk_pack_rows(&m, 0, type, raw, N_OUT);
        for (int i = 0; i < ROWS * n_in; i++) x[i] = rnd() * (i % 7 ? 1 : 3) * (i % 173 ? 1 : 20);
        for (int r = 0; r < ROWS; r++) k->quantize(x + r * n_in, n_in, arith, groups + r, ROWS);
        k->matmul_int(&m, arith, groups, ROWS, y, N_OUT, ROWS, 0, (N_OUT + 15) / 16, scratch);
        for (size_t i = 0; i < sizeof y; i++) hash = (hash ^ ((const unsigned char *)y)[i]) * 0x100000001B3u;
        free(raw), free(m.data);
    }
    return hash;
}

static void integers_are_the_same_on_every_processor(void **state) {
    (void)state;
    const int types[] = {LS_GGML_Q4_0, LS_GGML_Q4_1, LS_GGML_Q8_0},
              others[] = {LS_GGML_Q5_0, LS_GGML_Q5_1, LS_GGML_IQ4_NL, LS_GGML_Q3_K,
                          LS_GGML_Q4_K, LS_GGML_Q5_K, LS_GGML_Q6_K,   LS_GGML_Q2_K},
              tables[] = {LS_GGML_IQ4_XS, LS_GGML_MXFP4}, nvfp4[] = {LS_GGML_NVFP4};
    const lsk_table *k;
    for (int l = 0; (k = level_of_integers(l)); l++) {
        const uint64_t usual = hash_of(k, types, sizeof types / sizeof *types, 320),
                       rest = hash_of(k, others, sizeof others / sizeof *others, 512),
                       chosen = hash_of(k, tables, sizeof tables / sizeof *tables, 512),
                       of_two = hash_of(k, nvfp4, 1, 512);
        if (usual != 0x4A5735CA8529AA43u || rest != 0xF7A2B5AFC0E138D4u || chosen != 0xDC1AD7845B5BD016u ||
            of_two != 0xFC6F1E4808575C4Du)
            fail_msg("level %s: %#llx %#llx %#llx %#llx", k->name, (unsigned long long)usual, (unsigned long long)rest,
                     (unsigned long long)chosen, (unsigned long long)of_two);
        print_message("the same: %s\n", k->name);
    }
}

#if defined(__x86_64__)
// The tile kernels of bf16: right, and a row's bits do not depend on how many rows there are or where it stands, or on
// whether weights are packed in fewer bits.
static void tiles_are_right_and_row_independent(void **state) {
    (void)state;
    enum { N_IN = 96, N_OUT = 77, ROWS = 150, LDY = 80 };
    static float x[ROWS * N_IN], y[ROWS * LDY], z[ROWS * LDY], w[N_IN], expanded[ROWS * LDY];
    static float scratch[64 * N_IN] __attribute__((aligned(64)));
    static uint16_t bits[ROWS * N_IN], w_bits[N_IN];
    const lsk_table *plain = lsk_level("portable");
    const int types[] = {LS_GGML_Q4_0, LS_GGML_Q4_1, LS_GGML_Q8_0};
    for (int t = 0; t < 6; t++) {
        const int type = types[t / 2];
        const lsk_arith packing = t % 2 ? LSK_ARITH_BF16_PACKED : LSK_ARITH_BF16;
        if (t % 2 && !unpacks()) {
            print_message("skipped: this processor cannot unpack %s\n", ls_ggml_type_name(type));
            continue;
        }
        rnd_restart();
        unsigned char *raw = random_raw(type, N_OUT, N_IN);
        lsk_matrix m;
        lsk_pack_init(&m, type, N_OUT, N_IN, packing);
        m.data = aligned(lsk_pack_bytes(type, N_OUT, N_IN, packing));
        lsk_pack_rows(&m, 0, type, raw, N_OUT);
        for (int i = 0; i < ROWS * N_IN; i++) x[i] = rnd();
        plain->to_bf16(x, ROWS * N_IN, bits);
        emulated_amx.matmul_bf16(&m, bits, N_IN, y, LDY, ROWS, 0, 3, scratch);
        emulated_amx.matmul_bf16(&m, bits, N_IN, y, LDY, ROWS, 3, 5, scratch);
        if (t % 2) assert_memory_equal(y, expanded, sizeof y);
        else memcpy(expanded, y, sizeof y);
        for (int64_t o = 0; o < N_OUT; o++) {
            lsk_dequant_row(type, raw + (size_t)o * lsk_row_bytes(type, N_IN), N_IN, w);
            plain->to_bf16(w, N_IN, w_bits);
            for (int r = 0; r < ROWS; r++) {
                double want = 0, size = 0;
                for (int i = 0; i < N_IN; i++) {
                    want += (double)w[i] * (double)x[r * N_IN + i];
                    size += fabs((double)w[i] * (double)x[r * N_IN + i]);
                }
                assert_true(fabs(want - (double)y[r * LDY + o]) < 2e-6 * size);
            }
        }
        for (int rows = 1; rows <= 70; rows += rows < 34 ? 1 : 7)
            for (int first = 0; first + rows <= ROWS; first += 37) {
                emulated_amx.matmul_bf16(&m, bits + first * N_IN, N_IN, z, LDY, rows, 0, 5, scratch);
                for (int r = 0; r < rows; r++)
                    assert_memory_equal(z + r * LDY, y + (first + r) * LDY, N_OUT * sizeof(float));
            }
        free(raw), free(m.data);
    }
}

// The checks of tiles before they are used.
static void wrong_tiles_are_not_used(void **state) {
    (void)state;
    if (!unpacks()) {
        print_message("skipped: this processor lacks the instructions that the kernels need beside tiles\n");
        skip();
    }
    enum { NO_LAST_ROW = 1, SIGNED_BYTES, REFUSED }; // amx_emulation.h
    enum { CHECKS = 5, BYTES = 5 };                  // each configures tiles once; then comes the measurement
    assert_true(emulated_amx_right(0, 0));
    for (int check = 1; check <= CHECKS; check++) {
        assert_false(emulated_amx_right(NO_LAST_ROW, check));
        assert_false(emulated_amx_right(REFUSED, check));
    }
    assert_false(emulated_amx_right(SIGNED_BYTES, BYTES));
    assert_true(emulated_amx_right(NO_LAST_ROW, CHECKS + 1));
}
#endif

static void every_level_rounds_to_bf16_as_one_number_is(void **state) {
    (void)state;
    enum { N = 1 << 12 };
    static float x[N], was[N];
    static uint16_t bits[N];
    const lsk_table *k;
    for (int l = 0; (k = level(l)); l++) {
        for (int i = 0; i < N; i++) { // every exponent and sign, ties among them; infinities and NaN too
            const uint32_t from =
                (uint32_t)i << 20 | (i % 3 ? (uint32_t)(i % 7) << 13 : 0x8000) | (uint32_t)(i % 2) << 16;
            memcpy(&x[i], &from, 4);
        }
        memcpy(was, x, sizeof was);
        k->to_bf16(x, N, bits);
        for (int i = 0; i < N; i++) {
            const uint32_t want = (uint32_t)ls_to_bf16(was[i]) << 16;
            assert_int_equal(bits[i], want >> 16);
            assert_memory_equal(&x[i], &want, 4);
        }
    }
}

static void a_bad_number_is_not_rounded_into_silence(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const lsk_table *k;
    for (int l = 0; (k = level_of_integers(l)); l++)
        for (int b = 0; b < 3; b++)
            for (int at = 0; at < 32; at++) {
                float x[32];
                lsk_group g;
                for (int i = 0; i < 32; i++) x[i] = rnd();
                x[at] = bad[b];
                k->quantize(x, 32, (const lsk_arith[]){LSK_ARITH_I16, LSK_ARITH_I8, LSK_ARITH_MIXED}[at % 3], &g, 1);
                assert_true(isnan(g.scale) && isnan(g.sum));
            }
}

static float in_bf16(float x) {
    const uint32_t bits = (uint32_t)ls_to_bf16(x) << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Rows of a tree with their heads, as many at once as can be, against doubles, each alone, and level `as` (NULL: none).
static void attention_of(const lsk_table *t, const lsk_table *as, int CTX, int HD, int HEADS, int first, float cap,
                         int bf16) {
    enum { MOST_CTX = 151, ROWS = 9, COLS = 192, PATHS = 5, MOST = 6 * PATHS, MOST_HD = 128 };
    static float k[COLS][MOST_HD], v[COLS][MOST_HD], q[MOST * MOST_HD], out[MOST * MOST_HD], alone[MOST * MOST_HD];
    float *scratch = aligned(sizeof(float) * (size_t)lsk_attention_scratch(MOST, COLS, HD));
    const size_t bytes = (bf16 ? sizeof(uint16_t) : sizeof(float)) * (size_t)HD * COLS;
    const lsk_cache cache = {aligned(bytes), aligned(bytes), bf16, HD};
    memset(cache.k, 0xFF, bytes), memset(cache.v, 0xFF, bytes); // NaN, as memory may be that nobody wrote
    rnd_restart();
    for (int c = 0; c < CTX + ROWS; c++) {
        for (int d = 0; d < HD; d++) {
            k[c][d] = bf16 ? in_bf16(rnd()) : rnd();
            v[c][d] = bf16 ? in_bf16(rnd()) : rnd();
        }
        lsk_cache_write(&cache, c, k[c], v[c]);
    }
    for (int i = 0; i < PATHS * HEADS * HD; i++) q[i] = rnd();
    const int32_t tail[PATHS][3] = {
        {CTX}, {CTX, CTX + 1}, {CTX, CTX + 2}, {CTX, CTX + 3, CTX + 7}, {CTX, CTX + 3, CTX + 8}};
    static const int n_tail[PATHS] = {1, 2, 2, 3, 3};
    static const float sinks[2] = {-1, 9}; // below and above most scores
    lsk_query queries[MOST];
    const int n = PATHS * HEADS;
    for (int i = 0; i < n; i++)
        queries[i] = (lsk_query){.q = q + i * HD,
                                 .out = out + i * HD,
                                 .tail = tail[i / HEADS],
                                 .n_tail = n_tail[i / HEADS],
                                 .first = first,
                                 .sink = i % 3 ? &sinks[i % 3 - 1] : NULL};
    const lsk_attention a = {
        .cache = cache, .queries = queries, .n_queries = n, .n_context = CTX, .softcap = cap, .scratch = scratch};
    if (as) {
        as->attention(&a);
        memcpy(alone, out, sizeof(float) * (size_t)(n * HD));
    }
    t->attention(&a);
    if (as) assert_memory_equal(alone, out, sizeof(float) * (size_t)(n * HD));
    for (int i = 0; i < n; i++) {
        const int path = i / HEADS, end = CTX + n_tail[path];
        double score[MOST_CTX + 3], max = -1e30, sum = 0, want[MOST_HD] = {0};
        const int from = first < end ? first : end - 1;
        for (int p = from; p < end; p++) {
            int c = p < CTX ? p : tail[path][p - CTX];
            score[p] = 0;
            for (int d = 0; d < HD; d++)
                score[p] += (double)(bf16 ? in_bf16(q[i * HD + d]) : q[i * HD + d]) * (double)k[c][d];
            if (cap > 0) score[p] = (double)cap * tanh(score[p] / (double)cap);
            if (score[p] > max) max = score[p];
        }
        if (queries[i].sink) sum = exp((double)*queries[i].sink - max);
        for (int p = from; p < end; p++) sum += score[p] = exp(score[p] - max);
        for (int p = from; p < end; p++)
            for (int d = 0; d < HD; d++) want[d] += score[p] / sum * (double)v[p < CTX ? p : tail[path][p - CTX]][d];
        // weights in bf16 are wrong by 2^-9 of theirs at most, and so is their sum
        for (int d = 0; d < HD; d++) assert_true(fabs(want[d] - (double)out[i * HD + d]) < (bf16 ? 0x1p-8 : 1e-5));
        // its bits do not depend on the queries beside it
        lsk_query one = queries[i];
        lsk_attention b = a;
        one.out = alone;
        b.queries = &one;
        b.n_queries = 1;
        t->attention(&b);
        assert_memory_equal(alone, out + i * HD, (size_t)HD * sizeof(float));
    }
    // the longest path's tokens committed one by one: columns CTX, CTX+1, CTX+2
    const int path = PATHS - 1;
    for (int i = 1; i < 3; i++) lsk_cache_move(&cache, tail[path][i], CTX + i);
    const int32_t self[] = {CTX + 2};
    lsk_attention c = a;
    c.n_context = CTX + 2;
    c.queries = queries + path * HEADS;
    c.n_queries = HEADS;
    for (int i = path * HEADS; i < n; i++)
        queries[i].tail = self, queries[i].n_tail = 1, queries[i].out = alone + i * HD;
    t->attention(&c);
    assert_memory_equal(out + path * HEADS * HD, alone + path * HEADS * HD, (size_t)(HEADS * HD) * sizeof(float));
    free(cache.k), free(cache.v), free(scratch);
}

// as: a level with the same order of sums; where bf16 is multiplied by tiles, it has another.
static void attentions_of(const lsk_table *t, const lsk_table *as, bool tiles) {
    static const int firsts[] = {0, 1, 15, 16, 30, 151}; // windows: of the context, and of the tree too
    for (int hd = 16; hd <= 128; hd += hd < 80 ? 16 : 48)
        for (int heads = 1; heads <= 6; heads++)
            for (int i = 0; i < 12; i++) {
                const int context = heads % 3 ? 151 : 150, first = firsts[i / 2] < context ? firsts[i / 2] : context;
                attention_of(t, tiles && i % 2 ? NULL : as, context, hd, heads, first, heads % 2 ? 0 : 2.5f, i % 2);
            }
}

static void attention_sees_ancestors_only_and_is_independent_of_company(void **state) {
    (void)state;
    const lsk_table *k, *as = NULL; // levels with fused multiply-adds, all but the last, agree
    for (int l = 0; (k = level(l)); l++) {
        const bool tiles = !strcmp(k->name, "amx");
        if (!as && !tiles && level(l + 1)) as = k;
        attentions_of(k, level(l + 1) ? as : NULL, tiles);
    }
#if defined(__x86_64__)
    if (!lsk_level("avx512bf16")) return;
    attentions_of(&lsk_avx512bf16, as, false); // which that level has on some processors alone
    lsk_table emulated = lsk_avx512bf16;
    emulated.attention = emulated_amx.attention;
    attentions_of(&emulated, as, true);
#endif
}

static void row_statistics_match_doubles(void **state) {
    (void)state;
    enum { N = 4112 }; // some logits are left over behind whole blocks
    float *x = aligned(sizeof(float) * N);
    const lsk_table *t;
    for (int l = 0; (t = level(l)); l++) {
        for (int i = 0; i < N; i++) x[i] = 12 * rnd();
        x[100] = x[2000] = 30; // a tie: the lower id comes first
        lst_row row;
        assert_int_equal(t->row_stats(x, N, &row), 0);
        double sum = 0, h = 0;
        for (int i = 0; i < N; i++) sum += exp((double)x[i] - 30);
        for (int i = 0; i < N; i++) h -= exp((double)x[i] - 30) / sum * ((double)x[i] - 30 - log(sum));
        assert_true(fabs((double)row.lse - (30 + log(sum))) < 1e-4);
        assert_true(fabs((double)row.entropy - h) < 1e-4);
        assert_int_equal(row.top_id[0], 100);
        assert_int_equal(row.top_id[1], 2000);
        int32_t ids[64];
        float values[64];
        t->top(x, N, 64, ids, values);
        for (int i = 0; i < 64; i++) {
            int above = 0;
            for (int j = 0; j < N; j++) above += x[j] > x[ids[i]] || (x[j] == x[ids[i]] && j < ids[i]);
            assert_int_equal(above, i);
        }
        // many ties, masked tokens, any number of values
        for (int i = 0; i < N; i++) x[i] = i % 3 ? floorf(x[i]) : -INFINITY;
        for (int n = N - 5, k = 256; n > 256; n /= 2, k /= 2) {
            int32_t best[256];
            float of[256];
            t->top(x, n, k, best, of);
            for (int i = 0; i < k; i++) {
                int above = 0;
                for (int j = 0; j < n; j++) above += x[j] > x[best[i]] || (x[j] == x[best[i]] && j < best[i]);
                assert_int_equal(above, i);
                assert_true(of[i] == x[best[i]]);
            }
        }
        static const int places[] = {0, 3, 77, 2000, N - 9, N - 1}; // among the first, the largest and the last, too
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            const float was = x[places[p]];
            x[places[p]] = NAN;
            assert_int_equal(t->row_stats(x, N, &row), -1);
            x[places[p]] = INFINITY;
            assert_int_equal(t->row_stats(x, N, &row), -1);
            x[places[p]] = was;
            assert_int_equal(t->row_stats(x, N, &row), 0);
        }
    }
    free(x);
}

static void silu_takes_any_number(void **state) {
    (void)state;
    const lsk_table *k;
    for (int l = 0; (k = level(l)); l++) {
        float gate[32], up[32], out[32];
        for (int i = 0; i < 32; i++) gate[i] = i < 16 ? 8 * rnd() : (i % 2 ? 1e30f : -1e30f), up[i] = rnd();
        gate[16] = -100, gate[18] = -88, gate[20] = -87.5f;
        k->activate(LS_ACT_SILU, NULL, gate, up, 32, out);
        for (int i = 0; i < 32; i++) {
            const double want = gate[i] < -200 ? 0 : (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];
            assert_true(fabs(want - (double)out[i]) <= 1e-6 * fabs(want) + 1e-30 * fabs((double)gate[i]));
        }
    }
}

static void conversions_are_exact(void **state) {
    (void)state;
    assert_int_equal(ls_to_bf16(1.0f), 0x3F80);
    assert_int_equal(ls_to_bf16(1.00390625f), 0x3F80); // halfway: to even
    assert_int_equal(ls_to_bf16(1.01171875f), 0x3F82);
    assert_int_equal(ls_to_bf16(3.4e38f), 0x7F80); // beyond the largest
    assert_true((ls_to_bf16(NAN) & 0x7FFF) > 0x7F80);
    assert_true(ls_of_half(0x3C00) == 1.0f && ls_of_half(0xC000) == -2.0f);
    assert_true(ls_of_half(0x0001) == 0x1p-24f && ls_of_half(0x7BFF) == 65504.0f);
    assert_true(isinf(ls_of_half(0x7C00)) && isnan(ls_of_half(0x7E00)));
}

static void every_half_survives(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 1 << 16; h++) {
        const float x = ls_of_half((uint16_t)h);
        if (!isnan(x)) assert_int_equal(ls_to_half(x), h);
    }
    assert_int_equal(ls_to_half(1.00048828125f), 0x3C00); // halfway: to even
    assert_int_equal(ls_to_half(1.00146484375f), 0x3C02);
    assert_int_equal(ls_to_half(65520.0f), 0x7C00);
    assert_int_equal(ls_to_half(0x1p-25f), 0);
    assert_true((ls_to_half(NAN) & 0x7FFF) > 0x7C00);
}

// Blocks of every format and what they stand for, by the reference's own package.
static void formats_are_those_of_the_reference(void **state) {
    (void)state;
    json_error_t e;
    json_t *all = json_load_file("tests/vectors/quants.json", 0, &e), *one;
    assert_non_null(all);
    const char *name;
    json_object_foreach(all, name, one) {
        const int type = (int)json_integer_value(json_object_get(one, "type"));
        const char *hex = json_string_value(json_object_get(one, "raw"));
        const json_t *want = json_object_get(one, "values");
        const size_t n = json_array_size(want), bytes = strlen(hex) / 2;
        unsigned char raw[4096];
        float got[1024];
        assert_true(n <= 1024 && bytes <= sizeof raw && lsk_row_bytes(type, (int64_t)n) == bytes);
        for (size_t i = 0; i < bytes; i++)
            raw[i] = (unsigned char)strtoul((char[]){hex[2 * i], hex[2 * i + 1], 0}, NULL, 16);
        lsk_dequant_row(type, raw, (int64_t)n, got);
        for (size_t i = 0; i < n; i++) {
            const double w = json_number_value(json_array_get(want, i));
            if (fabs((double)got[i] - w) > 1e-6 * fabs(w) + 1e-9)
                fail_msg("%s, value %zu: %.9g, expected %.9g", name, i, (double)got[i], w);
        }
    }
    json_decref(all);
}

static void quantising_rounds_to_the_nearest(void **state) {
    (void)state;
    enum { N = 256 };
    const struct {
        int type;
        float most; // error, as a part of what 32 values span
    } kinds[] = {{LS_GGML_F32, 0},
                 {LS_GGML_F16, 0.0005f},
                 {LS_GGML_BF16, 0.004f},
                 {LS_GGML_Q8_0, 0.0041f},
                 {LS_GGML_Q4_1, 0.035f}};
    float x[N], y[N];
    unsigned char raw[4 * N];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int round = 0; round < 50; round++) {
            for (int i = 0; i < N; i++) x[i] = round ? rnd() * powf(10, (float)(round % 7) - 3) : 0; // all zero, too
            lsk_quantize_row(kinds[k].type, x, N, raw);
            lsk_dequant_row(kinds[k].type, raw, N, y);
            for (int i = 0; i < N; i += 32) {
                float low = 0, high = 0;
                for (int j = i; j < i + 32; j++) low = fminf(low, x[j]), high = fmaxf(high, x[j]);
                for (int j = i; j < i + 32; j++)
                    assert_true(fabsf(x[j] - y[j]) <= kinds[k].most * (high - low) + 1e-7f);
            }
        }
}

static void small_kernels_match_doubles(void **state) {
    (void)state;
    enum { N = 64 };
    const lsk_table *t;
    for (int l = 0; (t = level(l)); l++) {
        float gate[N], up[N], out[N], x[N], cs[N];
        for (int i = 0; i < N; i++) gate[i] = 9 * rnd(), up[i] = 9 * rnd(), x[i] = 60 * rnd(), cs[i] = rnd();
        gate[0] = 0, gate[1] = 1e-7f, gate[2] = -1e-7f, gate[3] = -60;
        static const float xielu[4] = {0.8f, 1.3f, 0.5f, -1e-6f};
        for (int kind = LS_ACT_SILU; kind <= LS_ACT_CLAMPED; kind++)
            for (int gated = 0; gated < 2; gated++) {
                t->activate(kind, xielu, gate, gated ? up : NULL, N, out);
                for (int i = 0; i < N; i++) {
                    const double g = (double)gate[i], p = (double)xielu[0], n = (double)xielu[1], b = (double)xielu[2],
                                 of[] = {g / (1 + exp(-g)),
                                         0.5 * g * (1 + tanh(sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))),
                                         g > 0 ? g * g : 0,
                                         g > 0 ? p * g * g + b * g : (expm1(fmin(g, -1e-6)) - g) * n + b * g,
                                         fmin(g, 7) / (1 + exp(-1.702 * fmin(g, 7)))},
                                 u = kind == LS_ACT_CLAMPED ? 1 + fmax(fmin((double)up[i], 7), -7) : (double)up[i];
                    assert_true(fabs((double)out[i] - of[kind] * (gated ? u : 1)) < 1e-5 * fmax(1, fabs(of[kind] * u)));
                }
            }
        float weights[2 * N];
        double mean = 0, square = 0;
        for (int i = 0; i < 2 * N; i++) weights[i] = rnd();
        for (int i = 0; i < N; i++) mean += (double)x[i] / N;
        for (int i = 0; i < N; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean) / N;
        t->layernorm(x, weights, N, 0.5f, out);
        for (int i = 0; i < N; i++)
            assert_true(fabs((double)out[i] - ((double)x[i] - mean) / sqrt(square + 0.5) * (double)weights[i] -
                             (double)weights[N + i]) < 1e-5);
        memcpy(out, x, sizeof x);
        t->softcap(out, N, 30);
        for (int i = 0; i < N; i++) assert_true(fabs((double)out[i] - 30 * tanh((double)x[i] / 30)) < 1e-4);
        for (int interleaved = 0; interleaved < 2; interleaved++)
            for (int dims = 2; dims <= N; dims += 2) {
                memcpy(out, x, sizeof x);
                t->rope(out, dims, interleaved, cs, 0.5f);
                for (int i = 0; i < dims / 2; i++) {
                    const int a = interleaved ? 2 * i : i, b = interleaved ? a + 1 : i + dims / 2;
                    const double c = (double)cs[2 * i], s = (double)cs[2 * i + 1];
                    assert_true(fabs((double)out[a] - 0.5 * ((double)x[a] * c - (double)x[b] * s)) < 1e-5);
                    assert_true(fabs((double)out[b] - 0.5 * ((double)x[a] * s + (double)x[b] * c)) < 1e-5);
                }
                for (int i = dims; i < N; i++) assert_true(out[i] == x[i]);
            }
    }
}

// What a level reaches at most is counted in multiply-adds of the instructions that its matmuls are made of.
static void peaks_count_what_they_do(void **state) {
    (void)state;
    for (int i = 0; level(i); i++) {
        const lsk_table *t = level(i);
        const int64_t floats = t->peak_f32(10);
        assert_true(floats >= 10 * LSK_PEAK_SUMS * 4 && t->peak_f32(20) == 2 * floats);
        if (t->peak_int) assert_true(t->peak_int(10) > floats && t->peak_int(20) == 2 * t->peak_int(10));
        assert_true(t->peak_bf16(10) >= floats);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_is_right_and_row_independent),
        cmocka_unit_test(packed_rows_come_back),
        cmocka_unit_test(integer_matmul_is_right_and_the_same_everywhere),
        cmocka_unit_test(sums_at_their_largest_are_exact),
        cmocka_unit_test(integers_are_the_same_on_every_processor),
#if defined(__x86_64__)
        cmocka_unit_test(tiles_are_right_and_row_independent),
        cmocka_unit_test(wrong_tiles_are_not_used),
#endif
        cmocka_unit_test(every_level_rounds_to_bf16_as_one_number_is),
        cmocka_unit_test(a_bad_number_is_not_rounded_into_silence),
        cmocka_unit_test(attention_sees_ancestors_only_and_is_independent_of_company),
        cmocka_unit_test(row_statistics_match_doubles),
        cmocka_unit_test(silu_takes_any_number),
        cmocka_unit_test(conversions_are_exact),
        cmocka_unit_test(every_half_survives),
        cmocka_unit_test(formats_are_those_of_the_reference),
        cmocka_unit_test(quantising_rounds_to_the_nearest),
        cmocka_unit_test(small_kernels_match_doubles),
        cmocka_unit_test(peaks_count_what_they_do),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
