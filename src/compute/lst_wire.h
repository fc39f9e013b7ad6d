// A kind of exchange between ranks (lst_wire) made of a C++ class.
#pragma once
#include "compute/lst_error.h"

namespace lst {

// An exchange failed with this rank.
struct Lost : std::runtime_error {
    int rank;
    Lost(int r, const std::string &why) : std::runtime_error(why), rank(r) {}
};

inline std::string rank_name(int rank, int n) {
    return "rank " + std::to_string(rank) + " of " + std::to_string(n);
}

// Runs an exchange that throws Lost or Error; its code.
template <class F> int lost_by(lst_lost *lost, F &&exchange) noexcept {
    const auto say = [&](int rank, const char *why, int code) {
        lost->rank = rank;
        snprintf(lost->why, sizeof lost->why, "%s", why);
        return code;
    };
    try {
        exchange();
        return LST_OK;
    } catch (const Lost &e) {
        return say(e.rank, e.what(), LST_E_BACKEND);
    } catch (const Error &e) {
        return say(-1, e.what(), e.code);
    } catch (const std::exception &e) {
        return say(-1, e.what(), LST_E_BACKEND);
    }
}

// W has meet(const Stop &), gather and tell as in lst_wire. The wire owns it.
template <class W> lst_wire wire_of(W *own) {
    lst_wire out;
    out.self = own;
    out.meet = [](void *self, bool (*stop)(void *), void *ud, lst_lost *lost) {
        return lost_by(lost, [&] { static_cast<W *>(self)->meet({stop, ud}); });
    };
    out.gather = [](void *self, const void *mine, int64_t size, char *all, int64_t stride, lst_lost *lost) {
        return lost_by(lost, [&] { static_cast<W *>(self)->gather(mine, size, all, stride); });
    };
    out.tell = [](void *self, void *data, int64_t size, lst_lost *lost) {
        return lost_by(lost, [&] { static_cast<W *>(self)->tell(data, size); });
    };
    out.close = [](void *self) { delete static_cast<W *>(self); };
    return out;
}

} // namespace lst
