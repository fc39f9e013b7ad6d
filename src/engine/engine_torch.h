// The target model on libtorch and our kernels, through liblstorch.so or, on a GPU, liblstorch_cuda.so (found beside
// the program, in ../lib/logitspec, or at LOGITSPEC_LSTORCH and LOGITSPEC_LSTORCH_CUDA).
#pragma once
#include "model/checkpoint.h"
#include "engine/engine.h"

// Reads the weights; the checkpoint may be closed then.
ls_code ls_engine_torch_open(ls_engine **out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err);
// Loads the library only; version gets its libtorch version and CPU level. For `doctor`.
ls_code ls_engine_torch_probe(char *level, size_t n, ls_err *err);
