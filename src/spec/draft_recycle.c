// Token Recycling (arXiv 2408.08696): for every token the target's eight best tokens the last time that it was a row,
// accepted or rejected; each step hangs them under the root in a tree of fixed shape, six levels deep. The matrix is
// kept across prompts. The published shape is not stated as numbers in the paper; here it is the likeliest rows under
// fixed chances of the ranks.
#include "base/mem.h"
#include "spec/drafter.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 6, WIDTH = LS_ROW_TOP };

typedef struct {
    int32_t (*next)[WIDTH]; // by token id; -1: not known
    int32_t n;              // token ids that there is room for
    int32_t known;          // that have successors
    int32_t shape_parent[LS_MAX_ROWS], shape_rank[LS_MAX_ROWS], shape_depth[LS_MAX_ROWS];
} matrix;

typedef struct {
    ls_drafter base;
    matrix m;
} drafter;

// Rows in order of the product of their ranks' chances, so that any budget takes the first rows.
static void make_shape(matrix *m) {
    static const double chance[WIDTH] = {0.45, 0.14, 0.07, 0.045, 0.03, 0.022, 0.018, 0.015};
    double path[LS_MAX_ROWS] = {1};
    int32_t taken[LS_MAX_ROWS] = {0}; // children that a row has already
    m->shape_parent[0] = m->shape_rank[0] = -1;
    m->shape_depth[0] = 0;
    for (int32_t n = 1; n < LS_MAX_ROWS; n++) {
        int32_t best = -1;
        double most = 0;
        for (int32_t i = 0; i < n; i++) {
            if (taken[i] == WIDTH || m->shape_depth[i] == LEVELS) continue;
            const double p = path[i] * chance[taken[i]];
            if (p > most) most = p, best = i;
        }
        assert(best >= 0); // the root alone has room for more rows than its children fill
        m->shape_parent[n] = best;
        m->shape_rank[n] = taken[best]++;
        m->shape_depth[n] = m->shape_depth[best] + 1;
        path[n] = most;
    }
}

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    (void)base, (void)context, (void)n, (void)reset; // it learns from rows, not from the text
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    const matrix *m = &((drafter *)base)->m;
    ls_draft nodes[LS_MAX_ROWS] = {{.token = s->root, .parent = -1, .match_pos = -1, .est_p = NAN}};
    int32_t index[LS_MAX_ROWS] = {0}, n = 1; // of the shape's rows; -1: nothing is known there
    for (int32_t i = 1; i < LS_MAX_ROWS && i < budget; i++) {
        const int32_t parent = index[m->shape_parent[i]], before = parent < 0 ? m->n : nodes[parent].token;
        const int32_t token = before >= 0 && before < m->n ? m->next[before][m->shape_rank[i]] : -1;
        index[i] = token < 0 ? -1 : n;
        if (token < 0) continue;
        nodes[n++] = (ls_draft){.token = token,
                                .parent = (int16_t)parent,
                                .rank = -1,
                                .match_pos = -1,
                                .from = LS_FROM_REMEMBERED,
                                .est_p = NAN};
    }
    ls_tree_lay_out(tree, nodes, n);
}

static void learn(ls_drafter *base, const ls_draft_result *r) {
    matrix *m = &((drafter *)base)->m;
    for (int32_t i = 0; i < r->tree->n; i++) {
        const ls_node *row = &r->tree->nodes[i];
        const int32_t token = row->token;
        if (row->top[0].id < 0) continue;
        if (token >= m->n) {
            int32_t n = m->n ? m->n : 1024;
            while (n <= token) n *= 2;
            m->next = ls_realloc(m->next, (size_t)n * sizeof *m->next);
            memset(m->next + m->n, -1, (size_t)(n - m->n) * sizeof *m->next);
            m->n = n;
        }
        m->known += m->next[token][0] < 0;
        for (int j = 0; j < WIDTH; j++) m->next[token][j] = row->top[j].id;
    }
}

static int32_t pool_size(const ls_drafter *base) {
    return ((const drafter *)base)->m.known;
}

static void free_drafter(ls_drafter *base) {
    free(((drafter *)base)->m.next);
    free(base);
}

static size_t bytes(const ls_drafter *base) {
    return sizeof(drafter) + (size_t)((const drafter *)base)->m.n * sizeof(int32_t[WIDTH]);
}

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)setup, (void)err;
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){.observe = observe,
                           .propose = propose,
                           .learn = learn,
                           .pool_size = pool_size,
                           .bytes = bytes,
                           .free = free_drafter};
    make_shape(&d->m);
    *out = &d->base;
    return LS_OK;
}

const ls_method ls_method_recycle = {
    .name = "recycle",
    .summary = "Token Recycling: what the target said last after each token, in a fixed tree",
    .source = "arXiv 2408.08696",
    .rows = 80,
    .make = make,
};
