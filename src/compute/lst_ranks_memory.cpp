// Ranks of one machine, started by the same process: they exchange through memory that all of them map. A message costs
// a microsecond or two there, where a socket's costs a hundred.
#include "compute/lst_ranks.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace {

constexpr uint64_t MS = 1000000, SPINS_NS = MS / 50,
                   YIELDS_NS = MS * 3 / 10; // before a rank sleeps: longer than what rank 0 does between two forwards
constexpr timespec SLEEP{0, 100 * MS};      // at a time: then it looks whether the other one lives

struct alignas(64) Slot { // of a rank
    std::atomic<int32_t> pid;
    std::atomic<uint32_t> round;    // up to which it has given its bytes, and read those of all rounds before
    std::atomic<uint32_t> sleepers; // ranks that wait for that
};

struct Shared {
    const int rank, n;
    const uint64_t timeout_ns;
    size_t size;
    char *memory;
    struct Process {
        int fd = -1; // a pidfd
        ~Process() {
            if (fd >= 0) close(fd);
        }
    };
    std::vector<Process> process;
    uint32_t round = 0;

    explicit Shared(const lst_ranks_options &o);
    ~Shared() { munmap(memory, size); }
    void find(const lst_ranks_options &o);
    Slot &slot(int r) const { return reinterpret_cast<Slot *>(memory)[r]; }
    // Rounds take turns in two places: before a rank writes in one of them again, all have read it.
    char *bytes(int r) const {
        return memory + (size_t)n * sizeof(Slot) + ((round & 1) * (size_t)n + (size_t)r) * (size_t)LST_PIECE;
    }
    bool lives(int r) const {
        pollfd p{process[(size_t)r].fd, POLLIN, 0};
        if (p.fd >= 0) return poll(&p, 1, 0) == 0; // it can be read once the process has ended
        // a system without them: a child that nobody has waited for is still there
        const pid_t pid = slot(r).pid.load();
        siginfo_t ended{};
        if (!waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) && ended.si_pid == pid) return false;
        return !kill(pid, 0) || errno == EPERM;
    }
    // However long rank 0 takes, if it lives: it may have been stopped, and go on. patient: so with the others.
    void wait(int r, uint32_t until, const lst::Stop *patient = nullptr);
    void wait_for_all(const lst::Stop *patient = nullptr) {
        for (int r = 0; r < n; r++)
            if (r != rank) wait(r, round, patient);
    }
    void begin() {
        wait_for_all();
        round++;
    }
    void given() {
        Slot &own = slot(rank);
        own.round.store(round);
        if (own.sleepers.load()) syscall(SYS_futex, &own.round, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
    }
    void meet(const lst::Stop &stop) {
        wait_for_all(&stop);
        round++;
        given();
        wait_for_all(&stop);
    }
    void gather(const void *mine, int64_t size, char *all, int64_t stride);
    void tell(void *data, int64_t size);
};

Shared::Shared(const lst_ranks_options &o)
    : rank(o.rank), n(o.n), timeout_ns((uint64_t)o.timeout_ms * MS), process((size_t)o.n) {
    size = (size_t)n * (sizeof(Slot) + 2 * (size_t)LST_PIECE);
    if (ftruncate(o.memory, (off_t)size) == 0) // each rank: the first one makes it zeros
        memory = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, o.memory, 0);
    else memory = (char *)MAP_FAILED;
    if (memory == MAP_FAILED)
        throw lst::Error(LST_E_BACKEND, std::string("ranks: cannot allocate shared memory: ") + strerror(errno));
    try {
        find(o);
    } catch (...) {
        munmap(memory, size);
        throw;
    }
}

void Shared::find(const lst_ranks_options &o) {
    slot(rank).pid.store((int32_t)getpid());
    const uint64_t end = ls_now_ns() + timeout_ns;
    for (int r = 0; r < n; r++) {
        while (!slot(r).pid.load()) {
            if (o.stop && o.stop(o.ud))
                throw lst::Error(LST_E_CANCELLED, "ranks: cancelled before all ranks had connected");
            if (ls_now_ns() > end) throw lst::Lost(r, lst::rank_name(r, n) + " did not connect in time");
            usleep(2000);
        }
        if (r != rank) process[(size_t)r].fd = (int)syscall(SYS_pidfd_open, slot(r).pid.load(), 0);
    }
}

void Shared::wait(int r, uint32_t until, const lst::Stop *patient) {
    Slot &s = slot(r);
    const auto here = [&] { return (int32_t)(s.round.load(std::memory_order_acquire) - until) >= 0; };
    if (here()) return;
    const uint64_t from = ls_now_ns();
    for (uint64_t now = from; now < from + YIELDS_NS; now = ls_now_ns()) {
        if (now > from + SPINS_NS) sched_yield();
        for (int i = 0; i < 16; i++)
            if (here()) return;
    }
    for (;;) {
        s.sleepers++;
        const uint32_t seen = s.round.load();
        if (!here()) syscall(SYS_futex, &s.round, FUTEX_WAIT, seen, &SLEEP, nullptr, 0);
        s.sleepers--;
        if (here()) return;
        if (!lives(r)) throw lst::Lost(r, "its process has ended");
        if (patient && (*patient)()) throw lst::cancelled();
        if (!patient && r && ls_now_ns() - from > timeout_ns)
            throw lst::Lost(r, "no answer within " + std::to_string(timeout_ns / (1000 * MS)) + " s");
    }
}

void Shared::gather(const void *mine, int64_t size, char *all, int64_t stride) {
    begin();
    std::memcpy(bytes(rank), mine, (size_t)size);
    given();
    for (int r = 0; r < n; r++) {
        if (r != rank) wait(r, round);
        std::memcpy(all + r * stride, bytes(r), (size_t)size);
    }
}

void Shared::tell(void *data, int64_t size) {
    begin();
    if (rank) {
        wait(0, round);
        std::memcpy(data, bytes(0), (size_t)size);
    } else std::memcpy(bytes(0), data, (size_t)size);
    given();
}

} // namespace

lst_wire lst::wire_in_memory(const lst_ranks_options &opt) {
    return wire_of(new Shared(opt));
}
