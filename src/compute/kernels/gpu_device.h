// The machine behind the kernels: tensor-core products, warps, copies, launches. The host build that emulates the
// device (tests/gpu) brings its own.
#pragma once
#include "compute/kernels/gpu.h"

#ifndef LSG_EMULATED
#include <cuda_runtime.h>

#include <map>
#include <utility>

#define LSG_DEVICE __device__ __forceinline__
#define LSG_MEMBER __device__ __forceinline__
#define LSG_SHARED(type, name)                                                                                         \
    extern __shared__ __align__(16) unsigned char name##_bytes[];                                                      \
    type *name = (type *)name##_bytes

// d += a b for 16 outputs x 8 rows x 16 inputs of bf16 (PTX mma.m16n8k16).
LSG_DEVICE void lsg_mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d = a b.
LSG_DEVICE void lsg_mma_first(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}
// Two floats as bf16, rounded to nearest even: lo in the low half.
LSG_DEVICE uint32_t lsg_bf16x2(float lo, float hi) {
    uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(hi), "f"(lo));
    return out;
}
// Pairs of bf16: a - b, exact where the difference is a bf16.
LSG_DEVICE uint32_t lsg_sub_bf16x2(uint32_t a, uint32_t b) {
    uint32_t out;
    asm("{ .reg .b32 one; mov.b32 one, 0xBF80BF80; fma.rn.bf16x2 %0, %2, one, %1; }" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
// (a & MASK) | bits in one instruction.
template <uint32_t MASK> LSG_DEVICE uint32_t lsg_and_or(uint32_t a, uint32_t bits) {
    uint32_t out;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(a), "n"(MASK), "r"(bits));
    return out;
}
LSG_DEVICE float lsg_half(uint16_t h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
// 2^x to a few units of the last place; 2^-INFINITY is 0.
LSG_DEVICE float lsg_exp2(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}
// x, of which the compiler does not know that it is x.
LSG_DEVICE int lsg_again(int x) {
    asm volatile("" : "+r"(x));
    return x;
}
// A number of the step, before the kernels ahead have ended: the copy that brought it ended before the first of them
// began, but an older value may still be in L1.
LSG_DEVICE int32_t lsg_fresh(const int32_t *p) {
    return __ldcg(p);
}
LSG_DEVICE int32_t lsg_fresh(const int16_t *p) {
    return __ldcg(p);
}
LSG_DEVICE uint16_t *lsg_fresh_pointer(uint16_t *const *p) {
    return (uint16_t *)__ldcg((const unsigned long long *)p);
}
// Loads from global memory where the compiler cannot tell what a pointer points to.
LSG_DEVICE uint32_t lsg_load4(const void *p) {
    uint32_t v;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
LSG_DEVICE uint2 lsg_load8(const void *p) {
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
// 16 bytes from global to shared memory, without registers; lsg_copies_wait<n> leaves the n newest commits under way.
LSG_DEVICE void lsg_copy16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
}
LSG_DEVICE void lsg_copies_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> LSG_DEVICE void lsg_copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
// Four 8 x 8 matrices of bf16 in shared memory, each by columns: lane 8 i + k has the address of row k of matrix i, and
// lane 4 r + c gets the elements of column r in rows 2 c and 2 c + 1 of each.
LSG_DEVICE void lsg_load_columns(uint32_t out[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
// Programmatic dependent launch: the next kernel may start now, and waits for this one's results where it says so.
LSG_DEVICE void lsg_next_may_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
LSG_DEVICE void lsg_wait_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Prefetches a line of memory into L2.
LSG_DEVICE void lsg_prefetch(const void *p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

// Prepares a kernel on the current device, once: it may take all shared memory (the limit belongs to the kernel, and
// several threads launch it). It may start before the kernel ahead has ended if the device supports that and the code
// waits for it, as code compiled for 9.0 and up does.
inline cudaError_t lsg_prepare(const void *kernel, bool *early) {
    static thread_local std::map<std::pair<const void *, int>, bool> known;
    int device = 0, most = 48 << 10, major = 0;
    cudaError_t e = cudaGetDevice(&device);
    auto at = known.find({kernel, device});
    if (!e && at == known.end()) {
        cudaFuncAttributes f{};
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
        if (!e) e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        if (!e) e = cudaFuncGetAttributes(&f, kernel);
        if (!e) e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
        if (!e) at = known.emplace(std::make_pair(kernel, device), major >= 9 && f.ptxVersion >= 90).first;
    }
    if (!e) *early = at->second;
    return e;
}

// Launches a kernel after what the stream holds: after a kernel it may start early.
template <bool AFTER_KERNEL = true, class... P, class... A>
int lsg_launch(void (*kernel)(P...), dim3 grid, int threads, size_t shared, lsg_stream stream, A... args) {
    bool early = false;
    if (cudaError_t e = lsg_prepare((const void *)kernel, &early)) return e;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c{};
    c.gridDim = grid;
    c.blockDim = dim3((unsigned)threads);
    c.dynamicSmemBytes = shared;
    c.stream = (cudaStream_t)stream;
    c.attrs = &attribute;
    c.numAttrs = AFTER_KERNEL && early ? 1 : 0;
    return cudaLaunchKernelEx(&c, kernel, P(args)...);
}
#endif

// Sum and maximum over a warp: lanes pairwise, the same order in every lane.
template <class T> LSG_DEVICE T lsg_warp_sum(T v) {
    for (int i = 16; i; i /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, i);
    return v;
}
LSG_DEVICE float lsg_warp_max(float v) {
    for (int i = 16; i; i /= 2) v = fmaxf(v, __shfl_xor_sync(0xFFFFFFFFu, v, i));
    return v;
}
// Sum over a block of at most 1024 threads; `place` is 32 floats of shared memory.
LSG_DEVICE float lsg_block_sum(float v, float *place) {
    v = lsg_warp_sum(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0) place[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++) sum += place[i];
    return sum;
}
// So many blocks take n things, each this many.
inline unsigned lsg_blocks(int64_t n, int64_t of) {
    return (unsigned)((n + of - 1) / of);
}
