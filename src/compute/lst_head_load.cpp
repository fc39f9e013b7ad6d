// Reads a trained head's weights, as floats.
#include "compute/lst_head.h"
#include "compute/lst_tensors.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace {

struct Loader : lst::Tensors {
    lst_head &h;
    uint64_t done = 0;

    Loader(lst_head &head, const lst_tensor *t, int32_t n, const lst_open_options &o)
        : Tensors("head", t, n, o), h(head) {}

    std::vector<uint8_t> read_all(const lst_tensor &t) {
        std::vector<uint8_t> raw(t.n_bytes);
        must(read(t, 0, t.n_out, raw.data()), t);
        done += t.n_bytes;
        if (opt.progress && !opt.progress(opt.progress_ud, "loading the head", (double)done / (double)total))
            must(LST_E_CANCELLED, t);
        return raw;
    }

    // [n_out][n_in] as floats in host memory, into `out` if that is defined.
    at::Tensor floats(const std::string &name, int64_t n_in, int64_t n_out, at::Tensor out = {}) {
        const lst_tensor &t = find(name, n_in, n_out);
        const std::vector<uint8_t> raw = read_all(t);
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

void load_eagle(Loader &load, const ls_head &from) {
    lst_head &h = load.h;
    const ls_hparams &p = from.hparams;
    const bool third = from.kind == LS_HEAD_EAGLE3;
    const int64_t e = p.n_embd, q = (int64_t)p.n_heads * p.head_dim, kv = (int64_t)p.n_kv_heads * p.head_dim;
    const lst_tensor &table = load.find(from.own_embedding ? "embed_tokens.weight" : "token_embd.weight", e, p.n_vocab);
    h.embedding = load.read_all(table);
    h.bytes += table.n_bytes;
    h.embedding_type = table.type;
    h.embedding_row_bytes = lsk_row_bytes(table.type, e);
    h.fc = load.matrix("fc", third ? h.n_values : 2 * e, e);
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
    h.head = load.matrix(from.own_output ? "lm_head" : "output", e, h.n_draft);
    h.freq = at::from_blob(h.p.rope_freq[0], {p.rope_dims / 2}, at::kFloat).clone().to(h.of.device());
}

void load_medusa(Loader &load, const ls_head &from) {
    const int64_t n = load.h.n_values;
    load.h.guesses.resize((size_t)from.n_heads);
    for (int32_t i = 0; i < from.n_heads; i++) {
        lst_head::Guess &g = load.h.guesses[(size_t)i];
        const std::string name = std::to_string(i) + ".";
        for (int32_t b = 0; b < from.n_blocks; b++)
            g.blocks.push_back(load.matrix(name + std::to_string(b) + ".linear", n, n));
        g.head = load.matrix(name + std::to_string(from.n_blocks), n, load.h.n_draft);
    }
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

int lst_head_open(lst_head **out, const ls_head *p, const lst_tensor *tensors, int32_t n_tensors,
                  const lst_open_options *opt) {
    *out = nullptr;
    return lst::head_guard([&] {
        auto h = std::make_unique<lst_head>();
        h->kind = p->kind;
        h->p = p->hparams;
        h->n_values = ls_head_values(p);
        h->n_draft = p->n_draft;
        if (p->d2t) h->d2t.assign(p->d2t, p->d2t + p->n_draft);
        const std::string device = opt->device ? opt->device : "cpu";
        h->of = at::TensorOptions(lst::torch_device(device)).dtype(at::kFloat);
        h->on_device = device != "cpu";
        if (opt->threads > 0) lst::use_torch_threads(opt->threads);
        Loader load(*h, tensors, n_tensors, *opt);
        if (p->kind == LS_HEAD_MEDUSA) load_medusa(load, *p);
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
