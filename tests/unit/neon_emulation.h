// What the kernels of integer products use of NEON, in plain C with the compiler's vectors, after Arm's Architecture
// Reference Manual (SDOT by element, SMMLA: four integers, each the product of two rows of eight bytes), for machines
// that are no Arm.
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int8_t int8x16_t __attribute__((vector_size(16)));
typedef int8_t int8x8_t __attribute__((vector_size(8)));
typedef uint8_t uint8x16_t __attribute__((vector_size(16)));
typedef int16_t int16x8_t __attribute__((vector_size(16)));
typedef int16_t int16x4_t __attribute__((vector_size(8)));
typedef uint16_t uint16x4_t __attribute__((vector_size(8)));
typedef int32_t int32x4_t __attribute__((vector_size(16)));
typedef uint32_t uint32x4_t __attribute__((vector_size(16)));
typedef int64_t int64x2_t __attribute__((vector_size(16)));
typedef float float32x4_t __attribute__((vector_size(16)));

#define EMULATED static inline __attribute__((unused))
#define EMULATED_LOAD(name, vector, element) \
    EMULATED vector name(const element *p) { \
        vector a; \
        memcpy(&a, p, sizeof a); \
        return a; \
    }
#define EMULATED_STORE(name, vector, element) \
    EMULATED void name(element *p, vector a) { \
        memcpy(p, &a, sizeof a); \
    }
#define EMULATED_DUP(name, vector, element, n) \
    EMULATED vector name(element x) { \
        vector a = {0}; \
        for (int i = 0; i < (n); i++) a[i] = x; \
        return a; \
    }
// Two vectors, one behind the other.
#define EMULATED_COMBINE(name, half, vector) \
    EMULATED vector name(half low, half high) { \
        vector a; \
        memcpy(&a, &low, sizeof low); \
        memcpy((char *)&a + sizeof low, &high, sizeof high); \
        return a; \
    }
#define EMULATED_NARROW(name, from, to, element, n) \
    EMULATED to name(from a) { \
        to b = {0}; \
        for (int i = 0; i < (n); i++) b[i] = (element)a[i]; \
        return b; \
    }
EMULATED_LOAD(vld1_u16, uint16x4_t, uint16_t)
EMULATED_LOAD(vld1q_u8, uint8x16_t, uint8_t)
EMULATED_LOAD(vld1q_s8, int8x16_t, int8_t)
EMULATED_LOAD(vld1q_f32, float32x4_t, float)
EMULATED_STORE(vst1q_s8, int8x16_t, int8_t)
EMULATED_STORE(vst1q_f32, float32x4_t, float)
EMULATED_DUP(vdupq_n_s8, int8x16_t, int8_t, 16)
EMULATED_DUP(vdupq_n_u8, uint8x16_t, uint8_t, 16)
EMULATED_DUP(vdupq_n_s32, int32x4_t, int32_t, 4)
EMULATED_DUP(vdupq_n_u32, uint32x4_t, uint32_t, 4)
EMULATED_DUP(vdupq_n_f32, float32x4_t, float, 4)
EMULATED_COMBINE(vcombine_s8, int8x8_t, int8x16_t)
EMULATED_COMBINE(vcombine_s16, int16x4_t, int16x8_t)
EMULATED_NARROW(vmovn_s16, int16x8_t, int8x8_t, int8_t, 8)
EMULATED_NARROW(vmovn_s32, int32x4_t, int16x4_t, int16_t, 4)

#define vreinterpretq_s8_u8(a) ((int8x16_t)(a))
#define vreinterpretq_s8_s32(a) ((int8x16_t)(a))
#define vreinterpretq_s8_s64(a) ((int8x16_t)(a))
#define vreinterpretq_s32_s8(a) ((int32x4_t)(a))
#define vreinterpretq_s32_s64(a) ((int32x4_t)(a))
#define vreinterpretq_s64_s8(a) ((int64x2_t)(a))
#define vreinterpretq_s64_s32(a) ((int64x2_t)(a))
#define vreinterpret_f16_u16(a) (a) // half floats stay their bits
#define vandq_u8(a, b) ((a) & (b))
#define veorq_u8(a, b) ((a) ^ (b))
#define vshrq_n_u8(a, n) ((a) >> (n))
#define vandq_u32(a, b) ((a) & (b))
#define vaddq_s32(a, b) ((a) + (b))
#define vsubq_s8(a, b) ((a) - (b))
#define vorrq_u8(a, b) ((a) | (b))
#define vreinterpretq_u8_s8(a) ((uint8x16_t)(a))
EMULATED uint8x16_t vshlq_u8(uint8x16_t a, int8x16_t by) {
    for (int i = 0; i < 16; i++) a[i] = (uint8_t)(by[i] < 0 ? a[i] >> -by[i] : a[i] << by[i]);
    return a;
}
#define vsubq_f32(a, b) ((a) - (b))
#define vmulq_f32(a, b) ((a) * (b))
#define vsubq_s32(a, b) ((a) - (b))
#define vshlq_n_s32(a, n) ((int32x4_t)((uint32x4_t)(a) << (n)))
#define vshrq_n_s32(a, n) ((a) >> (n))
#define vcleq_f32(a, b) ((uint32x4_t)((a) <= (b)))
#define vmulq_n_f32(a, x) ((a) * vdupq_n_f32(x))
#define vfmaq_n_f32(c, a, x) vfmaq_f32(c, a, vdupq_n_f32(x))
#define vzip1q_s64(a, b) ((int64x2_t){(a)[0], (b)[0]})
#define vzip2q_s64(a, b) ((int64x2_t){(a)[1], (b)[1]})
#define vzip1q_s32(a, b) ((int32x4_t){(a)[0], (b)[0], (a)[1], (b)[1]})
#define vzip2q_s32(a, b) ((int32x4_t){(a)[2], (b)[2], (a)[3], (b)[3]})
#define vaddvq_s32(a) ((a)[0] + (a)[1] + (a)[2] + (a)[3])

EMULATED float32x4_t vcvt_f32_f16(uint16x4_t a) {
    float32x4_t out = {0};
    for (int i = 0; i < 4; i++) out[i] = lsk_half_to_float(a[i]);
    return out;
}
EMULATED float32x4_t vfmaq_f32(float32x4_t c, float32x4_t a, float32x4_t b) {
    for (int i = 0; i < 4; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
EMULATED float32x4_t vcvtq_f32_s32(int32x4_t a) {
    return (float32x4_t){(float)a[0], (float)a[1], (float)a[2], (float)a[3]};
}
EMULATED int32x4_t vcvtnq_s32_f32(float32x4_t a) { // to nearest, ties to even; NaN becomes 0
    int32x4_t out = {0};
    for (int i = 0; i < 4; i++) out[i] = isnan(a[i]) ? 0 : (int32_t)lrintf(a[i]);
    return out;
}
EMULATED float32x4_t vabsq_f32(float32x4_t a) {
    for (int i = 0; i < 4; i++) a[i] = fabsf(a[i]);
    return a;
}
EMULATED float32x4_t vmaxq_f32(float32x4_t a, float32x4_t b) { // NaN if either is
    for (int i = 0; i < 4; i++) a[i] = isnan(a[i]) || a[i] > b[i] ? a[i] : b[i];
    return a;
}
EMULATED float vmaxvq_f32(float32x4_t a) {
    float most = a[0];
    for (int i = 1; i < 4; i++) most = isnan(a[i]) || a[i] > most ? a[i] : most;
    return most;
}
EMULATED uint32_t vminvq_u32(uint32x4_t a) {
    uint32_t least = a[0];
    for (int i = 1; i < 4; i++) least = a[i] < least ? a[i] : least;
    return least;
}
EMULATED int32x4_t vdotq_laneq_s32(int32x4_t sum, int8x16_t a, int8x16_t b, int lane) {
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) sum[i] += a[4 * i + k] * b[4 * lane + k];
    return sum;
}
EMULATED int32x4_t vmmlaq_s32(int32x4_t sum, int8x16_t a, int8x16_t b) {
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++) sum[i] += a[i / 2 * 8 + k] * b[i % 2 * 8 + k];
    return sum;
}
