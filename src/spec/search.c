#include "spec/search.h"

#include <stdlib.h>

// ---- evidence

static const double LEARNING = 0.01; // learning rate of the rates, per row
_Static_assert((int)LS_POOL_ORDER >= (int)LS_SUCCESSORS_ORDER, "one tail serves n-grams and remembered tokens");

static void searcher_observe(ls_drafter *d, const int32_t *context, size_t n, bool reset) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    if (reset)
        ls_pool_clear(&e->pool); // rates and remembered choices depend on the model, not on the text, and are kept
    ls_pool_update(&e->pool, context, n);
}

// The target's predictions the last time after the last `order` tokens of tail[0..n); NULL: none.
static const ls_successor *remembered(const ls_evidence *e, const int32_t *tail, int32_t n, int32_t order) {
    return e->remembered && n >= order ? ls_successors_get(&e->successors, tail + n - order, order) : NULL;
}

// tail: the row's token, and those before it.
static void remember(ls_evidence *e, const int32_t *tail, int32_t n, const ls_node *row) {
    const ls_successor next = ls_successors_of(row);
    for (int32_t order = 1; order <= n; order++) ls_successors_put(&e->successors, tail + n - order, order, &next);
}

void ls_searcher_learn(ls_drafter *d, const ls_draft_result *r) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    const ls_tree *t = r->tree;
    const ls_draft_state s = {.context = r->context, .n_context = r->n_context};
    int32_t tail[LS_SUCCESSORS_ORDER];
    for (int32_t i = 0; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        if (i && n->key >= 0 && n->state != LS_NODE_NOT_REACHED)
            ls_rates_learn(&e->rates, n->key, (n->state == LS_NODE_ACCEPTED) - (double)n->looked, LEARNING);
        if (e->remembered)
            remember(e, tail, ls_draft_tail(&s, t->nodes, sizeof *t->nodes, i, tail, LS_SUCCESSORS_ORDER), n);
    }
}

static void searcher_read(ls_drafter *d, const int32_t *context, size_t at, size_t n, const ls_node *rows) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    for (size_t i = at; i < at + n && e->remembered; i++) {
        const int32_t most = i + 1 < LS_SUCCESSORS_ORDER ? (int32_t)i + 1 : LS_SUCCESSORS_ORDER;
        remember(e, context + i + 1 - most, most, &rows[i - at]);
    }
}

void ls_searcher_memory(void *d, ls_memory_visit *v) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    ls_memory_part(v, &e->rates, sizeof e->rates);
    ls_pool_memory(&e->pool, v);
    ls_successors_memory(&e->successors, v);
}

static int32_t searcher_pool_size(const ls_drafter *d) {
    return ls_pool_size(&((const ls_searcher *)d)->e.pool);
}

void *ls_searcher_new(size_t size, ls_drafter with, size_t memory) {
    with.observe = searcher_observe;
    with.read = searcher_read;
    with.pool_size = searcher_pool_size;
    if (!with.learn) with.learn = ls_searcher_learn;
    if (!with.memory) with.memory = ls_searcher_memory;
    ls_searcher *d = ls_drafter_new(size, with);
    d->e = (ls_evidence){.pool = {.order = LS_POOL_ORDER, .span = LS_POOL_SPAN},
                         .successors = {.limit = memory},
                         .retrieved = true,
                         .remembered = true,
                         .last_logit = true};
    ls_rates_init(&d->e.rates);
    return d;
}

// ---- the search

enum { MAX_AGREE = 16 };
// Factor of a path's probability for each row: the search prefers the candidates whose probability it overestimates, so
// a deep path is less likely than the product of its estimates.
static const double DEEPER = 0.9;
static const double LEAST = 1e-5; // sized trees: least path probability of a row, at any cost

// Finds the child with that token in list[0..*n), or appends a new one.
static ls_candidate *child_of(ls_candidate *list, int32_t *n, int32_t token) {
    for (int32_t i = 0; i < *n; i++)
        if (list[i].draft.token == token) return &list[i];
    list[*n] = (ls_candidate){.draft = {.token = token, .match_pos = -1},
                              .f = {.remembered = {{.rank = -1}, {.rank = -1}, {.rank = -1}}, .last_rank = -1},
                              .m_rank = -1,
                              .m_p = -1,
                              .draft_row = -1};
    return &list[(*n)++];
}

static void add_copy(const ls_search *q, ls_candidate *list, int32_t *n, int32_t match_n, int32_t pos,
                     const int32_t *tail, int32_t n_tail) {
    int32_t agree = 0;
    while (agree < n_tail && agree < pos && q->s->context[pos - 1 - agree] == tail[n_tail - 1 - agree]) agree++;
    ls_candidate *c = child_of(list, n, q->s->context[pos]);
    if (agree <= c->f.agree) return;
    c->f.agree = agree;
    c->draft.match_n = (int16_t)match_n;
    c->draft.match_pos = pos;
}

// Adds the other tokens of the last logits. Their probability is renormalised without the root's token, because the
// root has been chosen.
static void add_guesses(const ls_draft_state *s, ls_candidate *list, int32_t *n) {
    float root_p = 0;
    for (int32_t r = 0; r < s->n_top; r++)
        if (s->top_ids[r] == s->root) root_p = s->top_p[r];
    for (int32_t r = 0, guesses = 0; r < s->n_top && guesses < LS_SEARCH_GUESSES; r++) {
        if (s->top_ids[r] == s->root) continue;
        ls_candidate *c = child_of(list, n, s->top_ids[r]);
        c->f.last_rank = r;
        c->f.last_p = s->top_p[r] / (1 - root_p + 1e-6f);
        guesses++;
    }
}

static void add_prediction(const ls_prediction *prediction, ls_candidate *list, int32_t *n) {
    float least = 0;
    for (int32_t r = 0; r < LS_PREDICTION_TOP && prediction->id[r] >= 0; r++) {
        ls_candidate *c = child_of(list, n, prediction->id[r]);
        c->m_rank = r;
        c->m_p = least = prediction->p[r];
    }
    if (prediction->chosen < 0) return;
    ls_candidate *c = child_of(list, n, prediction->chosen);
    c->m_chosen = true;
    if (c->m_p < 0) c->m_p = least; // sampled, but not among its best
}

// The draft model's prediction after candidate `at`; NULL: it did not see the candidate.
static const ls_prediction *prediction_after(const ls_search *q, int32_t at) {
    return q->draft_rows && q->c[at].draft_row >= 0 ? &q->draft_rows->predictions[q->c[at].draft_row] : NULL;
}

static int32_t draft_row_child(const ls_draft_rows *s, int32_t parent, int32_t token) {
    for (int32_t i = parent + 1; parent >= 0 && i < s->n; i++)
        if (s->parent[i] == parent && s->token[i] == token) return i;
    return -1;
}

static bool is_remembered(const ls_candidate *c) {
    bool is = false;
    for (int32_t i = 0; i < LS_SUCCESSORS_ORDER; i++) is |= c->f.remembered[i].rank >= 0;
    return is;
}

static bool is_looked_up(const ls_candidate *c) {
    return c->f.agree || c->f.last_rank >= 0 || is_remembered(c);
}

// A child's odds by look-ups; stores the note by which ls_rates_learn updates them.
static double look_up(const ls_search *q, ls_candidate *c) {
    const bool looked = is_looked_up(c);
    c->draft.key = looked ? ls_rate_note(&c->f) : -1;
    return looked ? ls_rate_odds(&q->e->rates, c->draft.key) : 0;
}

// A child's probability if a draft model saw its parent; stores the key by which ls_blend_learn counts it.
static double blend(const ls_search *q, ls_candidate *c) {
    const ls_views v = {c->m_p, c->m_chosen, c->draft.key >= 0 ? (double)c->draft.looked : -1};
    c->draft.kind = (int16_t)(ls_blend_key(&v) + 1);
    c->draft.draft_p = c->m_p > 0 ? c->m_p : 0;
    return ls_blend_rate(q->blend, &v);
}

static ls_from source_of(const ls_candidate *c, bool under_guess) {
    if (c->m_p >= 0 && (c->draft.key < 0 || c->m_p > c->draft.looked)) return LS_FROM_DRAFT_MODEL;
    return c->f.agree         ? (under_guess ? LS_FROM_GUESS_TAIL : LS_FROM_RETRIEVED)
           : is_remembered(c) ? LS_FROM_REMEMBERED
                              : LS_FROM_LAST_LOGIT;
}

// Adds the possible children of candidate `at`: copies of the tokens that followed the same tokens before, the target's
// earlier predictions, the draft model's prediction, and after the root the other tokens of the last logits.
// The children are collected in the unused part of q->c and become candidates in place.
static void expand(ls_search *q, int32_t at) {
    ls_candidate *list = &q->c[q->n];
    int32_t n = 0, tail[MAX_AGREE];
    ls_candidate *c = &q->c[at];
    const int32_t n_tail = ls_draft_tail(q->s, q->c, sizeof *q->c, at, tail, MAX_AGREE);
    if (q->e->retrieved && c->draft.match_pos >= 0 && (size_t)c->draft.match_pos + 1 < q->s->n_context)
        add_copy(q, list, &n, c->draft.match_n, c->draft.match_pos + 1, tail, n_tail); // continue the parent's copy
    const ls_match m = q->e->retrieved ? ls_pool_find(&q->e->pool, tail, (size_t)n_tail) : (ls_match){0};
    if (m.n) add_copy(q, list, &n, m.n, m.pos, tail, n_tail);
    const bool copies = n > 0;
    bool known[LS_SUCCESSORS_ORDER];
    for (int32_t order = LS_SUCCESSORS_ORDER; order > 0; order--) {
        const ls_successor *next = remembered(q->e, tail, n_tail, order);
        known[order - 1] = next != NULL;
        for (int32_t i = 0; next && i < LS_ROW_TOP && next->id[i] >= 0; i++) {
            ls_candidate *k = child_of(list, &n, next->id[i]);
            k->f.remembered[order - 1].rank = (int16_t)i;
            k->f.remembered[order - 1].p = next->p[i];
        }
    }
    if (at == 0 && q->e->last_logit) add_guesses(q->s, list, &n);
    const ls_prediction *prediction = prediction_after(q, at);
    if (prediction) add_prediction(prediction, list, &n);
    double est[LS_SEARCH_CHILDREN], odds = 0, sum = 0, most = 0;
    for (int32_t i = 0; i < n; i++) {
        ls_features *f = &list[i].f;
        const int32_t from = c->draft.match_pos; // what the parent was copied from
        f->copies = copies;
        f->place = at == 0                                            ? LS_PLACE_FIRST
                   : from >= 0 && list[i].draft.match_pos == from + 1 ? LS_PLACE_ON
                   : from >= 0                                        ? LS_PLACE_JUMP
                                                                      : LS_PLACE_NEW;
        f->last = at == 0 && q->e->last_logit && q->s->n_top > 0;
        for (int32_t k = 0; k < LS_SUCCESSORS_ORDER; k++) f->remembered[k].known = known[k];
        odds += est[i] = look_up(q, &list[i]);
    }
    for (int32_t i = 0; i < n; i++) {
        list[i].draft.looked = (float)(est[i] /= 1 + odds);
        if (prediction) est[i] = blend(q, &list[i]);
        sum += est[i];
        if (est[i] > most) most = est[i];
    }
    c->mass = sum > 1 ? 1 : sum;
    bool under_guess = false;
    for (int32_t a = at; a > 0; a = q->c[a].draft.parent) under_guess |= q->c[a].draft.from == LS_FROM_LAST_LOGIT;
    for (int32_t i = 0; i < n && q->n < LS_FRONTIER_MAX; i++) {
        ls_candidate *k = &q->c[q->n];
        // At most one child is right, so the probabilities must sum to at most 1. Blended estimates may exceed 1: then
        // keep the most likely child, whose estimate is the most reliable, and scale down the others.
        double p = est[i];
        if (prediction && sum > 1 && p < most) p *= (1 - most) / (sum - most);
        const int32_t seen = prediction ? draft_row_child(q->draft_rows, c->draft_row, list[i].draft.token) : -1;
        const bool stays = q->drawn && seen >= 0;
        const double path = c->path * p * DEEPER;
        if (q->s->costs && !stays && path < LEAST) continue;
        if (q->named_only && list[i].m_p < 0) continue;
        *k = list[i];
        k->draft.parent = (int16_t)at;
        k->draft.from = (uint8_t)source_of(k, under_guess);
        k->draft.rank = k->draft.from == LS_FROM_LAST_LOGIT ? (int16_t)k->f.last_rank : -1;
        k->draft.est_p = (float)p;
        k->path = path;
        k->draft_row = seen;
        ls_frontier_push(&q->open, q->n++, stays ? 2 : k->path); // 2: before every probability
    }
}

ls_search *ls_search_of(const ls_searcher *d, const ls_draft_state *s) {
    static _Thread_local ls_search q; // too large for the stack
    q.e = &d->e;
    q.blend = NULL;
    q.draft_rows = NULL;
    q.s = s;
    q.named_only = q.drawn = false;
    return &q;
}

static void start_at_root(ls_search *q) {
    q->c[0] = (ls_candidate){.draft = {.token = q->s->root, .parent = -1, .match_pos = -1, .rank = -1},
                             .draft_row = q->draft_rows && q->draft_rows->n ? 0 : -1,
                             .path = 1};
    q->n = 1;
    q->n_taken = 0;
    q->open.n = 0;
}

void ls_search_run(ls_search *q, int32_t max_rows) {
    const int32_t context = (int32_t)q->s->n_context;
    start_at_root(q);
    for (int32_t at = 0; at >= 0; at = ls_frontier_pop(&q->open, NULL)) {
        const int32_t n = q->n_taken;
        const bool stays = q->drawn && q->c[at].draft_row >= 0;
        if (n && q->s->costs && !stays && !ls_cost_may_pay(q->s->costs, q->c[at].path, n, context)) break;
        q->taken[q->n_taken++] = at;
        if (q->n_taken == max_rows) break;
        expand(q, at);
    }
}

void ls_search_levels(ls_search *q, int32_t max_rows, int32_t children) {
    const ls_draft_rows *s = q->draft_rows;
    int32_t at_of[LS_MAX_PREDICTIONS] = {0}, first[LS_MAX_PREDICTIONS], end[LS_MAX_PREDICTIONS];
    start_at_root(q);
    for (int32_t r = 0; r < s->n; r++) { // parents come first
        const ls_candidate *up = &q->c[at_of[r]];
        first[r] = q->n;
        for (int32_t k = 0; k < LS_PREDICTION_TOP && k < children && s->predictions[r].id[k] >= 0; k++, q->n++) {
            const float p = s->predictions[r].p[k];
            const int32_t seen = draft_row_child(s, r, s->predictions[r].id[k]);
            q->c[q->n] = (ls_candidate){.draft = {.token = s->predictions[r].id[k],
                                                  .parent = (int16_t)at_of[r],
                                                  .from = LS_FROM_DRAFT_MODEL,
                                                  .rank = -1,
                                                  .key = -1,
                                                  .match_pos = -1,
                                                  .draft_p = p,
                                                  .est_p = p},
                                        .m_rank = k,
                                        .m_p = p,
                                        .draft_row = seen,
                                        .path = up->path * (double)p};
            if (seen >= 0) at_of[seen] = q->n;
        }
        end[r] = q->n;
    }
    for (int32_t at = 0; at >= 0; at = ls_frontier_pop(&q->open, NULL)) {
        const int32_t n = q->n_taken, row = q->c[at].draft_row;
        const bool stays = q->drawn && row >= 0;
        if (n && q->s->costs && !stays && !ls_cost_may_pay(q->s->costs, q->c[at].path, n, (int32_t)q->s->n_context))
            break;
        q->taken[q->n_taken++] = at;
        if (q->n_taken == max_rows) break;
        for (int32_t i = row < 0 ? 0 : first[row]; row >= 0 && i < end[row]; i++)
            ls_frontier_push(&q->open, i, q->drawn && q->c[i].draft_row >= 0 ? 2 : q->c[i].path);
    }
}

void ls_search_tree(const ls_search *q, ls_tree *tree) {
    ls_draft drafts[LS_MAX_ROWS];
    int16_t row[LS_FRONTIER_MAX];
    for (int32_t i = 0; i < q->n_taken; i++) {
        const ls_candidate *c = &q->c[q->taken[i]];
        row[q->taken[i]] = (int16_t)i;
        drafts[i] = c->draft;
        if (i) drafts[i].parent = row[c->draft.parent];
        drafts[i].prediction = (int16_t)(c->draft_row + 1);
    }
    ls_tree_lay_out(tree, drafts, q->n_taken);
    for (int32_t i = 0; q->draft_rows && i < q->draft_rows->n; i++)
        tree->predictions[tree->n_predictions++] = q->draft_rows->predictions[i];
}

ls_knowledge ls_search_knows(ls_search *q, const ls_draft_question *k) {
    const ls_draft_state *s = k->state;
    int32_t path[LS_MAX_ROWS], tail[LS_POOL_ORDER];
    bool has = false;
    q->n = ls_tree_path(k->tree, k->row, path);
    q->open.n = 0;
    for (int32_t i = 0; i < q->n; i++) {
        const ls_draft *row = &k->tree->nodes[path[i]].draft;
        q->c[i] = (ls_candidate){.draft = *row, .draft_row = row->prediction - 1, .path = 1};
        q->c[i].draft.parent = (int16_t)(i - 1);
    }
    const int32_t first = q->n;
    expand(q, first - 1);
    for (int32_t i = first; i < q->n; i++)
        if (q->c[i].draft.token == k->token) return LS_KNOWS_IT;
    const int32_t n = ls_question_tail(k, tail, LS_POOL_ORDER);
    if (q->e->retrieved) ls_pool_ask(&q->e->pool, s->context, tail, (size_t)n, k->token, &has);
    if (has) return LS_KNOWS_HIDDEN;
    if (!k->row && q->e->last_logit && k->token != s->root) return LS_KNOWS_BEYOND;
    return q->n > first ? LS_KNOWS_OTHERS : LS_KNOWS_NOTHING;
}
