/* AMX tiles: eight of 16 rows of 64 bytes at most. Intel Architecture Instruction Set Extensions Programming Reference.
 * Tile numbers are part of the instructions, so the preprocessor must know them. */
#pragma once
#include <immintrin.h>
#include <stdint.h>

enum { AMX_ROWS = 16, AMX_BYTES = 64 };

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_config;

static inline void amx_shape(amx_config *c, int tile, int rows, int row_bytes) {
    c->rows[tile] = (uint8_t)rows;
    c->row_bytes[tile] = (uint16_t)row_bytes;
}
/* GCC's intrinsics do not tell it that they read memory. */
static inline void amx_reads(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}
static inline void amx_configure(amx_config *c) {
    c->palette = 1;
    amx_reads(c);
    _tile_loadconfig(c);
}
