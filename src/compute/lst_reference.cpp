// The reference engine: a decoder by libtorch's ordinary operators, on any of its devices. It has none of our kernels,
// so the tests compare the others with it, and an architecture can begin here. It is not exact: libtorch chooses the
// order of a matmul's sums by the number of rows, so a row's last bits depend on the rows beside it.
#include "compute/lst_internal.h"
#include "compute/lst_operators.h"
#include "compute/lst_torch.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <unordered_map>

namespace {

enum { PREFILL_ROWS = 128 };

struct FeedForward {
    lst::Matrix gate_up, down;
};
struct Tensors { // of a layer; norms are f32, undefined: none
    lst::Matrix qkv, out;
    FeedForward dense; // of a mixture: its shared expert, if it has one
    lst::Matrix router;
    std::vector<FeedForward> experts;
    at::Tensor choice_bias; // not defined: none
    at::Tensor attn_norm, attn_post_norm, ffn_norm, ffn_post_norm, q_norm, k_norm, sinks;
};

struct ReferenceModel : lst_model {
    at::TensorOptions of; // of weights, keys and values, and of what is computed
    std::unordered_map<const lst::Linear *, at::Tensor> weights_of; // [n_out][n_in]
    at::Tensor embedding, output_norm_at, freq[2];
    lst::Matrix output;
    std::vector<Tensors> tensors;

    at::Tensor new_matrix(int64_t n_out, int64_t n_in) {
        at::Tensor w = at::empty({n_out, n_in}, of.device(at::kCPU));
        weight_bytes += w.nbytes();
        return w;
    }
    void put_rows(const at::Tensor &w, int64_t row, int type, const uint8_t *raw, int64_t n) const {
        const int64_t n_in = w.size(1);
        std::vector<float> plain((size_t)n_in);
        for (int64_t i = 0; i < n; i++, row++) {
            lsk_dequant_row(type, raw + (size_t)i * lsk_row_bytes(type, n_in), n_in, plain.data());
            if (w.scalar_type() == at::kFloat) std::copy_n(plain.data(), n_in, w.data_ptr<float>() + row * n_in);
            else std::copy_n(plain.data(), n_in, w.data_ptr<at::BFloat16>() + row * n_in);
        }
    }
    bool matrix_begin(lst::Linear &l, const std::vector<lst::Stacked> &, lst::Care) override {
        lst::with_torch([&] { weights_of[&l] = new_matrix(l.n_out, l.n_in); });
        return true;
    }
    void matrix_rows(lst::Linear &l, int64_t row, int type, const uint8_t *raw, int64_t n) override {
        put_rows(weights_of.at(&l), row, type, raw, n);
    }
    void matrix_end(lst::Linear &l) override {
        lst::with_torch([&] { weights_of[&l] = weights_of[&l].to(of.device()); });
    }
    int type_in_order() const override { return LS_GGML_F32; }
    bool embedding_begin(const lst_tensor &t, int kept_type) override {
        if (hp.tied && kept_type == t.type) return false;
        lst::with_torch([&] { embedding = new_matrix(t.n_out, t.n_in); });
        return true;
    }
    void embedding_rows(int64_t row, int type, const uint8_t *raw, int64_t n) override {
        put_rows(embedding, row, type, raw, n);
    }
    at::Tensor vector(const float *x, size_t n) const {
        if (!n) return {};
        return at::from_blob(const_cast<float *>(x), {(int64_t)n}, at::kFloat).clone().to(of.device());
    }
    at::Tensor vector(const lst::Floats &x) const { return vector(x.data(), x.size()); }
    lst::Matrix matrix(const lst::Linear &l) {
        lst::Matrix m{weights_of.at(&l), vector(l.bias)};
        if (m.bias.defined()) m.bias = m.bias.to(of);
        return m;
    }
    void loaded() override {
        lst::with_torch([&] {
            output = matrix(head);
            embedding = embedding.defined() ? embedding.to(of.device()) : output.weight;
            output_norm_at = vector(output_norm);
            for (int kind = 0; kind < 2; kind++) freq[kind] = vector(hp.rope_freq[kind], (size_t)hp.rope_dims / 2);
            for (const lst::Layer &l : layers) {
                Tensors t{};
                t.qkv = matrix(l.qkv), t.out = matrix(l.out);
                if (!l.mixture) t.dense = {matrix(l.gate_up), matrix(l.down)};
                else {
                    const lst::Mixture &x = *l.mixture;
                    t.router = matrix(x.router);
                    t.router.weight = t.router.weight.to(at::kFloat);
                    if (t.router.bias.defined()) t.router.bias = t.router.bias.to(at::kFloat);
                    t.choice_bias = vector(x.choice_bias);
                    for (const lst::Expert &e : x.experts) t.experts.push_back({matrix(e.gate_up), matrix(e.down)});
                    if (x.shared.down.n_out) t.dense = {matrix(x.shared.gate_up), matrix(x.shared.down)};
                }
                t.attn_norm = vector(l.attn_norm), t.attn_post_norm = vector(l.attn_post_norm);
                t.ffn_norm = vector(l.ffn_norm), t.ffn_post_norm = vector(l.ffn_post_norm);
                t.q_norm = vector(l.q_norm), t.k_norm = vector(l.k_norm), t.sinks = vector(l.sinks);
                tensors.push_back(std::move(t));
            }
        });
        most_threads = threads; // another number changes libtorch's sums
    }
    void info(lst_model_info_t *info) const override {
        snprintf(info->device, sizeof info->device, "%s", of.device().str().c_str());
        snprintf(info->dtype, sizeof info->dtype, "%s", of.dtype() == at::kFloat ? "f32" : "bf16");
        snprintf(info->kernel, sizeof info->kernel, "reference: libtorch's operators");
        snprintf(info->version, sizeof info->version, "%s", lst_torch_version());
        info->kv_value_bytes = (int32_t)of.dtype().itemsize();
        info->exact = 0;
    }
    std::unique_ptr<lst::KvCache> kv_cache(int32_t n_context, int32_t n_layers, bool leads) override;
};

// Rows of one forward over the committed tokens: a tree, or consecutive tokens.
struct Block {
    int32_t length, n, first; // committed tokens; all rows; of these, rows that were computed before
    const int32_t *tokens, *parents, *depth;
};

struct ReferenceCache : lst::KvCache {
    ReferenceModel &m;
    const int32_t n_context, n_layers;
    at::Tensor k, v; // [layer][kv head][column][head_dim]; columns: the committed tokens, then the tree's rows
    std::vector<float> of_rows, last;

    ReferenceCache(ReferenceModel &model, int32_t context, int32_t layers)
        : m(model), n_context(context), n_layers(layers) {
        chosen = lst::Chosen(m.layers, layers, m.hp.n_experts_used);
    }

    void make_room(int64_t columns) {
        lst::make_room(k, v, {n_layers, m.hp.n_kv_heads, 0, m.hp.head_dim}, m.of, columns, n_context + LST_MAX_ROWS);
    }

    // What is added to scores: 0 where a row sees a column, else -inf.
    at::Tensor mask(const Block &b, bool local) const {
        const int64_t columns = b.length + b.n, rows = b.n - b.first;
        at::Tensor out = at::empty({rows, columns}, at::kFloat);
        for (int32_t i = b.first; i < b.n; i++) {
            float *sees = out.data_ptr<float>() + (i - b.first) * columns;
            const int32_t before = local && m.hp.window ? b.length + b.depth[i] + 1 - m.hp.window : 0; // sees from here
            std::fill_n(sees, columns, -INFINITY);
            if (before < b.length) std::fill(sees + std::max(before, 0), sees + b.length, 0.0f);
            for (int32_t r = i; r >= 0 && b.length + b.depth[r] >= before; r = b.parents[r]) sees[b.length + r] = 0;
        }
        return out.to(m.of.device());
    }

    at::Tensor norm(const at::Tensor &x, const at::Tensor &weight) const {
        return weight.defined() ? lst::rms_norm(x.to(at::kFloat), weight, m.hp.rms_eps).to(m.of) : x;
    }
    // Before or after a sublayer, or of the output.
    at::Tensor row_norm(const at::Tensor &x, const at::Tensor &weight) const {
        if (!m.hp.arch->layer_norm || !weight.defined()) return norm(x, weight);
        const int64_t d = m.hp.n_embd;
        return at::layer_norm(x.to(at::kFloat), {d}, weight.narrow(0, 0, d), weight.narrow(0, d, d), m.hp.rms_eps)
            .to(m.of);
    }
    // A sublayer's output y joins x.
    at::Tensor add(const at::Tensor &x, const at::Tensor &y, const at::Tensor &post_norm) const {
        const at::Tensor normed = row_norm(y, post_norm);
        return x + (m.hp.residual_scale == 1 ? normed : normed * m.hp.residual_scale);
    }

    // scale: of queries, [row][1][1].
    at::Tensor attention(const Block &b, int32_t layer, const at::Tensor &x, const at::Tensor &cosine,
                         const at::Tensor &sine, const at::Tensor &sees, const at::Tensor &scale) {
        const Tensors &t = m.tensors[(size_t)layer];
        const ls_hparams &hp = m.hp;
        const int64_t n = x.size(0), hd = hp.head_dim, heads = hp.n_heads, kv = hp.n_kv_heads, group = heads / kv,
                      columns = b.length + b.n;
        const at::Tensor qkv = t.qkv(x);
        const auto part = [&](int64_t from, int64_t count, const at::Tensor &weight) {
            at::Tensor y = qkv.narrow(1, from * hd, count * hd);
            if (hp.qk_norm == LS_QK_NORM_WHOLE) y = norm(y, weight);
            y = y.reshape({n, count, hd});
            if (hp.qk_norm == LS_QK_NORM_HEAD) y = norm(y, weight);
            y = y.to(at::kFloat);
            if (!hp.unrotated[layer]) y = lst::rotate(y, cosine, sine, hp.rope_dims, hp.rope_interleaved);
            return hp.qk_norm == LS_QK_NORM_ROTATED ? norm(y, weight).to(at::kFloat) : y;
        };
        const at::Tensor keys = k.select(0, layer), values = v.select(0, layer);
        keys.narrow(1, b.length + b.first, n).copy_(part(heads, kv, t.k_norm).transpose(0, 1));
        values.narrow(1, b.length + b.first, n)
            .copy_(qkv.narrow(1, (heads + kv) * hd, kv * hd).reshape({n, kv, hd}).transpose(0, 1));
        at::Tensor scores = lst::scores_of((part(0, heads, t.q_norm) * scale).to(m.of), keys.narrow(1, 0, columns));
        if (hp.attn_softcap > 0) scores = (scores / hp.attn_softcap).tanh() * hp.attn_softcap;
        scores = scores + sees;
        if (t.sinks.defined()) scores = at::cat({scores, t.sinks.view({kv, group, 1, 1}).expand({-1, -1, n, 1})}, -1);
        return t.out(lst::sum_of(at::softmax(scores, -1).narrow(-1, 0, columns), values.narrow(1, 0, columns)));
    }

    at::Tensor activate(int32_t layer, const at::Tensor &x) const {
        if (m.hp.arch->activation == LS_ACT_SILU) return at::silu(x);
        if (m.hp.arch->activation == LS_ACT_GELU_TANH) return at::gelu(x, "tanh");
        if (m.hp.arch->activation == LS_ACT_RELU2) return x.relu().square();
        if (m.hp.arch->activation == LS_ACT_CLAMPED) {
            const at::Tensor y = x.clamp_max(LS_CLAMP);
            return y * (y * LS_CLAMP_SLOPE).sigmoid();
        }
        const auto &[above, below, both, most] = m.hp.xielu[layer];
        return (x * x * above).where(x > 0, (x.clamp_max(most).exp() - 1 - x) * below) + x * both;
    }

    at::Tensor feed_forward(int32_t layer, const FeedForward &f, const at::Tensor &x) const {
        const at::Tensor y = f.gate_up(x);
        if (m.hp.arch->ungated) return f.down(activate(layer, y));
        const int64_t n_ff = y.size(1) / 2;
        at::Tensor up = y.narrow(1, n_ff, n_ff);
        if (m.hp.arch->activation == LS_ACT_CLAMPED) up = up.clamp(-LS_CLAMP, LS_CLAMP) + 1;
        return f.down(activate(layer, y.narrow(1, 0, n_ff)) * up);
    }

    // Notes the experts of a layer's rows from `first` on.
    void tell(int32_t layer, int32_t first, const at::Tensor &best, const at::Tensor &weights) {
        const at::Tensor ids = best.to(at::kCPU, at::kInt).contiguous(), shares = weights.to(at::kCPU).contiguous();
        const int64_t used = ids.size(1);
        for (int32_t i = 0; i < ids.size(0); i++) {
            const size_t at = chosen.at(first + i, m.layers[(size_t)layer].mixture->index);
            std::copy_n(ids.const_data_ptr<int32_t>() + i * used, used, chosen.expert.data() + at);
            std::copy_n(shares.const_data_ptr<float>() + i * used, used, chosen.weight.data() + at);
        }
    }

    // The experts of each row, best first, by numbers of all.
    at::Tensor chosen_by(at::Tensor choice) const {
        const ls_hparams &hp = m.hp;
        if (hp.n_expert_groups > 1) {
            const at::Tensor groups = choice.view({choice.size(0), hp.n_expert_groups, -1}),
                             sums = std::get<0>(groups.topk(2, -1)).sum(-1),
                             best = std::get<1>(sums.topk(hp.n_groups_used, -1));
            const at::Tensor taken = at::zeros(sums.sizes(), sums.options().dtype(at::kBool)).scatter(1, best, true);
            choice = groups.masked_fill(taken.logical_not().unsqueeze(-1), -std::numeric_limits<float>::infinity())
                         .view(choice.sizes());
        }
        return std::get<1>(choice.topk(hp.n_experts_used, -1));
    }

    // first: the number of the first row.
    at::Tensor feed_forward(int32_t layer, int32_t first, const at::Tensor &x) {
        const Tensors &t = m.tensors[(size_t)layer];
        if (t.experts.empty()) return feed_forward(layer, t.dense, x);
        const ls_hparams &hp = m.hp;
        const at::Tensor logits = t.router(x.to(at::kFloat)), of_experts = logits.narrow(1, 0, hp.n_experts),
                         scores =
                             hp.arch->router == LS_ROUTER_SIGMOID ? of_experts.sigmoid() : at::softmax(of_experts, -1);
        const at::Tensor best = chosen_by(t.choice_bias.defined() ? scores + t.choice_bias : scores);
        at::Tensor weights = scores.gather(1, best);
        if (hp.arch->router == LS_ROUTER_BEST || hp.sum_experts)
            weights = weights / weights.sum(-1, true).clamp_min(1e-20);
        weights = weights * hp.expert_scale;
        tell(layer, first, best, weights);
        at::Tensor sum = at::zeros(x.sizes(), x.options().dtype(at::kFloat));
        for (int32_t e = 0; e < hp.n_experts; e++) {
            const at::Tensor at_rank = (best == e).nonzero(); // [..][row, rank]
            if (!at_rank.size(0)) continue;
            const at::Tensor rows = at_rank.select(1, 0), share = weights.index({rows, at_rank.select(1, 1)});
            sum.index_add_(0, rows,
                           feed_forward(layer, t.experts[(size_t)e], x.index_select(0, rows)).to(at::kFloat) *
                               share.unsqueeze(1));
        }
        if (hp.n_ff_shared) {
            at::Tensor y = feed_forward(layer, t.dense, x).to(at::kFloat);
            if (logits.size(1) > hp.n_experts) y = y * logits.narrow(1, hp.n_experts, 1).sigmoid();
            sum = sum + y;
        }
        return sum.to(m.of);
    }

    at::Tensor taken; // hidden states of the last forward's rows, where the model is: [row][layer asked for][n_embd]
    // Copies the rows' values at a stage (lst_hidden) to where they were asked for.
    void show(int32_t stage, const at::Tensor &x) {
        const int64_t d = m.hp.n_embd, n = (int64_t)hidden.layers.size(), rows = x.size(0);
        if (!stage && n) taken = at::empty({rows, n, d}, m.of.dtype(at::kFloat));
        for (int64_t i = 0; i < n; i++)
            if (hidden.layers[(size_t)i] == stage) taken.select(1, i).copy_(x);
    }
    const float *hidden_rows(int32_t, int32_t) override {
        if (!hidden.on_device) lst::with_torch([&] { taken = taken.cpu(); });
        return taken.const_data_ptr<float>();
    }

    // The logits of the new rows, or of the last one only: [row][n_vocab], f32 in host memory.
    at::Tensor run(const Block &b, bool only_last, bool searches) {
        const ls_hparams &hp = m.hp;
        const int32_t n = b.n - b.first;
        make_room((int64_t)b.length + b.n);
        chosen.resize((size_t)b.n);
        std::vector<int32_t> positions;
        std::vector<float> scales;
        for (int32_t i = b.first; i < b.n; i++) {
            positions.push_back(b.length + b.depth[i]);
            scales.push_back(hp.attn_scale * lst::temperature(hp, positions.back()));
        }
        const at::Tensor scale = m.vector(scales.data(), scales.size()).view({n, 1, 1});
        const auto column = [&](const int32_t *x) {
            return at::from_blob(const_cast<int32_t *>(x), {n}, at::kInt).to(m.of.device());
        };
        const bool any_local = std::count(hp.local, hp.local + hp.n_layers, 0) != hp.n_layers;
        at::Tensor sees[2], cosine[2], sine[2];
        for (int kind = 0; kind < 1 + any_local; kind++) {
            const at::Tensor angle = column(positions.data()).to(at::kFloat).unsqueeze(1) * m.freq[kind];
            cosine[kind] = (angle.cos() * hp.rope_magnitude[kind]).unsqueeze(1);
            sine[kind] = (angle.sin() * hp.rope_magnitude[kind]).unsqueeze(1);
            sees[kind] = mask(b, kind);
        }
        const auto check = [&](int32_t stage, const at::Tensor &x) {
            if (searches && !at::isfinite(x).all().item<bool>()) throw lst::bad_logit(stage);
        };
        at::Tensor x = m.embedding.index_select(0, column(b.tokens + b.first));
        if (hp.embd_scale != 1) x = x * hp.embd_scale;
        for (int32_t i = 0; i < n_layers; i++) {
            if (stop()) throw lst::cancelled();
            const Tensors &t = m.tensors[(size_t)i];
            const int kind = hp.local[i] ? 1 : 0;
            show(i, x);
            x = add(x, attention(b, i, row_norm(x, t.attn_norm), cosine[kind], sine[kind], sees[kind], scale),
                    t.attn_post_norm);
            check(2 * i, x);
            x = add(x, feed_forward(i, b.first, row_norm(x, t.ffn_norm)), t.ffn_post_norm);
            check(2 * i + 1, x);
        }
        show(n_layers, x);
        x = row_norm(x, m.output_norm_at);
        show(n_layers + 1, x);
        at::Tensor y = m.output(only_last ? x.narrow(0, n - 1, 1) : x).to(at::kFloat);
        if (hp.logit_scale != 1) y = y * hp.logit_scale;
        if (hp.logit_softcap > 0) y = (y / hp.logit_softcap).tanh() * hp.logit_softcap;
        return y.to(at::kCPU).contiguous();
    }

    // The same, described; the positions of the tokens that follow are those after the rows.
    at::Tensor described(const Block &b, bool only_last, const lst_sampling *sampling, lst_row *rows) {
        return lst::with_torch([&] {
            lst::use_torch_threads(m.threads);
            const at::Tensor out = run(b, only_last, false);
            std::atomic<bool> good{true};
            at::parallel_for(0, out.size(0), 1, [&](int64_t from, int64_t end) {
                for (int64_t i = from; i < end; i++) {
                    const int32_t row = only_last ? b.n - 1 : b.first + (int32_t)i;
                    if (!lst::describe(out.const_data_ptr<float>() + i * m.hp.n_vocab, m.hp.n_vocab,
                                       (uint64_t)(b.length + b.depth[row] + 1), sampling, &rows[i]))
                        good = false;
                }
            });
            if (good) return out;
            run(b, only_last, true); // finds the layer
            throw lst::bad_logit(INT32_MAX);
        });
    }

    const float *row_logits(int32_t row) const {
        return row < 0 ? last.data() : of_rows.data() + (size_t)row * (size_t)m.hp.n_vocab;
    }
    void set_last(const float *logits) { last.assign(logits, logits + m.hp.n_vocab); }

    int32_t prefill_rows(int32_t) const override { return PREFILL_ROWS; }
    void prefill(int32_t length, const int32_t *tokens, int32_t n, const lst_sampling *sampling,
                 lst_row *out) override {
        std::vector<int32_t> depth((size_t)n), parents((size_t)n);
        std::iota(depth.begin(), depth.end(), 0);
        std::iota(parents.begin(), parents.end(), -1);
        lst_row row;
        const at::Tensor logits = described({length, n, 0, tokens, parents.data(), depth.data()}, true, sampling, &row);
        if (!out) return;
        set_last(logits.const_data_ptr<float>());
        *out = row;
    }

    void forward(int32_t length, const int32_t *tokens, const int32_t *parents, const int32_t *depth, int32_t n,
                 int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) override {
        const at::Tensor logits = described({length, n, first, tokens, parents, depth}, false, sampling, rows);
        const size_t vocab = (size_t)m.hp.n_vocab;
        of_rows.resize((size_t)n * vocab);
        std::copy_n(logits.const_data_ptr<float>(), (size_t)(n - first) * vocab,
                    of_rows.data() + (size_t)first * vocab);
        for (int32_t i = first; i < n; i++)
            if (parents[i] >= 0 || last_known) rows[i - first].parent_logit = row_logits(parents[i])[tokens[i]];
    }

    void keep(int32_t length, const int32_t *rows, int32_t n) override {
        lst::with_torch([&] {
            std::vector<int32_t> from;
            for (int32_t i = 0; i < n; i++) from.push_back(length + rows[i]);
            const at::Tensor which = at::from_blob(from.data(), {n}, at::kInt).to(m.of.device());
            for (const at::Tensor *t : {&k, &v}) t->narrow(2, length, n).copy_(t->index_select(2, which));
        });
        set_last(row_logits(rows[n - 1]));
    }
    void rewind(int32_t) override {}
    void copy(lst::KvCache &other, int32_t n) override {
        const ReferenceCache &from = static_cast<ReferenceCache &>(other);
        if (!n) return;
        lst::with_torch([&] {
            make_room(n);
            k.narrow(2, 0, n).copy_(from.k.narrow(2, 0, n));
            v.narrow(2, 0, n).copy_(from.v.narrow(2, 0, n));
        });
    }
    void top(int32_t row, int32_t count, int32_t *ids, float *logits) override {
        lst::best(row_logits(row), m.hp.n_vocab, count, ids);
        for (int32_t i = 0; i < count; i++) logits[i] = row_logits(row)[ids[i]];
    }
    void logits(int32_t row, float *out) override { std::copy_n(row_logits(row), m.hp.n_vocab, out); }
    void time_parts(double *) override { throw lst::Error(LST_E_ARG, "the reference engine does not time its parts"); }
};

std::unique_ptr<lst::KvCache> ReferenceModel::kv_cache(int32_t n_context, int32_t n_layers, bool /*no ranks*/) {
    return std::make_unique<ReferenceCache>(*this, n_context, n_layers);
}

// Before the first byte is read: the system may grant more memory than there is, and end the program later.
void check_memory(const ls_hparams &hp, uint64_t value_bytes) {
    const uint64_t d = (uint64_t)hp.n_embd, heads = (uint64_t)(hp.n_heads + 2 * hp.n_kv_heads + hp.n_heads),
                   layer = d * heads * (uint64_t)hp.head_dim + 3 * d * (uint64_t)hp.n_ff,
                   need = value_bytes *
                          ((uint64_t)hp.n_layers * layer + (uint64_t)(hp.tied ? 1 : 2) * d * (uint64_t)hp.n_vocab),
                   room = ls_memory_free();
    if (room && need > room)
        throw lst::Error(LST_E_MEMORY, "the reference engine needs " + std::to_string(need >> 20) +
                                           " MiB for unpacked weights, but only " + std::to_string(room >> 20) +
                                           " MiB are free: use --dtype bf16 or a smaller model");
}

} // namespace

std::unique_ptr<lst_model> lst::make_model(const ls_hparams &hp, const lst_open_options &opt) {
    const std::string dtype = opt.dtype, kv = opt.kv;
    if (opt.ranks) throw lst::Error(LST_E_ARG, "the reference engine does not share a model between ranks");
    if (dtype != "auto" && dtype != "f32" && dtype != "bf16")
        throw lst::Error(LST_E_ARG, "dtype '" + dtype + "' is not of the reference engine: choose f32 or bf16");
    if (kv != "auto" && kv != (dtype == "auto" ? "f32" : dtype))
        throw lst::Error(LST_E_ARG, "the reference engine keeps keys and values in its dtype: omit --kv " + kv);
    auto m = std::make_unique<ReferenceModel>();
    try {
        const at::Device device = lst::torch_device(opt.device == std::string("auto") ? "cpu" : opt.device);
        m->of = at::TensorOptions(device).dtype(dtype == "bf16" ? at::kBFloat16 : at::kFloat);
    } catch (const lst::Error &e) {
        throw lst::Error(e.code, std::string("--engine reference cannot use '") + opt.device + "': " + e.what() +
                                     ", or use --device cpu");
    }
    if (m->of.device().is_cpu()) check_memory(hp, m->of.dtype().itemsize());
    return m;
}

extern "C" int lst_limits(int32_t, uint64_t, lst_limits_t *) {
    return lst::guard([] { throw lst::Error(LST_E_ARG, "the reference engine has no kernels to measure"); });
}

extern "C" int lst_device(int32_t i, lst_device_info *info) {
    return lst::guard([&] {
        if (i) throw lst::Error(LST_E_ARG, "lst_device: there is no such device");
        *info = {};
        snprintf(info->name, sizeof info->name, "libtorch's operators");
        snprintf(info->version, sizeof info->version, "%s", lst_torch_version());
    });
}
