// y = x W for a few rows. The time is that of reading the weights once, so everything serves an unbroken stream of
// packed weights, as in Marlin (arXiv 2408.11743). Each lane unpacks its own weights in registers, by bit operations:
// OR q into the mantissa of a constant and subtract the constant (arXiv 2211.10017). In the tensor core's product the
// weights are the operand of 16 and the rows of x that of 8, so one row costs what eight do.
//
// A block has four warps, each with two tiles of 16 outputs. `warps_out` of them share the outputs, the others share
// the inputs of each stage; the grid's third dimension takes chunks of inputs. Inputs of all rows come to shared memory
// stage by stage, two stages under way; weights go from memory to registers, AHEAD groups before their use, past the
// caches. Every sum runs over a warp's groups in order, then over warps, then (in the kernel that reads y) over chunks:
// the number of rows changes nothing.
#include "torch/kernels/gpu_device.h"

namespace {

enum {
    WARPS = 4,
    NEAR = 12,                         // further groups that are prefetched while the kernel ahead ends
    STAGE = 8,                         // groups of inputs of a stage
    ROW_BYTES = STAGE * LSG_GROUP * 2, // of a row in a stage
    STRIDE = ROW_BYTES + 64            // eight lanes' 16 bytes fall into different banks
};

// One lane's weights of two tiles and a group (outputs r and r + 8 of each, inputs 8c .. 8c + 7), as they are stored.
template <int F> struct Raw;
template <> struct Raw<LSG_BF16> { uint4 w[2][2]; };
template <> struct Raw<LSG_F16> { uint4 w[2][2]; };
template <> struct Raw<LSG_Q4> {
    uint2 w[2];
    uint32_t s[2][2]; // scale and minimum
};
template <> struct Raw<LSG_Q8> {
    uint4 w[2];
    uint16_t s[2][2];
};
template <> struct Raw<LSG_Q4S> {
    uint2 w[2];
    float2 s[2][2];
};
template <> struct Raw<LSG_Q8S> {
    uint4 w[2];
    float2 s[2][2][2];
};

// Groups of weights under way in a warp: about as many bytes of each format.
template <int F> constexpr int ahead_of = F == LSG_Q4 ? 8 : F == LSG_Q8S ? 2 : 4;
template <int F>
constexpr int tile_bytes = F == LSG_BF16 || F == LSG_F16 ? 1024
                           : F == LSG_Q4 || F == LSG_Q4S ? 256
                                                         : 512;

template <class T> LSG_DEVICE T at(const uint8_t *p, size_t i) {
    return ((const T *)p)[i];
}

template <int F>
LSG_DEVICE void load(Raw<F> &raw, const lsg_matrix &m, int32_t tile, int32_t group, int32_t groups, int lane) {
    for (int t = 0; t < 2; t++) {
        const size_t n = (size_t)(tile + t) * (size_t)groups + (size_t)group;
        const int r = lane / 4;
        if constexpr (F == LSG_BF16 || F == LSG_F16) {
            raw.w[t][0] = lsg_stream16(m.weights + n * 1024 + lane * 16);
            raw.w[t][1] = lsg_stream16(m.weights + n * 1024 + 512 + lane * 16);
        } else {
            if constexpr (F == LSG_Q4 || F == LSG_Q4S) raw.w[t] = lsg_stream8(m.weights + n * 256 + lane * 8);
            else raw.w[t] = lsg_stream16(m.weights + n * 512 + lane * 16);
            for (int h = 0; h < 2; h++) {
                const size_t o = n * LSG_TILE + r + 8 * h;
                if constexpr (F == LSG_Q4) raw.s[t][h] = at<uint32_t>(m.scales, o);
                if constexpr (F == LSG_Q8) raw.s[t][h] = at<uint16_t>(m.scales, o);
                if constexpr (F == LSG_Q4S) raw.s[t][h] = at<float2>(m.scales, o);
                if constexpr (F == LSG_Q8S)
                    for (int part = 0; part < 2; part++)
                        raw.s[t][h][part] = at<float2>(m.scales, (n * 2 + part) * LSG_TILE + r + 8 * h);
            }
        }
    }
}

// Inputs 2i, 2i + 1 of a lane's eight as a pair of bf16.
LSG_DEVICE uint32_t nibbles(uint32_t word, int i) {
    return lsg_sub_bf16x2((word >> 4 * i & 0x000F000Fu) | 0x43004300u, 0x43004300u); // 128 + q, less 128: exact
}
LSG_DEVICE uint32_t bytes(uint32_t lo, uint32_t hi, int i) {
    const uint32_t word = i < 2 ? lo : hi;
    const int shift = i % 2 * 16;
    return lsg_bf16x2((float)(int8_t)(word >> shift), (float)(int8_t)(word >> (shift + 8)));
}
LSG_DEVICE uint32_t word_of(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// The operand of step s (inputs 4s .. 4s + 3 of each lane's eight) of a tile.
template <int F> LSG_DEVICE void operand(uint32_t a[4], const Raw<F> &raw, int t, int s) {
    for (int i = 0; i < 2; i++) {
        if constexpr (F == LSG_Q4 || F == LSG_Q4S) {
            a[2 * i] = nibbles(raw.w[t].x, 2 * s + i);
            a[2 * i + 1] = nibbles(raw.w[t].y, 2 * s + i);
        } else if constexpr (F == LSG_Q8 || F == LSG_Q8S) {
            a[2 * i] = bytes(raw.w[t].x, raw.w[t].y, 2 * s + i);
            a[2 * i + 1] = bytes(raw.w[t].z, raw.w[t].w, 2 * s + i);
        } else {
            a[2 * i] = word_of(raw.w[t][0], 2 * s + i);
            a[2 * i + 1] = word_of(raw.w[t][1], 2 * s + i);
        }
    }
}
// Pairs of f16 as the sum of two pairs of bf16.
LSG_DEVICE void halves(const uint32_t f16[4], uint32_t high[4], uint32_t low[4]) {
    for (int i = 0; i < 4; i++) {
        const float x = lsg_half((uint16_t)f16[i]), y = lsg_half((uint16_t)(f16[i] >> 16));
        high[i] = lsg_bf16x2(x, y);
        low[i] = lsg_bf16x2(x - __uint_as_float(high[i] << 16), y - __uint_as_float(high[i] & 0xFFFF0000u));
    }
}

// acc += scale * sum (+ minimum * sum of inputs): d[0], d[1] are output r's, d[2], d[3] output r + 8's.
LSG_DEVICE void scaled(float acc[4], const float sum[4], float s0, float s8) {
    for (int i = 0; i < 4; i++) acc[i] = fmaf(i < 2 ? s0 : s8, sum[i], acc[i]);
}

template <int F>
LSG_DEVICE void multiply(float acc[4], const Raw<F> &raw, int t, const uint32_t a[2][4], const uint4 &x,
                         const float total[2][4]) {
    const uint32_t b[2][2] = {{x.x, x.y}, {x.z, x.w}};
    if constexpr (F == LSG_BF16) {
        for (int s = 0; s < 2; s++) lsg_mma(acc, a[s], b[s][0], b[s][1]);
    } else if constexpr (F == LSG_F16) {
        for (int s = 0; s < 2; s++) {
            uint32_t high[4], low[4];
            halves(a[s], high, low);
            lsg_mma(acc, high, b[s][0], b[s][1]);
            lsg_mma(acc, low, b[s][0], b[s][1]);
        }
    } else if constexpr (F == LSG_Q8S) {
        for (int part = 0; part < 2;
             part++) { // inputs 0-15 and 16-31 have their own scales: lanes of the others hold 0
            const uint32_t mask = (threadIdx.x % 4 / 2 == (unsigned)part) ? 0xFFFFFFFFu : 0;
            float sum[4] = {0, 0, 0, 0};
            for (int s = 0; s < 2; s++) {
                const uint32_t own[4] = {a[s][0] & mask, a[s][1] & mask, a[s][2] & mask, a[s][3] & mask};
                lsg_mma(sum, own, b[s][0], b[s][1]);
            }
            scaled(acc, sum, raw.s[t][0][part].x, raw.s[t][1][part].x);
            scaled(acc, total[part], raw.s[t][0][part].y, raw.s[t][1][part].y);
        }
    } else {
        float sum[4] = {0, 0, 0, 0};
        for (int s = 0; s < 2; s++) lsg_mma(sum, a[s], b[s][0], b[s][1]);
        if constexpr (F == LSG_Q4) {
            scaled(acc, sum, lsg_half((uint16_t)raw.s[t][0]), lsg_half((uint16_t)raw.s[t][1]));
            scaled(acc, total[0], lsg_half((uint16_t)(raw.s[t][0] >> 16)), lsg_half((uint16_t)(raw.s[t][1] >> 16)));
        } else if constexpr (F == LSG_Q8) {
            scaled(acc, sum, lsg_half(raw.s[t][0]), lsg_half(raw.s[t][1]));
        } else {
            scaled(acc, sum, raw.s[t][0].x, raw.s[t][1].x);
            scaled(acc, total[0], raw.s[t][0].y, raw.s[t][1].y);
        }
    }
}

// Sums of a group's inputs of eight rows, in the places where products of them stand: a product with ones.
template <int F> LSG_DEVICE void totals(float total[2][4], const uint4 &x) {
    if constexpr (F == LSG_Q4 || F == LSG_Q4S || F == LSG_Q8S) {
        for (int part = 0; part < (F == LSG_Q8S ? 2 : 1); part++) {
            const uint32_t one = F == LSG_Q8S && threadIdx.x % 4 / 2 != (unsigned)part ? 0 : 0x3F803F80u;
            const uint32_t ones[4] = {one, one, one, one};
            for (int i = 0; i < 4; i++) total[part][i] = 0;
            lsg_mma(total[part], ones, x.x, x.y);
            lsg_mma(total[part], ones, x.z, x.w);
        }
    }
}

template <int F, int NT>
__global__ void __launch_bounds__(32 * WARPS)
    matmul(lsg_matrix m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows) {
    constexpr int AHEAD = ahead_of<F>;
    LSG_SHARED(unsigned char, stages); // [2][8 NT rows][STRIDE]; afterwards the sums of warps
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, splits = WARPS / m.warps_out;
    const int32_t groups = m.n_in / LSG_GROUP, tile = ((int32_t)blockIdx.y * m.warps_out + warp % m.warps_out) * 2;
    const bool has_tile = tile * LSG_TILE < m.n_out;
    const int32_t first = (int32_t)blockIdx.z * m.chunk_groups, end = min(groups, first + m.chunk_groups);
    // a warp's n-th group: `per` of each stage
    const int log_per = splits == 1 ? 3 : splits == 2 ? 2 : 1;
    const int32_t per = 1 << log_per, own = warp / m.warps_out * per;
    auto group_of = [&](int32_t n) { return first + (n >> log_per) * STAGE + own + (n & (per - 1)); };
    Raw<F> ahead[AHEAD];
    auto fetch = [&](int slot, int32_t n) {
        if (has_tile && group_of(n) < end) load<F>(ahead[slot], m, tile, group_of(n), groups, lane);
    };
    lsg_next_may_start();
#pragma unroll
    for (int i = 0; i < AHEAD; i++) fetch(i, i);     // weights do not wait for the kernel before
    for (int32_t n = AHEAD; n < AHEAD + NEAR; n++) { // a line a lane
        constexpr int lines = tile_bytes<F> / 128;
        if (has_tile && lane < 2 * lines && group_of(n) < end)
            lsg_prefetch(m.weights + ((size_t)(tile + lane / lines) * groups + group_of(n)) * tile_bytes<F> +
                         lane % lines * 128);
    }
    lsg_wait_before();
    if (n_rows) rows = min(rows, *n_rows);
    const int32_t row0 = (int32_t)blockIdx.x * 8 * NT; // blocks of the same weights run side by side
    if (row0 >= rows) return;
    const int32_t n_stages = (end - first + STAGE - 1) / STAGE, nt = min(NT, (rows - row0 + 7) / 8);
    auto stage = [&](int32_t s) { // the block copies a stage's inputs; rows beyond the last repeat it
        if (s < n_stages) {
            const int32_t pieces = min((int32_t)STAGE, end - first - s * STAGE) * 4;
            unsigned char *to = stages + (size_t)(s % 2) * (8 * NT) * STRIDE;
            for (int32_t i = (int32_t)threadIdx.x; i < 8 * nt * STAGE * 4; i += 32 * WARPS) {
                const int32_t r = i / (STAGE * 4), piece = i % (STAGE * 4);
                if (piece < pieces)
                    lsg_copy16(to + r * STRIDE + piece * 16, x + (size_t)min(row0 + r, rows - 1) * m.n_in +
                                                                 (size_t)(first + s * STAGE) * LSG_GROUP + piece * 8);
            }
        }
        lsg_copies_commit();
    };
    float acc[2][NT][4];
#pragma unroll
    for (int i = 0; i < 2 * NT * 4; i++) (&acc[0][0][0])[i] = 0;
    stage(0);
    int32_t staged = 0; // the stage whose inputs are there
    stage(1);
    lsg_copies_wait<1>();
    __syncthreads();
    for (int32_t n0 = 0; n0 < n_stages * per; n0 += AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int32_t n = n0 + i, g = group_of(n);
            if (n >= n_stages * per) break;
            if (n >> log_per != staged) { // the same for all warps
                __syncthreads();          // nobody reads the stage before any more
                stage(staged + 2);
                lsg_copies_wait<1>();
                __syncthreads();
                staged++;
            }
            const Raw<F> raw = ahead[i];
            fetch(i, n + AHEAD);
            if (!has_tile || g >= end) continue;
            uint32_t a[2][2][4];
            for (int t = 0; t < 2; t++)
                for (int s = 0; s < 2; s++) operand<F>(a[t][s], raw, t, s);
            const unsigned char *in = stages + (size_t)(staged % 2) * (8 * NT) * STRIDE + (g - first) % STAGE * 64 +
                                      lane / 4 * STRIDE + lane % 4 * 16;
#pragma unroll
            for (int j = 0; j < NT; j++)
                if (j < nt) {
                    const uint4 b = *(const uint4 *)(in + (size_t)j * 8 * STRIDE);
                    float total[2][4];
                    totals<F>(total, b);
                    for (int t = 0; t < 2; t++) multiply<F>(acc[t][j], raw, t, a[t], b, total);
                }
        }
    if (splits > 1) {                  // one group of warps after another adds its sums
        float *sums = (float *)stages; // [warps_out][32 lanes][2 * NT * 4]
        for (int part = 1; part < splits; part++) {
            __syncthreads();
            float *place = sums + (size_t)(warp % m.warps_out * 32 + lane) * (8 * NT + 1);
            if (warp / m.warps_out == part)
                for (int i = 0; i < 8 * NT; i++) place[i] = (&acc[0][0][0])[i];
            __syncthreads();
            if (warp / m.warps_out == 0)
#pragma unroll
                for (int i = 0; i < 8 * NT; i++) (&acc[0][0][0])[i] += place[i];
        }
        if (warp / m.warps_out) return;
    }
    if (!has_tile) return;
    float *out = y + ((size_t)blockIdx.z * rows_y + row0) * m.n_out;
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t o = (tile + t) * LSG_TILE + lane / 4 + i / 2 * 8, r = j * 8 + lane % 4 * 2 + i % 2;
                if (o < m.n_out && row0 + r < rows) out[(size_t)r * m.n_out + o] = acc[t][j][i];
            }
}

template <int F, int NT>
int run(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
        lsg_stream stream) {
    const size_t staged = 2 * 8 * NT * STRIDE, sums = (size_t)WARPS * 32 * (8 * NT + 1) * sizeof(float);
    const dim3 grid((unsigned)((rows + 8 * NT - 1) / (8 * NT)),
                    (unsigned)((m.n_out + 32 * m.warps_out - 1) / (32 * m.warps_out)), (unsigned)m.chunks);
    return lsg_launch(matmul<F, NT>, grid, 32 * WARPS, m.warps_out < WARPS && sums > staged ? sums : staged, stream, m,
                      x, y, rows_y, rows, n_rows);
}

template <int F>
int run_rows(const lsg_matrix &m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
             lsg_stream s) {
    return rows <= 8    ? run<F, 1>(m, x, y, rows_y, rows, n_rows, s)
           : rows <= 16 ? run<F, 2>(m, x, y, rows_y, rows, n_rows, s)
           : rows <= 32 ? run<F, 4>(m, x, y, rows_y, rows, n_rows, s)
                        : run<F, 8>(m, x, y, rows_y, rows, n_rows, s);
}

} // namespace

int lsg_matmul(const lsg_matrix *m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
               lsg_stream s) {
    switch (m->format) {
    case LSG_BF16: return run_rows<LSG_BF16>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_F16: return run_rows<LSG_F16>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_Q4: return run_rows<LSG_Q4>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_Q8: return run_rows<LSG_Q8>(*m, x, y, rows_y, rows, n_rows, s);
    case LSG_Q4S: return run_rows<LSG_Q4S>(*m, x, y, rows_y, rows, n_rows, s);
    default: return run_rows<LSG_Q8S>(*m, x, y, rows_y, rows, n_rows, s);
    }
}
