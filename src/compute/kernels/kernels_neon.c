/* NEON, floats only. */
#define LEVEL lsk_neon
#define LEVEL_NAME "neon"
#include "compute/kernels/vector_neon.h"

#include "compute/kernels/kernels_impl.h"
