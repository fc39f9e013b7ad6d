// Token Recycling (arXiv 2408.08696): a matrix has, for each token, the target's eight best next tokens from the last
// time that the token was a row, accepted or rejected. Each step drafts them in a tree of fixed shape under the root.
// The matrix is kept across prompts.
//
// The shape is that of the authors' program (Luowaterbi/TokenRecycling, 1b4c05c, its tree template 2.2.2), which always
// verifies the whole tree. For a smaller max_rows this program keeps the most likely rows, by fixed probabilities of
// the ranks. A token that was never a row has no successors here; in the authors' program the matrix starts with token
// 0 everywhere, which is not drafted here.
#include "spec/matrix.h"

#include <math.h>

enum { WIDTH = LS_ROW_TOP };

typedef struct {
    ls_recycler base;
    ls_tree_shape shape;
} drafter;

static const char shape[] = "0 1 2 3 4 5 6 7 "
                            "00 01 02 03 04 05 06 07 10 11 12 13 20 21 22 30 31 40 50 60 70 "
                            "000 001 002 003 004 005 006 007 010 011 012 020 021 030 040 050 060 070 "
                            "100 101 110 200 300 400 500 "
                            "0000 0001 0002 0003 0004 0010 0011 0020 0030 0040 0100 0200 1000 2000 3000 "
                            "00000 00001 00002 00010 00020 00100 01000 10000 "
                            "000000 000001 000100";

// Sorts the rows by the product of their ranks' probabilities, so that each max_rows uses the first rows.
static ls_code recycle_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    static const double chance[WIDTH] = {0.45, 0.14, 0.07, 0.045, 0.03, 0.022, 0.018, 0.015};
    ls_tree_shape s, *sorted = &((drafter *)base)->shape;
    double path[LS_SHAPE_ROWS] = {1};
    int32_t place[LS_SHAPE_ROWS] = {0};
    (void)setup, (void)err;
    ls_tree_shape_read(&s, shape);
    for (int32_t i = 1; i < s.n; i++) path[i] = path[s.parent[i]] * chance[s.rank[i]];
    for (sorted->n = 1; sorted->n < s.n; sorted->n++) {
        int32_t best = 0;
        for (int32_t i = 1; i < s.n; i++) // a row is less likely than its parent, so the parent comes first
            if (!place[i] && (!best || path[i] > path[best])) best = i;
        place[best] = sorted->n;
        sorted->parent[sorted->n] = place[s.parent[best]];
        sorted->rank[sorted->n] = s.rank[best];
    }
    return LS_OK;
}

static void recycle_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    const drafter *d = (drafter *)base;
    int32_t index[LS_SHAPE_ROWS] = {0}; // rows of the shape's rows; -1: no successor is known there
    (void)s;
    for (int32_t i = 1; i < d->shape.n && ls_grow_room(g) > 0; i++) {
        const int32_t parent = index[d->shape.parent[i]];
        const int32_t *next = parent < 0 ? NULL : ls_matrix_at(&d->base.m, g->rows[parent].token);
        const int32_t token = next ? next[d->shape.rank[i]] : -1;
        index[i] = token < 0 ? -1 : ls_grow(g, parent, token, LS_SOURCE_REMEMBERED, 0, NAN);
    }
}

static int32_t recycle_pool_size(const ls_drafter *base) {
    return ((const ls_recycler *)base)->m.known;
}

const ls_method ls_method_recycle = {
    .name = "recycle",
    .summary = "Token Recycling: the target's latest predictions after each token, in a fixed tree",
    .source = "arXiv 2408.08696",
    .rows = LS_SHAPE_ROWS,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = recycle_set_up,
                                   .grow = recycle_grow,
                                   .learn = ls_recycler_learn,
                                   .miss = ls_recycler_miss,
                                   .arrays = ls_recycler_arrays,
                                   .pool_size = recycle_pool_size},
};
