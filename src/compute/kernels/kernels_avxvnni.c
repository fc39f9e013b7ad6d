/* AVX2 with integer dot products in 256-bit vectors (AVX-VNNI: laptops and small servers since 2021). */
#define LEVEL lsk_avxvnni
#define LEVEL_NAME "avxvnni"
#include "compute/kernels/vector_avx2.h"

#define BYTES_SUMMED(bits) 8
#define ADD_BYTES(sum, w, x) _mm256_dpbusd_avx_epi32(sum, w, x)
#define IN_32_BITS(sum) (sum)
#define ADD_WORDS(sum, w, x) _mm256_dpwssd_avx_epi32(sum, w, x)
#include "compute/kernels/kernels_int256.h"

#include "compute/kernels/kernels_impl.h"
