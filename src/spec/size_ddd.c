// Dynamic Depth Decoding, arXiv 2409.00142: the draft grows level by level while the beam is still likely to hold the
// right text. The paper drafts with EAGLE-2, whose beam is the ten likeliest rows of a level, to a depth of eleven at
// most. At some depths only, since a check costs the paper's draft model time (5, 7 and 9), it compares log(sum of
// exp(log-probability of the path)) over the beam with a threshold, and stops below it.
//
// Here a drafter proposes its whole tree at once, so the rule cuts what lies deeper than the level that fails; the
// level itself stays, as it has been drafted by then. The estimates that the tree carries stand for the draft model's
// probabilities. The threshold is that of the sum itself: a chance is easier to set than its logarithm, and compares
// alike. Its default is this program's: the paper's is tuned for its draft models. The first of the three checks can be
// moved. Beyond the beam a level keeps all its rows, since the method and the budget say how many rows there are.
#include "spec/sizing.h"

enum { BEAM = 10, DEEPEST = 11, CHECKS = 3, APART = 2 };

// The sum of the beam's chances at a depth.
static double beam_chance(const ls_tree *t, const double *path, int32_t depth) {
    double best[BEAM] = {0}, sum = 0;
    for (int32_t i = 1; i < t->n; i++) {
        if (t->nodes[i].depth != depth) continue;
        int32_t at = BEAM; // by insertion: the likeliest first
        for (; at > 0 && best[at - 1] < path[i]; at--)
            if (at < BEAM) best[at] = best[at - 1];
        if (at < BEAM) best[at] = path[i];
    }
    for (int32_t i = 0; i < BEAM; i++) sum += best[i];
    return sum;
}

static void cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep) {
    (void)costs, (void)context;
    const int32_t first = (int32_t)z->values[1];
    int32_t deepest = DEEPEST;
    for (int32_t check = CHECKS - 1; check >= 0; check--) {
        const int32_t depth = first + check * APART;
        if (depth < deepest && beam_chance(t, path, depth) < z->values[0]) deepest = depth;
    }
    for (int32_t i = 1; i < t->n; i++) keep[i] = t->nodes[i].depth <= deepest;
}

const ls_sizing_rule ls_size_ddd = {
    .is = {.name = "ddd",
           .summary = "stops at a level where the beam's ten rows together are less likely than the threshold",
           .source = "arXiv 2409.00142",
           .number = {{"CHANCE", 0.3, 0, 1, false}, {"FIRST", 5, 1, DEEPEST, true}}},
    .ask = ls_sizing_paper_rows,
    .cut = cut,
};
