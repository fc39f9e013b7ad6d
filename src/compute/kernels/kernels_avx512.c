#define LEVEL lsk_avx512
#define LEVEL_NAME "avx512"
#include "compute/kernels/vector_avx512.h"

#include "compute/kernels/kernels_impl.h"
