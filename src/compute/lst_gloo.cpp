// Ranks that a launcher started, on any machines: libtorch's process group for CPUs. (libtorch's wheels carry the class
// of the group but not Gloo's headers, which the class's own header includes: gloo_names/ declares what it mentions.)
#include "compute/lst_torch.h"
#include "compute/lst_wire.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <dirent.h>
#include <linux/filter.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <set>
#include <thread>

namespace {

using std::chrono::milliseconds;

constexpr milliseconds AS_LONG_AS_IT_LIVES{1 << 30}; // twelve days

std::string mac_of(const lst_gloo_options &o, const std::string &text) {
    char mac[LST_MAC + 1];
    o.mac(o.secret, text.data(), text.size(), mac);
    return mac;
}

// A socket at that address only: by itself the store would listen at all addresses of the machine.
int bind_to(const std::string &host, const std::string &port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (code) throw lst::Error(LST_E_ARG, "ranks: unknown host " + host + ": " + gai_strerror(code));
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool bound = fd >= 0 && !bind(fd, found->ai_addr, found->ai_addrlen) && !listen(fd, LST_MAX_RANKS);
    const std::string why = strerror(errno);
    freeaddrinfo(found);
    if (bound) return fd;
    if (fd >= 0) close(fd);
    throw lst::Error(LST_E_ARG, "ranks: cannot listen at " + host + ":" + port + ": " + why +
                                    "; choose another MASTER_PORT, or a MASTER_ADDR of this machine");
}

// What failed, in Gloo's first sentence: its source's place stands before that, advice behind it.
std::string first_sentence(const std::exception &e) {
    const auto *of_torch = dynamic_cast<const c10::Error *>(&e);
    const std::string said = of_torch ? of_torch->what_without_backtrace() : e.what();
    const size_t place = said[0] == '[' ? said.find("] ") : std::string::npos;
    const size_t from = place == std::string::npos ? 0 : place + 2, to = said.find(". ", from);
    return said.substr(from, to == std::string::npos ? to : to - from);
}

// The sockets of this process that listen.
std::set<int> listeners() {
    std::set<int> found;
    DIR *d = opendir("/proc/self/fd");
    while (const dirent *e = d ? readdir(d) : nullptr) {
        const int fd = std::atoi(e->d_name);
        int listens = 0;
        socklen_t size = sizeof listens;
        if (*e->d_name != '.' && !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && listens)
            found.insert(fd);
    }
    if (d) closedir(d);
    return found;
}

// All ranks have come, so nobody else has business here. Gloo accepts every connection and keeps it for ever, a
// descriptor each, until none is left and the process aborts. A filter that passes nothing makes the kernel drop
// further requests; connections that are open already have sockets of their own.
void turn_away(int listener) {
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog filter{1, &nothing};
    setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

// Until then strangers may take descriptors: as many as the system allows at most.
void allow_descriptors() {
    rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == l.rlim_max) return;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
}

c10::intrusive_ptr<c10d::Store> meeting_place(const lst_gloo_options &o) {
    const std::string place = o.store;
    const size_t colon = place.rfind(':');
    if (colon == std::string::npos) throw lst::Error(LST_E_ARG, "ranks: '" + place + "' is not HOST:PORT");
    const std::string host = place.substr(0, colon), port = place.substr(colon + 1);
    c10d::TCPStoreOptions options;
    options.port = (uint16_t)std::stoi(port);
    options.timeout = milliseconds(o.timeout_ms);
    options.waitWorkers = false;
    if ((options.isServer = o.serves && o.rank == 0)) options.masterListenFd = bind_to(host, port);
    return c10::make_intrusive<c10d::TCPStore>(host, options);
}

// Values with a MAC: whoever reaches the place where the ranks meet can list what lies there and write over it.
class Sealed final : public c10d::Store {
    const c10::intrusive_ptr<c10d::Store> in;
    const lst_gloo_options secret; // of which this is used only

  public:
    Sealed(c10::intrusive_ptr<c10d::Store> store, const lst_gloo_options &o) : in(std::move(store)), secret(o) {}
    using c10d::Store::set;
    c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<Sealed>(in->clone(), secret); }
    void set(const std::string &key, const std::vector<uint8_t> &value) override {
        std::vector<uint8_t> both = value;
        const std::string mac = mac_of(secret, key + '\0' + std::string(value.begin(), value.end()));
        both.insert(both.end(), mac.begin(), mac.end());
        in->set(key, both);
    }
    std::vector<uint8_t> get(const std::string &key) override {
        std::vector<uint8_t> value = in->get(key);
        if (value.size() < LST_MAC) throw std::runtime_error("a stored address is invalid");
        const std::string mac(value.end() - LST_MAC, value.end());
        value.resize(value.size() - LST_MAC);
        if (mac != mac_of(secret, key + '\0' + std::string(value.begin(), value.end())))
            throw std::runtime_error("a process without the token of this run has changed an address");
        return value;
    }
    int64_t add(const std::string &key, int64_t value) override { return in->add(key, value); }
    bool deleteKey(const std::string &key) override { return in->deleteKey(key); }
    bool check(const std::vector<std::string> &keys) override { return in->check(keys); }
    int64_t getNumKeys() override { return in->getNumKeys(); }
    void wait(const std::vector<std::string> &keys) override { in->wait(keys); }
    void wait(const std::vector<std::string> &keys, const milliseconds &most) override { in->wait(keys, most); }
};

at::Tensor bytes_at(void *p, int64_t size) {
    return at::from_blob(p, {size}, at::kByte);
}

// What another rank sends next: its receipt is under way before it is needed, which spares the question whether it may
// be sent. A message may be shorter than its place.
struct Inbox {
    at::Tensor place[2];
    c10::intrusive_ptr<c10d::Work> work[2];
    int turn = 0;
};

// Sends and receipts, and no collective of the process group: those pass through its worker threads, which costs more
// than so short a message; and a failure here has a rank.
struct Gloo {
    const int rank, n;
    const milliseconds timeout;
    c10::intrusive_ptr<c10d::Store> store;
    int meetings = 0;
    std::vector<Inbox> from;
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group; // which ends before the places that it writes to
    int with = -1;                                    // the rank of the call that fails

    explicit Gloo(const lst_gloo_options &o);
    bool is_there(const std::string &what, int other);
    void wait_for_all(const std::string &what, const lst::Stop &stop, milliseconds within, const char *else_why);
    void find(const lst_gloo_options &o);
    void prove(const lst_gloo_options &o);
    void expect(int other, int place) {
        std::vector<at::Tensor> to{from[(size_t)other].place[place]};
        from[(size_t)other].work[place] = group->recv(to, other, 0);
    }
    c10::intrusive_ptr<c10d::Work> send(int to, const void *data, int64_t size) {
        std::vector<at::Tensor> bytes{bytes_at(const_cast<void *>(data), size)};
        return group->send(bytes, with = to, 0);
    }
    void take(int other, void *to, int64_t size, milliseconds within) {
        Inbox &in = from[(size_t)(with = other)];
        const int turn = in.turn;
        in.work[turn]->wait(within);
        std::memcpy(to, in.place[turn].const_data_ptr(), (size_t)size);
        expect(other, turn);
        in.turn = !turn;
    }
    template <class F> void lossless(F &&exchange) {
        try {
            exchange();
        } catch (const std::exception &e) {
            throw lst::Lost(with, first_sentence(e));
        }
    }
    void meet(const lst::Stop &stop);
    template <class F> void swap(F &&for_rank, int64_t size, char *all, int64_t stride);
    void gather(const void *mine, int64_t size, char *all, int64_t stride) {
        std::memcpy(all + rank * stride, mine, (size_t)size);
        swap([&](int) { return mine; }, size, all, stride);
    }
    void tell(void *data, int64_t size);
};

bool Gloo::is_there(const std::string &what, int other) {
    try {
        return store->check({what + std::to_string(other)});
    } catch (const std::exception &) {
        throw lst::Lost(0, "rank 0 ended before all ranks had connected");
    }
}

void Gloo::wait_for_all(const std::string &what, const lst::Stop &stop, milliseconds within, const char *else_why) {
    const auto until = std::chrono::steady_clock::now() + within;
    for (int other = 0; other < n; other++)
        while (!is_there(what, other)) {
            if (stop()) throw lst::Error(LST_E_CANCELLED, "ranks: cancelled before all ranks had connected");
            if (std::chrono::steady_clock::now() > until)
                throw lst::Lost(other, lst::rank_name(other, n) + " did not connect within " +
                                           std::to_string(within.count() / 1000) + " s" + else_why);
            std::this_thread::sleep_for(milliseconds(5));
        }
}

void Gloo::find(const lst_gloo_options &o) {
    try {
        store = c10::make_intrusive<Sealed>(
            c10::make_intrusive<c10d::PrefixStore>(mac_of(o, "a run of " + std::to_string(n)), meeting_place(o)), o);
        store->setTimeout(timeout);
        store->set("here/" + std::to_string(rank), std::vector<uint8_t>{1});
    } catch (const lst::Error &) {
        throw;
    } catch (const std::exception &) {
        throw lst::Error(LST_E_BACKEND, std::string("ranks: no answer at ") + o.store +
                                            ": check that rank 0 is running at MASTER_ADDR and MASTER_PORT");
    }
    wait_for_all("here/", {o.stop, o.ud}, timeout, ", or has another token");
}

// A launcher ends all ranks when one of them ends; else the limit does.
void Gloo::meet(const lst::Stop &stop) {
    const std::string what = "met/" + std::to_string(meetings++) + "/";
    try {
        store->set(what + std::to_string(rank), std::vector<uint8_t>{1});
    } catch (const std::exception &e) {
        throw lst::Lost(0, e.what());
    }
    wait_for_all(what, stop, timeout * 60, "");
}

// The addresses are those that ranks with the token stored; that it has the token, whoever answers there shows once. A
// proof is for one rank, and of numbers that every rank has drawn for it: nobody can show it to another, or again.
void Gloo::prove(const lst_gloo_options &o) {
    enum { DRAWN = 16 };
    char own[DRAWN];
    if (getentropy(own, DRAWN)) throw lst::Error(LST_E_BACKEND, "ranks: the system gives no random numbers");
    std::string all((size_t)n * DRAWN, 0);
    gather(own, DRAWN, all.data(), DRAWN);
    std::vector<std::string> proofs;
    const auto proof = [&](int from, int to) {
        return mac_of(o, "rank " + std::to_string(from) + " to " + std::to_string(to) + ": " + all);
    };
    for (int other = 0; other < n; other++) proofs.push_back(proof(rank, other));
    std::vector<char> said((size_t)n * LST_MAC);
    swap([&](int other) { return (const void *)proofs[(size_t)other].data(); }, LST_MAC, said.data(), LST_MAC);
    for (int other = 0; other < n; other++)
        if (other != rank && proof(other, rank) != std::string(said.data() + (size_t)other * LST_MAC, LST_MAC))
            throw lst::Lost(other, lst::rank_name(other, n) + " does not have the token of this run");
}

// Threads that begin meanwhile do not take a processor from a running thread when they wake up. Gloo's own thread looks
// again and again for a lock that the caller of a send holds: had it taken that one's processor, it would do so for
// milliseconds (on two processors, 60% of all time).
struct Patient {
    const int policy = sched_getscheduler(0);
    const sched_param none{};
    Patient() {
        if (policy == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH, &none);
    }
    ~Patient() {
        if (policy == SCHED_OTHER) sched_setscheduler(0, SCHED_OTHER, &none);
    }
};

Gloo::Gloo(const lst_gloo_options &o) : rank(o.rank), n(o.n), timeout(o.timeout_ms), from((size_t)o.n) {
    FLAGS_caffe2_log_level = c10::GLOG_FATAL; // every failure is the caller's to tell
    allow_descriptors();
    const std::set<int> before = listeners();
    find(o);
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->threads = 1;
    {
        Patient own_threads;
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(o.address));
        try {
            group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, n, options);
        } catch (const std::exception &e) {
            throw lst::Error(LST_E_BACKEND, "ranks: " + first_sentence(e));
        }
    }
    lossless([&] {
        for (with = 0; with < n; with++)
            for (int place = 0; place < 2 && with != rank; place++) {
                from[(size_t)with].place[place] = at::zeros({LST_PIECE}, at::kByte);
                expect(with, place);
            }
    });
    prove(o);
    for (const int fd : listeners())
        if (!before.count(fd)) turn_away(fd);
}

// Sends for_rank(r) to every other rank r, and takes as much from each. A rank that cannot be reached does not keep the
// others from what is theirs: else they would name this one, which ends without having sent it.
template <class F> void Gloo::swap(F &&for_rank, int64_t size, char *all, int64_t stride) {
    lossless([&] {
        std::vector<std::pair<int, c10::intrusive_ptr<c10d::Work>>> sent;
        std::exception_ptr failure;
        int failed = -1;
        for (int i = 1; i < n; i++) try {
                const int to = (rank + i) % n;
                sent.emplace_back(to, send(to, for_rank(to), size));
            } catch (...) {
                if (failed < 0) failed = with, failure = std::current_exception();
            }
        if (failure) {
            for (auto &[to, work] : sent) try {
                    work->wait(milliseconds(1000));
                } catch (const std::exception &) { // it is gone, too
                }
            with = failed;
            std::rethrow_exception(failure);
        }
        for (int i = 1; i < n; i++) {
            const int other = (rank + i) % n;
            take(other, all + other * stride, size, timeout);
        }
        for (auto &[to, work] : sent) {
            with = to;
            work->wait(timeout);
        }
    });
}

void Gloo::tell(void *data, int64_t size) {
    lossless([&] {
        if (rank) return take(0, data, size, AS_LONG_AS_IT_LIVES);
        std::vector<c10::intrusive_ptr<c10d::Work>> sent;
        for (int to = 1; to < n; to++) sent.push_back(send(to, data, size));
        for (int to = 1; to < n; to++) {
            with = to;
            sent[(size_t)to - 1]->wait(timeout);
        }
    });
}

} // namespace

extern "C" int lst_gloo_join(lst_wire *out, const lst_gloo_options *opt) {
    return lst::guard([&] {
        try {
            *out = lst::wire_of(new Gloo(*opt));
        } catch (const lst::Lost &e) {
            throw lst::Error(LST_E_BACKEND, e.what());
        }
    });
}
