// For test_threads.c: two threads that wait for the same number in turn.
#include "compute/lst_barrier.h"

// Waits are us microseconds apart. spun[i]: whether wait i spun. in_vain(i): whether it would have been in vain.
extern "C" void test_waits(int32_t n, int32_t us, bool (*in_vain)(int32_t i), bool *spun) {
    lst::Patience patience;
    lst::Patience::Habit habits[2];
    for (int32_t i = 0; i < n; i++) {
        spun[i] = patience.spins();
        if (spun[i] && in_vain(i)) patience.in_vain(habits[i % 2], 1000ull * (uint64_t)us * (uint64_t)(i + 1000));
    }
}
