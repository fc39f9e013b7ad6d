// What decides whether and when tiles are used, over emulated ones.
#include "tests/unit/amx_emulation.h"
#include "torch/kernels/kernels_amxunit.c"

struct emulated_tiles emulated;

// wrong: 0, or one of the numbers of amx_emulation.h
int emulated_amx_right(int wrong) {
    emulated.wrong = wrong;
    const int right = right_and_alive();
    emulated.wrong = 0;
    return right;
}
