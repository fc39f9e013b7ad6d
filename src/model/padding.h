// Sizes that the kernels do not compute: heads that are no multiple of 16 values, a feed-forward part of no multiple of
// 32. Their tensors are read with zeros put between: a weight of zero adds exact zeros to every sum, so that results
// are those of the stated sizes.
#pragma once
#include "model/checkpoint.h"

// Changes hparams and the table of tensors where that is needed. LS_E_UNSUPPORTED with the reason, LS_E_PARSE for a
// tensor of another size. Scales and rotary embeddings keep the stated sizes.
ls_code ls_pad_checkpoint(ls_checkpoint *c, ls_err *err);
// n bytes of a padded tensor from byte `at` on.
ls_code ls_pad_read(const ls_checkpoint *c, const ls_tensor *t, uint64_t at, uint64_t n, void *dst, ls_err *err);
