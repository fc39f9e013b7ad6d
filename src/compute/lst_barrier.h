// How the threads of a forward wait for each other. A thread first spins until what it waits for has come, which is the
// fastest. But if other programs use the processors, the missing thread may need the processor of the spinning one;
// then sleeping is faster. So each thread adapts: if it spins in vain, it halves its spin limit; from time to time it
// tries the full limit again. Measurements: tests/bench/results/amd-epyc-notes.md.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace lst {

// A number that threads wait for.
class Signal {
    alignas(64) std::atomic<uint32_t> value{0};
    alignas(64) std::atomic<uint32_t> sleepers{0};

  public:
    struct alignas(64) Habit { // of a thread that waits
        int32_t looks = MOST_LOOKS;
        uint32_t waits = 0; // so far
    };
    enum { MOST_LOOKS = 2000 }; // some 35 us
    uint32_t now() const { return value.load(std::memory_order_relaxed); }
    void next();                           // adds one: all earlier writes of this thread are then visible
    void wait(uint32_t old, Habit &habit); // returns when the number is no longer `old`
};

// A barrier, used up to 243 times in a forward of the default model.
class SpinBarrier {
    alignas(64) std::atomic<uint32_t> come{0}; // threads that have arrived
    Signal ended;
    std::vector<Signal::Habit> habits; // of each thread

  public:
    explicit SpinBarrier(int most_threads) : habits((size_t)most_threads) {}
    // Called by all n threads, with the thread's number `me`. Returns when the last thread has called it; all earlier
    // writes of all threads are then visible.
    void meet(int me, int n);
};

} // namespace lst
