// Reflective verification (arXiv 2505.18629, "Think Before You Accept"): in the forward that verifies the drafts, a
// prompt makes the target judge them a second time, and the second distribution is mixed with the first. The idea, the
// probe in the same forward and the fusion of both distributions are from the paper's abstract. The authors' program
// was not found, so the rest is this program's own (decode/reflect.h): the weight, the prompt's text, the place of the
// probe, the path that it repeats, and that a reflection can only accept drafts. If the fused choice is not a draft,
// the target's first choice is emitted. So each emitted token is from the drafter or from the target alone.
#include "spec/accept.h"

const ls_accept_rule ls_accept_reflective = {
    .is = {.name = "reflective",
           .summary = "LOSSY: the target judges the drafts a second time, with a prompt that asks it to repeat them",
           .source = "arXiv 2505.18629",
           .number = {{"WEIGHT", 0.3, 0, 1, false}}},
    .reflects = true,
};
