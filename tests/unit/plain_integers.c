/* i16 and i8 arithmetic in plain C, number by number: every level gives these bits. */
#include "tests/unit/plain_integers.h"

#include <math.h>
#include <string.h>

/* What four bits stand for: IQ4_NL's table, and twice the values of MXFP4. */
static const int8_t nl4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
                    mx4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void plain_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride) {
    const float steps = (float)lsk_steps(arith);
    for (int32_t i = 0; i < n; i += 32, x += 32, out += stride) {
        float max = 0;
        int finite = 1;
        for (int k = 0; k < 32; k++) {
            finite &= isfinite(x[k]) != 0;
            max = fmaxf(max, fabsf(x[k]));
        }
        out->scale = (arith == LSK_ARITH_MIXED ? 256.0f : 1.0f) * (finite ? max / steps : NAN);
        float inverse = finite && max > 0 ? steps / max : 0;
        if (!isfinite(inverse)) inverse = 0; /* a subnormal maximum: such values count as zero */
        int32_t total = 0, first = 0;
        for (int k = 0; k < 32; k++) {
            const int32_t v = finite ? (int32_t)lrintf(x[k] * inverse) : 0,
                          hi = arith == LSK_ARITH_I8 ? v : (v + 128) >> 8;
            out->hi[k] = (int8_t)hi;
            if (arith != LSK_ARITH_I8) out->lo[k] = (int8_t)(v - hi * 256);
            total += arith == LSK_ARITH_MIXED ? hi : v;
            if (k == 15) first = total;
        }
        out->sum = out->scale * (float)total;
        out->total128 = 128 * total;
        out->first32 = 32 * first;
    }
}

static int bits_at(const uint8_t *p, int bit, int n) {
    return *p >> bit & ((1 << n) - 1);
}

/* The weight's integer of input k and output o in group g. */
static int32_t weight_at(const lsk_matrix *m, const void *tile, int32_t g, int o, int k) {
    const int one_at = o * 4 + k % 4, one = k / 4, two_at = k / 16 * 64 + one_at, two = k % 16 / 4 * 2;
    const int four_at = k % 16 / 4 * 64 + one_at, four = k < 16 ? 0 : 4;
    const lsk_q5 *q5 = (const lsk_q5 *)tile + g;
    const lsk_k2 *k2 = (const lsk_k2 *)tile + g / 8;
    const lsk_k3 *k3 = (const lsk_k3 *)tile + g / 8;
    const lsk_k4 *k4 = (const lsk_k4 *)tile + g / 8;
    const lsk_k5 *k5 = (const lsk_k5 *)tile + g / 8;
    const lsk_k6 *k6 = (const lsk_k6 *)tile + g / 8;
    const int i = g % 8;
    switch (m->format) {
    case LSK_Q4I: return bits_at(((const lsk_q4 *)tile)[g].q + four_at, four, 4);
    case LSK_Q8I: return ((const lsk_q8 *)tile)[g].q[k / 4 * 64 + one_at] - 128;
    case LSK_Q5I: return bits_at(q5->q + four_at, four, 4) | bits_at(q5->high + one_at, one, 1) << 4;
    case LSK_NL4I: return nl4[bits_at(((const lsk_nl4 *)tile)[g].q + four_at, four, 4)];
    case LSK_MX4I: return mx4[bits_at(((const lsk_mx4 *)tile)[g].q + four_at, four, 4)];
    case LSK_NV4I: return mx4[bits_at(lsk_nv4_at(tile, (size_t)g)->q + four_at, four, 4)];
    case LSK_XS4I: return nl4[bits_at(((const lsk_xs4 *)tile)[g / 8].g[i].q + four_at, four, 4)];
    case LSK_K2I: return bits_at(k2->g[i].q + two_at, two, 2);
    case LSK_K3I: return (bits_at(k3->g[i].q + two_at, two, 2) | bits_at(k3->g[i].high + one_at, one, 1) << 2) - 4;
    case LSK_K4I: return bits_at(k4->g[i].q + four_at, four, 4);
    case LSK_K5I: return bits_at(k5->g[i].q + four_at, four, 4) | bits_at(k5->g[i].high + one_at, one, 1) << 4;
    default: return (bits_at(k6->g[i].q + four_at, four, 4) | bits_at(k6->g[i].high + two_at, two, 2) << 4) - 32;
    }
}

/* What scales the first 16 inputs of group g of output o, and the last; min: 0 where there is none. Returns whether the
 * two differ. */
static int scales_at(const lsk_matrix *m, const void *tile, int32_t g, int o, float *scale, float *min) {
    const lsk_format f = m->format;
    const lsk_q4 *q4 = (const lsk_q4 *)tile + g;
    const lsk_q5 *q5 = (const lsk_q5 *)tile + g;
    const lsk_q8 *q8 = (const lsk_q8 *)tile + g;
    min[0] = min[1] = 0;
    if (f == LSK_NV4I) {
        const lsk_nv4 *nv4 = lsk_nv4_at(tile, (size_t)g);
        for (int i = 0; i < 2; i++) {
            const int b = nv4->scale[i][o], e = b >> 3 & 15;
            const float s = ldexpf((float)((b & 7) + (e ? 8 : 0)), (e ? e : 1) - 11);
            scale[i] = ((const float *)tile)[o] * (b & 128 ? -s : s);
        }
        return 1;
    }
    if (f == LSK_NL4I || f == LSK_MX4I || f == LSK_XS4I) {
        const lsk_xs4 *xs4 = (const lsk_xs4 *)tile + g / 8;
        scale[0] = f == LSK_NL4I   ? ls_of_half(((const lsk_nl4 *)tile)[g].scale[o])
                   : f == LSK_MX4I ? ldexpf(1, ((const lsk_mx4 *)tile)[g].scale[o] - 128)
                                   : ls_of_half(xs4->d[o]) * (float)(int8_t)xs4->scale[g % 8][o];
        return 0;
    }
    if (f < LSK_K2I) {
        scale[0] = ls_of_half(f == LSK_Q4I ? q4->scale[o] : f == LSK_Q5I ? q5->scale[o] : q8->scale[o]);
        if (f != LSK_Q8I) min[0] = ls_of_half(f == LSK_Q4I ? q4->min[o] : q5->min[o]);
        return 0;
    }
    const lsk_k4 *k = (const lsk_k4 *)((const char *)tile + m->tile_bytes / ((size_t)m->n_in / 256) * (size_t)(g / 8));
    const float d = ls_of_half(k->d[o]), dmin = 0 - ls_of_half(k->dmin[o]);
    const uint8_t a = k->scale[g % 8][o], b = k->min[g % 8][o];
    if (f == LSK_K2I) {
        for (int i = 0; i < 2; i++) {
            scale[i] = d * (float)(a >> 4 * i & 15);
            min[i] = dmin * (float)(b >> 4 * i & 15);
        }
        return 1;
    }
    const int two = f == LSK_K3I || f == LSK_K6I;
    scale[0] = d * (float)(two ? (int8_t)a : a);
    if (two) scale[1] = d * (float)(int8_t)b;
    else min[0] = dmin * (float)b;
    return two;
}

/* Adds the products of group g. */
static void add_group(const lsk_matrix *m, const void *tile, int32_t g, const lsk_group *a, int is16, float *sum) {
    const int has_min = m->format == LSK_Q4I || m->format == LSK_Q5I || m->format == LSK_K2I || m->format == LSK_K4I ||
                        m->format == LSK_K5I;
    for (int o = 0; o < LSK_TILE; o++) {
        int32_t dots[2] = {0}; /* of the first 16 inputs and of the last */
        float scale[2], min[2];
        const int two = scales_at(m, tile, g, o, scale, min);
        for (int k = 0; k < 32; k++)
            dots[k / 16] += (is16 ? 256 * a->hi[k] + a->lo[k] : a->hi[k]) * weight_at(m, tile, g, o, k);
        if (!two) dots[0] += dots[1];
        for (int i = 0; i <= two; i++) {
            sum[o] = fmaf((float)dots[i], scale[i] * a->scale, sum[o]);
            if (has_min) sum[o] = fmaf(min[i], two ? lsk_half_sum(a, i) : a->sum, sum[o]);
        }
    }
}

static void one_tile(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int32_t tile,
                     const lsk_wide_group *wide, int32_t n_wide, int32_t row) {
    const void *data = m->data + (size_t)tile * m->tile_bytes;
    float sum[LSK_TILE] = {0};
    for (int32_t g = 0; g < m->n_in / 32; g++) add_group(m, data, g, x + g * ldx, arith == LSK_ARITH_I16, sum);
    for (int32_t i = 0; i < n_wide; i++)
        if (wide[i].rows >> row & 1)
            add_group(m, data, wide[i].group, wide[i].low + __builtin_popcount(wide[i].rows & ((1u << row) - 1)), 0,
                      sum);
    const int n = m->n_out - tile * LSK_TILE < LSK_TILE ? m->n_out - tile * LSK_TILE : LSK_TILE;
    memcpy(y + tile * LSK_TILE, sum, (size_t)n * sizeof(float));
}

void plain_matmul_int(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                      int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch);
    for (int32_t t = t0; t < t1; t++)
        for (int32_t r = 0; r < rows; r++) {
            const int32_t c = r / LSK_WIDE_ROWS;
            one_tile(m, arith, x + r, ldx, y + r * ldy, t, c < wide.chunks ? wide.of[c] : NULL, wide.n[c],
                     r % LSK_WIDE_ROWS);
        }
}
