#include "compute/lst_operators.h"

extern "C" {
#include "base/rng.h"
}

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <latch>
#include <numeric>
#include <system_error>
#include <thread>

at::Tensor lst::rms_norm(const at::Tensor &x, const at::Tensor &weight, float eps) {
    return x * at::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

at::Tensor lst::rotate(const at::Tensor &x, const at::Tensor &cosine, const at::Tensor &sine, int64_t dims,
                       bool interleaved) {
    const int64_t half = dims / 2;
    const at::Tensor a = interleaved ? x.slice(2, 0, dims, 2) : x.narrow(2, 0, half),
                     b = interleaved ? x.slice(2, 1, dims, 2) : x.narrow(2, half, half), c = a * cosine - b * sine,
                     d = b * cosine + a * sine, rest = x.narrow(2, dims, x.size(2) - dims);
    return interleaved ? at::cat({at::stack({c, d}, 3).flatten(2), rest}, 2) : at::cat({c, d, rest}, 2);
}

at::Tensor lst::scores_of(const at::Tensor &q, const at::Tensor &keys) {
    const int64_t n = q.size(0), hd = q.size(2), kv = keys.size(0), group = q.size(1) / kv;
    const at::Tensor grouped = q.view({n, kv, group, hd}).permute({1, 2, 0, 3}).reshape({kv, group * n, hd});
    return at::bmm(grouped, keys.transpose(1, 2)).to(at::kFloat).view({kv, group, n, keys.size(1)});
}

at::Tensor lst::sum_of(const at::Tensor &chances, const at::Tensor &values) {
    const int64_t kv = chances.size(0), group = chances.size(1), n = chances.size(2), hd = values.size(2);
    const at::Tensor weights = chances.reshape({kv, group * n, chances.size(3)}).to(values.scalar_type());
    return at::bmm(weights, values).view({kv, group, n, hd}).permute({2, 0, 1, 3}).reshape({n, kv * group * hd});
}

void lst::make_room(at::Tensor &k, at::Tensor &v, std::vector<int64_t> shape, const at::TensorOptions &of,
                    int64_t columns, int64_t most) {
    const int64_t had = k.defined() ? k.size(-2) : 0;
    if (columns <= had) return;
    *(shape.end() - 2) = std::max(columns, std::min(2 * had, most));
    const at::Tensor larger[] = {at::empty(shape, of), at::empty(shape, of)}; // both, or the old ones stay
    if (had) larger[0].narrow(-2, 0, had).copy_(k), larger[1].narrow(-2, 0, had).copy_(v);
    k = larger[0], v = larger[1];
}

void lst::best(const float *x, int32_t n, int32_t k, int32_t *out) {
    std::vector<int32_t> order((size_t)n);
    std::iota(order.begin(), order.end(), 0);
    const int32_t m = std::min(k, n);
    std::partial_sort(order.begin(), order.begin() + m, order.end(),
                      [&](int32_t a, int32_t b) { return x[a] > x[b] || (!(x[b] > x[a]) && a < b); });
    std::copy_n(order.begin(), m, out);
    std::fill(out + m, out + k, -1);
}

bool lst::spread(const float *x, int32_t n, Spread *out) {
    Spread s{-INFINITY, 0, 0};
    for (int32_t i = 0; i < n; i++) {
        if (!std::isfinite(x[i])) return false;
        s.top = std::max(s.top, (double)x[i]);
    }
    for (int32_t i = 0; i < n; i++) {
        const double e = std::exp((double)x[i] - s.top);
        s.sum += e;
        s.weighted += ((double)x[i] - s.top) * e;
    }
    *out = s;
    return true;
}

bool lst::describe(const float *logits, int32_t n, uint64_t next_position, const lst_sampling *sampling, lst_row *row,
                   int32_t *list, int32_t n_list) {
    Spread s;
    if (!spread(logits, n, &s)) return false;
    if (!list) list = row->top_id, n_list = LST_ROW_TOP;
    best(logits, n, n_list, list);
    std::copy_n(list, LST_ROW_TOP, row->top_id);
    for (int j = 0; j < LST_ROW_TOP; j++) row->top_logit[j] = row->top_id[j] < 0 ? -INFINITY : logits[row->top_id[j]];
    row->chosen = row->top_id[0];
    if (sampling && sampling->temperature > 0)
        row->chosen = ls_sample(logits, n, sampling->temperature, sampling->top_k, sampling->top_p, sampling->seed,
                                next_position);
    row->chosen_logit = logits[row->chosen];
    row->lse = (float)s.lse();
    row->entropy = (float)s.entropy();
    row->parent_logit = row->parent_lse = NAN;
    return true;
}

// libtorch's OpenMP ends the process where the system refuses it a thread. So as many threads as it will start are
// started here first; it keeps its own for the calling thread.
void lst::use_torch_threads(int n) {
    static thread_local int started = 1;
    std::vector<std::thread> tried;
    std::latch all_tried{1};
    bool refused = false;
    for (int i = started; i < n && !refused; i++) try {
            tried.emplace_back([&] { all_tried.wait(); });
        } catch (const std::system_error &) {
            refused = true;
        }
    all_tried.count_down();
    for (std::thread &t : tried) t.join();
    if (!refused) started = std::max(started, n);
    at::set_num_threads(refused ? started : n);
}
