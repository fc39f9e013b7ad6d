// A row between matmuls: one block a row, sums in one fixed order.
#include "torch/kernels/gpu_device.h"

namespace {

enum { THREADS = 256 };

// y[.][r][i] with its chunks added in order.
LSG_DEVICE float added(const float *y, int32_t chunks, int32_t rows, int32_t width, int32_t r, int32_t i) {
    float sum = y[(size_t)r * width + i];
    for (int32_t c = 1; c < chunks; c++) sum += y[((size_t)c * rows + r) * width + i];
    return sum;
}

// Four neighbours of them, whose chunks are all on their way before the first is added. Widths are multiples of 4.
LSG_DEVICE float4 added4(const float *y, int32_t chunks, int32_t rows, int32_t width, int32_t r, int32_t i,
                         const float *bias) {
    float4 part[LSG_MATMUL_CHUNKS];
#pragma unroll
    for (int c = 0; c < LSG_MATMUL_CHUNKS; c++)
        if (c < chunks) part[c] = *(const float4 *)(y + ((size_t)c * rows + r) * width + i);
    float4 sum = part[0];
#pragma unroll
    for (int c = 1; c < LSG_MATMUL_CHUNKS; c++)
        if (c < chunks) sum.x += part[c].x, sum.y += part[c].y, sum.z += part[c].z, sum.w += part[c].w;
    if (!bias) return sum;
    const float4 more = *(const float4 *)(bias + i);
    return {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
}

// Prefetches n floats that do not depend on the kernel ahead.
LSG_DEVICE void ask_for(const float *p, int32_t n) {
    for (int32_t i = (int32_t)threadIdx.x * 32; p && i < n; i += THREADS * 32) lsg_prefetch(p + i);
}

LSG_DEVICE uint16_t bf16(float x) {
    return (uint16_t)lsg_bf16x2(x, 0);
}

__global__ void begin(lsg_buffers b) {
    LSG_SHARED(int32_t, parent);
    lsg_next_may_start();
    lsg_wait_before();
    const lsg_step *s = b.step;
    const int32_t block = (int32_t)blockIdx.x, t = (int32_t)threadIdx.x;
    if (block < b.rows) { // the path of a row
        if (block >= s->n_rows) return;
        for (int32_t i = t; i < s->n_rows; i += THREADS) parent[i] = s->parent[i];
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

// A weight, from where gpu.h says that it lies.
LSG_DEVICE float weight(const lsg_matrix &m, int32_t o, int32_t k) {
    constexpr int values[] = {LSG_FORMATS(LSG_VALUE_BYTES)}, scales[] = {LSG_FORMATS(LSG_SCALE_BYTES)};
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

__global__ void embed(lsg_buffers b, lsg_matrix m, float scale) {
    lsg_next_may_start();
    lsg_wait_before();
    const int32_t r = (int32_t)blockIdx.x;
    if (r >= b.step->n_rows) return;
    for (int32_t i = (int32_t)threadIdx.x; i < b.n_embd; i += THREADS)
        b.x[(size_t)r * b.n_embd + i] = weight(m, b.step->token[r], i) * scale;
}

// 1 / rms of n values.
LSG_DEVICE float inverse_rms(const float *v, int32_t n, float eps, float *place) {
    float sum = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) sum = fmaf(v[i], v[i], sum);
    return 1.0f / sqrtf(lsg_block_sum(sum, place) / (float)n + eps);
}

__global__ void add_norm(lsg_buffers b, lsg_add a) {
    LSG_SHARED(float, v); // [n_embd], then 32 places for sums
    lsg_next_may_start();
    ask_for(a.norm, b.n_embd);
    ask_for(a.post_norm, b.n_embd);
    ask_for(a.bias, b.n_embd);
    lsg_wait_before();
    const int32_t r = (int32_t)blockIdx.x, n = b.n_embd, t = (int32_t)threadIdx.x;
    if (r >= b.step->n_rows) return;
    float *x = b.x + (size_t)r * n, *place = v + n;
    if (a.chunks) {
        for (int32_t i = 4 * t; i < n; i += 4 * THREADS)
            *(float4 *)(v + i) = added4(b.y, a.chunks, b.rows, n, r, i, a.bias);
        __syncthreads();
        const float scale = a.post_norm ? inverse_rms(v, n, a.eps, place) : 1;
        for (int32_t i = t; i < n; i += THREADS) {
            const float add = (a.post_norm ? v[i] * scale * a.post_norm[i] : v[i]) * a.residual_scale;
            v[i] = x[i] + add;
            x[i] = v[i];
        }
    } else
        for (int32_t i = t; i < n; i += THREADS) v[i] = x[i];
    __syncthreads();
    const float scale = a.norm ? inverse_rms(v, n, a.eps, place) : 1;
    for (int32_t i = t; i < n; i += THREADS) b.xn[(size_t)r * n + i] = bf16(a.norm ? v[i] * scale * a.norm[i] : v[i]);
}

__global__ void rope_kv(lsg_buffers b, lsg_rope a) {
    const int32_t hd = b.head_dim, nq = b.n_heads * hd, nkv = b.n_kv_heads * hd, n = nq + 2 * nkv;
    LSG_SHARED(float, v); // [n] queries, keys, values; [rope_dims] cosines and sines; 32 places for sums
    lsg_next_may_start();
    ask_for(a.bias, n);
    ask_for(a.rope_freq, a.rope_dims / 2);
    lsg_wait_before();
    const int32_t r = (int32_t)blockIdx.x, t = (int32_t)threadIdx.x;
    const lsg_step *s = b.step;
    if (r >= s->n_rows) return;
    float *turn = v + n, *place = turn + a.rope_dims;
    const int32_t position = s->length + s->depth[r], pairs = a.rope_dims / 2;
    for (int32_t i = t; i < pairs; i += THREADS) {
        const float angle = (float)position * a.rope_freq[i]; // rounded to f32 as the reference implementation does
        turn[2 * i] = (float)(cos((double)angle) * (double)a.rope_magnitude);
        turn[2 * i + 1] = (float)(sin((double)angle) * (double)a.rope_magnitude);
    }
    for (int32_t i = 4 * t; i < n; i += 4 * THREADS)
        *(float4 *)(v + i) = added4(b.y, a.chunks, b.rows, n, r, i, a.bias);
    __syncthreads();
    if (a.qk_norm == LST_QK_NORM_WHOLE) {
        const float q = inverse_rms(v, nq, a.eps, place), k = inverse_rms(v + nq, nkv, a.eps, place);
        for (int32_t i = t; i < nq + nkv; i += THREADS) v[i] *= i < nq ? q * a.q_norm[i] : k * a.k_norm[i - nq];
        __syncthreads();
    } else if (a.qk_norm == LST_QK_NORM_HEAD) { // a warp a head
        for (int32_t h = t / 32; h < b.n_heads + b.n_kv_heads; h += THREADS / 32) {
            float sum = 0;
            for (int32_t i = t % 32; i < hd; i += 32) sum = fmaf(v[h * hd + i], v[h * hd + i], sum);
            const float scale = 1.0f / sqrtf(lsg_warp_sum(sum) / (float)hd + a.eps);
            const float *w = h < b.n_heads ? a.q_norm : a.k_norm;
            for (int32_t i = t % 32; i < hd; i += 32) v[h * hd + i] *= scale * w[i];
        }
        __syncthreads();
    }
    const int32_t column = s->column[r];
    uint16_t *page = b.pages[column / LSG_PAGE] + (size_t)a.layer * 2 * b.n_kv_heads * LSG_PAGE * hd;
    for (int32_t i = t; i < n; i += THREADS) {
        const int32_t head = i / hd, d = i % hd;
        float out = v[i];
        if (i < nq + nkv && d < a.rope_dims) {
            const bool inter = a.rope_interleaved;
            const int32_t pair = inter ? d / 2 : d % pairs;
            const bool second = inter ? d % 2 : d >= pairs;
            const float other = v[head * hd + (inter ? d ^ 1 : second ? d - pairs : d + pairs)];
            const float c = turn[2 * pair], sn = turn[2 * pair + 1];
            out = second ? other * sn + out * c : out * c - other * sn;
        }
        if (i < nq) b.q[(size_t)r * nq + i] = bf16(out * a.attn_scale);
        else {
            const int32_t kv = head - b.n_heads; // keys' heads, then values'
            page[((size_t)kv * LSG_PAGE + column % LSG_PAGE) * hd + d] = bf16(out);
        }
    }
}

__global__ void gate(lsg_buffers b, int32_t chunks, const float *bias, int32_t activation) {
    lsg_next_may_start();
    lsg_wait_before();
    const int32_t r = (int32_t)blockIdx.y, i = (int32_t)(blockIdx.x * THREADS + threadIdx.x), n = b.n_ff;
    if (r >= b.step->n_rows || i >= n) return;
    float g = added(b.y, chunks, b.rows, 2 * n, r, i), u = added(b.y, chunks, b.rows, 2 * n, r, n + i);
    if (bias) g += bias[i], u += bias[n + i];
    // gelu by tanh: g (1 + tanh(v)) / 2 = g / (1 + e^-2v)
    const float v = activation == LST_ACT_SILU ? g : 2 * 0.79788456080286536f * fmaf(0.044715f * g * g, g, g);
    const float act = g / (1.0f + expf(-v));
    b.xn[(size_t)r * n + i] = bf16(act * u);
}

unsigned blocks(int64_t n, int64_t of) {
    return (unsigned)((n + of - 1) / of);
}

} // namespace

int lsg_begin(const lsg_buffers *b, lsg_stream s) {
    return lsg_launch<false>(begin, dim3((unsigned)b->rows + 1 + blocks(b->n_vocab, THREADS)), THREADS,
                             LST_MAX_ROWS * sizeof(int32_t), s, *b);
}
int lsg_embed(const lsg_buffers *b, const lsg_matrix *m, float scale, lsg_stream s) {
    return lsg_launch(embed, dim3((unsigned)b->rows), THREADS, 0, s, *b, *m, scale);
}
int lsg_add_norm(const lsg_buffers *b, const lsg_add *a, lsg_stream s) {
    return lsg_launch(add_norm, dim3((unsigned)b->rows), THREADS, ((size_t)b->n_embd + 32) * sizeof(float), s, *b, *a);
}
int lsg_rope_kv(const lsg_buffers *b, const lsg_rope *r, lsg_stream s) {
    const size_t n = (size_t)(b->n_heads + 2 * b->n_kv_heads) * (size_t)b->head_dim;
    return lsg_launch(rope_kv, dim3((unsigned)b->rows), THREADS, (n + (size_t)r->rope_dims + 32) * sizeof(float), s, *b,
                      *r);
}
int lsg_gate(const lsg_buffers *b, int32_t chunks, const float *bias, int32_t activation, lsg_stream s) {
    return lsg_launch(gate, dim3(blocks(b->n_ff, THREADS), (unsigned)b->rows), THREADS, 0, s, *b, chunks, bias,
                      activation);
}
