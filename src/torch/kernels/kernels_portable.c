/* Plain C with the compiler's generic vectors: any CPU. Products are rounded before the sum (built
 * without contraction into fused multiply-adds), so its bits differ from the other levels. */
#include "torch/kernels/kernels.h"

#include <string.h>

#define W 4
#define LEVEL lsk_portable
#define LEVEL_NAME "portable"
#define R_MAX 3
#define FUSED_MAX 3
typedef float vf __attribute__((vector_size(16)));

static inline vf vf_set(float x) {
    return (vf){x, x, x, x};
}
static inline vf vf_load(const float *p) {
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
static inline void vf_store(float *p, vf a) {
    memcpy(p, &a, sizeof a);
}
static inline vf vf_fma(vf a, vf b, vf c) {
    return a * b + c;
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
static inline vf vf_i8(const unsigned char *p) {
    const signed char *q = (const signed char *)p;
    return (vf){(float)q[0], (float)q[1], (float)q[2], (float)q[3]};
}

#include "torch/kernels/kernels_impl.h"
