/* Packs weights for the CUDA kernels. */
#include "compute/kernels/gpu.h"
#include "compute/kernels/kernels.h"

#include <string.h>

size_t lsg_matrix_bytes(const lsg_matrix *m) {
    return lsg_matrix_size(m->format, m->n_out, m->n_in);
}

int lsg_matrix_init(lsg_matrix *m, int type, int64_t n_out, int64_t n_in, lsg_gpu gpu) {
    if (n_out < 1 || n_out > INT32_MAX / 2 || n_in < 1 || n_in > INT32_MAX / 2 || n_in % LSG_GROUP ||
        !lsk_row_bytes(type, n_in))
        return -1;
    *m = (lsg_matrix){.format = lsg_format_of(type),
                      .n_out = (int32_t)n_out,
                      .n_in = (int32_t)n_in,
                      .cut = lsg_cut_of(lsg_format_of(type), n_out, n_in, gpu)};
    return 0;
}

/* The place of a value: its byte, and its nibble in it; and that of its scale. */
typedef struct {
    size_t byte, scale;
    int nibble;
} place;
static place place_of(const lsg_matrix *m, int64_t o, int64_t k) {
    const size_t tile = (size_t)(o / LSG_TILE) * (size_t)(m->n_in / LSG_GROUP) + (size_t)(k / LSG_GROUP),
                 at = tile * (size_t)lsg_tile_bytes(m->format), in = (size_t)(k % LSG_GROUP), r = (size_t)o % 8,
                 t = (size_t)o % LSG_TILE / 16, half = (size_t)o % 16 / 8;
    const int apart = m->format == LSG_Q8S; /* steps take inputs 0-15 and 16-31 */
    const size_t c = apart ? in % 16 / 4 : in / 8, j = apart ? in / 16 * 4 + in % 4 : in % 8, lane = r * 4 + c;
    const size_t of_output = (size_t)lsg_tile_of(m->format).scales / (LSG_TILE * (apart ? 2 : 1)),
                 scale = at + (size_t)lsg_tile_of(m->format).values +
                         ((apart ? in / 16 * LSG_TILE : 0) + r * 4 + t * 2 + half) * of_output;
    switch (m->format) {
    case LSG_BF16:
    case LSG_F16: return (place){at + t * 1024 + j / 4 * 512 + lane * 16 + j % 4 / 2 * 8 + half * 4 + j % 2 * 2, 0, 0};
    case LSG_Q8:
    case LSG_Q8S: return (place){at + t * 512 + lane * 16 + half * 8 + j / 4 * 4 + j % 2 * 2 + j % 4 / 2, scale, 0};
    default: {
        const size_t nibble = j / 2 + 4 * (j % 2);
        return (place){at + lane * 16 + t * 8 + half * 4 + nibble / 2, scale, (int)(nibble % 2)};
    }
    }
}

/* The scale (and minimum) of inputs k .. k + 15 of output o. */
static void pack_scale(const lsg_matrix *m, unsigned char *to, float scale, float min) {
    if (m->format == LSG_Q4S || m->format == LSG_Q8S) {
        memcpy(to, &scale, 4);
        memcpy(to + 4, &min, 4);
        return;
    }
    /* exact: an f16 of the file, or eight times one */
    const uint16_t s = ls_to_half(scale), least = ls_to_half(min);
    memcpy(to, &s, 2);
    if (m->format == LSG_Q4) memcpy(to + 2, &least, 2);
}

void lsg_pack_rows(const lsg_matrix *m, uint8_t *host, int64_t row_begin, int type, const void *raw, int64_t n_rows) {
    enum { PIECE = 256 }; /* values; whole blocks of every type */
    const size_t row_bytes = lsk_row_bytes(type, m->n_in);
    const int plain = m->format == LSG_BF16 || m->format == LSG_F16,
              as_is = type == LS_GGML_F16 || type == LS_GGML_BF16;
    float values[PIECE], scale[PIECE / 16], min[PIECE / 16];
    int8_t q[PIECE];
    for (int64_t r = 0; r < n_rows; r++) {
        const unsigned char *src = (const unsigned char *)raw + (size_t)r * row_bytes;
        const int64_t o = row_begin + r;
        for (int64_t k = 0; k < m->n_in; k += 4) { /* four neighbours lie near each other */
            const int64_t i = k % PIECE, n = m->n_in - k < PIECE ? m->n_in - k : PIECE;
            if (i == 0 && !plain) lsk_unpack_row(type, src + lsk_row_bytes(type, k), n, q, scale, min);
            else if (i == 0 && !as_is) lsk_dequant_row(type, src + lsk_row_bytes(type, k), n, values);
            const place at = place_of(m, o, k);
            unsigned char *to = host + at.byte;
            if (plain)
                for (int j = 0; j < 4; j += 2) {
                    uint16_t bits[2];
                    if (as_is) memcpy(bits, src + 2 * (k + j), 4);
                    else bits[0] = ls_to_bf16(values[i + j]), bits[1] = ls_to_bf16(values[i + j + 1]);
                    memcpy(to + 4 * j, bits, 4);
                }
            else if (m->format == LSG_Q8 || m->format == LSG_Q8S) {
                const int8_t bytes[] = {q[i], q[i + 2], q[i + 1], q[i + 3]};
                memcpy(to, bytes, 4);
            } else
                for (int j = 0; j < 2; j++) to[2 * j] = (unsigned char)((q[i + j] & 15) | (q[i + j + 2] & 15) << 4);
            if (!plain && k % 16 == 0) pack_scale(m, host + at.scale, scale[i / 16], min[i / 16]);
        }
    }
}

float lsg_value(const lsg_matrix *m, int64_t o, int64_t k) {
    const place at = place_of(m, o, k);
    const unsigned char *v = m->weights + at.byte, *s = m->weights + at.scale;
    if (m->format == LSG_F16) return lsk_half_at(v);
    if (m->format == LSG_BF16) return lsk_bf16_to_float(lsk_half_bits_at(v));
    const int q = m->format == LSG_Q8 || m->format == LSG_Q8S ? (int8_t)*v : *v >> 4 * at.nibble & 15;
    float scale = lsk_half_at(s), min = m->format == LSG_Q4 ? lsk_half_at(s + 2) : 0;
    if (m->format == LSG_Q4S || m->format == LSG_Q8S) {
        memcpy(&scale, s, 4);
        memcpy(&min, s + 4, 4);
    }
    return (float)q * scale + min;
}
