/* The device that kernels run on: memory, copies, streams, graphs, timing. One implementation over CUDA and libtorch's
 * caching allocator, one emulated on the CPU for tests. Functions return 0 or a cudaError_t, which lsg_error
 * spells out. Memory, streams, graphs and events belong to the caller. The device is chosen once a thread, by lsg_use.
 */
#pragma once
#include "compute/kernels/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *lsg_graph;
typedef void *lsg_event;

typedef struct {
    char name[256];
    int32_t major, minor; /* compute capability */
    int32_t compiled;     /* the library has its machine code; else the driver compiles it at the first start */
    lsg_gpu of;
    uint64_t free_bytes, total_bytes;
} lsg_device;

const char *lsg_error(int code);
const char *lsg_runtime_name(void); /* e.g. "libtorch 2.13.0, CUDA 13.0" */
/* Devices that CUDA sees and this library has machine code or PTX for; why: the reason if there is none, else "". */
int32_t lsg_devices(char *why, size_t n);
int lsg_device_get(int32_t i, lsg_device *out);
int lsg_use(int32_t i);

int lsg_alloc(void **out, size_t bytes);
void lsg_free(void *p);
int lsg_alloc_host(void **out, size_t bytes); /* page-locked */
void lsg_free_host(void *p);

int lsg_stream_new(lsg_stream *out);
void lsg_stream_free(lsg_stream s);
int lsg_sync(lsg_stream s);
/* In the stream's order; host memory must stay until lsg_sync. */
int lsg_upload(void *device, const void *host, size_t bytes, lsg_stream s);
int lsg_download(void *host, const void *device, size_t bytes, lsg_stream s);
int lsg_copy(void *to, const void *from, size_t bytes, lsg_stream s);
int lsg_clear(void *device, size_t bytes, lsg_stream s);
/* call(ud) on the host in the stream's order, in a thread of the driver's; it may not call any function of these. */
int lsg_on_host(void (*call)(void *ud), void *ud, lsg_stream s);

/* Between both calls the stream records a graph instead of running. */
int lsg_capture_begin(lsg_stream s);
int lsg_capture_end(lsg_stream s, lsg_graph *out);
int lsg_graph_launch(lsg_graph g, lsg_stream s);
void lsg_graph_free(lsg_graph g);

int lsg_event_new(lsg_event *out);
void lsg_event_free(lsg_event e);
int lsg_event_record(lsg_event e, lsg_stream s);
int lsg_event_ms(lsg_event from, lsg_event to, float *ms); /* both have happened */

/* Ranges in a profile (NVTX). */
void lsg_range_push(const char *name);
void lsg_range_pop(void);

#ifdef __cplusplus
}
#endif
