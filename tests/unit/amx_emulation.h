// AMX tiles in plain C, after the pseudocode of Intel's Instruction Set Extensions Programming Reference (TILELOADD,
// TILESTORED, TILEZERO, TDPBF16PS, TDPBSUD; the rounding of single sums of bf16 may differ). Shapes that hardware
// refuses end the test. A file that includes this and then kernels has their functions under other names.
#pragma once
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define lsk_amx_usable emulated_amx_usable
#define lsk_amx_pass emulated_amx_pass
#define lsk_amx emulated_amx
#define lsk_amx_attention emulated_amx_attention
#define lsk_amx_matmul_bf16 emulated_amx_matmul_bf16
#define lsk_amx_matmul_packed emulated_amx_matmul_packed
#define lsk_amx_matmul_int8 emulated_amx_matmul_int8

extern struct emulated_tiles {
    uint8_t rows[8];
    uint16_t bytes[8];
    uint8_t data[8][16][64];
    int configured;
    // How products are after the configuration of that number, for tests of what notices it.
    enum { EMULATED_RIGHT, EMULATED_NO_LAST_ROW, EMULATED_SIGNED_BYTES, EMULATED_SIGILL } wrong;
    int wrong_in, configurations;
} emulated; // amxunit_emulated.c

static inline void refuse(int bad) {
    if (bad) abort();
}
static inline void emulated_loadconfig(const void *p) {
    const uint8_t *c = p;
    refuse(c[0] != 1);
    for (int i = 1; i < 64; i++) refuse((i < 16 || (i >= 32 && i < 48) || i >= 56) && c[i]);
    for (int i = 0; i < 8; i++) {
        memcpy(&emulated.bytes[i], c + 16 + 2 * i, 2);
        emulated.rows[i] = c[48 + i];
        refuse(emulated.rows[i] > 16 || emulated.bytes[i] > 64 || !emulated.rows[i] != !emulated.bytes[i]);
    }
    emulated.configured = 1;
    emulated.configurations++;
}
static inline void emulated_release(void) {
    emulated.configured = 0;
}
static inline void emulated_zero(int t) {
    refuse(!emulated.configured);
    memset(emulated.data[t], 0, sizeof emulated.data[t]);
}
static inline void emulated_loadd(int t, const void *p, size_t stride) {
    refuse(!emulated.configured || !emulated.rows[t]);
    memset(emulated.data[t], 0, sizeof emulated.data[t]);
    for (int r = 0; r < emulated.rows[t]; r++)
        memcpy(emulated.data[t][r], (const uint8_t *)p + (size_t)r * stride, emulated.bytes[t]);
}
static inline void emulated_stored(int t, void *p, size_t stride) {
    refuse(!emulated.configured || !emulated.rows[t]);
    for (int r = 0; r < emulated.rows[t]; r++)
        memcpy((uint8_t *)p + (size_t)r * stride, emulated.data[t][r], emulated.bytes[t]);
}
static inline int is_wrong(int how) {
    return (int)emulated.wrong == how && emulated.configurations == emulated.wrong_in;
}
static inline void refuse_product(int d, int a, int b) {
    refuse(!emulated.configured || emulated.rows[d] != emulated.rows[a] || emulated.bytes[d] != emulated.bytes[b] ||
           emulated.bytes[a] / 4 != emulated.rows[b] || d == a || d == b || a == b);
    if (is_wrong(EMULATED_SIGILL)) raise(SIGILL);
}
static inline float bf16_at(const uint8_t *row, int i) {
    uint32_t bits = (uint32_t)row[2 * i] << 16 | (uint32_t)row[2 * i + 1] << 24;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline void emulated_dpbf16ps(int d, int a, int b) {
    refuse_product(d, a, b);
    const int rows = emulated.rows[d] - is_wrong(EMULATED_NO_LAST_ROW);
    for (int m = 0; m < rows; m++) {
        float sum[2][16] = {{0}};
        for (int k = 0; k < emulated.bytes[a] / 4; k++)
            for (int n = 0; n < emulated.bytes[d] / 4; n++)
                for (int h = 0; h < 2; h++)
                    sum[h][n] += bf16_at(emulated.data[a][m], 2 * k + h) * bf16_at(emulated.data[b][k], 2 * n + h);
        for (int n = 0; n < emulated.bytes[d] / 4; n++) {
            float v;
            memcpy(&v, &emulated.data[d][m][4 * n], 4);
            v += sum[0][n] + sum[1][n];
            memcpy(&emulated.data[d][m][4 * n], &v, 4);
        }
    }
}
// a: signed bytes, b: unsigned
static inline void emulated_dpbsud(int d, int a, int b) {
    refuse_product(d, a, b);
    for (int m = 0; m < emulated.rows[d] - is_wrong(EMULATED_NO_LAST_ROW); m++)
        for (int n = 0; n < emulated.bytes[d] / 4; n++) {
            int32_t v;
            memcpy(&v, &emulated.data[d][m][4 * n], 4);
            for (int k = 0; k < emulated.bytes[a]; k++)
                v += (int8_t)emulated.data[a][m][k] * (is_wrong(EMULATED_SIGNED_BYTES)
                                                           ? (int8_t)emulated.data[b][k / 4][4 * n + k % 4]
                                                           : emulated.data[b][k / 4][4 * n + k % 4]);
            memcpy(&emulated.data[d][m][4 * n], &v, 4);
        }
}

// Compilers have some as functions and some as macros.
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbsud
#define _tile_loadconfig emulated_loadconfig
#define _tile_release emulated_release
#define _tile_loadd emulated_loadd
#define _tile_stored emulated_stored
#define _tile_zero emulated_zero
#define _tile_dpbf16ps emulated_dpbf16ps
#define _tile_dpbsud emulated_dpbsud
