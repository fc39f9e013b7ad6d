#include "compute/lst_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

extern "C" {
#include "base/system.h"
}

namespace {

enum { LOOKS = 2000 }; // of a wait: 20 us on an Intel Xeon (family 6, model 167), some 35 us on Zen 4

void cpu_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); // yield takes no time on most processors
#endif
}

} // namespace

void lst::Signal::next() {
    value.store(now() + 1);
    if (sleepers.load()) syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void lst::Signal::wait(uint32_t old, Habit &habit) {
    if (patience.spins()) {
        for (int32_t i = 0; i < LOOKS; i++) {
            if (value.load(std::memory_order_acquire) != old) return;
            cpu_pause();
        }
        patience.in_vain(habit, ls_now_ns());
    }
    // next() stores the value before it reads `sleepers`, this does the reverse: one of them sees the other's
    sleepers++;
    while (value.load() == old) syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
    sleepers--;
}

void lst::SpinBarrier::meet(int me, int n) {
    const uint32_t now = ended.now(); // it cannot end without this thread
    if (come.fetch_add(1, std::memory_order_acq_rel) + 1 < (uint32_t)n) return ended.wait(now, habits[(size_t)me]);
    come.store(0, std::memory_order_relaxed);
    ended.next();
}
