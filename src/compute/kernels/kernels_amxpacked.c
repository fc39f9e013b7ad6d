/* bf16 by AMX tiles from weights that stay packed in 4 or 8 bits: a step reads a third or half of what their bf16 would
 * be. A group of 32 inputs of 16 outputs is unpacked to the bf16 numbers that kernels.c packs them to, one output a row
 * of a tile, and multiplied by a tile of inputs, 16 pairs x up to 16 rows. So the sums stand output by output. Any
 * number of rows runs the same instructions on a row. */
/* Not formatted by a program: it would join macros that are statements, and lines of tables. */
/* clang-format off */
#include "compute/kernels/amx.h"
#include "compute/kernels/vector_avx512.h"

/* A tile that is loaded right after its bytes were stored waits for them, so groups are unpacked two ahead. */
enum { AHEAD = 2, SLOTS = 4, PAIRS = 16, TILE_WORDS = AMX_ROWS * AMX_BYTES / 4 };

static inline __attribute__((always_inline)) __m512i bf16_of(__m512 first, __m512 second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

/* Of 4 bits: an output has 16 possible values. A table for two outputs fills a register; each byte of a number is looked
 * up by its weight, doubled, + 1 for the high one, + 32 for the second output. */
static inline __attribute__((always_inline)) void unpack_q4b(const lsk_q4 *p, char *to) {
    const __m512 steps = _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i doubled = _mm512_set1_epi8(0x1E), odd = _mm512_set1_epi16(0x100),
                  odd_second = _mm512_set1_epi16(0x2120);
    /* of the 64 bits at 8 bytes: the bits from 4n - 1 on for n = 0..3 in the first two words of eight bytes, .. */
    const __m512i at = _mm512_set_epi64(0x3B3B373733332F2F, 0x3B3B373733332F2F, 0x2B2B272723231F1F, 0x2B2B272723231F1F,
                                        0x1B1B171713130F0F, 0x1B1B171713130F0F, 0x0B0B070703033F3F, 0x0B0B070703033F3F);
    float scale[LSK_TILE], min[LSK_TILE];
    vf_store(scale, vf_half(p->scale));
    vf_store(min, vf_half(p->min));
    for (int o = 0; o < LSK_TILE; o += 2) {
        const __m512i table = bf16_of(_mm512_fmadd_ps(steps, _mm512_set1_ps(scale[o]), _mm512_set1_ps(min[o])),
                                      _mm512_fmadd_ps(steps, _mm512_set1_ps(scale[o + 1]), _mm512_set1_ps(min[o + 1])));
        const __m512i first = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(p->q + 16 * o))),
                      second = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(p->q + 16 * o + 16)));
        /* (bits & mask) | constant */
        const __m512i i = _mm512_ternarylogic_epi64(_mm512_multishift_epi64_epi8(at, first), doubled, odd, 0xEA),
                      j = _mm512_ternarylogic_epi64(_mm512_multishift_epi64_epi8(at, second), doubled, odd_second,
                                                    0xEA);
        _mm512_store_si512(to + AMX_BYTES * o, _mm512_permutexvar_epi8(i, table));
        _mm512_store_si512(to + AMX_BYTES * o + AMX_BYTES, _mm512_permutexvar_epi8(j, table));
    }
}

static inline __attribute__((always_inline)) void unpack_q8b(const lsk_q8 *p, char *to) {
    float scale[LSK_TILE];
    vf_store(scale, vf_half(p->scale));
    for (int o = 0; o < LSK_TILE; o++) {
        const __m512 d = _mm512_set1_ps(scale[o]);
        _mm512_store_si512(to + AMX_BYTES * o, bf16_of(_mm512_mul_ps(vf_i8(p->q + 32 * o), d),
                                                       _mm512_mul_ps(vf_i8(p->q + 32 * o + 16), d)));
    }
}

/* The columns of 16 rows of 32-bit words, ld bytes apart; rows beyond n count as 0. */
static void transpose(const void *x, int64_t ld, int n, __m512i *r) {
    __m512i t[AMX_ROWS];
    for (int i = 0; i < AMX_ROWS; i++) r[i] = i < n ? _mm512_loadu_si512((const char *)x + i * ld) : _mm512_setzero_si512();
    for (int i = 0; i < AMX_ROWS; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < AMX_ROWS; i += 4)
        for (int j = 0; j < 2; j++) { /* of rows i .. i + 3 columns 2j and 2j + 1 of each four */
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 2; i++) { /* columns c, 4 + c, .. of rows 8i .. 8i + 7 */
            t[c + 8 * i] = _mm512_shuffle_i32x4(r[8 * i + c], r[8 * i + 4 + c], 0x88);
            t[c + 8 * i + 4] = _mm512_shuffle_i32x4(r[8 * i + c], r[8 * i + 4 + c], 0xDD);
        }
    for (int c = 0; c < 4; c++) {
        r[c] = _mm512_shuffle_i32x4(t[c], t[c + 8], 0x88);
        r[c + 8] = _mm512_shuffle_i32x4(t[c], t[c + 8], 0xDD);
        r[c + 4] = _mm512_shuffle_i32x4(t[c + 4], t[c + 12], 0x88);
        r[c + 12] = _mm512_shuffle_i32x4(t[c + 4], t[c + 12], 0xDD);
    }
}

#define MULTIPLY(i, inputs) \
    _tile_loadd(inputs, in + (i) * TILE_WORDS, stride); \
    _tile_dpbf16ps(i, AMX_WEIGHTS, inputs);
#define SAVE(i) \
    if ((i) < blocks) { \
        _tile_stored(i, sums, AMX_BYTES); \
        transpose(sums, AMX_BYTES, AMX_ROWS, columns); \
        for (int32_t r = 0; r < ((i) + 1 < blocks ? AMX_ROWS : last); r++) \
            _mm512_mask_storeu_epi32(y + (AMX_ROWS * (i) + r) * ldy + tile * LSK_TILE, keep, columns[r]); \
        _tile_zero(i); \
    }

/* At most 64 rows. */
static inline __attribute__((always_inline)) void some_rows(const int q4, const lsk_matrix *m, const uint16_t *x,
                                                            int64_t ldx, float *y, int64_t ldy, int32_t rows,
                                                            int32_t tile, int32_t end, uint32_t *panel) {
    char unpacked[SLOTS][LSK_TILE * AMX_BYTES] __attribute__((aligned(64)));
    float sums[LSK_TILE * AMX_ROWS] __attribute__((aligned(64)));
    __m512i columns[AMX_ROWS];
    const size_t size = q4 ? sizeof(lsk_q4) : sizeof(lsk_q8);
    const int32_t blocks = (rows + AMX_ROWS - 1) / AMX_ROWS, last = rows - (blocks - 1) * AMX_ROWS;
    const int32_t groups = m->n_in / 32, n = groups * (end - tile);
    const uint32_t *in = panel;
    int32_t stride = AMX_BYTES, step = blocks * TILE_WORDS;
    if (rows == 1) in = (const uint32_t *)x, stride = sizeof *in, step = PAIRS; /* a row is a column */
    for (int32_t g = 0; rows > 1 && g < groups; g++)
        for (int32_t b = 0; b < blocks; b++)
            transpose(x + (int64_t)b * AMX_ROWS * ldx + 32 * g, ldx * (int64_t)sizeof *x,
                      b + 1 < blocks ? AMX_ROWS : last, (__m512i *)(panel + g * step + b * TILE_WORDS));
    amx_config c = {0};
    for (int i = 0; i < AMX_BLOCKS; i++) amx_shape(&c, i, LSK_TILE, i + 1 == blocks ? 4 * last : AMX_BYTES);
    amx_shape(&c, AMX_WEIGHTS, LSK_TILE, AMX_BYTES);
    amx_shape(&c, AMX_INPUTS, PAIRS, AMX_BYTES);
    amx_shape(&c, AMX_LAST_INPUTS, PAIRS, 4 * last);
    amx_configure(&c);
    AMX_FOUR(AMX_ZERO)
    const unsigned char *w = m->data + (size_t)tile * m->tile_bytes;
#define UNPACK(i) \
    if (q4) unpack_q4b((const lsk_q4 *)(w + (i) * size), unpacked[(done + (i)) % SLOTS]); \
    else unpack_q8b((const lsk_q8 *)(w + (i) * size), unpacked[(done + (i)) % SLOTS]);
    int32_t done = 0, g = 0;
    for (int i = 0; i < AHEAD && i < n; i++) { UNPACK(i) }
    for (; done < n; done++, w += size) {
        lsk_prefetch(w, (int)size);
        if (done + AHEAD < n) { UNPACK(AHEAD) }
        amx_reads(unpacked);
        _tile_loadd(AMX_WEIGHTS, unpacked[done % SLOTS], AMX_BYTES);
        AMX_MULTIPLY(blocks)
        in += step;
        if (++g < groups) continue;
        const __mmask16 keep = vf_outputs(m, tile);
        AMX_FOUR(SAVE)
        in -= groups * step, g = 0, tile++;
    }
    _tile_release();
}

void lsk_amx_matmul_packed(const lsk_matrix *m, const uint16_t *x, int64_t ldx, float *y, int64_t ldy, int32_t rows,
                           int32_t t0, int32_t t1, void *scratch) {
    if (m->format == LSK_Q4B) some_rows(1, m, x, ldx, y, ldy, rows, t0, t1, scratch);
    else some_rows(0, m, x, ldx, y, ldy, rows, t0, t1, scratch);
}
