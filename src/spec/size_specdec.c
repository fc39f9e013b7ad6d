// SpecDec++, arXiv 2405.19715: stop a draft when the chance of at least one rejection in it, 1 - product of p_i, passes
// a threshold. The paper's trained head is replaced by the estimates of the drafter, or by hit rates counted online.
// Its bounds for the length of a draft, 2 and 20, hold here for the likeliest path and for every path.
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
           .summary = "stops a branch when the chance of a rejection in it passes the threshold",
           .source = "arXiv 2405.19715",
           .number = {{"CHANCE", 0.7, 0, 1, false}}},
    .ask = ls_sizing_paper_rows,
    .cut = cut,
};
