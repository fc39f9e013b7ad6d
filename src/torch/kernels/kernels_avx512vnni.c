/* AVX-512 with integer dot products (VNNI): vpdpbusd adds four products of an unsigned and a signed byte to each of
 * 16 integers. Weights are the unsigned bytes (16 outputs x 4 inputs a vector), the two halves of the 16-bit inputs
 * the signed ones: 256 * (w . hi) + w . lo. */
#define LEVEL lsk_avx512vnni
#define LEVEL_NAME "avx512vnni"
#include "torch/kernels/vector_avx512.h"

#define FAST_I16 1
#define MATMUL_I16 vnni_matmul
#define QUANTIZE vnni_quantize

/* Lists of rows. */
#define R0_0(X) X(0)
#define R0_1(X) X(0) X(1)
#define R0_2(X) X(0) X(1) X(2)
#define R0_3(X) X(0) X(1) X(2) X(3)
#define R4_4(X) X(4)
#define R4_5(X) X(4) X(5)
#define R4_6(X) X(4) X(5) X(6)
#define R4_7(X) X(4) X(5) X(6) X(7)
#define R8_8(X) X(8)
#define R8_9(X) X(8) X(9)
#define R8_10(X) X(8) X(9) X(10)
#define R8_11(X) X(8) X(9) X(10) X(11)

/* Rows go in blocks of four: eight independent chains of dot products (w . hi and w . lo) hide the latency of one, and
 * their sums fit the registers beside the weights. */
#define CLEAR(r) hi[r] = lo[r] = _mm512_setzero_si512();
#define DOTS(r) DOT(hi[r], w[j], x[r].hi + 4 * j) DOT(lo[r], w[j], x[r].lo + 4 * j)
#define JOIN(r) lo[r] = _mm512_add_epi32(_mm512_slli_epi32(hi[r], 8), lo[r]);
#define ADD_Q4(r) { \
        f[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(lo[r]), _mm512_mul_ps(d, _mm512_set1_ps(x[r].scale)), f[r]); \
        f[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(x[r].sum), f[r]); \
    }
#define ADD_Q8(r) { /* the bytes hold q + 128 */ \
        lo[r] = _mm512_sub_epi32(lo[r], _mm512_set1_epi32(x[r].total128)); \
        f[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(lo[r]), _mm512_mul_ps(d, _mm512_set1_ps(x[r].scale)), f[r]); \
    }
#define STORE(r) _mm512_mask_storeu_ps(y + (r) * ldy + tile * LSK_TILE, keep, f[r]);

#define BLOCK(EACH, ADD) { \
        __m512i hi[12], lo[12]; \
        EACH(CLEAR) \
        _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) { EACH(DOTS) } \
        EACH(JOIN) \
        EACH(ADD) \
    }

/* Four inputs of a row, the same for all 16 outputs. Compilers load the four by an instruction of its own; one that
 * broadcasts as it multiplies is faster. */
#define DOT(acc, w, four) __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int8_t(*)[4])(four)));

/* Hardware prefetchers lose a stream at page borders; a few KB ahead keeps memory busy. */
static inline void prefetch(const unsigned char *p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + 4096 + i, _MM_HINT_T0);
}

#define KERNEL(ROWS, SUMS) \
    static __attribute__((noinline)) void rows_##ROWS(const lsk_matrix *m, const lsk_group *x, int64_t ldx, float *y, \
                                                      int64_t ldy, int32_t tile, __mmask16 keep) { \
        const unsigned char *p = m->data + (size_t)tile * m->tile_bytes; \
        const __m512i low = _mm512_set1_epi8(15); \
        __m512 f[ROWS]; \
        __m512i w[8]; \
        for (int r = 0; r < ROWS; r++) f[r] = _mm512_setzero_ps(); \
        if (m->format == LSK_Q4I) { \
            for (int g = 0; g < m->n_in / 32; g++, p += 320, x += ldx) { \
                const __m512 d = vf_half(p), min = vf_half(p + 32); \
                prefetch(p, 320); \
                for (int j = 0; j < 4; j++) { \
                    const __m512i b = _mm512_loadu_si512(p + 64 + 64 * j); \
                    w[j] = _mm512_and_si512(b, low); \
                    w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(b, 4), low); \
                } \
                SUMS(ADD_Q4) \
            } \
        } else { \
            for (int g = 0; g < m->n_in / 32; g++, p += 544, x += ldx) { \
                const __m512 d = vf_half(p); \
                prefetch(p, 544); \
                for (int j = 0; j < 8; j++) w[j] = _mm512_loadu_si512(p + 32 + 64 * j); \
                SUMS(ADD_Q8) \
            } \
        } \
        for (int r = 0; r < ROWS; r++) STORE(r) \
    }
#define SUMS_1(ADD) BLOCK(R0_0, ADD)
#define SUMS_2(ADD) BLOCK(R0_1, ADD)
#define SUMS_3(ADD) BLOCK(R0_2, ADD)
#define SUMS_4(ADD) BLOCK(R0_3, ADD)
#define SUMS_5(ADD) BLOCK(R0_3, ADD) BLOCK(R4_4, ADD)
#define SUMS_6(ADD) BLOCK(R0_3, ADD) BLOCK(R4_5, ADD)
#define SUMS_7(ADD) BLOCK(R0_3, ADD) BLOCK(R4_6, ADD)
#define SUMS_8(ADD) BLOCK(R0_3, ADD) BLOCK(R4_7, ADD)
#define SUMS_9(ADD) BLOCK(R0_3, ADD) BLOCK(R4_7, ADD) BLOCK(R8_8, ADD)
#define SUMS_10(ADD) BLOCK(R0_3, ADD) BLOCK(R4_7, ADD) BLOCK(R8_9, ADD)
#define SUMS_11(ADD) BLOCK(R0_3, ADD) BLOCK(R4_7, ADD) BLOCK(R8_10, ADD)
#define SUMS_12(ADD) BLOCK(R0_3, ADD) BLOCK(R4_7, ADD) BLOCK(R8_11, ADD)
KERNEL(1, SUMS_1)
KERNEL(2, SUMS_2)
KERNEL(3, SUMS_3)
KERNEL(4, SUMS_4)
KERNEL(5, SUMS_5)
KERNEL(6, SUMS_6)
KERNEL(7, SUMS_7)
KERNEL(8, SUMS_8)
KERNEL(9, SUMS_9)
KERNEL(10, SUMS_10)
KERNEL(11, SUMS_11)
KERNEL(12, SUMS_12)

static void vnni_matmul(const lsk_matrix *m, const lsk_group *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                        int32_t t0, int32_t t1) {
    static void (*const kernels[])(const lsk_matrix *, const lsk_group *, int64_t, float *, int64_t, int32_t,
                                   __mmask16) = {rows_1, rows_2, rows_3, rows_4,  rows_5,  rows_6,
                                                 rows_7, rows_8, rows_9, rows_10, rows_11, rows_12};
    enum { MOST = 12 };
    const int32_t passes = (rows + MOST - 1) / MOST;
    for (int32_t t = t0; t < t1; t++) {
        const int32_t left_out = m->n_out - t * LSK_TILE;
        const __mmask16 keep = left_out >= LSK_TILE ? 0xFFFF : (__mmask16)((1u << left_out) - 1);
        for (int32_t i = 0; i < passes; i++) {
            const int32_t from = rows * i / passes, to = rows * (i + 1) / passes;
            kernels[to - from - 1](m, x + from, ldx, y + from * ldy, ldy, t, keep);
        }
    }
}

static void vnni_quantize(const float *x, int32_t n, lsk_group *out, int64_t stride) {
    const __m512 most = _mm512_set1_ps(3.40282347e38f);
    for (int32_t i = 0; i < n; i += 32, out += stride) {
        const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + 16);
        const __m512 abs_a = _mm512_abs_ps(a), abs_b = _mm512_abs_ps(b);
        const int finite = (_mm512_cmp_ps_mask(abs_a, most, _CMP_LE_OQ) & _mm512_cmp_ps_mask(abs_b, most, _CMP_LE_OQ)) == 0xFFFF;
        const float max = _mm512_reduce_max_ps(_mm512_max_ps(abs_a, abs_b));
        const float scale = finite ? max / 32512.0f : __builtin_nanf(""), inverse = finite && max > 0 ? 32512.0f / max : 0;
        /* a subnormal maximum has an infinite inverse: such values count as zero */
        const __m512 s = _mm512_set1_ps(inverse <= 3.40282347e38f ? inverse : 0);
        const __m512i va = _mm512_cvtps_epi32(_mm512_mul_ps(a, s)), vb = _mm512_cvtps_epi32(_mm512_mul_ps(b, s));
        const __m512i half = _mm512_set1_epi32(128);
        const __m512i ha = _mm512_srai_epi32(_mm512_add_epi32(va, half), 8), hb = _mm512_srai_epi32(_mm512_add_epi32(vb, half), 8);
        _mm_storeu_si128((__m128i *)out->hi, _mm512_cvtepi32_epi8(ha));
        _mm_storeu_si128((__m128i *)(out->hi + 16), _mm512_cvtepi32_epi8(hb));
        _mm_storeu_si128((__m128i *)out->lo, _mm512_cvtepi32_epi8(_mm512_sub_epi32(va, _mm512_slli_epi32(ha, 8))));
        _mm_storeu_si128((__m128i *)(out->lo + 16), _mm512_cvtepi32_epi8(_mm512_sub_epi32(vb, _mm512_slli_epi32(hb, 8))));
        const int32_t total = finite ? _mm512_reduce_add_epi32(_mm512_add_epi32(va, vb)) : 0;
        out->scale = scale;
        out->sum = scale * (float)total;
        out->total128 = 128 * total;
        out->reserved = 0;
    }
}

#undef BLOCK
#undef CLEAR
#undef STORE
#define prefetch prefetch_ahead
#include "torch/kernels/kernels_impl.h"
