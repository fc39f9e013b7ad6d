/* i16 and i8 arithmetic in 256-bit vectors, for kernels_impl.h. The including file defines
 *
 *   ADD_BYTES(sum, w, x)  sum plus the products of w, unsigned bytes (8 outputs x 4 inputs), and x, the 4 signed bytes
 *                         that all outputs share
 *   BYTES_SUMMED(bits)    so many ADD_BYTES of weights of so many bits fit a sum; 0: none
 *   IN_32_BITS(sum)       the sum as 8 integers
 *   ADD_WORDS(sum, w, x)  8 integers plus the products of 8 outputs x 2 inputs in 16 bits and the 2 that outputs share
 *
 * Inputs of 8 bits are multiplied as bytes where weights allow it, all others as pairs of words. Sums of integers are
 * exact, so these are the bits of kernels_int.c. A block of rows takes a group's weights once; its sums over the group,
 * of both halves of a tile (8 outputs), stay in registers. All blocks pass over a tile (of pairs: those of 32 rows)
 * before the next one, so the tile comes from memory for the first. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#define FAST_INT 1
#define MATMUL_INT int256_matmul
#define QUANTIZE int256_quantize

#define PEAK_INT int256_peak
#define LSK_ZERO _mm256_setzero_si256()
#define LSK_STEP(sum, x) ADD_BYTES(sum, x, _mm256_set1_epi8(2))
static LSK_PEAK(int256_peak, __m256i, 32)

enum { INT256_MOST = 6, INT256_PAIRS = 16 }; /* rows of a block at most; pairs of a group */
#define EACH_ROW _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
#define EACH_HALF _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++)
#define ALWAYS static inline __attribute__((always_inline))

/* A group of weights of a tile, whose q are of so many bits, and what scales it. */
typedef struct {
    int bits, bytes;
    const void *at; /* so many bytes; of a K format its share of the block */
    const uint8_t *q, *high;
    const uint16_t *d, *min;          /* f16; min: NULL: none */
    const uint8_t *scale, *min_scale; /* NULL, or a K format's small integers; of 3 and 6 bits min_scale scales too */
} int256_weights;

/* 2: the first 16 inputs and the last have scales of their own; 1: they share them. */
ALWAYS int int256_parts(const int256_weights *w) {
    return w->bits == 2 || w->bits == 3 || w->bits == 6 ? 2 : 1;
}

ALWAYS int256_weights int256_group_q4(const void *tile, int g) {
    const lsk_q4 *p = (const lsk_q4 *)tile + g;
    return (int256_weights){4, sizeof *p, p, p->q, NULL, p->scale, p->min, NULL, NULL};
}
ALWAYS int256_weights int256_group_q5(const void *tile, int g) {
    const lsk_q5 *p = (const lsk_q5 *)tile + g;
    return (int256_weights){5, sizeof *p, p, p->q, p->high, p->scale, p->min, NULL, NULL};
}
ALWAYS int256_weights int256_group_q8(const void *tile, int g) {
    const lsk_q8 *p = (const lsk_q8 *)tile + g;
    return (int256_weights){8, sizeof *p, p, p->q, NULL, p->scale, NULL, NULL, NULL};
}
#define INT256_GROUP_K(FORMAT, BITS, MIN) \
    ALWAYS int256_weights int256_group_##FORMAT(const void *tile, int g) { \
        const lsk_##FORMAT *p = (const lsk_##FORMAT *)tile + g / 8; \
        return (int256_weights){BITS, sizeof *p / 8, (const char *)p + g % 8 * (sizeof *p / 8), p->g[g % 8].q, \
                                p->g[g % 8].high, p->d, MIN, p->scale[g % 8], p->min[g % 8]}; \
    }
INT256_GROUP_K(k2, 2, p->dmin)
INT256_GROUP_K(k3, 3, NULL)
INT256_GROUP_K(k4, 4, p->dmin)
INT256_GROUP_K(k5, 5, p->dmin)
INT256_GROUP_K(k6, 6, NULL)

/* Of each byte at p the bits from `from` on that lie under the mask, moved to bit `to`. */
ALWAYS __m256i int256_bits(const uint8_t *p, int from, int to, int mask) {
    __m256i b = _mm256_loadu_si256((const __m256i *)p);
    if (from < to) b = _mm256_slli_epi16(b, to - from);
    if (from > to) b = _mm256_srli_epi16(b, from - to);
    return _mm256_and_si256(b, _mm256_set1_epi8((char)(mask << to)));
}
/* Inputs 4j .. 4j + 3 of a half's outputs. */
ALWAYS __m256i int256_bytes_at(const int256_weights *w, int j, int half) {
    const int at = 32 * half, two_at = j / 4 * 64 + at, two = j % 4 * 2; /* of two bits */
    if (w->bits == 8) return _mm256_loadu_si256((const __m256i *)(w->q + 64 * j + at));
    const __m256i low = w->bits < 4 ? int256_bits(w->q + two_at, two, 0, 3)
                                    : int256_bits(w->q + j % 4 * 64 + at, j / 4 * 4, 0, 15);
    if (w->bits == 2 || w->bits == 4) return low;
    return _mm256_or_si256(low, w->bits == 3   ? int256_bits(w->high + at, j, 2, 1)
                                : w->bits == 5 ? int256_bits(w->high + at, j, 4, 1)
                                               : int256_bits(w->high + two_at, two, 4, 3));
}

/* Exact sums over inputs 4j .. 4 * end - 1 of a block of rows, by half. LSK_KEEP makes the compiler take one step after the
 * other: many products at once need more registers than there are. */
ALWAYS void int256_sum_bytes(const int256_weights *w, const lsk_group *x, int rows, int j, int end,
                             __m256i dots[2][INT256_MOST]) {
    __m256i s[2][INT256_MOST];
    _Pragma("GCC unroll 8") for (int k = j; k < end; k++) {
        const int step = (k - j) % BYTES_SUMMED(w->bits);
        __m256i q[2];
        EACH_HALF q[h] = int256_bytes_at(w, k, h);
        EACH_ROW {
            int32_t four;
            memcpy(&four, x[r].hi + 4 * k, sizeof four);
            EACH_HALF {
                s[h][r] = ADD_BYTES(step ? s[h][r] : _mm256_setzero_si256(), q[h], _mm256_set1_epi32(four));
                LSK_KEEP(s[h][r])
            }
        }
        if (step == BYTES_SUMMED(w->bits) - 1 || k == end - 1)
            EACH_ROW EACH_HALF {
                const __m256i sum = IN_32_BITS(s[h][r]);
                dots[h][r] = k - j == step ? sum : _mm256_add_epi32(dots[h][r], sum);
            }
    }
}
ALWAYS void int256_sum_words(const int256_weights *w, const int32_t *x, int rows, int j, int end,
                             __m256i dots[2][INT256_MOST]) {
    _Pragma("GCC unroll 8") for (int k = j; k < end; k++) _Pragma("GCC unroll 2") for (int odd = 0; odd < 2; odd++) {
        __m256i q[2];
        EACH_HALF {
            q[h] = int256_bytes_at(w, k, h);
            q[h] = odd ? _mm256_srli_epi16(q[h], 8) : _mm256_and_si256(q[h], _mm256_set1_epi16(255));
        }
        EACH_ROW EACH_HALF {
            dots[h][r] = ADD_WORDS(k > j || odd ? dots[h][r] : _mm256_setzero_si256(), q[h],
                                   _mm256_set1_epi32(x[INT256_PAIRS * r + 8 * odd + k]));
            LSK_KEEP(dots[h][r])
        }
    }
}

/* Inputs as those sums take them: of inputs 4j .. 4j + 3, pair j is the first and the third, pair j + 8 the others. */
static inline void int256_pairs(const lsk_group *x, int is16, int32_t *out) {
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

/* 8 small integers, times d. */
ALWAYS __m256 int256_times(const uint8_t *p, int has_sign, __m256 d) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)p);
    return _mm256_cvtepi32_ps(has_sign ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes)) * d;
}
/* The same of 4 bits, the low or the high ones. */
ALWAYS __m256 int256_times4(const uint8_t *p, int high, __m256 d) {
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(bytes, 4 * high), _mm256_set1_epi32(15))) * d;
}

/* Adds a group's products with a block of rows. */
ALWAYS void int256_add(int by_words, int256_weights w, const lsk_group *x, const int32_t *pairs, int rows,
                       __m256 sum[2][INT256_MOST]) {
    const int parts = int256_parts(&w);
    _Pragma("GCC unroll 2") for (int part = 0; part < parts; part++) {
        const int from = 4 * part, to = parts == 2 ? from + 4 : 8;
        __m256i dots[2][INT256_MOST];
        if (by_words) int256_sum_words(&w, pairs, rows, from, to, dots);
        else int256_sum_bytes(&w, x, rows, from, to, dots);
        EACH_HALF {
            __m256 d = vf_half(w.d + 8 * h), min = _mm256_setzero_ps();
            if (w.min) min = vf_half(w.min + 8 * h);
            if (w.scale && w.min) min = _mm256_setzero_ps() - min;
            if (w.bits == 2) {
                d = int256_times4(w.scale + 8 * h, part, d);
                min = int256_times4(w.min_scale + 8 * h, part, min);
            } else if (w.scale) {
                d = int256_times((part ? w.min_scale : w.scale) + 8 * h, parts == 2, d);
                if (w.min) min = int256_times(w.min_scale + 8 * h, 0, min);
            }
            EACH_ROW {
                const int32_t half32 = lsk_half32(&x[r], part), less = w.bits == 8   ? x[r].total128
                                                                       : w.bits == 6 ? half32
                                                                                     : half32 >> 3;
                if (!w.min) dots[h][r] = _mm256_sub_epi32(dots[h][r], _mm256_set1_epi32(less));
                const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(x[r].scale));
                sum[h][r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[h][r]), scale, sum[h][r]);
                if (w.min) {
                    const float of_inputs = w.bits == 2 ? lsk_half_sum(&x[r], part) : x[r].sum;
                    sum[h][r] = _mm256_fmadd_ps(min, _mm256_set1_ps(of_inputs), sum[h][r]);
                }
            }
        }
    }
}

/* Groups g .. end - 1 of a tile times a block of rows: x[i * ldx + r] is row r's i-th of them, pairs + (i * ldp + r) *
 * INT256_PAIRS its inputs as pairs, where the kernel takes these. go_on: y's sums go on, else they begin. */
#define INT256_ARGS \
    const lsk_matrix *m, int32_t tile, int32_t g, int32_t end, const lsk_group *x, int64_t ldx, const int32_t *pairs, \
        int64_t ldp, float *y, int64_t ldy, int go_on
#define INT256_KERNEL(FORMAT, HOW, ROWS) \
    static __attribute__((noinline)) void FORMAT##_##HOW##_##ROWS(INT256_ARGS) { \
        const int rows = ROWS, left = m->n_out - tile * LSK_TILE, n = left < LSK_TILE ? left : LSK_TILE; \
        const int whole = n == LSK_TILE; /* the last tile may be partly empty */ \
        const void *data = m->data + (size_t)tile * m->tile_bytes; \
        __m256 sum[2][INT256_MOST]; \
        y += tile * LSK_TILE; \
        float part[ROWS][LSK_TILE], *out = whole ? y : part[0]; \
        const int64_t ldo = whole ? ldy : LSK_TILE; \
        if (!whole) memset(part, 0, sizeof part); \
        for (int r = 0; r < rows && go_on && !whole; r++) memcpy(part[r], y + r * ldy, (size_t)n * sizeof *y); \
        EACH_ROW EACH_HALF sum[h][r] = go_on ? _mm256_loadu_ps(out + r * ldo + 8 * h) : _mm256_setzero_ps(); \
        for (int i = 0; i < end - g; i++) { \
            const int256_weights w = int256_group_##FORMAT(data, g + i); \
            lsk_prefetch(w.at, w.bytes); \
            int256_add(HOW##_IS_WORDS, w, x + i * ldx, pairs + i * ldp * INT256_PAIRS, rows, sum); \
        } \
        EACH_ROW EACH_HALF _mm256_storeu_ps(out + r * ldo + 8 * h, sum[h][r]); \
        for (int r = 0; r < rows && !whole; r++) memcpy(y + r * ldy, part[r], (size_t)n * sizeof *y); \
    }
#define b_IS_WORDS 0
#define w_IS_WORDS 1
#define INT256_FOUR(FORMAT, HOW) \
    INT256_KERNEL(FORMAT, HOW, 1) INT256_KERNEL(FORMAT, HOW, 2) INT256_KERNEL(FORMAT, HOW, 3) INT256_KERNEL(FORMAT, HOW, 4)
#define INT256_SIX(FORMAT, HOW) INT256_FOUR(FORMAT, HOW) INT256_KERNEL(FORMAT, HOW, 5) INT256_KERNEL(FORMAT, HOW, 6)
INT256_SIX(q4, b)
INT256_SIX(q5, b)
INT256_SIX(k2, b)
INT256_SIX(k3, b)
INT256_SIX(k4, b)
INT256_SIX(k5, b)
INT256_SIX(k6, b)
INT256_FOUR(q4, w)
INT256_FOUR(q5, w)
INT256_FOUR(k2, w)
INT256_FOUR(k3, w)
INT256_FOUR(k4, w)
INT256_FOUR(k5, w)
INT256_FOUR(k6, w)
INT256_SIX(q8, w)
#if BYTES_SUMMED(8)
INT256_SIX(q8, b)
#endif

/* A block of rows and a tile. */
typedef void (*int256_kernel)(INT256_ARGS);
typedef struct {
    int most; /* rows of a block */
    int256_kernel of[INT256_MOST];
} int256_kernels;

static const int256_kernels *int256_kernels_of(lsk_format format, int by_words) {
#define FOUR_OF(f, HOW) {4, {f##_##HOW##_1, f##_##HOW##_2, f##_##HOW##_3, f##_##HOW##_4}}
#define SIX_OF(f, HOW) {6, {f##_##HOW##_1, f##_##HOW##_2, f##_##HOW##_3, f##_##HOW##_4, f##_##HOW##_5, f##_##HOW##_6}}
    static const int256_kernels of[][2] = {
        [LSK_Q4I] = {SIX_OF(q4, b), FOUR_OF(q4, w)}, [LSK_Q5I] = {SIX_OF(q5, b), FOUR_OF(q5, w)},
        [LSK_K2I] = {SIX_OF(k2, b), FOUR_OF(k2, w)}, [LSK_K3I] = {SIX_OF(k3, b), FOUR_OF(k3, w)},
        [LSK_K4I] = {SIX_OF(k4, b), FOUR_OF(k4, w)}, [LSK_K5I] = {SIX_OF(k5, b), FOUR_OF(k5, w)},
        [LSK_K6I] = {SIX_OF(k6, b), FOUR_OF(k6, w)},
#if BYTES_SUMMED(8)
        [LSK_Q8I] = {SIX_OF(q8, b), SIX_OF(q8, w)}
#else
        [LSK_Q8I] = {{0}, SIX_OF(q8, w)}
#endif
    };
    return &of[format][by_words];
}

/* Mixed arithmetic: the low halves of wide groups, after all others. Rows side by side go together: what makes a group wide
 * are columns whose values are large in most rows. */
static void int256_add_wide(const lsk_matrix *m, int by_words, float *y, int64_t ldy, int32_t tile,
                            const lsk_wide_group *wide, int32_t n_wide) {
    const int256_kernels *k = int256_kernels_of(m->format, by_words);
    int32_t pairs[INT256_MOST * INT256_PAIRS];
    for (int32_t i = 0; i < n_wide; i++) {
        const lsk_group *low = wide[i].low;
        for (uint32_t rows = wide[i].rows; rows;) {
            const int from = __builtin_ctz(rows);
            int n = 1;
            while (n < k->most && rows >> from >> n & 1) n++;
            for (int r = 0; by_words && r < n; r++) int256_pairs(low + r, 0, pairs + r * INT256_PAIRS);
            k->of[n - 1](m, tile, wide[i].group, wide[i].group + 1, low, 0, pairs, 0, y + from * ldy, ldy, 1);
            low += n;
            rows &= ~((((uint32_t)1 << n) - 1) << from);
        }
    }
}

static void int256_matmul(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                          int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    const int by_words = arith == LSK_ARITH_I16 || (m->format == LSK_Q8I && !BYTES_SUMMED(8));
    const int256_kernels *k = int256_kernels_of(m->format, by_words);
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch); /* from scratch's beginning on */
    const int32_t n_groups = m->n_in / 32, at_once = by_words ? LSK_WIDE_ROWS : rows;
    /* scratch has 256 bytes times n_in: from its beginning on for what is wide, less than a quarter of all rows' groups,
     * the last 64 for pairs of 32 rows */
    _Static_assert(LST_MAX_ROWS / 32 * (sizeof(lsk_wide_group) / LSK_WIDE_ROWS + sizeof(lsk_group) / LSK_WIDE + 1) <=
                       4 * (64 - LSK_WIDE_ROWS / 2),
                   "both have room");
    int32_t *const pairs = (int32_t *)scratch + (64 - LSK_WIDE_ROWS / 2) * m->n_in;
    for (int32_t first = 0; first < rows; first += at_once) {
        const lsk_group *x_at = x + first;
        float *y_at = y + first * ldy;
        const int32_t n = rows - first < at_once ? rows - first : at_once, passes = (n + k->most - 1) / k->most;
        for (int32_t i = 0; by_words && i < n_groups * n; i++)
            int256_pairs(&x_at[i / n * ldx + i % n], arith == LSK_ARITH_I16, pairs + i * INT256_PAIRS);
        for (int32_t t = t0; t < t1; t++) {
            for (int32_t i = 0; i < passes; i++) {
                const int32_t from = n * i / passes, to = n * (i + 1) / passes;
                k->of[to - from - 1](m, t, 0, n_groups, x_at + from, ldx, by_words ? pairs + from * INT256_PAIRS : pairs,
                                     by_words ? n : 0, y_at + from * ldy, ldy, 0);
            }
            for (int32_t from = 0; from < n && wide.chunks; from += LSK_WIDE_ROWS) {
                const int32_t c = (first + from) / LSK_WIDE_ROWS;
                int256_add_wide(m, by_words, y_at + from * ldy, ldy, t, wide.of[c], wide.n[c]);
            }
        }
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
