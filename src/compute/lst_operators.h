// Shared by what libtorch's operators compute: trained heads and the reference engine.
#pragma once
#include "compute/lst_error.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <c10/core/InferenceMode.h>

namespace lst {

struct Matrix {
    at::Tensor weight, bias; // [n_out][n_in]; [n_out], undefined: none
    at::Tensor operator()(const at::Tensor &x) const {
        return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
    }
};

at::Tensor rms_norm(const at::Tensor &x, const at::Tensor &weight, float eps);
// Rotary embedding of the first `dims` values: pairs (2i, 2i + 1) if interleaved, otherwise (i, i + dims / 2).
// x: [row][head][head_dim]; cosine and sine: [row][1][dims / 2].
at::Tensor rotate(const at::Tensor &x, const at::Tensor &cosine, const at::Tensor &sine, int64_t dims,
                  bool interleaved);
// Attention whose queries that share a key/value head are one matrix. q: [row][head][head_dim], keys and values: [kv
// head][column][head_dim]. Scores and their chances: [kv head][its head][row][column], f32; the sum: [row][head *
// head_dim].
at::Tensor scores_of(const at::Tensor &q, const at::Tensor &keys);
at::Tensor sum_of(const at::Tensor &chances, const at::Tensor &values);
// Makes room for `columns` columns of keys and values, the last dimension but one, at most `most` before they are
// needed; those that are there stay. shape: of both, for any number of columns.
void make_room(at::Tensor &k, at::Tensor &v, std::vector<int64_t> shape, const at::TensorOptions &of, int64_t columns,
               int64_t most);
// The k best of n values, best first; ties: the lower index first. Fewer than k: the rest is -1.
void best(const float *x, int32_t n, int32_t k, int32_t *out);

struct Spread {
    double top, sum, weighted; // of exp(x - top): their sum, and that of (x - top) exp(x - top)
    double lse() const { return top + std::log(sum); }
    double entropy() const { return std::log(sum) - weighted / sum; }
};
// False: a value is not finite.
bool spread(const float *x, int32_t n, Spread *out);
// Describes a row by its n logits; parent_* become NAN. next_position: of the token that follows the row. list: the
// n_list best (at least LST_ROW_TOP). False: a logit is not finite.
bool describe(const float *logits, int32_t n, uint64_t next_position, const lst_sampling *sampling, lst_row *row,
              int32_t *list = nullptr, int32_t n_list = 0);

// The device of that name ("cpu", "cuda", "cuda:N"), if libtorch can compute there; else an Error says why not, and
// what would help.
at::Device torch_device(const std::string &name);

// Sets the number of libtorch's threads for the calling thread.
void use_torch_threads(int n);

// Runs body, whose errors of libtorch become ours.
template <class F> auto with_torch(F &&body) {
    c10::InferenceMode inference;
    try {
        return body();
    } catch (const c10::OutOfMemoryError &e) {
        throw Error(LST_E_MEMORY, e.what_without_backtrace());
    } catch (const c10::Error &e) {
        throw Error(LST_E_BACKEND, e.what_without_backtrace());
    }
}

} // namespace lst
