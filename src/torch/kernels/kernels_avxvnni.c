/* AVX2 with integer dot products in 256-bit vectors (AVX-VNNI: laptops and small servers since 2021). */
#define LEVEL lsk_avxvnni
#define LEVEL_NAME "avxvnni"
#include "torch/kernels/vector_avx2.h"

#define WHOLE_BYTES
#define ADD_PRODUCTS(sum, w, x) _mm256_dpbusd_avx_epi32(sum, w, x)
#define IN_32_BITS(sum) (sum)
#include "torch/kernels/kernels_int256.h"

#include "torch/kernels/kernels_impl.h"
