#define LEVEL lsk_avx512
#define LEVEL_NAME "avx512"
#include "torch/kernels/vector_avx512.h"

#include "torch/kernels/kernels_impl.h"
