// gpu_runtime.h on the emulated device. Memory begins as 0xFF bytes (NaN) and has room of its own, so that what reads
// before it writes, or beyond, shows; LOGITSPEC_EMULATED_MEMORY limits it (bytes).
#include "compute/kernels/gpu_runtime.h"

#include <stdio.h>
#include <stdlib.h>

#include <chrono>
#include <unordered_map>

#include "tests/gpu/emulated_stream.h"

using emulated::Stream;

namespace {
std::unordered_map<void *, size_t> blocks;
size_t used;

size_t limit() {
    const char *set = getenv("LOGITSPEC_EMULATED_MEMORY");
    return set ? strtoull(set, nullptr, 10) : (size_t)4 << 30;
}

template <class F> int put(lsg_stream s, F &&work) {
    Stream *stream = static_cast<Stream *>(s);
    auto in_order = [work] {
        emulated::finish();
        work();
    };
    if (stream && stream->capturing) stream->recorded.push_back(in_order);
    else in_order();
    return 0;
}
struct Graph {
    Stream *stream; // which lives longer
    std::vector<std::function<void()>> work;
};
using Event = std::chrono::steady_clock::time_point;
} // namespace

extern "C" {

const char *lsg_error(int code) {
    return code == 2 ? "out of memory" : "an error of the emulated device";
}
const char *lsg_runtime_name(void) {
    return "emulated device";
}
int32_t lsg_devices(char *why, size_t n) {
    const char *absent = getenv("LOGITSPEC_EMULATED_ABSENT");
    snprintf(why, n, "%s", absent ? absent : "");
    return absent ? 0 : 1;
}
int lsg_device_get(int32_t i, lsg_device *out) {
    if (i) return 101;
    *out = lsg_device{};
    snprintf(out->name, sizeof out->name, "emulated device");
    out->major = 9;
    out->of = {132, 228};                                  // the work is cut as for an H100
    out->compiled = !getenv("LOGITSPEC_EMULATED_FOREIGN"); // without machine code in the library
    out->total_bytes = limit();
    out->free_bytes = limit() > used ? limit() - used : 0;
    return 0;
}
int lsg_use(int32_t i) {
    return i ? 101 : 0;
}
int lsg_alloc(void **out, size_t bytes) {
    *out = nullptr;
    if (used + bytes > limit() || !(*out = malloc(bytes ? bytes : 1))) return 2;
    memset(*out, 0xFF, bytes);
    blocks[*out] = bytes;
    used += bytes;
    return 0;
}
void lsg_free(void *p) {
    if (!p) return;
    emulated::finish();
    used -= blocks.at(p);
    blocks.erase(p);
    free(p);
}
int lsg_alloc_host(void **out, size_t bytes) {
    *out = malloc(bytes);
    return *out ? 0 : 2;
}
void lsg_free_host(void *p) {
    free(p);
}
int lsg_stream_new(lsg_stream *out) {
    *out = new Stream;
    return 0;
}
void lsg_stream_free(lsg_stream s) {
    emulated::finish();
    if (s) used -= static_cast<Stream *>(s)->reserved;
    delete static_cast<Stream *>(s);
}
int lsg_sync(lsg_stream) {
    emulated::finish();
    return 0;
}
int lsg_copy(void *to, const void *from, size_t bytes, lsg_stream s) {
    return put(s, [=] { memmove(to, from, bytes); });
}
int lsg_upload(void *device, const void *host, size_t bytes, lsg_stream s) {
    return lsg_copy(device, host, bytes, s);
}
int lsg_download(void *host, const void *device, size_t bytes, lsg_stream s) {
    return lsg_copy(host, device, bytes, s);
}
int lsg_clear(void *device, size_t bytes, lsg_stream s) {
    return put(s, [=] { memset(device, 0, bytes); });
}
int lsg_on_host(void (*call)(void *ud), void *ud, lsg_stream s) {
    return put(s, [=] { call(ud); });
}
int lsg_capture_begin(lsg_stream s) {
    static_cast<Stream *>(s)->capturing = true;
    return 0;
}
int lsg_capture_end(lsg_stream s, lsg_graph *out) {
    Stream *stream = static_cast<Stream *>(s);
    stream->capturing = false;
    const size_t room = stream->reserved ? 0 : (size_t)LSG_GRAPHS * LSG_GRAPH_BYTES;
    if (used + room > limit() || stream->graphs == LSG_GRAPHS) return 2; // a session counted memory for so many
    used += room;
    stream->reserved += room;
    stream->graphs++;
    *out = new Graph{stream, std::move(stream->recorded)};
    stream->recorded.clear();
    return 0;
}
int lsg_graph_launch(lsg_graph g, lsg_stream) {
    for (auto &work : static_cast<Graph *>(g)->work) work();
    return 0;
}
void lsg_graph_free(lsg_graph g) {
    if (g) static_cast<Graph *>(g)->stream->graphs--;
    delete static_cast<Graph *>(g);
}
int lsg_event_new(lsg_event *out) {
    *out = new Event;
    return 0;
}
void lsg_event_free(lsg_event e) {
    delete static_cast<Event *>(e);
}
int lsg_event_record(lsg_event e, lsg_stream s) {
    return put(s, [=] { *static_cast<Event *>(e) = std::chrono::steady_clock::now(); });
}
int lsg_event_ms(lsg_event from, lsg_event to, float *ms) {
    *ms = std::chrono::duration<float, std::milli>(*static_cast<Event *>(to) - *static_cast<Event *>(from)).count();
    return 0;
}
void lsg_range_push(const char *) {}
void lsg_range_pop(void) {}
}
