// What the files of liblstorch share. C++ stays inside this folder.
#pragma once
#include <ATen/ATen.h>

#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "base/sample.h"
#include "torch/kernels/kernels.h"
#include "torch/lst.h"
}

#define LST_API __attribute__((visibility("default")))

namespace lst {

// An error with the code that the caller gets.
struct Error : std::runtime_error {
    int code;
    Error(int c, const std::string &what) : std::runtime_error(what), code(c) {}
};

void set_error(const std::string &text);

// Runs body so that no exception crosses the C boundary.
template <class F> int guard(F &&body) noexcept {
    try {
        c10::InferenceMode inference;
        body();
        return LST_OK;
    } catch (const Error &e) {
        set_error(e.what());
        return e.code;
    } catch (const c10::Error &e) {
        set_error(e.what_without_backtrace());
        return LST_E_BACKEND;
    } catch (const std::bad_alloc &) {
        set_error("out of memory");
        return LST_E_MEMORY;
    } catch (const std::exception &e) {
        set_error(e.what());
        return LST_E_BACKEND;
    } catch (...) {
        set_error("unknown C++ exception");
        return LST_E_BACKEND;
    }
}

// A weight matrix, packed for our kernels, and the arithmetic of its input.
struct Linear {
    int32_t n_in = 0, n_out = 0;
    lsk_arith arith = LSK_ARITH_F32;
    at::Tensor bytes; // uint8 storage behind `packed`
    at::Tensor bias;  // f32 [n_out]; undefined: none
    lsk_matrix packed{};
};

struct Layer {
    Linear qkv, out, gate_up, down;
    // f32 [n_embd]; undefined where the architecture has none: before a sublayer, and of what it adds
    at::Tensor attn_norm, attn_post_norm, ffn_norm, ffn_post_norm;
    at::Tensor q_norm, k_norm; // f32, of a head or of all of them
};

} // namespace lst

struct lst_model {
    lst_hparams hp{};
    const lsk_table *kernels = nullptr;
    const char *dtype = "f32", *kernel = "", *weights = "auto";
    std::vector<uint8_t> local;      // [n_layers]
    std::vector<float> rope_freq[2]; // [rope_dims / 2]
    int threads = 1;
    std::vector<lst::Layer> layers;
    lst::Linear head;
    at::Tensor output_norm;
    int embd_type = 0;
    std::vector<uint8_t> embd; // raw rows
    size_t embd_row_bytes = 0;
    uint64_t weight_bytes = 0;
};
