/* AVX-512 with integer dot products (VNNI). The idea is that of llama.cpp's products of Q4_0 or Q8_0 with Q8_0: both
 * factors are integers with a scale for 32 of them, so a group's sum is exact in 32-bit integers in any order, and only
 * the multiply-add of its scaled value to the row's float sum rounds. So this file and kernels_int.c, its plain twin,
 * agree bit for bit. vpdpbusd (Intel SDM, volume 2) adds four products of an unsigned and a signed byte to each of 16
 * integers. Weights are the unsigned bytes, 16 outputs x 4 inputs a vector, 8-bit ones as q + 128: 128 * (sum of
 * inputs) is subtracted. Inputs are the signed bytes; 16-bit inputs come as two halves: 256 * (w . hi) + w . lo. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#define LEVEL lsk_avx512vnni
#define LEVEL_NAME "avx512vnni"
#include "torch/kernels/int512.h"

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
#define ADD_Q4(r) f[r] = add_q4(f[r], hi[r], s.d[0], s.min[0], x + r);
#define ADD_Q8(r) f[r] = add_q8(f[r], hi[r], s.d[0], x + r);
#define ADD_HALF(FORMAT, r) f[r] = add_half(f[r], hi[r], s.d[last], s.min[last], FORMAT, last, x + r);
#define ADD_K2(r) ADD_HALF(LSK_K2I, r)
#define ADD_K3(r) ADD_HALF(LSK_K3I, r)
#define ADD_K6(r) ADD_HALF(LSK_K6I, r)
#define STORE(r) _mm512_mask_storeu_ps(y + (r) * ldy + tile * LSK_TILE, keep, f[r]);

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define EACH _Pragma("GCC unroll 12") for (int r = from; r < to; r++)
#define BLOCK(FROM, TO, ARITH, ADD, J, END) { \
        enum { from = FROM, to = TO, last = J > 0 }; \
        __m512i hi[12], lo[12]; \
        (void)lo, (void)last; \
        EACH { CLEAR_##ARITH(r) } \
        _Pragma("GCC unroll 8") for (int j = J; j < END; j++) EACH { DOTS_##ARITH(r) } \
        EACH { JOIN_##ARITH(r) } \
        EACH { ADD(r) } \
    }
/* Of inputs 4 * J .. 4 * END - 1. */
#define BLOCKS(ROWS, ARITH, ADD, J, END) \
    BLOCK(0, MIN(ROWS, MOST_##ARITH(ROWS)), ARITH, ADD, J, END) \
    if (ROWS > MOST_##ARITH(ROWS)) BLOCK(MOST_##ARITH(ROWS), MIN(ROWS, 2 * MOST_##ARITH(ROWS)), ARITH, ADD, J, END) \
    if (ROWS > 2 * MOST_##ARITH(ROWS)) BLOCK(2 * MOST_##ARITH(ROWS), ROWS, ARITH, ADD, J, END)

/* Four inputs of a row, the same for all 16 outputs. Compilers load them by a separate instruction; broadcasting in the
 * multiplication itself is faster. */
#define DOT(acc, w, four) __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int8_t(*)[4])(four)));

/* What scales a group's weights; [1]: the last 16 inputs where these have their own. */
typedef struct {
    __m512 d[2], min[2];
} group_scales;

/* A group of weights of one tile. */
static inline __attribute__((always_inline)) void load_group(const lsk_format format, const void *tile, int32_t g,
                                                             __m512i *w, group_scales *s) {
    const lsk_q4 *q4 = (const lsk_q4 *)tile + g;
    const lsk_q5 *q5 = (const lsk_q5 *)tile + g;
    const lsk_q8 *q8 = (const lsk_q8 *)tile + g;
    const lsk_k2 *k2 = (const lsk_k2 *)tile + g / 8;
    const lsk_k3 *k3 = (const lsk_k3 *)tile + g / 8;
    const lsk_k4 *k4 = (const lsk_k4 *)tile + g / 8;
    const lsk_k5 *k5 = (const lsk_k5 *)tile + g / 8;
    const lsk_k6 *k6 = (const lsk_k6 *)tile + g / 8;
    const __m512 zero = _mm512_setzero_ps();
    s->d[1] = s->min[0] = s->min[1] = zero;
    switch (format) {
    case LSK_Q4I:
        unpack_q4(q4->q, w);
        s->d[0] = vf_half(q4->scale), s->min[0] = vf_half(q4->min);
        break;
    case LSK_Q5I:
        unpack_q5(q5->q, q5->high, w);
        s->d[0] = vf_half(q5->scale), s->min[0] = vf_half(q5->min);
        break;
    case LSK_Q8I:
        load_q8(q8->q, w);
        s->d[0] = vf_half(q8->scale);
        break;
    case LSK_K2I:
        unpack_k2(k2->g[g % 8].q, w);
        for (int last = 0; last < 2; last++) {
            s->d[last] = scaled_nibbles(k2->scale[g % 8], last, vf_half(k2->d));
            s->min[last] = scaled_nibbles(k2->min[g % 8], last, _mm512_sub_ps(zero, vf_half(k2->dmin)));
        }
        break;
    case LSK_K3I:
        unpack_k3(k3->g[g % 8].q, k3->g[g % 8].high, w);
        s->d[0] = scaled_signed_bytes(k3->scale[g % 8], vf_half(k3->d));
        s->d[1] = scaled_signed_bytes(k3->min[g % 8], vf_half(k3->d));
        break;
    case LSK_K4I:
        unpack_q4(k4->g[g % 8].q, w);
        s->d[0] = scaled_bytes(k4->scale[g % 8], vf_half(k4->d));
        s->min[0] = scaled_bytes(k4->min[g % 8], _mm512_sub_ps(zero, vf_half(k4->dmin)));
        break;
    case LSK_K5I:
        unpack_q5(k5->g[g % 8].q, k5->g[g % 8].high, w);
        s->d[0] = scaled_bytes(k5->scale[g % 8], vf_half(k5->d));
        s->min[0] = scaled_bytes(k5->min[g % 8], _mm512_sub_ps(zero, vf_half(k5->dmin)));
        break;
    default:
        unpack_k6(k6->g[g % 8].q, k6->g[g % 8].high, w);
        s->d[0] = scaled_signed_bytes(k6->scale[g % 8], vf_half(k6->d));
        s->d[1] = scaled_signed_bytes(k6->min[g % 8], vf_half(k6->d));
    }
}

/* Each group, of so many bytes, in turn. */
#define GROUPS(FORMAT, BYTES, ADD_ALL) \
    case FORMAT: \
        for (int g = 0; g < groups; g++, x += ldx) { \
            group_scales s; \
            fetch_ahead(data + (size_t)g * (BYTES), BYTES, &next, pass); \
            load_group(FORMAT, data, g, w, &s); \
            ADD_ALL \
        } \
        break;

#define KERNEL(ROWS, ARITH) \
    static __attribute__((noinline)) void ARITH##_rows_##ROWS(const lsk_matrix *m, const lsk_group *x, int64_t ldx, \
                                                                float *y, int64_t ldy, int32_t tile, __mmask16 keep, \
                                                                part_of pass) { \
        const unsigned char *data = m->data + (size_t)tile * m->tile_bytes; \
        const unsigned char *next = data + m->tile_bytes + m->tile_bytes * (size_t)pass.i / (size_t)pass.n; \
        __m512 f[ROWS]; \
        __m512i w[8]; \
        const int groups = m->n_in / 32; \
        _Pragma("GCC unroll 12") for (int r = 0; r < ROWS; r++) f[r] = _mm512_setzero_ps(); \
        switch (m->format) { \
            GROUPS(LSK_Q4I, sizeof(lsk_q4), BLOCKS(ROWS, ARITH, ADD_Q4, 0, 8)) \
            GROUPS(LSK_Q5I, sizeof(lsk_q5), BLOCKS(ROWS, ARITH, ADD_Q4, 0, 8)) \
            GROUPS(LSK_Q8I, sizeof(lsk_q8), BLOCKS(ROWS, ARITH, ADD_Q8, 0, 8)) \
            GROUPS(LSK_K2I, sizeof(lsk_k2) / 8, BLOCKS(ROWS, ARITH, ADD_K2, 0, 4) BLOCKS(ROWS, ARITH, ADD_K2, 4, 8)) \
            GROUPS(LSK_K3I, sizeof(lsk_k3) / 8, BLOCKS(ROWS, ARITH, ADD_K3, 0, 4) BLOCKS(ROWS, ARITH, ADD_K3, 4, 8)) \
            GROUPS(LSK_K4I, sizeof(lsk_k4) / 8, BLOCKS(ROWS, ARITH, ADD_Q4, 0, 8)) \
            GROUPS(LSK_K5I, sizeof(lsk_k5) / 8, BLOCKS(ROWS, ARITH, ADD_Q4, 0, 8)) \
            GROUPS(LSK_K6I, sizeof(lsk_k6) / 8, BLOCKS(ROWS, ARITH, ADD_K6, 0, 4) BLOCKS(ROWS, ARITH, ADD_K6, 4, 8)) \
        default:; \
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

/* Of the rows y, which are few. */
static void add_wide_of(const lsk_matrix *m, float *y, int64_t ldy, int32_t tile, const lsk_wide_group *wide,
                        int32_t n_wide) {
    const __mmask16 keep = vf_outputs(m, tile);
    for (int32_t i = 0; i < n_wide; i++) {
        __m512i w[8];
        group_scales s;
        load_group(m->format, m->data + (size_t)tile * m->tile_bytes, wide[i].group, w, &s);
        const lsk_group *low = wide[i].low;
        for (uint32_t left = wide[i].rows; left; left &= left - 1, low++) {
            float *at = y + __builtin_ctz(left) * ldy + tile * LSK_TILE;
            __m512i first = _mm512_setzero_si512(), last = first;
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {
                DOT(first, w[j], low->hi + 4 * j)
                DOT(last, w[j + 4], low->hi + 16 + 4 * j)
            }
            const __m512i dot = _mm512_add_epi32(first, last);
            __m512 f = _mm512_maskz_loadu_ps(keep, at);
            switch (m->format) {
            case LSK_K2I:
            case LSK_K3I:
            case LSK_K6I:
                f = add_half(f, first, s.d[0], s.min[0], m->format, 0, low);
                f = add_half(f, last, s.d[1], s.min[1], m->format, 1, low);
                break;
            case LSK_Q8I: f = add_q8(f, dot, s.d[0], low); break;
            default: f = add_q4(f, dot, s.d[0], s.min[0], low);
            }
            _mm512_mask_storeu_ps(at, keep, f);
        }
    }
}
void lsk_avx512vnni_add_wide(const lsk_matrix *m, const lsk_wide_rows *wide, float *y, int64_t ldy, int32_t tile) {
    for (int32_t c = 0, from = 0; c < wide->chunks; c++, from += LSK_WIDE_ROWS)
        add_wide_of(m, y + from * ldy, ldy, tile, wide->of[c], wide->n[c]);
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
        const __mmask16 keep = vf_outputs(m, t);
        for (int32_t i = 0; i < passes; i++) {
            const int32_t from = rows * i / passes, to = rows * (i + 1) / passes;
            kernels[arith != LSK_ARITH_I16][to - from - 1](m, x + from, ldx, y + from * ldy, ldy, t, keep,
                                                           (part_of){i, passes});
        }
        lsk_avx512vnni_add_wide(m, &wide, y, ldy, t);
    }
}

/* The low bytes of two times 16 integers. */
static inline __m256i bytes_of(__m512i a, __m512i b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(a)), _mm512_cvtepi32_epi8(b), 1);
}

/* The sum of the first half, or of the last, of each of four vectors. */
static inline __attribute__((always_inline)) __m128i sums_of_4(const __m256i *v, const int half) {
    __m128i each[4];
    for (int g = 0; g < 4; g++) each[g] = _mm256_extracti128_si256(v[g], half);
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

#undef BLOCK
#undef CLEAR
#undef STORE
#include "torch/kernels/kernels_impl.h"
