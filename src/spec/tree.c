#include "spec/tree.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const ls_draft_source_facts ls_sources[LS_SOURCE_COUNT] = {
#define SOURCE(place, name, label, letter, kind, sentence)                                                             \
    [LS_SOURCE_##place] = {name, label, letter, LS_KIND_##kind, sentence},
#include "spec/sources.def"
};

const ls_kind_facts ls_source_kinds[LS_KIND_COUNT] = {
#define KIND(place, legend, word, html_class, html_line, dark, light, first8)                                          \
    [LS_KIND_##place] = {legend, word, html_class, html_line, dark, light},
#include "spec/sources.def"
};

const char *ls_draft_source_name(ls_draft_source f) {
    return ls_sources[f].name;
}

const char *ls_node_state_name(ls_node_state s) {
    static const char *const names[] = {"accepted", "rejected", "not-reached"};
    return names[s];
}

const ls_miss_facts ls_misses[LS_MISS_COUNT] = {
#define MISS(place, name, label, sentence) {name, label, sentence},
#include "spec/misses.def"
#undef MISS
};

const char *ls_miss_name(ls_miss m) {
    return ls_misses[m].name;
}

size_t ls_tree_bytes(const ls_tree *t) {
    return (size_t)t->n_branches * sizeof *t->branches + (size_t)t->n_predictions * sizeof *t->predictions +
           (size_t)t->n * sizeof *t->nodes;
}

void ls_tree_place(ls_tree *t, void *bytes) {
    t->nodes = bytes;
    t->branches = (ls_branch *)(t->nodes + t->n);
    t->predictions = (ls_prediction *)(t->branches + t->n_branches);
}

ls_tree *ls_tree_new(void) {
    ls_tree most = {.n = LS_MAX_ROWS, .n_branches = LS_MAX_ROWS, .n_predictions = LS_MAX_PREDICTIONS};
    ls_tree *t = ls_calloc(1, sizeof *t + ls_tree_bytes(&most));
    ls_tree_place(&most, t + 1);
    *t = (ls_tree){.branches = most.branches, .predictions = most.predictions, .nodes = most.nodes};
    return t;
}

void ls_tree_copy(ls_tree *to, const ls_tree *from) {
    to->n = from->n, to->n_branches = from->n_branches, to->n_predictions = from->n_predictions;
    memcpy(to->nodes, from->nodes, (size_t)from->n * sizeof *to->nodes);
    memcpy(to->branches, from->branches, (size_t)from->n_branches * sizeof *to->branches);
    memcpy(to->predictions, from->predictions, (size_t)from->n_predictions * sizeof *to->predictions);
}

void ls_tree_start(ls_tree *t, int32_t root) {
    t->n = 1;
    t->n_branches = 0;
    t->n_predictions = 0;
    t->nodes[0].draft =
        (ls_draft){.token = root, .parent = -1, .branch = -1, .from = LS_SOURCE_ROOT, .match_pos = -1, .est_p = NAN};
}

static ls_node *add_row(ls_tree *t, const ls_draft *d, int32_t parent) {
    ls_node *n = &t->nodes[t->n++];
    n->draft = *d;
    n->parent = (int16_t)parent;
    n->depth = (int16_t)(t->nodes[parent].depth + 1);
    n->branch = (int16_t)(t->n_branches - 1);
    n->rank = t->branches[n->branch].rank;
    t->branches[n->branch].n_nodes++;
    return n;
}

static void add_branch(ls_tree *t, ls_branch b) {
    b.first_node = (int16_t)t->n;
    b.n_nodes = 0;
    t->branches[t->n_branches++] = b;
}

int32_t ls_tree_add(ls_tree *t, const int32_t *tokens, int32_t n, int32_t max_rows, ls_branch info) {
    const int32_t first = t->n, n_guess = info.rank >= 0 ? 1 : 0;
    if (max_rows > LS_MAX_ROWS) max_rows = LS_MAX_ROWS;
    if (n < 1 || t->n >= max_rows) return 0;
    add_branch(t, info);
    for (int32_t i = 0; i < n && t->n < max_rows; i++)
        add_row(t,
                &(ls_draft){.token = tokens[i],
                            .match_n = i < n_guess ? 0 : info.match_n,
                            .from = i < n_guess ? LS_SOURCE_LAST_LOGIT
                                    : n_guess   ? LS_SOURCE_GUESS_TAIL
                                                : LS_SOURCE_RETRIEVED,
                            .match_pos = i < n_guess ? -1 : info.match_pos + i - n_guess,
                            .est_p = NAN},
                i ? t->n - 1 : 0);
    return t->n - first;
}

void ls_tree_lay_out(ls_tree *t, const ls_draft *drafts, int32_t n) {
    int32_t row_of[LS_MAX_ROWS] = {0}, first[LS_MAX_ROWS], next[LS_MAX_ROWS], last[LS_MAX_ROWS];
    assert(n >= 1); // the root
    ls_tree_start(t, drafts[0].token);
    t->nodes[0].prediction = drafts[0].prediction;
    for (int32_t i = 0; i < n; i++) first[i] = next[i] = last[i] = -1;
    for (int32_t i = 1; i < n; i++) {
        const int32_t parent = drafts[i].parent;
        if (first[parent] < 0) first[parent] = i;
        else next[last[parent]] = i;
        last[parent] = i;
    }
    int32_t stack[LS_MAX_ROWS], depth = 0, i = first[0];
    while (i >= 0) {
        const ls_draft *d = &drafts[i];
        if (d->parent == 0)
            add_branch(t, (ls_branch){.rank = d->rank, .match_n = d->match_n, .match_pos = d->match_pos});
        t->branches[t->n_branches - 1].found++;
        row_of[i] = t->n;
        add_row(t, d, row_of[d->parent]);
        if (next[i] >= 0) stack[depth++] = next[i];
        i = first[i] >= 0 ? first[i] : depth > 0 ? stack[--depth] : -1;
    }
}

void ls_tree_keep(ls_tree *t, const bool *keep) {
    int32_t row_of[LS_MAX_ROWS] = {0}, branch = -1;
    const int32_t n = t->n;
    t->n = 1;
    t->n_branches = 0;
    for (int32_t i = 1; i < n; i++) {
        const ls_draft d = t->nodes[i].draft;
        const int32_t parent = row_of[d.parent];
        row_of[i] = keep[i] && parent >= 0 ? t->n : -1;
        if (row_of[i] < 0) continue;
        if (d.branch != branch) add_branch(t, t->branches[branch = d.branch]); // the first kept row of its branch
        add_row(t, &d, parent);
    }
}

int32_t ls_tree_depth(const ls_tree *t) {
    int32_t depth = 0;
    for (int32_t i = 1; i < t->n; i++) depth = t->nodes[i].depth > depth ? t->nodes[i].depth : depth;
    return depth;
}

int32_t ls_tree_path(const ls_tree *t, int32_t row, int32_t *path) {
    const int32_t n = t->nodes[row].depth + 1;
    for (int32_t i = n - 1; i >= 0; i--, row = t->nodes[row].parent) path[i] = row;
    return n;
}

int32_t ls_tree_tokens(const ls_tree *t, int32_t row, int32_t *tokens) {
    const int32_t n = ls_tree_path(t, row, tokens);
    for (int32_t i = 0; i < n; i++) tokens[i] = t->nodes[tokens[i]].token;
    return n;
}

void ls_tree_mark(ls_tree *t, const int32_t *path, int32_t n_path) {
    for (int32_t i = 0; i < t->n; i++) t->nodes[i].state = LS_NODE_NOT_REACHED;
    for (int32_t i = 0; i < n_path; i++) t->nodes[path[i]].state = LS_NODE_ACCEPTED;
    for (int32_t b = 0; b < t->n_branches; b++) t->branches[b].accepted = 0;
    for (int32_t i = 1; i < t->n; i++) {
        ls_node *n = &t->nodes[i];
        if (n->state == LS_NODE_ACCEPTED) t->branches[n->branch].accepted++;
        else if (t->nodes[n->parent].state == LS_NODE_ACCEPTED) n->state = LS_NODE_REJECTED;
    }
}
