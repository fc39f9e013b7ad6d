/* NEON, floats only. */
#define LEVEL lsk_neon
#define LEVEL_NAME "neon"
#include "torch/kernels/vector_neon.h"

#include "torch/kernels/kernels_impl.h"
