// The tensor types of GGUF files: ggml's numbers and block layouts (ggml.h and ggml-common.h of llama.cpp).
#pragma once

// Every type that this program reads: name, number, values of a block, bytes of a block, offset and count of the
// block's f16 numbers (a scale, then in some types a minimum), bytes in memory of 32 values for the CPU kernels in f32
// arithmetic, and of 256 values in integer arithmetic. NVFP4's block begins with the f32 that scales the whole matrix,
// which files have once, and memory once a row; a GGUF block is the LS_GGML_NVFP4_FILE bytes after it.
#define LS_GGML_TYPES(X)                                                                                               \
    X(F32, 0, 1, 4, 0, 0, 128, 1024)                                                                                   \
    X(F16, 1, 1, 2, 0, 1, 64, 512)                                                                                     \
    X(Q4_0, 2, 32, 18, 0, 1, 20, 160)                                                                                  \
    X(Q4_1, 3, 32, 20, 0, 2, 20, 160)                                                                                  \
    X(Q5_0, 6, 32, 22, 0, 1, 48, 192)                                                                                  \
    X(Q5_1, 7, 32, 24, 0, 2, 48, 192)                                                                                  \
    X(Q8_0, 8, 32, 34, 0, 1, 34, 272)                                                                                  \
    X(Q2_K, 10, 256, 84, 80, 2, 48, 84)                                                                                \
    X(Q3_K, 11, 256, 110, 108, 1, 48, 116)                                                                             \
    X(Q4_K, 12, 256, 144, 0, 2, 24, 148)                                                                               \
    X(Q5_K, 13, 256, 176, 0, 2, 48, 180)                                                                               \
    X(Q6_K, 14, 256, 210, 208, 1, 48, 212)                                                                             \
    X(IQ4_NL, 20, 32, 18, 0, 1, 48, 144)                                                                               \
    X(IQ4_XS, 23, 256, 136, 0, 1, 48, 138)                                                                             \
    X(BF16, 30, 1, 2, 0, 0, 64, 512)                                                                                   \
    X(MXFP4, 39, 32, 17, 0, 0, 48, 136)                                                                                \
    X(NVFP4, 40, 64, 40, 0, 0, 48, 144)

typedef enum {
#define LS_GGML_CONSTANT(name, number, ...) LS_GGML_##name = number,
    LS_GGML_TYPES(LS_GGML_CONSTANT) LS_GGML_END // larger than all numbers
#undef LS_GGML_CONSTANT
} ls_ggml_type;

enum { LS_GGML_NVFP4_FILE = 36 };
enum { LS_GGML_I64 = 27 }; // of EAGLE-3 heads; no matrix has it

typedef struct {
    const char *name;
    int values, bytes, halves_at, n_halves, kept, kept_integers; // the columns above
} ls_ggml_layout;

const ls_ggml_layout *ls_ggml_layout_of(int type); // NULL: this program does not read the type
const char *ls_ggml_type_name(int type);           // of any type

// Types of a matrix in memory: the name in options, and the type.
#define LS_GGML_KEPT(X)                                                                                                \
    X("auto", -1)                                                                                                      \
    X("f32", LS_GGML_F32) X("f16", LS_GGML_F16) X("bf16", LS_GGML_BF16) X("q8", LS_GGML_Q8_0) X("q4", LS_GGML_Q4_1)
int ls_ggml_kept(const char *name); // -1: as in the file; -2: unknown name
