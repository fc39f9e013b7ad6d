// The AMX kernel of bf16 over emulated tiles, so that its logic is tested on CPUs without them.
#include "tests/unit/amx_emulation.h"
#include "compute/kernels/kernels_amxbf16.c"
