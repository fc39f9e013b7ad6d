// Errors of C++ code as codes and messages of the C interface.
#pragma once
#include <new>
#include <stdexcept>
#include <string>

extern "C" {
#include "compute/lst.h"
}

namespace lst {

// An error with the LST_E_ code for the caller.
struct Error : std::runtime_error {
    int code;
    Error(int c, const std::string &what) : std::runtime_error(what), code(c) {}
};

void set_error(const std::string &text);
Error cancelled();
void check_tokens(const int32_t *tokens, int32_t n, int32_t n_vocab); // LST_E_ARG: one is outside the vocabulary

// A question to the caller: true ends a wait or a forward.
struct Stop {
    bool (*ask)(void *ud) = nullptr;
    void *ud = nullptr;
    bool operator()() const { return ask && ask(ud); }
};

// Runs body so that no exception crosses the C boundary.
template <class F> int guard(F &&body) noexcept {
    try {
        body();
        return LST_OK;
    } catch (const Error &e) {
        set_error(e.what());
        return e.code;
    } catch (const std::bad_alloc &) {
        set_error("out of memory");
        return LST_E_MEMORY;
    } catch (const std::exception &e) {
        set_error(e.what());
        return LST_E_BACKEND;
    }
}

} // namespace lst
