// Shared by the files that fill and read the table of tensors (checkpoint.c: GGUF; checkpoint_folder.c: safetensors;
// padding.c).
#pragma once
#include "model/checkpoint.h"

// One safetensors file: its header (format: the safetensors README). Nothing in the file is trusted: after a successful
// parse every tensor lies inside the file, has the size of its shape, and overlaps no other.
typedef struct {
    char *name;      // owned
    int type;        // ls_ggml_type; -1: not readable
    char dtype[12];  // in the file's spelling
    int n_dims;      // 0..5
    uint64_t dim[5]; // dim[0] varies slowest, as the file has it
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

ls_code ls_checkpoint_of_folder(ls_checkpoint *c, const char *folder, ls_err *err);

// Calls `on` for each tensor of a folder's safetensors; its file is the last of c->files. Reads the file `single`; if
// there is none, the files of model.safetensors.index.json (as transformers does). LS_E_IO: neither exists.
typedef ls_code (*ls_on_safetensor)(ls_checkpoint *c, void *ud, const ls_safetensor *t, ls_err *err);
ls_code ls_checkpoint_safetensors(ls_checkpoint *c, const char *folder, const char *single, ls_on_safetensor on,
                                  void *ud, ls_err *err);

ls_code ls_checkpoint_add_file(ls_checkpoint *c, const char *path, ls_err *err); // opens it as the last of c->files
void ls_checkpoint_add(ls_checkpoint *c, ls_tensor t);                           // takes its name

// Whether this program reads a tensor with that GGUF name in a model of that architecture.
bool ls_tensor_known(const ls_arch *arch, const char *name, int n_layers);
// Converts a name of a folder's tensor to GGUF's in out ("": an unused tensor, such as a buffer); false: not known.
bool ls_tensor_of_folder(const ls_arch *arch, const char *hf, char *out, size_t size);
// The i-th norm of every layer ("attn_norm"); NULL: no more.
const char *ls_arch_norm(const ls_arch *arch, int i);

// Pads sizes that the kernels do not support: heads that are not a multiple of 16 values, and feed-forward widths that
// are not a multiple of 32. Zeros are inserted when the tensors are read. A zero weight adds an exact zero to every
// sum, so the results equal those of the stated sizes.
//
// Changes hparams and the table of tensors if needed. LS_E_UNSUPPORTED: the message has the reason. LS_E_PARSE: a
// tensor has another size. Scales and rotary embeddings keep the stated sizes.
ls_code ls_pad_checkpoint(ls_checkpoint *c, ls_err *err);
// Reads n bytes of a padded tensor, starting at byte `at`.
ls_code ls_pad_read(const ls_checkpoint *c, const ls_tensor *t, uint64_t at, uint64_t n, void *dst, ls_err *err);

float ls_half(const unsigned char *p); // an f16
// The first value of a tensor of floats.
ls_code ls_checkpoint_number(const ls_checkpoint *c, int i, float *out, ls_err *err);
