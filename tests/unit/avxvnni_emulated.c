// The level of AVX-VNNI with its two instructions in AVX2, after Intel's manual (VPDPBUSD: four products of an unsigned
// and a signed byte are added to each integer; VPDPWSSD: two of signed words), for machines that lack it.
#include "compute/kernels/kernels.h"

#include <immintrin.h>

static inline __m256i emulated_dpbusd(__m256i sum, __m256i w, __m256i x) {
    const __m256i even = _mm256_set1_epi16(255);
    const __m256i w0 = _mm256_and_si256(w, even), w1 = _mm256_srli_epi16(w, 8);
    const __m256i x0 = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), x1 = _mm256_srai_epi16(x, 8);
    return _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(w0, x0), _mm256_madd_epi16(w1, x1)));
}
static inline __m256i emulated_dpwssd(__m256i sum, __m256i w, __m256i x) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
}
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd
#define _mm256_dpwssd_avx_epi32 emulated_dpwssd
#define lsk_avxvnni lsk_avxvnni_emulated
#include "compute/kernels/kernels_avxvnni.c"
