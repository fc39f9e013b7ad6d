// gpu_runtime.h on a CUDA device: memory is libtorch's (the caching allocator of libc10_cuda), the rest CUDA's own.
#include "compute/kernels/gpu_runtime.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <torch/version.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

cudaStream_t raw(lsg_stream s) {
    return static_cast<cudaStream_t>(s);
}

// Machine code for 8.0 and 9.0 is built in, PTX for what is newer.
enum { LEAST_MAJOR = 8 };

// libtorch's calls throw; this turns its errors into codes.
template <class F> int no_throw(F &&body) {
    cudaGetLastError(); // clears an older call's error
    try {
        body();
        return cudaSuccess;
    } catch (const c10::OutOfMemoryError &) {
        return cudaErrorMemoryAllocation;
    } catch (...) {
        const cudaError_t e = cudaGetLastError();
        return e ? e : cudaErrorUnknown;
    }
}

} // namespace

extern "C" {

const char *lsg_error(int code) {
    return cudaGetErrorString(static_cast<cudaError_t>(code));
}

const char *lsg_runtime_name(void) {
    static char name[64];
    static std::once_flag once;
    std::call_once(once, [] {
        int version = CUDART_VERSION;
        cudaRuntimeGetVersion(&version);
        snprintf(name, sizeof name, "libtorch %s, CUDA %d.%d", TORCH_VERSION, version / 1000, version % 1000 / 10);
    });
    return name;
}

int32_t lsg_devices(char *why, size_t n) {
    int count = 0, driver = 0;
    if (n) *why = 0;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); // not at a kernel's first launch, which a graph may be recording
    const cudaError_t e = cudaGetDeviceCount(&count);
    cudaDriverGetVersion(&driver);
    cudaGetLastError(); // reported below
    if (!driver) snprintf(why, n, "no NVIDIA driver is loaded (libcuda.so.1)");
    else if (e == cudaErrorInsufficientDriver)
        snprintf(why, n, "the NVIDIA driver supports CUDA %d.%d, but this build needs %d.%d; install a newer driver",
                 driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else if (e) snprintf(why, n, "%s", cudaGetErrorString(e));
    else if (!count) snprintf(why, n, "the NVIDIA driver reports no GPU (CUDA_VISIBLE_DEVICES may hide it)");
    else {
        int major = 0, minor = 0;
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
        if (major >= LEAST_MAJOR) return count;
        snprintf(why, n, "the GPU has compute capability %d.%d; at least %d.0 is needed", major, minor, LEAST_MAJOR);
    }
    return 0;
}

int lsg_device_get(int32_t i, lsg_device *out) {
    *out = lsg_device{};
    cudaDeviceProp p;
    if (cudaError_t e = cudaGetDeviceProperties(&p, i)) return e;
    snprintf(out->name, sizeof out->name, "%s", p.name);
    out->major = p.major;
    out->minor = p.minor;
    for (const int arch : {LSG_ARCHS}) // code of a compute capability runs on later ones of the same major number
        out->compiled |= arch / 10 == p.major && arch % 10 <= p.minor;
    out->of.multiprocessors = p.multiProcessorCount;
    out->of.shared_kib = (int32_t)(p.sharedMemPerMultiprocessor >> 10);
    int before = 0;
    cudaGetDevice(&before);
    size_t free = 0, total = 0;
    cudaError_t e = cudaSetDevice(i);
    if (!e) e = cudaMemGetInfo(&free, &total);
    cudaSetDevice(before);
    out->free_bytes = free;
    out->total_bytes = total;
    return e;
}

int lsg_use(int32_t i) {
    static std::once_flag once;
    std::call_once(once, [] {
        int count = 0;
        if (!cudaGetDeviceCount(&count)) c10::cuda::CUDACachingAllocator::get()->init(count);
    });
    return cudaSetDevice(i);
}

// Every allocation by CUDA itself, so that compute-sanitizer sees what reads or writes beyond one: libtorch hands out
// pieces of larger blocks.
static bool plain_memory() {
    static const bool plain = getenv("LOGITSPEC_CUDA_MALLOC") != nullptr;
    return plain;
}
int lsg_alloc(void **out, size_t bytes) {
    *out = nullptr;
    if (plain_memory()) return cudaMalloc(out, bytes ? bytes : 1);
    return no_throw([&] { *out = c10::cuda::CUDACachingAllocator::raw_alloc(bytes ? bytes : 1); });
}
void lsg_free(void *p) {
    if (p && plain_memory()) cudaFree(p);
    else if (p) no_throw([&] { c10::cuda::CUDACachingAllocator::raw_delete(p); });
}
int lsg_alloc_host(void **out, size_t bytes) {
    return cudaMallocHost(out, bytes);
}
void lsg_free_host(void *p) {
    cudaFreeHost(p);
}

// A KV cache's own, outside libtorch's pool, so that captures do not meet.
int lsg_stream_new(lsg_stream *out) {
    return cudaStreamCreateWithFlags((cudaStream_t *)out, cudaStreamNonBlocking);
}
void lsg_stream_free(lsg_stream s) {
    if (!s) return;
    cudaStreamSynchronize(raw(s));
    cudaStreamDestroy(raw(s));
}
int lsg_sync(lsg_stream s) {
    return cudaStreamSynchronize(raw(s));
}
int lsg_upload(void *device, const void *host, size_t bytes, lsg_stream s) {
    return cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, raw(s));
}
int lsg_download(void *host, const void *device, size_t bytes, lsg_stream s) {
    return cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, raw(s));
}
int lsg_copy(void *to, const void *from, size_t bytes, lsg_stream s) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, raw(s));
}
int lsg_clear(void *device, size_t bytes, lsg_stream s) {
    return cudaMemsetAsync(device, 0, bytes, raw(s));
}
int lsg_on_host(void (*call)(void *ud), void *ud, lsg_stream s) {
    return cudaLaunchHostFunc(raw(s), call, ud);
}

int lsg_capture_begin(lsg_stream s) {
    return cudaStreamBeginCapture(raw(s), cudaStreamCaptureModeThreadLocal);
}
int lsg_capture_end(lsg_stream s, lsg_graph *out) {
    *out = nullptr;
    cudaGraph_t graph = nullptr;
    cudaError_t e = cudaStreamEndCapture(raw(s), &graph);
    if (!e) e = cudaGraphInstantiate((cudaGraphExec_t *)out, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    return e;
}
int lsg_graph_launch(lsg_graph g, lsg_stream s) {
    return cudaGraphLaunch(static_cast<cudaGraphExec_t>(g), raw(s));
}
void lsg_graph_free(lsg_graph g) {
    if (g) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(g));
}

int lsg_event_new(lsg_event *out) {
    return cudaEventCreate((cudaEvent_t *)out);
}
void lsg_event_free(lsg_event e) {
    if (e) cudaEventDestroy(static_cast<cudaEvent_t>(e));
}
int lsg_event_record(lsg_event e, lsg_stream s) {
    return cudaEventRecord(static_cast<cudaEvent_t>(e), raw(s));
}
int lsg_event_ms(lsg_event from, lsg_event to, float *ms) {
    return cudaEventElapsedTime(ms, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to));
}

void lsg_range_push(const char *name) {
    nvtxRangePushA(name);
}
void lsg_range_pop(void) {
    nvtxRangePop();
}
}
