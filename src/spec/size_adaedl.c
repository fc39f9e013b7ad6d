// AdaEDL, arXiv 2410.18351: stops drafting if a lower bound of the acceptance rate, 1 - sqrt(gamma H), is below a
// threshold. H is the entropy of the draft's distribution at a node: here the estimates of its children, and one
// outcome for all other tokens. The threshold follows the running acceptance: it rises while less than TARGET of the
// drafted levels is accepted, and falls while more is.
#include "spec/sizing.h"

#include <math.h>

static const double GAMMA = 0.2, TARGET = 0.9, SMOOTH_ACCEPTANCE = 0.5, SMOOTH_THRESHOLD = 0.9, STEP = 0.01;

static void cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep) {
    (void)costs, (void)context;
    double entropy[LS_MAX_ROWS];
    ls_sizing_entropy(t, entropy);
    const double threshold = z->threshold > 0 ? z->threshold : z->values[0];
    int32_t first = 0; // the most likely token after the root is always drafted, as in the paper
    for (int32_t i = 1; i < t->n; i++) {
        if (t->nodes[i].parent == 0 && (!first || path[i] > path[first])) first = i;
        keep[i] = 1 - sqrt(GAMMA * entropy[t->nodes[i].parent]) >= threshold;
    }
    keep[first] = true;
}

static void learn(ls_sizing *z, const ls_tree *t, int32_t n_path) {
    int32_t levels = 0;
    for (int32_t i = 1; i < t->n; i++) levels = t->nodes[i].depth > levels ? t->nodes[i].depth : levels;
    if (!levels) return; // nothing was drafted, so there is nothing to learn
    const double rate = (double)(n_path - 1) / levels, old = z->threshold > 0 ? z->threshold : z->values[0];
    z->acceptance = SMOOTH_ACCEPTANCE * z->acceptance + (1 - SMOOTH_ACCEPTANCE) * rate;
    const double moved = old + (z->acceptance < TARGET ? STEP : -STEP);
    z->threshold = SMOOTH_THRESHOLD * old + (1 - SMOOTH_THRESHOLD) * moved;
    if (z->threshold < STEP) z->threshold = STEP;
    if (z->threshold > 1 - STEP) z->threshold = 1 - STEP;
}

const ls_sizing_rule ls_size_adaedl = {
    .is = {.name = "adaedl",
           .summary = "stops a branch if 1 - sqrt(0.2 H) is below a threshold that follows the acceptance",
           .source = "arXiv 2410.18351",
           .number = {{"THRESHOLD", 0.6, 0, 1, false}}},
    .ask = ls_sizing_paper_rows,
    .cut = cut,
    .learn = learn,
};
