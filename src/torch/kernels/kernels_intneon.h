/* What the two levels of NEON with integer products share. A vector of packed weights has 4 inputs of each of 4
 * outputs, a quarter of the tile; it becomes signed, so the products are those of the values themselves and no sum of
 * inputs is subtracted. Sums of integers are exact: these are the bits of kernels_int.c. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
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

/* Four outputs' weights of a group, 4 inputs a vector, and what scales these outputs; [1]: where halves have their own,
 * the last 16 inputs. */
typedef struct {
    int8x16_t w[8];
    float32x4_t scale[2], min[2];
} lsk_quarter;
/* What of that there is. */
enum { LSK_MINIMA = 1, LSK_HALVES = 2 };
/* A row's exact sums for four outputs; of LSK_HALVES over the first 16 inputs and the last, else both are in first. */
typedef struct {
    int32x4_t first, last;
} lsk_dots;

ALWAYS float32x4_t quarter_half(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

ALWAYS void quarter_unpack(lsk_quarter *q, const uint8_t *from, int at) {
    EACH(4, j) {
        const uint8x16_t b = vld1q_u8(from + 64 * j + 16 * at);
        q->w[j] = vreinterpretq_s8_u8(vandq_u8(b, vdupq_n_u8(15)));
        q->w[j + 4] = vreinterpretq_s8_u8(vshrq_n_u8(b, 4));
    }
}

ALWAYS void quarter_unpack_2(lsk_quarter *q, const uint8_t *from, int at) {
    EACH(8, j) {
        const uint8x16_t b = vshlq_u8(vld1q_u8(from + j / 4 * 64 + 16 * at), vdupq_n_s8((int8_t)(j % 4 * -2)));
        q->w[j] = vreinterpretq_s8_u8(vandq_u8(b, vdupq_n_u8(3)));
    }
}

/* w with what lies under `bits` of high, shifted up. */
ALWAYS int8x16_t quarter_high(int8x16_t w, uint8x16_t high, int up, int bits) {
    const uint8x16_t above = vandq_u8(vshlq_u8(high, vdupq_n_s8((int8_t)up)), vdupq_n_u8((uint8_t)bits));
    return vreinterpretq_s8_u8(vorrq_u8(vreinterpretq_u8_s8(w), above));
}

ALWAYS void quarter_unpack_5(lsk_quarter *q, const uint8_t *from, const uint8_t *high, int at) {
    const uint8x16_t h = vld1q_u8(high + 16 * at);
    quarter_unpack(q, from, at);
    EACH(8, j) q->w[j] = quarter_high(q->w[j], h, 4 - j, 16);
}

/* Four small integers, times d. */
ALWAYS float32x4_t quarter_times(float32x4_t d, int a, int b, int c, int e) {
    const float four[4] = {(float)a, (float)b, (float)c, (float)e};
    return vmulq_f32(d, vld1q_f32(four));
}
ALWAYS float32x4_t quarter_bytes(const uint8_t *p, float32x4_t d) {
    return quarter_times(d, p[0], p[1], p[2], p[3]);
}
ALWAYS float32x4_t quarter_signed_bytes(const uint8_t *p, float32x4_t d) {
    return quarter_times(d, (int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]);
}
ALWAYS float32x4_t quarter_nibbles(const uint8_t *p, int high, float32x4_t d) {
    const int by = 4 * high;
    return quarter_times(d, p[0] >> by & 15, p[1] >> by & 15, p[2] >> by & 15, p[3] >> by & 15);
}
ALWAYS float32x4_t quarter_minus(const uint16_t *p) {
    return vsubq_f32(vdupq_n_f32(0), quarter_half(p));
}

/* Quarter `at` of group g of a tile. */
ALWAYS lsk_quarter quarter_q4(const void *tile, int g, int at) {
    const lsk_q4 *p = (const lsk_q4 *)tile + g;
    lsk_quarter q;
    if (!at) lsk_prefetch(p, sizeof *p);
    quarter_unpack(&q, p->q, at);
    q.scale[0] = quarter_half(p->scale + 4 * at);
    q.min[0] = quarter_half(p->min + 4 * at);
    return q;
}
ALWAYS lsk_quarter quarter_q5(const void *tile, int g, int at) {
    const lsk_q5 *p = (const lsk_q5 *)tile + g;
    lsk_quarter q;
    if (!at) lsk_prefetch(p, sizeof *p);
    quarter_unpack_5(&q, p->q, p->high, at);
    q.scale[0] = quarter_half(p->scale + 4 * at);
    q.min[0] = quarter_half(p->min + 4 * at);
    return q;
}
ALWAYS lsk_quarter quarter_q8(const void *tile, int g, int at) { /* the bytes hold q + 128 */
    const lsk_q8 *p = (const lsk_q8 *)tile + g;
    lsk_quarter q;
    if (!at) lsk_prefetch(p, sizeof *p);
    EACH(8, j) q.w[j] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p->q + 64 * j + 16 * at), vdupq_n_u8(128)));
    q.scale[0] = quarter_half(p->scale + 4 * at);
    return q;
}
ALWAYS lsk_quarter quarter_k2(const void *tile, int g, int at) {
    const lsk_k2 *p = (const lsk_k2 *)tile + g / 8;
    lsk_quarter q;
    if (!at) lsk_prefetch(&p->g[g % 8], sizeof p->g[g % 8]);
    quarter_unpack_2(&q, p->g[g % 8].q, at);
    EACH(2, last) {
        q.scale[last] = quarter_nibbles(p->scale[g % 8] + 4 * at, last, quarter_half(p->d + 4 * at));
        q.min[last] = quarter_nibbles(p->min[g % 8] + 4 * at, last, quarter_minus(p->dmin + 4 * at));
    }
    return q;
}
ALWAYS lsk_quarter quarter_k3(const void *tile, int g, int at) { /* its integers are q + 4 */
    const lsk_k3 *p = (const lsk_k3 *)tile + g / 8;
    const float32x4_t d = quarter_half(p->d + 4 * at);
    const uint8x16_t high = vld1q_u8(p->g[g % 8].high + 16 * at);
    lsk_quarter q;
    if (!at) lsk_prefetch(&p->g[g % 8], sizeof p->g[g % 8]);
    quarter_unpack_2(&q, p->g[g % 8].q, at);
    EACH(8, j) q.w[j] = vsubq_s8(quarter_high(q.w[j], high, 2 - j, 4), vdupq_n_s8(4));
    q.scale[0] = quarter_signed_bytes(p->scale[g % 8] + 4 * at, d);
    q.scale[1] = quarter_signed_bytes(p->min[g % 8] + 4 * at, d);
    return q;
}
ALWAYS lsk_quarter quarter_k4(const void *tile, int g, int at) {
    const lsk_k4 *p = (const lsk_k4 *)tile + g / 8;
    lsk_quarter q;
    if (!at) lsk_prefetch(&p->g[g % 8], sizeof p->g[g % 8]);
    quarter_unpack(&q, p->g[g % 8].q, at);
    q.scale[0] = quarter_bytes(p->scale[g % 8] + 4 * at, quarter_half(p->d + 4 * at));
    q.min[0] = quarter_bytes(p->min[g % 8] + 4 * at, quarter_minus(p->dmin + 4 * at));
    return q;
}
ALWAYS lsk_quarter quarter_k5(const void *tile, int g, int at) {
    const lsk_k5 *p = (const lsk_k5 *)tile + g / 8;
    lsk_quarter q;
    if (!at) lsk_prefetch(&p->g[g % 8], sizeof p->g[g % 8]);
    quarter_unpack_5(&q, p->g[g % 8].q, p->g[g % 8].high, at);
    q.scale[0] = quarter_bytes(p->scale[g % 8] + 4 * at, quarter_half(p->d + 4 * at));
    q.min[0] = quarter_bytes(p->min[g % 8] + 4 * at, quarter_minus(p->dmin + 4 * at));
    return q;
}
ALWAYS lsk_quarter quarter_k6(const void *tile, int g, int at) { /* its integers are q + 32 */
    const lsk_k6 *p = (const lsk_k6 *)tile + g / 8;
    const float32x4_t d = quarter_half(p->d + 4 * at);
    lsk_quarter q;
    if (!at) lsk_prefetch(&p->g[g % 8], sizeof p->g[g % 8]);
    quarter_unpack(&q, p->g[g % 8].q, at);
    EACH(8, j) {
        const uint8x16_t high = vld1q_u8(p->g[g % 8].high + j / 4 * 64 + 16 * at);
        q.w[j] = vsubq_s8(quarter_high(q.w[j], high, 4 - j % 4 * 2, 48), vdupq_n_s8(32));
    }
    q.scale[0] = quarter_signed_bytes(p->scale[g % 8] + 4 * at, d);
    q.scale[1] = quarter_signed_bytes(p->min[g % 8] + 4 * at, d);
    return q;
}

/* A row's float sums go on by a group's exact sums. */
ALWAYS float32x4_t quarter_add(const lsk_quarter *q, int kind, lsk_dots dots, const lsk_group *x, float32x4_t sum) {
    const int halves = (kind & LSK_HALVES) != 0;
    for (int last = 0; last <= halves; last++) {
        const int32x4_t exact = last ? dots.last : dots.first;
        sum = vfmaq_f32(sum, vcvtq_f32_s32(exact), vmulq_n_f32(q->scale[last], x->scale));
        if (kind & LSK_MINIMA) sum = vfmaq_n_f32(sum, q->min[last], halves ? lsk_half_sum(x, last) : x->sum);
    }
    return sum;
}
/* Of 16-bit inputs, from the sums of their halves. */
ALWAYS lsk_dots quarter_join(lsk_dots hi, lsk_dots lo) {
    return (lsk_dots){vaddq_s32(vshlq_n_s32(hi.first, 8), lo.first), vaddq_s32(vshlq_n_s32(hi.last, 8), lo.last)};
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
/* kernels[arith is i16][format - LSK_Q4I][rows - 1] */
typedef lsk_neon_kernel lsk_neon_kernels[2][LSK_K6I - LSK_Q4I + 1][LSK_NEON_ROWS];
/* Names a kernel of each format for X(format, kind), in the order of their numbers. */
#define LSK_NEON_FORMATS(X) \
    X(q4, LSK_MINIMA) X(q5, LSK_MINIMA) X(q8, 0) X(k2, LSK_MINIMA | LSK_HALVES) X(k3, LSK_HALVES) X(k4, LSK_MINIMA) \
    X(k5, LSK_MINIMA) X(k6, LSK_HALVES)
void lsk_neon_matmul_int(const lsk_neon_kernels *kernels, const lsk_matrix *m, lsk_arith arith, const lsk_group *x,
                         int64_t ldx, float *y, int64_t ldy, int32_t rows, int32_t t0, int32_t t1, void *scratch);
extern const lsk_neon_kernels lsk_neondot_kernels;
