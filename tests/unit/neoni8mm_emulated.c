// SMMLA's kernels over emulated NEON.
#define LSK_NEON_EMULATED "tests/unit/neon_emulation.h"
#include "compute/kernels/kernels_neoni8mm.c"
