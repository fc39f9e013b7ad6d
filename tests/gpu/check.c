#include "tests/gpu/check.h"
#include "compute/kernels/kernels.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OWNED = 512, MOST_SAID = 8 };

lsg_stream stream;
static const char *running;
static int wrong;                                       // failed checks of the running test
static void *on_device[MAX_OWNED], *on_host[MAX_OWNED]; // memory of the running test
static int n_device, n_host;

int device_open(char *why, size_t n) {
    if (lsg_devices(why, n) <= 0) return 0;
    running = "a_stream";
    MUST(lsg_use(0));
    MUST(lsg_stream_new(&stream));
    return 1;
}
void device_close(void) {
    lsg_stream_free(stream);
}

int test_run(const gpu_test *t) {
    running = t->name;
    wrong = 0;
    rnd_restart(); // so that a test's data is the same with and without the others
    t->run();
    release();
    if (wrong > MOST_SAID) printf("and %d more\n", wrong - MOST_SAID);
    printf("%s %s\n", wrong ? "[  FAILED  ]" : "[       OK ]", running);
    return wrong != 0;
}

void check_failed(const char *file, int line, const char *format, ...) {
    if (wrong++ >= MOST_SAID) return;
    va_list args;
    va_start(args, format);
    printf("%s:%d: ", file, line);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

void must(int error, const char *file, int line) {
    if (!error) return;
    printf("%s:%d: %s (%d)\n[  FAILED  ] %s\n", file, line, lsg_error(error), error, running);
    exit(1);
}

// ---- memory

void *fresh(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    if (!p || n_host == MAX_OWNED) abort();
    on_host[n_host++] = p;
    return memset(p, 0xFF, bytes);
}
void *put(const void *host, size_t bytes) {
    void *p;
    if (n_device == MAX_OWNED) abort();
    MUST(lsg_alloc(&p, bytes));
    on_device[n_device++] = p;
    upload(p, host, bytes);
    return p;
}
void *room(size_t bytes) {
    void *nan = malloc(bytes ? bytes : 1);
    if (!nan) abort();
    void *p = put(memset(nan, 0xFF, bytes), bytes);
    free(nan);
    return p;
}
const float *put_floats(const float *host, size_t n) {
    return host ? put(host, n * sizeof *host) : NULL;
}
void *take(const void *device, size_t bytes) {
    void *p = fresh(bytes);
    download(p, device, bytes);
    return p;
}
void upload(void *device, const void *host, size_t bytes) {
    MUST(lsg_upload(device, host, bytes, stream));
    MUST(lsg_sync(stream));
}
void download(void *host, const void *device, size_t bytes) {
    MUST(lsg_download(host, device, bytes, stream));
    MUST(lsg_sync(stream));
}
void release(void) {
    MUST(lsg_sync(stream));
    while (n_device) lsg_free(on_device[--n_device]);
    while (n_host) free(on_host[--n_host]);
}

// ---- numbers

float bf16_value(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, 4);
    return f;
}

// bf16 numbers from a to b
static int32_t ulps(uint16_t a, uint16_t b) {
    const int32_t x = a & 0x8000 ? -(a & 0x7FFF) : a, y = b & 0x8000 ? -(b & 0x7FFF) : b;
    return x > y ? x - y : y - x;
}

float *random_floats(size_t n, float scale, float offset) {
    float *v = fresh(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = scale * rnd() + offset;
    return v;
}
void random_bf16(uint16_t *v, size_t n, float scale) {
    for (size_t i = 0; i < n; i++) v[i] = ls_to_bf16(scale * rnd());
}

int near(float got, float want, float share) {
    return fabsf(got - want) <= share * (1 + fabsf(want));
}

void close_bf16(const char *file, int line, const char *what, const uint16_t *got, const uint16_t *want, size_t n,
                float small) {
    size_t other = 0;
    for (size_t i = 0; i < n; i++) {
        const float x = bf16_value(got[i]), y = bf16_value(want[i]);
        if (got[i] == want[i] || fabsf(x - y) <= small) continue;
        other++;
        if (ulps(got[i], want[i]) > 1)
            check_failed(file, line, "%s: %g instead of %g at %zu", what, (double)x, (double)y, i);
    }
    if (other * 100 > n + 100) check_failed(file, line, "%s: %zu of %zu numbers differ", what, other, n);
}
