// FLy (arXiv 2511.22972): a mismatch stands where the target was undecided (entropy of its distribution there at least
// the threshold, in nats) and still ranks the draft among its three best, if the next six draft tokens are then all its
// own choices: had the draft been wrong, it would have been corrected soon.
#include "spec/accept.h"

enum { WINDOW = 6, BEST = 3 };

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

static bool stands(const ls_accept *a, const ls_tree *t, int32_t i) {
    const ls_node *parent = &t->nodes[t->nodes[i].parent];
    bool good = false;
    for (int k = 0; k < BEST; k++) good |= parent->top[k].id == t->nodes[i].token;
    return good && (double)parent->entropy >= a->value && agreeing_below(t, i) >= WINDOW;
}

const ls_accept_rule ls_accept_fly = {
    .is = {.name = "fly",
           .summary = "LOSSY: where the target is undecided, if it agrees with the next six drafts",
           .source = "arXiv 2511.22972",
           .value = "ENTROPY",
           .fallback = 0.3,
           .lo = 0,
           .hi = 20},
    .stands = stands,
};
