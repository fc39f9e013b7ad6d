#include "tests/unit/random_tensor.h"
#include "base/rng.h"
#include "torch/kernels/kernels.h"

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

// Where a block's half-precision numbers stand: its scale, and its least value (-1: none).
static const struct {
    int type, bytes, scale, least;
} blocks[] = {{2, 18, 0, -1},  {3, 20, 0, 2},      {6, 22, 0, -1},     {7, 24, 0, 2},
              {8, 34, 0, -1},  {10, 84, 80, 82},   {11, 110, 108, -1}, {12, 144, 0, 2},
              {13, 176, 0, 2}, {14, 210, 208, -1}, {20, 18, 0, -1}};

unsigned char *random_raw(int type, int64_t n_out, int64_t n_in) {
    size_t row = lsk_row_bytes(type, n_in);
    unsigned char *raw = malloc(row * (size_t)n_out);
    for (size_t i = 0; i < row * (size_t)n_out; i++) raw[i] = (unsigned char)rnd_int(256);
    if (type == 0)
        for (int64_t i = 0; i < n_in * n_out; i++) {
            float f = rnd();
            memcpy(raw + i * 4, &f, 4);
        }
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        for (size_t at = 0; blocks[k].type == type && at < row * (size_t)n_out; at += (size_t)blocks[k].bytes) {
            const uint16_t d = lsk_float_to_half(0.01f + 0.02f * (rnd() + 1)),
                           m = lsk_float_to_half(-0.1f + 0.05f * rnd());
            memcpy(raw + at + blocks[k].scale, &d, 2);
            if (blocks[k].least >= 0) memcpy(raw + at + blocks[k].least, &m, 2);
        }
    if (type == 1 || type == 30)
        for (int64_t i = 0; i < n_in * n_out; i++) {
            float f = rnd();
            uint32_t b;
            memcpy(&b, &f, 4);
            uint16_t h = type == 1 ? lsk_float_to_half(f) : (uint16_t)(b >> 16);
            memcpy(raw + i * 2, &h, 2);
        }
    return raw;
}
