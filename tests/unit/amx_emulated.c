// The AMX kernel over emulated tiles, so that its logic is tested on CPUs without them.
#define LSK_AMX_EMULATED "tests/unit/amx_emulation.h"
#define lsk_amx_matmul_bf16 emulated_amx_matmul_bf16
#include "torch/kernels/kernels_amx.c"
