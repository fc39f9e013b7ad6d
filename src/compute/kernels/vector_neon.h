/* The vector of kernels_impl.h in NEON, as every processor of 64-bit Arm has it. */
#define W 4
#define R_MAX 6 /* 24 sums, 4 vectors of weights and an input fit the 32 registers */
#define FUSED_MAX 3
#include "compute/kernels/vectors.h"
#ifdef LSK_NEON_EMULATED
#include LSK_NEON_EMULATED /* its instructions in plain C, for tests */
#else
#include <arm_neon.h>
#endif

static inline vf vf_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
#define vf_fma_once vf_fma
static inline vf vf_max(vf a, vf b) { /* b where a is NaN, as at all levels */
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline vf vf_half(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline uint32x4_t vi_bytes(const unsigned char *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)))));
}
static inline vf vf_i8(const unsigned char *p) {
    return vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(vreinterpretq_s32_u32(vi_bytes(p)), 24), 24));
}
/* Byte by byte, that of sixteen which the index chooses. */
static inline vbytes vb_choose(const unsigned char *sixteen, vbytes at) {
    return vqtbl1q_u8(vld1q_u8(sixteen), at);
}
/* To nearest, ties to even. */
static inline int32x4_t vf_round(vf a) {
    return vcvtnq_s32_f32(a);
}
