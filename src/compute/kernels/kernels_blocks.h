/* A block of a GGUF format, unpacked. */
#pragma once
#include "compute/kernels/kernels.h"

typedef struct {
    int8_t q[256];
    float scale[16], min[16];
} lsk_block;

/* The scales of a block of a K format: of value i d * scale[i / 16], and dmin * min[i / 16] is subtracted. */
typedef struct {
    uint16_t d, dmin; /* f16 bits */
    int8_t scale[16];
    uint8_t min[16];
} lsk_k_scales;

lsk_k_scales lsk_k_scales_of(int ggml_type, const unsigned char *block);
void lsk_read_block(int ggml_type, const unsigned char *raw, lsk_block *b);

static inline uint16_t lsk_half_bits_at(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}
