// What the tests of the kernels stand on: checks, memory that ends with its test, and random numbers that begin anew
// with each test. Needs no test library, so that it builds on a bare GPU machine.
#pragma once
#include "tests/unit/random_tensor.h"
#include "compute/kernels/gpu_runtime.h"

#include <stddef.h>
#include <stdint.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

// ---- tests: each file has a list of them, which an entry without a name ends

typedef struct {
    const char *name;
    void (*run)(void);
} gpu_test;
#define TEST(name)                                                                                                     \
    { #name, name }
extern const gpu_test matmul_tests[], experts_tests[], rows_tests[], attention_tests[], head_tests[], step_tests[];

extern lsg_stream stream; // of all tests

// The device and the stream. 0 where there is no device: why says what keeps it away.
int device_open(char *why, size_t n);
void device_close(void);
// Runs it and says so, as cmocka does. Whether it failed.
int test_run(const gpu_test *t);

#define CHECK(is, ...)                                                                                                 \
    do {                                                                                                               \
        if (!(is)) check_failed(__FILE__, __LINE__, __VA_ARGS__);                                                      \
    } while (0)
__attribute__((format(printf, 3, 4))) void check_failed(const char *file, int line, const char *format, ...);

// Nothing goes on after an error of the device: what it holds is unknown.
#define MUST(call) must((call), __FILE__, __LINE__)
void must(int error, const char *file, int line);

// ---- memory: all of it begins as NaN, and ends with the test

void *fresh(size_t bytes);                            // of the host
void *room(size_t bytes);                             // of the device
void *put(const void *host, size_t bytes);            // a copy on the device
const float *put_floats(const float *host, size_t n); // NULL stays NULL
void *take(const void *device, size_t bytes);         // a copy on the host
void upload(void *device, const void *host, size_t bytes);
void download(void *host, const void *device, size_t bytes);
void release(void); // for a test with many cases

// ---- numbers

float bf16_value(uint16_t bits);
float *random_floats(size_t n, float scale, float offset); // offset - scale .. offset + scale
void random_bf16(uint16_t *v, size_t n, float scale);
int near(float got, float want, float share); // of 1 + |want|

// bf16 that came from floats which agree to their last digits: now and then they round to neighbours. Where terms
// nearly cancel each other that says nothing: `small` is what such floats may differ by.
#define CLOSE_BF16(what, got, want, n, small) close_bf16(__FILE__, __LINE__, what, got, want, n, small)
void close_bf16(const char *file, int line, const char *what, const uint16_t *got, const uint16_t *want, size_t n,
                float small);
