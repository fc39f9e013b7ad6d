#include "spec/scores.h"

#include <math.h>

static const float PRIOR_TRIALS = 4, MEMORY = 400;

static int32_t bucket(double v, const double *below, int32_t n) {
    int32_t b = 0;
    while (b < n && v >= below[b]) b++;
    return b;
}

static int32_t min32(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t depth_of(int32_t depth) { // classes: 1, 2, 3, 4, 5-6, above
    return depth < 5 ? depth - 1 : depth < 7 ? 4 : 5;
}

static double rate(float hit, float trial, double prior) {
    return ((double)hit + (double)PRIOR_TRIALS * prior) / ((double)trial + (double)PRIOR_TRIALS);
}

static void count(float *hit, float *trial, bool right) {
    *hit += right;
    *trial += 1;
    if (*trial > MEMORY) *hit /= 2, *trial /= 2;
}

void ls_scores_fill(const ls_scores *s, ls_tree *t) {
    static const double shares[] = {0.05, 0.15, 0.35, 0.6, 0.85};
    static const double guess[5] = {0.4, 0.15, 0.08, 0.05, 0.02}; // initial rate by place among the siblings
    double sum[LS_MAX_ROWS] = {0};
    int32_t children[LS_MAX_ROWS] = {0};
    for (int32_t i = 1; i < t->n; i++) {
        ls_node *n = &t->nodes[i];
        const int32_t place = children[n->parent]++, sibling = place < 3 ? place : place < 5 ? 3 : 4;
        const bool own = !isnan(n->est_p);
        const int32_t share = own ? 1 + bucket((double)n->est_p, shares, 5) : 0;
        const int32_t kind = ((n->from * 5 + min32(n->match_n, 4)) * 7 + share) * 5 + sibling;
        const int32_t d = depth_of(n->depth);
        const double prior = own ? 0.8 * (double)n->est_p : guess[sibling];
        const double all = rate(s->hit[kind][LS_SCORE_DEPTHS], s->trial[kind][LS_SCORE_DEPTHS], prior);
        n->kind = (int16_t)kind;
        n->est_p = (float)rate(s->hit[kind][d], s->trial[kind][d], all);
        sum[n->parent] += (double)n->est_p;
    }
    for (int32_t i = 1; i < t->n; i++) { // at most one child is right, so limit the sum of the children to 1
        ls_node *n = &t->nodes[i];
        if (sum[n->parent] > 1) n->est_p /= (float)sum[n->parent];
    }
}

void ls_scores_learn(ls_scores *s, const ls_tree *t) {
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        if (n->state == LS_NODE_NOT_REACHED) continue; // not verified, because its parent was not accepted
        const bool right = n->state == LS_NODE_ACCEPTED;
        const int32_t d = depth_of(n->depth);
        count(&s->hit[n->kind][d], &s->trial[n->kind][d], right);
        count(&s->hit[n->kind][LS_SCORE_DEPTHS], &s->trial[n->kind][LS_SCORE_DEPTHS], right);
    }
}
