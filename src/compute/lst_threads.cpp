#include "compute/lst_threads.h"
#include "compute/lst_internal.h"
#include "compute/lst_barrier.h"

#include <deque>
#include <system_error>
#include <thread>

namespace {

struct Helper {
    lst::Signal asked;
    std::thread thread;
};

class Team {
    std::deque<Helper> helpers;                          // of thread 1, 2, ...
    const std::function<void(int, int)> *body = nullptr; // nullptr: the helpers end
    int n_threads = 0;                                   // that run it
    alignas(64) std::atomic<int> busy{0};                // helpers that have not done the job yet
    lst::Signal done;
    lst::Signal::Habit habit;

    void help(Helper &own, int t) {
        lst::Signal::Habit waits;
        for (uint32_t seen = 0;; seen++) {
            own.asked.wait(seen, waits);
            if (!body) return;
            (*body)(t, n_threads);
            if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) done.next();
        }
    }

  public:
    Team() = default;
    Team(const Team &) = delete;
    ~Team() {
        body = nullptr;
        for (Helper &h : helpers) h.asked.next();
        for (Helper &h : helpers) h.thread.join();
    }
    void start(int n) {
        for (int t = (int)helpers.size() + 1; t < n; t++) try {
                Helper &h = helpers.emplace_back();
                h.thread = std::thread([this, &h, t] { help(h, t); });
            } catch (const std::system_error &) {
                helpers.pop_back();
                throw lst::Error(LST_E_BACKEND, "the system allows only " + std::to_string(t) + " of " +
                                                    std::to_string(n) +
                                                    " threads (a limit on processes: 'ulimit -u', or the pids of a "
                                                    "container): raise the limit, or set a smaller number with "
                                                    "--threads");
            }
    }
    void run(int n, const std::function<void(int, int)> &next) {
        start(n);
        body = &next;
        n_threads = n;
        busy.store(n - 1, std::memory_order_relaxed);
        const uint32_t now = done.now();
        for (int t = 1; t < n; t++) helpers[(size_t)t - 1].asked.next();
        next(0, n);
        if (n > 1) done.wait(now, habit);
    }
};

thread_local Team team;

} // namespace

void lst::start_threads(int n) {
    team.start(n);
}

void lst::parallel(int n, const std::function<void(int t, int n)> &body) {
    team.run(n, body);
}
