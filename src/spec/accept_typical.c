// Typical acceptance (Medusa, arXiv 2401.10774): accepts a draft if its target probability is at least min(epsilon,
// delta exp(-H)). H is the entropy of the target's distribution there in nats; delta = 0.3.
#include "spec/accept.h"

#include <math.h>

static const double DELTA = 0.3;

static bool stands(const ls_accept *a, const ls_tree *t, int32_t i) {
    const double by_entropy = DELTA * exp(-(double)t->nodes[t->nodes[i].parent].entropy);
    return (double)t->nodes[i].p >= (a->values[0] < by_entropy ? a->values[0] : by_entropy);
}

const ls_accept_rule ls_accept_typical = {
    .is = {.name = "typical",
           .summary = "LOSSY: accepts a draft if its target probability is at least min(EPSILON, 0.3 exp(-H))",
           .source = "arXiv 2401.10774",
           .number = {{"EPSILON", 0.09, 0, 1, false}}},
    .stands = stands,
};
