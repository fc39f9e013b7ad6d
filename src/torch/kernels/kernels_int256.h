/* i16 and i8 arithmetic in 256-bit vectors, for kernels_impl.h. The including file defines
 *
 *   ADD_PRODUCTS(sum, w, x)  sum plus the products of w, unsigned bytes (8 outputs x 4 inputs), and x, the 4 signed bytes
 *                            that all outputs share; w is below 16 unless WHOLE_BYTES is defined too
 *   IN_32_BITS(sum)          what was summed over 32 inputs, as 8 integers
 *
 * Sums of integers are exact, so these are the bits of kernels_int.c. Half a tile (8 outputs) at a time takes a group's
 * weights from memory once for a block of rows, whose sums stay in registers; a tile's bytes stay in the first-level
 * cache while all blocks pass over them. */
#define FAST_INT 1
#define MATMUL_INT int256_matmul
#define QUANTIZE int256_quantize

#define PEAK_INT int256_peak
#define LSK_ZERO _mm256_setzero_si256()
#define LSK_STEP(sum, x) ADD_PRODUCTS(sum, x, _mm256_set1_epi8(2))
static LSK_PEAK(int256_peak, __m256i, 32)

enum { INT256_MOST = 8 }; /* rows of a block at most */
#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
#define ALWAYS static inline __attribute__((always_inline))

ALWAYS __m256i int256_four(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Sums of a block of rows over a group: of 8-bit inputs, or of the two halves of 16-bit ones. */
typedef struct {
    __m256i hi[INT256_MOST], lo[INT256_MOST];
} int256_sums;

ALWAYS void int256_clear(int256_sums *s, int rows) {
    EACH_ROW s->hi[r] = s->lo[r] = _mm256_setzero_si256();
}

ALWAYS void int256_add(int256_sums *s, int rows, int is16, __m256i w, const lsk_group *x, int at) {
    EACH_ROW {
        s->hi[r] = ADD_PRODUCTS(s->hi[r], w, int256_four(x[r].hi + at));
        if (is16) s->lo[r] = ADD_PRODUCTS(s->lo[r], w, int256_four(x[r].lo + at));
    }
}

ALWAYS __m256i int256_join(const int256_sums *s, int r, int is16) {
    const __m256i hi = IN_32_BITS(s->hi[r]);
    return is16 ? _mm256_add_epi32(_mm256_slli_epi32(hi, 8), IN_32_BITS(s->lo[r])) : hi;
}

/* Adds a group's exact sums less `less`, which bytes that hold a weight + some number have too much. */
ALWAYS __m256 int256_scaled(__m256i dots, int32_t less, __m256 d, const lsk_group *x, __m256 sum) {
    dots = _mm256_sub_epi32(dots, _mm256_set1_epi32(less));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(d, _mm256_set1_ps(x->scale)), sum);
}

/* q: 4-bit weights of a group; half: of the tile's outputs. */
ALWAYS void int256_dots4(const uint8_t *q, const lsk_group *x, int rows, int is16, int half, int256_sums *s) {
    const __m256i fifteen = _mm256_set1_epi8(15);
    int256_clear(s, rows);
    _Pragma("GCC unroll 1") for (int j = 0; j < 4; j++) { /* unrolled, compilers spill the sums */
        const __m256i b = _mm256_loadu_si256((const __m256i *)(q + 64 * j + 32 * half));
        int256_add(s, rows, is16, _mm256_and_si256(b, fifteen), x, 4 * j);
        int256_add(s, rows, is16, _mm256_and_si256(_mm256_srli_epi16(b, 4), fifteen), x, 16 + 4 * j);
    }
}

/* Vector j of half of a group: 8 outputs, inputs 4j .. 4j + 3, of 8 bits, or of 4 and `bits` high ones. */
typedef struct {
    __m256i low, high; /* four bits each */
} int256_weights;
ALWAYS int256_weights int256_weights_at(const uint8_t *q, const uint8_t *high, int bits, int half, int j) {
    const __m256i fifteen = _mm256_set1_epi8(15);
    const __m256i b = _mm256_loadu_si256((const __m256i *)(q + 64 * (bits ? j % 4 : j) + 32 * half));
    if (!bits) return (int256_weights){_mm256_and_si256(b, fifteen), _mm256_and_si256(_mm256_srli_epi16(b, 4), fifteen)};
    const __m256i h = _mm256_loadu_si256((const __m256i *)(high + (bits == 2 ? j / 4 * 64 : 0) + 32 * half));
    const __m128i at = _mm_cvtsi32_si128(bits == 2 ? j % 4 * 2 : j), down = _mm_cvtsi32_si128(j < 4 ? 0 : 4);
    return (int256_weights){_mm256_and_si256(_mm256_srl_epi16(b, down), fifteen),
                            _mm256_and_si256(_mm256_srl_epi16(h, at), _mm256_set1_epi8(bits == 2 ? 3 : 1))};
}

/* Sums over inputs 4 * j .. 4 * end - 1. */
ALWAYS void int256_dots8(const uint8_t *q, const uint8_t *bits_above, int bits, const lsk_group *x, int rows, int is16,
                         int half, int j, int end, __m256i *dots) {
    int256_sums s, high; /* of whole bytes, or of their low and high four bits */
    int256_clear(&s, rows);
    int256_clear(&high, rows);
    _Pragma("GCC unroll 1") for (; j < end; j++) {
#ifdef WHOLE_BYTES
        const __m256i whole = _mm256_loadu_si256((const __m256i *)(q + 64 * j + 32 * half));
        if (!bits) {
            int256_add(&s, rows, is16, whole, x, 4 * j);
            continue;
        }
        const int256_weights w = int256_weights_at(q, bits_above, bits, half, j);
        int256_add(&s, rows, is16, _mm256_or_si256(w.low, _mm256_slli_epi16(w.high, 4)), x, 4 * j);
#else
        const int256_weights w = int256_weights_at(q, bits_above, bits, half, j);
        int256_add(&high, rows, is16, w.high, x, 4 * j);
        int256_add(&s, rows, is16, w.low, x, 4 * j);
#endif
    }
    EACH_ROW dots[r] = _mm256_add_epi32(int256_join(&s, r, is16), _mm256_slli_epi32(int256_join(&high, r, is16), 4));
}

ALWAYS void int256_add_q4(const uint8_t *q, __m256 d, __m256 min, const lsk_group *x, int rows, int is16, int half,
                          __m256 *sum) {
    int256_sums s;
    int256_dots4(q, x, rows, is16, half, &s);
    EACH_ROW {
        sum[r] = int256_scaled(int256_join(&s, r, is16), 0, d, &x[r], sum[r]);
        sum[r] = _mm256_fmadd_ps(min, _mm256_set1_ps(x[r].sum), sum[r]);
    }
}

ALWAYS void int256_q4(const lsk_q4 *p, int n_groups, const lsk_group *x, int64_t ldx, int rows, int is16, int half,
                      __m256 *sum) {
    for (int g = 0; g < n_groups; g++, p++, x += ldx) {
        if (!half) lsk_prefetch(p, sizeof *p);
        int256_add_q4(p->q, vf_half(p->scale + 8 * half), vf_half(p->min + 8 * half), x, rows, is16, half, sum);
    }
}

ALWAYS void int256_add_q5(const uint8_t *q, const uint8_t *high, __m256 d, __m256 min, const lsk_group *x, int rows,
                          int is16, int half, __m256 *sum) {
    __m256i dots[INT256_MOST];
    int256_dots8(q, high, 1, x, rows, is16, half, 0, 8, dots);
    EACH_ROW {
        sum[r] = int256_scaled(dots[r], 0, d, &x[r], sum[r]);
        sum[r] = _mm256_fmadd_ps(min, _mm256_set1_ps(x[r].sum), sum[r]);
    }
}

ALWAYS void int256_q5(const lsk_q5 *p, int n_groups, const lsk_group *x, int64_t ldx, int rows, int is16, int half,
                      __m256 *sum) {
    for (int g = 0; g < n_groups; g++, p++, x += ldx) {
        if (!half) lsk_prefetch(p, sizeof *p);
        int256_add_q5(p->q, p->high, vf_half(p->scale + 8 * half), vf_half(p->min + 8 * half), x, rows, is16, half, sum);
    }
}

ALWAYS void int256_q8(const lsk_q8 *p, int n_groups, const lsk_group *x, int64_t ldx, int rows, int is16, int half,
                      __m256 *sum) {
    for (int g = 0; g < n_groups; g++, p++, x += ldx) {
        __m256i dots[INT256_MOST];
        if (!half) lsk_prefetch(p, sizeof *p);
        const __m256 d = vf_half(p->scale + 8 * half);
        int256_dots8(p->q, NULL, 0, x, rows, is16, half, 0, 8, dots);
        EACH_ROW sum[r] = int256_scaled(dots[r], x[r].total128, d, &x[r], sum[r]);
    }
}

/* 8 small integers, times d. */
ALWAYS __m256 int256_bytes_times(const uint8_t *p, __m256 d) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p))) * d;
}
ALWAYS __m256 int256_signed_bytes_times(const uint8_t *p, __m256 d) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p))) * d;
}

/* Group g of a block of a K format. */
ALWAYS void int256_group_k4(const lsk_k4 *p, int g, const lsk_group *x, int rows, int is16, int half, __m256 *sum) {
    if (!half) lsk_prefetch(&p->g[g], sizeof p->g[g]);
    int256_add_q4(p->g[g].q, int256_bytes_times(p->scale[g] + 8 * half, vf_half(p->d + 8 * half)),
                  int256_bytes_times(p->min[g] + 8 * half, _mm256_setzero_ps() - vf_half(p->dmin + 8 * half)), x, rows,
                  is16, half, sum);
}
ALWAYS void int256_group_k5(const lsk_k5 *p, int g, const lsk_group *x, int rows, int is16, int half, __m256 *sum) {
    if (!half) lsk_prefetch(&p->g[g], sizeof p->g[g]);
    int256_add_q5(p->g[g].q, p->g[g].high, int256_bytes_times(p->scale[g] + 8 * half, vf_half(p->d + 8 * half)),
                  int256_bytes_times(p->min[g] + 8 * half, _mm256_setzero_ps() - vf_half(p->dmin + 8 * half)), x, rows,
                  is16, half, sum);
}
ALWAYS void int256_group_k6(const lsk_k6 *p, int g, const lsk_group *x, int rows, int is16, int half, __m256 *sum) {
    __m256i dots[INT256_MOST];
    const __m256 all = vf_half(p->d + 8 * half);
    if (!half) lsk_prefetch(&p->g[g], sizeof p->g[g]);
    __m256 d = int256_signed_bytes_times(p->scale[g] + 8 * half, all);
    int256_dots8(p->g[g].q, p->g[g].high, 2, x, rows, is16, half, 0, 4, dots);
    EACH_ROW sum[r] = int256_scaled(dots[r], x[r].first32, d, &x[r], sum[r]);
    d = int256_signed_bytes_times(p->min[g] + 8 * half, all);
    int256_dots8(p->g[g].q, p->g[g].high, 2, x, rows, is16, half, 4, 8, dots);
    EACH_ROW sum[r] = int256_scaled(dots[r], lsk_last32(&x[r]), d, &x[r], sum[r]);
}
#define INT256_BLOCKS(FORMAT) \
    ALWAYS void int256_##FORMAT(const lsk_##FORMAT *p, int n_groups, const lsk_group *x, int64_t ldx, int rows, int is16, \
                                int half, __m256 *sum) { \
        for (int g = 0; g < n_groups; g++, x += ldx) int256_group_##FORMAT(p + g / 8, g % 8, x, rows, is16, half, sum); \
    }
INT256_BLOCKS(k4)
INT256_BLOCKS(k5)
INT256_BLOCKS(k6)

#define INT256_KERNEL(FORMAT, ROWS, ARITH, IS16) \
    static __attribute__((noinline)) void FORMAT##_##ARITH##_##ROWS(const lsk_matrix *m, const lsk_group *x, int64_t ldx, \
                                                                    float *y, int64_t ldy, int32_t tile) { \
        const int rows = ROWS, n = m->n_out - tile * LSK_TILE; \
        for (int half = 0; half < 2; half++) { \
            __m256 sum[ROWS]; \
            EACH_ROW sum[r] = _mm256_setzero_ps(); \
            int256_##FORMAT((const lsk_##FORMAT *)(m->data + (size_t)tile * m->tile_bytes), m->n_in / 32, x, ldx, rows, \
                            IS16, half, sum); \
            EACH_ROW { \
                float out[8]; \
                const int left = n - 8 * half < 8 ? n - 8 * half : 8; \
                _mm256_storeu_ps(out, sum[r]); \
                if (left > 0) memcpy(y + r * ldy + tile * LSK_TILE + 8 * half, out, (size_t)left * sizeof *out); \
            } \
        } \
    }
#define INT256_TWO(FORMAT, ARITH, IS16) INT256_KERNEL(FORMAT, 1, ARITH, IS16) INT256_KERNEL(FORMAT, 2, ARITH, IS16)
#define INT256_FOUR(FORMAT, ARITH, IS16) \
    INT256_TWO(FORMAT, ARITH, IS16) INT256_KERNEL(FORMAT, 3, ARITH, IS16) INT256_KERNEL(FORMAT, 4, ARITH, IS16)
#define INT256_SHAPES_4(FORMAT) \
    INT256_FOUR(FORMAT, i8, 0) \
    INT256_KERNEL(FORMAT, 5, i8, 0) \
    INT256_KERNEL(FORMAT, 6, i8, 0) \
    INT256_KERNEL(FORMAT, 7, i8, 0) \
    INT256_KERNEL(FORMAT, 8, i8, 0) \
    INT256_FOUR(FORMAT, i16, 1)
#define INT256_SHAPES_8(FORMAT) INT256_FOUR(FORMAT, i8, 0) INT256_TWO(FORMAT, i16, 1)
INT256_SHAPES_4(q4)
INT256_SHAPES_4(k4)
INT256_SHAPES_8(q5)
INT256_SHAPES_8(q8)
INT256_SHAPES_8(k5)
INT256_SHAPES_8(k6)

/* Mixed arithmetic: the low halves of wide groups, after all others. */
static void int256_add_wide(const lsk_matrix *m, float *y, int64_t ldy, int32_t tile, const lsk_wide_group *wide,
                            int32_t n_wide) {
    const void *data = m->data + (size_t)tile * m->tile_bytes;
    const int left = m->n_out - tile * LSK_TILE, n = left < LSK_TILE ? left : LSK_TILE;
    for (int32_t i = 0; i < n_wide; i++) {
        const lsk_group *low = wide[i].low;
        const int32_t g = wide[i].group;
        for (uint32_t rows = wide[i].rows; rows; rows &= rows - 1, low++) {
            float *at = y + __builtin_ctz(rows) * ldy + tile * LSK_TILE, out[LSK_TILE] = {0};
            memcpy(out, at, (size_t)n * sizeof *out);
            for (int half = 0; half < 2; half++) {
                __m256 sum = _mm256_loadu_ps(out + 8 * half);
                switch (m->format) {
                case LSK_Q4I: int256_q4((const lsk_q4 *)data + g, 1, low, 0, 1, 0, half, &sum); break;
                case LSK_Q5I: int256_q5((const lsk_q5 *)data + g, 1, low, 0, 1, 0, half, &sum); break;
                case LSK_Q8I: int256_q8((const lsk_q8 *)data + g, 1, low, 0, 1, 0, half, &sum); break;
                case LSK_K4I: int256_group_k4((const lsk_k4 *)data + g / 8, g % 8, low, 1, 0, half, &sum); break;
                case LSK_K5I: int256_group_k5((const lsk_k5 *)data + g / 8, g % 8, low, 1, 0, half, &sum); break;
                default: int256_group_k6((const lsk_k6 *)data + g / 8, g % 8, low, 1, 0, half, &sum);
                }
                _mm256_storeu_ps(out + 8 * half, sum);
            }
            memcpy(at, out, (size_t)n * sizeof *out);
        }
    }
}

static void int256_matmul(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                          int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    typedef void (*kernel)(const lsk_matrix *, const lsk_group *, int64_t, float *, int64_t, int32_t);
#define OF_4(f) {{4, {f##_i16_1, f##_i16_2, f##_i16_3, f##_i16_4}}, \
                 {8, {f##_i8_1, f##_i8_2, f##_i8_3, f##_i8_4, f##_i8_5, f##_i8_6, f##_i8_7, f##_i8_8}}}
#define OF_8(f) {{2, {f##_i16_1, f##_i16_2}}, {4, {f##_i8_1, f##_i8_2, f##_i8_3, f##_i8_4}}}
    static const struct {
        int most; /* rows whose sums fit the registers */
        kernel of[INT256_MOST];
    } kernels[][2] = {[LSK_Q4I] = OF_4(q4), [LSK_Q5I] = OF_8(q5), [LSK_Q8I] = OF_8(q8), [LSK_K4I] = OF_4(k4), [LSK_K5I] = OF_8(k5),
                      [LSK_K6I] = OF_8(k6)};
    const int i8 = arith != LSK_ARITH_I16;
    const int32_t most = kernels[m->format][i8].most, passes = (rows + most - 1) / most;
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch);
    for (int32_t t = t0; t < t1; t++) {
        for (int32_t i = 0; i < passes; i++) {
            const int32_t from = rows * i / passes, to = rows * (i + 1) / passes;
            kernels[m->format][i8].of[to - from - 1](m, x + from, ldx, y + from * ldy, ldy, t);
        }
        for (int32_t c = 0, from = 0; c < wide.chunks; c++, from += LSK_WIDE_ROWS)
            int256_add_wide(m, y + from * ldy, ldy, t, wide.of[c], wide.n[c]);
    }
}

/* 8 integers of 32 bits, four times, as 32 bytes. */
static inline __m256i int256_bytes(const __m256i *v) {
    const __m256i ab = _mm256_packs_epi32(v[0], v[1]), cd = _mm256_packs_epi32(v[2], v[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static inline int32_t int256_sum(__m256i v) {
    int32_t each[8], sum = 0;
    _mm256_storeu_si256((__m256i *)each, v);
    for (int j = 0; j < 8; j++) sum += each[j];
    return sum;
}

static void int256_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride) {
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF)), largest = _mm256_set1_ps(3.40282347e38f);
    const float steps = (float)lsk_steps(arith);
    for (int32_t i = 0; i < n; i += 32, out += stride) {
        __m256 max = _mm256_setzero_ps(), finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
        for (int j = 0; j < 4; j++) {
            const __m256 a = _mm256_and_ps(_mm256_loadu_ps(x + i + 8 * j), magnitude);
            finite = _mm256_and_ps(finite, _mm256_cmp_ps(a, largest, _CMP_LE_OQ));
            max = _mm256_max_ps(max, a);
        }
        float parts[8], most = 0;
        _mm256_storeu_ps(parts, max);
        for (int j = 0; j < 8; j++) most = parts[j] > most ? parts[j] : most;
        const int is_finite = _mm256_movemask_ps(finite) == 0xFF;
        const float inverse = is_finite && most > 0 ? steps / most : 0;
        /* a subnormal maximum has an infinite inverse: such values count as zero */
        const __m256 s = _mm256_set1_ps(inverse <= 3.40282347e38f ? inverse : 0);
        __m256i v[4], hi[4], of[4]; /* of: what is summed */
        for (int j = 0; j < 4; j++)
            of[j] = v[j] = hi[j] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * j), s));
        const int mixed = arith == LSK_ARITH_MIXED;
        if (arith != LSK_ARITH_I8) {
            for (int j = 0; j < 4; j++) {
                hi[j] = _mm256_srai_epi32(_mm256_add_epi32(v[j], _mm256_set1_epi32(128)), 8);
                if (mixed) of[j] = hi[j];
                v[j] = _mm256_sub_epi32(v[j], _mm256_slli_epi32(hi[j], 8));
            }
            _mm256_storeu_si256((__m256i *)out->lo, int256_bytes(v));
        }
        _mm256_storeu_si256((__m256i *)out->hi, int256_bytes(hi));
        const int32_t first = is_finite ? int256_sum(_mm256_add_epi32(of[0], of[1])) : 0,
                      sum = is_finite ? first + int256_sum(_mm256_add_epi32(of[2], of[3])) : 0;
        out->scale = (mixed ? 256.0f : 1.0f) * (is_finite ? most / steps : __builtin_nanf(""));
        out->sum = out->scale * (float)sum;
        out->total128 = 128 * sum;
        out->first32 = 32 * first;
    }
}
