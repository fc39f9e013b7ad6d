// Reflective verification (arXiv 2505.18629, "Think Before You Accept"): in the forward that verifies the drafts, a
// prompt has the target look at them once more, and what it says then is mixed into what it said at first. From the
// paper's abstract are the idea, the probe in the same forward and the fusion of both distributions. The program of the
// authors was not found, so the rest is this program's own (decode/reflect.h): the weight, the prompt's text, the place
// of the probe, the path that it repeats, and that a reflection can only let a draft stand. Where the fused choice is
// no draft, the target's own is emitted: no token is written that neither the drafter nor the target alone would have.
#include "spec/accept.h"

const ls_accept_rule ls_accept_reflective = {
    .is =
        {.name = "reflective",
         .summary =
             "LOSSY: a draft that is the choice of the target mixed with what it says when asked to repeat the drafts",
         .source = "arXiv 2505.18629",
         .number = {{"WEIGHT", 0.3, 0, 1, false}}},
    .reflects = true,
};
