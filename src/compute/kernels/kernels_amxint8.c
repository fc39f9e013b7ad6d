/* i8 and mixed arithmetic by AMX tiles. TDPBSUD adds up what vpdpbusd does: a tile of the rows' inputs (signed bytes,
 * 32 of a group a row) times one of the weights (8 rows of 16 outputs x 4 unsigned bytes, which is how 8-bit weights
 * are packed) gives the group's exact sums for 16 rows and 16 outputs. The float operations are those of all levels,
 * and so are the bits. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "compute/kernels/amx.h"
#include "compute/kernels/vector_avx512.h"

#include "compute/kernels/kernels_intgroup.h"

/* A tile that is loaded right after its bytes were stored waits for them, so weights of 4 bits are unpacked two groups
 * ahead, and a group's sums are read one group later. */
enum { AHEAD = 2, SLOTS = 4, GROUP_BYTES = 32 * LSK_TILE };

/* Two sets of tiles, used in turn: sums, inputs, weights. */
#define SHAPE(c, rows, sums, inputs, weights) \
    amx_shape(c, sums, rows, AMX_BYTES), amx_shape(c, inputs, rows, 32), amx_shape(c, weights, 8, AMX_BYTES);
#define MULTIPLY(sums, inputs, weights, x, w, to) \
    _tile_zero(sums); \
    _tile_loadd(inputs, (x)->hi, sizeof(lsk_group)); \
    _tile_loadd(weights, w, AMX_BYTES); \
    _tile_dpbsud(sums, inputs, weights); \
    _tile_stored(sums, to, AMX_BYTES);

static inline __attribute__((always_inline)) void unpack(const uint8_t *q, uint8_t *to) {
    const int_group w = {.bits = 4, .has_min = 1, .q = q};
    EACH(j, 0, 8) _mm512_store_si512(to + 64 * j, (__m512i)int_bytes(&w, j, 0));
}

static inline __attribute__((always_inline)) void block(const int rows, const int q4, const lsk_matrix *m,
                                                        const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                                                        int32_t tile, int32_t end, ahead next) {
    uint8_t unpacked[SLOTS][GROUP_BYTES] __attribute__((aligned(64)));
    int32_t sums[2][AMX_ROWS * LSK_TILE] __attribute__((aligned(64)));
    const lsk_format format = q4 ? LSK_Q4I : LSK_Q8I;
    const size_t size = q4 ? sizeof(lsk_q4) : sizeof(lsk_q8), before = q4 ? offsetof(lsk_q4, q) : offsetof(lsk_q8, q);
    const int32_t groups = m->n_in / 32, n = groups * (end - tile);
    const unsigned char *w = m->data + (size_t)tile * m->tile_bytes; /* of the groups that are multiplied */
    const lsk_group *of = x;
    __m512 f[AMX_ROWS];
    EACH(r, 0, rows) f[r] = _mm512_setzero_ps();
    for (int32_t i = 0; q4 && i < AHEAD && i < n; i++) unpack(w + (size_t)i * size + before, unpacked[i]);
    for (int32_t i = 0, g = 0; i <= n; i++, w += size) { /* multiplies group i, then adds group i - 1 */
        if (i < n) {
            if (next.lines) next = fetch(next);
            else lsk_prefetch(w, (int)size);
            if (q4 && i + AHEAD < n) unpack(w + AHEAD * size + before, unpacked[(i + AHEAD) % SLOTS]);
            const unsigned char *from = q4 ? unpacked[i % SLOTS] : w + before;
            amx_reads(from);
            if (i % 2) {
                MULTIPLY(3, 4, 5, of, from, sums[1])
            } else {
                MULTIPLY(0, 1, 2, of, from, sums[0])
            }
            of = (i + 1) % groups ? of + ldx : x;
        }
        if (!i) continue;
        const int_group group = int_group_at(format, w - size, 0);
        const int_scales s = int_scales_at(&group, 0, 0);
        const int32_t *dot = sums[(i - 1) % 2];
        const lsk_group *a = x + g * ldx;
        EACH(r, 0, rows) f[r] = int_add(&group, &s, 0, (vi)_mm512_load_si512(dot + r * LSK_TILE), a + r, f[r]);
        if (++g < groups) continue;
        g = 0;
        const __mmask16 keep = vf_outputs(m, tile);
        EACH(r, 0, rows) {
            _mm512_mask_storeu_ps(y + r * ldy + tile * LSK_TILE, keep, f[r]);
            f[r] = _mm512_setzero_ps();
        }
        tile++;
    }
}

#define KERNEL(ROWS) \
    static __attribute__((noinline)) void rows_##ROWS(const lsk_matrix *m, const lsk_group *x, int64_t ldx, float *y, \
                                                      int64_t ldy, int32_t tile, int32_t end, ahead next) { \
        if (m->format == LSK_Q4I) block(ROWS, 1, m, x, ldx, y, ldy, tile, end, next); \
        else block(ROWS, 0, m, x, ldx, y, ldy, tile, end, next); \
    }
#define FROM_LEAST(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
FROM_LEAST(KERNEL)
#define ENTRY(ROWS) rows_##ROWS,

int32_t lsk_amx_pass(int32_t rows) {
    const int32_t passes = (rows + AMX_ROWS - 1) / AMX_ROWS;
    return (rows + passes - 1) / passes;
}

/* Many rows are taken in passes of as many rows each, of which neighbours may share one; tile by tile, so that weights
 * come from memory once. */
void lsk_amx_matmul_int8(const lsk_matrix *m, lsk_arith arith, const lsk_group *x, int64_t ldx, float *y, int64_t ldy,
                         int32_t rows, int32_t t0, int32_t t1, void *scratch) {
    static void (*const kernels[])(const lsk_matrix *, const lsk_group *, int64_t, float *, int64_t, int32_t, int32_t,
                                   ahead) = {FROM_LEAST(ENTRY)};
    const int32_t each = lsk_amx_pass(rows), passes = (rows + each - 1) / each;
    const int32_t at_once = passes == 1 ? t1 - t0 : 1, groups = m->n_in / 32,
                  group_lines = (int32_t)(m->tile_bytes / 64) / groups;
    const lsk_wide_rows wide = lsk_find_wide(m, arith, x, ldx, rows, scratch);
    amx_config c = {0};
    SHAPE(&c, each, 0, 1, 2)
    SHAPE(&c, each, 3, 4, 5)
    amx_configure(&c);
    for (int32_t t = t0; t < t1; t += at_once) {
        for (int32_t i = 0; i < passes; i++) {
            const int32_t from = passes == 1 ? 0 : (rows - each) * i / (passes - 1);
            const ahead next = share_of(m->data + (size_t)(t + 1) * m->tile_bytes, i, passes, groups, group_lines);
            kernels[each - LSK_AMX_LEAST](m, x + from, ldx, y + from * ldy, ldy, t, t + at_once, next);
        }
        for (int32_t done = t; done < t + at_once; done++)
            lsk_avx512vnni_add_wide(m, &wide, y, ldy, rows, done);
    }
    _tile_release();
}
