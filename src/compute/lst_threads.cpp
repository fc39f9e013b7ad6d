#include "compute/lst_threads.h"
#include "compute/lst_internal.h"
#include "compute/lst_barrier.h"

#include <system_error>
#include <thread>

namespace {

struct Job {
    void (*body)(void *data, int t, int n); // nullptr: the helper ends
    void *data;
    int n;
};

struct Helper {
    lst::Signal asked;
    std::thread thread;
};

class Team {
    std::vector<std::unique_ptr<Helper>> helpers; // of thread 1, 2, ...
    Job job{};
    alignas(64) std::atomic<int> busy{0}; // helpers that have not done the job yet
    lst::Signal done;
    lst::Signal::Habit habit;

    void help(Helper &own, int t) {
        lst::Signal::Habit waits;
        for (uint32_t seen = 0;; seen++) {
            own.asked.wait(seen, waits);
            if (!job.body) return;
            job.body(job.data, t, job.n);
            if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) done.next();
        }
    }

  public:
    Team() = default;
    Team(const Team &) = delete;
    ~Team() {
        job = {};
        for (auto &h : helpers) h->asked.next();
        for (auto &h : helpers) h->thread.join();
    }
    void start(int n) {
        for (int t = (int)helpers.size() + 1; t < n; t++) {
            auto h = std::make_unique<Helper>();
            helpers.reserve((size_t)n);
            try {
                h->thread = std::thread([this, own = h.get(), t] { help(*own, t); });
            } catch (const std::system_error &) {
                throw lst::Error(LST_E_BACKEND, "the system allows only " + std::to_string(t) + " of " +
                                                    std::to_string(n) +
                                                    " threads (a limit on processes: 'ulimit -u', or the pids of a "
                                                    "container): raise the limit, or set a smaller number with "
                                                    "--threads");
            }
            helpers.push_back(std::move(h));
        }
    }
    void run(const Job &next) {
        start(next.n);
        job = next;
        busy.store(next.n - 1, std::memory_order_relaxed);
        const uint32_t now = done.now();
        for (int t = 1; t < next.n; t++) helpers[(size_t)t - 1]->asked.next();
        next.body(next.data, 0, next.n);
        if (next.n > 1) done.wait(now, habit);
    }
};

thread_local Team team;

} // namespace

void lst::start_threads(int n) {
    team.start(n);
}

void lst::run_threads(int n, void (*body)(void *data, int t, int n), void *data) {
    team.run({body, data, n});
}
