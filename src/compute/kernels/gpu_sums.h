// What reads a matmul's sums: its chunks added in order, and the gate of a feed-forward part.
#pragma once
#include "compute/kernels/gpu_device.h"

namespace {

constexpr int AT_ONCE = 4; // chunks of a matmul's sums

// Four neighbours of y[.][r] from i on, with the chunks added in order; a few are on their way before the first is
// added. Widths are multiples of 4.
LSG_DEVICE float4 added4(const float *y, int32_t chunks, int32_t rows, int32_t width, int32_t r, int32_t i,
                         const float *bias) {
    float4 sum = {0, 0, 0, 0};
    for (int32_t first = 0; first < chunks; first += AT_ONCE) {
        float4 part[AT_ONCE];
#pragma unroll
        for (int c = 0; c < AT_ONCE; c++)
            if (first + c < chunks) part[c] = *(const float4 *)(y + ((size_t)(first + c) * rows + r) * width + i);
#pragma unroll
        for (int c = 0; c < AT_ONCE; c++)
            if (first + c < chunks) sum.x += part[c].x, sum.y += part[c].y, sum.z += part[c].z, sum.w += part[c].w;
    }
    if (!bias) return sum;
    const float4 more = *(const float4 *)(bias + i);
    return {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
}

// Four neighbours, rounded.
LSG_DEVICE void store_bf16(uint16_t *to, const float4 &v) {
    *(uint2 *)to = {lsg_bf16x2(v.x, v.y), lsg_bf16x2(v.z, v.w)};
}

LSG_DEVICE float activated(float x, const lsg_gating &a) {
    if (a.activation == LS_ACT_RELU2) return x > 0 ? x * x : 0;
    if (a.activation == LS_ACT_XIELU) {
        if (x > 0) return fmaf(a.xielu[0] * x, x, a.xielu[2] * x);
        return fmaf(expm1f(fminf(x, a.xielu[3])) - x, a.xielu[1], a.xielu[2] * x);
    }
    // gelu by tanh: x (1 + tanh(v)) / 2 = x / (1 + e^-2v)
    const float v = a.activation == LS_ACT_SILU ? x : 2 * 0.79788456080286536f * fmaf(0.044715f * x * x, x, x);
    return x / (1.0f + expf(-v));
}

// Four values of a row of act(gate) * up; the row's gates and ups stand in y as one row of 2 n (n without gates).
LSG_DEVICE float4 gated4(const float *y, const lsg_gating &a, int32_t rows, int32_t n, int32_t r, int32_t i,
                         const float *bias) {
    const int32_t wide = a.ungated ? n : 2 * n;
    const float4 g4 = added4(y, a.chunks, rows, wide, r, i, bias);
    float4 u4 = {1, 1, 1, 1};
    if (!a.ungated) u4 = added4(y, a.chunks, rows, wide, r, n + i, bias);
    const float g[4] = {g4.x, g4.y, g4.z, g4.w}, u[4] = {u4.x, u4.y, u4.z, u4.w};
    float out[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (a.activation == LS_ACT_CLAMPED) { // what is not a number stays so
            const float x = g[k] > LS_CLAMP ? LS_CLAMP : g[k], up = u[k] > LS_CLAMP    ? LS_CLAMP
                                                                    : u[k] < -LS_CLAMP ? -LS_CLAMP
                                                                                       : u[k];
            out[k] = x / (1.0f + expf(-LS_CLAMP_SLOPE * x)) * (1.0f + up);
        } else out[k] = activated(g[k], a) * u[k];
    return {out[0], out[1], out[2], out[3]};
}

// Kernels whose threads take four neighbours of n values of a row each, `per` such rows for each row of the step. They
// begin with four_of, which waits for the kernel ahead.
constexpr int THREADS = 256;
struct four {
    int32_t r, i;
    bool there;
};
LSG_DEVICE four four_of(const lsg_buffers &b, int32_t per, int32_t n) {
    lsg_next_may_start();
    const int32_t r = (int32_t)blockIdx.y, i = 4 * (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    const bool there = r < lsg_fresh(&b.step->n_rows) * per && i < n;
    lsg_wait_before();
    return {r, i, there};
}
inline dim3 fours(int32_t n, int32_t rows) {
    return dim3(lsg_blocks(n, 4 * THREADS), (unsigned)rows);
}

} // namespace
