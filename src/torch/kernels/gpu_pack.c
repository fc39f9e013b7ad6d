/* Packs weights for the CUDA kernels. */
#include "torch/kernels/gpu.h"
#include "torch/kernels/kernels.h"

#include <string.h>

static lsg_format format_of(int type) {
    switch (type) {
    case LS_GGML_F32:
    case LS_GGML_BF16: return LSG_BF16;
    case LS_GGML_F16: return LSG_F16;
    case LS_GGML_Q4_0:
    case LS_GGML_Q4_1: return LSG_Q4;
    case LS_GGML_Q8_0: return LSG_Q8;
    case LS_GGML_Q4_K: return LSG_Q4S;
    default: return LSG_Q8S;
    }
}

/* Of a tile of 16 outputs by 32 inputs. */
static size_t tile_bytes(lsg_format f) {
    return f == LSG_BF16 || f == LSG_F16 ? 1024 : f == LSG_Q4 || f == LSG_Q4S ? 256 : 512;
}
static size_t tile_scale_bytes(lsg_format f) {
    static const size_t of_output[] = {[LSG_Q4] = 4, [LSG_Q8] = 2, [LSG_Q4S] = 8, [LSG_Q8S] = 16};
    return f == LSG_BF16 || f == LSG_F16 ? 0 : LSG_TILE * of_output[f];
}
static size_t n_tiles(const lsg_matrix *m) {
    return ((size_t)m->n_out + 2 * LSG_TILE - 1) / (2 * LSG_TILE) * 2 * ((size_t)m->n_in / LSG_GROUP);
}
static size_t rounded(size_t n) {
    return (n + 255) / 256 * 256;
}
size_t lsg_weight_bytes(const lsg_matrix *m) {
    return rounded(n_tiles(m) * tile_bytes(m->format));
}
size_t lsg_scale_bytes(const lsg_matrix *m) {
    return rounded(n_tiles(m) * tile_scale_bytes(m->format));
}

/* Enough blocks for two on each of a large card's some 132 multiprocessors, each with as many outputs as possible,
 * since every block reads all inputs of its chunk; chunks of at least eight groups, and few, since their sums are added
 * by the next kernel. */
static void split(lsg_matrix *m) {
    enum { ENOUGH = 132, WANTED = 264, LEAST_GROUPS = 8 };
    const int32_t groups = m->n_in / LSG_GROUP, most = groups / LEAST_GROUPS < 1 ? 1 : groups / LEAST_GROUPS;
    for (m->warps_out = 4;; m->warps_out /= 2) {
        const int32_t blocks = (m->n_out + 32 * m->warps_out - 1) / (32 * m->warps_out);
        int32_t chunks = blocks >= ENOUGH ? 1 : (WANTED + blocks - 1) / blocks;
        if (chunks > most) chunks = most;
        if (chunks > LSG_MATMUL_CHUNKS) chunks = LSG_MATMUL_CHUNKS;
        m->chunk_groups = (groups + chunks - 1) / chunks;
        m->chunks = (groups + m->chunk_groups - 1) / m->chunk_groups;
        if (blocks * m->chunks >= ENOUGH || m->warps_out == 1) return;
    }
}

int lsg_matrix_init(lsg_matrix *m, int type, int64_t n_out, int64_t n_in) {
    if (n_out < 1 || n_out > INT32_MAX / 2 || n_in < 1 || n_in > INT32_MAX / 2 || n_in % LSG_GROUP ||
        !lsk_row_bytes(type, n_in))
        return -1;
    *m = (lsg_matrix){.format = format_of(type), .n_out = (int32_t)n_out, .n_in = (int32_t)n_in};
    split(m);
    return 0;
}

/* The place of a value: its byte, and its nibble in it. */
typedef struct {
    size_t tile, byte;
    int nibble;
} place;
static place place_of(const lsg_matrix *m, int64_t o, int64_t k) {
    const size_t tile = (size_t)(o / LSG_TILE) * (size_t)(m->n_in / LSG_GROUP) + (size_t)(k / LSG_GROUP);
    const size_t half = (size_t)(o % LSG_TILE / 8), lane = (size_t)(o % 8 * 4 + k % LSG_GROUP / 8), j = (size_t)k % 8;
    const size_t at = tile * tile_bytes(m->format);
    switch (m->format) {
    case LSG_BF16:
    case LSG_F16: return (place){tile, at + half * 512 + lane * 16 + j * 2, 0};
    case LSG_Q8:
    case LSG_Q8S: return (place){tile, at + lane * 16 + half * 8 + j, 0};
    default: { /* pairs of neighbours are 16 bits apart: one mask makes two halves of a word */
        const size_t nibble = j / 2 + 4 * (j % 2);
        return (place){tile, at + lane * 8 + half * 4 + nibble / 2, (int)(nibble % 2)};
    }
    }
}

static unsigned char *scale_of(const lsg_matrix *m, unsigned char *scales, size_t tile, int64_t o, int64_t k) {
    const size_t r = (size_t)(o % LSG_TILE);
    unsigned char *p = scales + tile * tile_scale_bytes(m->format);
    switch (m->format) {
    case LSG_Q4: return p + r * 4;
    case LSG_Q8: return p + r * 2;
    case LSG_Q4S: return p + r * 8;
    default: return p + ((size_t)(k % LSG_GROUP / 16) * LSG_TILE + r) * 8;
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
    const uint16_t s = lsk_float_to_half(scale), least = lsk_float_to_half(min);
    memcpy(to, &s, 2);
    if (m->format == LSG_Q4) memcpy(to + 2, &least, 2);
}

void lsg_pack_rows(const lsg_matrix *m, uint8_t *host, int64_t row_begin, int type, const void *raw, int64_t n_rows) {
    enum { PIECE = 256 }; /* values; whole blocks of every type */
    const size_t row_bytes = lsk_row_bytes(type, m->n_in);
    uint8_t *scales = host + lsg_weight_bytes(m);
    const int plain = m->format == LSG_BF16 || m->format == LSG_F16,
              as_is = type == LS_GGML_F16 || type == LS_GGML_BF16;
    float values[PIECE], scale[PIECE / 16], min[PIECE / 16];
    int8_t q[PIECE];
    for (int64_t r = 0; r < n_rows; r++) {
        const unsigned char *src = (const unsigned char *)raw + (size_t)r * row_bytes;
        const int64_t o = row_begin + r;
        for (int64_t k = 0; k < m->n_in; k += 8) { /* eight neighbours are stored together */
            const int64_t i = k % PIECE, n = m->n_in - k < PIECE ? m->n_in - k : PIECE;
            if (i == 0 && !plain) lsk_unpack_row(type, src + lsk_row_bytes(type, k), n, q, scale, min);
            else if (i == 0 && !as_is) lsk_dequant_row(type, src + lsk_row_bytes(type, k), n, values);
            const place at = place_of(m, o, k);
            unsigned char *to = host + at.byte;
            if (as_is) memcpy(to, src + 2 * k, 16);
            else if (plain)
                for (int j = 0; j < 8; j++) {
                    const uint16_t bits = lsk_float_to_bf16(values[i + j]);
                    memcpy(to + 2 * j, &bits, 2);
                }
            else if (m->format == LSG_Q8 || m->format == LSG_Q8S) memcpy(to, q + i, 8);
            else {
                uint32_t word = 0;
                for (int j = 0; j < 8; j++) word |= (uint32_t)(q[i + j] & 15) << (2 * j + j % 2 * 14);
                memcpy(to, &word, 4);
            }
            if (!plain && k % 16 == 0) pack_scale(m, scale_of(m, scales, at.tile, o, k), scale[i / 16], min[i / 16]);
        }
    }
}

float lsg_value(const lsg_matrix *m, int64_t o, int64_t k) {
    const place at = place_of(m, o, k);
    uint16_t bits;
    memcpy(&bits, m->weights + at.byte, 2);
    if (m->format == LSG_F16) return lsk_half_to_float(bits);
    if (m->format == LSG_BF16) {
        const uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, 4);
        return f;
    }
    const unsigned char *s = scale_of(m, (unsigned char *)(uintptr_t)m->scales, at.tile, o, k);
    const int byte = m->weights[at.byte],
              q = m->format == LSG_Q8 || m->format == LSG_Q8S ? (int8_t)byte : byte >> 4 * at.nibble & 15;
    float scale, min = 0;
    if (m->format == LSG_Q4S || m->format == LSG_Q8S) {
        memcpy(&scale, s, 4);
        memcpy(&min, s + 4, 4);
    } else {
        memcpy(&bits, s, 2);
        scale = lsk_half_to_float(bits);
        if (m->format == LSG_Q4) {
            memcpy(&bits, s + 2, 2);
            min = lsk_half_to_float(bits);
        }
    }
    return (float)q * scale + min;
}
