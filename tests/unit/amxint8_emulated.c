// The AMX kernel of integers over emulated tiles; it needs AVX-512.
#include "tests/unit/amx_emulation.h"
#include "compute/kernels/kernels_amxint8.c"
