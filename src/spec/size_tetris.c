// TETRIS, arXiv 2502.15197, for one request: of all rows that the drafter can propose, the N with the largest
// cumulative products of acceptance.
#include "spec/sizing.h"

static int32_t ask(const ls_sizing *z, const ls_method *m) {
    (void)z, (void)m;
    return LS_MAX_ROWS;
}

static void cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep) {
    (void)costs, (void)context;
    int32_t order[LS_MAX_ROWS];
    ls_sizing_order(t, path, order);
    for (int32_t i = (int32_t)z->values[0]; i < t->n; i++) keep[order[i]] = false;
}

const ls_sizing_rule ls_size_tetris = {
    .is = {.name = "tetris",
           .summary = "the rows with the largest cumulative products, of all that the drafter can propose",
           .source = "arXiv 2502.15197",
           .number = {{"ROWS", 16, 1, LS_MAX_ROWS, true}}},
    .picks = true,
    .ask = ask,
    .cut = cut,
};
