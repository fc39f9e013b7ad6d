#include "spec/search.h"

#include <math.h>
#include <string.h>

// ---- evidence

static const double LEARNING = 0.01; // learning rate of the rates, per candidate
static const float SMALL = 0.001f;   // an error that is not worth learning from
_Static_assert((int)LS_POOL_ORDER >= (int)LS_SUCCESSORS_ORDER, "one tail serves n-grams and remembered tokens");

void ls_searcher_observe(ls_drafter *d, const int32_t *context, size_t n, bool reset) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    if (reset)
        ls_pool_clear(&e->pool); // rates and remembered choices depend on the model, not on the text, and are kept
    ls_pool_update(&e->pool, context, n);
    ls_usage_observe(&e->usage, context, n, reset);
}

// The target's predictions the last time after the last `order` tokens of tail[0..n); NULL: none.
static const ls_successor *remembered(const ls_evidence *e, const int32_t *tail, int32_t n, int32_t order) {
    return e->remembered && n >= order ? ls_successors_get(&e->successors, tail + n - order, order) : NULL;
}

// Evidence is seldom in the caches: since the last step a forward read the weights. So what was remembered after
// tail[0..n), at most LS_SUCCESSORS_ORDER tokens, is fetched before it is read, in two steps with other work between
// them.
static void fetch(const ls_evidence *e, const int32_t *tail, int32_t n) {
    ls_successors_fetch(&e->successors, tail, n);
    __builtin_prefetch(ls_usage_of(&e->usage, tail[n - 1]));
}

static void fetch_entries(const ls_evidence *e, const int32_t *tail, int32_t n) {
    ls_successors_fetch_entries(&e->successors, tail, n);
    const char *average = (const char *)ls_usage_average(&e->usage, tail[n - 1]);
    for (size_t i = 0; average && i < sizeof(ls_average); i += 64) __builtin_prefetch(average + i);
}

void ls_evidence_remember(ls_evidence *e, const int32_t *tail, int32_t n, int32_t at, const ls_successor *next) {
    for (int32_t order = 1; order <= n; order++) ls_successors_put(&e->successors, tail + n - order, order, next);
    ls_usage_add(&e->usage, tail[n - 1], at, next);
}

static void learn_trials(void *ud, const ls_child *children, int32_t n, int32_t came) {
    ls_evidence *e = ud;
    for (int32_t i = 0; i < n; i++) {
        const float error = (float)(children[i].token == came) - children[i].p;
        if (!children[i].looked || fabsf(error) < SMALL) continue;
        ls_rates_learn(&e->rates, children[i].view, (double)error, LEARNING);
        ls_usage_bias(&e->usage, children[i].token, (float)LEARNING * error);
    }
}

void ls_searcher_learn(ls_drafter *d, const ls_draft_result *r) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    const ls_tree *t = r->tree;
    const ls_draft_state *s = r->state;
    int32_t tail[LS_MAX_ROWS][LS_SUCCESSORS_ORDER], n_tail[LS_MAX_ROWS];
    if (s->top_ids) ls_search_trials(ls_search_of((ls_searcher *)d, s), t, learn_trials, e);
    const int32_t n_rows = e->remembered ? t->n : 0;
    for (int32_t i = 0; i < n_rows; i++) {
        n_tail[i] = ls_draft_tail(s, t->nodes, sizeof *t->nodes, i, tail[i], LS_SUCCESSORS_ORDER);
        fetch(e, tail[i], n_tail[i]);
    }
    for (int32_t i = 0; i < n_rows; i++) fetch_entries(e, tail[i], n_tail[i]);
    for (int32_t i = 0; i < n_rows; i++) {
        const ls_node *n = &t->nodes[i];
        const int32_t at = n->state == LS_NODE_ACCEPTED ? (int32_t)s->n_context + n->depth + 1 : -1;
        const ls_successor next = ls_successors_of(n);
        ls_evidence_remember(e, tail[i], n_tail[i], at, &next);
    }
}

void ls_searcher_read(ls_drafter *d, const int32_t *context, size_t at, size_t n, const ls_node *rows) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    for (size_t i = at; i < at + n && e->remembered; i++) {
        const int32_t most = i + 1 < LS_SUCCESSORS_ORDER ? (int32_t)i + 1 : LS_SUCCESSORS_ORDER;
        const ls_successor next = ls_successors_of(&rows[i - at]);
        ls_evidence_remember(e, context + i + 1 - most, most, (int32_t)i + 1, &next);
    }
}

void ls_searcher_arrays(void *d, ls_memory_visit *v) {
    ls_evidence *e = &((ls_searcher *)d)->e;
    ls_pool_arrays(&e->pool, v);
    ls_successors_arrays(&e->successors, v);
    ls_usage_arrays(&e->usage, v);
}

int32_t ls_searcher_pool_size(const ls_drafter *d) {
    return ls_pool_size(&((const ls_searcher *)d)->e.pool);
}

void ls_searcher_set_up(ls_searcher *s, size_t memory) {
    s->e.pool = (ls_pool){.order = LS_POOL_ORDER, .span = LS_POOL_SPAN};
    s->e.successors.limit = memory;
    ls_rates_init(&s->e.rates);
}

// ---- the search

enum { MAX_AGREE = 16 };
// Factor of a path's probability for each row: the search prefers the candidates whose probability it overestimates, so
// a deep path is less likely than the product of its estimates.
static const double DEEPER = 0.9;
// What is not looked at, because it would hardly get a row. Fixed trees: a row's path probability is at least SHARE
// divided by the rows.
static const double SHARE = 0.05, LIKELY = 0.1;
static const double ANYWHERE = 0.01;   // probability of a token from anywhere, after a path of at least LIKELY
static const double RARE_SHARE = 0.6;  // least path probability of an averaged token, in shares
static const double GUESS_SHARE = 0.2; // least share of a guess in the last logits, in shares
static const double RARE = 0.001;      // the same of sized trees
static const float FAINT = 0.003f;
static const double LEAST = 1e-5; // sized trees: least path probability of a row, at any cost

static void no_children(ls_search *q) {
    if (!++q->round) { // the counter wrapped around: slots may seem to be of this round
        memset(q->slot, 0, sizeof q->slot);
        q->round = 1;
    }
    q->n_children = 0;
}

// Finds the child with that token, or appends a new one.
static ls_child *child_of(ls_search *q, int32_t token) {
    static const ls_child none = {
        .match_pos = -1,
        .m_p = -1,
        .f = {.remembered = {{.rank = -1}, {.rank = -1}, {.rank = -1}}, .last_rank = -1, .average_rank = -1}};
    uint32_t i = (uint32_t)token * 0x9E3779B1u >> 22;
    _Static_assert(LS_SEARCH_SLOTS == 1 << 10 && LS_SEARCH_CHILDREN < LS_SEARCH_SLOTS / 2, "a slot for each hash");
    for (; q->slot[i].round == q->round; i = (i + 1) % LS_SEARCH_SLOTS)
        if (q->child[q->slot[i].at].token == token) return &q->child[q->slot[i].at];
    q->slot[i].round = q->round;
    q->slot[i].at = (uint16_t)q->n_children;
    __builtin_prefetch(ls_usage_of(&q->e->usage, token));
    ls_child *c = &q->child[q->n_children++];
    *c = none;
    c->token = token;
    return c;
}

static ls_child *looked_up(ls_search *q, int32_t token) {
    ls_child *c = child_of(q, token);
    c->looked = true;
    return c;
}

static void add_copy(ls_search *q, int32_t match_n, int32_t pos, const int32_t *tail, int32_t n_tail) {
    int32_t agree = 0;
    while (agree < n_tail && agree < pos && q->s->context[pos - 1 - agree] == tail[n_tail - 1 - agree]) agree++;
    ls_child *c = looked_up(q, q->s->context[pos]);
    if (agree <= c->f.agree) return;
    c->f.agree = (uint8_t)agree;
    c->match_n = (int16_t)match_n;
    c->match_pos = pos;
}

// Adds the other tokens of the last logits. Their probability is renormalised without the root's token, because the
// root has been chosen.
static void add_guesses(ls_search *q) {
    const ls_draft_state *s = q->s;
    const float least = s->costs ? FAINT : (float)(GUESS_SHARE * SHARE / q->max_rows);
    float root_p = 0;
    for (int32_t r = 0; r < s->n_top; r++)
        if (s->top_ids[r] == s->root) root_p = s->top_p[r];
    for (int32_t r = 0, guesses = 0; r < s->n_top && guesses < LS_SEARCH_GUESSES; r++) {
        if (s->top_ids[r] == s->root) continue;
        if (s->top_p[r] < least * (1 - root_p)) break;
        ls_child *c = looked_up(q, s->top_ids[r]);
        c->f.last_rank = (int16_t)r;
        c->f.last_p = s->top_p[r] / (1 - root_p + 1e-6f);
        guesses++;
    }
}

static void add_prediction(ls_search *q, const ls_prediction *prediction) {
    float least = 0;
    for (int32_t r = 0; r < LS_PREDICTION_TOP && prediction->id[r] >= 0; r++)
        child_of(q, prediction->id[r])->m_p = least = prediction->p[r];
    if (prediction->chosen < 0) return;
    ls_child *c = child_of(q, prediction->chosen);
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

static bool is_remembered(const ls_child *c) {
    bool is = false;
    for (int32_t i = 0; i < LS_SUCCESSORS_ORDER; i++) is |= c->f.remembered[i].rank >= 0;
    return is;
}

// Whether a token from anywhere may get a row after that path.
static bool looks_anywhere(const ls_search *q, double path) {
    const double p = path * ANYWHERE;
    if (path < LIKELY) return false;
    return q->s->costs ? ls_cost_may_pay(q->s->costs, p, 1, (int32_t)q->s->n_context) : p * q->max_rows >= SHARE;
}

// Adds the best tokens of the average after candidate `at`, and after likely rows the target's best tokens of the last
// rows and the most frequent tokens. Returns the number of rows of the average.
static uint8_t add_usage(ls_search *q, int32_t at) {
    const ls_usage *u = &q->e->usage;
    const int32_t token = q->c[at].draft.token;
    const ls_average *a = q->e->remembered ? ls_usage_average(u, token) : NULL;
    const uint8_t rows = a ? ls_usage_of(u, token)->average_rows : 0;
    const double path = q->c[at].path, rare = q->s->costs ? RARE : RARE_SHARE * SHARE / q->max_rows;
    for (int32_t i = 0; a && i < LS_AVERAGE_TOP && a->id[i] >= 0 && path * (double)a->p[i] >= rare; i++) {
        ls_features *f = &looked_up(q, a->id[i])->f;
        f->average_rank = (int8_t)i;
        f->average_p = a->p[i];
    }
    if (!looks_anywhere(q, path)) return rows;
    for (int32_t r = 2; q->e->remembered && r <= LS_USAGE_ROWS && r <= u->n_recent; r++) // the last row: add_guesses
        for (int32_t i = 0; i < LS_ROW_TOP; i++) {
            const int32_t id = u->recent[(u->n_recent - r) % LS_USAGE_ROWS][i];
            if (id >= 0) looked_up(q, id);
        }
    for (int32_t i = 0; q->e->retrieved && i < u->n_frequent; i++) looked_up(q, u->frequent[i]);
    return rows;
}

// A child's odds by look-ups. here: its position.
static double look_up(const ls_search *q, ls_child *c, int32_t here) {
    const ls_token_usage *u = ls_usage_of(&q->e->usage, c->token);
    if (!c->looked) return 0;
    if (u && u->conversation == q->e->usage.conversation) {
        c->f.ago = u->last ? here + 1 - u->last : 0;
        c->f.count = u->count;
        if (u->listed_at && q->e->remembered) {
            c->f.listed_ago = here - u->listed_at;
            c->f.listed_rank = u->listed_rank;
            c->f.listed_p = u->listed_p;
        }
    }
    ls_rate_views(&c->f, c->view);
    c->bias = u ? u->bias : 0;
    return ls_rate_odds(&q->e->rates, c->view, c->bias);
}

// A child's probability if a draft model saw its parent; stores the key by which ls_blend_learn counts it.
static double blend(const ls_search *q, ls_child *c) {
    const ls_blend_input v = {c->m_p, c->m_chosen, c->looked ? (double)c->p : -1};
    c->kind = (int16_t)(ls_blend_key(&v) + 1);
    return ls_blend_rate(q->blend, &v);
}

static ls_draft_source source_of(const ls_child *c, bool under_guess) {
    if (c->m_p >= 0 && (!c->looked || c->m_p > c->p)) return LS_SOURCE_DRAFT_MODEL;
    if (c->f.agree) return under_guess ? LS_SOURCE_GUESS_TAIL : LS_SOURCE_RETRIEVED;
    if (is_remembered(c)) return LS_SOURCE_REMEMBERED;
    if (c->f.last_rank >= 0) return LS_SOURCE_LAST_LOGIT;
    return c->f.average_rank >= 0 || c->f.listed_ago ? LS_SOURCE_REMEMBERED : LS_SOURCE_HISTORY;
}

// Collects the possible children of candidate `at` in q->child: copies of the tokens that followed the same tokens
// before, the target's earlier predictions, tokens by their usage, the draft model's prediction, and after the root the
// other tokens of the last logits. Sets their probabilities by look-ups, and est to all probabilities.
static void collect(ls_search *q, int32_t at) {
    int32_t tail[MAX_AGREE], depth = 0;
    const ls_candidate *c = &q->c[at];
    const int32_t n_tail = ls_draft_tail(q->s, q->c, sizeof *q->c, at, tail, MAX_AGREE);
    no_children(q);

    if (q->e->retrieved && c->draft.match_pos >= 0 && (size_t)c->draft.match_pos + 1 < q->s->n_context)
        add_copy(q, c->draft.match_n, c->draft.match_pos + 1, tail, n_tail); // continue the parent's copy
    const ls_match m = q->e->retrieved ? ls_pool_find(&q->e->pool, tail, (size_t)n_tail) : (ls_match){0};
    if (m.n) add_copy(q, m.n, m.pos, tail, n_tail);
    const bool copies = q->n_children > 0;
    bool known[LS_SUCCESSORS_ORDER];
    for (int32_t order = LS_SUCCESSORS_ORDER; order > 0; order--) {
        const ls_successor *next = remembered(q->e, tail, n_tail, order);
        known[order - 1] = next != NULL;
        for (int32_t i = 0; next && i < LS_ROW_TOP && next->id[i] >= 0; i++) {
            ls_child *k = looked_up(q, next->id[i]);
            k->f.remembered[order - 1].rank = (int16_t)i;
            k->f.remembered[order - 1].p = ls_successor_p(next, i);
        }
    }
    if (at == 0 && q->e->last_logit) add_guesses(q);
    const uint8_t average_rows = add_usage(q, at);
    const ls_prediction *prediction = prediction_after(q, at);
    if (prediction) add_prediction(q, prediction);
    for (int32_t a = at; a >= 0; a = q->c[a].draft.parent) depth++;
    const int32_t from = c->draft.match_pos; // what the parent was copied from
    const bool last = at == 0 && q->e->last_logit && q->s->n_top > 0;
    double odds = 0;
    for (int32_t i = 0; i < q->n_children; i++) {
        ls_child *k = &q->child[i];
        ls_features *f = &k->f;
        f->copies = copies;
        f->place = at == 0                                 ? LS_PLACE_FIRST
                   : from >= 0 && k->match_pos == from + 1 ? LS_PLACE_ON
                   : from >= 0                             ? LS_PLACE_JUMP
                                                           : LS_PLACE_NEW;
        f->last = last;
        f->average_rows = average_rows;
        for (int32_t j = 0; j < LS_SUCCESSORS_ORDER; j++) f->remembered[j].known = known[j];
        odds += q->est[i] = look_up(q, k, (int32_t)q->s->n_context + depth);
    }
    for (int32_t i = 0; i < q->n_children; i++) {
        q->child[i].p = (float)(q->est[i] /= 1 + odds);
        if (prediction) q->est[i] = blend(q, &q->child[i]);
    }
}

static bool open_candidate(ls_search *q, int32_t item, double path) {
    return ls_open_add(&q->open, q->max_rows - q->n_taken, item, path);
}

// Fetches what the search reads if it expands candidate `at`.
static void fetch_after(const ls_search *q, int32_t at) {
    int32_t tail[LS_SUCCESSORS_ORDER];
    const int32_t n = ls_draft_tail(q->s, q->c, sizeof *q->c, at, tail, LS_SUCCESSORS_ORDER);
    ls_pool_fetch(&q->e->pool, tail, (size_t)n);
    fetch(q->e, tail, n);
}

static void fetch_entries_after(const ls_search *q, int32_t at) {
    int32_t tail[LS_SUCCESSORS_ORDER];
    fetch_entries(q->e, tail, ls_draft_tail(q->s, q->c, sizeof *q->c, at, tail, LS_SUCCESSORS_ORDER));
}

static int32_t most_likely(ls_search *q) { // -1: none is open
    ls_open *o = &q->open;
    if (!o->n) return -1;
    if (o->n > 1) fetch_entries_after(q, o->item[o->n - 2]); // the next one, unless a child of this one is
    return o->item[--o->n];
}

// Opens the children of candidate `at`.
static void expand(ls_search *q, int32_t at) {
    double sum = 0, most = 0;
    const ls_open *o = &q->open;
    // no child can be likely enough (the draft model reads `mass`)
    if (!q->draft_rows && o->n && o->n >= q->max_rows - q->n_taken && q->c[at].path * DEEPER <= o->path[0]) return;
    collect(q, at);
    const bool prediction = prediction_after(q, at) != NULL;
    for (int32_t i = 0; i < q->n_children; i++) {
        sum += q->est[i];
        if (q->est[i] > most) most = q->est[i];
    }
    q->c[at].mass = sum > 1 ? 1 : sum;
    bool under_guess = false;
    for (int32_t a = at; a > 0; a = q->c[a].draft.parent) under_guess |= q->c[a].draft.from == LS_SOURCE_LAST_LOGIT;
    for (int32_t i = 0; i < q->n_children && q->n < LS_CANDIDATES; i++) {
        const ls_child *k = &q->child[i];
        // At most one child is right, so the probabilities must sum to at most 1. Blended estimates may exceed 1: then
        // keep the most likely child, whose estimate is the most reliable, and scale down the others.
        double p = q->est[i];
        if (prediction && sum > 1 && p < most) p *= (1 - most) / (sum - most);
        const int32_t seen = prediction ? draft_row_child(q->draft_rows, q->c[at].draft_row, k->token) : -1;
        const bool stays = q->drawn && seen >= 0;
        const double path = q->c[at].path * p * DEEPER;
        if (q->s->costs && !stays && path < LEAST) continue;
        if (q->named_only && k->m_p < 0) continue;
        if (!open_candidate(q, q->n, stays ? 2 : path)) continue; // 2: before every probability
        const ls_draft_source from = source_of(k, under_guess);
        q->c[q->n++] = (ls_candidate){.draft = {.token = k->token,
                                                .parent = (int16_t)at,
                                                .rank = from == LS_SOURCE_LAST_LOGIT ? k->f.last_rank : -1,
                                                .match_n = k->match_n,
                                                .kind = k->kind,
                                                .from = (uint8_t)from,
                                                .match_pos = k->match_pos,
                                                .draft_p = prediction && k->m_p > 0 ? k->m_p : 0,
                                                .est_p = (float)p},
                                      .draft_row = seen,
                                      .path = path};
        fetch_after(q, q->n - 1);
    }
}

ls_search *ls_search_of(const ls_searcher *d, const ls_draft_state *s) {
    static _Thread_local ls_search q; // too large for the stack
    q.e = &d->e;
    q.blend = NULL;
    q.draft_rows = NULL;
    q.s = s;
    q.named_only = q.drawn = false;
    q.children = 0;
    return &q;
}

// Adds the children of all rows that the draft model saw.
static void add_seen(ls_search *q) {
    const ls_draft_rows *s = q->draft_rows;
    int32_t at_of[LS_MAX_PREDICTIONS] = {0};
    for (int32_t r = 0; r < s->n; r++) { // parents come first
        q->first_child[r] = q->n;
        for (int32_t k = 0; k < LS_PREDICTION_TOP && k < q->children && s->predictions[r].id[k] >= 0; k++, q->n++) {
            const float p = s->predictions[r].p[k];
            const int32_t seen = draft_row_child(s, r, s->predictions[r].id[k]);
            q->c[q->n] = (ls_candidate){.draft = {.token = s->predictions[r].id[k],
                                                  .parent = (int16_t)at_of[r],
                                                  .from = LS_SOURCE_DRAFT_MODEL,
                                                  .rank = -1,
                                                  .match_pos = -1,
                                                  .draft_p = p,
                                                  .est_p = p},
                                        .draft_row = seen,
                                        .path = q->c[at_of[r]].path * (double)p};
            if (seen >= 0) at_of[seen] = q->n;
        }
    }
    q->first_child[s->n] = q->n;
}

static void open_seen(ls_search *q, int32_t at) {
    const int32_t row = q->c[at].draft_row;
    for (int32_t i = row < 0 ? 0 : q->first_child[row]; row >= 0 && i < q->first_child[row + 1]; i++)
        open_candidate(q, i, q->drawn && q->c[i].draft_row >= 0 ? 2 : q->c[i].path);
}

void ls_search_run(ls_search *q, int32_t max_rows) {
    q->c[0] = (ls_candidate){.draft = {.token = q->s->root, .parent = -1, .match_pos = -1, .rank = -1},
                             .draft_row = q->draft_rows && q->draft_rows->n ? 0 : -1,
                             .path = 1};
    q->n = 1;
    q->n_taken = 0;
    q->max_rows = max_rows;
    q->open.n = 0;
    if (q->children) add_seen(q);
    for (int32_t at = 0; at >= 0; at = most_likely(q)) {
        const int32_t n = q->n_taken;
        const bool stays = q->drawn && q->c[at].draft_row >= 0;
        if (n && q->s->costs && !stays && !ls_cost_may_pay(q->s->costs, q->c[at].path, n, (int32_t)q->s->n_context))
            break;
        q->taken[q->n_taken++] = at;
        if (q->n_taken == max_rows) break;
        if (q->children) open_seen(q, at);
        else expand(q, at);
    }
}

void ls_search_tree(const ls_search *q, ls_tree *tree) {
    ls_draft drafts[LS_MAX_ROWS];
    int16_t row[LS_CANDIDATES];
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

// Makes candidates of the rows from the root to `row`; returns the last one.
static int32_t follow(ls_search *q, const ls_tree *t, int32_t row, int32_t max_rows) {
    int32_t path[LS_MAX_ROWS];
    q->max_rows = max_rows;
    q->n = ls_tree_path(t, row, path);
    for (int32_t i = 0; i < q->n; i++) {
        const ls_draft *d = &t->nodes[path[i]].draft;
        q->c[i] = (ls_candidate){.draft = *d, .draft_row = d->prediction - 1, .path = 1};
        q->c[i].draft.parent = (int16_t)(i - 1);
        if (i) q->c[i].path = q->c[i - 1].path * (double)d->est_p * DEEPER;
    }
    return q->n - 1;
}

void ls_search_trials(ls_search *q, const ls_tree *t,
                      void (*each)(void *ud, const ls_child *children, int32_t n, int32_t came), void *ud) {
    int32_t end = 0;
    for (int32_t i = 1; i < t->n; i++)
        if (t->nodes[i].state == LS_NODE_ACCEPTED && t->nodes[i].depth > t->nodes[end].depth) end = i;
    const int32_t last = follow(q, t, end, t->n);
    for (int32_t at = 0; at <= last; at++) {
        const int32_t came = at < last ? q->c[at + 1].draft.token : t->nodes[end].target;
        if (came < 0) break;
        collect(q, at);
        each(ud, q->child, q->n_children, came);
    }
}

ls_miss ls_search_miss(ls_search *q, const ls_draft_question *k) {
    collect(q, follow(q, k->tree, k->row, LS_MAX_ROWS)); // what a tree of few rows does not look at is known, too
    for (int32_t i = 0; i < q->n_children; i++)
        if (q->child[i].token == k->token) return LS_MISS_NO_ROW;
    if (q->e->retrieved && ls_pool_miss(&q->e->pool, k, LS_MISS_NONE) == LS_MISS_TAKEN) return LS_MISS_TAKEN;
    if (!k->row && q->e->last_logit && k->token != k->state->root) return LS_MISS_BEYOND;
    return q->n_children ? LS_MISS_OTHERWISE : LS_MISS_UNKNOWN;
}
