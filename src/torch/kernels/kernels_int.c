/* i16 and i8 arithmetic in plain C, the twin of kernels_avx512vnni.c and equal to it bit for bit. */
#include "torch/kernels/kernels.h"

#include <math.h>
#include <string.h>

void lsk_plain_quantize(const float *x, int32_t n, lsk_arith arith, lsk_group *out, int64_t stride) {
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
        int32_t total = 0;
        out->low = 0;
        for (int k = 0; k < 32; k++) {
            const int32_t v = finite ? (int32_t)lrintf(x[k] * inverse) : 0,
                          hi = arith == LSK_ARITH_I8 ? v : (v + 128) >> 8;
            out->hi[k] = (int8_t)hi;
            if (arith != LSK_ARITH_I8) out->lo[k] = (int8_t)(v - hi * 256);
            if (arith == LSK_ARITH_MIXED) out->low += v - hi * 256;
            total += arith == LSK_ARITH_MIXED ? hi : v;
        }
        out->sum = out->scale * (float)total;
        out->total128 = 128 * total;
    }
}

static int32_t find_wide(const lsk_group *x, int64_t ldx, int32_t rows, int32_t n_groups, lsk_wide_group *out) {
    float bar[LSK_WIDE_ROWS] = {0};
    int32_t n = 0;
    for (int32_t g = 0; g < n_groups; g++)
        for (int32_t r = 0; r < rows; r++) bar[r] += x[g * ldx + r].scale * x[g * ldx + r].scale;
    for (int32_t r = 0; r < rows; r++) bar[r] *= (float)LSK_WIDE / (float)n_groups;
    for (int32_t g = 0; g < n_groups; g++) {
        out[n] = (lsk_wide_group){g, 0};
        for (int32_t r = 0; r < rows; r++)
            out[n].rows |= (uint32_t)(x[g * ldx + r].scale * x[g * ldx + r].scale > bar[r]) << r;
        n += out[n].rows != 0;
    }
    return n;
}

lsk_wide_rows lsk_find_wide(const lsk_matrix *w, lsk_arith arith, const lsk_group *x, int64_t ldx, int32_t rows,
                            void *scratch) {
    lsk_wide_rows all = {0};
    lsk_wide_group *out = scratch;
    for (int32_t from = 0; from < rows && arith == LSK_ARITH_MIXED; from += LSK_WIDE_ROWS) {
        const int32_t n = rows - from < LSK_WIDE_ROWS ? rows - from : LSK_WIDE_ROWS, n_groups = w->n_in / 32;
        all.n[all.chunks] = find_wide(x + from, ldx, n, n_groups, out);
        all.of[all.chunks++] = out;
        out += n_groups;
    }
    return all;
}

typedef struct {
    const lsk_q4 *q4; /* NULL: its weights have 8 bits */
    const lsk_q8 *q8;
} tile_data;

/* Adds group g's products with the inputs scale * (hi * a->hi + lo * a->lo), whose sum is total. */
static void add_group(const tile_data *t, int32_t g, const lsk_group *a, int hi, int lo, float scale, float total,
                      float *sum) {
    for (int o = 0; o < LSK_TILE; o++) {
        int32_t dot = 0;
        for (int k = 0; k < 32; k++) {
            const int32_t v = hi * a->hi[k] + lo * a->lo[k];
            if (t->q4) {
                const uint8_t b = t->q4[g].q[k % 16 / 4 * 64 + o * 4 + k % 4];
                dot += v * (k < 16 ? b & 15 : b >> 4);
            } else dot += v * (t->q8[g].q[k / 4 * 64 + o * 4 + k % 4] - 128);
        }
        const float d = lsk_half_to_float(t->q4 ? t->q4[g].scale[o] : t->q8[g].scale[o]);
        sum[o] = fmaf((float)dot, d * scale, sum[o]);
        if (t->q4) sum[o] = fmaf(lsk_half_to_float(t->q4[g].min[o]), total, sum[o]);
    }
}

static void one_tile(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int32_t tile,
                     const lsk_wide_group *wide, int32_t n_wide, int32_t row) {
    const void *p = m->data + (size_t)tile * m->tile_bytes;
    const tile_data t = {m->format == LSK_Q4I ? p : NULL, p};
    const int both = arith == LSK_ARITH_I16;
    float sum[LSK_TILE] = {0};
    for (int32_t g = 0; g < m->n_in / 32; g++) {
        const lsk_group *a = x + g * ldx;
        add_group(&t, g, a, both ? 256 : 1, both, a->scale, a->sum, sum);
    }
    for (int32_t i = 0; i < n_wide; i++) {
        const lsk_group *a = x + wide[i].group * ldx;
        if (wide[i].rows >> row & 1)
            add_group(&t, wide[i].group, a, 0, 1, a->scale / 256, a->scale / 256 * (float)a->low, sum);
    }
    const int n = m->n_out - tile * LSK_TILE < LSK_TILE ? m->n_out - tile * LSK_TILE : LSK_TILE;
    memcpy(y + tile * LSK_TILE, sum, (size_t)n * sizeof(float));
}

void lsk_plain_matmul_int(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                          int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch);
    for (int32_t t = t0; t < t1; t++)
        for (int32_t r = 0; r < rows; r++) {
            const int32_t c = r / LSK_WIDE_ROWS;
            one_tile(m, arith, x + r, ldx, y + r * ldy, t, c < wide.chunks ? wide.of[c] : NULL, wide.n[c],
                     r % LSK_WIDE_ROWS);
        }
}
