#include "compute/lst_cuda.h"

#include <algorithm>

using namespace lst::device;

const uint8_t *CudaModel::place(const void *bytes, size_t n) {
    memory.emplace_back(n, "the weights (--weights q8 or q4 make them smaller)");
    check(lsg_upload(memory.back().get(), bytes, n, stream.s), "copying weights to the GPU");
    check(lsg_sync(stream.s), "copying weights to the GPU");
    weight_bytes += n;
    return memory.back().get();
}

const float *CudaModel::place(const lst::Floats &x) {
    return x ? (const float *)place(x.data(), x.size() * sizeof(float)) : nullptr;
}

ls_shard CudaModel::loaded_part() const {
    return lsg_held(part(), hp.n_heads, hp.n_kv_heads, hp.qk_norm == LS_QK_NORM_WHOLE);
}

// n_mixtures: every layer may be dense, although there are experts.
lsg_shape CudaModel::shape(int32_t n_layers) const {
    const ls_shard own = loaded_part();
    lsg_shape s = lsg_shape_of(&hp, gpu(), ranks ? &own : nullptr);
    s.n_layers = n_layers;
    if (!n_mixtures) s.n_experts = s.n_experts_used = s.n_ff_expert = s.n_ff_shared = 0;
    return s;
}

// Eight bits with a scale and a minimum for 16 values hold every quantised type; floats are bf16 on a GPU.
int CudaModel::common_type(const std::vector<lst::Stacked> &stacked) const {
    for (const lst::Stacked &s : stacked)
        if (ls_ggml_layout_of(s.type)->values == 1) return -1;
    return LS_GGML_Q5_1; // which is kept so, and needs no blocks of 256
}

// A router stays as floats, which have no format of a matmul: it is read by a kernel of its own.
static bool is_floats(const lst::Linear &l) {
    return !l.device.cut.chunks;
}

bool CudaModel::matrix_begin(lst::Linear &l, const std::vector<lst::Stacked> &stacked, lst::Care care) {
    if (care == lst::Care::exact) {
        staging.assign((size_t)l.n_out * (size_t)l.n_in * sizeof(float), 0);
        return true;
    }
    if (lsg_matrix_init(&l.device, stacked[0].type, l.n_out, l.n_in, gpu())) return false;
    l.device.cut = lsg_cut_of(l.device.format, l.of_all, l.n_in, gpu()); // see lsg_matrix_cut
    staging.assign(lsg_matrix_bytes(&l.device), 0);
    return true;
}

void CudaModel::matrix_rows(lst::Linear &l, int64_t row, int type, const uint8_t *raw, int64_t n) {
    if (!is_floats(l)) return lsg_pack_rows(&l.device, staging.data(), row, type, raw, n);
    const size_t bytes = lsk_row_bytes(type, l.n_in);
    for (int64_t i = 0; i < n; i++)
        lsk_dequant_row(type, raw + (size_t)i * bytes, l.n_in, (float *)staging.data() + (row + i) * l.n_in);
}

void CudaModel::matrix_end(lst::Linear &l) {
    l.device.weights = place(staging.data(), staging.size());
}

bool CudaModel::embedding_begin(const lst_tensor &t, int kept_type) {
    own_embd = !hp.tied || kept_type != t.type;
    if (!own_embd) return false;
    embd.n_in = (int32_t)t.n_in;
    embd.n_out = embd.of_all = (int32_t)t.n_out;
    if (!matrix_begin(embd, {{t.type, t.n_out}}, lst::Care::usual))
        throw lst::Error(LST_E_ARG, "tensor 'token_embd.weight' cannot be packed");
    return true;
}

void CudaModel::embedding_rows(int64_t row, int type, const uint8_t *raw, int64_t n) {
    matrix_rows(embd, row, type, raw, n);
}

void CudaModel::embedding_end() {
    matrix_end(embd);
}

Experts CudaModel::place(const lst::Mixture &x) {
    std::vector<const uint8_t *> gate_up, down;
    std::vector<float> inner, outer;
    for (const lst::Expert &e : x.experts) {
        if (e.gate_up.device.format != x.experts[0].gate_up.device.format ||
            e.down.device.format != x.experts[0].down.device.format ||
            e.gate_up.bias.size() != x.experts[0].gate_up.bias.size() ||
            e.down.bias.size() != x.experts[0].down.bias.size()) // ls_device_choose has checked it
            throw lst::Error(LST_E_ARG, "the experts of a layer have weights of several formats or biases only in "
                                        "part, which a GPU does not compute");
        gate_up.push_back(e.gate_up.device.weights);
        down.push_back(e.down.device.weights);
        inner.insert(inner.end(), e.gate_up.bias.data(), e.gate_up.bias.data() + e.gate_up.bias.size());
        outer.insert(outer.end(), e.down.bias.data(), e.down.bias.data() + e.down.bias.size());
    }
    const auto all = [&](const std::vector<float> &v) {
        return v.empty() ? nullptr : (const float *)place(v.data(), v.size() * sizeof(float));
    };
    const auto table = [&](const std::vector<const uint8_t *> &v) {
        return (const uint8_t *const *)place(v.data(), v.size() * sizeof v[0]);
    };
    return {place(x.router.bias), all(inner), all(outer), table(gate_up), table(down), place(x.choice_bias)};
}

void CudaModel::loaded() {
    any_local = std::count(hp.local, hp.local + hp.n_layers, 0) != hp.n_layers;
    for (const lst::Layer &l : layers) {
        vectors.push_back({place(l.attn_norm), place(l.attn_post_norm), place(l.ffn_norm), place(l.ffn_post_norm),
                           place(l.q_norm), place(l.k_norm), place(l.qkv.bias), place(l.out.bias),
                           place(l.gate_up.bias), place(l.down.bias), place(l.sinks)});
        if (l.mixture) experts.push_back(place(*l.mixture));
    }
    output_norm_at = place(output_norm);
    head_bias = place(head.bias);
    for (int k = 0; k < 2; k++)
        rope_freq_at[k] = (const float *)place(hp.rope_freq[k], (size_t)hp.rope_dims / 2 * sizeof(float));
    staging = {};
}

void CudaModel::info(lst_model_info_t *info) const {
    if (index) snprintf(info->device, sizeof info->device, "cuda:%d", index);
    else snprintf(info->device, sizeof info->device, "cuda");
    snprintf(info->dtype, sizeof info->dtype, "bf16");
    info->threads = info->most_threads = 1; // that decode
    info->kv_value_bytes = sizeof(uint16_t);
    snprintf(info->kernel, sizeof info->kernel, "%.90s, compute capability %d.%d", device.name, device.major,
             device.minor);
    snprintf(info->version, sizeof info->version, "%s", lsg_runtime_name());
}

// "auto", "cuda" or "cuda:N".
static int32_t device_number(const std::string &device) {
    if (device == "auto" || device == "cuda") return 0;
    const std::string digits = device.rfind("cuda:", 0) == 0 ? device.substr(5) : "";
    if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos)
        throw lst::Error(LST_E_ARG, "device '" + device + "' is not in this library (cuda or cuda:N)");
    return std::stoi(digits);
}

std::unique_ptr<lst_model> lst::make_model(const ls_hparams &hp, const lst_open_options &opt) {
    const std::string dtype = opt.dtype;
    const int32_t index = device_number(opt.device);
    char why[300];
    const int32_t n = lsg_devices(why, sizeof why);
    if (index >= n)
        throw lst::Error(LST_E_ARG,
                         n ? "there is no device cuda:" + std::to_string(index) + ": CUDA sees " + std::to_string(n)
                           : "CUDA cannot be used: " + std::string(why));
    if (dtype != "auto" && dtype != "bf16")
        throw lst::Error(LST_E_ARG, "dtype '" + dtype + "' does not run on a GPU: choose bf16, or --device cpu");
    if (const std::string kv = opt.kv; kv != "auto" && kv != "bf16")
        throw lst::Error(LST_E_ARG,
                         "a KV cache in '" + kv + "' is not supported on a GPU: use auto or bf16, or --device cpu");
    if (hp.n_embd > LSG_MOST_EMBD)
        throw lst::Error(LST_E_ARG, "a model with " + std::to_string(hp.n_embd) +
                                        " values a row does not run on a GPU (" + std::to_string(LSG_MOST_EMBD) +
                                        " at most): choose --device cpu");
    check(lsg_use(index), "choosing the GPU");
    auto m = std::make_unique<CudaModel>();
    m->index = index;
    check(lsg_device_get(index, &m->device), "the GPU");
    return m;
}

extern "C" int lst_limits(int32_t, uint64_t, lst_limits_t *) {
    return lst::guard([] { throw lst::Error(LST_E_ARG, "the limits of a GPU cannot be measured"); });
}

extern "C" int lst_device(int32_t i, lst_device_info *info) {
    return lst::guard([&] {
        char why[300];
        const int32_t n = lsg_devices(why, sizeof why);
        if (i < 0 || i >= n) throw lst::Error(LST_E_ARG, n ? "there is no such device" : why);
        lsg_device d;
        check(lsg_device_get(i, &d), "the GPU");
        snprintf(info->name, sizeof info->name, "%.90s, compute capability %d.%d", d.name, d.major, d.minor);
        info->multiprocessors = d.of.multiprocessors;
        info->shared_kib = d.of.shared_kib;
        info->compiled = d.compiled;
        info->free_bytes = d.free_bytes;
        info->total_bytes = d.total_bytes;
        snprintf(info->version, sizeof info->version, "%s", lsg_runtime_name());
    });
}
