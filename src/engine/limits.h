// Measures the processor's maximum bandwidth and arithmetic rates, see lst_limits.
#pragma once
#include "base/err.h"
#include "torch/lst.h"

// Takes about a second. threads 0: one for each core. LS_E_BACKEND: there is no compute library.
ls_code ls_limits_measure(lst_limits_t *out, int32_t threads, ls_err *err);
