// Reflective verification (arXiv 2505.18629, "Think Before You Accept"): in the forward that verifies the drafts, a
// prompt has the target look at them once more, and what it says then is mixed into what it said at first. From the
// paper's abstract are the idea, the probe in the same forward and the fusion of both distributions. The program of the
// authors was not found: the weight, the prompt's text, the place of the probe and the path that it repeats are this
// program's own (decode/reflect.h). The rule is LOSSY also where the fused choice is a draft that the target alone
// would have rejected, and where it is another token than a draft that it alone would have kept.
#include "spec/accept.h"

const ls_accept_rule ls_accept_reflective = {
    .is = {.name = "reflective",
           .summary = "LOSSY: the target's choice mixed with what it says when a prompt has it repeat the drafts",
           .source = "arXiv 2505.18629",
           .number = {{"WEIGHT", 0.3, 0, 1, false}}},
    .reflects = true,
};
