/* AVX2. Its product of bytes adds two of them in 16 bits, whose sums stay within 32767 for weights of 4, 5 and 6 bits,
 * and of fewer: 8 * 2 * 15 * 128, 4 * 2 * 31 * 128, 2 * 2 * 63 * 128. */
#define LEVEL lsk_avx2
#define LEVEL_NAME "avx2"
#include "compute/kernels/vector_avx2.h"

#define BYTES_SUMMED(bits) ((bits) == 8 ? 0 : (bits) < 4 ? 8 : 8 >> ((bits)-4))
#define ADD_BYTES(sum, w, x) _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x))
#define IN_32_BITS(sum) _mm256_madd_epi16(sum, _mm256_set1_epi16(1))
#define ADD_WORDS(sum, w, x) _mm256_add_epi32(sum, _mm256_madd_epi16(w, x))
#include "compute/kernels/kernels_int256.h"

#include "compute/kernels/kernels_impl.h"
