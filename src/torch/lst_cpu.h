// The decoder on the CPU: our kernels over packed weights. lst_cpu.cpp has the model, lst_cpu_engine.cpp its forwards.
#pragma once
#include "torch/lst_internal.h"

#include <chrono>

namespace lst::cpu {

// How a dtype rounds the inputs of matmuls.
struct Arithmetic {
    const char *dtype, *kernel;
    lsk_arith usual, careful; // careful: q/k/v and down, which rounding harms most
};

struct CpuModel : lst_model {
    const lsk_table *kernels = nullptr;
    std::string asked; // dtype
    const Arithmetic *arithmetic = nullptr;
    bool integers = false; // at least one matmul takes integers
    int embd_type = LS_GGML_F32;
    std::vector<uint8_t> embd; // raw rows
    size_t embd_row_bytes = 0;

    bool matrix_begin(lst::Linear &l, int type, lst::Care care) override;
    void matrix_rows(lst::Linear &l, int64_t row, int type, const uint8_t *raw, int64_t n) override;
    void matrix_end(lst::Linear &) override {}
    void embedding(const lst_tensor &t, const uint8_t *raw, int) override;
    void loaded() override;
    void info(lst_model_info_t *info) const override;
    std::unique_ptr<lst::Engine> engine(int32_t n_context, int32_t n_layers) override;
};

const char *no_level(); // what is wrong with LOGITSPEC_CPU, where lsk_pick finds nothing; of the calling thread

// ---- what a forward is made with

// Matmul inputs other than plain floats, written beside them: in integer arithmetic group g of row r at [g * rows + r],
// in bf16 row after row.
struct Prepared {
    std::vector<lsk_group> groups;
    std::vector<uint16_t> bf16;
    int32_t n_in = 0;

    void resize(int32_t rows, int64_t n) {
        n_in = (int32_t)n;
        groups.resize((size_t)rows * (size_t)n / 32);
        bf16.resize((size_t)rows * (size_t)n);
    }
};

// Adds up the time of a forward's parts in one of its threads; does nothing where nobody asked.
struct Clock {
    using clock = std::chrono::steady_clock;
    double *parts; // NULL: nobody did
    clock::time_point last;

    explicit Clock(double *us) : parts(us) {
        if (parts) last = clock::now();
    }
    void past(int part) {
        if (!parts) return;
        const clock::time_point now = clock::now();
        parts[part] += std::chrono::duration<double, std::micro>(now - last).count();
        last = now;
    }
};

} // namespace lst::cpu
