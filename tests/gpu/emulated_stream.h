// A stream of the emulated device: what is put on it runs at once, or is recorded into a graph.
#pragma once
#include "tests/gpu/emulation.h"

#include <vector>

namespace emulated {

struct Launch {
    dim3 grid;
    int threads;
    size_t shared;
    std::function<void()> body;
};
struct Stream {
    bool capturing = false;
    std::vector<std::function<void()>> recorded;
};
void run_grid(const Launch &l);

} // namespace emulated
