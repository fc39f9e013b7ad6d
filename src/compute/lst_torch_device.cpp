#include "compute/lst_operators.h"

#include <ATen/DynamicLibrary.h>
#include <ATen/ops/empty.h>

// The operators of GPUs are in a library of their own, which `make torch` does not fetch.
at::Device lst::torch_device(const std::string &name) {
    if (name == "cpu") return at::kCPU;
    try {
        at::DynamicLibrary("libtorch_cuda.so", nullptr, true); // true: it stays
    } catch (const c10::Error &e) {
        throw Error(LST_E_ARG, std::string("this libtorch has no operators for GPUs (") + e.what_without_backtrace() +
                                   "); build with LIBTORCH=DIR of one for CUDA");
    }
    return with_torch([&] {
        return at::empty({1}, at::Device(name)).device(); // an error of CUDA comes now, before weights are read
    });
}
