// Where heads compute if the GPU is emulated: its memory is the host's, so libtorch's operators for CPUs compute there.
// Of lst_head.cpp everything that is for a GPU runs then. LOGITSPEC_EMULATED_FULL: no room for weights.
#include "compute/lst_operators.h"

#include <cstdlib>

at::Device lst::torch_device(const std::string &name) {
    static bool asked = false; // lst_head_device, then lst_head_open
    if (name != "cpu" && getenv("LOGITSPEC_EMULATED_FULL")) {
        if (asked) throw Error(LST_E_MEMORY, "the emulated device is full");
        asked = true;
    }
    return at::kCPU;
}
