// Tiles of packed weights as a warp's operands, and products with eights of rows: what matmuls of few rows and of many
// (gpu_matmul.cu, gpu_matmul_large.cu) compute alike, so that their bits are the same.
#pragma once
#include "compute/kernels/gpu_device.h"

namespace {

constexpr int WARPS = LSG_WARPS, SLICES = LSG_SLICES, STAGE = LSG_STAGE;
constexpr int OWN = STAGE / SLICES; // groups of a stage that are a slice's
static_assert(SLICES == 2 && OWN == 4, "a lane of four keeps the minima of one group");

template <int F> constexpr bool plain = lsg_is_plain(F);
template <int F> constexpr int parts = F == LSG_Q8S ? 2 : 1; // scales of an output for a group
template <int F> constexpr int VALUES = lsg_tile_of(F).values;
template <int F> constexpr bool has_min = lsg_tile_of(F).minima > 0;
// Sums of a slice's inputs of a stage, as pairs of bf16: of eight rows, [part and group][row].
template <int F> constexpr int TOTALS = parts<F> *OWN * 8;

LSG_DEVICE uint4 read16(const unsigned char *p) {
    return *(const uint4 *)p;
}
LSG_DEVICE uint32_t word_of(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// A lane's weights of a tile and group as operands: a[t][s] for half t of the outputs and step s.
template <int F> struct Weights {
    uint32_t a[2][2][4];
    uint32_t low[F == LSG_F16 ? 2 : 1][2][4]; // what bf16 leaves of an f16
    float scale[2][2][2];                     // [part][t][outputs r, r + 8]
};
// The minima of one of a stage's groups, lane c of four having group c's, as they stand in the tile.
template <int F> struct Minima {
    uint32_t of[2][2][2]; // as scales
};

// Inputs 2i, 2i + 1 of eight nibbles as a pair of bf16.
LSG_DEVICE uint32_t nibbles(uint32_t word, int i) {
    return lsg_sub_bf16x2(lsg_and_or<0x000F000Fu>(word >> 4 * i, 0x43004300u), 0x43004300u); // 128 + q, less 128: exact
}
// Bytes 0 and 2 of a word, signed, as a pair of bf16: 128 + the low seven bits, less 128 or 256.
LSG_DEVICE uint32_t bytes(uint32_t word) {
    return lsg_sub_bf16x2(lsg_and_or<0x007F007Fu>(word, 0x43004300u), lsg_and_or<0x00800080u>(word, 0x43004300u));
}
// Pairs of f16 as the sum of two pairs of bf16.
LSG_DEVICE void halves(uint32_t high[4], uint32_t low[4]) {
    for (int i = 0; i < 4; i++) {
        const float x = lsg_half((uint16_t)high[i]), y = lsg_half((uint16_t)(high[i] >> 16));
        high[i] = lsg_bf16x2(x, y);
        low[i] = lsg_bf16x2(x - __uint_as_float(high[i] << 16), y - __uint_as_float(high[i] & 0xFFFF0000u));
    }
}

// The place of a step's operand in the four words of a nibble format, or in the piece of a byte format.
// own: the tile's group is the one whose minima this lane keeps.
template <int F> LSG_DEVICE void unpack(Weights<F> &w, Minima<F> &kept, const unsigned char *tile, int lane, bool own) {
    if constexpr (plain<F>) {
        for (int t = 0; t < 2; t++)
            for (int s = 0; s < 2; s++) {
                const uint4 v = read16(tile + (t * 2 + s) * 512 + lane * 16);
                for (int i = 0; i < 4; i++) w.a[t][s][i] = word_of(v, i);
                if constexpr (F == LSG_F16) halves(w.a[t][s], w.low[t][s]);
            }
    } else if constexpr (F == LSG_Q4 || F == LSG_Q4S) {
        const uint4 v = read16(tile + lane * 16);
        for (int t = 0; t < 2; t++)
            for (int s = 0; s < 2; s++)
                for (int i = 0; i < 4; i++) w.a[t][s][i] = nibbles(word_of(v, 2 * t + i % 2), 2 * s + i / 2);
    } else
        for (int t = 0; t < 2; t++) {
            const uint4 v = read16(tile + t * 512 + lane * 16);
            for (int s = 0; s < 2; s++)
                for (int i = 0; i < 4; i++) w.a[t][s][i] = bytes(word_of(v, i % 2 * 2 + s) >> i / 2 * 8);
        }
    const unsigned char *scales = tile + VALUES<F>;
    const int r = lane / 4;
    if constexpr (F == LSG_Q4) {
        const uint4 v = read16(scales + r * 16);
        for (int i = 0; i < 4; i++) {
            const uint32_t pair = word_of(v, i);
            w.scale[0][i / 2][i % 2] = lsg_half((uint16_t)pair);
            if (own) kept.of[0][i / 2][i % 2] = pair;
        }
    } else if constexpr (F == LSG_Q8) {
        const uint2 v = *(const uint2 *)(scales + r * 8);
        for (int t = 0; t < 2; t++) {
            w.scale[0][t][0] = lsg_half((uint16_t)(t ? v.y : v.x));
            w.scale[0][t][1] = lsg_half((uint16_t)((t ? v.y : v.x) >> 16));
        }
    } else if constexpr (!plain<F>)
        for (int part = 0; part < parts<F>; part++)
            for (int t = 0; t < 2; t++) {
                const float4 v = *(const float4 *)(scales + part * 256 + r * 32 + t * 16);
                w.scale[part][t][0] = v.x;
                w.scale[part][t][1] = v.z;
                if (own) {
                    kept.of[part][t][0] = __float_as_uint(v.y);
                    kept.of[part][t][1] = __float_as_uint(v.w);
                }
            }
}

// acc += scale * sum: d[0], d[1] are output r's, d[2], d[3] output r + 8's.
LSG_DEVICE void scaled(float acc[4], const float sum[4], const float scale[2]) {
    for (int i = 0; i < 4; i++) acc[i] = fmaf(scale[i / 2], sum[i], acc[i]);
}

// The operands of eight rows for a group's two steps.
template <int F> LSG_DEVICE void load_inputs(uint32_t b[2][2], const unsigned char *in) {
    if constexpr (F == LSG_Q8S)
        for (int s = 0; s < 2; s++) {
            const uint2 v = *(const uint2 *)(in + s * 32);
            b[s][0] = v.x;
            b[s][1] = v.y;
        }
    else {
        const uint4 v = read16(in);
        b[0][0] = v.x, b[0][1] = v.y, b[1][0] = v.z, b[1][1] = v.w;
    }
}

// A tile and group times eight rows, whose operands are b.
template <int F> LSG_DEVICE void multiply(float acc[2][4], const Weights<F> &w, const uint32_t b[2][2]) {
    if constexpr (plain<F>) {
        for (int t = 0; t < 2; t++)
            for (int s = 0; s < 2; s++) {
                lsg_mma(acc[t], w.a[t][s], b[s][0], b[s][1]);
                if constexpr (F == LSG_F16) lsg_mma(acc[t], w.low[t][s], b[s][0], b[s][1]);
            }
    } else
        for (int part = 0; part < parts<F>; part++)
            for (int t = 0; t < 2; t++) {
                float sum[4];
                lsg_mma_first(sum, w.a[t][part], b[part][0], b[part][1]);
                if constexpr (parts<F> == 1) lsg_mma(sum, w.a[t][1], b[1][0], b[1][1]);
                scaled(acc[t], sum, w.scale[part][t]);
            }
}

// A float as two bf16 whose sum it nearly is, the larger one in the low half.
LSG_DEVICE uint32_t split(float x) {
    return lsg_bf16x2(x, x - __uint_as_float(lsg_bf16x2(x, 0) << 16));
}

// The sums of eight rows' inputs over the groups FROM .. TO - 1 of a slice's n groups of a stage, which stand at at(g);
// 0 for those that are not there: row p * OWN + g of one product has those of part p of group g, since the left operand
// has ones there alone.
template <int F, int FROM, int TO, class At>
LSG_DEVICE void add_inputs(uint32_t *totals, At &&at, int32_t n, int lane) {
    const int r = lane / 4, c = lane % 4;
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int g = FROM; g < TO; g++) {
        if (g >= n) break;
        uint32_t b[2][2];
        load_inputs<F>(b, at(g));
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const uint32_t one = r == (parts<F> == 2 ? s * OWN : 0) + g ? 0x3F803F80u : 0, a[4] = {one, 0, one, 0};
            lsg_mma(sum, a, b[s][0], b[s][1]);
        }
    }
    if (r < parts<F> * OWN && r % OWN >= FROM && r % OWN < TO)
        *(uint2 *)(totals + r * 8 + c * 2) = {split(sum[0]), split(sum[1])};
}

// acc += minima x sums of inputs, of a stage.
template <int F, int NT>
LSG_DEVICE void add_minima(float acc[NT][2][4], const Minima<F> &kept, const uint32_t *totals, int lane) {
#pragma unroll
    for (int part = 0; part < parts<F>; part++) {
        uint32_t a[2][4]; // four columns of a group: the halves of its minimum, twice each
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < 2; i++) {
                const uint32_t bits = kept.of[part][t][i];
                const float min = F == LSG_Q4 ? lsg_half((uint16_t)(bits >> 16)) : __uint_as_float(bits);
                a[t][i] = lsg_bf16x2(min, min);
                const float rest = min - __uint_as_float(a[t][i] << 16);
                a[t][i + 2] = lsg_bf16x2(rest, rest);
            }
#pragma unroll
        for (int j = 0; j < NT; j++) {
            const uint32_t sum = totals[(j * parts<F> + part) * OWN * 8 + lane % 4 * 8 + lane / 4];
            for (int t = 0; t < 2; t++) lsg_mma(acc[j][t], a[t], sum, sum);
        }
    }
}

} // namespace

/* lsg_matmul by large tiles. */
int lsg_matmul_large(const lsg_matrix *m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows,
                     const int32_t *n_rows, lsg_stream stream);
