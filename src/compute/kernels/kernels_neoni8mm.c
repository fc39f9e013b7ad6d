/* NEON with products of small integer matrices (FEAT_I8MM). SMMLA adds the products of two rows and two outputs, eight
 * bytes each, to four integers: twice what SDOT does. So rows go in pairs (the last of an odd number with itself),
 * their bytes and those of the weights side by side; one row alone takes SDOT. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "compute/kernels/kernels_intneon.h"

#define LSK_ZERO vdupq_n_s32(0)
#define LSK_STEP(sum, x) vmmlaq_s32(sum, (int8x16_t)x, vdupq_n_s8(2))
LSK_PEAK(peak_int, int32x4_t, 32)

/* Two rows' bytes or two outputs' weights, eight of the one and eight of the other a vector. */
INLINE int8x16_t pair_rows(const int8_t *a, const int8_t *b, int eighth) {
    const int64x2_t one = vreinterpretq_s64_s8(vld1q_s8(a + eighth / 2 * 16)), two = vreinterpretq_s64_s8(vld1q_s8(b + eighth / 2 * 16));
    return vreinterpretq_s8_s64(eighth % 2 ? vzip2q_s64(one, two) : vzip1q_s64(one, two));
}
INLINE int8x16_t pair_outputs(const int_group *w, int v, int eighth, int last) {
    const int32x4_t a = (int32x4_t)int_bytes(w, 2 * eighth, v), b = (int32x4_t)int_bytes(w, 2 * eighth + 1, v);
    return vreinterpretq_s8_s32(last ? vzip2q_s32(a, b) : vzip1q_s32(a, b));
}

/* Of two rows, over inputs 4j .. 4 * end - 1. */
typedef struct {
    vi row[2];
} pair_sums;
INLINE pair_sums sums_over(const int_group *w, int v, int j, int end, const int8_t *x, const int8_t *y) {
    int32x4_t first = vdupq_n_s32(0), second = first; /* of outputs 0 and 1, of 2 and 3 */
    EACH(i, j / 2, end / 2) {
        const int8x16_t both = pair_rows(x, y, i);
        first = vmmlaq_s32(first, both, pair_outputs(w, v, i, 0));
        second = vmmlaq_s32(second, both, pair_outputs(w, v, i, 1));
    }
    const int64x2_t a = vreinterpretq_s64_s32(first), b = vreinterpretq_s64_s32(second);
    return (pair_sums){{(vi)vzip1q_s64(a, b), (vi)vzip2q_s64(a, b)}};
}

#define INT_BLOCK(rows, is16) 2
INLINE void int_products(const int_group *w, const int is16, int v, int j, int end, const lsk_group *x, const int32_t *pairs,
                         const int from, const int to, vi dots[INT_TOGETHER][INT_MOST]) {
    (void)pairs;
    if (to == 1) {
        dots[0][0] = dot_row(w, v, j, end, x->hi);
        if (is16) dots[0][0] = (dots[0][0] << 8) + dot_row(w, v, j, end, x->lo);
        return;
    }
    const lsk_group *a = x + from, *b = x + to - 1;
    pair_sums sums = sums_over(w, v, j, end, a->hi, b->hi);
    if (is16) {
        const pair_sums low = sums_over(w, v, j, end, a->lo, b->lo);
        EACH(h, 0, 2) sums.row[h] = (sums.row[h] << 8) + low.row[h];
    }
    EACH(r, from, to) dots[0][r] = sums.row[r - from];
}
#include "compute/kernels/kernels_integers.h"

/* Only integers: levels.c adds what "neon" has. */
const lsk_table lsk_neoni8mm = {.name = "neoni8mm", .matmul_int = MATMUL_INT, .quantize = QUANTIZE, .peak_int = peak_int};
