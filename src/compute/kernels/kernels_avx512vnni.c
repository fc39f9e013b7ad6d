/* AVX-512 with integer dot products (VNNI): vpdpbusd (Intel SDM, volume 2) adds four products of an unsigned and a
 * signed byte to each of 16 integers. 16-bit inputs come as two halves: 256 * (w . hi) + w . lo. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#define LEVEL lsk_avx512vnni
#define LEVEL_NAME "avx512vnni"
#include "compute/kernels/vector_avx512.h"

#define QUANTIZE vnni_quantize

#define PEAK_INT vnni_peak
#define LSK_ZERO _mm512_setzero_si512()
#define LSK_STEP(sum, x) _mm512_dpbusd_epi32(sum, x, _mm512_set1_epi8(2))
LSK_PEAK(vnni_peak, __m512i, 64)

/* A block of rows has at most six to eight independent chains of dot products: they hide the latency of one, and their
 * sums fit the registers beside the weights. */
#define INT_ROWS UP_TO_12
#define INT_TOGETHER 1
#define INT_BLOCK(rows, is16) ((is16) ? 4 : (rows) <= 8 ? 8 : 6)
enum { INT_MOST = 12 };
#include "compute/kernels/kernels_intgroup.h"

/* Four inputs of a row, the same for all 16 outputs. Compilers load them by a separate instruction; broadcasting in the
 * multiplication itself is faster. */
#define DOT(acc, w, four) __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int8_t(*)[4])(four)));

INLINE void int_products(const int_group *w, const int is16, int v, int j, int end, const lsk_group *x, const int32_t *pairs,
                         const int from, const int to, vi dots[INT_TOGETHER][INT_MOST]) {
    (void)pairs;
    vi hi[INT_MOST], lo[INT_MOST];
    EACH(r, from, to) hi[r] = lo[r] = (vi){0};
    EACH(k, j, end) {
        const vbytes q = int_bytes(w, k, v);
        EACH(r, from, to) {
            DOT(hi[r], q, x[r].hi + 4 * k)
            if (is16) DOT(lo[r], q, x[r].lo + 4 * k)
        }
    }
    EACH(r, from, to) dots[0][r] = is16 ? (hi[r] << 8) + lo[r] : hi[r];
}

/* Of each wide group row by row, with its weights in registers: where the rows are not the same in each group, that is
 * 5% of a matmul faster than a call of a kernel for them. */
INLINE void add_wide_group(const lsk_format f, const unsigned char *data, float *y, int64_t ldy, __mmask16 keep,
                           const lsk_wide_group *wide) {
    const int parts = int_parts(int_bits(f));
    const int_group w = int_group_at(f, data, (unsigned)wide->group);
    const lsk_group *low = wide->low;
    vbytes q[8];
    int_scales s[2];
    EACH(k, 0, 8) q[k] = int_bytes(&w, k, 0);
    EACH(part, 0, parts) s[part] = int_scales_at(&w, 0, part);
    for (uint32_t left = wide->rows; left; left &= left - 1, low++) {
        float *at = y + __builtin_ctz(left) * ldy;
        vi dots[2] = {{0}, {0}};
        EACH(k, 0, 4) {
            DOT(dots[0], q[k], low->hi + 4 * k)
            DOT(dots[1], q[k + 4], low->hi + 16 + 4 * k)
        }
        if (parts == 1) dots[0] += dots[1];
        vf sum = _mm512_maskz_loadu_ps(keep, at);
        EACH(part, 0, parts) sum = int_add(&w, &s[part], part, dots[part], low, sum);
        _mm512_mask_storeu_ps(at, keep, sum);
    }
}
static void vnni_add_wide_of(const lsk_matrix *m, float *y, int64_t ldy, int32_t tile, const lsk_wide_group *wide,
                             int32_t n_wide) {
    const unsigned char *data = m->data + (size_t)tile * m->tile_bytes;
    const __mmask16 keep = vf_outputs(m, tile);
    y += tile * LSK_TILE;
#define OF(FORMAT, ...) \
    case LSK_##FORMAT: \
        for (int32_t i = 0; i < n_wide; i++) add_wide_group(LSK_##FORMAT, data, y, ldy, keep, wide + i); \
        break;
    switch (m->format) {
        INT_FORMATS(OF, )
    default: break;
    }
}
#define INT_ADD_WIDE vnni_add_wide_of
#include "compute/kernels/kernels_integers.h"

void lsk_avx512vnni_add_wide(const lsk_matrix *m, const lsk_wide_rows *wide, float *y, int64_t ldy, int32_t rows,
                             int32_t tile) {
    int_add_wide(m, wide, y, ldy, tile, 0, rows);
}

/* The low bytes of two times 16 integers. */
static inline __m256i bytes_of(__m512i a, __m512i b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(a)), _mm512_cvtepi32_epi8(b), 1);
}

/* The sum of the first half, or of the last, of each of four vectors. */
static inline __attribute__((always_inline)) __m128i sums_of_4(const __m256i *v, const int half) {
    __m128i each[4];
    for (int g = 0; g < 4; g++) each[g] = half ? _mm256_extracti128_si256(v[g], 1) : _mm256_castsi256_si128(v[g]);
    return _mm_hadd_epi32(_mm_hadd_epi32(each[0], each[1]), _mm_hadd_epi32(each[2], each[3]));
}

/* Up to four groups at once: what is one number of a group is found for four by the same instructions. */
static inline __attribute__((always_inline)) void quantize_4(const float *x, const int groups, lsk_arith arith,
                                                             lsk_group *out, int64_t stride) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    const __m256i one = _mm256_set1_epi8(1);
    const __m128 steps = _mm_set1_ps((float)lsk_steps(arith));
    __m128i most[4], lane;
    __m256i hi_sums[4], lo_sums[4];
    for (int g = 0; g < 4; g++) most[g] = _mm_setzero_si128(), hi_sums[g] = lo_sums[g] = _mm256_setzero_si256();
    for (int g = 0; g < groups; g++) { /* as integers magnitudes have the order of floats, and NaN is above infinity */
        const __m512i a = _mm512_and_si512(_mm512_loadu_si512(x + 32 * g), magnitude),
                      b = _mm512_and_si512(_mm512_loadu_si512(x + 32 * g + 16), magnitude), ab = _mm512_max_epi32(a, b);
        const __m256i half = _mm256_max_epi32(_mm512_castsi512_si256(ab), _mm512_extracti64x4_epi64(ab, 1));
        most[g] = _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    }
    const __m128i m01 = _mm_max_epi32(_mm_unpacklo_epi32(most[0], most[1]), _mm_unpackhi_epi32(most[0], most[1])),
                  m23 = _mm_max_epi32(_mm_unpacklo_epi32(most[2], most[3]), _mm_unpackhi_epi32(most[2], most[3]));
    lane = _mm_max_epi32(_mm_unpacklo_epi64(m01, m23), _mm_unpackhi_epi64(m01, m23));
    const __mmask8 finite = _mm_cmplt_epi32_mask(lane, _mm_set1_epi32(0x7F800000));
    const __m128 max = _mm_castsi128_ps(lane);
    __m128 inverse = _mm_maskz_div_ps(finite & _mm_cmp_ps_mask(max, _mm_setzero_ps(), _CMP_GT_OQ), steps, max);
    /* a subnormal maximum has an infinite inverse: such values count as zero */
    inverse = _mm_maskz_mov_ps(_mm_cmp_ps_mask(inverse, _mm_set1_ps(3.40282347e38f), _CMP_LE_OQ), inverse);
    float inverses[4];
    _mm_storeu_ps(inverses, inverse);
    for (int g = 0; g < groups; g++) {
        lsk_group *o = out + g * stride;
        const __m512 s = _mm512_set1_ps(inverses[g]);
        const __m512i va = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 32 * g), s)),
                      vb = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 32 * g + 16), s));
        __m512i ha = va, hb = vb;
        if (arith != LSK_ARITH_I8) {
            const __m512i half = _mm512_set1_epi32(128);
            ha = _mm512_srai_epi32(_mm512_add_epi32(va, half), 8),
            hb = _mm512_srai_epi32(_mm512_add_epi32(vb, half), 8);
            const __m256i lo = bytes_of(_mm512_sub_epi32(va, _mm512_slli_epi32(ha, 8)),
                                        _mm512_sub_epi32(vb, _mm512_slli_epi32(hb, 8)));
            _mm256_storeu_si256((__m256i *)o->lo, lo);
            if (arith == LSK_ARITH_I16) lo_sums[g] = _mm256_dpbusd_epi32(lo_sums[g], one, lo);
        }
        const __m256i hi = bytes_of(ha, hb);
        _mm256_storeu_si256((__m256i *)o->hi, hi);
        hi_sums[g] = _mm256_dpbusd_epi32(hi_sums[g], one, hi);
    }
    const int mixed = arith == LSK_ARITH_MIXED, both = arith == LSK_ARITH_I16;
    __m128i first = sums_of_4(hi_sums, 0), last = sums_of_4(hi_sums, 1);
    if (both) {
        first = _mm_add_epi32(_mm_slli_epi32(first, 8), sums_of_4(lo_sums, 0));
        last = _mm_add_epi32(_mm_slli_epi32(last, 8), sums_of_4(lo_sums, 1));
    }
    const __m128i total = _mm_add_epi32(first, last);
    const __m128 scale = _mm_mul_ps(_mm_set1_ps(mixed ? 256 : 1),
                                    _mm_mask_blend_ps(finite, _mm_set1_ps(__builtin_nanf("")), _mm_div_ps(max, steps)));
    float scales[4], sums[4];
    int32_t totals128[4], firsts32[4];
    _mm_storeu_ps(scales, scale);
    _mm_storeu_ps(sums, _mm_mul_ps(scale, _mm_cvtepi32_ps(total)));
    _mm_storeu_si128((__m128i *)totals128, _mm_slli_epi32(total, 7));
    _mm_storeu_si128((__m128i *)firsts32, _mm_slli_epi32(first, 5));
    for (int g = 0; g < groups; g++) {
        lsk_group *o = out + g * stride;
        o->scale = scales[g], o->sum = sums[g], o->total128 = totals128[g], o->first32 = firsts32[g];
    }
}

static void vnni_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride) {
    for (; n >= 128; n -= 128, x += 128, out += 4 * stride) quantize_4(x, 4, arith, out, stride);
    for (; n > 0; n -= 32, x += 32, out += stride) quantize_4(x, 1, arith, out, stride);
}

#include "compute/kernels/kernels_impl.h"
