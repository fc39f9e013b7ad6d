/* NEON with integer dot products (FEAT_DotProd). SDOT adds four products of signed bytes to each of four integers, and
 * takes the four inputs, which all outputs share, from any quarter of a vector: so 16 inputs are loaded at once. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "torch/kernels/kernels_intneon.h"

#define LSK_ZERO vdupq_n_s32(0)
#define LSK_STEP(sum, x) vdotq_laneq_s32(sum, (int8x16_t)x, vdupq_n_s8(2), 0)
LSK_PEAK(lsk_neondot_peak, int32x4_t, 16)

ALWAYS lsk_dots dot32(const int8x16_t *w, const int8_t *x, int kind) {
    const int8x16_t a = vld1q_s8(x), b = vld1q_s8(x + 16);
    int32x4_t first = vdupq_n_s32(0), last;
    first = vdotq_laneq_s32(first, w[0], a, 0);
    first = vdotq_laneq_s32(first, w[1], a, 1);
    first = vdotq_laneq_s32(first, w[2], a, 2);
    first = vdotq_laneq_s32(first, w[3], a, 3);
    last = kind & LSK_HALVES ? vdupq_n_s32(0) : first;
    last = vdotq_laneq_s32(last, w[4], b, 0);
    last = vdotq_laneq_s32(last, w[5], b, 1);
    last = vdotq_laneq_s32(last, w[6], b, 2);
    last = vdotq_laneq_s32(last, w[7], b, 3);
    return (lsk_dots){kind & LSK_HALVES ? first : last, last};
}

#define KERNEL(FORMAT, KIND, ROWS, ARITH, IS16) \
    static __attribute__((noinline)) void FORMAT##_##ARITH##_##ROWS(const lsk_matrix *m, const lsk_group *x, int64_t ldx, \
                                                                    float *y, int64_t ldy, int32_t tile) { \
        const void *data = m->data + (size_t)tile * m->tile_bytes; \
        float32x4_t sum[ROWS][4]; \
        EACH(ROWS, r) EACH(4, i) sum[r][i] = vdupq_n_f32(0); \
        for (int g = 0; g < m->n_in / 32; g++, x += ldx) \
            EACH(4, i) { \
                const lsk_quarter q = quarter_##FORMAT(data, g, i); \
                EACH(ROWS, r) { \
                    lsk_dots dots = dot32(q.w, x[r].hi, KIND); \
                    if (IS16) dots = quarter_join(dots, dot32(q.w, x[r].lo, KIND)); \
                    sum[r][i] = quarter_add(&q, KIND, dots, &x[r], sum[r][i]); \
                } \
            } \
        EACH(ROWS, r) quarters_store(m, tile, y + r * ldy, sum[r]); \
    }
#define KERNELS_OF(FORMAT, KIND) \
    BOTH(FORMAT, KIND, 1) BOTH(FORMAT, KIND, 2) BOTH(FORMAT, KIND, 3) BOTH(FORMAT, KIND, 4) BOTH(FORMAT, KIND, 5) \
    BOTH(FORMAT, KIND, 6) BOTH(FORMAT, KIND, 7) BOTH(FORMAT, KIND, 8)
#define BOTH(FORMAT, KIND, ROWS) KERNEL(FORMAT, KIND, ROWS, i8, 0) KERNEL(FORMAT, KIND, ROWS, i16, 1)
LSK_NEON_FORMATS(KERNELS_OF)
#define ALL(kind) {kind##_1, kind##_2, kind##_3, kind##_4, kind##_5, kind##_6, kind##_7, kind##_8},
#define ALL_I8(FORMAT, KIND) ALL(FORMAT##_i8)
#define ALL_I16(FORMAT, KIND) ALL(FORMAT##_i16)
const lsk_neon_kernels lsk_neondot_kernels = {{LSK_NEON_FORMATS(ALL_I8)}, {LSK_NEON_FORMATS(ALL_I16)}};

/* Adds group g, low, to four outputs. */
#define WIDE(FORMAT, KIND) \
    case OF_##FORMAT: { \
        const lsk_quarter q = quarter_##FORMAT(data, g, i); \
        return quarter_add(&q, KIND, dot32(q.w, low->hi, KIND), low, sum); \
    }
static float32x4_t add_low(lsk_format format, const void *data, int32_t g, int i, const lsk_group *low, float32x4_t sum) {
    enum { OF_q4 = LSK_Q4I, OF_q5, OF_q8, OF_k2, OF_k3, OF_k4, OF_k5, OF_k6 };
    switch ((int)format) { LSK_NEON_FORMATS(WIDE) }
    return sum;
}

/* Mixed arithmetic: the low halves of wide groups, after all others. */
static void add_wide(const lsk_matrix *m, float *y, int64_t ldy, int32_t tile, const lsk_wide_group *wide,
                     int32_t n_wide) {
    const void *data = m->data + (size_t)tile * m->tile_bytes;
    const int left = m->n_out - tile * LSK_TILE, n = left < LSK_TILE ? left : LSK_TILE;
    for (int32_t k = 0; k < n_wide; k++) {
        const lsk_group *low = wide[k].low;
        for (uint32_t rows = wide[k].rows; rows; rows &= rows - 1, low++) {
            float *at = y + __builtin_ctz(rows) * ldy + tile * LSK_TILE, out[LSK_TILE] = {0};
            memcpy(out, at, (size_t)n * sizeof *out);
            for (int i = 0; i < 4; i++)
                vst1q_f32(out + 4 * i, add_low(m->format, data, wide[k].group, i, low, vld1q_f32(out + 4 * i)));
            memcpy(at, out, (size_t)n * sizeof *out);
        }
    }
}

void lsk_neon_matmul_int(const lsk_neon_kernels *kernels, const lsk_matrix *m, lsk_arith arith, const lsk_group *x,
                         int64_t ldx, float *y, int64_t ldy, int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    const lsk_neon_kernel *of = (*kernels)[arith == LSK_ARITH_I16][m->format - LSK_Q4I];
    const int32_t passes = (rows + LSK_NEON_ROWS - 1) / LSK_NEON_ROWS;
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch);
    for (int32_t t = t0; t < t1; t++) {
        for (int32_t i = 0; i < passes; i++) {
            const int32_t from = rows * i / passes, to = rows * (i + 1) / passes;
            of[to - from - 1](m, x + from, ldx, y + from * ldy, ldy, t);
        }
        for (int32_t c = 0, from = 0; c < wide.chunks; c++, from += LSK_WIDE_ROWS)
            add_wide(m, y + from * ldy, ldy, t, wide.of[c], wide.n[c]);
    }
}

void lsk_neondot_matmul_int(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                            int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    lsk_neon_matmul_int(&lsk_neondot_kernels, m, arith, x, ldx, y, ldy, rows, t0, t1, scratch);
}

/* 4 integers of 32 bits, eight times, as 32 bytes. */
static inline void store_bytes(int8_t *to, const int32x4_t *v) {
    for (int j = 0; j < 8; j += 4) {
        const int16x8_t a = vcombine_s16(vmovn_s32(v[j]), vmovn_s32(v[j + 1])),
                        b = vcombine_s16(vmovn_s32(v[j + 2]), vmovn_s32(v[j + 3]));
        vst1q_s8(to + 4 * j, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
    }
}

static inline int32_t sum_of_4(const int32x4_t *v) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(v[0], v[1]), vaddq_s32(v[2], v[3])));
}

void lsk_neon_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride) {
    const float steps = (float)lsk_steps(arith);
    for (int32_t i = 0; i < n; i += 32, out += stride) {
        float32x4_t max = vdupq_n_f32(0);
        uint32x4_t finite = vdupq_n_u32(~0u);
        EACH(8, j) {
            const float32x4_t a = vabsq_f32(vld1q_f32(x + i + 4 * j));
            finite = vandq_u32(finite, vcleq_f32(a, vdupq_n_f32(3.40282347e38f)));
            max = vmaxq_f32(max, a);
        }
        const int is_finite = vminvq_u32(finite) != 0;
        const float most = vmaxvq_f32(max), inverse = is_finite && most > 0 ? steps / most : 0;
        /* a subnormal maximum has an infinite inverse: such values count as zero */
        const float s = inverse <= 3.40282347e38f ? inverse : 0;
        int32x4_t v[8], hi[8], of[8]; /* of: what is summed */
        EACH(8, j) of[j] = v[j] = hi[j] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4 * j), s));
        const int mixed = arith == LSK_ARITH_MIXED;
        if (arith != LSK_ARITH_I8) {
            EACH(8, j) {
                hi[j] = vshrq_n_s32(vaddq_s32(v[j], vdupq_n_s32(128)), 8);
                if (mixed) of[j] = hi[j];
                v[j] = vsubq_s32(v[j], vshlq_n_s32(hi[j], 8));
            }
            store_bytes(out->lo, v);
        }
        store_bytes(out->hi, hi);
        const int32_t first = is_finite ? sum_of_4(of) : 0, sum = is_finite ? first + sum_of_4(of + 4) : 0;
        out->scale = (mixed ? 256.0f : 1.0f) * (is_finite ? most / steps : __builtin_nanf(""));
        out->sum = out->scale * (float)sum;
        out->total128 = 128 * sum;
        out->first32 = 32 * first;
    }
}
