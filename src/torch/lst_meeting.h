// An adaptive spin barrier for the threads of a forward, used up to 243 times in a forward of the default model. A
// thread first spins until all have arrived, which is the fastest. But if other programs use the processors, the
// missing thread may need the processor of the spinning one; then sleeping is faster. So each thread adapts: if it
// spins in vain, it halves its spin limit; from time to time it tries the full limit again. Measurements:
// tests/bench/results/amd-epyc-notes.md.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace lst {

class Meeting {
    struct alignas(64) Habit {
        int32_t looks;  // spin limit: iterations before the thread sleeps
        uint32_t waits; // number of waits so far
    };
    alignas(64) std::atomic<uint32_t> come{0};  // threads that have arrived at this barrier
    alignas(64) std::atomic<uint32_t> ended{0}; // number of completed barriers
    alignas(64) std::atomic<uint32_t> sleepers{0};
    std::vector<Habit> habits; // of each thread

  public:
    explicit Meeting(int most_threads);
    // Called by all n threads, with the thread's number `me`. Returns when the last thread has called it; all earlier
    // writes of all threads are then visible.
    void meet(int me, int n);
};

} // namespace lst
