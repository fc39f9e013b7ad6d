// How the threads of a forward wait for each other. A thread first spins until what it waits for has come, which is the
// fastest. But if there are fewer processors than threads that want them, the missing thread may need the processor of
// the spinning one; then sleeping is faster. Measurements: tests/bench/results/threads.md.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace lst {

// Whether threads that wait for the same number spin. If a thread spins in vain too often, all of them sleep for a
// while, and then spin again: they change together, because waking up may take longer than a thread spins; then one
// which sleeps makes the others spin in vain. Too often is a matter of time: where forwards compute for long, waits are
// longer than a thread spins, but few, and then it costs little.
class Patience {
    enum {
        SOME = 16,         // spins in vain, which took less than
        SOME_NS = 5000000, // this: a quiet machine has them in 16 ms at least, beside a busy program in 2 to 4
        REST = 2048,       // waits without spinning, those of some eight forwards
    };
    std::atomic<int32_t> rests{0};

  public:
    struct alignas(64) Habit { // of a thread
        int32_t vain = 0;
        uint64_t since = 0; // of the first of these
    };
    bool spins() { // asked once for each wait
        if (rests.load(std::memory_order_relaxed) <= 0) return true;
        rests.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }
    void in_vain(Habit &h, uint64_t now_ns) { // it spun in vain
        if (!h.vain) h.since = now_ns;
        if (++h.vain < SOME) return;
        if (now_ns - h.since < SOME_NS) rests.store(REST, std::memory_order_relaxed);
        h = {};
    }
};

// A number that threads wait for.
class Signal {
    alignas(64) std::atomic<uint32_t> value{0};
    alignas(64) std::atomic<uint32_t> sleepers{0};
    Patience patience;

  public:
    using Habit = Patience::Habit;
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
