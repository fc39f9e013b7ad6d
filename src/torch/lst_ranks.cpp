#include "torch/lst_ranks.h"

#include <algorithm>
#include <chrono>

std::string lst::rank_name(int rank, int n) {
    return "rank " + std::to_string(rank) + " of " + std::to_string(n);
}

lst_ranks::lst_ranks(const lst_ranks_options &o) : rank(o.rank), n(o.n) {
    try {
        wire = o.store ? lst::wire_over_gloo(o) : lst::wire_in_memory(o);
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
        for (int64_t at = 0; at < size; at += lst::PIECE)
            wire->gather((const char *)mine + at, std::min<int64_t>(lst::PIECE, size - at), (char *)all + at, size);
    });
}

void lst_ranks::tell(void *data, int64_t size) {
    timed([&] {
        for (int64_t at = 0; at < size; at += lst::PIECE)
            wire->tell((char *)data + at, std::min<int64_t>(lst::PIECE, size - at));
    });
}

extern "C" {

LST_API int lst_ranks_join(lst_ranks **out, const lst_ranks_options *opt) {
    if (out) *out = nullptr;
    return lst::guard([&] {
        const lst_ranks_options *o = opt;
        if (!out || !o || o->size < sizeof *o || o->n < 2 || o->n > LST_MAX_RANKS || o->rank < 0 || o->rank >= o->n ||
            o->timeout_ms < 1 || (o->store ? !*o->store || !o->address || !o->mac : o->memory < 0))
            throw lst::Error(LST_E_ARG, "lst_ranks_join: bad arguments");
        *out = new lst_ranks(*o);
    });
}

LST_API int lst_ranks_tell(lst_ranks *r, void *bytes, int32_t n) {
    return lst::guard([&] { r->tell(bytes, n); });
}

LST_API int lst_ranks_gather(lst_ranks *r, const void *mine, int32_t n, void *all) {
    return lst::guard([&] { r->gather(mine, n, all); });
}

LST_API int lst_ranks_meet(lst_ranks *r, int (*stop)(void *ud), void *ud) {
    return lst::guard([&] { r->meet({stop, ud}); });
}

LST_API int32_t lst_ranks_lost(const lst_ranks *r) {
    return r->lost;
}

LST_API void lst_ranks_leave(lst_ranks *r) {
    delete r;
}
}
