/* Plain C with the compiler's generic vectors: any CPU. Products are rounded before the sum (built
 * without contraction into fused multiply-adds), so its bits differ from the other levels. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define W 4
#define LEVEL lsk_portable
#define LEVEL_NAME "portable"
#define R_MAX 3
#define FUSED_MAX 3
#include "compute/kernels/vectors.h"

static inline vf vf_fma(vf a, vf b, vf c) {
    return a * b + c;
}
static inline vf vf_fma_once(vf a, vf b, vf c) {
    return (vf){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3])};
}
static inline vf vf_max(vf a, vf b) {
    for (int i = 0; i < W; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}
static inline vf vf_half(const uint16_t *p) {
    return (vf){lsk_half_at(p), lsk_half_at(p + 1), lsk_half_at(p + 2), lsk_half_at(p + 3)};
}
static inline void vf_u4(const unsigned char *p, vf *lo, vf *hi) {
    *lo = (vf){(float)(p[0] & 15), (float)(p[1] & 15), (float)(p[2] & 15), (float)(p[3] & 15)};
    *hi = (vf){(float)(p[0] >> 4), (float)(p[1] >> 4), (float)(p[2] >> 4), (float)(p[3] >> 4)};
}
static inline vi vi_bytes(const unsigned char *p) {
    return (vi){p[0], p[1], p[2], p[3]};
}
static inline vf vf_i8(const unsigned char *p) {
    const signed char *q = (const signed char *)p;
    return (vf){(float)q[0], (float)q[1], (float)q[2], (float)q[3]};
}

/* Byte by byte, that of sixteen which the index chooses. */
static inline vbytes vb_choose(const unsigned char *sixteen, vbytes at) {
    for (int i = 0; i < 4 * W; i++) at[i] = sixteen[at[i]];
    return at;
}
/* To nearest, ties to even. */
static inline vi vf_round(vf a) {
    vi v = {0};
    for (int i = 0; i < W; i++) v[i] = (int32_t)lrintf(a[i]);
    return v;
}
static inline void vf_store_bytes(int8_t *to, const vi *v) {
    for (int i = 0; i < 32; i++) to[i] = (int8_t)v[i / W][i % W];
}

#define INT_ROWS UP_TO_1
#define INT_TOGETHER 1
#define INT_BLOCK(rows, is16) 1
enum { INT_MOST = 1 };
#include "compute/kernels/kernels_intgroup.h"

INLINE void int_products(const int_group *w, const int is16, int v, int j, int end, const lsk_group *x,
                         const int32_t *pairs, const int from, const int to, vi dots[INT_TOGETHER][INT_MOST]) {
    (void)pairs, (void)from, (void)to; /* one row */
    int32_t sum[W] = {0};
    for (int k = j; k < end; k++) {
        const vbytes q = int_bytes(w, k, v);
        for (int i = 0; i < 4 * W; i++)
            sum[i / 4] += q[i] * (is16 ? 256 * x->hi[4 * k + i % 4] + x->lo[4 * k + i % 4] : x->hi[4 * k + i % 4]);
    }
    memcpy(dots[0], sum, sizeof sum);
}
#include "compute/kernels/kernels_integers.h"

#include "compute/kernels/kernels_impl.h"
