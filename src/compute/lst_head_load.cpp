// Reads a trained head's weights, as floats.
#include "compute/lst_head.h"

extern "C" {
#include "compute/kernels/kernels.h"
}

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>

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
        if (opt.progress &&
            !opt.progress(opt.progress_ud, "loading the head", total ? (double)done / (double)total : 1))
            throw lst::Error(LST_E_CANCELLED, "loading was cancelled");
        return raw;
    }

    // [n_out][n_in] as floats in host memory, into `out` if that is defined.
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

    at::Tensor vector(const std::string &name, int64_t n) { return floats(name, n, 1).view({n}).to(h.of.device()); }

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
                m.bias.narrow(0, at, n).copy_(floats(name + ".bias", n, 1).view({n}));
            }
            at += n;
        }
        m.weight = m.weight.to(h.of.device());
        if (m.bias.defined()) m.bias = m.bias.to(h.of.device());
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
    h.freq = at::from_blob(const_cast<float *>(p.rope_freq), {p.rope_dims / 2}, at::kFloat).clone().to(h.of.device());
    h.p.rope_freq = nullptr;
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

} // namespace

void lst::settle(const lst_head &h) {
    const at::Device at = h.of.device();
    if (!at.is_cpu()) c10::impl::VirtualGuardImpl(at.type()).getStream(at).synchronize();
}

extern "C" {

int lst_head_device(const char *device) {
    return lst::head_guard([&] { lst::torch_device(device); });
}

int lst_head_open(lst_head **out, const lst_head_params *p, const lst_tensor *tensors, int32_t n_tensors,
                  const lst_open_options *opt) {
    *out = nullptr;
    return lst::head_guard([&] {
        check_params(*p);
        auto h = std::make_unique<lst_head>();
        h->p = *p;
        if (p->d2t) h->d2t.assign(p->d2t, p->d2t + p->n_draft);
        h->p.d2t = nullptr;
        const std::string device = opt->device ? opt->device : "cpu";
        h->of = at::TensorOptions(lst::torch_device(device)).dtype(at::kFloat);
        h->on_device = device != "cpu";
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

int lst_head_memory(lst_head *h, int64_t n, float **out) {
    *out = nullptr;
    return lst::head_guard([&] {
        const at::Tensor t = at::zeros({std::max<int64_t>(n, 1)}, h->of);
        h->memory[t.data_ptr<float>()] = t;
        *out = t.data_ptr<float>();
    });
}
void lst_head_memory_free(lst_head *h, float *p) {
    lst::head_guard([&] { h->memory.erase(p); });
}

int lst_head_copy(lst_head *h, float *to, const float *from, int64_t n) {
    return lst::head_guard([&] {
        if (!n) return;
        at::from_blob(to, {n}, h->of).copy_(at::from_blob(const_cast<float *>(from), {n}, h->of));
        lst::settle(*h);
    });
}
}
