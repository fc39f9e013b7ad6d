// FLy (arXiv 2511.22972; the authors' program, FLy.py): accepts a mismatch if the target was undecided and the drafts
// after it are the target's choices, because the target would soon have corrected a wrong draft. Undecided: the entropy
// terms of the target's three best tokens sum to at least the threshold (nats). The window has the mismatch and the
// drafts after it. As in the authors' program, the target's rank of the draft does not matter.
#include "spec/accept.h"

#include <math.h>

enum { BEST = 3 };

static int32_t agreeing_below(const ls_tree *t, int32_t row) {
    int32_t most = 0, run[LS_MAX_ROWS] = {0}; // number of consecutive target's choices after each row
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
           .summary = "LOSSY: accepts a draft if the target is undecided there and agrees with the next drafts",
           .source = "arXiv 2511.22972",
           .number = {{"ENTROPY", 0.3, 0, 20, false}, {"WINDOW", 6, 1, 64, true}}},
    .stands = stands,
};
