/* AVX2. Its product of bytes adds two of them in 16 bits; eight of those for weights of 4 bits stay within
 * 8 * 2 * 15 * 128 < 32768. */
#define LEVEL lsk_avx2
#define LEVEL_NAME "avx2"
#include "torch/kernels/vector_avx2.h"

#define ADD_PRODUCTS(sum, w, x) _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x))
#define IN_32_BITS(sum) _mm256_madd_epi16(sum, _mm256_set1_epi16(1))
#include "torch/kernels/kernels_int256.h"

#include "torch/kernels/kernels_impl.h"
