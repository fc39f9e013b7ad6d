#include "tests/unit/random_tensor.h"
#include "base/rng.h"
#include "torch/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t counter;
float rnd(void) {
    return (float)(ls_uniform_at(7, counter++) * 2 - 1);
}
uint32_t rnd_int(uint32_t n) {
    return (uint32_t)(ls_uniform_at(11, counter++) * n);
}

static uint16_t half_from_float(float f) { // good enough for normal values: truncates
    uint32_t b;
    memcpy(&b, &f, 4);
    return (uint16_t)((b >> 16 & 0x8000) | ((b >> 23 & 255) - 112) << 10 | (b >> 13 & 0x3FF));
}

unsigned char *random_raw(int type, int64_t n_out, int64_t n_in) {
    size_t row = lsk_row_bytes(type, n_in);
    unsigned char *raw = malloc(row * (size_t)n_out);
    for (size_t i = 0; i < row * (size_t)n_out; i++) raw[i] = (unsigned char)rnd_int(256);
    if (type == 0)
        for (int64_t i = 0; i < n_in * n_out; i++) {
            float f = rnd();
            memcpy(raw + i * 4, &f, 4);
        }
    int block = type == 2 ? 18 : type == 3 ? 20 : type == 8 ? 34 : 0;
    for (size_t at = 0; block && at < row * (size_t)n_out; at += (size_t)block) {
        uint16_t d = half_from_float(0.01f + 0.02f * (rnd() + 1)), m = half_from_float(-0.1f + 0.05f * rnd());
        memcpy(raw + at, &d, 2);
        if (type == 3) memcpy(raw + at + 2, &m, 2);
    }
    if (type == 1 || type == 30)
        for (int64_t i = 0; i < n_in * n_out; i++) {
            float f = rnd();
            if (fabsf(f) < 0.01f) f = 0.01f; // half_from_float knows normal halves only
            uint32_t b;
            memcpy(&b, &f, 4);
            uint16_t h = type == 1 ? half_from_float(f) : (uint16_t)(b >> 16);
            memcpy(raw + i * 2, &h, 2);
        }
    return raw;
}
