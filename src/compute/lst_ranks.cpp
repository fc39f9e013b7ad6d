#include "compute/lst_ranks.h"

#include <algorithm>

lst_ranks::lst_ranks(const lst_ranks_options &o) : rank(o.rank), n(o.n) {
    try {
        wire = o.wire ? *o.wire : lst::wire_in_memory(o);
    } catch (const lst::Lost &e) {
        throw lst::Error(LST_E_BACKEND, e.what());
    }
}

template <class F> void lst_ranks::timed(F &&exchange) {
    if (lost == rank)
        throw lst::Error(LST_E_BACKEND, "the ranks are out of sync, because " + lst::rank_name(rank, n) +
                                            " failed; run the program again (on the screen, ':save FILE' keeps "
                                            "the conversation)");
    if (lost >= 0) throw lst::Error(LST_E_BACKEND, lst::rank_name(lost, n) + " is gone");
    const uint64_t from = ls_now_ns();
    lst_lost failed;
    const int code = exchange(&failed);
    if (code && failed.rank >= 0) {
        lost = failed.rank;
        throw lst::Error(LST_E_BACKEND, lst::rank_name(lost, n) + " does not answer: " + failed.why);
    }
    if (code) throw lst::Error(code, failed.why);
    us += (double)(ls_now_ns() - from) / 1e3;
}

void lst_ranks::meet(const lst::Stop &stop) {
    timed([&](lst_lost *failed) {
        const int code = wire.meet(wire.self, stop.ask, stop.ud, failed);
        if (code && failed->rank < 0) lost = rank; // cancelled: the others go on to meet
        return code;
    });
}

void lst_ranks::gather(const void *mine, int64_t size, void *all) {
    timed([&](lst_lost *failed) {
        int code = LST_OK;
        for (int64_t at = 0; at < size && !code; at += LST_PIECE)
            code = wire.gather(wire.self, (const char *)mine + at, std::min<int64_t>(LST_PIECE, size - at),
                               (char *)all + at, size, failed);
        return code;
    });
}

void lst_ranks::tell(void *data, int64_t size) {
    timed([&](lst_lost *failed) {
        int code = LST_OK;
        for (int64_t at = 0; at < size && !code; at += LST_PIECE)
            code = wire.tell(wire.self, (char *)data + at, std::min<int64_t>(LST_PIECE, size - at), failed);
        return code;
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
