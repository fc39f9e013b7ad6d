// Attention by AMX, over emulated tiles; it needs AVX-512 with BF16.
#define lsk_avx512bf16 emulated_avx512bf16
#include "tests/unit/amx_emulation.h"
#include "compute/kernels/kernels_avx512bf16.c"
