// A row between matmuls; sums in one fixed order.
#include "compute/kernels/gpu_sums.h"

namespace {

constexpr int NORM_THREADS = 512, ROPE_THREADS = 128;
static_assert(LSG_MOST_EMBD == 8 * 4 * NORM_THREADS, "what add_norm<8> holds");

__global__ void begin(lsg_buffers b, lsg_rotation a) {
    LSG_SHARED(int32_t, parent);
    lsg_next_may_start();
    lsg_wait_before();
    const lsg_step *s = b.step;
    const int32_t block = (int32_t)blockIdx.x, t = (int32_t)threadIdx.x;
    if (block < b.rows) { // the path and the rotation of a row
        if (block >= s->n_rows) return;
        for (int32_t i = t; i < s->n_rows; i += THREADS) parent[i] = s->parent[i];
        for (int32_t kind = 0; kind < 2; kind++)
            for (int32_t i = t; a.freq[kind] && i < a.dims / 2; i += THREADS) {
                // rounded to f32 as the reference implementation does
                const float angle = (float)(s->length + s->depth[block]) * a.freq[kind][i];
                float *turn = b.turns + ((size_t)kind * b.rows + block) * a.dims + 2 * i;
                turn[0] = (float)(cos((double)angle) * (double)a.magnitude[kind]);
                turn[1] = (float)(sin((double)angle) * (double)a.magnitude[kind]);
            }
        __syncthreads();
        if (t) return;
        int32_t row = block;
        for (int32_t d = s->depth[block]; d >= 0; d--) {
            b.ancestors[block * LST_MAX_ROWS + d] = (int16_t)row;
            row = parent[row];
        }
    } else if (block == b.rows) {
        if (t == 0) b.result->bad = 0;
        for (int32_t i = t; i < s->n_new; i += THREADS) b.columns[s->new_from + i] = s->new_column[i];
    } else if (s->keep_row >= 0) {
        const int32_t i = (block - b.rows - 1) * THREADS + t;
        if (i < b.n_vocab) b.last[i] = b.logits[(size_t)s->keep_row * b.n_vocab + i];
    }
}

#define VALUE_BYTES(name, values, ...) values,
#define SCALE_BYTES(name, values, scales, ...) scales,
// A weight, from where gpu.h says that it lies.
LSG_DEVICE float weight(const lsg_matrix &m, int32_t o, int32_t k) {
    constexpr int values[] = {LSG_FORMATS(VALUE_BYTES)}, scales[] = {LSG_FORMATS(SCALE_BYTES)};
    const bool apart = m.format == LSG_Q8S, plain = m.format == LSG_BF16 || m.format == LSG_F16;
    const int32_t in = k % LSG_GROUP, r = o % 8, t = o % LSG_TILE / 16, half = o % 16 / 8,
                  c = apart ? in % 16 / 4 : in / 8, j = apart ? in / 16 * 4 + in % 4 : in % 8, lane = r * 4 + c;
    const size_t n = (size_t)(o / LSG_TILE) * (size_t)(m.n_in / LSG_GROUP) + (size_t)(k / LSG_GROUP);
    const uint8_t *at = m.weights + n * (size_t)(values[m.format] + scales[m.format]), *scale = at + values[m.format];
    if (plain) {
        const uint16_t bits =
            *(const uint16_t *)(at + t * 1024 + j / 4 * 512 + lane * 16 + j % 4 / 2 * 8 + half * 4 + j % 2 * 2);
        return m.format == LSG_F16 ? lsg_half(bits) : __uint_as_float((uint32_t)bits << 16);
    }
    const bool byte = m.format == LSG_Q8 || apart;
    const float q = byte ? (float)(int8_t)at[t * 512 + lane * 16 + half * 8 + j / 4 * 4 + j % 2 * 2 + j % 4 / 2]
                         : (float)(((const uint32_t *)at)[lane * 4 + t * 2 + half] >> (j / 2 + j % 2 * 4) * 4 & 15);
    const int32_t of = (apart ? in / 16 * LSG_TILE : 0) + r * 4 + t * 2 + half;
    if (m.format == LSG_Q8) return q * lsg_half(((const uint16_t *)scale)[of]);
    if (m.format == LSG_Q4) {
        const uint32_t s = ((const uint32_t *)scale)[of];
        return fmaf(q, lsg_half((uint16_t)s), lsg_half((uint16_t)(s >> 16)));
    }
    const float2 s = ((const float2 *)scale)[of];
    return fmaf(q, s.x, s.y);
}

// No kernel behind this one may start before `begin` has ended: their heads read what it wrote.
__global__ void embed(lsg_buffers b, lsg_matrix m, float scale) {
    lsg_wait_before();
    lsg_next_may_start();
    const int32_t r = (int32_t)blockIdx.x;
    if (r >= b.step->n_rows) return;
    const int32_t o = b.step->token[r] - b.vocab_from;
    const bool own = o >= 0 && o < b.n_vocab;
    for (int32_t i = (int32_t)threadIdx.x; i < b.n_embd; i += THREADS)
        b.x[(size_t)r * b.n_embd + i] = own ? weight(m, o, i) * scale : 0;
}

LSG_DEVICE float dot4(const float4 &v, float sum) {
    return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum))));
}
LSG_DEVICE float4 times4(const float4 &a, float scale, const float4 &w) {
    return {a.x * scale * w.x, a.y * scale * w.y, a.z * scale * w.z, a.w * scale * w.w};
}

// A block a row, PER times four values a thread. LAYER: layer norms.
template <int PER, bool LAYER> __global__ void __launch_bounds__(NORM_THREADS) add_norm(lsg_buffers b, lsg_add a) {
    LSG_SHARED(float, place);
    const int32_t r = (int32_t)blockIdx.x, n = b.n_embd;
    auto index = [&](int k) { return 4 * ((int32_t)threadIdx.x + k * (int32_t)blockDim.x); };
    auto load = [&](float4 v[PER], const float *from) {
#pragma unroll
        for (int k = 0; k < PER; k++) {
            v[k] = {0, 0, 0, 0};
            if (from && index(k) < n) v[k] = *(const float4 *)(from + index(k));
        }
    };
    lsg_next_may_start();
    constexpr bool FEW = PER <= 2; // registers for weights, which do not wait for the kernel ahead
    float4 norm[FEW ? PER : 1], post[FEW ? PER : 1], x[PER];
    if constexpr (FEW) {
        load(norm, a.norm);
        load(post, a.post_norm);
    }
    auto weight = [&](const float4 *held, const float *from, int k) {
        return FEW ? held[k] : index(k) < n ? *(const float4 *)(from + index(k)) : float4{0, 0, 0, 0};
    };
    const bool there = r < lsg_fresh(&b.step->n_rows);
    lsg_wait_before();
    if (!there) return;
    auto inverse_rms = [&](const float4 v[PER]) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < PER; k++) sum = dot4(v[k], sum);
        return 1.0f / sqrtf(lsg_block_sum(sum, place) / (float)n + a.eps);
    };
    auto centre = [&](float4 v[PER]) { // subtracts the mean
        float sum = 0;
#pragma unroll
        for (int k = 0; k < PER; k++) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
        const float mean = lsg_block_sum(sum, place) / (float)n;
#pragma unroll
        for (int k = 0; k < PER; k++)
            if (index(k) < n) v[k] = {v[k].x - mean, v[k].y - mean, v[k].z - mean, v[k].w - mean};
    };
    auto biased = [&](const float4 &v, const float *from, int k) {
        const float4 more = *(const float4 *)(from + n + index(k));
        return float4{v.x + more.x, v.y + more.y, v.z + more.z, v.w + more.w};
    };
    float *row = b.x + (size_t)r * n;
    load(x, row);
    if (a.chunks) {
        float4 add[PER];
#pragma unroll
        for (int k = 0; k < PER; k++) {
            add[k] = {0, 0, 0, 0};
            if (index(k) < n) add[k] = added4(b.y, a.chunks, b.rows, n, r, index(k), a.bias);
        }
        if (LAYER && a.post_norm) centre(add);
        const float scale = a.post_norm ? inverse_rms(add) : 1, share = a.residual_scale;
#pragma unroll
        for (int k = 0; k < PER; k++) {
            if (a.post_norm) add[k] = times4(add[k], scale, weight(post, a.post_norm, k));
            if (LAYER && a.post_norm && index(k) < n) add[k] = biased(add[k], a.post_norm, k);
            x[k] = {x[k].x + add[k].x * share, x[k].y + add[k].y * share, x[k].z + add[k].z * share,
                    x[k].w + add[k].w * share};
            if (index(k) < n) *(float4 *)(row + index(k)) = x[k];
        }
    }
    if (LAYER && a.norm) centre(x);
    const float scale = a.norm ? inverse_rms(x) : 1;
#pragma unroll
    for (int k = 0; k < PER; k++)
        if (index(k) < n) {
            float4 out = a.norm ? times4(x[k], scale, weight(norm, a.norm, k)) : x[k];
            if (LAYER && a.norm) out = biased(out, a.norm, k);
            store_bf16(b.xn + (size_t)r * n + index(k), out);
        }
}

__global__ void arrive() {
    lsg_next_may_start();
    lsg_wait_before();
}

__global__ void sum_chunks(lsg_buffers b, int32_t chunks, int32_t n, float *sums) {
    const auto [r, i, there] = four_of(b, 1, n);
    if (there) *(float4 *)(sums + (size_t)r * n + i) = added4(b.y, chunks, b.rows, n, r, i, nullptr);
}

__global__ void take_rows(lsg_buffers b, int32_t normed, float *out, int64_t stride) {
    const auto [r, i, there] = four_of(b, 1, b.n_embd);
    if (!there) return;
    const size_t at = (size_t)r * b.n_embd + i;
    float4 v;
    if (normed) {
        const uint2 bits = *(const uint2 *)(b.xn + at);
        v = {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xFFFF0000u), __uint_as_float(bits.y << 16),
             __uint_as_float(bits.y & 0xFFFF0000u)};
    } else v = *(const float4 *)(b.x + at);
    *(float4 *)(out + (size_t)r * (size_t)stride + i) = v;
}

// A block takes some heads of a row, four values a thread.
__global__ void __launch_bounds__(ROPE_THREADS, 6) rope_kv(lsg_buffers b, lsg_rope a, int32_t heads_of_block) {
    LSG_SHARED(float, v); // [heads of the block][head_dim], then 32 places for sums
    lsg_next_may_start();
    const lsg_step *s = b.step;
    const int32_t hd = b.head_dim, nq = b.n_heads * hd, nkv = b.n_kv_heads * hd, n = nq + 2 * nkv,
                  t = (int32_t)threadIdx.x, r = (int32_t)blockIdx.x,
                  head0 = (int32_t)blockIdx.y * heads_of_block, // queries' heads, keys', then values'
        own = min(heads_of_block, b.n_heads + 2 * b.n_kv_heads - head0) * hd, i = 4 * t, head = head0 + i / hd,
                  d = i % hd;
    const bool there = r < lsg_fresh(&s->n_rows), mine = i < own,
               turned = mine && !a.unrotated && head < b.n_heads + b.n_kv_heads && d < a.rope_dims;
    const int32_t column = there ? lsg_fresh(&s->column[r]) : 0, pairs = a.rope_dims / 2;
    lsg_wait_before();
    if (!there) return;
    uint16_t *page = b.pages[column / LSG_PAGE] + (size_t)a.layer * 2 * b.n_kv_heads * LSG_PAGE * hd;
    float4 value = {0, 0, 0, 0};
    float2 turn[4];
    if (mine) value = added4(b.y, a.chunks, b.rows, n, r, head0 * hd + i, a.bias);
    const float *turns = b.turns + ((size_t)a.rope_kind * b.rows + r) * a.rope_dims;
    auto pair_of = [&](int32_t dim) { return a.rope_interleaved ? dim / 2 : dim % pairs; };
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (turned && d + k < a.rope_dims) turn[k] = *(const float2 *)(turns + 2 * pair_of(d + k));
    if (mine) *(float4 *)(v + i) = value;
    __syncthreads();
    if (a.qk_norm == LS_QK_NORM_WHOLE) { // each block sums all queries or keys
        float *place = v + heads_of_block * hd;
        for (int part = 0; part < 2; part++) {
            const int32_t from = part ? nq : 0, count = part ? nkv : nq, first = from - head0 * hd; // in v
            if (first + count <= 0 || first >= own) continue;
            float sum = 0;
            for (int32_t k = i; k < count; k += 4 * ROPE_THREADS)
                sum = dot4(added4(b.y, a.chunks, b.rows, n, r, from + k, a.bias), sum);
            const float scale = 1.0f / sqrtf(lsg_block_sum(sum, place) / (float)count + a.eps);
            const float *w = part ? a.k_norm : a.q_norm;
            for (int k = 0; k < 4; k++)
                if (mine && i + k >= first && i + k < first + count) v[i + k] *= scale * w[i + k - first];
        }
        __syncthreads();
    } else if (a.qk_norm != LS_QK_NORM_NONE) {             // a warp a head
        const bool last = a.qk_norm == LS_QK_NORM_ROTATED; // a rotation keeps the norm: only the weights must wait
        for (int32_t h = t / 32; h < own / hd && head0 + h < b.n_heads + b.n_kv_heads; h += ROPE_THREADS / 32) {
            float sum = 0;
            for (int32_t k = t % 32; k < hd; k += 32) sum = fmaf(v[h * hd + k], v[h * hd + k], sum);
            const float scale = 1.0f / sqrtf(lsg_warp_sum(sum) / (float)hd + a.eps);
            const float *w = head0 + h < b.n_heads ? a.q_norm : a.k_norm;
            for (int32_t k = t % 32; k < hd; k += 32) v[h * hd + k] *= last ? scale : scale * w[k];
        }
        __syncthreads();
    }
    if (!mine) return;
    float out[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        out[k] = v[i + k];
        if (!turned || d + k >= a.rope_dims) continue;
        const bool second = a.rope_interleaved ? (d + k) % 2 : d + k >= pairs;
        const float other = v[i + k + (a.rope_interleaved ? (second ? -1 : 1) : second ? -pairs : pairs)];
        out[k] = second ? other * turn[k].y + out[k] * turn[k].x : out[k] * turn[k].x - other * turn[k].y;
    }
    if (a.qk_norm == LS_QK_NORM_ROTATED && head < b.n_heads + b.n_kv_heads)
        for (int k = 0; k < 4; k++) out[k] *= (head < b.n_heads ? a.q_norm : a.k_norm)[d + k];
    float scale = head < b.n_heads ? a.attn_scale : 1;
    if (a.temperature > 0 && head < b.n_heads)
        scale *= 1.0f + a.temperature * log1pf((float)((s->length + s->depth[r]) / a.temperature_length));
    uint16_t *to = head < b.n_heads ? b.q + (size_t)r * nq + head * hd + d
                                    : page + ((size_t)(head - b.n_heads) * LSG_PAGE + column % LSG_PAGE) * hd +
                                          d; // keys, then values
    store_bf16(to, {out[0] * scale, out[1] * scale, out[2] * scale, out[3] * scale});
}

__global__ void gate(lsg_buffers b, lsg_gating a) {
    const auto [r, i, there] = four_of(b, 1, b.n_ff);
    if (there) store_bf16(b.xn + (size_t)r * b.n_ff + i, gated4(b.y, a, b.rows, b.n_ff, r, i, a.bias));
}

} // namespace

int lsg_begin(const lsg_buffers *b, const lsg_rotation *r, lsg_stream s) {
    return lsg_launch<false>(begin, dim3((unsigned)b->rows + 1 + lsg_blocks(b->n_vocab, THREADS)), THREADS,
                             LST_MAX_ROWS * sizeof(int32_t), s, *b, *r);
}
int lsg_embed(const lsg_buffers *b, const lsg_matrix *m, float scale, lsg_stream s) {
    return lsg_launch(embed, dim3((unsigned)b->rows), THREADS, 0, s, *b, *m, scale);
}
template <bool LAYER>
static int put_add_norm(int32_t per, int32_t warps, const lsg_buffers *b, const lsg_add *a, lsg_stream s) {
    const auto kernel = per == 1   ? add_norm<1, LAYER>
                        : per == 2 ? add_norm<2, LAYER>
                        : per <= 4 ? add_norm<4, LAYER>
                                   : add_norm<8, LAYER>;
    return lsg_launch(kernel, dim3((unsigned)b->rows), warps * 32, 32 * sizeof(float), s, *b, *a);
}

int lsg_add_norm(const lsg_buffers *b, const lsg_add *a, lsg_stream s) {
    const int32_t warps = min(NORM_THREADS / 32, (b->n_embd + 127) / 128),
                  per = (b->n_embd + warps * 128 - 1) / (warps * 128);
    return a->layer_norm ? put_add_norm<true>(per, warps, b, a, s) : put_add_norm<false>(per, warps, b, a, s);
}
int lsg_arrive(lsg_stream s) {
    return lsg_launch<false>(arrive, dim3(1), 32, 0, s);
}
int lsg_sum(const lsg_buffers *b, int32_t chunks, int32_t n, float *sums, lsg_stream s) {
    return lsg_launch(sum_chunks, fours(n, b->rows), THREADS, 0, s, *b, chunks, n, sums);
}
int lsg_take_rows(const lsg_buffers *b, int32_t normed, float *out, int64_t stride, lsg_stream s) {
    return lsg_launch(take_rows, fours(b->n_embd, b->rows), THREADS, 0, s, *b, normed, out, stride);
}
int lsg_rope_kv(const lsg_buffers *b, const lsg_rope *r, lsg_stream s) {
    const int32_t heads = b->n_heads + 2 * b->n_kv_heads, of_block = 4 * ROPE_THREADS / b->head_dim;
    return lsg_launch(rope_kv, dim3((unsigned)b->rows, lsg_blocks(heads, of_block)), ROPE_THREADS,
                      ((size_t)(of_block * b->head_dim) + 32) * sizeof(float), s, *b, *r, of_block);
}
int lsg_gate(const lsg_buffers *b, const lsg_gating *a, lsg_stream s) {
    return lsg_launch(gate, fours(b->n_ff, b->rows), THREADS, 0, s, *b, *a);
}
