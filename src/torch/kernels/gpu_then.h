// What becomes of a matmul's sums, four neighbours of a row at a time: for the matmul that ends them itself, and for
// the kernels that read them. Both compute the same bits.
#pragma once
#include "torch/kernels/gpu_device.h"

// 1 / root of a row's mean square, from the sums that stand in `squares`. Eight neighbouring lanes have a row: each
// adds its part of them, then all in one order.
LSG_DEVICE float lsg_squares_part(const float *squares, int32_t n_embd) {
    float sum = 0;
#pragma unroll 8
    for (int32_t i = (int32_t)threadIdx.x % 8; i < n_embd / LSG_TILE; i += 8) sum += squares[i];
    return sum;
}
LSG_DEVICE float lsg_inverse_root(float part, int32_t n_embd, float eps) {
    const float share = 1.0f / (float)n_embd;
    for (int k = 1; k < 8; k *= 2) part += __shfl_xor_sync(0xFFFFFFFFu, part, k);
    return lsg_inverse_sqrt(part * share + eps);
}

LSG_DEVICE float lsg_dot4(const float4 &v, float sum) {
    return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum))));
}
// Sums of a matmul, times the factor of their row, and bias.
LSG_DEVICE float4 lsg_scaled4(const float4 &v, float factor, const float4 &bias) {
    return {v.x * factor + bias.x, v.y * factor + bias.y, v.z * factor + bias.z, v.w * factor + bias.w};
}
LSG_DEVICE float4 lsg_quad(const float *from) { // zeros where there is nothing
    return from ? *(const float4 *)from : float4{0, 0, 0, 0};
}

// Four neighbours, rounded.
LSG_DEVICE void lsg_store_bf16(uint16_t *to, const float4 &v) {
    *(uint2 *)to = {lsg_bf16x2(v.x, v.y), lsg_bf16x2(v.z, v.w)};
}

// Values i .. i + 3 of row r of the residual stream and what follows from them; by a whole warp, of which eight lanes
// have neighbouring values of LSG_TILE. there: this lane has some. norm: weights.
LSG_DEVICE void lsg_keep_row4(const lsg_buffers &b, bool there, int32_t r, int32_t i, const float4 &x,
                              const float4 &norm) {
    float sum = lsg_dot4(x, 0);
    for (int k = 1; k < 8; k *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, k);
    if (!there) return;
    *(float4 *)(b.x + (size_t)r * b.n_embd + i) = x;
    lsg_store_bf16(b.xn + (size_t)r * b.n_embd + i, {x.x * norm.x, x.y * norm.y, x.z * norm.z, x.w * norm.w});
    if (i % LSG_TILE == 0) b.squares[(size_t)r * (b.n_embd / LSG_TILE) + i / LSG_TILE] = sum;
}

LSG_DEVICE float lsg_gated_value(float g, float up, int32_t activation) {
    // gelu by tanh: g (1 + tanh(v)) / 2 = g / (1 + e^-2v)
    const float v = activation == LST_ACT_SILU ? g : 2 * 0.79788456080286536f * fmaf(0.044715f * g * g, g, g);
    return g / (1.0f + expf(-v)) * up;
}
LSG_DEVICE void lsg_store_gated4(const lsg_buffers &b, int32_t r, int32_t i, const float4 &g, const float4 &up,
                                 int32_t activation) {
    lsg_store_bf16(b.inner + (size_t)r * b.n_ff + i,
                   {lsg_gated_value(g.x, up.x, activation), lsg_gated_value(g.y, up.y, activation),
                    lsg_gated_value(g.z, up.z, activation), lsg_gated_value(g.w, up.w, activation)});
}

// One of a pair, turned; other: the other one. turn: cosine and sine.
LSG_DEVICE float lsg_turned(float v, float other, const float2 &turn, bool second) {
    return second ? other * turn.y + v * turn.x : v * turn.x - other * turn.y;
}
// The place of value d of a head of queries, keys or values: in q, or in the row's column of the cache.
LSG_DEVICE uint16_t *lsg_head_at(const lsg_buffers &b, int32_t layer, int32_t r, int32_t head, int32_t d) {
    const int32_t hd = b.head_dim;
    if (head < b.n_heads) return b.q + ((size_t)r * b.n_heads + head) * hd + d;
    const int32_t column = b.step->column[r];
    uint16_t *page = b.pages[column / LSG_PAGE] + (size_t)layer * 2 * b.n_kv_heads * LSG_PAGE * hd;
    return page + ((size_t)(head - b.n_heads) * LSG_PAGE + column % LSG_PAGE) * hd + d; // keys, then values
}
// scale: of queries.
LSG_DEVICE void lsg_store_head4(uint16_t *to, bool query, float scale, const float4 &v) {
    const float s = query ? scale : 1;
    lsg_store_bf16(to, {v.x * s, v.y * s, v.z * s, v.w * s});
}
