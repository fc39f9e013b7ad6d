/* AVX-512 with dot products of bf16 pairs: attention over keys and values of bf16 has half as many instructions.
 * vdpbf16ps (Intel SDM, volume 2) adds the product of the high halves, then that of the low ones, each as a fused
 * multiply-add rounded to nearest, so a sum has the order of the other levels. It takes subnormal numbers for 0, and
 * gives 0 for them. */
#define LEVEL lsk_avx512bf16
#define LEVEL_NAME "avx512bf16"
#include "torch/kernels/vector_avx512.h"

/* Compilers load what is broadcast by a separate instruction. */
#define DOT_PAIRS(sum, w, x) __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(x));

static void pack_pairs(float *x, int32_t n) {
    /* 16-bit numbers of two vectors: the high half of float 2i + 1, then that of float 2i, and so on */
    __m512i halves = _mm512_setzero_si512();
    uint16_t at[32];
    for (int i = 0; i < 32; i++) at[i] = (uint16_t)(2 * (i ^ 1) + 1);
    halves = _mm512_loadu_si512(at);
    for (int32_t i = 0; i < n; i += 32) {
        const uint32_t left = n - i < 32 ? (1u << (n - i)) - 1 : 0xFFFFFFFFu, words = (uint32_t)(n - i + 1) / 2;
        const __m512i a = _mm512_maskz_loadu_epi32((__mmask16)left, x + i),
                      b = _mm512_maskz_loadu_epi32((__mmask16)(left >> 16), x + i + 16);
        _mm512_mask_storeu_epi32(x + i / 2, words < 16 ? (__mmask16)((1u << words) - 1) : 0xFFFF,
                                 _mm512_permutex2var_epi16(a, halves, b));
    }
}

#include "torch/kernels/kernels_impl.h"
