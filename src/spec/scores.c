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

static int32_t depth_of(int32_t depth) { // 1, 2, 3, 4, 5-6, beyond
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
    static const double guess[5] = {0.4, 0.15, 0.08, 0.05, 0.02}; // by place among the siblings
    double sum[LS_TREE_MAX] = {0};
    int32_t children[LS_TREE_MAX] = {0};
    for (int32_t i = 1; i < t->n; i++) {
        const int32_t place = children[t->parent[i]]++, sibling = place < 3 ? place : place < 5 ? 3 : 4;
        const bool own = !isnan(t->est[i]);
        const int32_t share = own ? 1 + bucket((double)t->est[i], shares, 5) : 0;
        const int32_t kind = ((t->from[i] * 5 + min32(t->match_n[i], 4)) * 7 + share) * 5 + sibling;
        const int32_t d = depth_of(t->depth[i]);
        const double prior = own ? 0.8 * (double)t->est[i] : guess[sibling];
        const double all = rate(s->hit[kind][LS_SCORE_DEPTHS], s->trial[kind][LS_SCORE_DEPTHS], prior);
        t->kind[i] = (int16_t)kind;
        t->est[i] = (float)rate(s->hit[kind][d], s->trial[kind][d], all);
        sum[t->parent[i]] += (double)t->est[i];
    }
    for (int32_t i = 1; i < t->n; i++) // one child at most is right
        if (sum[t->parent[i]] > 1) t->est[i] /= (float)sum[t->parent[i]];
}

void ls_scores_learn(ls_scores *s, const ls_tree *t, const int32_t *path, int32_t n_path) {
    bool accepted[LS_TREE_MAX] = {0};
    for (int32_t i = 0; i < n_path; i++) accepted[path[i]] = true;
    for (int32_t i = 1; i < t->n; i++) {
        if (!accepted[t->parent[i]]) continue; // it was not put to the test
        const int32_t d = depth_of(t->depth[i]);
        count(&s->hit[t->kind[i]][d], &s->trial[t->kind[i]][d], accepted[i]);
        count(&s->hit[t->kind[i]][LS_SCORE_DEPTHS], &s->trial[t->kind[i]][LS_SCORE_DEPTHS], accepted[i]);
    }
}
