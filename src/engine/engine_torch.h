// Runs the target model with our kernels: on the CPU within the program, on a GPU through liblstorch_cuda.so. It and
// liblstorch.so, which trained heads and a launcher's ranks need, are searched at LOGITSPEC_LSTORCH_CUDA and
// LOGITSPEC_LSTORCH, beside the program, and in ../lib/logitspec.
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
    char level[128];    // of the CPU's kernels
    char torch[48];     // "libtorch ..."; "": it cannot be loaded, no_torch says why
    char no_torch[600]; //
} ls_engine_torch_facts;
// Only loads liblstorch.so. LS_E_USAGE: LOGITSPEC_CPU is no CPU level.
ls_code ls_engine_torch_probe(ls_engine_torch_facts *out, ls_err *err);
