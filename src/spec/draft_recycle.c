// Token Recycling (arXiv 2408.08696): a matrix has, for each token, the target's eight best next tokens from the last
// time that the token was a row, accepted or rejected. Each step drafts them in a tree of fixed shape under the root.
// The matrix is kept across prompts.
//
// The shape is that of the authors' program (its tree template 2.2.2), which always verifies the whole tree. For a
// smaller tree this program keeps the most likely rows, by fixed probabilities of the ranks. A token that was never
// a row has no successors here; in the authors' program the matrix starts with token 0 everywhere, which is not drafted
// here.
#include "base/mem.h"
#include "spec/drafter.h"

#include <math.h>
#include <string.h>

enum { WIDTH = LS_ROW_TOP, SHAPE = 81 }; // SHAPE: rows of the tree, including the root

typedef struct {
    int32_t (*next)[WIDTH]; // by token id; -1: not known
    int32_t n;              // allocated token ids
    int32_t known;          // token ids with successors
    int32_t shape_parent[SHAPE], shape_rank[SHAPE];
} matrix;

typedef struct {
    ls_drafter base;
    matrix m;
} drafter;

// The rows below the root, each written as the ranks on its path; parents come first.
static const char shape[] = "0 1 2 3 4 5 6 7 "
                            "00 01 02 03 04 05 06 07 10 11 12 13 20 21 22 30 31 40 50 60 70 "
                            "000 001 002 003 004 005 006 007 010 011 012 020 021 030 040 050 060 070 "
                            "100 101 110 200 300 400 500 "
                            "0000 0001 0002 0003 0004 0010 0011 0020 0030 0040 0100 0200 1000 2000 3000 "
                            "00000 00001 00002 00010 00020 00100 01000 10000 "
                            "000000 000001 000100 ";

// Sorts the rows by the product of their ranks' probabilities, so that each size of tree uses the first rows.
static void make_shape(matrix *m) {
    static const double chance[WIDTH] = {0.45, 0.14, 0.07, 0.045, 0.03, 0.022, 0.018, 0.015};
    const char *way[SHAPE] = {""};
    double path[SHAPE] = {1};
    size_t length[SHAPE] = {0};
    int32_t parent[SHAPE] = {-1}, place[SHAPE] = {0}, n = 1;
    for (const char *p = shape; *p; p += length[n++] + 1) {
        way[n] = p;
        length[n] = strcspn(p, " ");
        for (int32_t i = 0; i < n; i++)
            if (length[i] == length[n] - 1 && !memcmp(way[i], p, length[i])) parent[n] = i;
        path[n] = path[parent[n]] * chance[p[length[n] - 1] - '0'];
    }
    m->shape_parent[0] = m->shape_rank[0] = -1;
    for (int32_t to = 1; to < SHAPE; to++) {
        int32_t best = 0;
        for (int32_t i = 1; i < SHAPE; i++) // a row is less likely than its parent, so the parent comes first
            if (!place[i] && (!best || path[i] > path[best])) best = i;
        place[best] = to;
        m->shape_parent[to] = place[parent[best]];
        m->shape_rank[to] = way[best][length[best] - 1] - '0';
    }
}

static void recycle_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    const matrix *m = &((drafter *)base)->m;
    int32_t index[SHAPE] = {0}; // rows of the shape's rows; -1: no successor is known there
    (void)s;
    for (int32_t i = 1; i < SHAPE && ls_grow_room(g) > 0; i++) {
        const int32_t parent = index[m->shape_parent[i]], before = parent < 0 ? m->n : g->rows[parent].token;
        const int32_t token = before >= 0 && before < m->n ? m->next[before][m->shape_rank[i]] : -1;
        index[i] = token < 0 ? -1 : ls_grow(g, parent, token, LS_FROM_REMEMBERED, 0, NAN);
    }
}

static ls_knowledge recycle_knows(const ls_drafter *base, const ls_draft_question *q, ls_knowledge known) {
    const matrix *m = &((const drafter *)base)->m;
    const int32_t last = q->tree->nodes[q->row].token;
    for (int32_t i = 0; last < m->n && i < WIDTH && m->next[last][i] >= 0; i++) {
        if (m->next[last][i] == q->token) return LS_KNOWS_BEYOND; // the shape has no row for its rank
        known = LS_KNOWS_OTHERS;
    }
    return known;
}

static void recycle_learn(ls_drafter *base, const ls_draft_result *r) {
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

static void recycle_memory(void *d, ls_memory_visit *v) {
    matrix *m = &((drafter *)d)->m;
    ls_memory_part(v, m, sizeof *m);
    ls_memory_array(v, (void **)&m->next, (size_t)m->n * sizeof *m->next);
}

static int32_t recycle_pool_size(const ls_drafter *base) {
    return ((const drafter *)base)->m.known;
}

static ls_code recycle_make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)setup, (void)err;
    drafter *d = ls_drafter_new(sizeof *d, (ls_drafter){.grow = recycle_grow,
                                                        .learn = recycle_learn,
                                                        .knows = recycle_knows,
                                                        .memory = recycle_memory,
                                                        .pool_size = recycle_pool_size});
    make_shape(&d->m);
    *out = &d->base;
    return LS_OK;
}

const ls_method ls_method_recycle = {
    .name = "recycle",
    .summary = "Token Recycling: the target's latest predictions after each token, in a fixed tree",
    .source = "arXiv 2408.08696",
    .rows = SHAPE,
    .make = recycle_make,
};
