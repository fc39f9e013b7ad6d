/* The vector of kernels_impl.h in AVX2; the including file names the level. */
#include <immintrin.h>

#define W 8
#define R_MAX 3
#define FUSED_MAX 3
#include "compute/kernels/vectors.h"

static inline vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
#define vf_fma_once vf_fma
static inline vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf vf_half(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline __m256i vi_bytes(const unsigned char *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
static inline vf vf_i8(const unsigned char *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* Byte by byte, that of sixteen which the index chooses. */
static inline vbytes vb_choose(const unsigned char *sixteen, vbytes at) {
    const __m256i all = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)sixteen));
    return (vbytes)_mm256_shuffle_epi8(all, (__m256i)at);
}
/* To nearest, ties to even. */
static inline __m256i vf_round(vf a) {
    return _mm256_cvtps_epi32(a);
}
