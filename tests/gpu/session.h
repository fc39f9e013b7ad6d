// What kernels work on: random weights, and the buffers of a session, both on the host for the twins and on the device.
// All of it ends with the test.
#pragma once
#include "base/ggml.h"
#include "compute/kernels/gpu.h"

typedef struct {
    lsg_matrix host, device;
} matrix;

#define LSG_ONE_TYPE(name, ...) +1
enum { MATRIX_TYPES = LS_GGML_TYPES(LSG_ONE_TYPE) };
extern const int matrix_types[MATRIX_TYPES]; // of GGUF: all that are kept
matrix random_matrix(int type, int64_t n_out, int64_t n_in);

static const lsg_gpu H100 = {132, 228};
enum { N_PAGES = 3, CONTEXT = N_PAGES * LSG_PAGE };

typedef struct {
    lsg_buffers host, device;
    lsg_step *step; // host.step
    uint16_t *page_of[N_PAGES], *device_page[N_PAGES];
    size_t y_floats, page_values;
} session;

// sizes: n_embd ... n_layers, what is 0 has no buffers.
session session_new(int32_t rows, lsg_buffers sizes, size_t y_of_row, int32_t attention_chunks);
// To the device.
void send_step(const session *s);
void send_y(const session *s);

// A tree of n rows: one path, or any.
void random_tree(lsg_step *s, int32_t n, int chain);
// Different cache columns, of all pages.
void random_columns(int32_t *columns, int32_t n);
