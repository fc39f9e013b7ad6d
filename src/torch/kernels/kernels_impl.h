/* The kernels, generic over the vector width. The including file defines before:
 *   W (lanes), vf (vector of W floats), LEVEL (the table's name), LEVEL_NAME (its string), T1, T2, T4 (tiles worked
 *   on together for 1, 2 and 4 rows), R_PANEL, T_PANEL (rows and tiles of the panel kernel),
 *   and the inline functions vf_set, vf_load, vf_store, vf_fma, vf_half16 (16 f16 -> NV vectors),
 *   vf_u4 (16 bytes -> low and high nibbles as floats), vf_i8 (16 int8 -> floats).
 */
#include "torch/kernels/kernels.h"

#include <math.h>
#include <string.h>

#define NV (LSK_TILE / W) /* vectors a tile */
#define INLINE static inline __attribute__((always_inline))

typedef int32_t vi __attribute__((vector_size(W * 4)));

/* ---- matmul */

INLINE void fma_rows(int rows, int nv, vf *acc, const vf *w, const float *x, int64_t ldx) {
    for (int r = 0; r < rows; r++) {
        vf b = vf_set(x[r * ldx]);
        for (int v = 0; v < nv; v++) acc[r * nv + v] = vf_fma(w[v], b, acc[r * nv + v]);
    }
}

/* Weights of 32 inputs of one tile, dequantised two inputs at a time straight into the accumulators. */
INLINE void matmul_fused(const lsk_matrix *m, int rows, int tiles, const float *x, int64_t ldx, float *y,
                         int64_t ldy, int32_t tile) {
    const int nv = tiles * NV;
    vf acc[rows * nv];
    for (int i = 0; i < rows * nv; i++) acc[i] = vf_set(0);
    const unsigned char *base = m->data + (size_t)tile * m->tile_bytes;
    if (m->format == LSK_F32) {
        for (int k = 0; k < m->n_in; k++) {
            vf w[nv];
            for (int t = 0; t < tiles; t++)
                for (int v = 0; v < NV; v++)
                    w[t * NV + v] = vf_load((const float *)(base + (size_t)t * m->tile_bytes) + k * LSK_TILE + v * W);
            fma_rows(rows, nv, acc, w, x + k, ldx);
        }
    } else if (m->format == LSK_Q4) {
        for (int g = 0; g < m->n_in / 32; g++) {
            vf scale[nv], min[nv];
            const unsigned char *p[tiles];
            for (int t = 0; t < tiles; t++) {
                p[t] = base + (size_t)t * m->tile_bytes + (size_t)g * 320;
                vf_half16(p[t], scale + t * NV);
                vf_half16(p[t] + 32, min + t * NV);
                __builtin_prefetch(p[t] + 4096);
                __builtin_prefetch(p[t] + 4096 + 64);
                __builtin_prefetch(p[t] + 4096 + 128);
                __builtin_prefetch(p[t] + 4096 + 192);
                __builtin_prefetch(p[t] + 4096 + 256);
                p[t] += 64;
            }
            for (int k = 0; k < 32; k += 2) {
                vf lo[nv], hi[nv];
                for (int t = 0; t < tiles; t++) vf_u4(p[t] + k * 8, lo + t * NV, hi + t * NV);
                for (int v = 0; v < nv; v++) lo[v] = vf_fma(lo[v], scale[v], min[v]);
                fma_rows(rows, nv, acc, lo, x + g * 32 + k, ldx);
                for (int v = 0; v < nv; v++) hi[v] = vf_fma(hi[v], scale[v], min[v]);
                fma_rows(rows, nv, acc, hi, x + g * 32 + k + 1, ldx);
            }
        }
    } else {
        for (int g = 0; g < m->n_in / 32; g++) {
            vf scale[nv];
            const unsigned char *p[tiles];
            for (int t = 0; t < tiles; t++) {
                p[t] = base + (size_t)t * m->tile_bytes + (size_t)g * 544;
                vf_half16(p[t], scale + t * NV);
                for (int i = 0; i < 544; i += 64) __builtin_prefetch(p[t] + 4096 + i);
                p[t] += 32;
            }
            for (int k = 0; k < 32; k++) {
                vf w[nv];
                for (int t = 0; t < tiles; t++) vf_i8(p[t] + k * 16, w + t * NV);
                for (int v = 0; v < nv; v++) w[v] = w[v] * scale[v];
                fma_rows(rows, nv, acc, w, x + g * 32 + k, ldx);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tiles; t++) {
            int32_t o = (tile + t) * LSK_TILE;
            if (o + LSK_TILE <= m->n_out)
                for (int v = 0; v < NV; v++) vf_store(y + r * ldy + o + v * W, acc[r * nv + t * NV + v]);
            else /* the last tile of an odd matrix */
                memcpy(y + r * ldy + o, &acc[r * nv + t * NV], (size_t)(m->n_out - o) * sizeof(float));
        }
}

/* The same from an already dequantised panel [n_in][tiles * 16]. */
INLINE void matmul_panel(const lsk_matrix *m, const float *panel, int rows, int tiles, const float *x, int64_t ldx,
                         float *y, int64_t ldy, int32_t tile) {
    const int nv = tiles * NV;
    vf acc[rows * nv];
    for (int i = 0; i < rows * nv; i++) acc[i] = vf_set(0);
    for (int k = 0; k < m->n_in; k++) {
        vf w[nv];
        for (int v = 0; v < nv; v++) w[v] = vf_load(panel + (size_t)k * nv * W + v * W);
        fma_rows(rows, nv, acc, w, x + k, ldx);
    }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tiles; t++) {
            int32_t o = (tile + t) * LSK_TILE;
            if (o + LSK_TILE <= m->n_out)
                for (int v = 0; v < NV; v++) vf_store(y + r * ldy + o + v * W, acc[r * nv + t * NV + v]);
            else memcpy(y + r * ldy + o, &acc[r * nv + t * NV], (size_t)(m->n_out - o) * sizeof(float));
        }
}

INLINE void fill_panel(const lsk_matrix *m, int32_t tile, int tiles, float *panel) {
    const size_t ld = (size_t)tiles * LSK_TILE;
    for (int t = 0; t < tiles; t++) {
        const unsigned char *base = m->data + (size_t)(tile + t) * m->tile_bytes;
        float *out = panel + t * LSK_TILE;
        if (m->format == LSK_F32) {
            for (int k = 0; k < m->n_in; k++) memcpy(out + k * ld, base + (size_t)k * 64, 64);
            continue;
        }
        for (int g = 0; g < m->n_in / 32; g++) {
            vf scale[NV], min[NV], lo[NV], hi[NV];
            const unsigned char *p = base + (size_t)g * (m->format == LSK_Q4 ? 320 : 544);
            vf_half16(p, scale);
            if (m->format == LSK_Q4) {
                vf_half16(p + 32, min);
                for (int k = 0; k < 32; k += 2) {
                    float *o = out + (size_t)(g * 32 + k) * ld;
                    vf_u4(p + 64 + k * 8, lo, hi);
                    for (int v = 0; v < NV; v++) vf_store(o + v * W, vf_fma(lo[v], scale[v], min[v]));
                    for (int v = 0; v < NV; v++) vf_store(o + ld + v * W, vf_fma(hi[v], scale[v], min[v]));
                }
            } else {
                for (int k = 0; k < 32; k++) {
                    vf_i8(p + 32 + k * 16, lo);
                    for (int v = 0; v < NV; v++) vf_store(out + (size_t)(g * 32 + k) * ld + v * W, lo[v] * scale[v]);
                }
            }
        }
    }
}

#define FUSED(R, T) \
    static __attribute__((noinline)) void fused_##R##_##T(const lsk_matrix *m, const float *x, int64_t ldx, \
                                                          float *y, int64_t ldy, int32_t tile) { \
        matmul_fused(m, R, T, x, ldx, y, ldy, tile); \
    }
#define PANEL(R, T) \
    static __attribute__((noinline)) void panel_##R##_##T(const lsk_matrix *m, const float *p, const float *x, \
                                                          int64_t ldx, float *y, int64_t ldy, int32_t tile) { \
        matmul_panel(m, p, R, T, x, ldx, y, ldy, tile); \
    }
FUSED(1, T1)
FUSED(2, T2)
FUSED(4, T4)
FUSED(1, 1)
FUSED(2, 1)
FUSED(4, 1)
PANEL(R_PANEL, T_PANEL)
PANEL(4, T_PANEL)
PANEL(2, T_PANEL)
PANEL(1, T_PANEL)
PANEL(R_PANEL, 1)
PANEL(4, 1)
PANEL(2, 1)
PANEL(1, 1)

typedef void (*fused_fn)(const lsk_matrix *, const float *, int64_t, float *, int64_t, int32_t);
typedef void (*panel_fn)(const lsk_matrix *, const float *, const float *, int64_t, float *, int64_t, int32_t);

static void matmul_few(const lsk_matrix *m, const float *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                       int32_t t0, int32_t t1) {
    fused_fn many = rows == 4 ? fused_4_T4 : rows == 2 ? fused_2_T2 : fused_1_T1;
    fused_fn one = rows == 4 ? fused_4_1 : rows == 2 ? fused_2_1 : fused_1_1;
    int step = rows == 4 ? T4 : rows == 2 ? T2 : T1;
    int32_t t = t0;
    for (; t + step <= t1; t += step) many(m, x, ldx, y, ldy, t);
    for (; t < t1; t++) one(m, x, ldx, y, ldy, t);
}

static void k_matmul(const lsk_matrix *m, const float *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                     int32_t t0, int32_t t1, float *scratch) {
    if (rows <= 4) { /* weights are read once; from five rows on, unpacking once a panel is cheaper */
        int32_t r = 0;
        static const int8_t split[5][3] = {{0}, {1}, {2}, {2, 1}, {4}};
        for (int i = 0; i < 3 && split[rows][i]; i++) {
            matmul_few(m, x + r * ldx, ldx, y + r * ldy, ldy, split[rows][i], t0, t1);
            r += split[rows][i];
        }
        return;
    }
    for (int32_t t = t0; t < t1;) {
        int wide = t + T_PANEL <= t1, tiles = wide ? T_PANEL : 1;
        fill_panel(m, t, tiles, scratch);
        for (int32_t r = 0; r < rows;) {
            int32_t left = rows - r, n = left >= R_PANEL ? R_PANEL : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            panel_fn f = n == R_PANEL ? (wide ? panel_R_PANEL_T_PANEL : panel_R_PANEL_1)
                         : n == 4     ? (wide ? panel_4_T_PANEL : panel_4_1)
                         : n == 2     ? (wide ? panel_2_T_PANEL : panel_2_1)
                                      : (wide ? panel_1_T_PANEL : panel_1_1);
            f(m, scratch, x + r * ldx, ldx, y + r * ldy, ldy, t);
            r += n;
        }
        t += tiles;
    }
}

/* ---- vector helpers with one fixed order */

/* Lanes are added pairwise: (0+W/2), ... down to one. */
INLINE float vf_sum(vf a) {
    float t[W];
    vf_store(t, a);
    for (int n = W / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) t[i] += t[i + n];
    return t[0];
}

/* e^x, Cephes' expf polynomial (about 1 ulp); 0 below -87. */
INLINE vf vf_exp(vf x) {
    vf lo = vf_set(-87.3f);
    vi under = x < lo;
    x = vf_max(x, lo);
    vf n = vf_fma(x, vf_set(1.44269504088896341f), vf_set(12582912.0f)); /* rounds to an integer in the low bits */
    vi k = (vi)n;
    n = n - vf_set(12582912.0f);
    vf r = vf_fma(n, vf_set(-0.693359375f), x);
    r = vf_fma(n, vf_set(2.12194440e-4f), r);
    vf p = vf_set(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set(5.0000001201e-1f));
    p = vf_fma(p, r * r, r + vf_set(1.0f));
    vi bits = (vi)p + (k << 23);
    return (vf)(bits & ~under);
}

/* ---- elementwise and reductions over one row */

static void k_rmsnorm(const float *x, const float *weight, int32_t n, float eps, float *out) {
    vf acc[4];
    for (int i = 0; i < 4; i++) acc[i] = vf_set(0);
    int32_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W)
        for (int j = 0; j < 4; j++) {
            vf v = vf_load(x + i + j * W);
            acc[j] = vf_fma(v, v, acc[j]);
        }
    for (; i < n; i += W) { /* n is a multiple of 32, W at most 16 */
        vf v = vf_load(x + i);
        acc[0] = vf_fma(v, v, acc[0]);
    }
    float sum = vf_sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
    vf s = vf_set(1.0f / sqrtf(sum / (float)n + eps));
    for (i = 0; i < n; i += W) vf_store(out + i, vf_load(x + i) * s * vf_load(weight + i));
}

static void k_rope(float *x, int32_t head_dim, const float *cs, float scale) {
    for (int32_t i = 0; i < head_dim; i += 2) {
        float a = x[i], b = x[i + 1], c = cs[i], s = cs[i + 1];
        x[i] = (a * c - b * s) * scale;
        x[i + 1] = (a * s + b * c) * scale;
    }
}

static void k_silu_mul(const float *gate, const float *up, int32_t n, float *out) {
    vf one = vf_set(1.0f), zero = vf_set(0);
    for (int32_t i = 0; i < n; i += W) {
        vf g = vf_load(gate + i);
        vf_store(out + i, g / (one + vf_exp(zero - g)) * vf_load(up + i));
    }
}

/* ---- attention of one row and one head */

INLINE void score_blocks(const lsk_attention *a, int n_blocks, int32_t block, float *score) {
    vf acc[n_blocks * NV];
    for (int i = 0; i < n_blocks * NV; i++) acc[i] = vf_set(0);
    const float *k = a->k + (size_t)block * a->head_dim * LSK_TILE;
    for (int32_t d = 0; d < a->head_dim; d++) {
        vf q = vf_set(a->q[d]);
        for (int b = 0; b < n_blocks; b++)
            for (int v = 0; v < NV; v++)
                acc[b * NV + v] = vf_fma(
                    vf_load(k + ((size_t)b * a->head_dim + d) * LSK_TILE + v * W), q, acc[b * NV + v]);
    }
    for (int i = 0; i < n_blocks * NV; i++) vf_store(score + i * W, acc[i]);
}

/* Scores for every cache column (each its own chain over d), then only the visible ones in logical order:
 * committed positions, ancestors, self. So a row in a tree and the same row alone do identical arithmetic. */
static void k_attention(const lsk_attention *a) {
    const int32_t n = a->n_context + a->n_tail, hd = a->head_dim;
    int32_t blocks = (a->n_columns + LSK_TILE - 1) / LSK_TILE, b = 0;
    float *raw = a->scratch, *w = a->scratch + (size_t)blocks * LSK_TILE + LSK_TILE;
    for (; b + 4 <= blocks; b += 4) score_blocks(a, 4, b, raw + b * LSK_TILE);
    for (; b < blocks; b++) score_blocks(a, 1, b, raw + b * LSK_TILE);
    memcpy(w, raw, (size_t)a->n_context * sizeof *w);
    for (int32_t i = 0; i < a->n_tail; i++) w[a->n_context + i] = raw[a->tail[i]];
    int32_t padded = (n + LSK_TILE - 1) / LSK_TILE * LSK_TILE;
    for (int32_t i = n; i < padded; i++) w[i] = -INFINITY;
    vf top[NV], sum[NV];
    for (int v = 0; v < NV; v++) top[v] = vf_set(-INFINITY), sum[v] = vf_set(0);
    for (int32_t i = 0; i < padded; i += LSK_TILE)
        for (int v = 0; v < NV; v++) top[v] = vf_max(top[v], vf_load(w + i + v * W));
    float lanes[LSK_TILE], max = -INFINITY, total = 0;
    for (int v = 0; v < NV; v++) vf_store(lanes + v * W, top[v]);
    for (int i = 0; i < LSK_TILE; i++) max = lanes[i] > max ? lanes[i] : max;
    vf m = vf_set(max);
    for (int32_t i = 0; i < padded; i += LSK_TILE)
        for (int v = 0; v < NV; v++) {
            vf e = vf_exp(vf_load(w + i + v * W) - m);
            sum[v] += e;
            vf_store(w + i + v * W, e);
        }
    for (int v = 0; v < NV; v++) vf_store(lanes + v * W, sum[v]);
    for (int i = 0; i < LSK_TILE; i++) total += lanes[i];
    const float inv = 1.0f / total;
    for (int32_t d = 0; d < hd; d += LSK_TILE * 2) { /* head_dim is a multiple of 16; 32 at a time where it is of 32 */
        int nv = hd - d >= 2 * LSK_TILE ? 2 * NV : NV;
        vf acc[2 * NV];
        for (int v = 0; v < 2 * NV; v++) acc[v] = vf_set(0);
        if (nv == 2 * NV) {
            for (int32_t p = 0; p < n; p++) {
                int32_t col = p < a->n_context ? p : a->tail[p - a->n_context];
                vf wp = vf_set(w[p]);
                for (int v = 0; v < 2 * NV; v++) acc[v] = vf_fma(vf_load(a->v + (size_t)col * hd + d + v * W), wp, acc[v]);
            }
        } else {
            for (int32_t p = 0; p < n; p++) {
                int32_t col = p < a->n_context ? p : a->tail[p - a->n_context];
                vf wp = vf_set(w[p]);
                for (int v = 0; v < NV; v++) acc[v] = vf_fma(vf_load(a->v + (size_t)col * hd + d + v * W), wp, acc[v]);
            }
        }
        for (int v = 0; v < nv; v++) vf_store(a->out + d + v * W, acc[v] * vf_set(inv));
    }
}

/* ---- the output head's row */

static void k_top(const float *x, int32_t n, int32_t k, int32_t *ids, float *values) {
    int32_t have = 0;
    float bar = -INFINITY;
    for (int32_t i = 0; i < n;) {
        if (have == k) { /* skip blocks in which nothing beats the k-th best */
            while (i + 64 <= n && i % 16 == 0) {
                vf best = vf_load(x + i);
                for (int j = W; j < 64; j += W) best = vf_max(best, vf_load(x + i + j));
                float lanes[W], most = -INFINITY;
                vf_store(lanes, best);
                for (int j = 0; j < W; j++) most = lanes[j] > most ? lanes[j] : most;
                if (most > bar) break;
                i += 64;
            }
            if (i >= n) break;
        }
        int32_t end = i + 64 <= n ? i + 64 : n;
        for (; i < end; i++) {
            if (have == k && !(x[i] > bar)) continue; /* a tie keeps the lower index */
            int32_t at = have < k ? have++ : k - 1;
            while (at > 0 && values[at - 1] < x[i]) {
                values[at] = values[at - 1];
                ids[at] = ids[at - 1];
                at--;
            }
            values[at] = x[i];
            ids[at] = i;
            bar = values[have - 1];
        }
    }
    for (; have < k; have++) ids[have] = -1, values[have] = -INFINITY;
}

static int k_row_stats(const float *logits, int32_t n, lst_row *row) {
    k_top(logits, n, LST_ROW_TOP, row->top_id, row->top_logit);
    const float max = row->top_logit[0];
    vf m = vf_set(max), floor_ = vf_set(-80.0f), s0[2], s1[2];
    for (int i = 0; i < 2; i++) s0[i] = s1[i] = vf_set(0);
    int32_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W)
        for (int j = 0; j < 2; j++) {
            vf d = vf_max(vf_load(logits + i + j * W) - m, floor_); /* beyond -80 nothing can be seen in a float sum */
            vf e = vf_exp(d);
            s0[j] += e;
            s1[j] = vf_fma(e, d, s1[j]);
        }
    float total = vf_sum(s0[0] + s0[1]), weighted = vf_sum(s1[0] + s1[1]);
    for (; i < n; i++) {
        float d = logits[i] - max, e = d < -80 ? 0 : expf(d);
        total += e;
        weighted += e * (d < -80 ? 0 : d);
    }
    row->lse = max + logf(total);
    row->entropy = logf(total) - weighted / total;
    return isfinite(max) && isfinite(row->lse) ? 0 : -1;
}

const lsk_table LEVEL = {LEVEL_NAME, k_matmul,    k_rmsnorm,   k_rope, k_silu_mul,
                         k_attention, k_row_stats, k_top};
