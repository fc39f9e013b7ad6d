// One safetensors file: its header (format: the safetensors README). Nothing in the file is trusted: after a successful
// parse every tensor lies inside the file, has the size of its shape, and overlaps no other.
#pragma once
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *name;      // owned
    int type;        // ls_ggml_type; -1: not readable
    char dtype[12];  // in the file's spelling
    int n_dims;      // 0..4
    uint64_t dim[4]; // dim[0] varies slowest, as the file has it
    uint64_t offset; // of its first byte in the file
    uint64_t n_bytes;
} ls_safetensor;

typedef struct {
    ls_safetensor *tensors;
    size_t n;
} ls_safetensors;

// text: the JSON header, the n bytes after the first eight of a file of n_file bytes. The messages of LS_E_PARSE,
// LS_E_RANGE and LS_E_UNSUPPORTED have the problem and the tensor.
ls_code ls_safetensors_parse(ls_safetensors *out, const char *text, size_t n, uint64_t n_file, ls_err *err);
void ls_safetensors_free(ls_safetensors *s);
