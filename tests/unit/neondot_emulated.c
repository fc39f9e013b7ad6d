// SDOT's kernels over emulated NEON, so that their logic is tested on machines that are no Arm.
#define LSK_NEON_EMULATED "tests/unit/neon_emulation.h"
#include "compute/kernels/kernels_neondot.c"
