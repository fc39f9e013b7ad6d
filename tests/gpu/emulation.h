// A CUDA device on the CPU: the decoder's kernels run as they are written, a few blocks at once, each thread of a block
// a fiber. Warp operations and barriers meet as they do on the device, tensor-core products are computed as PTX defines
// them (mma.m16n8k16; the order of additions inside one is this file's), shared memory begins as NaN, and the order in
// which threads run changes from launch to launch, so that a missing barrier shows. A kernel that may start before the
// one ahead has ended does: its first and its last block run up to where they wait before that one runs at all, so that
// what reads its results too early shows; a thread that ends without waiting is an error. Forced into the kernels'
// sources by the build (-include); speed, launch limits and memory ordering between blocks are not what it shows.
#pragma once
#define LSG_EMULATED 1
#include "base/half.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <functional>

using std::min;

#define __global__ static
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define LSG_DEVICE static inline
#define LSG_MEMBER inline
#define LSG_SHARED(type, name) type *name = (type *)emulated::shared_memory()

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct uint2 {
    uint32_t x, y;
};
struct uint4 {
    uint32_t x, y, z, w;
};
struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
namespace emulated {
struct Thread {
    dim3 index;
    int warp, lane;
};
extern __thread Thread *current; // (thread_local's wrapper makes UBSan complain where there is nothing)
extern __thread dim3 block_index, block_size, grid_size;

void *shared_memory();
// Every thread of the block, or lane of the warp, arrives; the last one runs `once` before any goes on.
void block_barrier();
void warp_barrier();
uint32_t shuffle(uint32_t bits, int from);
uint32_t ballot(bool yes);
// In every other pair of launches at once, else as late as they may: when a thread waits for their commit.
void copy_later(void *shared, const void *global);
void copies_commit();
void copies_wait(unsigned newest);
void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
// Waits for the kernel ahead.
void wait_before();
// Runs a grid, or records it where the stream is capturing.
int launch(void *stream, dim3 grid, int threads, size_t shared, bool early, std::function<void()> body);
} // namespace emulated

#define threadIdx (emulated::current->index)
#define blockIdx emulated::block_index
#define blockDim emulated::block_size
#define gridDim emulated::grid_size

static inline void __syncthreads() {
    emulated::block_barrier();
}
static inline void __syncwarp() {
    emulated::warp_barrier();
}
template <class T> static inline T lsg_shuffle(T v, int from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "");
    uint32_t word[2] = {0, 0};
    memcpy(word, &v, sizeof v);
    for (unsigned i = 0; i < sizeof v / 4; i++) word[i] = emulated::shuffle(word[i], from);
    memcpy(&v, word, sizeof v);
    return v;
}
template <class T> static inline T __shfl_xor_sync(uint32_t, T v, int mask) {
    return lsg_shuffle(v, emulated::current->lane ^ mask);
}
template <class T> static inline T __shfl_sync(uint32_t, T v, int from) {
    return lsg_shuffle(v, from);
}
static inline uint32_t __ballot_sync(uint32_t, bool yes) {
    return emulated::ballot(yes);
}
static inline int __ffs(uint32_t v) {
    return __builtin_ffs((int)v);
}
template <class T> static inline T atomicAdd(T *p, T v) {
    const T old = *p;
    *p = old + v;
    return old;
}
static inline uint32_t __float_as_uint(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float __uint_as_float(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline float lsg_bf16_value(uint32_t bits) {
    return __uint_as_float(bits << 16);
}
static inline void lsg_mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    emulated::mma(d, a, b0, b1);
}
static inline void lsg_mma_first(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    for (int i = 0; i < 4; i++) d[i] = 0;
    emulated::mma(d, a, b0, b1);
}
static inline uint32_t lsg_bf16x2(float lo, float hi) {
    return ls_to_bf16(lo) | (uint32_t)ls_to_bf16(hi) << 16;
}
static inline uint32_t lsg_sub_bf16x2(uint32_t a, uint32_t b) {
    return lsg_bf16x2(lsg_bf16_value(a & 0xFFFF) - lsg_bf16_value(b & 0xFFFF),
                      lsg_bf16_value(a >> 16) - lsg_bf16_value(b >> 16));
}
template <uint32_t MASK> static inline uint32_t lsg_and_or(uint32_t a, uint32_t bits) {
    return (a & MASK) | bits;
}
static inline float lsg_half(uint16_t h) {
    return ls_of_half(h);
}
static inline float lsg_exp2(float x) {
    return exp2f(x);
}
static inline int lsg_again(int x) {
    return x;
}
static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t s) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) out |= (uint32_t)(bytes >> (s >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return out;
}
static inline int32_t lsg_fresh(const int32_t *p) {
    return *p;
}
static inline int32_t lsg_fresh(const int16_t *p) {
    return *p;
}
static inline uint16_t *lsg_fresh_pointer(uint16_t *const *p) {
    return *p;
}
static inline uint32_t lsg_load4(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint2 lsg_load8(const void *p) {
    uint2 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void lsg_copy16(void *shared, const void *global) {
    emulated::copy_later(shared, global);
}
static inline void lsg_copies_commit() {
    emulated::copies_commit();
}
template <int N> static inline void lsg_copies_wait() {
    emulated::copies_wait(N);
}
static inline void lsg_load_columns(uint32_t out[4], const void *row) {
    const int lane = emulated::current->lane, r = lane / 4, c = lane % 4;
    for (int i = 0; i < 4; i++) {
        const uint64_t first = lsg_shuffle((uint64_t)(uintptr_t)row, 8 * i + 2 * c),
                       second = lsg_shuffle((uint64_t)(uintptr_t)row, 8 * i + 2 * c + 1);
        out[i] = ((const uint16_t *)(uintptr_t)first)[r] | (uint32_t)((const uint16_t *)(uintptr_t)second)[r] << 16;
    }
}
static inline void lsg_prefetch(const void *) {}
static inline void lsg_next_may_start() {}
static inline void lsg_wait_before() {
    emulated::wait_before();
}

template <bool AFTER_KERNEL = true, class... P, class... A>
int lsg_launch(void (*kernel)(P...), dim3 grid, int threads, size_t shared, void *stream, A... args) {
    return emulated::launch(stream, grid, threads, shared, AFTER_KERNEL, [=] { kernel(P(args)...); });
}
