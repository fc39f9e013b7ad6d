#include "spec/tree.h"

#include <assert.h>
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

void ls_tree_lay_out(ls_tree *t, const ls_tree_node *nodes, int32_t n) {
    int32_t row_of[LS_TREE_MAX] = {0}, first[LS_TREE_MAX], next[LS_TREE_MAX], last[LS_TREE_MAX];
    assert(n >= 1); // the root
    ls_tree_start(t, nodes[0].token);
    for (int32_t i = 0; i < n; i++) first[i] = next[i] = last[i] = -1;
    for (int32_t i = 1; i < n; i++) {
        const int32_t parent = nodes[i].parent;
        if (first[parent] < 0) first[parent] = i;
        else next[last[parent]] = i;
        last[parent] = i;
    }
    int32_t stack[LS_TREE_MAX], depth = 0, i = first[0];
    while (i >= 0) {
        const ls_tree_node *c = &nodes[i];
        const int32_t r = t->n++;
        row_of[i] = r;
        if (c->parent == 0)
            t->branches[t->n_branches++] = (ls_tree_branch){
                .rank = c->rank, .match_n = c->match_n, .match_pos = c->match_pos, .first_row = (int16_t)r};
        ls_tree_branch *b = &t->branches[t->n_branches - 1];
        b->n_rows++;
        b->found++;
        t->token[r] = c->token;
        t->parent[r] = row_of[c->parent];
        t->depth[r] = t->depth[t->parent[r]] + 1;
        t->branch[r] = (int16_t)(t->n_branches - 1);
        t->from[r] = c->from;
        t->match_n[r] = c->match_n;
        t->match_pos[r] = c->match_pos;
        t->est[r] = c->est;
        t->key[r] = c->key;
        if (next[i] >= 0) stack[depth++] = next[i];
        i = first[i] >= 0 ? first[i] : depth > 0 ? stack[--depth] : -1;
    }
}

void ls_tree_keep(ls_tree *t, const bool *keep) {
    int32_t row_of[LS_TREE_MAX], n = 1, n_branches = 0, branch = -1;
    row_of[0] = 0;
    for (int32_t i = 1; i < t->n; i++) {
        const int32_t parent = row_of[t->parent[i]];
        row_of[i] = keep[i] && parent >= 0 ? n : -1;
        if (row_of[i] < 0) continue;
        if (t->branch[i] != branch) { // the first row that stays of its branch
            branch = t->branch[i];
            t->branches[n_branches] = t->branches[branch];
            t->branches[n_branches].first_row = (int16_t)n;
            t->branches[n_branches++].n_rows = 0;
        }
        t->branches[n_branches - 1].n_rows++;
        t->token[n] = t->token[i];
        t->parent[n] = parent;
        t->depth[n] = t->depth[i];
        t->branch[n] = (int16_t)(n_branches - 1);
        t->from[n] = t->from[i];
        t->match_n[n] = t->match_n[i];
        t->match_pos[n] = t->match_pos[i];
        t->est[n] = t->est[i];
        t->key[n] = t->key[i];
        t->kind[n] = t->kind[i];
        n++;
    }
    t->n = n;
    t->n_branches = n_branches;
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
