/* The part that is the same at every CPU level: unpacking GGUF formats. */
#include "compute/kernels/kernels_blocks.h"

#include <math.h>
#include <string.h>

size_t lsk_row_bytes(int type, int64_t n) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    return !l || n % l->values ? 0 : (size_t)(n / l->values) * (size_t)l->bytes;
}

/* Whether none of n values has an exponent of ones. The sum of all, not the first that is bad: a vector at a time. */
#define FINITE(name, type)                                                                                             \
    static int name(const unsigned char *p, size_t n, type exponent) {                                                 \
        type bad = 0, v;                                                                                               \
        for (size_t i = 0; i < n; i++) {                                                                               \
            memcpy(&v, p + i * sizeof v, sizeof v);                                                                    \
            bad |= (type)((v & exponent) == exponent);                                                                 \
        }                                                                                                              \
        return !bad;                                                                                                   \
    }
FINITE(finite16, uint16_t)
FINITE(finite32, uint32_t)

int lsk_finite(int type, const void *raw, int64_t n_rows, int64_t n_in) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    const unsigned char *p = raw;
    const size_t values = (size_t)(n_rows * n_in);
    if (type == LS_GGML_F32) return finite32(p, values, 0x7F800000);
    if (type == LS_GGML_BF16) return finite16(p, values, 0x7F80);
    if (type == LS_GGML_F16) return finite16(p, values, 0x7C00);
    const size_t n = lsk_row_bytes(type, n_in) * (size_t)n_rows / (size_t)l->bytes;
    int ok = 1;
    for (size_t i = 0; i < n; i++, p += l->bytes) {
        if (type == LS_GGML_MXFP4) ok &= *p != 255;
        if (type == LS_GGML_NVFP4) { /* below 2^114 the products with 448 * 6 stay finite */
            ok &= (lsk_half_bits_at(p + 2) >> 7 & 255) < 241;
            for (int g = 0; g < 4; g++) ok &= (p[4 + g] & 127) != 127;
        }
        for (int k = 0; k < l->n_halves; k++) {
            const uint16_t h = lsk_half_bits_at(p + l->halves_at + 2 * k);
            const int most = type == LS_GGML_Q4_0 ? 27 : type == LS_GGML_Q5_0 ? 26 : 30; /* -8 d, -16 d stay finite */
            ok &= (h >> 10 & 31) <= most;
        }
    }
    return ok;
}

/* ---- one block as integers with a scale and a minimum for every 16 of them: value = scale * q + min. Every product of
 * an f16 and a block's small integers is exact in a float. */

lsk_k_scales lsk_k_scales_of(int type, const unsigned char *p) {
    lsk_k_scales k = {0};
    const unsigned char *s;
    switch (type) {
    case LS_GGML_Q2_K:
        k.d = lsk_half_bits_at(p + 80), k.dmin = lsk_half_bits_at(p + 82);
        for (int g = 0; g < 16; g++) k.scale[g] = (int8_t)(p[g] & 15), k.min[g] = p[g] >> 4;
        break;
    case LS_GGML_Q3_K:
        k.d = lsk_half_bits_at(p + 108), s = p + 96;
        for (int g = 0; g < 16; g++) {
            const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, high = s[8 + g % 4] >> g / 4 * 2 & 3;
            k.scale[g] = (int8_t)((low | high << 4) - 32);
        }
        break;
    case LS_GGML_IQ4_XS:
        k.d = lsk_half_bits_at(p);
        for (int g = 0; g < 16; g++) {
            const int j = g / 2, low = p[4 + j / 2] >> j % 2 * 4 & 15, high = lsk_half_bits_at(p + 2) >> 2 * j & 3;
            k.scale[g] = (int8_t)((low | high << 4) - 32);
        }
        break;
    case LS_GGML_Q6_K:
        k.d = lsk_half_bits_at(p + 208);
        memcpy(k.scale, p + 192, sizeof k.scale);
        break;
    default: /* Q4_K, Q5_K: scales and minima of 6 bits for 32 values */
        k.d = lsk_half_bits_at(p), k.dmin = lsk_half_bits_at(p + 2), s = p + 4;
        for (int g = 0; g < 16; g++) {
            const int j = g / 2;
            k.scale[g] = (int8_t)(j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
            k.min[g] = (uint8_t)(j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4);
        }
    }
    return k;
}

/* 32 indices of a table, as Q4_0 has its nibbles. */
static void integers_of_table(const unsigned char *p, const int8_t *table, int8_t *to) {
    for (int i = 0; i < 16; i++) {
        to[i] = table[p[i] & 15];
        to[16 + i] = table[p[i] >> 4];
    }
}
static const int8_t nl4_table[16] = LSK_NL4_TABLE(0), mx4_table[16] = LSK_MX4_TABLE(0);

/* Of 16 values the first eight are low nibbles. */
static void block_nv4(const unsigned char *p, lsk_block *b) {
    for (int g = 0; g < 4; g++) {
        b->scale[g] = lsk_nv4_scale(p, p[4 + g]);
        b->min[g] = 0;
        for (int i = 0; i < 16; i++) b->q[16 * g + i] = mx4_table[p[8 + 8 * g + i % 8] >> i / 8 * 4 & 15];
    }
}

static void block_k(int type, const unsigned char *p, lsk_block *b) {
    const lsk_k_scales k = lsk_k_scales_of(type, p);
    const float d = ls_of_half(k.d), dmin = ls_of_half(k.dmin);
    for (int g = 0; g < 16; g++) {
        b->scale[g] = d * (float)k.scale[g];
        b->min[g] = 0 - dmin * (float)k.min[g];
    }
    if (type != LS_GGML_IQ4_XS) lsk_k_integers(type, p, b->q);
    else
        for (int g = 0; g < 8; g++) integers_of_table(p + 8 + 16 * g, nl4_table, b->q + 32 * g);
}

/* Q4_0, Q4_1, Q5_0, Q5_1: value i in the low nibble of byte i, value i + 16 in its high nibble. */
static void block_small(const unsigned char *p, int type, lsk_block *b) {
    const int one = type == LS_GGML_Q4_1 || type == LS_GGML_Q5_1, five = type == LS_GGML_Q5_0 || type == LS_GGML_Q5_1;
    const unsigned char *qs = p + (one ? 4 : 2) + (five ? 4 : 0);
    uint32_t high = 0;
    if (five) memcpy(&high, p + (one ? 4 : 2), 4);
    for (int g = 0; g < 2; g++) {
        b->scale[g] = lsk_half_at(p);
        b->min[g] = one ? lsk_half_at(p + 2) : type == LS_GGML_Q4_0 ? -8 * b->scale[g] : 0;
        for (int i = 0; i < 16; i++) {
            const int q = (g ? qs[i] >> 4 : qs[i] & 15) | (int)(high >> (g * 16 + i) & 1) << 4;
            b->q[g * 16 + i] = (int8_t)(type == LS_GGML_Q5_0 ? q - 16 : q);
        }
    }
}

void lsk_read_block(int type, const unsigned char *p, lsk_block *b) {
    switch (type) {
    case LS_GGML_Q8_0:
        memcpy(b->q, p + 2, 32);
        b->scale[0] = b->scale[1] = lsk_half_at(p);
        b->min[0] = b->min[1] = 0;
        break;
    case LS_GGML_Q2_K:
    case LS_GGML_Q3_K:
    case LS_GGML_Q4_K:
    case LS_GGML_Q5_K:
    case LS_GGML_Q6_K:
    case LS_GGML_IQ4_XS: block_k(type, p, b); break;
    case LS_GGML_NVFP4: block_nv4(p, b); break;
    case LS_GGML_IQ4_NL:
    case LS_GGML_MXFP4: {
        const int mx = type == LS_GGML_MXFP4;
        b->scale[0] = b->scale[1] = mx ? lsk_power(*p) : lsk_half_at(p);
        b->min[0] = b->min[1] = 0;
        integers_of_table(p + (mx ? 1 : 2), mx ? mx4_table : nl4_table, b->q);
        break;
    }
    default: block_small(p, type, b);
    }
}

void lsk_dequant_row(int type, const void *raw, int64_t n, float *out) {
    const unsigned char *p = raw;
    if (type == LS_GGML_F32) memcpy(out, p, (size_t)n * 4);
    else if (type == LS_GGML_F16)
        for (int64_t i = 0; i < n; i++) out[i] = lsk_half_at(p + 2 * i);
    else if (type == LS_GGML_BF16)
        for (int64_t i = 0; i < n; i++) out[i] = lsk_bf16_to_float(lsk_half_bits_at(p + 2 * i));
    else {
        const ls_ggml_layout *l = ls_ggml_layout_of(type);
        lsk_block b;
        for (int64_t at = 0; at < n; at += l->values, p += l->bytes) {
            lsk_read_block(type, p, &b);
            for (int i = 0; i < l->values; i++) /* exact products, but for Q6_K's and NVFP4's, whose minimum is 0 */
                out[at + i] = (float)b.q[i] * b.scale[i / 16] + b.min[i / 16];
        }
    }
}

void lsk_unpack_row(int type, const void *raw, int64_t n, int8_t *q, float *scale, float *min) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    const unsigned char *p = raw;
    lsk_block b;
    for (int64_t at = 0; at < n; at += l->values, p += l->bytes) {
        lsk_read_block(type, p, &b);
        memcpy(q + at, b.q, (size_t)l->values);
        memcpy(scale + at / 16, b.scale, (size_t)l->values / 16 * sizeof *scale);
        memcpy(min + at / 16, b.min, (size_t)l->values / 16 * sizeof *min);
    }
}

/* ---- other types from floats */

void lsk_quantize_row(int type, const float *x, int64_t n, void *out) {
    unsigned char *p = out;
    if (type == LS_GGML_F32) memcpy(out, x, (size_t)n * 4);
    for (int64_t i = 0; i < n && (type == LS_GGML_F16 || type == LS_GGML_BF16); i++) {
        const uint16_t h = type == LS_GGML_F16 ? ls_to_half(x[i]) : ls_to_bf16(x[i]);
        memcpy(p + 2 * i, &h, 2);
    }
    const size_t bytes = lsk_row_bytes(type, 32);
    for (int64_t b = 0; b < n / 32 && (type == LS_GGML_Q4_1 || type == LS_GGML_Q8_0); b++, x += 32, p += bytes) {
        float low = x[0], high = x[0];
        for (int i = 1; i < 32; i++) low = x[i] < low ? x[i] : low, high = x[i] > high ? x[i] : high;
        if (type == LS_GGML_Q8_0) {
            const float most = high > -low ? high : -low;
            const uint16_t d = ls_to_half(most / 127);
            const float scale = ls_of_half(d), inverse = scale > 0 ? 1 / scale : 0;
            memcpy(p, &d, 2);
            for (int i = 0; i < 32; i++) {
                const float q = rintf(x[i] * inverse);
                p[2 + i] = (unsigned char)(signed char)(q > 127 ? 127 : q < -127 ? -127 : q);
            }
            continue;
        }
        const uint16_t d = ls_to_half((high - low) / 15), m = ls_to_half(low);
        const float scale = ls_of_half(d), min = ls_of_half(m), inverse = scale > 0 ? 1 / scale : 0;
        memcpy(p, &d, 2);
        memcpy(p + 2, &m, 2);
        for (int i = 0; i < 16; i++) {
            int q[2];
            for (int k = 0; k < 2; k++) {
                const float v = rintf((x[i + 16 * k] - min) * inverse);
                q[k] = v > 15 ? 15 : v < 0 ? 0 : (int)v;
            }
            p[4 + i] = (unsigned char)(q[0] | q[1] << 4);
        }
    }
}

/* ---- mixed arithmetic */

static lsk_group low_of(const lsk_group *g) {
    lsk_group low;
    int32_t total = 0, first = 0;
    for (int k = 0; k < 16; k++) first += g->lo[k];
    for (int k = 0; k < 32; k++) total += g->lo[k];
    memcpy(low.hi, g->lo, sizeof low.hi);
    memset(low.lo, 0, sizeof low.lo);
    low.scale = g->scale / 256;
    low.sum = low.scale * (float)total;
    low.total128 = 128 * total;
    low.first32 = 32 * first;
    return low;
}

static int32_t find_wide(const lsk_group *x, int64_t ldx, int32_t rows, int32_t n_groups, lsk_wide_group *out,
                         lsk_group **low) {
    float bar[LSK_WIDE_ROWS] = {0};
    int32_t n = 0;
    for (int32_t g = 0; g < n_groups; g++)
        for (int32_t r = 0; r < rows; r++) bar[r] += x[g * ldx + r].scale * x[g * ldx + r].scale;
    for (int32_t r = 0; r < rows; r++) bar[r] *= (float)LSK_WIDE / (float)n_groups;
    for (int32_t g = 0; g < n_groups; g++) {
        out[n] = (lsk_wide_group){g, 0, *low};
        for (int32_t r = 0; r < rows; r++)
            out[n].rows |= (uint32_t)(x[g * ldx + r].scale * x[g * ldx + r].scale > bar[r]) << r;
        for (uint32_t left = out[n].rows; left; left &= left - 1) *(*low)++ = low_of(&x[g * ldx + __builtin_ctz(left)]);
        n += out[n].rows != 0;
    }
    return n;
}

lsk_wide_rows lsk_find_wide(const lsk_matrix *w, lsk_arith arith, const lsk_group *x, int64_t ldx, int32_t rows,
                            void *scratch) {
    lsk_wide_rows all = {0};
    if (arith != LSK_ARITH_MIXED) return all;
    const int32_t n_groups = w->n_in / 32;
    lsk_wide_group *out = scratch;
    lsk_group *low = (lsk_group *)(out + (rows + LSK_WIDE_ROWS - 1) / LSK_WIDE_ROWS * n_groups);
    for (int32_t from = 0; from < rows; from += LSK_WIDE_ROWS, out += n_groups) {
        const int32_t n = rows - from < LSK_WIDE_ROWS ? rows - from : LSK_WIDE_ROWS;
        all.n[all.chunks] = find_wide(x + from, ldx, n, n_groups, out, &low);
        all.of[all.chunks++] = out;
    }
    return all;
}
