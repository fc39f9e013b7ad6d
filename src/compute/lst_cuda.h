// The decoder on a GPU. lst_cuda.cpp has the model, lst_cuda_kv_cache.h its forwards.
#pragma once
#include "compute/lst_device.h"

namespace lst::device {

// A layer's vectors on the device; NULL: there is none.
struct Vectors {
    const float *attn_norm, *attn_post_norm, *ffn_norm, *ffn_post_norm, *q_norm, *k_norm;
    const float *qkv_bias, *out_bias, *gate_up_bias, *down_bias, *sinks;
};

// A mixture of experts on the device: weights and biases of all experts.
struct Experts {
    const float *router_bias, *gate_up_bias, *down_bias; // [experts][outputs]; NULL: there are none
    const uint8_t *const *gate_up, *const *down;         // [experts]
    const float *choice_bias;                            // [experts]; NULL: none
};

struct CudaModel : lst_model {
    int32_t index = 0; // of the device
    lsg_device device{};
    Stream stream;
    lst::Linear embd; // unless it is the output head's matrix
    std::vector<Memory<uint8_t>> memory;
    std::vector<uint8_t> staging; // of the matrix that is being packed
    std::vector<Vectors> vectors; // of the layers
    std::vector<Experts> experts; // of the mixtures
    const float *output_norm_at = nullptr, *head_bias = nullptr, *rope_freq_at[2] = {nullptr, nullptr};
    bool own_embd = false, any_local = false; // any_local: a layer is of the second kind

    ~CudaModel() override { lsg_use(index); }

    int common_type(const std::vector<lst::Stacked> &stacked) const override;
    bool matrix_begin(lst::Linear &l, const std::vector<lst::Stacked> &stacked, lst::Care) override;
    void matrix_rows(lst::Linear &l, int64_t row, int type, const uint8_t *raw, int64_t n) override;
    void matrix_end(lst::Linear &l) override;
    bool embedding_begin(const lst_tensor &t, int kept_type) override;
    void embedding_rows(int64_t row, int type, const uint8_t *raw, int64_t n) override;
    void embedding_end() override;
    void loaded() override;
    void info(lst_model_info_t *info) const override;
    std::unique_ptr<lst::KvCache> kv_cache(int32_t n_context, int32_t n_layers, bool leads) override;
    ls_shard loaded_part() const override;
    lsg_shape shape(int32_t n_layers) const;
    lsg_gpu gpu() const { return device.of; }
    const lsg_matrix &embedding_rows() const { return own_embd ? embd.device : head.device; }

  private:
    const uint8_t *place(const void *bytes, size_t n);
    const float *place(const lst::Floats &x);
    Experts place(const lst::Mixture &x);
};

} // namespace lst::device
