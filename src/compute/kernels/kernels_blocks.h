/* A block of a GGUF format, unpacked. */
#pragma once
#include "compute/kernels/kernels.h"

typedef struct {
    int8_t q[256];
    float scale[16], min[16];
} lsk_block;

/* The sixteen values that 4 bits choose from: IQ4_NL's and IQ4_XS's, and twice MXFP4's, which are NVFP4's; `plus` is
 * added to each. */
#define LSK_NL4_TABLE(plus)                                                                                            \
    {                                                                                                                  \
        plus - 127, plus - 104, plus - 83, plus - 65, plus - 49, plus - 35, plus - 22, plus - 10, plus + 1, plus + 13, \
            plus + 25, plus + 38, plus + 53, plus + 69, plus + 89, plus + 113                                          \
    }
#define LSK_MX4_TABLE(plus)                                                                                            \
    {                                                                                                                  \
        plus, plus + 1, plus + 2, plus + 3, plus + 4, plus + 6, plus + 8, plus + 12, plus, plus - 1, plus - 2,         \
            plus - 3, plus - 4, plus - 6, plus - 8, plus - 12                                                          \
    }

/* The scales of a block of a K format, or of IQ4_XS: of value i d * scale[i / 16], and dmin * min[i / 16] is
 * subtracted. */
typedef struct {
    uint16_t d, dmin; /* f16 bits */
    int8_t scale[16];
    uint8_t min[16];
} lsk_k_scales;

void lsk_k_integers(int ggml_type, const unsigned char *block, int8_t *to); /* 256, of all but IQ4_XS */
lsk_k_scales lsk_k_scales_of(int ggml_type, const unsigned char *block);
void lsk_read_block(int ggml_type, const unsigned char *raw, lsk_block *b);
/* lsk_packed_row of a format that takes integers. */
void lsk_packed_integers(const lsk_matrix *m, int64_t row, float *out);

/* 2^(e - 128), the scale of MXFP4's table, which has twice the values. 255 stands for NaN (lsk_finite). */
static inline float lsk_power(uint8_t e) {
    const uint32_t bits = e ? (uint32_t)e << 23 : 1u << 22;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f / 2;
}
/* The scale of MXFP4's table for 16 values of an NVFP4 block that begins with d. */
static inline float lsk_nv4_scale(const void *d, uint8_t e4m3) {
    float all;
    memcpy(&all, d, sizeof all);
    return all * (0.5f * ls_of_e4m3(e4m3));
}
