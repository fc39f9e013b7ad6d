/* Integer arithmetic: a group of 32 packed weights as vectors, and how its exact sums are added to a row's float sums.
 * A vector of bytes has 4 inputs of each of W outputs: inputs 4j .. 4j + 3 are vector j of 8. */
#pragma once
#include "compute/kernels/kernels_blocks.h"
#include "compute/kernels/vectors.h"

#ifndef INT_SIGNED
#define INT_SIGNED 0
#endif

#define INT_FORMATS(X, ...)                                                                                            \
    X(Q4I, __VA_ARGS__)                                                                                                \
    X(Q5I, __VA_ARGS__)                                                                                                \
    X(Q8I, __VA_ARGS__)                                                                                                \
    X(NL4I, __VA_ARGS__)                                                                                               \
    X(MX4I, __VA_ARGS__)                                                                                               \
    X(NV4I, __VA_ARGS__)                                                                                               \
    X(K2I, __VA_ARGS__)                                                                                                \
    X(K3I, __VA_ARGS__)                                                                                                \
    X(K4I, __VA_ARGS__)                                                                                                \
    X(K5I, __VA_ARGS__)                                                                                                \
    X(K6I, __VA_ARGS__)                                                                                                \
    X(XS4I, __VA_ARGS__)

typedef uint16_t vwords __attribute__((vector_size(W * 4)));

/* Its integers, of so many bits, and what scales them: d, in a K format times scale, and with a minimum min, in a K
 * format times min_scale; of 3 and 6 bits d times min_scale over the last 16 inputs. With a table the integers are
 * chosen by the four bits that are kept; of MXFP4 scale is the power of two, of NVFP4 E4M3 for 16 inputs, which scales
 * all. Compilers know the first six numbers and the table. */
typedef struct {
    int bits, bytes, is_k, has_min, is_mx, is_nv;
    const uint8_t *table;
    const uint8_t *at; /* so many bytes; of a K format its share of the block */
    const uint8_t *q, *high;
    const uint16_t *d, *min; /* f16 */
    const float *all;
    const uint8_t *scale, *min_scale;
} int_group;

INLINE int int_bits(lsk_format f) { /* as they are multiplied */
    return f == LSK_K2I                                    ? 2
           : f == LSK_K3I                                  ? 3
           : f == LSK_Q4I || f == LSK_K4I                  ? 4
           : f == LSK_Q5I || f == LSK_K5I || f == LSK_MX4I ? 5
           : f == LSK_K6I || f == LSK_NV4I                 ? 6
                                                           : 8;
}
/* Products of unsigned weights take a table's integers + 128, MXFP4's + 16, NVFP4's + 32: as 6 bits, whose two parts
 * have scales of their own. */
static const uint8_t int_nl4_table[16] = LSK_NL4_TABLE((uint8_t)(INT_SIGNED ? 0 : 128)),
                     int_mx4_table[16] = LSK_MX4_TABLE((uint8_t)(INT_SIGNED ? 0 : 16)),
                     int_nv4_table[16] = LSK_MX4_TABLE((uint8_t)(INT_SIGNED ? 0 : 32));
INLINE const uint8_t *int_table(lsk_format f) {
    return f == LSK_NL4I || f == LSK_XS4I ? int_nl4_table
           : f == LSK_MX4I                ? int_mx4_table
           : f == LSK_NV4I                ? int_nv4_table
                                          : NULL;
}
/* 2: the first 16 inputs and the last have scales of their own; 1: they share them. */
INLINE int int_parts(int bits) {
    return bits == 2 || bits == 3 || bits == 6 ? 2 : 1;
}

/* Group g of a tile. All formats hold 64 bytes for each bit of an integer, the low bits before the high ones. */
INLINE int_group int_group_at(lsk_format f, const unsigned char *tile, unsigned g) {
    const uint8_t *table = int_table(f);
    const int kept = table ? 4 : int_bits(f), k = f >= LSK_K2I, nv = f == LSK_NV4I,
              has_min = !table && (kept == 2 || kept == 4 || kept == 5),
              before = f == LSK_XS4I   ? (int)offsetof(lsk_xs4, g)
                       : f == LSK_MX4I ? (int)offsetof(lsk_mx4, q)
                       : nv            ? (int)offsetof(lsk_nv4, q)
                       : k             ? (int)offsetof(lsk_k4, g)
                       : has_min       ? (int)offsetof(lsk_q4, q)
                                       : (int)offsetof(lsk_q8, q);
    int_group w = {.bits = int_bits(f),
                   .bytes = 64 * kept + (k ? before / 8 : before),
                   .is_k = k,
                   .has_min = has_min,
                   .is_mx = f == LSK_MX4I,
                   .is_nv = nv,
                   .table = table};
    const uint8_t *groups = nv ? (const uint8_t *)lsk_nv4_at(tile, 0) : tile,
                  *block = groups + (size_t)(k ? g / 8 * 8 : g) * (size_t)w.bytes;
    w.at = groups + (size_t)g * (size_t)w.bytes;
    w.q = block + before + (k ? g % 8 * 64 * (unsigned)kept : 0);
    w.high = w.q + 64 * (kept < 4 ? 2 : 4);
    w.d = (const uint16_t *)block;
    w.all = (const float *)tile;
    w.min = w.d + LSK_TILE;
    w.scale = f == LSK_MX4I   ? ((const lsk_mx4 *)block)->scale
              : f == LSK_NV4I ? ((const lsk_nv4 *)block)->scale[0]
              : f == LSK_XS4I ? ((const lsk_xs4 *)block)->scale[g % 8]
                              : ((const lsk_k4 *)block)->scale[g % 8];
    w.min_scale = ((const lsk_k4 *)block)->min[g % 8];
    return w;
}

/* Of each byte at p the bits from `from` on that lie under the mask, moved to bit `to`. */
INLINE vbytes int_bits_at(const uint8_t *p, int from, int to, int mask) {
    vwords b;
    memcpy(&b, p, sizeof b);
    if (from < to) b <<= to - from;
    if (from > to) b >>= from - to;
    return (vbytes)b & (uint8_t)(mask << to);
}
INLINE vbytes int_unsigned(const int_group *w, int j, int v) {
    const int at = 4 * W * v, two_at = j / 4 * 64 + at, two = j % 4 * 2; /* of two bits */
    if (w->table) return vb_choose(w->table, int_bits_at(w->q + j % 4 * 64 + at, j / 4 * 4, 0, 15));
    if (w->bits == 8) return int_bits_at(w->q + 64 * j + at, 0, 0, 255);
    const vbytes low =
        w->bits < 4 ? int_bits_at(w->q + two_at, two, 0, 3) : int_bits_at(w->q + j % 4 * 64 + at, j / 4 * 4, 0, 15);
    if (w->bits == 2 || w->bits == 4) return low;
    return low | (w->bits == 3   ? int_bits_at(w->high + at, j, 2, 1)
                  : w->bits == 5 ? int_bits_at(w->high + at, j, 4, 1)
                                 : int_bits_at(w->high + two_at, two, 4, 3));
}
/* Vector j of the outputs of vector v of a tile. Bytes are q + 4, q + 16, q + 32 or q + 128 where weights have no
 * minimum; signed ones are q. */
INLINE vbytes int_bytes(const int_group *w, int j, int v) {
    const vbytes q = int_unsigned(w, j, v);
    if (!INT_SIGNED || w->has_min || w->table) return q;
    return w->bits == 8 ? q ^ (uint8_t)128 : q - (uint8_t)(w->bits == 3 ? 4 : 32);
}

/* What scales the outputs of a vector over a part, and what is added for the part's inputs. Part 0: the first 16. */
typedef struct {
    vf d, min;
} int_scales;
INLINE vf int_scale_at(int bits, const uint8_t *p, int part) {
    const vi whole = (vi)vi_bytes(p);
    return __builtin_convertvector(bits == 2 ? (vi)((vu)whole >> 4 * part) & 15 : whole, vf);
}
INLINE vf int_powers(const uint8_t *p) { /* lsk_power */
    const vi e = (vi)vi_bytes(p);
    return (vf)(e << 23 | ((e == 0) & 1 << 22)) * vf_set(0.5f);
}
INLINE vf int_e4m3(const uint8_t *p) { /* half of them; a subnormal one has the exponent of 1 and no leading bit */
    const vi b = (vi)vi_bytes(p), e = b >> 3 & 15, least = (vi)(e == 0);
    const vf m = __builtin_convertvector((b & 7) | (~least & 8), vf);
    return (vf)((vu)m | ((vu)b & 128) << 24) * (vf)((e - least + 116) << 23);
}
INLINE int_scales int_scales_at(const int_group *w, int v, int part) {
    if (w->is_nv)
        return (int_scales){vf_load(w->all + v * W) * int_e4m3(w->scale + part * LSK_TILE + v * W), vf_set(0)};
    int_scales s = {w->is_mx ? int_powers(w->scale + v * W) : vf_half(w->d + v * W), vf_set(0)};
    const uint8_t *scale = w->scale + v * W, *min_scale = w->min_scale + v * W;
    if (w->has_min) s.min = vf_half(w->min + v * W);
    if (!w->is_k) return s;
    if (w->has_min) s.min = vf_set(0) - s.min;
    if (w->table || (int_parts(w->bits) == 2 && w->bits > 2)) {
        s.d = vf_i8(part ? min_scale : scale) * s.d;
        return s;
    }
    return (int_scales){int_scale_at(w->bits, scale, part) * s.d, int_scale_at(w->bits, min_scale, part) * s.min};
}

/* A row's sum goes on by a part's exact sum. */
INLINE vf int_add(const int_group *w, const int_scales *s, int part, vi dots, const lsk_group *x, vf sum) {
    const int32_t half32 = lsk_half32(x, part), less = w->bits == 8   ? x->total128
                                                       : w->bits == 6 ? half32
                                                       : w->bits == 5 ? x->total128 >> 3
                                                                      : half32 >> 3;
    if (!INT_SIGNED && !w->has_min) dots -= less;
    sum = vf_fma_once(__builtin_convertvector(dots, vf), s->d * vf_set(x->scale), sum);
    return w->has_min ? vf_fma_once(s->min, vf_set(w->bits == 2 ? lsk_half_sum(x, part) : x->sum), sum) : sum;
}
