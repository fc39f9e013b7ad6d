// What decides whether and when tiles are used, over emulated ones.
#include "tests/unit/amx_emulation.h"
#include "compute/kernels/kernels_amxunit.c"

struct emulated_tiles emulated;

// Whether the checks pass. wrong, in: of amx_emulation.h.
int emulated_amx_right(int wrong, int in) {
    emulated.wrong = (__typeof__(emulated.wrong))wrong;
    emulated.wrong_in = in;
    emulated.configurations = 0;
    const int right = right_and_alive();
    emulated.wrong = EMULATED_RIGHT;
    return right;
}

void emulated_amx_from(int32_t rows) {
    from_rows = rows;
}
