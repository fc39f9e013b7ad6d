#include "spec/matrix.h"
#include "base/mem.h"

#include <string.h>

void ls_matrix_learn(ls_matrix *m, int32_t token, const ls_node *row) {
    if (row->top[0].id < 0) return;
    if (token >= m->n) {
        int32_t n = m->n ? m->n : 1024;
        while (n <= token) n *= 2;
        m->next = ls_realloc(m->next, (size_t)n * sizeof *m->next);
        memset(m->next + m->n, -1, (size_t)(n - m->n) * sizeof *m->next);
        m->n = n;
    }
    m->known += m->next[token][0] < 0;
    for (int j = 0; j < LS_ROW_TOP; j++) m->next[token][j] = row->top[j].id;
}

const int32_t *ls_matrix_at(const ls_matrix *m, int32_t token) {
    return token < m->n && m->next[token][0] >= 0 ? m->next[token] : NULL;
}

void ls_recycler_learn(ls_drafter *d, const ls_draft_result *r) {
    const ls_node *rows = r->tree->nodes;
    for (int32_t i = 0; i < r->tree->n; i++) ls_matrix_learn(&((ls_recycler *)d)->m, rows[i].token, &rows[i]);
}

ls_miss ls_recycler_miss(const ls_drafter *d, const ls_draft_question *q, ls_miss miss) {
    const int32_t *next = ls_matrix_at(&((const ls_recycler *)d)->m, q->tree->nodes[q->row].token);
    for (int32_t i = 0; next && i < LS_ROW_TOP && next[i] >= 0; i++) {
        if (next[i] == q->token) return LS_MISS_BEYOND; // the tree has no row for its rank
        miss = LS_MISS_OTHERWISE;
    }
    return miss;
}

void ls_recycler_arrays(void *d, ls_memory_visit *v) {
    ls_matrix *m = &((ls_recycler *)d)->m;
    ls_memory_array(v, (void **)&m->next, (size_t)m->n * sizeof *m->next);
}
