// What computes: the decoder on the CPU, which is part of the program, and the libraries, loaded when they are first
// needed. They are searched at LOGITSPEC_LSTORCH_CUDA and LOGITSPEC_LSTORCH, beside the program, and in
// ../lib/logitspec. Used by engine_decoder.c, trained.c, device.c, ranks.c.
#pragma once
#include "engine/engine.h"
#include "compute/lst_torch.h"

typedef enum {
    LS_DECODER_CPU,       // part of the program
    LS_DECODER_GPU,       // liblstorch_cuda.so
    LS_DECODER_REFERENCE, // liblstorch.so: libtorch's operators
} ls_decoder_kind;
// Libraries are never unloaded, because libtorch does not support it. LS_E_BACKEND: the library cannot be loaded.
ls_code ls_decoder_load(const lst_decoder **out, ls_decoder_kind kind, ls_err *err);
// liblstorch.so. what: for which it is needed ("a trained head"), for the message. LS_E_BACKEND: as above.
ls_code ls_torch_load(const lst_torch **out, const char *what, ls_err *err);
// Converts the status of a call to an ls_code, with the message of its decoder or library.
ls_code ls_call_failed(const char *message, int code, ls_err *err);

// An engine of ls_engine_open, or of the next function.
typedef struct {
    ls_engine base;
    const lst_decoder *lib;
    lst_model *model;
    struct ls_ranks *ranks; // engine/ranks.h; NULL: the model is not shared
    bool (*stop)(void *ud);
    void *stop_ud;
} ls_decoder_engine;
// On a rank other than 0: reads its part of the weights. The engine cannot make KV caches, see lst_follow.
ls_code ls_engine_open_part(ls_engine **out, const struct ls_checkpoint *c, const ls_engine_options *opt,
                            struct ls_ranks *ranks, ls_err *err);
