// Runs the target model with libtorch and our kernels, through liblstorch.so or, on a GPU, liblstorch_cuda.so. The
// libraries are searched at LOGITSPEC_LSTORCH and LOGITSPEC_LSTORCH_CUDA, beside the program, and in ../lib/logitspec.
#pragma once
#include "model/checkpoint.h"
#include "engine/engine.h"
#include "engine/ranks.h"

// Reads the weights; afterwards the checkpoint may be closed.
ls_code ls_engine_torch_open(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err);
// On a rank other than 0: reads its part of the weights. The engine cannot make KV caches, see lst_follow.
ls_code ls_engine_torch_part(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_ranks *ranks,
                             ls_err *err);
typedef struct {
    char version[48]; // "libtorch ..."
    char level[128];  // of the CPU's kernels
} ls_engine_torch_facts;
// Only loads the library.
ls_code ls_engine_torch_probe(ls_engine_torch_facts *out, ls_err *err);
