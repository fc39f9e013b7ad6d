// SpecDec++, arXiv 2405.19715: stops a draft when the probability of at least one rejection, 1 - product of p_i,
// exceeds a threshold. The drafter's estimates, or hit rates counted online, replace the paper's trained head. Of its
// bounds for the length of a draft, 2 applies here to the most likely path and 20 to every path.
#include "spec/sizing.h"

enum { SHORTEST = 2, LONGEST = 20 };

static void cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep) {
    (void)costs, (void)context;
    for (int32_t i = 1; i < t->n; i++) keep[i] = t->nodes[i].depth <= LONGEST && 1 - path[i] <= z->values[0];
    for (int32_t depth = 0, at = 0; depth < SHORTEST; depth++) {
        int32_t best = 0;
        for (int32_t i = at + 1; i < t->n; i++)
            if (t->nodes[i].parent == at && (!best || path[i] > path[best])) best = i;
        if (!best) break;
        keep[at = best] = true;
    }
}

const ls_sizing_rule ls_size_specdec = {
    .is = {.name = "specdec++",
           .summary = "stops a branch when the probability of a rejection in it exceeds the threshold",
           .source = "arXiv 2405.19715",
           .number = {{"CHANCE", 0.7, 0, 1, false}}},
    .ask = ls_sizing_paper_rows,
    .cut = cut,
};
