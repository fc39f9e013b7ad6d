/* Packing: GGUF rows as the kernels read them (see lsk_matrix), and one of them back. */
#include "compute/kernels/kernels_blocks.h"

/* f16 bits of -2^up * h: exact but for overflow, which lsk_finite rules out. */
static uint16_t half_times_minus(int up, uint16_t h) {
    uint16_t sign = (uint16_t)((h & 0x8000) ^ 0x8000), exp = h >> 10 & 31, man = h & 0x3FF;
    if (exp) return exp + up >= 31 ? (uint16_t)(sign | 0x7C00) : (uint16_t)(sign | (exp + up) << 10 | man);
    int shift = up;
    uint32_t m = man; /* subnormal: shift up, normalising on the way */
    while (shift && m && !(m & 0x400)) m <<= 1, shift--;
    if (!(m & 0x400)) return (uint16_t)(sign | m);
    return (uint16_t)(sign | (1 + shift) << 10 | (m & 0x3FF));
}

static lsk_format format_of(int type, lsk_arith arith) {
    const int packed = arith == LSK_ARITH_BF16_PACKED, integers = !packed && arith != LSK_ARITH_F32;
    if (packed && (type == LS_GGML_Q4_0 || type == LS_GGML_Q4_1)) return LSK_Q4B;
    if (packed && type == LS_GGML_Q8_0) return LSK_Q8B;
    if (packed || arith == LSK_ARITH_BF16) return LSK_BF16;
    switch (type) {
    case LS_GGML_F32: return LSK_F32;
    case LS_GGML_F16: return LSK_F16;
    case LS_GGML_BF16: return LSK_BF16;
    case LS_GGML_Q4_0:
    case LS_GGML_Q4_1: return integers ? LSK_Q4I : LSK_Q4;
    case LS_GGML_Q8_0: return integers ? LSK_Q8I : LSK_Q8;
    case LS_GGML_Q5_0:
    case LS_GGML_Q5_1: return integers ? LSK_Q5I : LSK_Q8S;
    case LS_GGML_IQ4_NL: return integers ? LSK_NL4I : LSK_Q8S;
    case LS_GGML_MXFP4: return integers ? LSK_MX4I : LSK_Q8S;
    case LS_GGML_NVFP4: return integers ? LSK_NV4I : LSK_Q8S;
    case LS_GGML_IQ4_XS: return integers ? LSK_XS4I : LSK_Q8S;
    case LS_GGML_Q2_K: return integers ? LSK_K2I : LSK_Q8S;
    case LS_GGML_Q3_K: return integers ? LSK_K3I : LSK_Q8S;
    case LS_GGML_Q6_K: return integers ? LSK_K6I : LSK_Q8S;
    case LS_GGML_Q5_K: return integers ? LSK_K5I : LSK_Q8S;
    case LS_GGML_Q4_K: return integers ? LSK_K4I : LSK_Q4S;
    default: return LSK_Q8S;
    }
}

size_t lsk_pack_bytes(int type, int64_t n_out, int64_t n_in, lsk_arith arith) {
    if (n_out < 1 || n_in < 1 || n_in % 32 || !lsk_row_bytes(type, n_in)) return 0;
    lsk_matrix m;
    lsk_pack_init(&m, type, n_out, n_in, arith);
    return (size_t)((n_out + LSK_TILE - 1) / LSK_TILE) * m.tile_bytes;
}

void lsk_pack_init(lsk_matrix *m, int type, int64_t n_out, int64_t n_in, lsk_arith arith) {
    m->format = format_of(type, arith);
    m->n_out = (int32_t)n_out;
    m->n_in = (int32_t)n_in;
    const ls_ggml_layout *l = ls_ggml_layout_of(m->format == LSK_BF16 ? LS_GGML_BF16 : type);
    const size_t of_32 = (size_t)(lsk_takes_integers(m->format) ? LSK_TILE / 8 * l->kept_integers : LSK_TILE * l->kept);
    m->tile_bytes = (size_t)n_in / 32 * of_32 + (m->format == LSK_NV4I ? sizeof(float[LSK_TILE]) : 0);
}

/* ---- formats for integer dot products. Four inputs of an output lie side by side, so a row's integers are packed four
 * at a time, as words: words[m] has inputs 4m to 4m + 3 of a group of 32, a byte each. */

enum { WORDS = 8 };

static uint32_t word_at(const void *p) {
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}
static void put_word(uint8_t *to, uint32_t w) {
    memcpy(to, &w, sizeof w);
}
static uint32_t each(unsigned byte) { /* four times */
    return byte * 0x01010101u;
}

/* 4 bits: inputs 0 to 15 in the low half of the bytes, 16 to 31 in the high half. */
static inline void put_fours(uint8_t *q, int64_t lane, const uint32_t *words) {
    for (int j = 0; j < 4; j++) put_word(q + 64 * j + 4 * lane, words[j] | words[j + 4] << 4);
}
/* 2 bits: inputs 0 to 15 in the first 64 bytes. */
static inline void put_twos(uint8_t *q, int64_t lane, const uint32_t *words) {
    for (int h = 0; h < 2; h++)
        put_word(q + 64 * h + 4 * lane,
                 words[4 * h] | words[4 * h + 1] << 2 | words[4 * h + 2] << 4 | words[4 * h + 3] << 6);
}
/* 1 bit. */
static inline void put_ones(uint8_t *q, int64_t lane, const uint32_t *words) {
    uint32_t all = 0;
    for (int m = 0; m < WORDS; m++) all |= words[m] << m;
    put_word(q + 4 * lane, all);
}
/* words[m] = (those at p >> shift) & mask, byte by byte */
static inline void take(uint32_t *words, const unsigned char *p, int shift, unsigned mask) {
    for (int m = 0; m < WORDS; m++) words[m] = word_at(p + 4 * m) >> shift & each(mask);
}

static inline __attribute__((always_inline)) void k_integers(int type, const unsigned char *p, int g, uint32_t *low,
                                                             uint32_t *high) {
    const int of_two = g % 4 * 2; /* of 128 values that share bytes, four parts of 32 */
    switch (type) {
    case LS_GGML_Q2_K: take(low, p + 16 + g / 4 * 32, of_two, 3); break;
    case LS_GGML_Q3_K:
        take(low, p + 32 + g / 4 * 32, of_two, 3);
        take(high, p, g, 1);
        break;
    case LS_GGML_Q6_K:
        take(low, p + g / 4 * 64 + g % 2 * 32, g % 4 / 2 * 4, 15);
        take(high, p + 128 + g / 4 * 32, of_two, 3);
        break;
    case LS_GGML_Q5_K:
        take(low, p + 48 + g / 2 * 32, g % 2 * 4, 15);
        take(high, p + 16, g, 1);
        break;
    default: take(low, p + 16 + g / 2 * 32, g % 2 * 4, 15);
    }
}
/* Bits of an integer of a K format: those in q, and those above them in high. Q3_K and Q6_K are stored without a sign.
 */
static int k_low(int type) {
    return type == LS_GGML_Q2_K || type == LS_GGML_Q3_K ? 2 : 4;
}
static int k_high(int type) {
    return type == LS_GGML_Q6_K ? 2 : type == LS_GGML_Q3_K || type == LS_GGML_Q5_K;
}
static int k_less(int type) {
    return type == LS_GGML_Q3_K ? 4 : type == LS_GGML_Q6_K ? 32 : 0;
}
void lsk_k_integers(int type, const unsigned char *block, int8_t *to) {
    for (int g = 0; g < 8; g++) {
        uint32_t low[WORDS], high[WORDS] = {0};
        k_integers(type, block, g, low, high);
        for (int m = 0; m < WORDS; m++) low[m] |= high[m] << k_low(type);
        memcpy(to + 32 * g, low, sizeof low);
    }
    for (int i = 0; i < 256; i++) to[i] = (int8_t)(to[i] - k_less(type));
}

/* 32 nibbles in the order of Q4_0. */
static void put_nibbles(uint8_t *q, int64_t lane, const unsigned char *src) {
    for (int j = 0; j < 4; j++) put_word(q + 64 * j + 4 * lane, word_at(src + 4 * j));
}

static void pack_xs4(const unsigned char *src, uint8_t *tile, int64_t lane) {
    lsk_xs4 *to = (lsk_xs4 *)tile;
    const lsk_k_scales k = lsk_k_scales_of(LS_GGML_IQ4_XS, src);
    to->d[lane] = k.d;
    for (int g = 0; g < 8; g++) {
        to->scale[g][lane] = (uint8_t)k.scale[2 * g];
        put_nibbles(to->g[g].q, lane, src + 8 + 16 * g);
    }
}

/* Block `block` of a row, all of which begin with the same number. */
static void pack_nv4(const unsigned char *src, uint8_t *tile, size_t block, int64_t lane) {
    lsk_nv4 *to = (lsk_nv4 *)lsk_nv4_at(tile, 2 * block);
    memcpy(tile + sizeof(float) * (size_t)lane, src, sizeof(float));
    for (int g = 0; g < 2; g++, to++) {
        uint32_t words[WORDS];
        for (int h = 0; h < 2; h++) to->scale[h][lane] = src[4 + 2 * g + h];
        for (int m = 0; m < WORDS; m++) /* of each 16 values the first eight are low nibbles */
            words[m] = word_at(src + 8 + 16 * g + m / 4 * 8 + m % 2 * 4) >> m % 4 / 2 * 4 & each(15);
        put_fours(to->q, lane, words);
    }
}

/* Packs a block of a row of a K format. All blocks begin alike. */
static void pack_k(int type, const unsigned char *src, uint8_t *tile, int64_t lane) {
    lsk_k4 *to = (lsk_k4 *)tile;
    const lsk_k_scales k = lsk_k_scales_of(type, src);
    to->d[lane] = k.d;
    to->dmin[lane] = k.dmin;
    uint8_t *q = tile + offsetof(lsk_k4, g);
    for (int g = 0; g < 8; g++) {
        uint32_t low[WORDS], high[WORDS] = {0};
        k_integers(type, src, g, low, high);
        const int two = type == LS_GGML_Q2_K; /* scales and minima in a byte */
        to->scale[g][lane] = (uint8_t)(k.scale[2 * g] | (two ? k.scale[2 * g + 1] << 4 : 0));
        to->min[g][lane] =
            (uint8_t)(k_less(type) ? k.scale[2 * g + 1] : k.min[2 * g] | (two ? k.min[2 * g + 1] << 4 : 0));
        (k_low(type) == 2 ? put_twos : put_fours)(q, lane, low);
        q += LSK_TILE * 4 * k_low(type);
        if (k_high(type) == 2) put_twos(q, lane, high);
        else if (k_high(type)) put_ones(q, lane, high);
        q += LSK_TILE * 4 * k_high(type);
    }
}

/* The same of a block of 32 values. */
static void pack_small(int type, const unsigned char *src, uint8_t *tile, int64_t lane) {
    if (type == LS_GGML_Q8_0) { /* an f16 scale, no minimum; integers + 128 */
        lsk_q8 *to = (lsk_q8 *)tile;
        memcpy(to->scale + lane, src, 2);
        for (int m = 0; m < WORDS; m++) put_word(to->q + 64 * m + 4 * lane, word_at(src + 2 + 4 * m) ^ each(128));
        return;
    }
    if (type == LS_GGML_IQ4_NL) {
        lsk_nl4 *to = (lsk_nl4 *)tile;
        memcpy(to->scale + lane, src, 2);
        put_nibbles(to->q, lane, src + 2);
        return;
    }
    if (type == LS_GGML_MXFP4) {
        lsk_mx4 *to = (lsk_mx4 *)tile;
        to->scale[lane] = *src;
        put_nibbles(to->q, lane, src + 1);
        return;
    }
    lsk_q5 *to = (lsk_q5 *)tile; /* which begins as lsk_q4 does */
    const int one = type == LS_GGML_Q4_1 || type == LS_GGML_Q5_1, five = type == LS_GGML_Q5_0 || type == LS_GGML_Q5_1;
    to->scale[lane] = lsk_half_bits_at(src);
    to->min[lane] = one ? lsk_half_bits_at(src + 2) : half_times_minus(five ? 4 : 3, to->scale[lane]);
    put_nibbles(to->q, lane, src + ls_ggml_layout_of(type)->bytes - 16);
    if (!five) return;
    const uint32_t bits = word_at(src + (one ? 4 : 2));
    uint32_t high[WORDS];
    for (int m = 0; m < WORDS; m++) high[m] = (bits >> 4 * m & 15) * 0x204081u & each(1); /* a bit to each byte */
    put_ones(to->high, lane, high);
}

/* Rows of one tile, block by block, so that what is written stays in the first cache. */
static void pack_integers(const lsk_matrix *m, int type, const unsigned char *src, int64_t n_rows, uint8_t *tile,
                          int64_t lane) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    const size_t row_bytes = lsk_row_bytes(type, m->n_in), blocks = (size_t)(m->n_in / l->values),
                 packed = m->tile_bytes / blocks;
    for (size_t b = 0; b < blocks; b++, src += l->bytes)
        for (int64_t r = 0; r < n_rows; r++) {
            const unsigned char *block = src + (size_t)r * row_bytes;
            uint8_t *to = tile + b * packed;
            if (type == LS_GGML_IQ4_XS) pack_xs4(block, to, lane + r);
            else if (type == LS_GGML_NVFP4) pack_nv4(block, tile, b, lane + r);
            else (l->values == 256 ? pack_k : pack_small)(type, block, to, lane + r);
        }
}

int lsk_packs_back(const lsk_matrix *m, int type) {
    return lsk_takes_integers(m->format) || m->format == LSK_F32 || (m->format == LSK_BF16 && type == LS_GGML_BF16);
}

void lsk_packed_row(const lsk_matrix *m, int64_t row, float *out) {
    const uint8_t *tile = m->data + (size_t)(row / LSK_TILE) * m->tile_bytes;
    const size_t lane = (size_t)row % LSK_TILE;
    if (lsk_takes_integers(m->format)) lsk_packed_integers(m, row, out);
    else if (m->format == LSK_F32)
        for (size_t k = 0; k < (size_t)m->n_in; k++) memcpy(out + k, tile + (16 * k + lane) * 4, 4);
    else
        for (size_t k = 0; k < (size_t)m->n_in; k++)
            lsk_dequant_row(LS_GGML_BF16, tile + (k / 2 * 32 + lane * 2 + k % 2) * 2, 1, out + k);
}

/* ---- formats for floats */

enum { PIECE = 256 }; /* values: whole blocks of every type */

/* Puts the 4-bit value of input k and output `lane` into its half of one of a group's bytes. */
static void put_four(lsk_format f, uint8_t *group, int k, int64_t lane, unsigned q) {
    int shift = k % 2 * 4;
    uint8_t *to = group + k / 2 * 16 + lane;
    if (f == LSK_Q4B) { /* the nibbles of 64 bits: of each eight inputs the first or the last four */
        const int nibble = k / 8 * 4 + k % 4;
        shift = nibble % 2 * 4;
        to = group + lane * 16 + k % 8 / 4 * 8 + nibble / 2;
    }
    *to = (uint8_t)((*to & ~(15u << shift)) | (q & 15) << shift);
}

/* Packs a row of a type that is kept with f32 scales. */
static void pack_scaled(const lsk_matrix *m, int type, const unsigned char *src, unsigned char *tile, int64_t lane) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    const int inputs = m->format == LSK_Q4S ? 32 : 16; /* of a group */
    lsk_block b;
    for (int32_t at = 0; at < m->n_in; at += l->values, src += l->bytes) {
        lsk_read_block(type, src, &b);
        for (int i = 0; i < l->values; i++) {
            const int k = i % inputs;
            lsk_wide *g = (lsk_wide *)tile + (at + i) / inputs;
            if (k == 0) {
                g->scale[lane] = b.scale[i / 16];
                g->min[lane] = b.min[i / 16];
            }
            if (m->format == LSK_Q8S) g->q[k * 16 + lane] = (uint8_t)b.q[i];
            else put_four(m->format, g->q, k, lane, (unsigned)b.q[i]);
        }
    }
}

/* Values of a row as they are kept: f32; bf16, two to a word; f16, as in the file. */
static void kept_values(lsk_format f, int type, const unsigned char *src, int32_t n, uint32_t *out) {
    if (type == LS_GGML_F16 ? f == LSK_F16 : type == (f == LSK_F32 ? LS_GGML_F32 : LS_GGML_BF16)) {
        memcpy(out, src, lsk_row_bytes(type, n));
        return;
    }
    float plain[PIECE];
    lsk_dequant_row(type, src, n, plain);
    if (f == LSK_F32) memcpy(out, plain, (size_t)n * sizeof *plain);
    else
        for (int32_t i = 0; i < n; i += 2) out[i / 2] = ls_to_bf16(plain[i]) | (uint32_t)ls_to_bf16(plain[i + 1]) << 16;
}

/* Packs rows of one tile that are kept as floats, piece by piece, so that a piece of all rows stays in the first cache.
 */
static void pack_floats(const lsk_matrix *m, int type, const unsigned char *src, int64_t n_rows, unsigned char *tile,
                        int64_t lane) {
    const size_t row_bytes = lsk_row_bytes(type, m->n_in);
    uint32_t kept[LSK_TILE][PIECE];
    for (int32_t at = 0; at < m->n_in; at += PIECE) {
        const int32_t n = m->n_in - at < PIECE ? m->n_in - at : PIECE;
        for (int64_t r = 0; r < n_rows; r++)
            kept_values(m->format, type, src + (size_t)r * row_bytes + lsk_row_bytes(type, at), n, kept[r]);
        if (m->format == LSK_F16)
            for (int32_t k = 0; k < n; k++)
                for (int64_t r = 0; r < n_rows; r++)
                    memcpy(tile + ((size_t)(at + k) * LSK_TILE + (size_t)(lane + r)) * 2, (uint16_t *)kept[r] + k, 2);
        else {
            const int32_t shared = m->format == LSK_BF16 ? 2 : 1; /* inputs of a word */
            for (int32_t k = 0; k < n / shared; k++)
                for (int64_t r = 0; r < n_rows; r++)
                    memcpy(tile + ((size_t)(at / shared + k) * LSK_TILE + (size_t)(lane + r)) * 4, kept[r] + k, 4);
        }
    }
}

void lsk_pack_rows(lsk_matrix *m, int64_t row_begin, int type, const void *raw, int64_t n_rows) {
    const size_t row_bytes = lsk_row_bytes(type, m->n_in), block_bytes = lsk_row_bytes(type, 32);
    const unsigned char *src = raw;
    for (int64_t r = 0, n; r < n_rows; r += n, src += (size_t)n * row_bytes) {
        const int64_t row = row_begin + r, lane = row % LSK_TILE;
        unsigned char *tile = m->data + (size_t)(row / LSK_TILE) * m->tile_bytes;
        const int floats = m->format == LSK_F32 || m->format == LSK_F16 || m->format == LSK_BF16;
        n = floats || lsk_takes_integers(m->format) ? LSK_TILE - lane : 1; /* rows of this tile, or one */
        if (n > n_rows - r) n = n_rows - r;
        if (lsk_takes_integers(m->format)) {
            pack_integers(m, type, src, n, tile, lane);
        } else if (floats) {
            pack_floats(m, type, src, n, tile, lane);
        } else if (m->format == LSK_Q4S || m->format == LSK_Q8S) {
            pack_scaled(m, type, src, tile, lane);
        } else if (m->format == LSK_Q8 || m->format == LSK_Q8B) {
            lsk_q8 *g = (lsk_q8 *)tile;
            for (int32_t i = 0; i < m->n_in / 32; i++, g++) {
                const unsigned char *block = src + (size_t)i * block_bytes;
                memcpy(g->scale + lane, block, 2);
                for (int k = 0; k < 32; k++)
                    if (m->format == LSK_Q8) g->q[k * 16 + lane] = block[2 + k];
                    else g->q[lane * 32 + k] = block[2 + k];
            }
        } else {
            lsk_q4 *g = (lsk_q4 *)tile;
            for (int32_t i = 0; i < m->n_in / 32; i++, g++) {
                const unsigned char *block = src + (size_t)i * block_bytes, *q = block + block_bytes - 16;
                memcpy(g->scale + lane, block, 2);
                if (type == LS_GGML_Q4_0) g->min[lane] = half_times_minus(3, g->scale[lane]);
                else memcpy(g->min + lane, block + 2, 2);
                for (int k = 0; k < 32; k++) put_four(m->format, g->q, k, lane, k < 16 ? q[k] : q[k - 16] >> 4);
            }
        }
    }
}
