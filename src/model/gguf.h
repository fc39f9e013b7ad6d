// GGUF v3 files: the header, read from memory (format: "GGUF" specification, ggml docs/gguf.md). Nothing in the file is
// trusted: after a successful parse every string, array and tensor lies inside the file, tensors do not
// overlap, sizes do not overflow, and names are unique.
#pragma once
#include "base/err.h"
#include "base/file.h"
#include "base/ggml.h"
#include "base/map.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    ls_str name;
    int type;        // ls_ggml_type
    int n_dims;      // 1..4
    uint64_t dim[4]; // dim[0] varies fastest: a [out, in] matrix has dim[0] = in; unused ones are 1
    uint64_t offset; // of its first byte in the file
    uint64_t n_bytes;
} ls_gguf_tensor;

typedef struct ls_gguf {
    ls_gguf_tensor *tensors;
    int n_tensors, n_kvs;
    struct ls_gguf_kv *kvs;         // metadata, read by the functions below
    ls_map key_index, tensor_index; // hash of the name -> index; equal hashes are refused as duplicates
    ls_buf head;                    // copy of the header, if a file was opened
} ls_gguf;

// Reads and parses the header of an open file; the caller may close the file then. Tensors are not read. Messages start
// with the path.
ls_code ls_gguf_open(ls_gguf **out, const ls_file *f, ls_err *err);
// Parses the first n of a file's n_file bytes, which must stay valid and unchanged until ls_gguf_free (for tests and
// fuzzing). *more (may be NULL): the only error is that the header continues after these n bytes.
ls_code ls_gguf_parse(ls_gguf **out, const unsigned char *p, size_t n, uint64_t n_file, bool *more, ls_err *err);
void ls_gguf_free(ls_gguf *g);

// Metadata. Each returns LS_OK, LS_E_PARSE (missing: "no metadata key ..."; or of another type).
ls_code ls_gguf_u32(const ls_gguf *g, const char *key, uint32_t *v, ls_err *err); // any integer that fits
// The same; of an array (an element for each layer) the common value. LS_E_UNSUPPORTED: the elements differ.
ls_code ls_gguf_shared_u32(const ls_gguf *g, const char *key, uint32_t *v, ls_err *err);
ls_code ls_gguf_f32(const ls_gguf *g, const char *key, float *v, ls_err *err); // f32 or f64
ls_code ls_gguf_str(const ls_gguf *g, const char *key, ls_str *v, ls_err *err);
ls_code ls_gguf_bool(const ls_gguf *g, const char *key, bool *v, ls_err *err);
bool ls_gguf_has(const ls_gguf *g, const char *key);
bool ls_gguf_is_array(const ls_gguf *g, const char *key);
// Arrays: *out is allocated (free by the caller), elements are borrowed.
ls_code ls_gguf_str_array(const ls_gguf *g, const char *key, ls_str **out, size_t *n, ls_err *err);
ls_code ls_gguf_i32_array(const ls_gguf *g, const char *key, int32_t **out, size_t *n, ls_err *err); // also of bool
ls_code ls_gguf_f32_array(const ls_gguf *g, const char *key, float **out, size_t *n, ls_err *err);   // also of i32
