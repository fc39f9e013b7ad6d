// Dynamic Depth Decoding, arXiv 2409.00142: the draft grows level by level while the beam is likely to have the right
// text. The paper drafts with EAGLE-2, whose beam is the ten most likely rows of a level, to a depth of at most eleven.
// A check costs the paper's draft model time, so it is made only at the depths 5, 7 and 9: it compares log(sum of
// exp(log-probability of the path)) over the beam with a threshold, and stops below it.
//
// Here a drafter proposes its complete tree at once, so the rule cuts the rows deeper than the failing level; the level
// itself is kept, because it has been drafted by then. The tree's estimates replace the draft model's probabilities.
// The threshold is for the sum itself, because a probability is easier to set than its logarithm. The default is this
// program's; the paper's is tuned for its draft models. The first of the three checks can be moved. A level keeps also
// the rows outside the beam, because the method and the budget determine the number of rows.
#include "spec/sizing.h"

enum { BEAM = 10, DEEPEST = 11, CHECKS = 3, APART = 2 };

// The sum of the beam's path probabilities at a depth.
static double beam_chance(const ls_tree *t, const double *path, int32_t depth) {
    double best[BEAM] = {0}, sum = 0;
    for (int32_t i = 1; i < t->n; i++) {
        if (t->nodes[i].depth != depth) continue;
        int32_t at = BEAM; // insertion sort, the most likely first
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
