/* bf16 by AMX tiles: a tile of 16 rows of inputs (32 bf16 each) times 16 pairs x 16 outputs of packed weights. Any
 * number of rows runs the same instructions on a row, so its bits do not depend on the others. Intel Architecture
 * Instruction Set Extensions Programming Reference, TDPBF16PS. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "compute/kernels/amx.h"
#include "compute/kernels/kernels.h"

#define MULTIPLY(i, inputs) \
    _tile_loadd(inputs, x + (int64_t)(i) * AMX_ROWS * ldx + k * 32, (size_t)ldx * sizeof *x); \
    _tile_dpbf16ps(i, inputs, AMX_WEIGHTS);
#define SAVE(i) \
    if ((i) < blocks) { \
        if (n_out == LSK_TILE) _tile_stored(i, y + (int64_t)(i) * AMX_ROWS * ldy + t * LSK_TILE, (size_t)ldy * sizeof *y); \
        else { \
            _tile_stored(i, part, LSK_TILE * sizeof *part); \
            for (int32_t r = 0; r < ((i) + 1 < blocks ? AMX_ROWS : last); r++) \
                memcpy(y + ((int64_t)(i) * AMX_ROWS + r) * ldy + t * LSK_TILE, part + r * LSK_TILE, (size_t)n_out * sizeof *y); \
        } \
    }

/* At most 64 rows. */
static void some_rows(const lsk_matrix *m, const uint16_t *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                      int32_t t0, int32_t t1, void *scratch) {
    (void)scratch;
    const int32_t blocks = (rows + AMX_ROWS - 1) / AMX_ROWS, last = rows - (blocks - 1) * AMX_ROWS;
    amx_config c = {0};
    for (int i = 0; i <= AMX_LAST_INPUTS; i++)
        amx_shape(&c, i, i == blocks - 1 || i == AMX_LAST_INPUTS ? last : AMX_ROWS, AMX_BYTES);
    amx_configure(&c);
    for (int32_t t = t0; t < t1; t++) {
        const unsigned char *w = m->data + (size_t)t * m->tile_bytes;
        const int32_t n_out = m->n_out - t * LSK_TILE < LSK_TILE ? m->n_out - t * LSK_TILE : LSK_TILE;
        float part[AMX_ROWS * LSK_TILE];
        AMX_FOUR(AMX_ZERO)
        for (int32_t k = 0; k < m->n_in / 32; k++, w += 1024) {
            lsk_prefetch(w, 1024);
            _tile_loadd(AMX_WEIGHTS, w, 64);
            AMX_MULTIPLY(blocks)
        }
        AMX_FOUR(SAVE)
    }
    _tile_release();
}

void lsk_amx_matmul_bf16(const lsk_matrix *m, const uint16_t *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                         int32_t t0, int32_t t1, void *scratch) {
    enum { MOST = AMX_ROWS * AMX_BLOCKS };
    lsk_matmul_bf16 *const how = m->format == LSK_BF16 ? some_rows : lsk_amx_matmul_packed;
    for (int32_t r = 0; r < rows; r += MOST)
        how(m, x + r * ldx, ldx, y + r * ldy, ldy, rows - r < MOST ? rows - r : MOST, t0, t1, scratch);
}
