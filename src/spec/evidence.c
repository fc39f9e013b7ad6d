#include "spec/evidence.h"

static const double STEP = 0.01; // learning rate of the rates, per row
_Static_assert((int)LS_POOL_ORDER >= (int)LS_SUCCESSORS_ORDER, "one tail serves n-grams and what was said");

void ls_evidence_init(ls_evidence *e, size_t memory) {
    *e = (ls_evidence){.pool = {.order = LS_POOL_ORDER, .span = LS_POOL_SPAN},
                       .successors = {.limit = memory},
                       .retrieved = true,
                       .remembered = true,
                       .last_logit = true};
    ls_rates_init(&e->rates);
}

void ls_evidence_free(ls_evidence *e) {
    ls_pool_free(&e->pool);
    ls_successors_free(&e->successors);
}

size_t ls_evidence_bytes(const ls_evidence *e) {
    return ls_pool_bytes(&e->pool) + ls_successors_bytes(&e->successors);
}

void ls_evidence_memory(ls_evidence *e, ls_memory_visit *v) {
    ls_memory_part(v, &e->rates, sizeof e->rates);
    ls_pool_memory(&e->pool, v);
    ls_successors_memory(&e->successors, v);
}

void ls_evidence_observe(ls_evidence *e, const int32_t *context, size_t n, bool reset) {
    if (reset)
        ls_pool_clear(&e->pool); // rates and remembered choices depend on the model, not on the text, and are kept
    ls_pool_update(&e->pool, context, n);
}

const ls_successor *ls_evidence_remembered(const ls_evidence *e, const int32_t *tail, int32_t n, int32_t order) {
    return e->remembered && n >= order ? ls_successors_get(&e->successors, tail + n - order, order) : NULL;
}

static bool among(const int32_t *ids, int32_t n, int32_t id) {
    int32_t i = 0;
    while (i < n && ids[i] != id) i++;
    return i < n;
}

// Looks in each source of a search, then in the shorter n-grams that the search does not use.
ls_knowledge ls_evidence_knows(const ls_evidence *e, const ls_draft_question *q) {
    const ls_draft_state *s = q->state;
    const size_t copied =
        (size_t)(q->tree->nodes[q->row].match_pos + 1); // position after the token from which the row was copied
    int32_t tail[LS_POOL_ORDER];
    const int32_t n = ls_draft_tail(s, q->tree, q->row, tail, LS_POOL_ORDER);
    const bool copies = e->retrieved && copied > 0 && copied < s->n_context,
               guesses = !q->row && e->last_logit && q->token != s->root;
    bool has = false, known = false, said = false;
    const ls_match m = e->retrieved ? ls_pool_find(&e->pool, tail, (size_t)n) : (ls_match){0};
    for (int32_t order = 1; order <= LS_SUCCESSORS_ORDER; order++) {
        const ls_successor *after = ls_evidence_remembered(e, tail, n, order);
        known |= after != NULL;
        said |= after && among(after->id, LS_ROW_TOP, q->token);
    }
    if ((copies && s->context[copied] == q->token) || (m.n && s->context[m.pos] == q->token) || said ||
        (guesses && among(s->top_ids, s->n_top, q->token)))
        return LS_KNOWS_IT;
    if (e->retrieved) ls_pool_ask(&e->pool, s->context, tail, (size_t)n, q->token, &has);
    if (has) return LS_KNOWS_HIDDEN;
    return guesses ? LS_KNOWS_BEYOND : copies || m.n || known ? LS_KNOWS_OTHERS : LS_KNOWS_NOTHING;
}

// tail: the row's token, and those before it.
static void remember(ls_evidence *e, const int32_t *tail, int32_t n, const ls_node *row) {
    const ls_successor said = ls_successors_of(row);
    for (int32_t order = 1; order <= n; order++) ls_successors_put(&e->successors, tail + n - order, order, &said);
}

void ls_evidence_learn(ls_evidence *e, const ls_draft_result *r) {
    const ls_tree *t = r->tree;
    const ls_draft_state s = {.context = r->context, .n_context = r->n_context};
    int32_t tail[LS_SUCCESSORS_ORDER];
    for (int32_t i = 0; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        if (i && n->key >= 0 && n->state != LS_NODE_NOT_REACHED)
            ls_rates_learn(&e->rates, n->key, (n->state == LS_NODE_ACCEPTED) - (double)n->looked, STEP);
        if (e->remembered) remember(e, tail, ls_draft_tail(&s, t, i, tail, LS_SUCCESSORS_ORDER), n);
    }
}

void ls_evidence_read(ls_evidence *e, const int32_t *context, size_t at, size_t n, const ls_node *rows) {
    for (size_t i = at; i < at + n && e->remembered; i++) {
        const int32_t most = i + 1 < LS_SUCCESSORS_ORDER ? (int32_t)i + 1 : LS_SUCCESSORS_ORDER;
        remember(e, context + i + 1 - most, most, &rows[i - at]);
    }
}
