// Trained heads on libtorch's operators. EAGLE's two formats differ in what goes into the decoder layer:
//
//   EAGLE    x = fc(embedding, feature)   x + attention(x)                                    the target's output head
//   EAGLE-3  f = fc(three layers)         f + attention(norm(embedding), norm(f))       its own norm and output head
//
// and then both add the feed-forward part, after a norm. A row's output is the feature of the rows that follow it;
// EAGLE-3 takes it without fc.
#include "compute/lst_operators.h"
#include "compute/lst_torch.h"

extern "C" {
#include "base/rng.h"
#include "compute/kernels/kernels.h"
}

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>

enum { READ_ROWS = 128 };

struct lst_head {
    lst_head_params p{};
    std::vector<int32_t> d2t;
    uint64_t bytes = 0;
    // EAGLE
    std::vector<uint8_t> embedding; // raw rows: they are looked up one by one
    int embedding_type = 0;
    size_t embedding_row_bytes = 0;
    lst::Matrix fc, qkv, out, gate_up, down, head;
    at::Tensor embedding_norm, feature_norm, ffn_norm, output_norm, freq; // undefined: none
    // Medusa
    struct Guess {
        std::vector<lst::Matrix> blocks;
        lst::Matrix head;
    };
    std::vector<Guess> guesses;
};

struct lst_draft {
    const lst_head *h;
    int32_t n_context;
    // Columns of the committed pairs, then of the tree's rows from 1 on.
    at::Tensor k, v; // [kv head][column][head_dim]
    int64_t columns = 0;
    std::vector<int32_t> positions; // of the committed pairs, rising
    // the tree
    std::vector<int32_t> parents, depth;
    at::Tensor outputs; // [row][n_embd]
};

namespace {

struct Loader {
    lst_head &h;
    std::unordered_map<std::string, const lst_tensor *> table;
    const lst_tensor *tensors;
    const lst_open_options &opt;
    uint64_t done = 0, total = 0;

    bool has(const std::string &name) const { return table.count(name) > 0; }

    const lst_tensor &find(const std::string &name, int64_t n_in, int64_t n_out) const {
        const auto it = table.find(name);
        if (it == table.end()) throw lst::Error(LST_E_ARG, "tensor '" + name + "' is missing");
        const lst_tensor &t = *it->second;
        if (t.n_in != n_in || t.n_out != n_out || lsk_row_bytes(t.type, n_in) * (size_t)n_out != t.n_bytes ||
            !t.n_bytes || (!t.data && !opt.read))
            throw lst::Error(LST_E_ARG, "tensor '" + name + "' has a shape or type that does not fit the head");
        return t;
    }

    std::vector<uint8_t> read(const lst_tensor &t) {
        std::vector<uint8_t> raw(t.n_bytes);
        if (t.data) std::memcpy(raw.data(), t.data, t.n_bytes);
        else if (opt.read(opt.ud, (int32_t)(&t - tensors), 0, t.n_bytes, raw.data()))
            throw lst::Error(LST_E_READ, std::string("tensor '") + t.name + "' could not be read");
        if (!lsk_finite(t.type, raw.data(), t.n_out, t.n_in))
            throw lst::Error(LST_E_NAN,
                             std::string("tensor '") + t.name + "' holds NaN, infinite or unusable scale values");
        done += t.n_bytes;
        if (opt.progress && opt.progress(opt.ud, "loading the head", total ? (double)done / (double)total : 1))
            throw lst::Error(LST_E_CANCELLED, "loading was cancelled");
        return raw;
    }

    // [n_out][n_in] as floats, into `out` if that is defined.
    at::Tensor floats(const std::string &name, int64_t n_in, int64_t n_out, at::Tensor out = {}) {
        const lst_tensor &t = find(name, n_in, n_out);
        const std::vector<uint8_t> raw = read(t);
        const size_t row_bytes = lsk_row_bytes(t.type, n_in);
        if (!out.defined()) {
            out = at::empty({n_out, n_in}, at::kFloat);
            h.bytes += (uint64_t)(n_out * n_in) * sizeof(float);
        }
        float *to = out.data_ptr<float>();
        at::parallel_for(0, n_out, 64, [&](int64_t from, int64_t end) {
            for (int64_t i = from; i < end; i++)
                lsk_dequant_row(t.type, raw.data() + (size_t)i * row_bytes, n_in, to + i * n_in);
        });
        return out;
    }

    at::Tensor vector(const std::string &name, int64_t n) { return floats(name, n, 1).view({n}); }

    lst::Matrix matrix(const std::string &name, int64_t n_in, int64_t n_out) { return stacked({{name, n_out}}, n_in); }

    // Several of one input, one under the other.
    lst::Matrix stacked(std::initializer_list<std::pair<std::string, int64_t>> parts, int64_t n_in) {
        lst::Matrix m;
        int64_t n_out = 0, at = 0;
        for (const auto &[name, n] : parts) n_out += n;
        m.weight = at::empty({n_out, n_in}, at::kFloat);
        h.bytes += (uint64_t)(n_out * n_in) * sizeof(float);
        for (const auto &[name, n] : parts) {
            floats(name + ".weight", n_in, n, m.weight.narrow(0, at, n));
            if (has(name + ".bias")) {
                if (!m.bias.defined()) m.bias = at::zeros({n_out}, at::kFloat);
                m.bias.narrow(0, at, n).copy_(vector(name + ".bias", n));
            }
            at += n;
        }
        return m;
    }
};

void load_eagle(Loader &load, const lst_head_params &p) {
    lst_head &h = load.h;
    const bool third = p.kind == LST_HEAD_EAGLE3;
    const int64_t e = p.n_embd, q = (int64_t)p.n_heads * p.head_dim, kv = (int64_t)p.n_kv_heads * p.head_dim;
    const lst_tensor &table =
        load.find(load.has("embed_tokens.weight") ? "embed_tokens.weight" : "token_embd.weight", e, p.n_vocab);
    h.embedding = load.read(table);
    h.bytes += table.n_bytes;
    h.embedding_type = table.type;
    h.embedding_row_bytes = lsk_row_bytes(table.type, e);
    h.fc = load.matrix("fc", third ? p.n_values : 2 * e, e);
    h.qkv =
        load.stacked({{"self_attn.q_proj", q}, {"self_attn.k_proj", kv}, {"self_attn.v_proj", kv}}, third ? 2 * e : e);
    h.out = load.matrix("self_attn.o_proj", q, e);
    h.ffn_norm = load.vector("post_attention_layernorm.weight", e);
    h.gate_up = load.stacked({{"mlp.gate_proj", p.n_ff}, {"mlp.up_proj", p.n_ff}}, e);
    h.down = load.matrix("mlp.down_proj", p.n_ff, e);
    if (third) {
        h.embedding_norm = load.vector("input_layernorm.weight", e);
        h.feature_norm = load.vector("hidden_norm.weight", e);
        h.output_norm = load.vector("norm.weight", e);
    }
    h.head = load.matrix(load.has("lm_head.weight") ? "lm_head" : "output", e, p.n_draft);
    h.freq = at::empty({p.rope_dims / 2}, at::kFloat);
    std::copy_n(p.rope_freq, p.rope_dims / 2, h.freq.data_ptr<float>());
    h.p.rope_freq = h.freq.const_data_ptr<float>();
}

void load_medusa(Loader &load, const lst_head_params &p) {
    load.h.guesses.resize((size_t)p.n_guesses);
    for (int32_t i = 0; i < p.n_guesses; i++) {
        lst_head::Guess &g = load.h.guesses[(size_t)i];
        const std::string name = std::to_string(i) + ".";
        for (int32_t b = 0; b < p.n_blocks; b++)
            g.blocks.push_back(load.matrix(name + std::to_string(b) + ".linear", p.n_values, p.n_values));
        g.head = load.matrix(name + std::to_string(p.n_blocks), p.n_values, p.n_draft);
    }
}

void check_params(const lst_head_params &p) {
    const bool eagle = p.kind == LST_HEAD_EAGLE3 || p.kind == LST_HEAD_EAGLE;
    bool fine = p.n_values > 0 && p.n_draft > 0 && p.n_draft <= p.n_vocab && (p.d2t || p.n_draft == p.n_vocab);
    if (eagle)
        fine = fine && p.n_embd > 0 && p.n_ff > 0 && p.n_heads > 0 && p.n_kv_heads > 0 && p.head_dim > 0 &&
               p.n_heads % p.n_kv_heads == 0 && p.rope_dims > 1 && p.rope_dims % 2 == 0 && p.rope_dims <= p.head_dim &&
               p.rope_freq && (p.kind == LST_HEAD_EAGLE3 || p.n_values == p.n_embd);
    else fine = fine && p.kind == LST_HEAD_MEDUSA && p.n_guesses > 0 && p.n_blocks >= 0;
    for (int32_t i = 0; fine && p.d2t && i < p.n_draft; i++) fine = p.d2t[i] >= 0 && p.d2t[i] < p.n_vocab;
    if (!fine) throw lst::Error(LST_E_ARG, "lst_head_open: impossible dimensions");
}

// ---- forwards

at::Tensor embed(const lst_head &h, const int32_t *tokens, int64_t n) {
    at::Tensor x = at::empty({n, h.p.n_embd}, at::kFloat);
    for (int64_t i = 0; i < n; i++)
        lsk_dequant_row(h.embedding_type, h.embedding.data() + (size_t)tokens[i] * h.embedding_row_bytes, h.p.n_embd,
                        x.data_ptr<float>() + i * h.p.n_embd);
    return x;
}

void make_room(lst_draft &d, int64_t columns) {
    const lst_head_params &p = d.h->p;
    const int64_t had = d.k.defined() ? d.k.size(1) : 0;
    if (columns <= had) return;
    const int64_t room = std::max(columns, std::min(2 * had, (int64_t)d.n_context + LST_MAX_ROWS));
    for (at::Tensor *t : {&d.k, &d.v}) {
        at::Tensor larger = at::empty({p.n_kv_heads, room, p.head_dim}, at::kFloat);
        if (had) larger.narrow(1, 0, had).copy_(*t);
        *t = larger;
    }
}

// The decoder layer over n rows in columns from d.columns on. features: [n][...]; hidden: [n][columns], what a row does
// not see is -inf. Returns their outputs; the columns count once the caller says so.
at::Tensor layer(lst_draft &d, const int32_t *tokens, const std::vector<int32_t> &positions, const at::Tensor &features,
                 const at::Tensor &hidden) {
    const lst_head &h = *d.h;
    const lst_head_params &p = h.p;
    const int64_t n = (int64_t)positions.size(), all = d.columns + n, hd = p.head_dim, group = p.n_heads / p.n_kv_heads;
    const at::Tensor embedding = embed(h, tokens, n);
    at::Tensor x, in;
    if (p.kind == LST_HEAD_EAGLE3) {
        x = features;
        in = at::cat(
            {lst::rms_norm(embedding, h.embedding_norm, p.rms_eps), lst::rms_norm(x, h.feature_norm, p.rms_eps)}, 1);
    } else in = x = h.fc(at::cat({embedding, features}, 1));
    at::Tensor at_position = at::empty({n, 1}, at::kFloat);
    for (int64_t i = 0; i < n; i++) at_position.data_ptr<float>()[i] = (float)positions[(size_t)i];
    const at::Tensor angle = (at_position * h.freq).unsqueeze(1), cosine = angle.cos() * p.rope_magnitude,
                     sine = angle.sin() * p.rope_magnitude;
    const at::Tensor qkv = h.qkv(in).view({n, p.n_heads + 2 * p.n_kv_heads, hd});
    make_room(d, all);
    d.k.narrow(1, d.columns, n)
        .copy_(lst::rotate(qkv.narrow(1, p.n_heads, p.n_kv_heads), cosine, sine, p.rope_dims, p.rope_interleaved)
                   .transpose(0, 1));
    d.v.narrow(1, d.columns, n).copy_(qkv.narrow(1, p.n_heads + p.n_kv_heads, p.n_kv_heads).transpose(0, 1));
    // queries that share a key/value head, as one matrix: [kv head][group * n][head_dim]
    const at::Tensor q = lst::rotate(qkv.narrow(1, 0, p.n_heads), cosine, sine, p.rope_dims, p.rope_interleaved)
                             .view({n, p.n_kv_heads, group, hd})
                             .permute({1, 2, 0, 3})
                             .reshape({p.n_kv_heads, group * n, hd});
    const at::Tensor scores = at::bmm(q, d.k.narrow(1, 0, all).transpose(1, 2)) / std::sqrt((double)hd);
    const at::Tensor chances =
        at::softmax(scores.view({p.n_kv_heads, group, n, all}) + hidden, -1).view({p.n_kv_heads, group * n, all});
    const at::Tensor seen = at::bmm(chances, d.v.narrow(1, 0, all))
                                .view({p.n_kv_heads, group, n, hd})
                                .permute({2, 0, 1, 3})
                                .reshape({n, p.n_heads * hd});
    x = x + h.out(seen);
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

// What each of the outputs [n][n_embd] is said to be followed by; positions: of the pairs.
void describe(const lst_head &h, const at::Tensor &outputs, const int32_t *positions, const lst_sampling *sampling,
              lst_row *rows) {
    const int32_t n_draft = h.p.n_draft;
    const at::Tensor logits = logits_of(h, outputs);
    for (int64_t i = 0; i < outputs.size(0); i++) {
        const float *x = logits.const_data_ptr<float>() + i * n_draft;
        lst_row &r = rows[i];
        // a pair's token stands one behind, and what follows it two
        if (!lst::describe(x, n_draft, (uint64_t)positions[i] + 2, sampling, &r)) not_finite();
        r.chosen = target_id(h, r.chosen);
        for (int32_t &id : r.top_id) id = target_id(h, id);
    }
}

void check_tokens(const lst_head &h, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= h.p.n_vocab)
            throw lst::Error(LST_E_ARG, "token id " + std::to_string(tokens[i]) + " is outside the vocabulary");
}

void begin(lst_draft &d, int32_t keep, int32_t at, const int32_t *tokens, const float *values, int32_t n,
           const lst_sampling *sampling, lst_row *row) {
    const lst_head &h = *d.h;
    if (keep < 0 || at < keep || n < 1 || n > d.n_context || at > d.n_context - n)
        throw lst::Error(LST_E_ARG, "lst_draft_begin: " + std::to_string(n) + " pairs at position " +
                                        std::to_string(at) + " do not fit into a context of " +
                                        std::to_string(d.n_context));
    check_tokens(h, tokens, n);
    d.parents.clear(), d.depth.clear(), d.outputs.reset();
    d.positions.erase(std::lower_bound(d.positions.begin(), d.positions.end(), keep), d.positions.end());
    d.columns = (int64_t)d.positions.size();
    at::Tensor outputs;
    for (int32_t done = 0, rows; done < n; done += rows) {
        rows = std::min(n - done, (int32_t)READ_ROWS);
        at::Tensor features =
            at::from_blob(const_cast<float *>(values) + (int64_t)done * h.p.n_values, {rows, h.p.n_values}, at::kFloat);
        if (h.p.kind == LST_HEAD_EAGLE3) features = h.fc(features);
        at::Tensor hidden = at::zeros({rows, d.columns + rows}, at::kFloat);
        hidden.narrow(1, d.columns, rows).copy_(at::full({rows, rows}, -INFINITY, at::kFloat).triu(1));
        std::vector<int32_t> positions((size_t)rows);
        std::iota(positions.begin(), positions.end(), at + done);
        outputs = layer(d, tokens + done, positions, features, hidden);
        d.columns += rows;
        d.positions.insert(d.positions.end(), positions.begin(), positions.end());
    }
    outputs = outputs.narrow(0, outputs.size(0) - 1, 1).clone();
    describe(h, outputs, &d.positions.back(), sampling, row);
    d.outputs = outputs;
    d.parents.push_back(-1);
    d.depth.push_back(0);
}

// Rows whose parents' outputs are all there.
void grow_level(lst_draft &d, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *sampling,
                lst_row *rows) {
    const int32_t first = (int32_t)d.parents.size();
    const int64_t kept = (int64_t)d.positions.size();
    std::vector<int32_t> positions;
    at::Tensor hidden = at::full({n, d.columns + n}, -INFINITY, at::kFloat);
    d.parents.insert(d.parents.end(), parents, parents + n);
    for (int32_t i = 0; i < n; i++) {
        d.depth.push_back(d.depth[(size_t)parents[i]] + 1);
        positions.push_back(d.positions.back() + d.depth.back());
        float *sees = hidden.data_ptr<float>() + i * (d.columns + n);
        std::fill_n(sees, kept, 0.0f);
        for (int32_t r = first + i; r > 0; r = d.parents[(size_t)r]) sees[kept + r - 1] = 0;
    }
    const at::Tensor which = at::from_blob(const_cast<int32_t *>(parents), {n}, at::kInt);
    const at::Tensor outputs = layer(d, tokens, positions, d.outputs.index_select(0, which), hidden);
    describe(*d.h, outputs, positions.data(), sampling, rows);
    d.columns += n;
    d.outputs = at::cat({d.outputs, outputs});
}

void grow(lst_draft &d, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *sampling,
          lst_row *rows) {
    const int32_t first = (int32_t)d.parents.size();
    if (!first) throw lst::Error(LST_E_ARG, "there is no tree to extend");
    if (n < 1 || n > LST_MAX_ROWS - first) throw lst::Error(LST_E_ARG, "a tree has 1 to 256 rows");
    check_tokens(*d.h, tokens, n);
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
    const int64_t columns = d.columns;
    try {
        for (int32_t from = 0, end = 0; from < n; from = end) { // a row's feature is its parent's output
            while (end < n && parents[end] < first + from) end++;
            grow_level(d, tokens + from, parents + from, end - from, sampling, rows + from);
        }
    } catch (...) {
        d.parents.resize((size_t)first), d.depth.resize((size_t)first);
        d.outputs = outputs;
        d.columns = columns;
        throw;
    }
}

template <class F> int guard(F &&body) noexcept {
    return lst::guard([&] { lst::with_torch(body); });
}

} // namespace

extern "C" {

const lst_torch lst_torch_table = {LST_TORCH(LST_ENTRY)};

const char *lst_torch_version(void) {
    return "libtorch " TORCH_VERSION;
}

int lst_head_open(lst_head **out, const lst_head_params *p, const lst_tensor *tensors, int32_t n_tensors,
                  const lst_open_options *opt) {
    *out = nullptr;
    return guard([&] {
        check_params(*p);
        auto h = std::make_unique<lst_head>();
        h->p = *p;
        if (p->d2t) h->d2t.assign(p->d2t, p->d2t + p->n_draft);
        h->p.d2t = nullptr;
        if (opt->threads > 0) lst::use_torch_threads(opt->threads);
        Loader load{*h, {}, tensors, *opt, 0, 0};
        for (int32_t i = 0; i < n_tensors; i++) {
            load.table[tensors[i].name] = &tensors[i];
            load.total += tensors[i].n_bytes;
        }
        if (p->kind == LST_HEAD_MEDUSA) load_medusa(load, *p);
        else load_eagle(load, *p);
        *out = h.release();
    });
}

void lst_head_close(lst_head *h) {
    delete h;
}
uint64_t lst_head_bytes(const lst_head *h) {
    return h->bytes;
}

int lst_draft_new(lst_draft **out, lst_head *h, int32_t n_context) {
    *out = nullptr;
    return guard([&] {
        if (n_context < 1 || n_context > 1 << 22 || h->p.kind == LST_HEAD_MEDUSA)
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
    return guard([&] { begin(*d, keep, at, tokens, values, n, sampling, row); });
}

int lst_draft_grow(lst_draft *d, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *sampling,
                   lst_row *rows) {
    return guard([&] { grow(*d, tokens, parents, n, sampling, rows); });
}

int lst_draft_logits(const lst_draft *d, int32_t row, float *logits) {
    return guard([&] {
        if (row < 0 || row >= (int32_t)d->parents.size()) throw lst::Error(LST_E_ARG, "no such row in the last draft");
        const at::Tensor said = logits_of(*d->h, d->outputs.narrow(0, row, 1));
        const float *x = said.const_data_ptr<float>();
        std::fill_n(logits, d->h->p.n_vocab, -INFINITY);
        for (int32_t i = 0; i < d->h->p.n_draft; i++) logits[target_id(*d->h, i)] = x[i];
    });
}

int lst_head_guess(const lst_head *h, const float *values, int32_t k, int32_t *ids, float *p) {
    return guard([&] {
        const lst_head_params &hp = h->p;
        if (hp.kind != LST_HEAD_MEDUSA || k < 1 || k > 256)
            throw lst::Error(LST_E_ARG, "lst_head_guess: bad arguments");
        const at::Tensor in = at::from_blob(const_cast<float *>(values), {1, hp.n_values}, at::kFloat);
        for (size_t i = 0; i < h->guesses.size(); i++, ids += k, p += k) {
            at::Tensor x = in;
            for (const lst::Matrix &block : h->guesses[i].blocks) x = x + at::silu(block(x));
            const at::Tensor logits = h->guesses[i].head(x).contiguous();
            const float *y = logits.const_data_ptr<float>();
            lst::Spread s;
            if (!lst::spread(y, hp.n_draft, &s)) not_finite();
            lst::best(y, hp.n_draft, k, ids);
            for (int32_t j = 0; j < k; j++) p[j] = ids[j] < 0 ? 0 : (float)std::exp((double)y[ids[j]] - s.lse());
        }
    });
}
}
