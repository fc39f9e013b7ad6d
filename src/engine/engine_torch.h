// The target model on libtorch and our kernels, through liblstorch.so or, on a GPU, liblstorch_cuda.so (found beside
// the program, in ../lib/logitspec, or at LOGITSPEC_LSTORCH and LOGITSPEC_LSTORCH_CUDA).
#pragma once
#include "model/checkpoint.h"
#include "engine/engine.h"
#include "engine/ranks.h"

// Reads the weights; the checkpoint may be closed then.
ls_code ls_engine_torch_open(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err);
// On a rank other than 0: its part. The engine is not for timelines, see lst_follow.
ls_code ls_engine_torch_part(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_ranks *ranks,
                             ls_err *err);
typedef struct {
    char version[48]; // "libtorch ..."
    char level[128];  // of the CPU's kernels
} ls_engine_torch_facts;
// Loads the library only.
ls_code ls_engine_torch_probe(ls_engine_torch_facts *out, ls_err *err);
