/* AMX tiles: eight of 16 rows of 64 bytes at most. Intel Architecture Instruction Set Extensions Programming Reference.
 * Tile numbers are part of the instructions, so the preprocessor must know them. */
#pragma once
#include <immintrin.h>
#include <stdint.h>

enum { AMX_ROWS = 16, AMX_BYTES = 64 };
#define AMX_FOUR(X) X(0) X(1) X(2) X(3)
#define AMX_ZERO(i) _tile_zero(i);

/* Up to AMX_BLOCKS blocks of 16 rows, whose sums are tiles 0 to 3, by a tile of weights. All blocks but the last one
 * are full: MULTIPLY(i, inputs) adds the products of block i, whose inputs have a tile of that shape. */
enum { AMX_BLOCKS = 4 };
#define AMX_WEIGHTS 4
#define AMX_INPUTS 5
#define AMX_LAST_INPUTS 6
#define AMX_MULTIPLY(blocks)                                                                                           \
    switch (blocks) {                                                                                                  \
    case 1: MULTIPLY(0, AMX_LAST_INPUTS) break;                                                                        \
    case 2: MULTIPLY(0, AMX_INPUTS) MULTIPLY(1, AMX_LAST_INPUTS) break;                                                \
    case 3: MULTIPLY(0, AMX_INPUTS) MULTIPLY(1, AMX_INPUTS) MULTIPLY(2, AMX_LAST_INPUTS) break;                        \
    default: MULTIPLY(0, AMX_INPUTS) MULTIPLY(1, AMX_INPUTS) MULTIPLY(2, AMX_INPUTS) MULTIPLY(3, AMX_LAST_INPUTS)      \
    }

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
