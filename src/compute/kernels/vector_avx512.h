/* The vector of kernels_impl.h in AVX-512; the including file names the level. */
#include <immintrin.h>

#define W 16
#define R_MAX 6
#define FUSED_MAX 18
#include "compute/kernels/vectors.h"

static inline vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
#define vf_fma_once vf_fma
static inline vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf vf_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline __m512i vi_bytes(const unsigned char *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
static inline vf vf_i8(const unsigned char *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* Byte by byte, that of sixteen which the index chooses. */
static inline vbytes vb_choose(const unsigned char *sixteen, vbytes at) {
    const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)sixteen));
    return (vbytes)_mm512_shuffle_epi8(all, (__m512i)at);
}

/* The outputs that a tile has: the last one of a matrix may be partly empty. */
static inline __mmask16 vf_outputs(const lsk_matrix *m, int32_t tile) {
    const int32_t left = m->n_out - tile * LSK_TILE;
    return left >= LSK_TILE ? 0xFFFF : (__mmask16)((1u << left) - 1);
}
