/* The kernels, generic over the vector width. The including file defines before:
 *   W (lanes), vf (vector of W floats), LEVEL (the table's name), LEVEL_NAME (its string), R_MAX (3 or 6: rows of a
 *   micro-kernel), FUSED_MAX (most rows that unpack weights on the way),
 *   and the inline functions vf_set, vf_load, vf_store, vf_fma, vf_max, vf_half (W f16 to floats),
 *   vf_u4 (W bytes to low and high nibbles as floats), vf_i8 (W int8 to floats).
 */
#include "torch/kernels/kernels.h"

#include <math.h>
#include <string.h>

#define NV (LSK_TILE / W) /* vectors a tile */
#define INLINE static inline __attribute__((always_inline))

typedef int32_t vi __attribute__((vector_size(W * 4)));
typedef uint32_t vu __attribute__((vector_size(W * 4)));

#include "torch/kernels/kernels_matmul.h"

/* ---- vector helpers with one fixed order */

/* Lanes are added pairwise: (0+W/2), ... down to one. */
INLINE float vf_sum(vf a) {
    float t[W];
    vf_store(t, a);
    for (int n = W / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) t[i] += t[i + n];
    return t[0];
}

/* e^x for x <= 88, Cephes' expf polynomial (about 1 ulp); 0 below -87. */
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

static void k_rope(float *x, int32_t dims, int interleaved, const float *cs, float scale) {
    if (!interleaved) {
        float *y = x + dims / 2;
        for (int32_t i = 0; i < dims / 2; i++) {
            const float a = x[i], b = y[i], c = cs[2 * i], s = cs[2 * i + 1];
            x[i] = (a * c - b * s) * scale;
            y[i] = (a * s + b * c) * scale;
        }
        return;
    }
    for (int32_t i = 0; i < dims; i += 2) {
        float a = x[i], b = x[i + 1], c = cs[i], s = cs[i + 1];
        x[i] = (a * c - b * s) * scale;
        x[i + 1] = (a * s + b * c) * scale;
    }
}

static void k_silu_mul(const float *gate, const float *up, int32_t n, float *out) {
    const vf one = vf_set(1.0f), zero = vf_set(0), least = vf_set(-87.0f); /* e^87 is still finite */
    for (int32_t i = 0; i < n; i += W) {
        vf g = vf_load(gate + i);
        vf_store(out + i, g / (one + vf_exp(zero - vf_max(g, least))) * vf_load(up + i));
    }
}

/* (1 - e^-2|x|) / (1 + e^-2|x|), with x's sign */
INLINE vf vf_tanh(vf x) {
    const vf one = vf_set(1.0f), zero = vf_set(0);
    const vf e = vf_exp(vf_set(-2.0f) * vf_max(x, zero - x));
    const vf t = (one - e) / (one + e);
    const vi negative = x < zero;
    return (vf)(((vi)t & ~negative) | ((vi)(zero - t) & negative));
}

static void k_gelu_mul(const float *gate, const float *up, int32_t n, float *out) {
    const vf one = vf_set(1.0f), half = vf_set(0.5f), a = vf_set(0.044715f), b = vf_set(0.79788456080286536f);
    for (int32_t i = 0; i < n; i += W) {
        const vf g = vf_load(gate + i), inner = b * vf_fma(a * g * g, g, g);
        vf_store(out + i, half * g * (one + vf_tanh(inner)) * vf_load(up + i));
    }
}

static void k_softcap(float *x, int32_t n, float cap) {
    const vf c = vf_set(cap), inverse = vf_set(1.0f / cap);
    for (int32_t i = 0; i < n; i += W) vf_store(x + i, c * vf_tanh(vf_load(x + i) * inverse));
}

/* ---- attention of one row and the query heads that share a key/value head
 *
 * Like the matmul, with heads as rows, so that keys and values are loaded once for all of them: scores walk the head's
 * dimensions, values walk positions. Each score and each output is one chain of multiply-adds in that order. */

#define SAVE1(r) vf_store(y + (r) * ldy, a[r][0]);
#define SAVE2(r) SAVE1(r) vf_store(y + (r) * ldy + W, a[r][1]);
#define SAVE4(r) SAVE2(r) vf_store(y + (r) * ldy + 2 * W, a[r][2]); vf_store(y + (r) * ldy + 3 * W, a[r][3]);

/* Scores of C / NV blocks of 16 cache columns. */
#define LOAD_K(c) w[c] = vf_load(k + (((c) / NV) * (size_t)hd + (size_t)d) * LSK_TILE + LANE(c));
#define SCORES(R, C) \
    static __attribute__((noinline)) void scores_##R##_##C(const float *k, int32_t hd, const float *x, float *y, int64_t ldy) { \
        const int64_t ldx = hd; \
        vf a[R][C], w[C]; \
        REP##R(ZERO##C) \
        for (int32_t d = 0; d < hd; d++) { \
            const float *xk = x + d; \
            REP##C(LOAD_K) \
            REP##R(FMA##C) \
        } \
        REP##R(SAVE##C) \
    }

/* The committed position where the work begins: skips whole tiles before the window. Hidden positions in the first tile
 * have weight 0, and adding 0 to a sum that began at 0 changes no bit. */
INLINE int32_t window_start(const lsk_attention *a) {
    const int32_t from = a->first / LSK_TILE * LSK_TILE, last = a->n_context / LSK_TILE * LSK_TILE;
    return from < last ? from : last;
}

/* Sums of C vectors of values, weighted; first the committed positions, then the row's own path. */
#define LOAD_V(c) w[c] = vf_load(v + (c) * W);
#define VALUES(R, C) \
    static __attribute__((noinline)) void values_##R##_##C(const lsk_attention *t, int32_t dim, const float *x, int64_t ldx, \
                                                           float *y, int64_t ldy) { \
        vf a[R][C], w[C]; \
        const int32_t from = window_start(t); \
        const float *xk = x + from, *v = t->v + (size_t)from * (size_t)t->head_dim + dim; \
        REP##R(ZERO##C) \
        for (int32_t p = from; p < t->n_context; p++, xk++, v += t->head_dim) { \
            REP##C(LOAD_V) \
            REP##R(FMA##C) \
        } \
        for (int32_t i = 0; i < t->n_tail; i++, xk++) { \
            v = t->v + (size_t)t->tail[i] * (size_t)t->head_dim + dim; \
            REP##C(LOAD_V) \
            REP##R(FMA##C) \
        } \
        REP##R(SAVE##C) \
    }

typedef void (*scores_fn)(const float *, int32_t, const float *, float *, int64_t);
typedef void (*values_fn)(const lsk_attention *, int32_t, const float *, int64_t, float *, int64_t);

#if W == 16
#define ONE_BLOCK 1
#elif W == 8
#define ONE_BLOCK 2
#else
#define ONE_BLOCK 4
#endif
#define ATTEND_(R, C) SCORES(R, C) VALUES(R, C)
#define ATTEND(R, C) ATTEND_(R, C)
#define ENTRY_(kind, R, C) kind##_##R##_##C
#define ENTRY(kind, R, C) ENTRY_(kind, R, C)
ATTEND(1, 4)
ATTEND(2, 4)
ATTEND(3, 4)
ATTEND(4, 4)
#if W > 4
ATTEND(1, ONE_BLOCK)
ATTEND(2, ONE_BLOCK)
ATTEND(3, ONE_BLOCK)
ATTEND(4, ONE_BLOCK)
#endif
#define BOTH(kind, R) {ENTRY(kind, R, 4), ENTRY(kind, R, ONE_BLOCK)}
static const scores_fn score_kernels[5][2] = {{0}, BOTH(scores, 1), BOTH(scores, 2), BOTH(scores, 3), BOTH(scores, 4)};
static const values_fn value_kernels[5][2] = {{0}, BOTH(values, 1), BOTH(values, 2), BOTH(values, 3), BOTH(values, 4)};

/* w[0..n) becomes e^(w - max); returns 1 / their sum. Room up to a multiple of 16. */
static float softmax(float *w, int32_t n) {
    const int32_t padded = (n + LSK_TILE - 1) / LSK_TILE * LSK_TILE;
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
    return 1.0f / total;
}

/* Scores for every cache column (each its own chain over d), then only the visible ones in logical order:
 * committed positions, ancestors, self. So a row in a tree and the same row alone do identical arithmetic. */
static void k_attention(const lsk_attention *a) {
    const int32_t n = a->n_context + a->n_tail, hd = a->head_dim, blocks = (a->n_columns + LSK_TILE - 1) / LSK_TILE;
    const int64_t ld = ((int64_t)blocks + 1) * LSK_TILE;
    for (int32_t h = 0; h < a->n_heads;) {
        const int32_t left = a->n_heads - h, heads = left < LSK_HEADS ? left : LSK_HEADS;
        const float *q = a->q + (size_t)h * (size_t)hd;
        float *raw = a->scratch, *w = raw + heads * ld, *out = a->out + (size_t)h * (size_t)hd, inverse[LSK_HEADS];
        const int32_t from = window_start(a);
        int32_t b = from / LSK_TILE;
        for (; b + G <= blocks; b += G)
            score_kernels[heads][0](a->k + (size_t)b * (size_t)hd * LSK_TILE, hd, q, raw + b * LSK_TILE, ld);
        for (; b < blocks; b++) score_kernels[heads][1](a->k + (size_t)b * (size_t)hd * LSK_TILE, hd, q, raw + b * LSK_TILE, ld);
        for (int32_t i = 0; i < heads; i++) {
            float *wi = w + i * ld;
            memcpy(wi + from, raw + i * ld + from, (size_t)(a->n_context - from) * sizeof *wi);
            for (int32_t j = 0; j < a->n_tail; j++) wi[a->n_context + j] = raw[i * ld + a->tail[j]];
            if (a->softcap > 0) {
                for (int32_t j = n; j % LSK_TILE; j++) wi[j] = 0;
                k_softcap(wi + from, (n - from + LSK_TILE - 1) / LSK_TILE * LSK_TILE, a->softcap);
            }
            for (int32_t j = from; j < a->first; j++) wi[j] = -INFINITY;
            inverse[i] = softmax(wi + from, n - from);
        }
        for (int32_t d = 0; d < hd;) {
            const int wide = d + 4 * W <= hd;
            value_kernels[heads][!wide](a, d, w, ld, out + d, hd);
            d += wide ? 4 * W : LSK_TILE;
        }
        for (int32_t i = 0; i < heads; i++)
            for (int32_t d = 0; d < hd; d += W) vf_store(out + i * hd + d, vf_load(out + i * hd + d) * vf_set(inverse[i]));
        h += heads;
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

static void k_to_bf16(float *x, int32_t n, uint16_t *bits) {
    for (int32_t i = 0; i < n; i++) {
        bits[i] = lsk_float_to_bf16(x[i]);
        const uint32_t wide = (uint32_t)bits[i] << 16;
        memcpy(&x[i], &wide, 4);
    }
}

#ifndef FAST_INT
#define FAST_INT 0
#define MATMUL_INT lsk_plain_matmul_int
#define QUANTIZE lsk_plain_quantize
#endif
const lsk_table LEVEL = {LEVEL_NAME, FAST_INT, k_matmul,   MATMUL_INT,  QUANTIZE,    k_to_bf16, NULL,
                         k_rmsnorm,  k_rope,   k_silu_mul, k_gelu_mul, k_softcap, k_attention, k_row_stats, k_top};
