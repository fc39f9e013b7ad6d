#include "report/lab.h"

#include <math.h>

void ls_lab_count_distances(ls_lab_distances *d, const ls_lab_position *output, size_t n) {
    for (int k = 0; k < LS_LAB_DISTANCES; k++)
        for (size_t i = 0; i + (size_t)k + 1 < n; i++) {
            const int32_t later = output[i + (size_t)k + 1].token;
            int rank = 0;
            if (!output[i].n_top) continue;
            while (rank < output[i].n_top && output[i].top[rank] != later) rank++;
            d->of[k]++;
            d->rank[k][rank < output[i].n_top ? rank : LS_MAX_TOP]++;
        }
}

void ls_lab_count_matches(ls_lab_matches *m, const ls_step *s) {
    if (!s->forward || !ls_step_described(s)) return;
    const int emitted = ls_step_accepted(s); // the path may continue after the end of the turn
    uint64_t accepted[LS_MAX_ROWS] = {0};
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        if (n->state == LS_NODE_ACCEPTED && n->depth <= emitted) accepted[n->branch]++;
    }
    for (int b = 0; b < s->tree.n_branches; b++) {
        const ls_branch *branch = &s->tree.branches[b];
        if (branch->match_n >= LS_LAB_MATCHES) continue;
        ls_lab_match *to = &(branch->rank < 0 ? m->root : m->guess)[branch->match_n];
        to->branches++;
        to->helped += accepted[b] > 0;
        to->accepted += accepted[b];
    }
}

int ls_lab_hit_child(int parent) {
    const int first = (parent + 1) * LS_LAB_PLACES;
    return first < LS_LAB_HIT_NODES ? first : -1;
}

// Whether row a comes before its sibling b.
static bool likelier(const ls_step *s, int a, int b) {
    const float x = s->tree.nodes[a].est_p, y = s->tree.nodes[b].est_p;
    if (isnan(x) || isnan(y) || x == y) return a < b;
    return x > y;
}

void ls_lab_count_hits(ls_lab_hits *h, const ls_step *s) {
    if (!s->forward || s->tree.n < 2 || !ls_step_described(s)) return;
    int where[LS_MAX_ROWS]; // of each row's path; -2: outside
    h->trees++;
    where[0] = -1;
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        int place = 0;
        for (int k = 1; k < s->tree.n; k++)
            place += k != i && s->tree.nodes[k].parent == n->parent && likelier(s, k, i);
        const int first = where[n->parent] == -2 ? -1 : ls_lab_hit_child(where[n->parent]);
        where[i] = first < 0 || place >= LS_LAB_PLACES ? -2 : first + place;
        if (where[i] == -2 || n->state == LS_NODE_NOT_REACHED) continue;
        h->node[where[i]].tested++;
        h->node[where[i]].accepted += n->state == LS_NODE_ACCEPTED;
    }
}
