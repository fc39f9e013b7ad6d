#include "spec/evidence.h"

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
    if (reset) ls_pool_clear(&e->pool); // rates and remembered choices are about the model, and stay
    ls_pool_update(&e->pool, context, n);
}

const ls_successor *ls_evidence_remembered(const ls_evidence *e, const int32_t *tail, int32_t n, bool *pair) {
    const ls_successor *s = e->remembered && n > 1 ? ls_successors_get(&e->successors, tail[n - 2], tail[n - 1]) : NULL;
    *pair = s != NULL;
    return s || !e->remembered ? s : ls_successors_get(&e->successors, -1, tail[n - 1]);
}

static bool among(const int32_t *ids, int32_t n, int32_t id) {
    int32_t i = 0;
    while (i < n && ids[i] != id) i++;
    return i < n;
}

// Asks the sources of a search one by one, then what these pass over: shorter n-grams, and what was remembered of the
// last token alone.
ls_knowledge ls_evidence_knows(const ls_evidence *e, const ls_draft_question *q) {
    const ls_draft_state *s = q->state;
    const size_t copied = (size_t)(q->tree->nodes[q->row].match_pos + 1); // what the row was copied from goes on there
    int32_t tail[LS_POOL_ORDER];
    const int32_t n = ls_draft_tail(s, q->tree, q->row, tail, LS_POOL_ORDER);
    const bool copies = e->retrieved && copied > 0 && copied < s->n_context,
               guesses = !q->row && e->last_logit && q->token != s->root;
    bool pair, has = false;
    const ls_match m = e->retrieved ? ls_pool_find(&e->pool, tail, (size_t)n) : (ls_match){0};
    const ls_successor *known = ls_evidence_remembered(e, tail, n, &pair);
    if ((copies && s->context[copied] == q->token) || (m.n && s->context[m.pos] == q->token) ||
        (known && among(known->id, LS_ROW_TOP, q->token)) || (guesses && among(s->top_ids, s->n_top, q->token)))
        return LS_KNOWS_IT;
    if (e->retrieved) ls_pool_ask(&e->pool, s->context, tail, (size_t)n, q->token, &has);
    const ls_successor *one = pair ? ls_successors_get(&e->successors, -1, tail[n - 1]) : NULL;
    if (has || (one && among(one->id, LS_ROW_TOP, q->token))) return LS_KNOWS_HIDDEN;
    return guesses ? LS_KNOWS_BEYOND : copies || m.n || known ? LS_KNOWS_OTHERS : LS_KNOWS_NOTHING;
}

// before: the token before the row's; -1: none.
static void remember(ls_evidence *e, int32_t before, int32_t token, const ls_node *row) {
    if (!e->remembered) return;
    const ls_successor said = ls_successors_of(row);
    if (before >= 0) ls_successors_put(&e->successors, before, token, &said);
    ls_successors_put(&e->successors, -1, token, &said);
}

void ls_evidence_learn(ls_evidence *e, const ls_draft_result *r) {
    const ls_tree *t = r->tree;
    for (int32_t i = 0; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        if (i && n->key >= 0 && n->state != LS_NODE_NOT_REACHED)
            ls_rates_learn(&e->rates, n->key, n->state == LS_NODE_ACCEPTED);
        const int32_t before = i ? t->nodes[n->parent].token : r->n_context ? r->context[r->n_context - 1] : -1;
        remember(e, before, n->token, n);
    }
}

void ls_evidence_read(ls_evidence *e, const int32_t *context, size_t at, size_t n, const ls_node *rows) {
    for (size_t i = at; i < at + n; i++) remember(e, i ? context[i - 1] : -1, context[i], &rows[i - at]);
}
