// C2T, arXiv 2502.13652: a classifier predicts for each row of the draft whether it will be accepted, from the joint
// probability of its path, the entropy of the draft's distribution and the depth. Rows below a threshold are not
// verified and get no children.
//
// The paper trains a two-layer network on the outputs of a draft model and builds its tree with it, level by level.
// Here the classifier is a logistic regression with five weights, which `logitspec tune --fit c2t` fits to a user's
// recordings in a second. Its probabilities are the estimates of the drafter in use, the entropy is that of the
// estimates at the row's parent, and a row's own estimate is another feature. It cuts a complete tree. The result is
// the same, because a row is cut together with its parent. The default threshold was found by that command.
//
// The weights below equal those of configs/sizings/c2t.yaml; its comment describes the fit.
#include "spec/c2t.h"
#include "spec/sizing.h"

#include <math.h>

_Static_assert((int)LS_C2T_FEATURES == (int)LS_SIZING_KNOBS, "one weight for each feature");

static double log_odds(double p) {
    const double least = 1e-6, q = p < least ? least : p > 1 - least ? 1 - least : p;
    return log(q / (1 - q));
}

void ls_c2t_features(const ls_tree *t, const double *path, double (*x)[LS_C2T_FEATURES]) {
    double entropy[LS_MAX_ROWS];
    ls_sizing_entropy(t, entropy);
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        x[i][0] = 1;
        x[i][1] = log_odds(path[i]);
        x[i][2] = log_odds((double)n->est_p);
        x[i][3] = entropy[n->parent];
        x[i][4] = n->depth;
    }
}

double ls_c2t_chance(const double *weights, const double *x) {
    double z = 0;
    for (int i = 0; i < LS_C2T_FEATURES; i++) z += weights[i] * x[i];
    return 1 / (1 + exp(-z));
}

static void cut(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep) {
    (void)costs, (void)context;
    double x[LS_MAX_ROWS][LS_C2T_FEATURES];
    ls_c2t_features(t, path, x);
    for (int32_t i = 1; i < t->n; i++) keep[i] = ls_c2t_chance(z->knobs, x[i]) >= z->values[0];
}

static const ls_knob knobs[] = {
    {"c2t.bias", LS_KNOB_NUMBER, 0.422042, -100, 100, "constant term, in log-odds"},
    {"c2t.path", LS_KNOB_NUMBER, 1.05658, -100, 100, "weight of the path's estimate, in log-odds"},
    {"c2t.estimate", LS_KNOB_NUMBER, -0.0469687, -100, 100, "weight of the row's own estimate, in log-odds"},
    {"c2t.entropy", LS_KNOB_NUMBER, -0.231759, -100, 100, "weight of the entropy of its siblings' estimates"},
    {"c2t.depth", LS_KNOB_NUMBER, 0.0795973, -100, 100, "weight of its depth"},
    {0},
};

const ls_sizing_rule ls_size_c2t = {
    .is = {.name = "c2t",
           .summary = "rows with at least that probability by a classifier of path, estimate, entropy and depth",
           .source = "arXiv 2502.13652",
           .number = {{"CHANCE", 0.2, 0, 1, false}}},
    .knobs = knobs,
    .ask = ls_sizing_paper_rows,
    .cut = cut,
};
