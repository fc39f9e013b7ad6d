#include "tests/unit/random_tensor.h"
#include "base/rng.h"
#include "compute/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

static uint64_t counter;
float rnd(void) {
    return (float)(ls_uniform_at(7, counter++) * 2 - 1);
}
uint32_t rnd_int(uint32_t n) {
    return (uint32_t)(ls_uniform_at(11, counter++) * n);
}
void rnd_restart(void) {
    counter = 0;
}

unsigned char *random_raw(int type, int64_t n_out, int64_t n_in) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    const size_t row = lsk_row_bytes(type, n_in);
    unsigned char *raw = malloc(row * (size_t)n_out);
    for (size_t i = 0; i < row * (size_t)n_out; i++) raw[i] = (unsigned char)rnd_int(256);
    if (type == LS_GGML_F32)
        for (int64_t i = 0; i < n_in * n_out; i++) {
            float f = rnd();
            memcpy(raw + i * 4, &f, 4);
        }
    for (size_t at = 0; l->values > 1 && at < row * (size_t)n_out; at += (size_t)l->bytes) {
        if (type == LS_GGML_NVFP4) {
            const float all = 0.003f + 0.001f * rnd();
            memcpy(raw + at, at % row ? (const void *)(raw + at / row * row) : &all, 4);
            for (int g = 4; g < 8; g++) raw[at + (size_t)g] = (unsigned char)(rnd_int(2) << 7 | rnd_int(0x50));
        }
        if (type == LS_GGML_MXFP4) raw[at] = (unsigned char)(118 + rnd_int(6));
        const uint16_t d = ls_to_half(0.01f + 0.02f * (rnd() + 1)), m = ls_to_half(-0.1f + 0.05f * rnd());
        if (l->n_halves) memcpy(raw + at + l->halves_at, &d, 2);
        if (l->n_halves > 1) memcpy(raw + at + l->halves_at + 2, &m, 2);
    }
    if (type == LS_GGML_F16 || type == LS_GGML_BF16)
        for (int64_t i = 0; i < n_in * n_out; i++) {
            float f = rnd();
            uint32_t b;
            memcpy(&b, &f, 4);
            uint16_t h = type == LS_GGML_F16 ? ls_to_half(f) : (uint16_t)(b >> 16);
            memcpy(raw + i * 2, &h, 2);
        }
    return raw;
}
