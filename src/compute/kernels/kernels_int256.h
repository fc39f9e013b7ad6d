/* Products of integers in 256-bit vectors, for kernels_integers.h. The including file defines
 *
 *   ADD_BYTES(sum, w, x)  sum plus the products of w, unsigned bytes (8 outputs x 4 inputs), and x, the 4 signed bytes
 *                         that all outputs share
 *   BYTES_SUMMED(bits)    so many ADD_BYTES of weights of so many bits fit a sum; 0: none
 *   IN_32_BITS(sum)       the sum as 8 integers
 *   ADD_WORDS(sum, w, x)  8 integers plus the products of 8 outputs x 2 inputs in 16 bits and the 2 that outputs share
 *
 * Inputs of 8 bits are multiplied as bytes where weights allow it, all others as pairs of words. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#define PEAK_INT int256_peak
#define LSK_ZERO _mm256_setzero_si256()
#define LSK_STEP(sum, x) ADD_BYTES(sum, x, _mm256_set1_epi8(2))
LSK_PEAK(int256_peak, __m256i, 32)

#define INT_ROWS UP_TO_6
#define INT_MOST_ROWS(bits, is16) ((is16) && (bits) == 5 ? 4 : 6)
#define INT_TOGETHER 2 /* both halves of a tile */
#define INT_BLOCK(rows, is16) (rows)
#define INT_PAIRED(bits, is16) ((is16) || !BYTES_SUMMED(bits))
enum { INT_MOST = 6, INT_PAIRS = 16 };
#include "compute/kernels/kernels_intgroup.h"

/* Both take inputs 4j .. 4 * end - 1 of a block of rows. LSK_KEEP makes the compiler take one step after the other: many
 * products at once need more registers than there are. */
INLINE void int256_sum_bytes(const int_group *w, const lsk_group *x, const int rows, int j, int end, vi dots[2][INT_MOST]) {
    const int most = BYTES_SUMMED(w->bits) ? BYTES_SUMMED(w->bits) : 1;
    __m256i s[2][INT_MOST];
    EACH(k, j, end) {
        const int step = (k - j) % most;
        __m256i q[2];
        EACH(h, 0, 2) q[h] = (__m256i)int_bytes(w, k, h);
        EACH(r, 0, rows) {
            int32_t four;
            memcpy(&four, x[r].hi + 4 * k, sizeof four);
            EACH(h, 0, 2) {
                s[h][r] = ADD_BYTES(step ? s[h][r] : _mm256_setzero_si256(), q[h], _mm256_set1_epi32(four));
                LSK_KEEP(s[h][r])
            }
        }
        if (step == most - 1 || k == end - 1)
            EACH(r, 0, rows) EACH(h, 0, 2) {
                const vi sum = (vi)IN_32_BITS(s[h][r]);
                dots[h][r] = k - j == step ? sum : dots[h][r] + sum;
            }
    }
}
INLINE void int256_sum_words(const int_group *w, const int32_t *x, const int rows, int j, int end, vi dots[2][INT_MOST]) {
    EACH(k, j, end) EACH(odd, 0, 2) {
        __m256i q[2];
        EACH(h, 0, 2) {
            q[h] = (__m256i)int_bytes(w, k, h);
            q[h] = odd ? _mm256_srli_epi16(q[h], 8) : _mm256_and_si256(q[h], _mm256_set1_epi16(255));
        }
        EACH(r, 0, rows) EACH(h, 0, 2) {
            dots[h][r] = (vi)ADD_WORDS(k > j || odd ? (__m256i)dots[h][r] : _mm256_setzero_si256(), q[h],
                                       _mm256_set1_epi32(x[INT_PAIRS * r + 8 * odd + k]));
            LSK_KEEP(dots[h][r])
        }
    }
}
INLINE void int_products(const int_group *w, const int is16, int v, int j, int end, const lsk_group *x, const int32_t *pairs,
                         const int from, const int to, vi dots[INT_TOGETHER][INT_MOST]) {
    (void)v, (void)from; /* all rows and vectors go together */
    if (j && to > 1) __asm__ volatile("" : : : "memory"); /* scales that both parts load alike would keep registers */
    if (INT_PAIRED(w->bits, is16)) int256_sum_words(w, pairs, to, j, end, dots);
    else int256_sum_bytes(w, x, to, j, end, dots);
}

/* Inputs as words: of inputs 4j .. 4j + 3, pair j is the first and the third, pair j + 8 the others. */
static inline void int_pairs(const lsk_group *x, int is16, int32_t *out) {
    const __m256i hi = _mm256_loadu_si256((const __m256i *)x->hi), lo = _mm256_loadu_si256((const __m256i *)x->lo);
    __m256i even = _mm256_slli_epi16(hi, 8), odd = hi;
    if (is16) {
        even = _mm256_add_epi16(even, _mm256_srai_epi16(_mm256_slli_epi16(lo, 8), 8));
        odd = _mm256_and_si256(odd, _mm256_set1_epi16((int16_t)0xFF00));
        odd = _mm256_add_epi16(odd, _mm256_srai_epi16(lo, 8));
    } else {
        even = _mm256_srai_epi16(even, 8);
        odd = _mm256_srai_epi16(odd, 8);
    }
    _mm256_storeu_si256((__m256i *)out, even);
    _mm256_storeu_si256((__m256i *)(out + 8), odd);
}

/* 8 integers of 32 bits, four times, as 32 bytes. */
INLINE void vf_store_bytes(int8_t *to, const vi *v) {
    const __m256i ab = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]), cd = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);
    _mm256_storeu_si256((__m256i *)to, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd),
                                                                  _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}
#include "compute/kernels/kernels_integers.h"
