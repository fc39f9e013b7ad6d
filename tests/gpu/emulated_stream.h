// A stream of the emulated device: what is put on it runs at once, or is recorded into a graph.
#pragma once
#include "tests/gpu/emulation.h"

#include <vector>

namespace emulated {

struct Launch {
    dim3 grid;
    int threads;
    size_t shared;
    bool early; // it may start before the kernel ahead has ended
    std::function<void()> body;
};
struct Stream {
    bool capturing = false;
    std::vector<std::function<void()>> recorded;
    int graphs = 0;      // that were recorded here and live
    size_t reserved = 0; // for as many as a session keeps, from the first one on
};
// The newest kernel is held back until the next one has begun (see emulation.h), or until this is called.
void finish();

} // namespace emulated
