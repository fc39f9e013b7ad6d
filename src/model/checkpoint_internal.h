// Shared by the files that fill and read the table of tensors (checkpoint.c: GGUF; checkpoint_folder.c: safetensors;
// padding.c).
#pragma once
#include "base/half.h"
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
ls_code ls_checkpoint_add(ls_checkpoint *c, ls_tensor t, ls_err *err); // takes its name. LS_E_PARSE: it occurs twice

// Whether this program reads a tensor with that GGUF name in a model of that architecture.
bool ls_tensor_known(const ls_arch *arch, const char *name, int n_layers);
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

static inline float ls_half(const unsigned char *p) { // an f16
    return ls_of_half((uint16_t)(p[0] | p[1] << 8));
}
uint64_t ls_row_bytes(int type, uint64_t n); // of n values, whole blocks of the type
// Divides n rotary frequencies by the factors in a tensor.
ls_code ls_rope_divide(const ls_checkpoint *c, const ls_tensor *t, int32_t n, const float *plain, float *out,
                       ls_err *err);

static inline const char *ls_behind(const char *name, const char *prefix) { // NULL: name does not begin with prefix
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) ? NULL : name + n;
}

// ---- quantised weights of a folder's safetensors, as their libraries write them (quantized*.c). A weight is several
// tensors there: packed numbers, scales, perhaps zero points and the groups of the inputs. It becomes one tensor of a
// GGUF type whose blocks have the same integers and scales; where no type does, it is rounded to bf16.

// Reads quantization_config of a config.json. LS_E_UNSUPPORTED: the message has the method or format and what to do.
ls_code ls_quant_config_read(ls_quant_config *out, const ls_json *config, ls_err *err);

typedef enum {
    LS_PART_WEIGHT,
    LS_PART_SCALE,
    LS_PART_ZERO,
    LS_PART_ORDER,
    LS_PART_GLOBAL,
    LS_PART_SHAPE,
    LS_PARTS
} ls_part;

typedef enum {
    LS_FP8,          // E4M3 by rows
    LS_INT8,         // signed bytes by rows
    LS_GPTQ,         // words of integers along the inputs: [n_in * bits / 32, n_out]
    LS_AWQ,          // words of 8 integers along the outputs: [n_in, n_out / 8]
    LS_PACKED,       // words of integers by rows (compressed-tensors)
    LS_NVFP4,        // E2M1 by rows, two a byte, with scales of E4M3 for 16 inputs and one f32
    LS_MXFP4,        // E2M1 by rows, with powers of two for 32 inputs
    LS_NVFP4_BLOCKS, // GGUF's blocks, perhaps with an f32 for the matrix or for each expert's
    LS_STRIDED,      // floats that are not quantised, of experts whose matrices lie in one tensor (experts.c)
} ls_quantization;

typedef struct {
    const char *ending; // NULL: the part is not in the file
    char dtype[12];
    int file, n_dims;
    uint64_t dim[2], offset, n_bytes;
} ls_quantized_tensor;

struct ls_quantized {
    char *module; // name in the file, without the parts' endings
    char *name;   // in GGUF's spelling
    ls_quantized_tensor part[LS_PARTS];
    ls_quantization kind;
    int type, bits;         // type: ls_ggml_type; bits of an integer
    uint64_t n_in, n_out;   // of the weight
    uint64_t groups, group; // scales of a row, and inputs of each (of FP8's last one fewer)
    uint64_t scale_rows;    // outputs that share a scale
    bool ordered;           // LS_PART_ORDER has the group of each input
    int32_t *order; // [n_in], owned: its inputs group by group, in which order the columns are read; NULL: as they are
    bool divides;   // the one f32 divides
    bool zero_minus_one; // zero points are stored minus 1
    // Of experts, else 1: the parts are those of so many experts, one behind the other, and are read by expert.
    uint64_t experts;
    // Row r is row r * step + start of the parts. LS_STRIDED: value k of the expert's row r is value r * step + k *
    // column + start of the expert's part.
    uint64_t start, step, column;
};

// The weight with that GGUF name, new if there is none. hf: the n characters that name it in messages.
ls_quantized *ls_quantized_module(ls_checkpoint *c, const char *name, const char *hf, size_t n);
// Makes the tensor a part of a weight; rows and columns: its shape as a matrix. LS_E_PARSE: the weight has that part.
ls_code ls_quantized_part(const ls_checkpoint *c, ls_quantized *q, ls_part part, const char *ending,
                          const ls_safetensor *t, uint64_t rows, uint64_t columns, ls_err *err);
// Takes the tensors of gpt-oss that hold a matrix or a bias of all experts of a layer (experts.c); *taken: it is one.
ls_code ls_experts_take(ls_checkpoint *c, const ls_safetensor *t, bool *taken, ls_err *err);
#define LS_INSTEAD "use the unquantised model or a GGUF file of it"
// Takes a tensor that is a part of a quantised weight, or that no forward here needs; *taken: it is one.
ls_code ls_quantized_take(ls_checkpoint *c, const ls_safetensor *t, bool *taken, ls_err *err);
// The same of a GGUF file: a weight of NVFP4, or what scales it.
bool ls_quantized_take_gguf(ls_checkpoint *c, const ls_gguf_tensor *t);
// After all files: checks the parts' shapes and adds a tensor for each weight. Reads zero points and orders, which
// choose the type.
ls_code ls_quantized_complete(ls_checkpoint *c, ls_err *err);
// Reads n bytes of such a tensor, starting at byte `at`.
ls_code ls_quantized_read(const ls_checkpoint *c, const ls_tensor *t, uint64_t at, uint64_t n, void *dst, ls_err *err);
// The zero point of a group and an output, as integers of the file (which may be those of the first format + 1).
int ls_quantized_zero(const ls_quantized *q, const unsigned char *zeros, uint64_t group, uint64_t row);
void ls_quantized_free(ls_checkpoint *c);
// The bytes that are kept of the tensor that was read last.
struct ls_quantized_memory *ls_quantized_memory_new(void);
void ls_quantized_memory_free(struct ls_quantized_memory *m); // accepts NULL

// Whether the tensor with this GGUF name is of a layer that predicts further tokens; then it is counted as skipped.
bool ls_checkpoint_skips(ls_checkpoint *c, const char *name);
// Converts a Hugging Face tensor name to GGUF's name in out ("": an unused tensor, such as a buffer); false: not known.
bool ls_tensor_name(const ls_arch *arch, const char *hf, char *out, size_t size);

// ---- what a model of an unknown architecture has in common with the known ones, for the message that refuses it
// (nearest.c)

typedef struct { // names of tensors, each number in them replaced by 0, once each; zeros: none
    char **names;
    int n;
} ls_tensor_kinds;

void ls_tensor_kinds_add(ls_tensor_kinds *k, ls_str name);
void ls_tensor_kinds_free(ls_tensor_kinds *k);
// Completes err's message, which says that the architecture `name` is not supported: the nearest known one,
// the kinds of tensors that differ, and what to do. hf: names are those of a folder, otherwise of a GGUF file.
void ls_nearest_say(const ls_tensor_kinds *k, ls_str name, bool hf, ls_err *err);
