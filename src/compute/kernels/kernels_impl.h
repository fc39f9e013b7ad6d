/* The kernels, generic over the vector width. The including file defines before:
 *   W (lanes), LEVEL (the table's name), LEVEL_NAME (its string), R_MAX (3 or 6: rows of a micro-kernel), FUSED_MAX
 *   (most rows that unpack weights on the way),
 *   and the inline functions vf_fma, vf_max, vf_half (W f16 to floats),
 *   vf_i8 (W int8 to floats), vi_bytes (W bytes to integers),
 *   and for kernels_integers.h vf_fma_once (rounded once), vf_round (to integers).
 */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "compute/kernels/vectors.h"

#include <math.h>
#include <string.h>

#include "compute/kernels/kernels_matmul.h"

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

/* As ls_to_bf16. */
INLINE vf vf_bf16(vf x) {
    const vu was = (vu)x, magnitude = was & 0x7FFFFFFFu;
    const vu nan = (vu)(magnitude > 0x7F800000u), half = was + 0x7FFFu + (was >> 16 & 1u);
    return (vf)(((nan & (was | 0x400000u)) | (~nan & half)) & 0xFFFF0000u);
}

/* ---- elementwise and reductions over one row */

static void k_to_bf16(float *x, int32_t n, uint16_t *bits) {
    for (int32_t i = 0; i < n; i += W) {
        const vf wide = vf_bf16(vf_load(x + i));
        vf_store(x + i, wide);
        if (!bits) continue;
        const vh rounded = __builtin_convertvector((vu)wide >> 16, vh);
        memcpy(bits + i, &rounded, sizeof rounded);
    }
}

/* The mean of n values or of their squares. */
INLINE float mean_of(const int squares, const float *x, int32_t n) {
    vf acc[4];
    int32_t i = 0;
    EACH(j, 0, 4) acc[j] = vf_set(0);
    for (; i + 4 * W <= n; i += 4 * W) EACH(j, 0, 4) {
        const vf v = vf_load(x + i + j * W);
        acc[j] = squares ? vf_fma(v, v, acc[j]) : acc[j] + v;
    }
    for (; i < n; i += W) { /* n is a multiple of 32, W at most 16 */
        const vf v = vf_load(x + i);
        acc[0] = squares ? vf_fma(v, v, acc[0]) : acc[0] + v;
    }
    return vf_sum((acc[0] + acc[1]) + (acc[2] + acc[3])) / (float)n;
}

static void k_rmsnorm(const float *x, const float *weight, int32_t n, float eps, float *out) {
    const vf s = vf_set(1.0f / sqrtf(mean_of(1, x, n) + eps));
    for (int32_t i = 0; i < n; i += W) vf_store(out + i, vf_load(x + i) * s * vf_load(weight + i));
}

static void k_layernorm(const float *x, const float *weight, int32_t n, float eps, float *out) {
    const vf mean = vf_set(mean_of(0, x, n));
    for (int32_t i = 0; i < n; i += W) vf_store(out + i, vf_load(x + i) - mean);
    k_rmsnorm(out, weight, n, eps, out);
    for (int32_t i = 0; i < n; i += W) vf_store(out + i, vf_load(out + i) + vf_load(weight + n + i));
}

INLINE void turn(float *x, float *y, const int step, int32_t pairs, const float *cs, float scale) {
    for (int32_t i = 0; i < pairs; i++) {
        const float a = x[step * i], b = y[step * i], c = cs[2 * i], s = cs[2 * i + 1];
        x[step * i] = (a * c - b * s) * scale;
        y[step * i] = (a * s + b * c) * scale;
    }
}
static void k_rope(float *x, int32_t dims, int interleaved, const float *cs, float scale) {
    if (interleaved) turn(x, x + 1, 2, dims / 2, cs, scale);
    else turn(x, x + dims / 2, 1, dims / 2, cs, scale);
}

/* (1 - e^-2|x|) / (1 + e^-2|x|), with x's sign */
INLINE vf vf_tanh(vf x) {
    const vf one = vf_set(1.0f), zero = vf_set(0);
    const vf e = vf_exp(vf_set(-2.0f) * vf_max(x, zero - x));
    const vf t = (one - e) / (one + e);
    const vi negative = x < zero;
    return (vf)(((vi)t & ~negative) | ((vi)(zero - t) & negative));
}

INLINE vf vf_silu(vf g) {
    return g / (vf_set(1.0f) + vf_exp(vf_set(0) - vf_max(g, vf_set(-87.0f)))); /* e^87 is still finite */
}

INLINE vf vf_gelu(vf g) {
    const vf inner = vf_set(0.79788456080286536f) * vf_fma(vf_set(0.044715f) * g * g, g, g);
    return vf_set(0.5f) * g * (vf_set(1.0f) + vf_tanh(inner));
}

INLINE vf vf_relu2(vf g) {
    const vf positive = vf_max(g, vf_set(0));
    return positive * positive;
}

INLINE vf vf_xielu(vf g, const float *of) {
    const vf zero = vf_set(0), least = zero - vf_max(zero - g, vf_set(-of[3])); /* min(g, e) */
    const vf above = vf_fma(vf_set(of[0]) * g, g, vf_set(of[2]) * g),
             below = vf_fma(vf_exp(least) - vf_set(1.0f) - g, vf_set(of[1]), vf_set(of[2]) * g);
    const vi positive = g > zero;
    return (vf)(((vi)above & positive) | ((vi)below & ~positive));
}

/* lst.h's clamped SwiGLU: the gate's half; the other half is clamped, too, and increased by 1.
 * NaN stays: vf_max gives its second operand where the first is NaN, and NaN where the second is. */
INLINE vf vf_clamped(vf gate) {
    const vf limit = vf_set(LS_CLAMP), g = vf_set(0) - vf_max(vf_set(0) - limit, vf_set(0) - gate);
    return vf_silu(g * vf_set(LS_CLAMP_SLOPE)) * vf_set(1 / LS_CLAMP_SLOPE);
}

static void k_activate(int32_t activation, const float *xielu, const float *gate, const float *up, int32_t n,
                       float *out) {
    for (int32_t i = 0; i < n; i += W) {
        const vf g = vf_load(gate + i);
        vf a;
        if (activation == LS_ACT_SILU) a = vf_silu(g);
        else if (activation == LS_ACT_GELU_TANH) a = vf_gelu(g);
        else if (activation == LS_ACT_RELU2) a = vf_relu2(g);
        else if (activation == LS_ACT_XIELU) a = vf_xielu(g, xielu);
        else a = vf_clamped(g);
        if (up && activation == LS_ACT_CLAMPED) {
            const vf least = vf_set(-LS_CLAMP), u = vf_max(least, vf_load(up + i));
            a = a * (vf_set(1) - vf_max(least, vf_set(0) - u));
        } else if (up) a = a * vf_load(up + i);
        vf_store(out + i, a);
    }
}

static void k_softcap(float *x, int32_t n, float cap) {
    const vf c = vf_set(cap), inverse = vf_set(1.0f / cap);
    for (int32_t i = 0; i < n; i += W) vf_store(x + i, c * vf_tanh(vf_load(x + i) * inverse));
}

#include "compute/kernels/kernels_attention.h"

/* ---- the output head's row */

/* Adds a value to the k best, sorted; of equal values the lower id comes first. */
INLINE void top_add(float value, int32_t id, int32_t k, int32_t *n, int32_t *ids, float *values) {
    if (*n == k && !(value > values[k - 1] || (value == values[k - 1] && id < ids[k - 1]))) return;
    int32_t at = *n < k ? (*n)++ : k - 1;
    for (; at > 0 && (values[at - 1] < value || (values[at - 1] == value && ids[at - 1] > id)); at--) {
        values[at] = values[at - 1];
        ids[at] = ids[at - 1];
    }
    values[at] = value;
    ids[at] = id;
}

/* A value that at least k of x[0..n) reach, and few more do; n is a multiple of W. -INFINITY: none was found. */
static float reached_by(const float *x, int32_t n, int32_t k) {
    enum { HALVINGS = 16, FAR = 4096 }; /* some may be -INFINITY */
    vf best = vf_set(-INFINITY), worst = vf_set(INFINITY);
    float high = -INFINITY, low = INFINITY, least = -INFINITY;
    for (int32_t i = 0; i < n; i += W) {
        best = vf_max(best, vf_load(x + i));
        worst = vf_set(0) - vf_max(vf_set(0) - worst, vf_set(0) - vf_load(x + i));
    }
    for (int j = 0; j < W; j++) high = fmaxf(high, best[j]), low = fminf(low, worst[j]);
    float t = fmaxf(low, high - FAR);
    for (int tries = 0; tries < HALVINGS; tries++) {
        vi reached = {0};
        int32_t count = 0;
        for (int32_t i = 0; i < n; i += W) reached -= (vi)(vf_load(x + i) >= vf_set(t));
        for (int j = 0; j < W; j++) count += reached[j];
        if (count >= k) low = least = t;
        else high = t;
        if (count >= k && count <= k + k / 8) break;
        t = (low + high) / 2;
    }
    return least;
}

/* The k-th best maximum of groups of values is at most the k-th best value, and nearly as large: only the groups with
 * such a maximum are looked at one by one. A group is a lane of `tall` vectors. */
static void k_top(const float *x, int32_t n, int32_t k, int32_t *ids, float *values) {
    enum { GROUPS = 2048 };
    const int32_t tall = (n + GROUPS - 1) / GROUPS, whole = n - n % W;
    float most[GROUPS + W], least = -INFINITY;
    int32_t have = 0, groups = 0;
    for (int32_t i = 0; i < whole; i += tall * W, groups += W) {
        vf best = vf_load(x + i);
        for (int32_t j = i + W; j < whole && j < i + tall * W; j += W) best = vf_max(best, vf_load(x + j));
        vf_store(most + groups, best);
    }
    if (groups >= k) least = reached_by(most, groups, k);
    for (int32_t g = 0; g < groups; g++) {
        const int32_t first = g / W * tall * W;
        if (most[g] < least) continue;
        for (int32_t i = first + g % W; i < whole && i < first + tall * W; i += W)
            if (!(x[i] < least)) top_add(x[i], i, k, &have, ids, values);
    }
    for (int32_t i = whole; i < n; i++) top_add(x[i], i, k, &have, ids, values);
    for (; have < k; have++) ids[have] = -1, values[have] = -INFINITY;
}

static int k_row_stats(const float *logits, int32_t n, lst_row *row) {
    k_top(logits, n, LST_ROW_TOP, row->top_id, row->top_logit);
    const float max = row->top_logit[0];
    vf m = vf_set(max), floor_ = vf_set(-80.0f), s0[2], s1[2];
    vu nan = (vu)vf_set(0); /* vf_max hides one, and the list of the best may, too */
    for (int i = 0; i < 2; i++) s0[i] = s1[i] = vf_set(0);
    int32_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W)
        for (int j = 0; j < 2; j++) {
            const vf x = vf_load(logits + i + j * W);
            nan |= (vu)(x != x);
            vf d = vf_max(x - m, floor_); /* beyond -80 nothing can be seen in a float sum */
            vf e = vf_exp(d);
            s0[j] += e;
            s1[j] = vf_fma(e, d, s1[j]);
        }
    float total = vf_sum(s0[0] + s0[1]), weighted = vf_sum(s1[0] + s1[1]);
    uint32_t lanes[W], bad = 0;
    memcpy(lanes, &nan, sizeof lanes);
    for (int j = 0; j < W; j++) bad |= lanes[j];
    for (; i < n; i++) {
        bad |= isnan(logits[i]);
        float d = logits[i] - max, e = d < -80 ? 0 : expf(d);
        total += e;
        weighted += e * (d < -80 ? 0 : d);
    }
    row->lse = max + logf(total);
    row->entropy = logf(total) - weighted / total;
    return !bad && isfinite(max) && isfinite(row->lse) ? 0 : -1;
}

#undef LSK_ZERO
#undef LSK_STEP
#define LSK_ZERO vf_set(1)
#define LSK_STEP(sum, x) vf_fma(sum, vf_set(0.5f), x)
LSK_PEAK(peak_f32, vf, W)

#ifndef PEAK_INT /* no fast integers */
#define PEAK_INT NULL
#endif
#ifndef MATMUL_INT /* levels.c takes those of another level */
#define MATMUL_INT NULL
#define QUANTIZE NULL
#endif
#ifndef MATMUL_BF16
#define MATMUL_BF16 NULL
#define PEAK_BF16 peak_f32
#endif
const lsk_table LEVEL = {.name = LEVEL_NAME,
                         .matmul = k_matmul,
                         .matmul_int = MATMUL_INT,
                         .quantize = QUANTIZE,
                         .to_bf16 = k_to_bf16,
                         .matmul_bf16 = MATMUL_BF16,
                         .rmsnorm = k_rmsnorm,
                         .layernorm = k_layernorm,
                         .rope = k_rope,
                         .activate = k_activate,
                         .softcap = k_softcap,
                         .attention = k_attention,
                         .row_stats = k_row_stats,
                         .top = k_top,
                         .peak_f32 = peak_f32,
                         .peak_int = PEAK_INT,
                         .peak_bf16 = PEAK_BF16};
