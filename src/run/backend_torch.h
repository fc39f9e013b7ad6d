// The target model on libtorch and our kernels, through liblstorch.so (found beside the program, in
// ../lib/logitspec, or at LOGITSPEC_LSTORCH).
#pragma once
#include "model/checkpoint.h"
#include "run/backend.h"

// Reads the weights; the checkpoint may be closed then. The same files opened again with the same settings share them.
ls_code ls_backend_torch_open(ls_backend **out, const ls_checkpoint *c, const ls_backend_options *opt, ls_err *err);
// Tokens of context that are given where none were asked for: the model's, as far as half of the memory (bytes; 0: not
// known) holds their keys and values.
int32_t ls_context_for(const ls_hparams *h, uint64_t memory);
// Loads the library only; version gets its libtorch version and CPU level. For `doctor`.
ls_code ls_backend_torch_probe(char *level, size_t n, ls_err *err);
