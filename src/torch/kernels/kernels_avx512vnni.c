/* AVX-512 with integer dot products (VNNI). The idea is that of llama.cpp's products of Q4_0 or Q8_0 with Q8_0: both
 * factors are integers with a scale for 32 of them, so a group's sum is exact in 32-bit integers in any order, and only
 * the multiply-add of its scaled value to the row's float sum rounds. So this file and kernels_int.c, its plain twin,
 * agree bit for bit. vpdpbusd (Intel SDM, volume 2) adds four products of an unsigned and a signed byte to each of 16
 * integers. Weights are the unsigned bytes, 16 outputs x 4 inputs a vector, 8-bit ones as q + 128: 128 * (sum of
 * inputs) is subtracted. Inputs are the signed bytes; 16-bit inputs come as two halves: 256 * (w . hi) + w . lo. */
#define LEVEL lsk_avx512vnni
#define LEVEL_NAME "avx512vnni"
#include "torch/kernels/vector_avx512.h"

#define FAST_INT 1
#define MATMUL_INT vnni_matmul
#define QUANTIZE vnni_quantize

#define PEAK_INT vnni_peak
#define LSK_ZERO _mm512_setzero_si512()
#define LSK_STEP(sum, x) _mm512_dpbusd_epi32(sum, x, _mm512_set1_epi8(2))
static LSK_PEAK(vnni_peak, __m512i, 64)

/* A block of rows has at most six to eight independent chains of dot products: they hide the latency of one, and their
 * sums fit the registers beside the weights. */
#define MOST_I16(ROWS) 4
#define MOST_I8(ROWS) ((ROWS) <= 8 ? 8 : 6)
#define CLEAR_I16(r) hi[r] = lo[r] = _mm512_setzero_si512();
#define DOTS_I16(r) DOT(hi[r], w[j], x[r].hi + 4 * j) DOT(lo[r], w[j], x[r].lo + 4 * j)
#define JOIN_I16(r) hi[r] = _mm512_add_epi32(_mm512_slli_epi32(hi[r], 8), lo[r]);
#define CLEAR_I8(r) hi[r] = _mm512_setzero_si512();
#define DOTS_I8(r) DOT(hi[r], w[j], x[r].hi + 4 * j)
#define JOIN_I8(r)
#define ADD_Q4(r) { \
        f[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(hi[r]), _mm512_mul_ps(d, _mm512_set1_ps(x[r].scale)), f[r]); \
        f[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(x[r].sum), f[r]); \
    }
#define ADD_Q8(r) { /* the bytes hold q + 128 */ \
        hi[r] = _mm512_sub_epi32(hi[r], _mm512_set1_epi32(x[r].total128)); \
        f[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(hi[r]), _mm512_mul_ps(d, _mm512_set1_ps(x[r].scale)), f[r]); \
    }
#define STORE(r) _mm512_mask_storeu_ps(y + (r) * ldy + tile * LSK_TILE, keep, f[r]);

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define EACH _Pragma("GCC unroll 12") for (int r = from; r < to; r++)
#define BLOCK(FROM, TO, ARITH, ADD) { \
        enum { from = FROM, to = TO }; \
        __m512i hi[12], lo[12]; \
        (void)lo; \
        EACH { CLEAR_##ARITH(r) } \
        _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) EACH { DOTS_##ARITH(r) } \
        EACH { JOIN_##ARITH(r) } \
        EACH { ADD(r) } \
    }
#define BLOCKS(ROWS, ARITH, ADD) \
    BLOCK(0, MIN(ROWS, MOST_##ARITH(ROWS)), ARITH, ADD) \
    if (ROWS > MOST_##ARITH(ROWS)) BLOCK(MOST_##ARITH(ROWS), MIN(ROWS, 2 * MOST_##ARITH(ROWS)), ARITH, ADD) \
    if (ROWS > 2 * MOST_##ARITH(ROWS)) BLOCK(2 * MOST_##ARITH(ROWS), ROWS, ARITH, ADD)

/* Four inputs of a row, the same for all 16 outputs. Compilers load them by a separate instruction; broadcasting in the
 * multiplication itself is faster. */
#define DOT(acc, w, four) __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int8_t(*)[4])(four)));

/* Rows that one pass over a tile cannot hold take several. A tile comes from memory once: each pass fetches its share of
 * the next tile, so that memory is busy in all of them. */
typedef struct {
    int i, n;
} part_of;
#define FETCH_AHEAD \
    if (pass.n == 1) lsk_prefetch(p, sizeof *p); \
    else { \
        for (size_t line = 0; line < sizeof *p / (size_t)pass.n; line += 64) __builtin_prefetch(next + line); \
        next += sizeof *p / (size_t)pass.n; \
    }

#define KERNEL(ROWS, ARITH) \
    static __attribute__((noinline)) void ARITH##_rows_##ROWS(const lsk_matrix *m, const lsk_group *x, int64_t ldx, \
                                                                float *y, int64_t ldy, int32_t tile, __mmask16 keep, \
                                                                part_of pass) { \
        const unsigned char *data = m->data + (size_t)tile * m->tile_bytes; \
        const unsigned char *next = data + m->tile_bytes + m->tile_bytes * (size_t)pass.i / (size_t)pass.n; \
        const __m512i low = _mm512_set1_epi8(15); \
        __m512 f[ROWS]; \
        __m512i w[8]; \
        _Pragma("GCC unroll 12") for (int r = 0; r < ROWS; r++) f[r] = _mm512_setzero_ps(); \
        if (m->format == LSK_Q4I) { \
            const lsk_q4 *p = (const lsk_q4 *)data; \
            for (int g = 0; g < m->n_in / 32; g++, p++, x += ldx) { \
                const __m512 d = vf_half(p->scale), min = vf_half(p->min); \
                FETCH_AHEAD \
                for (int j = 0; j < 4; j++) { \
                    const __m512i b = _mm512_loadu_si512(p->q + 64 * j); \
                    w[j] = _mm512_and_si512(b, low); \
                    w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(b, 4), low); \
                } \
                BLOCKS(ROWS, ARITH, ADD_Q4) \
            } \
        } else { \
            const lsk_q8 *p = (const lsk_q8 *)data; \
            for (int g = 0; g < m->n_in / 32; g++, p++, x += ldx) { \
                const __m512 d = vf_half(p->scale); \
                FETCH_AHEAD \
                for (int j = 0; j < 8; j++) w[j] = _mm512_loadu_si512(p->q + 64 * j); \
                BLOCKS(ROWS, ARITH, ADD_Q8) \
            } \
        } \
        _Pragma("GCC unroll 12") for (int r = 0; r < ROWS; r++) STORE(r) \
    }
#define KERNELS(ROWS) KERNEL(ROWS, I16) KERNEL(ROWS, I8)
KERNELS(1)
KERNELS(2)
KERNELS(3)
KERNELS(4)
KERNELS(5)
KERNELS(6)
KERNELS(7)
KERNELS(8)
KERNELS(9)
KERNELS(10)
KERNELS(11)
KERNELS(12)

/* Mixed arithmetic: the low halves of wide groups, after all others. */
static void add_wide(const lsk_matrix *m, const lsk_group *x, int64_t ldx, float *y, int64_t ldy, int32_t tile,
                     __mmask16 keep, const lsk_wide_group *wide, int32_t n_wide) {
    const void *data = m->data + (size_t)tile * m->tile_bytes;
    const __m512i low = _mm512_set1_epi8(15);
    for (int32_t i = 0; i < n_wide; i++) {
        const lsk_group *a = x + wide[i].group * ldx;
        const lsk_q4 *q4 = m->format == LSK_Q4I ? (const lsk_q4 *)data + wide[i].group : NULL;
        const lsk_q8 *q8 = (const lsk_q8 *)data + wide[i].group;
        const __m512 d = vf_half(q4 ? q4->scale : q8->scale), min = q4 ? vf_half(q4->min) : _mm512_setzero_ps();
        __m512i w[8];
        _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {
            const __m512i b = _mm512_loadu_si512((q4 ? q4->q : q8->q) + 64 * (q4 ? j % 4 : j));
            w[j] = !q4 ? b : _mm512_and_si512(j < 4 ? b : _mm512_srli_epi16(b, 4), low);
        }
        for (uint32_t left = wide[i].rows; left; left &= left - 1) {
            const int32_t r = __builtin_ctz(left);
            const float scale = a[r].scale / 256;
            float *at = y + r * ldy + tile * LSK_TILE;
            __m512 f = _mm512_maskz_loadu_ps(keep, at);
            __m512i dot = _mm512_set1_epi32(q4 ? 0 : -128 * a[r].low); /* the bytes hold q + 128 */
            _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) DOT(dot, w[j], a[r].lo + 4 * j)
            f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, _mm512_set1_ps(scale)), f);
            if (q4) f = _mm512_fmadd_ps(min, _mm512_set1_ps(scale * (float)a[r].low), f);
            _mm512_mask_storeu_ps(at, keep, f);
        }
    }
}

static void vnni_matmul(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                        int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    enum { MOST = 12 };
    static void (*const kernels[2][MOST])(const lsk_matrix *, const lsk_group *, int64_t, float *, int64_t, int32_t,
                                          __mmask16, part_of) = {
        {I16_rows_1, I16_rows_2, I16_rows_3, I16_rows_4, I16_rows_5, I16_rows_6, I16_rows_7, I16_rows_8, I16_rows_9,
         I16_rows_10, I16_rows_11, I16_rows_12},
        {I8_rows_1, I8_rows_2, I8_rows_3, I8_rows_4, I8_rows_5, I8_rows_6, I8_rows_7, I8_rows_8, I8_rows_9, I8_rows_10,
         I8_rows_11, I8_rows_12},
    };
    const int32_t passes = (rows + MOST - 1) / MOST;
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch);
    for (int32_t t = t0; t < t1; t++) {
        const int32_t left_out = m->n_out - t * LSK_TILE;
        const __mmask16 keep = left_out >= LSK_TILE ? 0xFFFF : (__mmask16)((1u << left_out) - 1);
        for (int32_t i = 0; i < passes; i++) {
            const int32_t from = rows * i / passes, to = rows * (i + 1) / passes;
            kernels[arith != LSK_ARITH_I16][to - from - 1](m, x + from, ldx, y + from * ldy, ldy, t, keep,
                                                           (part_of){i, passes});
        }
        for (int32_t c = 0, from = 0; c < wide.chunks; c++, from += LSK_WIDE_ROWS)
            add_wide(m, x + from, ldx, y + from * ldy, ldy, t, keep, wide.of[c], wide.n[c]);
    }
}

static void vnni_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride) {
    const __m512 largest = _mm512_set1_ps(3.40282347e38f);
    const float steps = (float)lsk_steps(arith);
    for (int32_t i = 0; i < n; i += 32, out += stride) {
        const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + 16);
        const __m512 abs_a = _mm512_abs_ps(a), abs_b = _mm512_abs_ps(b);
        const int finite =
            (_mm512_cmp_ps_mask(abs_a, largest, _CMP_LE_OQ) & _mm512_cmp_ps_mask(abs_b, largest, _CMP_LE_OQ)) == 0xFFFF;
        const float max = _mm512_reduce_max_ps(_mm512_max_ps(abs_a, abs_b));
        const float scale = finite ? max / steps : __builtin_nanf(""), inverse = finite && max > 0 ? steps / max : 0;
        /* a subnormal maximum has an infinite inverse: such values count as zero */
        const __m512 s = _mm512_set1_ps(inverse <= 3.40282347e38f ? inverse : 0);
        const __m512i va = _mm512_cvtps_epi32(_mm512_mul_ps(a, s)), vb = _mm512_cvtps_epi32(_mm512_mul_ps(b, s));
        __m512i ha = va, hb = vb;
        if (arith != LSK_ARITH_I8) {
            const __m512i half = _mm512_set1_epi32(128);
            ha = _mm512_srai_epi32(_mm512_add_epi32(va, half), 8), hb = _mm512_srai_epi32(_mm512_add_epi32(vb, half), 8);
            _mm_storeu_si128((__m128i *)out->lo, _mm512_cvtepi32_epi8(_mm512_sub_epi32(va, _mm512_slli_epi32(ha, 8))));
            _mm_storeu_si128((__m128i *)(out->lo + 16),
                             _mm512_cvtepi32_epi8(_mm512_sub_epi32(vb, _mm512_slli_epi32(hb, 8))));
        }
        _mm_storeu_si128((__m128i *)out->hi, _mm512_cvtepi32_epi8(ha));
        _mm_storeu_si128((__m128i *)(out->hi + 16), _mm512_cvtepi32_epi8(hb));
        const int mixed = arith == LSK_ARITH_MIXED;
        const int32_t all = finite ? _mm512_reduce_add_epi32(_mm512_add_epi32(va, vb)) : 0,
                      total = mixed && finite ? _mm512_reduce_add_epi32(_mm512_add_epi32(ha, hb)) : all;
        out->low = mixed ? all - 256 * total : 0;
        out->scale = (mixed ? 256.0f : 1.0f) * scale;
        out->sum = out->scale * (float)total;
        out->total128 = 128 * total;
    }
}

#undef BLOCK
#undef CLEAR
#undef STORE
#include "torch/kernels/kernels_impl.h"
