// AMX tiles in plain C, after the pseudocode of Intel's Instruction Set Extensions Programming Reference (TILELOADD,
// TILESTORED, TILEZERO, TDPBF16PS; the rounding of single sums may differ). Shapes that hardware refuses end the test.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct {
    uint8_t rows[8];
    uint16_t bytes[8];
    uint8_t data[8][16][64];
    int configured;
} tiles;

static void refuse(int bad) {
    if (bad) abort();
}
static void _tile_loadconfig(const void *p) {
    const uint8_t *c = p;
    refuse(c[0] != 1);
    for (int i = 0; i < 8; i++) {
        memcpy(&tiles.bytes[i], c + 16 + 2 * i, 2);
        tiles.rows[i] = c[48 + i];
        refuse(tiles.rows[i] > 16 || tiles.bytes[i] > 64);
    }
    tiles.configured = 1;
}
static void _tile_release(void) {
    tiles.configured = 0;
}
static void _tile_zero(int t) {
    refuse(!tiles.configured);
    memset(tiles.data[t], 0, sizeof tiles.data[t]);
}
static void _tile_loadd(int t, const void *p, size_t stride) {
    refuse(!tiles.configured || !tiles.rows[t]);
    memset(tiles.data[t], 0, sizeof tiles.data[t]);
    for (int r = 0; r < tiles.rows[t]; r++)
        memcpy(tiles.data[t][r], (const uint8_t *)p + (size_t)r * stride, tiles.bytes[t]);
}
static void _tile_stored(int t, void *p, size_t stride) {
    refuse(!tiles.configured || !tiles.rows[t]);
    for (int r = 0; r < tiles.rows[t]; r++) memcpy((uint8_t *)p + (size_t)r * stride, tiles.data[t][r], tiles.bytes[t]);
}
static inline float bf16_at(const uint8_t *row, int i) {
    uint32_t bits = (uint32_t)row[2 * i] << 16 | (uint32_t)row[2 * i + 1] << 24;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static void _tile_dpbf16ps(int d, int a, int b) {
    refuse(!tiles.configured || tiles.rows[d] != tiles.rows[a] || tiles.bytes[d] != tiles.bytes[b] ||
           tiles.bytes[a] / 4 != tiles.rows[b] || d == a || d == b || a == b);
    for (int m = 0; m < tiles.rows[d]; m++) {
        float sum[2][16] = {{0}};
        for (int k = 0; k < tiles.bytes[a] / 4; k++)
            for (int n = 0; n < tiles.bytes[d] / 4; n++)
                for (int h = 0; h < 2; h++)
                    sum[h][n] += bf16_at(tiles.data[a][m], 2 * k + h) * bf16_at(tiles.data[b][k], 2 * n + h);
        for (int n = 0; n < tiles.bytes[d] / 4; n++) {
            float v;
            memcpy(&v, &tiles.data[d][m][4 * n], 4);
            v += sum[0][n] + sum[1][n];
            memcpy(&tiles.data[d][m][4 * n], &v, 4);
        }
    }
}
