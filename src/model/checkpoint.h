// The weights of a model: a GGUF file (or one file of a split one), or a Hugging Face folder with config.json and
// safetensors. Opening reads the hyper-parameters and the table of tensors and checks that names belong to the
// architecture and sizes fit the files; tensors are read one by one.
#pragma once
#include "base/file.h"
#include "base/map.h"
#include "model/gguf.h"
#include "model/hparams_read.h"

typedef struct { // zeros extend each of `groups` groups from `from` values to `to` values; no groups: nothing is
    int32_t groups, from, to;
} ls_padding;

typedef enum { LS_QUANT_NONE, LS_QUANT_OTHER, LS_QUANT_GPTQ, LS_QUANT_AWQ } ls_quant_method;

typedef struct { // of quantization_config
    ls_quant_method method;
    int32_t bits, group; // of integers; group: inputs of a scale, -1: all, 0: not stated
    int32_t block[2];    // of FP8: outputs and inputs of a scale
    bool zero_minus_one; // GPTQ's first format stores zero points minus 1
} ls_quant_config;

typedef struct ls_quantized ls_quantized;

typedef struct {
    char *name;           // in GGUF's spelling
    int type;             // ls_ggml_type
    uint64_t n_in, n_out; // values of a row, and rows; n_out 1: a vector
    int file;
    uint64_t offset, n_bytes;
    int source;           // type in the file; if it differs from type, the values are converted (model/padding.c)
    ls_padding in, out;   // padding of the file's columns and rows; n_in, n_out and n_bytes include the zeros
    const int32_t *order; // [n_in]: column k is that of input order[k]; NULL: of input k. Owned by `quantized`
    const ls_quantized *quantized; // not NULL: it is made of several tensors of the file (model/quantized.c)
} ls_tensor;

typedef struct ls_checkpoint {
    ls_hparams hparams;
    ls_tensor *tensors;
    int n_tensors;
    ls_map index;   // hash of a name -> index of the tensor
    ls_map modules; // hash of a name -> index of the quantised weight
    ls_file *files; // files with tensors
    int n_files;
    ls_gguf *gguf;            // metadata of a GGUF file, else NULL
    char *folder;             // of a Hugging Face model, else NULL
    char config_sha256[65];   // of its config.json
    ls_quant_config quant;    // of its config.json
    ls_quantized **quantized; // owned
    int n_quantized;
    struct ls_quantized_memory *quantized_memory; // NULL: there are none
    uint64_t n_bytes;                             // of all tensors
} ls_checkpoint;

// Errors begin with the file's path. Also opens a GGUF file without tensors, for its metadata: hparams are zeros then.
ls_code ls_checkpoint_open(ls_checkpoint **out, const char *path, ls_err *err);
void ls_checkpoint_close(ls_checkpoint *c); // accepts NULL
// Copies n bytes of tensor i, starting at its byte `at`, into dst.
ls_code ls_checkpoint_read(const ls_checkpoint *c, int i, uint64_t at, uint64_t n, void *dst, ls_err *err);
const ls_tensor *ls_checkpoint_find(const ls_checkpoint *c, const char *name); // NULL: there is none
void ls_checkpoint_forget(const ls_checkpoint *c); // frees what is kept of a tensor for its next read
// LS_E_IO: a file was modified after it was opened.
ls_code ls_checkpoint_unchanged(const ls_checkpoint *c, ls_err *err);
uint64_t ls_checkpoint_parameters(const ls_checkpoint *c);

// Reads a whole file of a Hugging Face folder, at most `most` bytes. out->p NULL (and LS_OK): no such file.
ls_code ls_folder_read(const char *folder, const char *name, size_t most, ls_buf *out, ls_err *err);
// Reads and parses a JSON file of that folder. *out NULL (and LS_OK): no such file. sha256 (NULL: not wanted): of it.
ls_code ls_folder_json(const char *folder, const char *name, ls_json **out, char sha256[65], ls_err *err);

// Every format that is read beside GGUF's types: what writes it, the type that is kept, and what is lost.
typedef struct {
    const char *name, *writers;
    int type; // ls_ggml_type
    const char *loss;
} ls_quant_format;
extern const ls_quant_format ls_quant_formats[]; // ends with a NULL name

// How the model's weights are quantised in the file, how they are kept, and what is lost; "": they are not.
void ls_quantized_differs(const ls_checkpoint *c, ls_buf *out);
