/* What the levels of AVX-512 share that multiply integers: how a group's exact sum is added to a row's float sum, in the
 * order of kernels_int.c. */
#pragma once
#include "torch/kernels/vector_avx512.h"

static inline __attribute__((always_inline)) __m512 add_scaled(__m512 sum, __m512i dot, __m512 d, float scale) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, _mm512_set1_ps(scale)), sum);
}
/* dot: of weights 0..15 */
static inline __attribute__((always_inline)) __m512 add_q4(__m512 sum, __m512i dot, __m512 d, __m512 min,
                                                           const lsk_group *x) {
    return _mm512_fmadd_ps(min, _mm512_set1_ps(x->sum), add_scaled(sum, dot, d, x->scale));
}
/* dot: of bytes that hold a weight + 128 */
static inline __attribute__((always_inline)) __m512 add_q8(__m512 sum, __m512i dot, __m512 d, const lsk_group *x) {
    return add_scaled(sum, _mm512_sub_epi32(dot, _mm512_set1_epi32(x->total128)), d, x->scale);
}

/* ... of bytes that hold a weight + 32, over the first 16 inputs and over the last. */
static inline __attribute__((always_inline)) __m512 add_first16(__m512 sum, __m512i dot, __m512 d, const lsk_group *x) {
    return add_scaled(sum, _mm512_sub_epi32(dot, _mm512_set1_epi32(x->first32)), d, x->scale);
}
static inline __attribute__((always_inline)) __m512 add_last16(__m512 sum, __m512i dot, __m512 d, const lsk_group *x) {
    return add_scaled(sum, _mm512_sub_epi32(dot, _mm512_set1_epi32(lsk_last32(x))), d, x->scale);
}

/* Four inputs of each of 16 outputs a vector: inputs 4j .. 4j + 3 in w[j]. */
static inline __attribute__((always_inline)) void unpack_q4(const uint8_t *q, __m512i *w) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int j = 0; j < 4; j++) {
        const __m512i b = _mm512_loadu_si512(q + 64 * j);
        w[j] = _mm512_and_si512(b, low);
        w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(b, 4), low);
    }
}
static inline __attribute__((always_inline)) void load_q8(const uint8_t *q, __m512i *w) {
    for (int j = 0; j < 8; j++) w[j] = _mm512_loadu_si512(q + 64 * j);
}

/* The same of 5 and 6 bits, whose high ones stand apart. */
static inline __attribute__((always_inline)) void put_high(__m512i *w, __m512i high, int bits) {
    *w = _mm512_ternarylogic_epi64(high, _mm512_set1_epi8((char)bits), *w, 0xEA); /* (high & bits) | w */
}
static inline __attribute__((always_inline)) void unpack_q5(const uint8_t *q, const uint8_t *high, __m512i *w) {
    const __m512i h = _mm512_loadu_si512(high);
    unpack_q4(q, w);
    for (int j = 0; j < 8; j++)
        put_high(w + j, j < 4 ? _mm512_slli_epi16(h, (unsigned)(4 - j)) : _mm512_srli_epi16(h, (unsigned)(j - 4)), 16);
}
static inline __attribute__((always_inline)) void unpack_k6(const uint8_t *q, const uint8_t *high, __m512i *w) {
    unpack_q4(q, w);
    for (int j = 0; j < 8; j++) {
        const __m512i h = _mm512_loadu_si512(high + j / 4 * 64);
        const int at = 2 * (j % 4);
        put_high(w + j, at < 4 ? _mm512_slli_epi16(h, (unsigned)(4 - at)) : _mm512_srli_epi16(h, (unsigned)(at - 4)), 48);
    }
}

/* 16 small integers, times d. */
static inline __attribute__((always_inline)) __m512 scaled_bytes(const uint8_t *p, __m512 d) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p))), d);
}
static inline __attribute__((always_inline)) __m512 scaled_signed_bytes(const uint8_t *p, __m512 d) {
    return _mm512_mul_ps(vf_i8(p), d);
}

/* Mixed arithmetic: adds to the outputs of a tile the low halves of wide groups, after all others. */
void lsk_avx512vnni_add_wide(const lsk_matrix *m, const lsk_wide_rows *wide, float *y, int64_t ldy, int32_t tile);
