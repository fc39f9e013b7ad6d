// Pads sizes that the kernels do not support: heads that are not a multiple of 16 values, and feed-forward widths that
// are not a multiple of 32. Zeros are inserted when the tensors are read. A zero weight adds an exact zero to every
// sum, so the results equal those of the stated sizes.
#pragma once
#include "model/checkpoint.h"

// Changes hparams and the table of tensors if needed. LS_E_UNSUPPORTED: the message has the reason. LS_E_PARSE: a
// tensor has another size. Scales and rotary embeddings keep the stated sizes.
ls_code ls_pad_checkpoint(ls_checkpoint *c, ls_err *err);
// Reads n bytes of a padded tensor, starting at byte `at`.
ls_code ls_pad_read(const ls_checkpoint *c, const ls_tensor *t, uint64_t at, uint64_t n, void *dst, ls_err *err);
