#include "compute/lst_operators.h"

extern "C" {
#include "base/rng.h"
}

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
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
