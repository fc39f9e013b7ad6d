// Attention over logical positions, in chunks of LSG_CHUNK.
//
// A chunk that lies wholly in the committed context is the same for all rows: one block takes it for many query heads
// at once. Later chunks (from the one in which the context ends to the row's own position) differ from row to row: a
// block for each row and chunk finds the cache columns of the ancestors. Both run the same code over 256 slots, and a
// position always has the same slot, so a row's bits do not depend on the kind of its block. A last kernel adds the
// chunks in order.
#include "torch/kernels/gpu_device.h"

namespace {

enum {
    WARPS = 4,
    S_STRIDE = LSG_CHUNK + 4, // floats of a row of scores: lanes of a tile fall into different banks
    Q_PAD = 8,
    STEPS = 8 // of 16 dimensions or slots whose keys or values are on their way at once
};

LSG_DEVICE const uint16_t *keys_at(const lsg_buffers &b, int32_t layer, int32_t value, int32_t head, int32_t column) {
    return b.pages[column / LSG_PAGE] +
           (((size_t)(layer * 2 + value) * b.n_kv_heads + head) * LSG_PAGE + column % LSG_PAGE) * b.head_dim;
}

LSG_DEVICE int32_t first_seen(const lsg_attend &a, int32_t position) {
    return a.window && position + 1 > a.window ? position + 1 - a.window : 0;
}

// QT tiles of 16 queries (a row and head each) at most.
template <int QT> __global__ void __launch_bounds__(32 * WARPS) attend(lsg_buffers b, lsg_attend a, int32_t n_shared) {
    LSG_SHARED(float,
               scores); // [16 QT][S_STRIDE], then as bf16 in place; columns [LSG_CHUNK]; queries [16 QT][hd + pad]
    lsg_next_may_start();
    lsg_wait_before();
    const lsg_step *s = b.step;
    const int32_t hd = b.head_dim, group = b.n_heads / b.n_kv_heads, kv_head = (int32_t)blockIdx.x,
                  item = (int32_t)blockIdx.y;
    const int32_t t = (int32_t)threadIdx.x, lane = t % 32, warp = t / 32, r = lane / 4, c = lane % 4;
    int32_t *columns = (int32_t *)(scores + 16 * QT * S_STRIDE);
    uint16_t *queries = (uint16_t *)(columns + LSG_CHUNK);
    const int32_t q_stride = hd + Q_PAD, length = s->length;
    // which chunk, and for which queries: row0 and on, or of one row alone
    const bool shared_chunk = item < n_shared;
    int32_t chunk, row0, head0, n_q, seen;
    if (shared_chunk) {
        const int32_t q0 = item / a.chunks * 16 * QT;
        chunk = item % a.chunks;
        if ((chunk + 1) * LSG_CHUNK > length || (chunk + 1) * LSG_CHUNK <= first_seen(a, length)) return;
        n_q = min(16 * QT, s->n_rows * group - q0);
        row0 = q0 / group;
        head0 = q0 % group;
        seen = LSG_CHUNK;
    } else {
        const int32_t i = item - n_shared, blocks = (group + 15) / 16;
        row0 = i / (2 * blocks);
        if (row0 >= s->n_rows) return;
        head0 = i % blocks * 16;
        n_q = min(16, group - head0);
        chunk = length / LSG_CHUNK + i / blocks % 2;
        seen = min((int32_t)LSG_CHUNK, length + s->depth[row0] + 1 - chunk * LSG_CHUNK); // slots that hold something
    }
    if (n_q <= 0 || seen <= 0) return;
    const int32_t q_tiles = (n_q + 15) / 16;
    for (int32_t i = t; i < LSG_CHUNK; i += 32 * WARPS) {
        const int32_t p = chunk * LSG_CHUNK + i;
        columns[i] = i >= seen    ? -1
                     : p < length ? b.columns[p]
                                  : s->column[b.ancestors[row0 * LST_MAX_ROWS + p - length]];
    }
    auto row_of = [&](int32_t q) { return row0 + (head0 + q) / group; };
    auto head_of = [&](int32_t q) { return kv_head * group + (head0 + q) % group; };
    for (int32_t i = t; i < q_tiles * 16 * (hd / 4); i += 32 * WARPS) {
        const int32_t q = i / (hd / 4), d = i % (hd / 4) * 4;
        uint2 v = {0, 0};
        if (q < n_q) v = *(const uint2 *)(b.q + ((size_t)row_of(q) * b.n_heads + head_of(q)) * hd + d);
        *(uint2 *)(queries + q * q_stride + d) = v;
    }
    __syncthreads();
    // scores: a warp takes eight slots at a time; a lane has four values of a query or key for each step of 16. The
    // keys of STEPS steps are on their way at once.
    for (int32_t slot0 = warp * 8; slot0 < (seen + 7) / 8 * 8; slot0 += WARPS * 8) {
        const int32_t column = columns[slot0 + r];
        const uint16_t *key = column < 0 ? nullptr : keys_at(b, a.layer, 0, kv_head, column) + c * 4;
        float sum[QT][4];
#pragma unroll
        for (int i = 0; i < QT * 4; i++) (&sum[0][0])[i] = 0;
        for (int32_t base = 0; base < hd; base += 16 * STEPS) {
            uint2 k[STEPS];
#pragma unroll
            for (int u = 0; u < STEPS; u++) {
                k[u] = {0, 0};
                if (key && base + 16 * u < hd) k[u] = *(const uint2 *)(key + base + 16 * u);
            }
#pragma unroll
            for (int u = 0; u < STEPS; u++)
                if (base + 16 * u < hd)
#pragma unroll
                    for (int j = 0; j < QT; j++)
                        if (j < q_tiles) {
                            const uint16_t *q = queries + (j * 16 + r) * q_stride + base + 16 * u + c * 4;
                            const uint2 lo = *(const uint2 *)q, hi = *(const uint2 *)(q + 8 * q_stride);
                            const uint32_t x[4] = {lo.x, hi.x, lo.y, hi.y};
                            lsg_mma(sum[j], x, k[u].x, k[u].y);
                        }
        }
#pragma unroll
        for (int j = 0; j < QT; j++)
            if (j < q_tiles)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    scores[(j * 16 + r + i / 2 * 8) * S_STRIDE + slot0 + c * 2 + i % 2] = sum[j][i];
    }
    __syncthreads();
    // weights: a warp takes a query; lane and step give a slot its place in the sum
    for (int32_t q = warp; q < q_tiles * 16; q += WARPS) {
        float *row = scores + q * S_STRIDE, v[LSG_CHUNK / 32], most = -INFINITY, sum = 0;
        const int32_t position = q < n_q ? length + s->depth[row_of(q)] : -1, first = first_seen(a, position);
#pragma unroll
        for (int i = 0; i < LSG_CHUNK / 32; i++) {
            const int32_t slot = lane + 32 * i, p = chunk * LSG_CHUNK + slot;
            float x = slot < seen && p >= first && p <= position ? row[slot] : -INFINITY;
            if (a.softcap > 0 && x > -INFINITY) x = a.softcap * tanhf(x / a.softcap);
            v[i] = x;
            most = fmaxf(most, x);
        }
        most = lsg_warp_max(most);
        __syncwarp();
        uint16_t *weights = (uint16_t *)row;
#pragma unroll
        for (int i = 0; i < LSG_CHUNK / 32; i++) {
            const uint32_t w = most == -INFINITY ? 0 : lsg_bf16x2(expf(v[i] - most), 0);
            weights[lane + 32 * i] = (uint16_t)w;
            sum += __uint_as_float(w << 16); // what the values are weighted with, rounded as it is
        }
        sum = lsg_warp_sum(sum);
        if (lane == 0 && q < n_q) {
            float *out = b.part_ml + (((size_t)chunk * b.rows + row_of(q)) * b.n_heads + head_of(q)) * 2;
            out[0] = most;
            out[1] = sum;
        }
    }
    __syncthreads();
    // values: a warp takes 16 dimensions; its lanes hold pairs of neighbours and exchange them for pairs of slots
    for (int32_t d0 = warp * 16; d0 < hd; d0 += WARPS * 16) {
        float out[QT][2][4];
#pragma unroll
        for (int i = 0; i < QT * 8; i++) (&out[0][0][0])[i] = 0;
        for (int32_t base = 0; base < seen; base += 16 * STEPS) {
            uint32_t w[STEPS][4];
#pragma unroll
            for (int u = 0; u < STEPS; u++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int32_t column = columns[base + 16 * u + c * 2 + i % 2 + i / 2 * 8];
                    w[u][i] =
                        column < 0 ? 0 : *(const uint32_t *)(keys_at(b, a.layer, 1, kv_head, column) + d0 + r * 2);
                }
#pragma unroll
            for (int u = 0; u < STEPS; u++) {
                if (base + 16 * u >= seen) break;
                const uint32_t even0 = lsg_permute(w[u][0], w[u][1], 0x5410),
                               even1 = lsg_permute(w[u][2], w[u][3], 0x5410);
                const uint32_t odd0 = lsg_permute(w[u][0], w[u][1], 0x7632),
                               odd1 = lsg_permute(w[u][2], w[u][3], 0x7632);
#pragma unroll
                for (int j = 0; j < QT; j++)
                    if (j < q_tiles) {
                        const uint32_t *lo =
                            (const uint32_t *)(scores + (j * 16 + r) * S_STRIDE) + base / 2 + 8 * u + c;
                        const uint32_t *hi = lo + 8 * S_STRIDE, x[4] = {lo[0], hi[0], lo[4], hi[4]};
                        lsg_mma(out[j][0], x, even0, even1);
                        lsg_mma(out[j][1], x, odd0, odd1);
                    }
            }
        }
#pragma unroll
        for (int j = 0; j < QT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t q = j * 16 + r + i / 2 * 8, d = d0 + (c * 2 + i % 2) * 2;
                if (q >= n_q) continue;
                float *to = b.part_o + (((size_t)chunk * b.rows + row_of(q)) * b.n_heads + head_of(q)) * hd + d;
                to[0] = out[j][0][i];
                to[1] = out[j][1][i];
            }
    }
}

__global__ void combine(lsg_buffers b, lsg_attend a) {
    lsg_next_may_start();
    lsg_wait_before();
    const int32_t r = (int32_t)blockIdx.x, h = (int32_t)blockIdx.y, hd = b.head_dim;
    if (r >= b.step->n_rows) return;
    const int32_t position = b.step->length + b.step->depth[r];
    const int32_t from = first_seen(a, position) / LSG_CHUNK, to = position / LSG_CHUNK;
    auto at = [&](int32_t chunk) { return ((size_t)chunk * b.rows + r) * b.n_heads + h; };
    float most = -INFINITY, sum = 0;
    for (int32_t i = from; i <= to; i++) most = fmaxf(most, b.part_ml[at(i) * 2]);
    for (int32_t i = from; i <= to; i++) sum += b.part_ml[at(i) * 2 + 1] * expf(b.part_ml[at(i) * 2] - most);
    for (int32_t d = (int32_t)threadIdx.x; d < hd; d += (int32_t)blockDim.x) {
        float out = 0;
        for (int32_t i = from; i <= to; i++)
            out = fmaf(b.part_o[at(i) * hd + d], expf(b.part_ml[at(i) * 2] - most), out);
        b.xn[((size_t)r * b.n_heads + h) * hd + d] = (uint16_t)lsg_bf16x2(out / sum, 0);
    }
}

template <int QT> int run(const lsg_buffers &b, const lsg_attend &a, lsg_stream stream) {
    const int32_t group = b.n_heads / b.n_kv_heads, queries = 16 * QT;
    const int32_t n_shared = a.chunks * ((b.rows * group + queries - 1) / queries),
                  tails = b.rows * 2 * ((group + 15) / 16);
    const size_t shared =
        (size_t)queries * (S_STRIDE * sizeof(float) + (size_t)(b.head_dim + Q_PAD) * sizeof(uint16_t)) +
        LSG_CHUNK * sizeof(int32_t);
    const dim3 grid((unsigned)b.n_kv_heads, (unsigned)(n_shared + tails));
    if (int e = lsg_launch(attend<QT>, grid, 32 * WARPS, shared, stream, b, a, n_shared)) return e;
    return lsg_launch(combine, dim3((unsigned)b.rows, (unsigned)b.n_heads), b.head_dim > 64 ? 128 : 64, 0, stream, b,
                      a);
}

} // namespace

int lsg_attention(const lsg_buffers *b, const lsg_attend *a, lsg_stream s) {
    return b->rows * (b->n_heads / b->n_kv_heads) <= 16 ? run<1>(*b, *a, s) : run<4>(*b, *a, s);
}
