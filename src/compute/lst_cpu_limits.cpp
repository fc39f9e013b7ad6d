// What this processor reaches at most: see lst_limits.
#include "compute/lst_cpu.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

typedef uint64_t Lanes __attribute__((vector_size(16)));

constexpr size_t READ_BYTES = (size_t)256 << 20; // of a run at least; beyond caches: four times the third level's
constexpr size_t LEAST_BYTES = (size_t)1 << 20;
constexpr int READS = 6, RUNS = 8; // others may have a processor meanwhile: the fastest of many short runs counts
constexpr double SECONDS = 0.003;  // that a run of multiply-adds takes at least

// The seconds of the fastest run, of all threads side by side.
template <class Work> double fastest(int threads, int runs, Work work) {
    double best = INFINITY;
    lst::SpinBarrier barrier(threads);
    for (int i = 0; i < runs; i++) {
        uint64_t start = 0;
        lst::parallel(threads, [&](int t, int n) {
            barrier.meet(t, n);
            if (!t) start = ls_now_ns();
            work(t);
        });
        best = std::min(best, (double)(ls_now_ns() - start) / 1e9);
    }
    return best;
}

uint64_t sum_of(const Lanes *p, size_t n) {
    Lanes sum[4] = {};
    for (size_t i = 0; i + 4 <= n; i += 4) {
        lsk_prefetch(p + i, 64);
        for (size_t j = 0; j < 4; j++) sum[j] += p[i + j];
    }
    const Lanes all = sum[0] + sum[1] + sum[2] + sum[3];
    return all[0] + all[1];
}

size_t beyond_caches() {
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return std::max(READ_BYTES, std::min(4 * (size_t)std::max(cache, 0L), 8 * READ_BYTES));
}

double read_gb_per_s(int threads, size_t bytes) {
    const size_t times = std::max(READ_BYTES / bytes, (size_t)1), n = bytes / sizeof(Lanes),
                 share = n / (size_t)threads;
    lst::cpu::Weights memory; // in large pages, as those whose reading it limits
    Lanes *lanes = (Lanes *)memory.take(bytes);
    std::vector<uint64_t> sums((size_t)threads);
    fastest(threads, 1, [&](int thread) { // each writes its own share, so that it is in memory near to it
        std::fill_n(lanes + (size_t)thread * share, share, Lanes{1, 1});
    });
    const double seconds = fastest(threads, READS, [&](int thread) {
        sums[(size_t)thread] = 0;
        for (size_t i = 0; i < times; i++) {
            __asm__ volatile("" : : : "memory"); // else compilers may read once for all
            sums[(size_t)thread] += sum_of(lanes + (size_t)thread * share, share);
        }
    });
    for (uint64_t sum : sums)
        if (sum != 2 * times * (share - share % 4))
            throw lst::Error(LST_E_BACKEND, "memory error: a read returned other bytes than were written");
    return (double)(times * share * (size_t)threads * sizeof(Lanes)) / seconds / 1e9;
}

double multiply_adds(int64_t (*peak)(int64_t rounds), int threads) {
    if (!peak) return 0;
    int64_t done = 0, rounds = 1 << 10;
    const auto work = [&](int thread) {
        const int64_t n = peak(rounds);
        if (!thread) done = n;
    };
    while (fastest(threads, 1, work) < SECONDS) rounds *= 2;
    return (double)done * threads / fastest(threads, RUNS, work) / 1e9;
}

} // namespace

extern "C" int lst_limits(int32_t threads, uint64_t bytes, lst_limits_t *out) {
    return lst::guard([&] {
        if (threads < 0 || threads > 4096) throw lst::Error(LST_E_ARG, "lst_limits: bad arguments");
        const lsk_table &kernels = lst::cpu::pick_kernels();
        const int n = lst::threads_of(threads);
        lst::start_threads(n);
        out->threads = n;
        out->read_gb_per_s =
            read_gb_per_s(n, bytes ? std::clamp((size_t)bytes, LEAST_BYTES, beyond_caches()) : beyond_caches());
        out->f32_gmac_per_s = multiply_adds(kernels.peak_f32, n);
        out->int8_gmac_per_s = multiply_adds(kernels.peak_int, n);
        out->bf16_gmac_per_s = multiply_adds(kernels.peak_bf16, n);
    });
}
