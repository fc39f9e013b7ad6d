/* What the two levels of NEON with integer products share. A vector of packed weights has 4 inputs of each of 4 outputs,
 * a quarter of the tile; it becomes signed, so the products are those of the values themselves and no sum of inputs is
 * subtracted. Sums of integers are exact: these are the bits of kernels_int.c. */
#pragma once
#include "torch/kernels/kernels.h"

#ifdef LSK_NEON_EMULATED
#include LSK_NEON_EMULATED /* these instructions in plain C, for tests */
#define EACH(n, i) for (int i = 0; i < (n); i++)
#else
#include <arm_neon.h>
#define EACH(n, i) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif

#define ALWAYS static inline __attribute__((always_inline))

enum { LSK_NEON_ROWS = 8 }; /* rows of a pass at most */

/* Four outputs' weights of a group, 4 inputs a vector, and the scales of these outputs. */
typedef struct {
    int8x16_t w[8];
    float32x4_t scale, min;
} lsk_quarter;

ALWAYS float32x4_t quarter_half(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

ALWAYS lsk_quarter quarter_q4(const lsk_q4 *p, int at) {
    lsk_quarter q;
    EACH(4, j) {
        const uint8x16_t b = vld1q_u8(p->q + 64 * j + 16 * at);
        q.w[j] = vreinterpretq_s8_u8(vandq_u8(b, vdupq_n_u8(15)));
        q.w[j + 4] = vreinterpretq_s8_u8(vshrq_n_u8(b, 4));
    }
    q.scale = quarter_half(p->scale + 4 * at);
    q.min = quarter_half(p->min + 4 * at);
    return q;
}

ALWAYS lsk_quarter quarter_q8(const lsk_q8 *p, int at) { /* the bytes hold q + 128 */
    lsk_quarter q;
    EACH(8, j) q.w[j] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p->q + 64 * j + 16 * at), vdupq_n_u8(128)));
    q.scale = quarter_half(p->scale + 4 * at);
    q.min = vdupq_n_f32(0);
    return q;
}

/* A row's float sums go on by a group's exact sums; q4: the minima too. */
ALWAYS float32x4_t quarter_add(const lsk_quarter *q, int q4, int32x4_t dots, float scale, float total, float32x4_t sum) {
    sum = vfmaq_f32(sum, vcvtq_f32_s32(dots), vmulq_n_f32(q->scale, scale));
    return q4 ? vfmaq_n_f32(sum, q->min, total) : sum;
}

/* The outputs of a tile, from its four quarters; the last tile of a matrix may be partly empty. */
ALWAYS void quarters_store(const lsk_matrix *m, int32_t tile, float *y, const float32x4_t *sum) {
    const int32_t o = tile * LSK_TILE;
    if (o + LSK_TILE <= m->n_out) {
        EACH(4, i) vst1q_f32(y + o + 4 * i, sum[i]);
        return;
    }
    float all[LSK_TILE];
    EACH(4, i) vst1q_f32(all + 4 * i, sum[i]);
    memcpy(y + o, all, (size_t)(m->n_out - o) * sizeof *y);
}

/* From a row on, at most LSK_NEON_ROWS of them, over one tile. */
typedef void (*lsk_neon_kernel)(const lsk_matrix *m, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                                int32_t tile);
/* kernels[arith is i16][weights have 4 bits][rows - 1] */
typedef lsk_neon_kernel lsk_neon_kernels[2][2][LSK_NEON_ROWS];
void lsk_neon_matmul_int(const lsk_neon_kernels *kernels, const lsk_matrix *m, lsk_arith arith, const lsk_group *x,
                         int64_t ldx, float *y, int64_t ldy, int32_t rows, int32_t t0, int32_t t1, void *scratch);
extern const lsk_neon_kernels lsk_neondot_kernels;
