// The AMX kernel of bf16 that unpacks weights, over emulated tiles; it needs AVX-512 with VBMI and BF16.
#include "tests/unit/amx_emulation.h"
#include "compute/kernels/kernels_amxpacked.c"
