// Owners of gpu_runtime.h's objects, and its errors as exceptions.
#pragma once
#include "compute/kernels/gpu_runtime.h"
#include "compute/lst_internal.h"

#include <cstring>
#include <utility>

namespace lst::device {

inline void check(int code, const char *what) {
    if (code) throw lst::Error(code == 2 ? LST_E_MEMORY : LST_E_BACKEND, std::string(what) + ": " + lsg_error(code));
}

inline std::string mib(uint64_t bytes) {
    return std::to_string(bytes >> 20) + " MiB";
}

// Memory of the device, freed with its owner.
template <class T> class Memory {
    T *p = nullptr;

  public:
    Memory() = default;
    explicit Memory(size_t n, const char *what = "a KV cache") {
        void *out;
        if (const int code = lsg_alloc(&out, n * sizeof(T)))
            throw lst::Error(code == 2 ? LST_E_MEMORY : LST_E_BACKEND,
                             "the GPU has no " + mib(n * sizeof(T)) + " left for " + what + ": " + lsg_error(code));
        p = static_cast<T *>(out);
    }
    Memory(Memory &&other) noexcept : p(std::exchange(other.p, nullptr)) {}
    Memory &operator=(Memory &&other) noexcept {
        std::swap(p, other.p);
        return *this;
    }
    ~Memory() { lsg_free(p); }
    T *get() const { return p; }
};

// Page-locked memory of the host.
template <class T> class Pinned {
    T *p = nullptr;

  public:
    explicit Pinned(size_t n = 1) {
        void *out;
        check(lsg_alloc_host(&out, n * sizeof(T)), "page-locked memory");
        p = static_cast<T *>(out);
        std::memset(out, 0, n * sizeof(T));
    }
    Pinned(const Pinned &) = delete;
    ~Pinned() { lsg_free_host(p); }
    T *operator->() const { return p; }
    T *get() const { return p; }
};

struct Stream {
    lsg_stream s = nullptr;
    Stream() { check(lsg_stream_new(&s), "a stream"); }
    Stream(const Stream &) = delete;
    ~Stream() { lsg_stream_free(s); }
};

// Two moments on a stream.
struct Stopwatch {
    lsg_event from = nullptr, to = nullptr;
    Stopwatch() {
        check(lsg_event_new(&from), "an event");
        check(lsg_event_new(&to), "an event");
    }
    Stopwatch(const Stopwatch &) = delete;
    ~Stopwatch() {
        lsg_event_free(from);
        lsg_event_free(to);
    }
};

struct Range { // in a profile
    explicit Range(const char *name) { lsg_range_push(name); }
    Range(const Range &) = delete;
    ~Range() { lsg_range_pop(); }
};

} // namespace lst::device
