/* AVX-512 with integer dot products (VNNI): vpdpbusd adds four products of an unsigned and a signed byte to each of
 * 16 integers. Weights are the unsigned bytes (16 outputs x 4 inputs a vector), the two halves of the 16-bit inputs
 * the signed ones: 256 * (w . hi) + w . lo. */
#define LEVEL lsk_avx512vnni
#define LEVEL_NAME "avx512vnni"
#include "torch/kernels/vector_avx512.h"

#define FAST_I16 1
#define MATMUL_I16 vnni_matmul
#define QUANTIZE vnni_quantize

#define REP1(X) X(0)
#define REP2(X) REP1(X) X(1)
#define REP3(X) REP2(X) X(2)
#define REP4(X) REP3(X) X(3)
#define REP5(X) REP4(X) X(4)
#define REP6(X) REP5(X) X(5)
#define REP7(X) REP6(X) X(6)
#define REP8(X) REP7(X) X(7)
#define REP12(X) REP8(X) X(8) X(9) X(10) X(11)

/* Adds the products with four inputs, the same four for all 16 outputs. */
static inline __m512i dot4(__m512i acc, __m512i w, const int8_t *four) {
    int32_t b;
    __builtin_memcpy(&b, four, 4);
    return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(b));
}

static inline __m512i dot32(__m512i acc, const __m512i w[8], const int8_t *x) {
    acc = dot4(dot4(dot4(dot4(acc, w[0], x), w[1], x + 4), w[2], x + 8), w[3], x + 12);
    return dot4(dot4(dot4(dot4(acc, w[4], x + 16), w[5], x + 20), w[6], x + 24), w[7], x + 28);
}

#define ZERO(r) f[r] = _mm512_setzero_ps();
#define ROW_Q4(r) { \
        const lsk_group *q = xg + (r) * ldx; \
        __m512i a = dot32(_mm512_slli_epi32(dot32(_mm512_setzero_si512(), w, q->hi), 8), w, q->lo); \
        f[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(a), _mm512_mul_ps(d, _mm512_set1_ps(q->scale)), f[r]); \
        f[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(q->sum), f[r]); \
    }
#define ROW_Q8(r) { /* the bytes hold q + 128 */ \
        const lsk_group *q = xg + (r) * ldx; \
        __m512i a = dot32(_mm512_slli_epi32(dot32(_mm512_setzero_si512(), w, q->hi), 8), w, q->lo); \
        a = _mm512_sub_epi32(a, _mm512_set1_epi32(128 * q->total)); \
        f[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(a), _mm512_mul_ps(d, _mm512_set1_ps(q->scale)), f[r]); \
    }
#define STORE(r) _mm512_mask_storeu_ps(y + (r) * ldy + tile * LSK_TILE, keep, f[r]);

/* Hardware prefetchers lose a stream at page borders; a few KB ahead keeps memory busy. */
static inline void prefetch(const unsigned char *p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + 4096 + i, _MM_HINT_T0);
}

#define KERNEL(R) \
    static __attribute__((noinline)) void rows_##R(const lsk_matrix *m, const lsk_group *xg, int64_t ldx, float *y, \
                                                   int64_t ldy, int32_t tile, __mmask16 keep) { \
        const unsigned char *p = m->data + (size_t)tile * m->tile_bytes; \
        const __m512i low = _mm512_set1_epi8(15); \
        __m512 f[R]; \
        __m512i w[8]; \
        REP##R(ZERO) \
        if (m->format == LSK_Q4I) { \
            for (int g = 0; g < m->n_in / 32; g++, p += 320, xg++) { \
                const __m512 d = vf_half(p), min = vf_half(p + 32); \
                prefetch(p, 320); \
                for (int j = 0; j < 4; j++) { \
                    const __m512i b = _mm512_loadu_si512(p + 64 + 64 * j); \
                    w[j] = _mm512_and_si512(b, low); \
                    w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(b, 4), low); \
                } \
                REP##R(ROW_Q4) \
            } \
        } else { \
            for (int g = 0; g < m->n_in / 32; g++, p += 544, xg++) { \
                const __m512 d = vf_half(p); \
                prefetch(p, 544); \
                for (int j = 0; j < 8; j++) w[j] = _mm512_loadu_si512(p + 32 + 64 * j); \
                REP##R(ROW_Q8) \
            } \
        } \
        REP##R(STORE) \
    }
KERNEL(1)
KERNEL(2)
KERNEL(3)
KERNEL(4)
KERNEL(5)
KERNEL(6)
KERNEL(7)
KERNEL(8)
KERNEL(12)

static void vnni_matmul(const lsk_matrix *m, const lsk_group *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                        int32_t t0, int32_t t1) {
    static void (*const kernels[])(const lsk_matrix *, const lsk_group *, int64_t, float *, int64_t, int32_t,
                                   __mmask16) = {0,      rows_1, rows_2, rows_3, rows_4, rows_5, rows_6,
                                                 rows_7, rows_8, 0,      0,      0,      rows_12};
    for (int32_t t = t0; t < t1; t++) {
        const int32_t left_out = m->n_out - t * LSK_TILE;
        const __mmask16 keep = left_out >= LSK_TILE ? 0xFFFF : (__mmask16)((1u << left_out) - 1);
        for (int32_t r = 0; r < rows;) {
            const int32_t left = rows - r, n = left >= 12 ? 12 : left > 8 ? 8 : left;
            kernels[n](m, x + r * ldx, ldx, y + r * ldy, ldy, t, keep);
            r += n;
        }
    }
}

static void vnni_quantize(const float *x, int32_t n, lsk_group *out) {
    const __m512 most = _mm512_set1_ps(3.40282347e38f);
    for (int32_t i = 0; i < n; i += 32, out++) {
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
        out->total = _mm512_reduce_add_epi32(_mm512_add_epi32(va, vb));
        out->scale = scale;
        out->sum = scale * (float)out->total;
        out->reserved = 0;
    }
}

#undef REP1
#undef REP2
#undef REP3
#undef REP4
#undef REP5
#undef REP6
#undef REP7
#undef REP8
#undef REP12
#undef ZERO
#undef STORE
#define prefetch prefetch_ahead
#include "torch/kernels/kernels_impl.h"
