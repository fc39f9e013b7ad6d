/* What the levels of AVX-512 share that multiply integers: how a group's exact sum is added to a row's float sum, in
 * the order of kernels_int.c. */
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

/* Over the first 16 inputs or the last, of bytes that hold a weight that has a minimum, a weight + 4, or a weight + 32.
 */
static inline __attribute__((always_inline)) __m512 add_half(__m512 sum, __m512i dot, __m512 d, __m512 min,
                                                             lsk_format f, int last, const lsk_group *x) {
    if (f == LSK_K2I)
        return _mm512_fmadd_ps(min, _mm512_set1_ps(lsk_half_sum(x, last)), add_scaled(sum, dot, d, x->scale));
    const int32_t less = f == LSK_K3I ? lsk_half32(x, last) >> 3 : lsk_half32(x, last);
    return add_scaled(sum, _mm512_sub_epi32(dot, _mm512_set1_epi32(less)), d, x->scale);
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

/* The bytes at p with bit `from` moved to bit `to`. */
static inline __attribute__((always_inline)) __m512i moved_bits(const uint8_t *p, int from, int to) {
    const __m512i b = _mm512_loadu_si512(p);
    return from < to ? _mm512_slli_epi16(b, (unsigned)(to - from)) : _mm512_srli_epi16(b, (unsigned)(from - to));
}
/* w with the bits of high that lie under `bits`. */
static inline __attribute__((always_inline)) void put_high(__m512i *w, __m512i high, int bits) {
    *w = _mm512_ternarylogic_epi64(high, _mm512_set1_epi8((char)bits), *w, 0xEA); /* (high & bits) | w */
}
/* As unpack_q4, of 5 and 6 bits, whose high ones stand apart, and of 2 and 3. */
static inline __attribute__((always_inline)) void unpack_q5(const uint8_t *q, const uint8_t *high, __m512i *w) {
    unpack_q4(q, w);
    for (int j = 0; j < 8; j++) put_high(w + j, moved_bits(high, j, 4), 16);
}
static inline __attribute__((always_inline)) void unpack_k6(const uint8_t *q, const uint8_t *high, __m512i *w) {
    unpack_q4(q, w);
    for (int j = 0; j < 8; j++) put_high(w + j, moved_bits(high + j / 4 * 64, j % 4 * 2, 4), 48);
}
static inline __attribute__((always_inline)) void unpack_k2(const uint8_t *q, __m512i *w) {
    for (int j = 0; j < 8; j++) w[j] = _mm512_and_si512(moved_bits(q + j / 4 * 64, j % 4 * 2, 0), _mm512_set1_epi8(3));
}
static inline __attribute__((always_inline)) void unpack_k3(const uint8_t *q, const uint8_t *high, __m512i *w) {
    unpack_k2(q, w);
    for (int j = 0; j < 8; j++) put_high(w + j, moved_bits(high, j, 2), 4);
}

/* 16 small integers, times d. */
static inline __attribute__((always_inline)) __m512 scaled_bytes(const uint8_t *p, __m512 d) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p))), d);
}
static inline __attribute__((always_inline)) __m512 scaled_nibbles(const uint8_t *p, int high, __m512 d) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)),
                  four = _mm512_and_si512(_mm512_srli_epi32(bytes, high ? 4 : 0), _mm512_set1_epi32(15));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(four), d);
}
static inline __attribute__((always_inline)) __m512 scaled_signed_bytes(const uint8_t *p, __m512 d) {
    return _mm512_mul_ps(vf_i8(p), d);
}

/* Mixed arithmetic: adds to the outputs of a tile the low halves of wide groups, after all others. */
void lsk_avx512vnni_add_wide(const lsk_matrix *m, const lsk_wide_rows *wide, float *y, int64_t ldy, int32_t tile);
