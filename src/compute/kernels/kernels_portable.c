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
static inline vi vi_bytes(const unsigned char *p) {
    return (vi){p[0], p[1], p[2], p[3]};
}
static inline vf vf_i8(const unsigned char *p) {
    const signed char *q = (const signed char *)p;
    return (vf){(float)q[0], (float)q[1], (float)q[2], (float)q[3]};
}

/* Byte by byte, that of sixteen which the index chooses. Compilers keep what is indexed in memory, and a vector would
 * go there and back each time. */
static inline vbytes vb_choose(const unsigned char *sixteen, vbytes at) {
    unsigned char b[4 * W];
    memcpy(b, &at, sizeof b);
    for (int i = 0; i < 4 * W; i++) b[i] = sixteen[b[i]];
    memcpy(&at, b, sizeof b);
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

/* Of a table only the row's own integers are looked up. */
INLINE void row_of(const lsk_format f, const lsk_matrix *m, int64_t row, float *out) {
    const unsigned char *tile = m->data + (size_t)(row / LSK_TILE) * m->tile_bytes;
    const int lane = (int)(row % LSK_TILE), v = lane / W, at = lane % W;
    for (int32_t g = 0; g < m->n_in / 32; g++, out += 32) {
        const int_group w = int_group_at(f, tile, (unsigned)g);
        const int parts = int_parts(w.bits), less = w.has_min ? 0 : 1 << (w.bits == 3 ? 2 : w.bits - 1);
        int_group kept = w;
        if (w.table) kept.table = NULL, kept.bits = 4;
        EACH(part, 0, parts) {
            const int_scales s = int_scales_at(&w, v, part);
            /* a K format's minimum is 0 less a product, which has no sign where it is 0 */
            const float scale = s.d[at], min = w.is_k ? s.min[at] + 0 : s.min[at];
            EACH(j, 8 / parts * part, 8 / parts * (part + 1)) {
                const vbytes q = int_bytes(&kept, j, v);
                for (int i = 0; i < 4; i++) {
                    const int of = q[4 * at + i];
                    out[4 * j + i] = (float)((w.table ? w.table[of] : of) - less) * scale + min;
                }
            }
        }
    }
}
void lsk_packed_integers(const lsk_matrix *m, int64_t row, float *out) {
#define ROW_OF(FORMAT, ...)                                                                                            \
    case LSK_##FORMAT: row_of(LSK_##FORMAT, m, row, out); break;
    switch (m->format) {
        INT_FORMATS(ROW_OF, )
    default: break;
    }
}

#include "compute/kernels/kernels_impl.h"
