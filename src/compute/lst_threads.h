// The threads of forwards. Each thread that computes has helpers of its own, which wait for it between forwards and end
// with it.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

namespace lst {

// Starts helpers of the calling thread, until there are n threads. lst::Error: the system refuses them.
void start_threads(int n);
// Calls body(t, n) for each t < n at once, t = 0 in the calling thread, and returns when all have returned. Starts the
// threads that are missing. The body does not throw.
void parallel(int n, const std::function<void(int t, int n)> &body);

// Calls body(i) for each i < n, each in the thread that is free next.
template <class F> void each_of(int threads, int64_t n, F &&body) {
    std::atomic<int64_t> next{0};
    const auto work = [&](int, int) {
        for (int64_t i; (i = next++) < n;) body(i);
    };
    if (n > 1) parallel(threads, work);
    else work(0, 1);
}

} // namespace lst
