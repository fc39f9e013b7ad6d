#include "compute/lst_ranks.h"

#include <algorithm>
#include <chrono>

namespace {

// The wire of a library.
struct Given final : lst::Wire {
    const lst_wire of;
    explicit Given(const lst_wire &wire) : of(wire) {}
    ~Given() override { of.close(of.self); }
    static void must(int code, const lst_lost &lost) {
        if (code && lost.rank >= 0) throw lst::Lost(lost.rank, lost.why);
        if (code) throw lst::Error(code, lost.why);
    }
    void meet(const lst::Stop &stop) override {
        lst_lost lost;
        must(of.meet(of.self, stop.ask, stop.ud, &lost), lost);
    }
    void gather(const void *mine, int64_t size, char *all, int64_t stride) override {
        lst_lost lost;
        must(of.gather(of.self, mine, size, all, stride, &lost), lost);
    }
    void tell(void *data, int64_t size) override {
        lst_lost lost;
        must(of.tell(of.self, data, size, &lost), lost);
    }
};

} // namespace

lst_ranks::lst_ranks(const lst_ranks_options &o) : rank(o.rank), n(o.n) {
    try {
        if (o.wire) wire = std::make_unique<Given>(*o.wire);
        else wire = lst::wire_in_memory(o);
    } catch (const lst::Lost &e) {
        throw lst::Error(LST_E_BACKEND, e.what());
    }
}

template <class F> void lst_ranks::timed(F &&exchange) {
    using clock = std::chrono::steady_clock;
    if (lost == rank)
        throw lst::Error(LST_E_BACKEND, "the ranks are out of sync, because " + lst::rank_name(rank, n) +
                                            " failed; run the program again (on the screen, ':save FILE' keeps "
                                            "the conversation)");
    if (lost >= 0) throw lst::Error(LST_E_BACKEND, lst::rank_name(lost, n) + " is gone");
    const clock::time_point from = clock::now();
    try {
        exchange();
    } catch (const lst::Lost &e) {
        lost = e.rank;
        throw lst::Error(LST_E_BACKEND, lst::rank_name(lost, n) + " does not answer: " + e.what());
    }
    us += std::chrono::duration<double, std::micro>(clock::now() - from).count();
}

void lst_ranks::meet(const lst::Stop &stop) {
    timed([&] {
        try {
            wire->meet(stop);
        } catch (const lst::Error &) { // cancelled: the others go on to meet
            lost = rank;
            throw;
        }
    });
}

void lst_ranks::gather(const void *mine, int64_t size, void *all) {
    timed([&] {
        for (int64_t at = 0; at < size; at += LST_PIECE)
            wire->gather((const char *)mine + at, std::min<int64_t>(LST_PIECE, size - at), (char *)all + at, size);
    });
}

void lst_ranks::tell(void *data, int64_t size) {
    timed([&] {
        for (int64_t at = 0; at < size; at += LST_PIECE)
            wire->tell((char *)data + at, std::min<int64_t>(LST_PIECE, size - at));
    });
}

extern "C" {

int lst_ranks_join(lst_ranks **out, const lst_ranks_options *opt) {
    *out = nullptr;
    return lst::guard([&] {
        if (opt->n < 2 || opt->n > LST_MAX_RANKS || opt->rank < 0 || opt->rank >= opt->n || opt->timeout_ms < 1)
            throw lst::Error(LST_E_ARG, "lst_ranks_join: bad arguments");
        *out = new lst_ranks(*opt);
    });
}

int lst_ranks_tell(lst_ranks *r, void *bytes, int32_t n) {
    return lst::guard([&] { r->tell(bytes, n); });
}

int lst_ranks_gather(lst_ranks *r, const void *mine, int32_t n, void *all) {
    return lst::guard([&] { r->gather(mine, n, all); });
}

int lst_ranks_barrier(lst_ranks *r, bool (*stop)(void *ud), void *ud) {
    return lst::guard([&] { r->meet({stop, ud}); });
}

int32_t lst_ranks_lost(const lst_ranks *r) {
    return r->lost;
}

void lst_ranks_leave(lst_ranks *r) {
    delete r;
}
}
