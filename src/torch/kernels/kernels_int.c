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
        out->scale = finite ? max / steps : NAN;
        float inverse = finite && max > 0 ? steps / max : 0;
        if (!isfinite(inverse)) inverse = 0; /* a subnormal maximum: such values count as zero */
        int32_t total = 0;
        for (int k = 0; k < 32; k++) {
            const int32_t v = finite ? (int32_t)lrintf(x[k] * inverse) : 0, hi = arith == LSK_ARITH_I16 ? (v + 128) >> 8 : v;
            out->hi[k] = (int8_t)hi;
            if (arith == LSK_ARITH_I16) out->lo[k] = (int8_t)(v - hi * 256);
            total += v;
        }
        out->sum = out->scale * (float)total;
        out->total128 = 128 * total;
    }
}

static void one_tile(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int32_t tile) {
    const void *p = m->data + (size_t)tile * m->tile_bytes;
    const lsk_q4 *g4 = m->format == LSK_Q4I ? p : NULL;
    const lsk_q8 *g8 = p;
    float sum[LSK_TILE] = {0};
    for (int32_t g = 0; g < m->n_in / 32; g++, x += ldx)
        for (int o = 0; o < LSK_TILE; o++) {
            int32_t dot = 0;
            for (int k = 0; k < 32; k++) {
                const int a = arith == LSK_ARITH_I16 ? 256 * x->hi[k] + x->lo[k] : x->hi[k];
                if (g4) {
                    const uint8_t b = g4[g].q[k % 16 / 4 * 64 + o * 4 + k % 4];
                    dot += a * (k < 16 ? b & 15 : b >> 4);
                } else dot += a * (g8[g].q[k / 4 * 64 + o * 4 + k % 4] - 128);
            }
            sum[o] = fmaf((float)dot, lsk_half_to_float(g4 ? g4[g].scale[o] : g8[g].scale[o]) * x->scale, sum[o]);
            if (g4) sum[o] = fmaf(lsk_half_to_float(g4[g].min[o]), x->sum, sum[o]);
        }
    const int n = m->n_out - tile * LSK_TILE < LSK_TILE ? m->n_out - tile * LSK_TILE : LSK_TILE;
    memcpy(y + tile * LSK_TILE, sum, (size_t)n * sizeof(float));
}

void lsk_plain_matmul_int(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                          int32_t rows, int32_t t0, int32_t t1) {
    for (int32_t t = t0; t < t1; t++)
        for (int32_t r = 0; r < rows; r++) one_tile(m, arith, x + r, ldx, y + r * ldy, t);
}
