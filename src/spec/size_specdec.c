// SpecDec++, arXiv 2405.19715: stop a draft when the chance of at least one rejection in it, 1 - product of p_i, passes
// a threshold. The paper's trained head is replaced by the estimates of the drafter, or by hit rates counted online.
#include "spec/sizing.h"

static void cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep) {
    (void)costs, (void)context;
    for (int32_t i = 1; i < t->n; i++) keep[i] = 1 - path[i] <= z->value;
}

const ls_sizing_rule ls_size_specdec = {
    .is = {.name = "specdec++",
           .summary = "stops a branch when the chance of a rejection in it passes the threshold",
           .source = "arXiv 2405.19715",
           .value = "CHANCE",
           .fallback = 0.7,
           .lo = 0,
           .hi = 1},
    .ask = ls_sizing_paper_rows,
    .cut = cut,
};
