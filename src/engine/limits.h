// What the processor reaches at most, measured: see lst_limits.
#pragma once
#include "base/err.h"
#include "torch/lst.h"

// About a second. threads 0: one for each core. LS_E_BACKEND: there is no compute library.
ls_code ls_limits_measure(lst_limits_t *out, int32_t threads, ls_err *err);
