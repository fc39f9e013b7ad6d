/* bf16 by AMX tiles: a tile of 16 rows of inputs (32 bf16 each) times 16 pairs x 16 outputs of packed weights. Any number
 * of rows runs the same instructions on a row, so its bits do not depend on the others.
 * Intel Architecture Instruction Set Extensions Programming Reference, TDPBF16PS. */
#include "torch/kernels/kernels.h"

#include <string.h>

#ifdef LSK_AMX_EMULATED
#include LSK_AMX_EMULATED /* the tile functions in plain C, for tests */
#else
#include <cpuid.h>
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { ROWS = 16, BLOCKS = 4 };
/* Tile numbers are part of the instructions, so they are spelled by the preprocessor. Sums are tiles 0..3. */
#define WEIGHTS 4
#define INPUTS 5
#define LAST_INPUTS 6

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

#define MULTIPLY(i, inputs) \
    _tile_loadd(inputs, x + (int64_t)(i) * ROWS * ldx + k * 32, (size_t)ldx * sizeof *x); \
    _tile_dpbf16ps(i, inputs, WEIGHTS);
#define SAVE(i) \
    if ((i) < blocks) { \
        if (n_out == LSK_TILE) _tile_stored(i, y + (int64_t)(i) * ROWS * ldy + t * LSK_TILE, (size_t)ldy * sizeof *y); \
        else { \
            _tile_stored(i, part, LSK_TILE * sizeof *part); \
            for (int32_t r = 0; r < ((i) + 1 < blocks ? ROWS : last); r++) \
                memcpy(y + ((int64_t)(i) * ROWS + r) * ldy + t * LSK_TILE, part + r * LSK_TILE, (size_t)n_out * sizeof *y); \
        } \
    }

/* At most 64 rows. */
static void some_rows(const lsk_matrix *m, const uint16_t *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                      int32_t t0, int32_t t1) {
    const int32_t blocks = (rows + ROWS - 1) / ROWS, last = rows - (blocks - 1) * ROWS;
    tile_config c = {.palette = 1};
    for (int i = 0; i <= LAST_INPUTS; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = (uint8_t)(i == blocks - 1 || i == LAST_INPUTS ? last : ROWS);
    }
    __asm__ volatile("" : : "r"(&c) : "memory"); /* the intrinsic does not say that it reads all of it */
    _tile_loadconfig(&c);
    for (int32_t t = t0; t < t1; t++) {
        const unsigned char *w = m->data + (size_t)t * m->tile_bytes;
        const int32_t n_out = m->n_out - t * LSK_TILE < LSK_TILE ? m->n_out - t * LSK_TILE : LSK_TILE;
        float part[ROWS * LSK_TILE];
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int32_t k = 0; k < m->n_in / 32; k++, w += 1024) {
            for (int i = 0; i < 1024; i += 64) __builtin_prefetch(w + 4096 + i);
            _tile_loadd(WEIGHTS, w, 64);
            switch (blocks) { /* all but the last block are full */
            case 1: MULTIPLY(0, LAST_INPUTS) break;
            case 2: MULTIPLY(0, INPUTS) MULTIPLY(1, LAST_INPUTS) break;
            case 3: MULTIPLY(0, INPUTS) MULTIPLY(1, INPUTS) MULTIPLY(2, LAST_INPUTS) break;
            default: MULTIPLY(0, INPUTS) MULTIPLY(1, INPUTS) MULTIPLY(2, INPUTS) MULTIPLY(3, LAST_INPUTS) break;
            }
        }
        SAVE(0)
        SAVE(1)
        SAVE(2)
        SAVE(3)
    }
    _tile_release();
}

void lsk_amx_matmul_bf16(const lsk_matrix *m, const uint16_t *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                         int32_t t0, int32_t t1) {
    for (int32_t r = 0; r < rows; r += ROWS * BLOCKS)
        some_rows(m, x + r * ldx, ldx, y + r * ldy, ldy, rows - r < ROWS * BLOCKS ? rows - r : ROWS * BLOCKS, t0, t1);
}

#ifndef LSK_AMX_EMULATED
/* Whether the tiles compute what plain C does: a wrong or half-enabled unit is not used. */
static int right(void) {
    enum { N_IN = 64, TEST_ROWS = 19 };
    static uint16_t x[TEST_ROWS * N_IN];
    static float w[LSK_TILE * N_IN], y[TEST_ROWS * LSK_TILE];
    static unsigned char packed[LSK_TILE * N_IN * 2 + 4096] __attribute__((aligned(64)));
    lsk_matrix m;
    lsk_pack_init(&m, 0, LSK_TILE, N_IN, LSK_ARITH_BF16);
    m.data = packed;
    for (int i = 0; i < LSK_TILE * N_IN; i++) w[i] = (float)(i * 37 % 101 - 50); /* small integers: sums are exact */
    for (int i = 0; i < TEST_ROWS * N_IN; i++) x[i] = lsk_float_to_bf16((float)(i * 53 % 89 - 44));
    lsk_pack_rows(&m, 0, 0, w, LSK_TILE);
    lsk_amx_matmul_bf16(&m, x, N_IN, y, LSK_TILE, TEST_ROWS, 0, 1);
    for (int r = 0; r < TEST_ROWS; r++)
        for (int o = 0; o < LSK_TILE; o++) {
            int32_t want = 0;
            for (int k = 0; k < N_IN; k++) want += ((r * N_IN + k) * 53 % 89 - 44) * ((o * N_IN + k) * 37 % 101 - 50);
            if (y[r * LSK_TILE + o] != (float)want) return 0;
        }
    return 1;
}

int64_t lsk_amx_peak(int64_t rounds) {
    tile_config c = {.palette = 1};
    for (int i = 0; i <= LAST_INPUTS; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = ROWS;
    }
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
    _tile_zero(WEIGHTS);
    _tile_zero(INPUTS);
    for (int64_t n = 0; n < rounds; n++) {
        _tile_dpbf16ps(0, INPUTS, WEIGHTS);
        _tile_dpbf16ps(1, INPUTS, WEIGHTS);
        _tile_dpbf16ps(2, INPUTS, WEIGHTS);
        _tile_dpbf16ps(3, INPUTS, WEIGHTS);
    }
    _tile_release();
    return rounds * 4 * ROWS * ROWS * 32;
}

static sigjmp_buf refused;
static void on_refusal(int signal) {
    (void)signal;
    siglongjmp(refused, 1);
}

/* Runs the check behind a signal handler: a unit that refuses its instructions is not used. */
static int right_and_alive(void) {
    struct sigaction a = {.sa_handler = on_refusal}, old;
    sigaction(SIGILL, &a, &old);
    const int ok = sigsetjmp(refused, 1) ? 0 : right();
    sigaction(SIGILL, &old, NULL);
    return ok;
}

int lsk_amx_usable(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    enum { BF16 = 1 << 22, TILES = 1 << 24, BOTH = BF16 | TILES }; /* of leaf 7; clang before 17 has no names for them */
    static int answer = -1;
    unsigned a, b, c, d;
    if (answer < 0)
        answer = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BOTH) == BOTH &&
                 !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) && right_and_alive();
    return answer;
}
#endif
