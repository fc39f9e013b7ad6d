/* AVX-512 with dot products of bf16 pairs: half as many instructions for attention over keys and values of bf16, and
 * for matmuls of bf16. vdpbf16ps (Intel SDM, volume 2) adds the product of the high halves, then that of the low ones,
 * each as a fused multiply-add rounded to nearest, so attention has the order, and the bits, of other levels. It takes
 * subnormal numbers for 0, and gives 0 for them. */
#define LEVEL lsk_avx512bf16
#define LEVEL_NAME "avx512bf16"
#include "compute/kernels/vector_avx512.h"
#include "compute/kernels/vectors.h"

/* Compilers load what is broadcast by a separate instruction. */
#define DOT_PAIRS(sum, w, x) __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(x));

#define LSK_ZERO _mm512_setzero_ps()
#define LSK_STEP(sum, x) (__m512) _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)x)
#define PEAK_BF16 pairs_peak
LSK_PEAK(pairs_peak, __m512, 32)

static void pack_pairs(float *x, int32_t n) {
    /* of the 16-bit numbers of two vectors: the high half of float 2i + 1, then that of float 2i, and so on */
    uint16_t at[32];
    for (int i = 0; i < 32; i++) at[i] = (uint16_t)(2 * (i ^ 1) + 1);
    const __m512i halves = _mm512_loadu_si512(at);
    for (int32_t i = 0; i < n; i += 32) {
        const uint32_t left = n - i < 32 ? (1u << (n - i)) - 1 : 0xFFFFFFFFu, words = (uint32_t)(n - i + 1) / 2;
        const __m512i a = _mm512_maskz_loadu_epi32((__mmask16)left, x + i),
                      b = _mm512_maskz_loadu_epi32((__mmask16)(left >> 16), x + i + 16);
        _mm512_mask_storeu_epi32(x + i / 2, words < 16 ? (__mmask16)((1u << words) - 1) : 0xFFFF,
                                 _mm512_permutex2var_epi16(a, halves, b));
    }
}

/* At most 12 rows and two tiles: their sums fit the registers beside the weights. Few rows wait for memory, of which
 * one stream is fetched faster than two: up to 8 take a tile at a time. Three rows share a pointer, for not every one
 * can have its own. Where several passes are made over the tiles, each fetches its share of the next. */
enum { PAIRS_MOST = 12, PAIRS_FEW = 8 };
typedef struct { /* pass i of n over tiles */
    int i, n;
} part_of;
#define EACH_ROW _Pragma("GCC unroll 12") for (int r = 0; r < rows; r++)
#define EACH_TILE _Pragma("GCC unroll 2") for (int c = 0; c < tiles; c++)
static inline __attribute__((always_inline)) void pairs_block(const int rows, const int tiles, const lsk_matrix *m,
                                                              const uint16_t *x, int64_t ldx, float *y, int64_t ldy,
                                                              int32_t tile, part_of pass) {
    const char *w = (const char *)m->data + (size_t)tile * m->tile_bytes;
    const size_t share = m->tile_bytes * (size_t)tiles / (size_t)pass.n, step = 64 * (size_t)tiles / (size_t)pass.n;
    const char *next = w + m->tile_bytes * (size_t)tiles + share * (size_t)pass.i;
    const uint16_t *of[4] = {x, x + 3 * ldx, x + 6 * ldx, x + 9 * ldx};
    __m512 sum[PAIRS_MOST][2], v[2];
    EACH_ROW EACH_TILE sum[r][c] = _mm512_setzero_ps();
    for (int32_t k = 0; k < m->n_in; k += 2, w += 64) {
        if (pass.n == 1) EACH_TILE __builtin_prefetch(w + (size_t)c * m->tile_bytes + 4096);
        else {
            __builtin_prefetch(next);
            next += step;
        }
        EACH_TILE v[c] = _mm512_loadu_ps(w + (size_t)c * m->tile_bytes);
        EACH_ROW EACH_TILE {
            DOT_PAIRS(sum[r][c], v[c], *(const uint16_t(*)[2])(of[r / 3] + r % 3 * ldx))
        }
        for (int i = 0; i < 4; i++) of[i] += 2;
    }
    EACH_TILE {
        const __mmask16 keep = vf_outputs(m, tile + c);
        EACH_ROW _mm512_mask_storeu_ps(y + r * ldy + (tile + c) * LSK_TILE, keep, sum[r][c]);
    }
}
#define PAIRS_KERNEL(ROWS, ...)                                                                                        \
    static __attribute__((noinline)) void pairs_##ROWS(const lsk_matrix *m, const uint16_t *x, int64_t ldx, float *y,  \
                                                       int64_t ldy, int32_t tile, int32_t tiles, part_of pass) {       \
        if (tiles == 2) pairs_block(ROWS, 2, m, x, ldx, y, ldy, tile, pass);                                           \
        else pairs_block(ROWS, 1, m, x, ldx, y, ldy, tile, pass);                                                      \
    }
UP_TO_12(PAIRS_KERNEL, )
#define PAIRS_ENTRY(ROWS, ...) pairs_##ROWS,

#define MATMUL_BF16 pairs_matmul
static void pairs_matmul(const lsk_matrix *m, const uint16_t *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                         int32_t t0, int32_t t1, void *scratch) {
    (void)scratch;
    static void (*const kernels[PAIRS_MOST])(const lsk_matrix *, const uint16_t *, int64_t, float *, int64_t, int32_t,
                                             int32_t, part_of) = {UP_TO_12(PAIRS_ENTRY, )};
    const int32_t passes = (rows + PAIRS_MOST - 1) / PAIRS_MOST;
    for (int32_t t = t0, tiles; t < t1; t += tiles) {
        tiles = rows <= PAIRS_FEW || t + 1 == t1 ? 1 : 2;
        for (int32_t i = 0; i < passes; i++) {
            const int32_t from = rows * i / passes, to = rows * (i + 1) / passes;
            kernels[to - from - 1](m, x + from * ldx, ldx, y + from * ldy, ldy, t, tiles, (part_of){i, passes});
        }
    }
}

#include "compute/kernels/kernels_impl.h"
#include "compute/kernels/kernels_amxattention.h"
