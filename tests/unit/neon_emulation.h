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
typedef uint8_t uint8x8_t __attribute__((vector_size(8)));
typedef uint16_t uint16x4_t __attribute__((vector_size(8)));
typedef uint16_t uint16x8_t __attribute__((vector_size(16)));
typedef int32_t int32x4_t __attribute__((vector_size(16)));
typedef uint32_t uint32x2_t __attribute__((vector_size(8)));
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
EMULATED_LOAD(vld1q_s8, int8x16_t, int8_t)
EMULATED_LOAD(vld1q_u8, uint8x16_t, uint8_t)
EMULATED_STORE(vst1q_s8, int8x16_t, int8_t)
EMULATED_DUP(vdupq_n_s8, int8x16_t, int8_t, 16)
EMULATED_DUP(vdupq_n_s32, int32x4_t, int32_t, 4)
EMULATED_DUP(vdupq_n_u32, uint32x4_t, uint32_t, 4)
EMULATED_DUP(vdup_n_u32, uint32x2_t, uint32_t, 2)
EMULATED_COMBINE(vcombine_s8, int8x8_t, int8x16_t)
EMULATED_COMBINE(vcombine_s16, int16x4_t, int16x8_t)
EMULATED_NARROW(vmovn_s16, int16x8_t, int8x8_t, int8_t, 8)
EMULATED_NARROW(vmovn_s32, int32x4_t, int16x4_t, int16_t, 4)

EMULATED uint8x16_t vqtbl1q_u8(uint8x16_t table, uint8x16_t at) {
    uint8x16_t a = {0};
    for (int i = 0; i < 16; i++) a[i] = at[i] < 16 ? table[at[i]] : 0;
    return a;
}

#define vreinterpretq_s8_s32(a) ((int8x16_t)(a))
#define vreinterpretq_s8_s64(a) ((int8x16_t)(a))
#define vreinterpretq_s64_s8(a) ((int64x2_t)(a))
#define vreinterpretq_s64_s32(a) ((int64x2_t)(a))
#define vreinterpretq_s32_u32(a) ((int32x4_t)(a))
#define vreinterpret_u8_u32(a) ((uint8x8_t)(a))
#define vreinterpret_f16_u16(a) (a) // half floats stay their bits
#define vmovl_u8(a) __builtin_convertvector(a, uint16x8_t)
#define vmovl_u16(a) __builtin_convertvector(a, uint32x4_t)
#define vget_low_u16(a) ((uint16x4_t){(a)[0], (a)[1], (a)[2], (a)[3]})
#define vcvtq_f32_u32(a) __builtin_convertvector(a, float32x4_t)
#define vcvtq_f32_s32(a) __builtin_convertvector(a, float32x4_t)
#define vandq_u32(a, b) ((a) & (b))
#define vshrq_n_u32(a, n) ((a) >> (n))
#define vshlq_n_s32(a, n) ((int32x4_t)((uint32x4_t)(a) << (n)))
#define vshrq_n_s32(a, n) ((a) >> (n))
#define vcgtq_f32(a, b) ((uint32x4_t)((a) > (b)))
#define vbslq_f32(m, a, b) ((float32x4_t)(((m) & (uint32x4_t)(a)) | (~(m) & (uint32x4_t)(b))))
#define vzip1q_s64(a, b) ((int64x2_t){(a)[0], (b)[0]})
#define vzip2q_s64(a, b) ((int64x2_t){(a)[1], (b)[1]})
#define vzip1q_s32(a, b) ((int32x4_t){(a)[0], (b)[0], (a)[1], (b)[1]})
#define vzip2q_s32(a, b) ((int32x4_t){(a)[2], (b)[2], (a)[3], (b)[3]})

EMULATED float32x4_t vcvt_f32_f16(uint16x4_t a) {
    float32x4_t out = {0};
    for (int i = 0; i < 4; i++) out[i] = ls_of_half(a[i]);
    return out;
}
EMULATED float32x4_t vfmaq_f32(float32x4_t c, float32x4_t a, float32x4_t b) {
    for (int i = 0; i < 4; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
EMULATED int32x4_t vcvtnq_s32_f32(float32x4_t a) { // to nearest, ties to even; NaN becomes 0
    int32x4_t out = {0};
    for (int i = 0; i < 4; i++) out[i] = isnan(a[i]) ? 0 : (int32_t)lrintf(a[i]);
    return out;
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
