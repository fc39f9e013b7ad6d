// A mixture of experts: which experts a row takes, rows grouped by expert, and a row's sum over its experts.
#include "compute/kernels/gpu_sums.h"

namespace {

constexpr int ROUTER_WARPS = 4;

// Where a row's list begins among those of all mixtures.
LSG_DEVICE size_t list_of(const lsg_experts &e, int32_t row, int32_t index) {
    return ((size_t)row * e.mixtures + index) * e.used;
}

// A warp a logit, in floats.
__global__ void router(lsg_buffers b, lsg_experts e, lsg_router a) {
    lsg_next_may_start();
    const int32_t r = (int32_t)blockIdx.y, lane = (int32_t)threadIdx.x % 32,
                  o = (int32_t)blockIdx.x * ROUTER_WARPS + (int32_t)threadIdx.x / 32;
    const bool there = r < lsg_fresh(&b.step->n_rows) && o < a.n_out;
    lsg_wait_before();
    if (!there) return;
    const uint16_t *x = b.xn + (size_t)r * b.n_embd;
    const float *w = a.weights + (size_t)o * b.n_embd;
    float sum = 0;
    for (int32_t i = lane; i < b.n_embd; i += 32) sum = fmaf(w[i], __uint_as_float((uint32_t)x[i] << 16), sum);
    sum = lsg_warp_sum(sum);
    if (!lane) e.logits[(size_t)r * (e.n + 1) + o] = a.bias ? sum + a.bias[o] : sum;
}

// Whether experts are chosen by scores. Otherwise logits do, which are in the same order.
LSG_DEVICE bool by_scores(const lsg_router &a) {
    return a.kind == LS_ROUTER_SIGMOID || a.choice_bias;
}

// A warp's row: turns logits into scores; by: scores with biases.
LSG_DEVICE void score_experts(const lsg_experts &e, const lsg_router &a, float *logits, float *by) {
    const int32_t lane = (int32_t)threadIdx.x;
    float most = -INFINITY, all = 0;
    if (a.kind != LS_ROUTER_SIGMOID) {
        for (int32_t i = lane; i < e.n; i += 32) most = fmaxf(most, logits[i]);
        most = lsg_warp_max(most);
        for (int32_t i = lane; i < e.n; i += 32) all += expf(logits[i] - most);
        all = lsg_warp_sum(all);
    }
    for (int32_t i = lane; i < e.n; i += 32) {
        logits[i] = a.kind == LS_ROUTER_SIGMOID ? 1.0f / (1.0f + expf(-logits[i])) : expf(logits[i] - most) / all;
        by[i] = a.choice_bias ? logits[i] + a.choice_bias[i] : logits[i];
    }
    __syncwarp();
}

// A warp's row: takes the experts of all but the best groups out. sums: [groups].
LSG_DEVICE void leave_best_groups(const lsg_experts &e, const lsg_router &a, float *by, float *sums) {
    const int32_t size = e.n / a.groups, lane = (int32_t)threadIdx.x;
    for (int32_t g = lane; g < a.groups; g += 32) {
        float first = -INFINITY, second = -INFINITY;
        for (int32_t i = g * size; i < (g + 1) * size; i++)
            if (by[i] > first) second = first, first = by[i];
            else second = fmaxf(second, by[i]);
        sums[g] = first + second;
    }
    __syncwarp();
    for (int32_t g = lane; g < a.groups; g += 32) {
        int32_t better = 0;
        for (int32_t i = 0; i < a.groups; i++) better += sums[i] > sums[g] || (sums[i] == sums[g] && i < g);
        for (int32_t i = g * size; i < (g + 1) * size && better >= a.groups_used; i++) by[i] = -INFINITY;
    }
    __syncwarp();
}

// A warp a row: finds the next best expert behind the last one found, as often as the row takes experts. Of equal
// ones the lower number comes first.
__global__ void choose(lsg_buffers b, lsg_experts e, lsg_router a) {
    LSG_SHARED(float, room); // of scores: [n], then [groups]
    lsg_next_may_start();
    const int32_t r = (int32_t)blockIdx.x, lane = (int32_t)threadIdx.x;
    const bool there = r < lsg_fresh(&b.step->n_rows), scored = by_scores(a);
    lsg_wait_before();
    if (!there) return;
    float *logits = e.logits + (size_t)r * (e.n + 1);
    int32_t *chosen = e.chosen + list_of(e, r, a.index);
    float *weight = e.weight + list_of(e, r, a.index);
    if (scored) score_experts(e, a, logits, room);
    if (scored && a.groups > 1) leave_best_groups(e, a, room, room + e.n);
    const float *by = scored ? room : logits;
    float most = 0, last = 0, of_row = 0;
    int32_t last_at = -1;
    for (int32_t j = 0; j < e.used; j++) {
        float best = 0;
        int32_t at = -1;
        for (int32_t i = lane; i < e.n; i += 32)
            if ((!j || by[i] < last || (by[i] == last && i > last_at)) && (at < 0 || by[i] > best) && by[i] == by[i])
                best = by[i], at = i;
        for (int i = 16; i; i /= 2) {
            const float other = __shfl_xor_sync(0xFFFFFFFFu, best, i);
            const int32_t other_at = __shfl_xor_sync(0xFFFFFFFFu, at, i);
            if (other_at >= 0 && (at < 0 || other > best || (other == best && other_at < at)))
                best = other, at = other_at;
        }
        if (!j) most = best;
        // too few of them are numbers: neither is the row's sum then
        const float share = at < 0 ? __uint_as_float(0x7FC00000u) : scored ? logits[at] : expf(best - most);
        of_row += share;
        if (!lane) {
            chosen[j] = at < 0 ? 0 : at;
            weight[j] = share;
        }
        last = best, last_at = at;
    }
    float all = fmaxf(of_row, 1e-20f);
    // probabilities of all experts, divided by the row's sum, are those of the row's experts alone
    if (a.kind != LS_ROUTER_BEST && !a.sum_experts) {
        all = scored ? 1 : 0;
        for (int32_t i = lane; i < e.n && !scored; i += 32) all += expf(logits[i] - most);
        if (!scored) all = lsg_warp_sum(all);
    }
    if (!lane)
        for (int32_t j = 0; j < e.used; j++) weight[j] = weight[j] / all * a.scale;
}

// One block: counts each expert's pairs, and gives them places in the order of rows.
__global__ void group(lsg_buffers b, lsg_experts e, int32_t index) {
    LSG_SHARED(int32_t, counts); // [n], then the experts of all pairs
    lsg_next_may_start();
    int32_t *taken = counts + e.n;
    const int32_t t = (int32_t)threadIdx.x, pairs = lsg_fresh(&b.step->n_rows) * e.used;
    lsg_wait_before();
    for (int32_t i = t; i < pairs; i += THREADS) taken[i] = e.chosen[list_of(e, i / e.used, index) + i % e.used];
    __syncthreads();
    for (int32_t x = t; x < e.n; x += THREADS) {
        int32_t n = 0;
        for (int32_t i = 0; i < pairs; i++) n += taken[i] == x;
        counts[x] = n;
    }
    __syncthreads();
    for (int32_t x = t; x < e.n; x += THREADS) {
        int32_t at = 0;
        for (int32_t i = 0; i < x; i++) at += counts[i];
        e.begin[x] = at;
        if (x == e.n - 1) e.begin[e.n] = pairs;
        if (!counts[x]) continue;
        for (int32_t i = 0; i < pairs; i++)
            if (taken[i] == x) {
                e.pair[i] = at;
                e.row[at] = i / e.used;
                e.expert[at++] = x;
            }
    }
}

// A block a pair, 16 bytes a thread at a time.
__global__ void gather(lsg_buffers b, lsg_experts e) {
    lsg_next_may_start();
    const int32_t pair = (int32_t)blockIdx.x, pieces = b.n_embd / 8;
    const bool there = pair < lsg_fresh(&b.step->n_rows) * e.used;
    lsg_wait_before();
    if (!there) return;
    const uint4 *from = (const uint4 *)(b.xn + (size_t)e.row[pair] * b.n_embd);
    uint4 *to = (uint4 *)(e.x + (size_t)pair * b.n_embd);
    for (int32_t i = (int32_t)threadIdx.x; i < pieces; i += (int32_t)blockDim.x) to[i] = from[i];
}

__global__ void gate_pairs(lsg_buffers b, lsg_experts e, lsg_gating a) {
    const int32_t n = e.n_ff;
    const auto [pair, i, there] = four_of(b, e.used, n);
    if (!there) return;
    const float *bias = a.bias ? a.bias + (size_t)e.expert[pair] * (a.ungated ? n : 2 * n) : nullptr;
    store_bf16(e.act + (size_t)pair * n + i, gated4(b.y, a, b.rows * e.used, n, pair, i, bias));
}

__global__ void sum_pairs(lsg_buffers b, lsg_experts e, int32_t index, int32_t chunks, const float *bias,
                          int32_t shared) {
    const int32_t n = b.n_embd;
    const auto [r, i, there] = four_of(b, 1, n);
    if (!there) return;
    float4 sum = {0, 0, 0, 0};
    auto add = [&](const float4 &v, float w) {
        sum.x += w * v.x, sum.y += w * v.y, sum.z += w * v.z, sum.w += w * v.w;
    };
    for (int32_t j = 0; j < e.used; j++) {
        const size_t at = list_of(e, r, index) + j;
        add(added4(b.y, chunks, b.rows * e.used, n, e.pair[r * e.used + j], i,
                   bias ? bias + (size_t)e.chosen[at] * n : nullptr),
            e.weight[at]);
    }
    if (shared)
        add(*(const float4 *)(e.shared + (size_t)r * n + i),
            shared == 2 ? 1.0f / (1.0f + expf(-e.logits[(size_t)r * (e.n + 1) + e.n])) : 1.0f);
    *(float4 *)(e.sum + (size_t)r * n + i) = sum;
}

} // namespace

int lsg_route(const lsg_buffers *b, const lsg_experts *e, const lsg_router *r, lsg_stream s) {
    int code = lsg_launch(router, dim3(lsg_blocks(r->n_out, ROUTER_WARPS), (unsigned)b->rows), 32 * ROUTER_WARPS, 0, s,
                          *b, *e, *r);
    if (!code)
        code =
            lsg_launch(choose, dim3((unsigned)b->rows), 32, sizeof(float) * (size_t)(e->n + r->groups), s, *b, *e, *r);
    if (!code)
        code = lsg_launch(group, dim3(1), THREADS, sizeof(int32_t) * (size_t)(e->n + b->rows * e->used), s, *b, *e,
                          r->index);
    if (!code) code = lsg_launch(gather, dim3((unsigned)(b->rows * e->used)), 128, 0, s, *b, *e);
    return code;
}
int lsg_gate_experts(const lsg_buffers *b, const lsg_experts *e, const lsg_gating *a, lsg_stream s) {
    return lsg_launch(gate_pairs, fours(e->n_ff, b->rows * e->used), THREADS, 0, s, *b, *e, *a);
}
int lsg_sum_experts(const lsg_buffers *b, const lsg_experts *e, int32_t index, int32_t chunks, const float *bias,
                    int32_t shared, lsg_stream s) {
    return lsg_launch(sum_pairs, fours(b->n_embd, b->rows), THREADS, 0, s, *b, *e, index, chunks, bias, shared);
}
