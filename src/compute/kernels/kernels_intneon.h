/* What the two levels of NEON with integer products share. A vector of packed weights has 4 inputs of each of 4
 * outputs, a quarter of the tile; it becomes signed, so the products are those of the values themselves and no sum of
 * inputs is subtracted. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#pragma once
#include "compute/kernels/vector_neon.h"

#define INT_SIGNED 1
#define INT_ROWS UP_TO_8
#define INT_TOGETHER 1
enum { INT_MOST = 8 };
#include "compute/kernels/kernels_intgroup.h"

/* The four inputs of x that all outputs share: its quarter `lane`, a constant where that is written out. */
INLINE int32x4_t dot_quarter(int32x4_t sum, int8x16_t w, int8x16_t x, int lane) {
    switch (lane) {
    case 0: return vdotq_laneq_s32(sum, w, x, 0);
    case 1: return vdotq_laneq_s32(sum, w, x, 1);
    case 2: return vdotq_laneq_s32(sum, w, x, 2);
    default: return vdotq_laneq_s32(sum, w, x, 3);
    }
}
INLINE vi dot_row(const int_group *w, int v, int j, int end, const int8_t *x) {
    int32x4_t sum = vdupq_n_s32(0);
    EACH(k, j, end) sum = dot_quarter(sum, (int8x16_t)int_bytes(w, k, v), vld1q_s8(x + k / 4 * 16), k % 4);
    return (vi)sum;
}

/* 4 integers of 32 bits, eight times, as 32 bytes. */
INLINE void vf_store_bytes(int8_t *to, const vi *v) {
    for (int j = 0; j < 8; j += 4) {
        const int16x8_t a = vcombine_s16(vmovn_s32((int32x4_t)v[j]), vmovn_s32((int32x4_t)v[j + 1])),
                        b = vcombine_s16(vmovn_s32((int32x4_t)v[j + 2]), vmovn_s32((int32x4_t)v[j + 3]));
        vst1q_s8(to + 4 * j, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
    }
}
