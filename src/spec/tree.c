#include "spec/tree.h"

#include <math.h>

void ls_tree_start(ls_tree *t, int32_t root) {
    t->n = 1;
    t->token[0] = root;
    t->parent[0] = -1;
    t->depth[0] = 0;
    t->branch[0] = -1;
    t->from[0] = LS_TREE_ROOT;
    t->match_n[0] = 0;
    t->match_pos[0] = -1;
    t->est[0] = NAN;
    t->key[0] = -1;
    t->n_branches = 0;
}

int32_t ls_tree_add(ls_tree *t, const int32_t *tokens, int32_t n, int32_t budget, ls_tree_branch info) {
    const int32_t first = t->n, n_guess = info.rank >= 0 ? 1 : 0;
    int32_t at = 0; // current row
    if (t->n_branches == LS_TREE_BRANCHES) return 0;
    for (int32_t i = 0; i < n; i++) {
        if (t->n >= budget || t->n >= LS_TREE_MAX) break;
        int32_t r = t->n++;
        t->token[r] = tokens[i];
        t->parent[r] = at;
        t->depth[r] = t->depth[at] + 1;
        t->branch[r] = (int16_t)t->n_branches;
        t->from[r] = i < n_guess ? LS_TREE_LAST_LOGIT : n_guess ? LS_TREE_GUESS_TAIL : LS_TREE_RETRIEVED;
        t->match_n[r] = i < n_guess ? 0 : info.match_n;
        t->match_pos[r] = i < n_guess ? -1 : info.match_pos + i - n_guess;
        t->est[r] = NAN;
        t->key[r] = -1;
        at = r;
    }
    if (t->n == first) return 0;
    info.first_row = (int16_t)first;
    info.n_rows = (int16_t)(t->n - first);
    t->branches[t->n_branches++] = info;
    return t->n - first;
}

int32_t ls_tree_verify(const ls_tree *t, const int32_t *chosen, int32_t *rows) {
    bool on_path[LS_TREE_MAX] = {true};
    int32_t best = 0;
    for (int32_t i = 1; i < t->n; i++) {
        on_path[i] = on_path[t->parent[i]] && t->token[i] == chosen[t->parent[i]];
        if (on_path[i] && t->depth[i] > t->depth[best]) best = i;
    }
    int32_t n = t->depth[best] + 1;
    for (int32_t i = n - 1, r = best; i >= 0; i--, r = t->parent[r]) rows[i] = r;
    return n;
}
