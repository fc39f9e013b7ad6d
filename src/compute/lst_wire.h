// The interface of a kind of exchange between ranks, in C++.
#pragma once
#include "compute/lst_error.h"

#include <memory>

namespace lst {

// An exchange failed with this rank.
struct Lost : std::runtime_error {
    int rank;
    Lost(int r, const std::string &why) : std::runtime_error(why), rank(r) {}
};

// A value other than 0 ends a wait.
struct Stop {
    bool (*ask)(void *ud);
    void *ud;
    bool operator()() const { return ask && ask(ud); }
};

// See lst_wire. The calls throw Lost, or Error.
struct Wire {
    virtual ~Wire() = default;
    virtual void meet(const Stop &stop) = 0;
    virtual void gather(const void *mine, int64_t size, char *all, int64_t stride) = 0;
    virtual void tell(void *data, int64_t size) = 0;
};

inline std::string rank_name(int rank, int n) {
    return "rank " + std::to_string(rank) + " of " + std::to_string(n);
}

} // namespace lst
