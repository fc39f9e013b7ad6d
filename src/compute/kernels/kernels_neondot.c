/* NEON with integer dot products (FEAT_DotProd). SDOT adds four products of signed bytes to each of four integers, and
 * takes the four inputs, which all outputs share, from any quarter of a vector: so 16 inputs are loaded at once. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "compute/kernels/kernels_intneon.h"

#define LSK_ZERO vdupq_n_s32(0)
#define LSK_STEP(sum, x) vdotq_laneq_s32(sum, (int8x16_t)x, vdupq_n_s8(2), 0)
LSK_PEAK(peak_int, int32x4_t, 16)

#define INT_BLOCK(rows, is16) 1
INLINE void int_products(const int_group *w, const int is16, int v, int j, int end, const lsk_group *x, const int32_t *pairs,
                         const int from, const int to, vi dots[INT_TOGETHER][INT_MOST]) {
    (void)pairs, (void)to;
    dots[0][from] = dot_row(w, v, j, end, x[from].hi);
    if (is16) dots[0][from] = (dots[0][from] << 8) + dot_row(w, v, j, end, x[from].lo);
}
#include "compute/kernels/kernels_integers.h"

/* Only integers: levels.c adds what "neon" has. */
const lsk_table lsk_neondot = {.name = "neondot", .matmul_int = MATMUL_INT, .quantize = QUANTIZE, .peak_int = peak_int};
