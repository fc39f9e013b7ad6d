// The tensors that a caller gives to lst_model_open or lst_head_open: found by name, and read with checks.
#pragma once
#include "compute/lst_error.h"

#include <cstring>
#include <unordered_map>

extern "C" {
#include "compute/kernels/kernels.h"
}

namespace lst {

struct Tensors {
    const char *of; // "model" or "head", for messages
    const lst_tensor *tensors;
    const lst_open_options &opt;
    std::unordered_map<std::string, const lst_tensor *> by_name;
    uint64_t total = 0; // bytes

    Tensors(const char *whose, const lst_tensor *t, int32_t n, const lst_open_options &o)
        : of(whose), tensors(t), opt(o) {
        for (int32_t i = 0; i < n; i++) {
            by_name[t[i].name] = &t[i];
            total += t[i].n_bytes;
        }
    }
    bool has(const std::string &name) const { return by_name.count(name) > 0; }
    const lst_tensor &find(const std::string &name, int64_t n_in, int64_t n_out) const {
        const auto it = by_name.find(name);
        if (it == by_name.end()) throw Error(LST_E_ARG, "tensor '" + name + "' is missing");
        const lst_tensor &t = *it->second;
        if (t.n_in != n_in || t.n_out != n_out || lsk_row_bytes(t.type, n_in) * (size_t)n_out != t.n_bytes ||
            !t.n_bytes || (!t.data && !opt.read))
            throw Error(LST_E_ARG, "tensor '" + name + "' has a shape or type that does not fit the " + of);
        return t;
    }
    // Reads n rows into `to`, checked. LST_OK, or why not.
    int read(const lst_tensor &t, int64_t row, int64_t n, uint8_t *to) const {
        const size_t row_bytes = t.n_bytes / (size_t)t.n_out, at = (size_t)row * row_bytes;
        if (t.data) std::memcpy(to, (const uint8_t *)t.data + at, (size_t)n * row_bytes);
        else if (opt.read(opt.ud, (int32_t)(&t - tensors), at, (size_t)n * row_bytes, to)) return LST_E_READ;
        return lsk_finite(t.type, to, n, t.n_in) ? LST_OK : LST_E_NAN;
    }
    static void must(int code, const lst_tensor &t) {
        const std::string tensor = std::string("tensor '") + t.name + "' ";
        if (code == LST_E_READ) throw Error(code, tensor + "could not be read");
        if (code == LST_E_NAN) throw Error(code, tensor + "holds NaN, infinite or unusable scale values");
        if (code == LST_E_MEMORY) throw std::bad_alloc();
        if (code) throw Error(code, "loading was cancelled");
    }
};

} // namespace lst
