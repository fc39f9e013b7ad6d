// Where the threads of a forward wait for each other, up to 243 times in one of the default model. A thread looks in a
// loop whether all have come, which is over as soon as they have; but where other programs have the processors, the
// missing thread may need the very processor that the loop keeps, and then to sleep is faster. Each thread learns which
// holds: a loop that ends in vain makes the next one half as long, and now and then a loop of full length is tried
// again. tests/bench/results/amd-epyc-notes.md has what that brings.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace lst {

class Meeting {
    struct alignas(64) Habit {
        int32_t looks;  // in a loop, before the thread sleeps
        uint32_t waits; // so far
    };
    alignas(64) std::atomic<uint32_t> come{0};  // to this meeting
    alignas(64) std::atomic<uint32_t> ended{0}; // meetings
    alignas(64) std::atomic<uint32_t> sleepers{0};
    std::vector<Habit> habits; // of each thread

  public:
    explicit Meeting(int most_threads);
    // Thread `me` of n, all of which call it, returns when the last one has called it, and sees what all wrote before.
    void meet(int me, int n);
};

} // namespace lst
