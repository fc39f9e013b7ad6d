// Trained heads on libtorch's operators. EAGLE's two formats differ in what goes into the decoder layer:
//
//   EAGLE    x = fc(embedding, feature)   x + attention(x)                                    the target's output head
//   EAGLE-3  f = fc(three layers)         f + attention(norm(embedding), norm(f))       its own norm and output head
//
// and then both add the feed-forward part, after a norm. A row's output is the feature of the rows that follow it;
// EAGLE-3 takes it without fc.
//
// On a GPU everything but the table of embeddings is in its memory. Tokens' embeddings, positions and the tree go
// there; a row's best tokens come back (all logits if a token is sampled).
#include "compute/lst_head.h"

extern "C" {
#include "compute/kernels/kernels.h"
}

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

enum { READ_ROWS = 128 };

struct lst_draft {
    const lst_head *h;
    int32_t n_context;
    // Columns of the committed pairs, then of the tree's rows from 1 on.
    at::Tensor k, v;                // [kv head][column][head_dim]
    std::vector<int32_t> positions; // of the committed pairs, rising
    // the tree
    std::vector<int32_t> parents, depth;
    at::Tensor outputs;             // [row][n_embd]
    std::vector<at::Tensor> logits; // [n_draft] of each row
    std::vector<int32_t> best;      // [row][LST_DRAFT_TOP] in the head's ids; -1: no more
    std::vector<float> best_logits; // theirs

    void resize(size_t rows) { // fewer: those of later calls are forgotten
        parents.resize(rows), depth.resize(rows), logits.resize(rows);
        best.resize(rows * LST_DRAFT_TOP), best_logits.resize(rows * LST_DRAFT_TOP);
    }
};

namespace {

at::Tensor embed(const lst_head &h, const int32_t *tokens, int64_t n) {
    at::Tensor x = at::empty({n, h.p.n_embd}, at::kFloat);
    for (int64_t i = 0; i < n; i++)
        lsk_dequant_row(h.embedding_type, h.embedding.data() + (size_t)tokens[i] * h.embedding_row_bytes, h.p.n_embd,
                        x.data_ptr<float>() + i * h.p.n_embd);
    return x.to(h.of.device());
}

// The decoder layer over n rows, whose columns are the last n. features: [n][...]; hidden: [n][columns], what a row
// does not see is -inf. Returns their outputs.
at::Tensor layer(lst_draft &d, const int32_t *tokens, const std::vector<int32_t> &positions, const at::Tensor &features,
                 const at::Tensor &hidden) {
    const lst_head &h = *d.h;
    const ls_hparams &p = h.p;
    const int64_t n = (int64_t)positions.size(), all = hidden.size(1), first = all - n, hd = p.head_dim;
    const at::Tensor embedding = embed(h, tokens, n);
    at::Tensor x, in;
    if (h.kind == LS_HEAD_EAGLE3) {
        x = features;
        in = at::cat(
            {lst::rms_norm(embedding, h.embedding_norm, p.rms_eps), lst::rms_norm(x, h.feature_norm, p.rms_eps)}, 1);
    } else in = x = h.fc(at::cat({embedding, features}, 1));
    at::Tensor at_position = at::empty({n, 1}, at::kFloat);
    for (int64_t i = 0; i < n; i++) at_position.data_ptr<float>()[i] = (float)positions[(size_t)i];
    const at::Tensor angle = (at_position.to(h.of.device()) * h.freq).unsqueeze(1),
                     cosine = angle.cos() * p.rope_magnitude[0], sine = angle.sin() * p.rope_magnitude[0];
    const at::Tensor qkv = h.qkv(in).view({n, p.n_heads + 2 * p.n_kv_heads, hd});
    lst::make_room(d.k, d.v, {p.n_kv_heads, 0, hd}, h.of, all, (int64_t)d.n_context + LST_MAX_ROWS);
    d.k.narrow(1, first, n)
        .copy_(lst::rotate(qkv.narrow(1, p.n_heads, p.n_kv_heads), cosine, sine, p.rope_dims, p.rope_interleaved)
                   .transpose(0, 1));
    d.v.narrow(1, first, n).copy_(qkv.narrow(1, p.n_heads + p.n_kv_heads, p.n_kv_heads).transpose(0, 1));
    const at::Tensor q = lst::rotate(qkv.narrow(1, 0, p.n_heads), cosine, sine, p.rope_dims, p.rope_interleaved),
                     scores = lst::scores_of(q, d.k.narrow(1, 0, all)) / std::sqrt((double)hd);
    x = x + h.out(lst::sum_of(at::softmax(scores + hidden, -1), d.v.narrow(1, 0, all)));
    const at::Tensor both = h.gate_up(lst::rms_norm(x, h.ffn_norm, p.rms_eps));
    return x + h.down(at::silu(both.narrow(1, 0, p.n_ff)) * both.narrow(1, p.n_ff, p.n_ff));
}

// A head's own message if a logit is not finite.
[[noreturn]] void not_finite() {
    throw lst::Error(LST_E_NAN, "a trained head produced a logit that is not finite");
}

int32_t target_id(const lst_head &h, int32_t id) {
    return id < 0 || h.d2t.empty() ? id : h.d2t[(size_t)id];
}

at::Tensor logits_of(const lst_head &h, const at::Tensor &outputs) {
    const at::Tensor in = h.output_norm.defined() ? lst::rms_norm(outputs, h.output_norm, h.p.rms_eps) : outputs;
    return h.head(in).contiguous();
}

// What comes back of logits [row][n_draft] from a GPU: a row's k best ids, which floats hold exactly (there are fewer
// than 2^24), their logits, log-sum-exp and entropy. Equal logits: the lower index first, but which of them are among
// the k best is the device's choice.
struct Summary {
    int64_t k;
    at::Tensor rows; // [row][2 k + 2]
    Summary(const at::Tensor &logits, int64_t most) : k(std::min(most, logits.size(1))) {
        const auto [values, ids] = at::topk(logits, k);
        const at::Tensor top = values.narrow(1, 0, 1), below = logits - top, e = at::exp(below), sum = e.sum(-1, true),
                         log_sum = sum.log();
        rows = at::cat({ids.to(at::kFloat), values, top + log_sum, log_sum - (e * below).sum(-1, true) / sum}, 1)
                   .cpu()
                   .contiguous();
    }
    const float *row(int64_t i) const { return rows.const_data_ptr<float>() + i * rows.size(1); }
    float lse(int64_t i) const { return row(i)[2 * k]; }
    float entropy(int64_t i) const { return row(i)[2 * k + 1]; }
    void list(int64_t i, int32_t n, int32_t *ids, float *logits) const { // id -1, -INFINITY: no more
        if (!std::isfinite(lse(i)) || !std::isfinite(entropy(i))) not_finite();
        std::vector<std::pair<float, int32_t>> of((size_t)k);
        for (int64_t j = 0; j < k; j++) of[(size_t)j] = {-row(i)[k + j], (int32_t)row(i)[j]};
        std::sort(of.begin(), of.end());
        for (int32_t j = 0; j < n; j++) {
            ids[j] = j < k ? of[(size_t)j].second : -1;
            logits[j] = j < k ? -of[(size_t)j].first : -INFINITY;
        }
    }
};

// What the outputs [n][n_embd] of the tree's rows from `first` on are said to be followed by; positions: of the pairs.
void describe(lst_draft &d, const at::Tensor &outputs, int32_t first, const int32_t *positions,
              const lst_sampling *sampling, lst_row *rows) {
    const lst_head &h = *d.h;
    const int32_t n_draft = h.n_draft;
    const at::Tensor logits = logits_of(h, outputs);
    const bool there = h.on_device && !(sampling && sampling->temperature > 0);
    std::optional<Summary> summary;
    if (there) summary.emplace(logits, LST_DRAFT_TOP);
    const at::Tensor here = there ? at::Tensor() : logits.cpu();
    for (int64_t i = 0; i < outputs.size(0); i++) {
        lst_row &r = rows[i];
        int32_t *best = &d.best[(size_t)(first + i) * LST_DRAFT_TOP];
        float *best_logits = &d.best_logits[(size_t)(first + i) * LST_DRAFT_TOP];
        d.logits[(size_t)(first + i)] = logits[i];
        if (there) {
            summary->list(i, LST_DRAFT_TOP, best, best_logits);
            std::copy_n(best, LST_ROW_TOP, r.top_id);
            std::copy_n(best_logits, LST_ROW_TOP, r.top_logit);
            r.chosen = best[0];
            r.chosen_logit = best_logits[0];
            r.lse = summary->lse(i);
            r.entropy = summary->entropy(i);
            r.parent_logit = r.parent_lse = NAN;
        } else {
            const float *x = here.const_data_ptr<float>() + i * n_draft;
            // a pair's token stands one behind, and what follows it two
            if (!lst::describe(x, n_draft, (uint64_t)positions[i] + 2, sampling, &r, best, LST_DRAFT_TOP)) not_finite();
            for (int j = 0; j < LST_DRAFT_TOP; j++) best_logits[j] = best[j] < 0 ? -INFINITY : x[best[j]];
        }
        r.chosen = target_id(h, r.chosen);
        for (int32_t &id : r.top_id) id = target_id(h, id);
    }
}

void begin(lst_draft &d, int32_t keep, int32_t at, const int32_t *tokens, const float *values, int32_t n,
           const lst_sampling *sampling, lst_row *row) {
    const lst_head &h = *d.h;
    if (keep < 0 || at < keep || n < 1 || n > d.n_context || at > d.n_context - n)
        throw lst::Error(LST_E_ARG, "lst_draft_begin: " + std::to_string(n) + " pairs at position " +
                                        std::to_string(at) + " do not fit into a context of " +
                                        std::to_string(d.n_context));
    lst::check_tokens(tokens, n, h.p.n_vocab);
    d.resize(0);
    d.outputs.reset();
    d.positions.erase(std::lower_bound(d.positions.begin(), d.positions.end(), keep), d.positions.end());
    at::Tensor outputs;
    for (int32_t done = 0, rows; done < n; done += rows) {
        rows = std::min(n - done, (int32_t)READ_ROWS);
        at::Tensor features =
            at::from_blob(const_cast<float *>(values) + (int64_t)done * h.n_values, {rows, h.n_values}, h.of);
        if (h.kind == LS_HEAD_EAGLE3) features = h.fc(features);
        const auto columns = (int64_t)d.positions.size();
        at::Tensor hidden = at::zeros({rows, columns + rows}, h.of);
        hidden.narrow(1, columns, rows).copy_(at::full({rows, rows}, -INFINITY, h.of).triu(1));
        std::vector<int32_t> positions((size_t)rows);
        std::iota(positions.begin(), positions.end(), at + done);
        outputs = layer(d, tokens + done, positions, features, hidden);
        d.positions.insert(d.positions.end(), positions.begin(), positions.end());
    }
    outputs = outputs.narrow(0, outputs.size(0) - 1, 1).clone();
    d.resize(1);
    try {
        describe(d, outputs, 0, &d.positions.back(), sampling, row);
    } catch (...) { // there is no tree
        d.resize(0);
        throw;
    }
    d.outputs = outputs;
    d.parents[0] = -1;
    d.depth[0] = 0;
}

// Rows whose parents' outputs are all there.
void grow_level(lst_draft &d, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *sampling,
                lst_row *rows) {
    const int32_t first = (int32_t)d.parents.size();
    const int64_t kept = (int64_t)d.positions.size(), of_tree = first - 1 + n;
    const at::TensorOptions &of = d.h->of;
    std::vector<int32_t> positions;
    at::Tensor hidden = at::full({n, of_tree}, -INFINITY, at::kFloat);
    d.resize((size_t)(first + n));
    for (int32_t i = 0; i < n; i++) {
        d.parents[(size_t)(first + i)] = parents[i];
        d.depth[(size_t)(first + i)] = d.depth[(size_t)parents[i]] + 1;
        positions.push_back(d.positions.back() + d.depth[(size_t)(first + i)]);
        float *sees = hidden.data_ptr<float>() + i * of_tree;
        for (int32_t r = first + i; r > 0; r = d.parents[(size_t)r]) sees[r - 1] = 0;
    }
    const at::Tensor which = at::from_blob(const_cast<int32_t *>(parents), {n}, at::kInt).to(of.device());
    hidden = at::cat({at::zeros({n, kept}, of), hidden.to(of.device())}, 1);
    const at::Tensor outputs = layer(d, tokens, positions, d.outputs.index_select(0, which), hidden);
    describe(d, outputs, first, positions.data(), sampling, rows);
    d.outputs = at::cat({d.outputs, outputs});
}

void grow(lst_draft &d, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *sampling,
          lst_row *rows) {
    const int32_t first = (int32_t)d.parents.size();
    if (!first) throw lst::Error(LST_E_ARG, "there is no tree to extend");
    if (n < 1 || n > LST_MAX_ROWS - first) throw lst::Error(LST_E_ARG, "a tree has 1 to 256 rows");
    lst::check_tokens(tokens, n, d.h->p.n_vocab);
    std::vector<int32_t> depth = d.depth;
    for (int32_t i = 0; i < n; i++) {
        if (parents[i] < 0 || parents[i] >= first + i)
            throw lst::Error(LST_E_ARG, "row " + std::to_string(first + i) + " has an invalid parent");
        depth.push_back(depth[(size_t)parents[i]] + 1);
        if (d.positions.back() + depth.back() >= d.n_context)
            throw lst::Error(LST_E_ARG,
                             "a tree node is beyond the context of " + std::to_string(d.n_context) + " tokens");
    }
    const at::Tensor outputs = d.outputs;
    try {
        for (int32_t from = 0, end = 0; from < n; from = end) { // a row's feature is its parent's output
            while (end < n && parents[end] < first + from) end++;
            grow_level(d, tokens + from, parents + from, end - from, sampling, rows + from);
        }
    } catch (...) {
        d.resize((size_t)first);
        d.outputs = outputs;
        throw;
    }
}

} // namespace

extern "C" {

const lst_torch lst_torch_table = {LST_TORCH(LST_ENTRY)};

const char *lst_torch_version(void) {
    return "libtorch " TORCH_VERSION;
}

int lst_draft_new(lst_draft **out, lst_head *h, int32_t n_context) {
    *out = nullptr;
    return lst::head_guard([&] {
        if (n_context < 1 || n_context > 1 << 22 || h->kind == LS_HEAD_MEDUSA)
            throw lst::Error(LST_E_ARG, "lst_draft_new: bad arguments");
        auto d = std::make_unique<lst_draft>();
        d->h = h;
        d->n_context = n_context;
        *out = d.release();
    });
}

void lst_draft_free(lst_draft *d) {
    delete d;
}

int lst_draft_begin(lst_draft *d, int32_t keep, int32_t at, const int32_t *tokens, const float *values, int32_t n,
                    const lst_sampling *sampling, lst_row *row) {
    return lst::head_guard([&] {
        begin(*d, keep, at, tokens, values, n, sampling, row);
        lst::settle(*d->h);
    });
}

int lst_draft_grow(lst_draft *d, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *sampling,
                   lst_row *rows) {
    return lst::head_guard([&] {
        grow(*d, tokens, parents, n, sampling, rows);
        lst::settle(*d->h);
    });
}

static void check_row(const lst_draft *d, int32_t row) {
    if (row < 0 || row >= (int32_t)d->parents.size()) throw lst::Error(LST_E_ARG, "no such row in the last draft");
}

int lst_draft_top(const lst_draft *d, int32_t row, int32_t k, int32_t *ids, float *logits) {
    return lst::head_guard([&] {
        check_row(d, row);
        if (k < 1 || k > LST_DRAFT_TOP) throw lst::Error(LST_E_ARG, "lst_draft_top: bad arguments");
        for (int32_t i = 0; i < k; i++) {
            const size_t at = (size_t)row * LST_DRAFT_TOP + (size_t)i;
            ids[i] = target_id(*d->h, d->best[at]);
            logits[i] = d->best_logits[at];
        }
    });
}

int lst_draft_logits(const lst_draft *d, int32_t row, float *logits) {
    return lst::head_guard([&] {
        check_row(d, row);
        const at::Tensor here = d->logits[(size_t)row].cpu();
        const float *x = here.const_data_ptr<float>();
        std::fill_n(logits, d->h->p.n_vocab, -INFINITY);
        for (int32_t i = 0; i < d->h->n_draft; i++) logits[target_id(*d->h, i)] = x[i];
    });
}

int lst_head_guess(const lst_head *h, const float *values, int32_t k, int32_t *ids, float *p) {
    return lst::head_guard([&] {
        if (h->kind != LS_HEAD_MEDUSA || k < 1 || k > 256) throw lst::Error(LST_E_ARG, "lst_head_guess: bad arguments");
        const at::Tensor in = at::from_blob(const_cast<float *>(values), {1, h->n_values}, h->of);
        std::vector<at::Tensor> each;
        for (const lst_head::Guess &guess : h->guesses) {
            at::Tensor x = in;
            for (const lst::Matrix &block : guess.blocks) x = x + at::silu(block(x));
            each.push_back(guess.head(x));
        }
        const at::Tensor logits = at::cat(each);
        std::optional<Summary> summary;
        if (h->on_device) summary.emplace(logits, k);
        std::vector<float> of((size_t)k);
        for (int64_t i = 0; i < logits.size(0); i++, ids += k, p += k) {
            double lse;
            if (summary) {
                summary->list(i, k, ids, of.data());
                lse = (double)summary->lse(i);
            } else {
                const float *y = logits.const_data_ptr<float>() + i * h->n_draft;
                lst::Spread s;
                if (!lst::spread(y, h->n_draft, &s)) not_finite();
                lst::best(y, h->n_draft, k, ids);
                for (int32_t j = 0; j < k; j++) of[(size_t)j] = ids[j] < 0 ? 0 : y[ids[j]];
                lse = s.lse();
            }
            for (int32_t j = 0; j < k; j++) p[j] = ids[j] < 0 ? 0 : (float)std::exp((double)of[(size_t)j] - lse);
        }
    });
}
}
