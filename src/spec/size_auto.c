// Maximises expected tokens per millisecond: the most likely rows, as many as pay by the measured cost of forwards.
#include "spec/sizing.h"

static int32_t ask(const ls_sizing *z, const ls_method *m) {
    (void)z, (void)m;
    return ls_cost_rows[LS_COST_SIZES - 1];
}

static void cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep) {
    (void)z;
    int32_t order[LS_MAX_ROWS];
    double best[LS_MAX_ROWS];
    ls_sizing_order(t, path, order);
    for (int32_t i = 0; i < t->n; i++) best[i] = path[order[i]];
    const int32_t n = ls_cost_choose(costs, best, t->n, context, NULL);
    for (int32_t i = n; i < t->n; i++) keep[order[i]] = false;
}

const ls_sizing_rule ls_size_auto = {
    .is = {.name = "auto",
           .summary = "the rows with the most expected tokens per millisecond, by measured costs",
           .source = "this program's own"},
    .by_cost = true,
    .ask = ask,
    .cut = cut,
};
