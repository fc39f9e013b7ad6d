/* NEON with products of small integer matrices (FEAT_I8MM). SMMLA adds the products of two rows and two outputs, eight
 * bytes each, to four integers: twice what SDOT does. So rows go in pairs (the last of an odd number with itself),
 * their bytes and those of the weights side by side; one row alone takes SDOT. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "torch/kernels/kernels_intneon.h"

#define LSK_ZERO vdupq_n_s32(0)
#define LSK_STEP(sum, x) vmmlaq_s32(sum, (int8x16_t)x, vdupq_n_s8(2))
LSK_PEAK(lsk_neoni8mm_peak, int32x4_t, 32)

/* Two rows' 32 bytes, eight of the one and eight of the other a vector. */
typedef struct {
    int8x16_t x[4];
} row_pair;

ALWAYS row_pair pair_rows(const int8_t *a, const int8_t *b) {
    row_pair p;
    EACH(2, i) {
        const int64x2_t one = vreinterpretq_s64_s8(vld1q_s8(a + 16 * i)), two = vreinterpretq_s64_s8(vld1q_s8(b + 16 * i));
        p.x[2 * i] = vreinterpretq_s8_s64(vzip1q_s64(one, two));
        p.x[2 * i + 1] = vreinterpretq_s8_s64(vzip2q_s64(one, two));
    }
    return p;
}

/* The weights of two outputs the same way: w[j] of outputs 0 and 1, w[j + 4] of 2 and 3. */
ALWAYS void pair_outputs(int8x16_t *w) {
    int8x16_t first[4], second[4];
    EACH(4, j) {
        const int32x4_t a = vreinterpretq_s32_s8(w[2 * j]), b = vreinterpretq_s32_s8(w[2 * j + 1]);
        first[j] = vreinterpretq_s8_s32(vzip1q_s32(a, b));
        second[j] = vreinterpretq_s8_s32(vzip2q_s32(a, b));
    }
    EACH(4, j) w[j] = first[j], w[j + 4] = second[j];
}

/* Of two rows, over inputs 8 * from .. 8 * end - 1 on. */
typedef struct {
    int32x4_t row[2];
} pair_sums;
ALWAYS pair_sums sums_over(const row_pair *p, const int8x16_t *w, int from, int end) {
    int32x4_t first = vdupq_n_s32(0), second = first;
    for (int j = from; j < end; j++) {
        first = vmmlaq_s32(first, p->x[j], w[j]);
        second = vmmlaq_s32(second, p->x[j], w[j + 4]);
    }
    const int64x2_t a = vreinterpretq_s64_s32(first), b = vreinterpretq_s64_s32(second);
    return (pair_sums){{vreinterpretq_s32_s64(vzip1q_s64(a, b)), vreinterpretq_s32_s64(vzip2q_s64(a, b))}};
}

ALWAYS void multiply(const row_pair *p, const int8x16_t *w, int kind, lsk_dots *dots) {
    const pair_sums first = sums_over(p, w, 0, kind & LSK_HALVES ? 2 : 4);
    const pair_sums last = kind & LSK_HALVES ? sums_over(p, w, 2, 4) : first;
    EACH(2, h) dots[h] = (lsk_dots){first.row[h], last.row[h]};
}

#define LAST_OF(ROWS, r) ((r) < (ROWS) ? (r) : (ROWS) - 1)
#define KERNEL(FORMAT, KIND, ROWS, ARITH, IS16) \
    static __attribute__((noinline)) void FORMAT##_##ARITH##_##ROWS(const lsk_matrix *m, const lsk_group *x, int64_t ldx, \
                                                                    float *y, int64_t ldy, int32_t tile) { \
        enum { PAIRS = (ROWS + 1) / 2 }; \
        const void *data = m->data + (size_t)tile * m->tile_bytes; \
        float32x4_t sum[ROWS][4]; \
        row_pair hi[PAIRS], lo[PAIRS]; \
        EACH(ROWS, r) EACH(4, i) sum[r][i] = vdupq_n_f32(0); \
        for (int g = 0; g < m->n_in / 32; g++, x += ldx) { \
            EACH(PAIRS, k) { \
                hi[k] = pair_rows(x[2 * k].hi, x[LAST_OF(ROWS, 2 * k + 1)].hi); \
                if (IS16) lo[k] = pair_rows(x[2 * k].lo, x[LAST_OF(ROWS, 2 * k + 1)].lo); \
            } \
            EACH(4, i) { \
                lsk_quarter q = quarter_##FORMAT(data, g, i); \
                pair_outputs(q.w); \
                EACH(PAIRS, k) { \
                    lsk_dots dots[2], low[2]; \
                    multiply(&hi[k], q.w, KIND, dots); \
                    if (IS16) { \
                        multiply(&lo[k], q.w, KIND, low); \
                        EACH(2, h) dots[h] = quarter_join(dots[h], low[h]); \
                    } \
                    EACH(2, h) { \
                        const int r = 2 * k + h; \
                        if (r < ROWS) sum[r][i] = quarter_add(&q, KIND, dots[h], &x[r], sum[r][i]); \
                    } \
                } \
            } \
        } \
        EACH(ROWS, r) quarters_store(m, tile, y + r * ldy, sum[r]); \
    }
#define KERNELS_OF(FORMAT, KIND) \
    BOTH(FORMAT, KIND, 2) BOTH(FORMAT, KIND, 3) BOTH(FORMAT, KIND, 4) BOTH(FORMAT, KIND, 5) BOTH(FORMAT, KIND, 6) \
    BOTH(FORMAT, KIND, 7) BOTH(FORMAT, KIND, 8)
#define BOTH(FORMAT, KIND, ROWS) KERNEL(FORMAT, KIND, ROWS, i8, 0) KERNEL(FORMAT, KIND, ROWS, i16, 1)
LSK_NEON_FORMATS(KERNELS_OF)

#define PAIRED(kind) {NULL, kind##_2, kind##_3, kind##_4, kind##_5, kind##_6, kind##_7, kind##_8},
#define PAIRED_I8(FORMAT, KIND) PAIRED(FORMAT##_i8)
#define PAIRED_I16(FORMAT, KIND) PAIRED(FORMAT##_i16)
static const lsk_neon_kernels paired = {{LSK_NEON_FORMATS(PAIRED_I8)}, {LSK_NEON_FORMATS(PAIRED_I16)}};

void lsk_neoni8mm_matmul_int(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                             int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    lsk_neon_matmul_int(rows == 1 ? &lsk_neondot_kernels : &paired, m, arith, x, ldx, y, ldy, rows, t0, t1, scratch);
}
