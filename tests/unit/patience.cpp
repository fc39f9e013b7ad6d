// For test_threads.c: two threads that wait for the same number in turn.
#include "compute/lst_barrier.h"

// spun[i]: whether wait i spun. in_vain(i): whether it would have been in vain.
extern "C" void test_waits(int32_t n, bool (*in_vain)(int32_t i), bool *spun) {
    lst::Patience patience;
    lst::Patience::Habit habits[2];
    for (int32_t i = 0; i < n; i++) {
        spun[i] = patience.spins(habits[i % 2]);
        if (spun[i] && in_vain(i)) patience.in_vain(habits[i % 2]);
    }
}
