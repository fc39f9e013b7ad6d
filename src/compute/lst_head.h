// A trained head: its weights, on its device. lst_head_load.cpp reads them, lst_head.cpp computes.
#pragma once
#include "compute/lst_operators.h"
#include "compute/lst_torch.h"

#include <unordered_map>

struct lst_head {
    ls_head_kind kind{};
    ls_hparams p{}; // of EAGLE's layer; n_vocab: of the target
    int32_t n_values = 0, n_draft = 0;
    at::TensorOptions of;                           // floats on its device
    bool on_device = false;                         // whose memory is not the host's
    std::unordered_map<float *, at::Tensor> memory; // see lst_head_memory
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

namespace lst {

// Runs body, whose errors, libtorch's too, become codes.
template <class F> int head_guard(F &&body) noexcept {
    return guard([&] { with_torch(body); });
}

// Waits until a GPU has computed what was asked: the target has a stream of its own, and takes memory that is free.
void settle(const lst_head &h);

} // namespace lst
