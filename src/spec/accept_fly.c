// FLy (arXiv 2511.22972; the authors' program, FLy.py): a mismatch stands where the target was undecided, if the drafts
// after it are its own choices: had the draft been wrong, it would have been corrected soon. Undecided: the terms of
// the entropy that its three best tokens contribute sum up to the threshold (nats) at least. The window holds the
// mismatch and the drafts after it, as in the authors' program, which does not ask how the target ranks the draft.
#include "spec/accept.h"

#include <math.h>

enum { BEST = 3 };

static int32_t agreeing_below(const ls_tree *t, int32_t row) {
    int32_t most = 0, run[LS_MAX_ROWS] = {0}; // tokens after `row` that are all the target's choices
    bool below[LS_MAX_ROWS] = {false};
    below[row] = true;
    for (int32_t i = row + 1; i < t->n; i++) {
        const int32_t parent = t->nodes[i].parent;
        below[i] = below[parent] && t->nodes[i].token == t->nodes[parent].target;
        if (below[i]) run[i] = run[parent] + 1;
        if (run[i] > most) most = run[i];
    }
    return most;
}

static double entropy_of_best(const ls_node *n) {
    double sum = 0;
    for (int k = 0; k < BEST && n->top[k].id >= 0; k++) {
        const double log_p = (double)n->top[k].logit - (double)n->lse;
        sum -= exp(log_p) * log_p;
    }
    return sum;
}

static bool stands(const ls_accept *a, const ls_tree *t, int32_t i) {
    return entropy_of_best(&t->nodes[t->nodes[i].parent]) >= a->values[0] && agreeing_below(t, i) >= a->values[1] - 1;
}

const ls_accept_rule ls_accept_fly = {
    .is = {.name = "fly",
           .summary = "LOSSY: drafts where the target is undecided, if it agrees with those that follow",
           .source = "arXiv 2511.22972",
           .number = {{"ENTROPY", 0.3, 0, 20, false}, {"WINDOW", 6, 1, 64, true}}},
    .stands = stands,
};
