#include "torch/lst_meeting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace {

enum { MOST_LOOKS = 2000, TRIAL = 64 }; // some 35 us; waits from one trial of that length to the next

void breathe() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); // yield takes no time on most processors
#endif
}

} // namespace

lst::Meeting::Meeting(int most_threads) : habits((size_t)most_threads, Habit{MOST_LOOKS, 0}) {}

void lst::Meeting::meet(int me, int n) {
    const uint32_t now = ended.load(std::memory_order_relaxed); // it cannot end without this thread
    if (come.fetch_add(1, std::memory_order_acq_rel) + 1 == (uint32_t)n) {
        come.store(0, std::memory_order_relaxed);
        ended.store(now + 1);
        if (sleepers.load()) syscall(SYS_futex, &ended, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
        return;
    }
    Habit &habit = habits[(size_t)me];
    const bool trial = ++habit.waits % TRIAL == 0;
    const int32_t looks = trial ? MOST_LOOKS : habit.looks;
    for (int32_t i = 0; i < looks; i++) {
        if (ended.load(std::memory_order_acquire) != now) {
            habit.looks = looks;
            return;
        }
        breathe();
    }
    if (!trial) habit.looks /= 2;
    // the last to come stores `ended` before it reads `sleepers`, this does the reverse: one of them sees the other's
    sleepers++;
    while (ended.load() == now) syscall(SYS_futex, &ended, FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0);
    sleepers--;
}
