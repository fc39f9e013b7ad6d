#include "spec/draft_logitspec.h"
#include "base/mem.h"
#include "spec/frontier.h"
#include "spec/pool.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_CANDIDATES = LS_FRONTIER_MAX,
    MAX_GUESSES = LS_MAX_ROWS - 1,
    MAX_CHILDREN = MAX_GUESSES + LS_ROW_TOP + 2,
    MAX_AGREE = 16
};
static const double LEAST = 1e-5; // sized trees: a path less likely than this is not worth a row, however cheap

typedef struct {
    ls_drafter base;
    ls_pool pool;
    ls_successors successors;
    ls_rates rates;
    bool retrieved, remembered, last_logit; // the sources that are in use
} drafter;

// A possible row. Those that were taken form the tree.
typedef struct {
    ls_draft draft; // its parent is a candidate
    ls_features f;
    double path; // chance of the whole path
} candidate;

typedef struct {
    const drafter *d;
    const ls_draft_state *s;
    candidate c[MAX_CANDIDATES + MAX_CHILDREN]; // the last of them while a row's children are collected
    int32_t n;
    ls_frontier open;
} search;

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset) ls_pool_clear(&d->pool); // rates and remembered choices are about the model, and stay
    ls_pool_update(&d->pool, context, n);
}

// The last `most` tokens up to and including candidate c; returns how many there are.
static int32_t tail_of(const search *q, int32_t c, int32_t *tail, int32_t most) {
    int32_t n = 0;
    for (; c >= 0 && n < most; c = q->c[c].draft.parent) tail[most - ++n] = q->c[c].draft.token;
    for (size_t i = q->s->n_context; i > 0 && n < most; i--) tail[most - ++n] = q->s->context[i - 1];
    memmove(tail, tail + most - n, (size_t)n * sizeof *tail);
    return n;
}

// Among the children of a row, list[0..*n): the one with that token, or a new one.
static candidate *child_of(candidate *list, int32_t *n, int32_t token) {
    for (int32_t i = 0; i < *n; i++)
        if (list[i].draft.token == token) return &list[i];
    list[*n] = (candidate){.draft = {.token = token, .match_pos = -1}, .f = {.succ_rank = -1, .last_rank = -1}};
    return &list[(*n)++];
}

static void add_copy(const search *q, candidate *list, int32_t *n, int32_t match_n, int32_t pos, const int32_t *tail,
                     int32_t n_tail) {
    int32_t agree = 0;
    while (agree < n_tail && agree < pos && q->s->context[pos - 1 - agree] == tail[n_tail - 1 - agree]) agree++;
    candidate *c = child_of(list, n, q->s->context[pos]);
    if (agree <= c->f.agree) return;
    c->f.agree = agree;
    c->draft.match_n = (int16_t)match_n;
    c->draft.match_pos = pos;
}

// The other tokens of the last logits, with their share of what is left beside the root.
static void add_guesses(const ls_draft_state *s, candidate *list, int32_t *n) {
    float root_p = 0;
    for (int32_t r = 0; r < s->n_top; r++)
        if (s->top_ids[r] == s->root) root_p = s->top_p[r];
    for (int32_t r = 0, guesses = 0; r < s->n_top && guesses < MAX_GUESSES; r++) {
        if (s->top_ids[r] == s->root) continue;
        candidate *c = child_of(list, n, s->top_ids[r]);
        c->f.last_rank = r;
        c->f.last_p = s->top_p[r] / (1 - root_p + 1e-6f);
        guesses++;
    }
}

// What the target said there the last time; *pair: after the same two tokens, else after the last one.
static const ls_successor *remembered_after(const drafter *d, const int32_t *tail, int32_t n, bool *pair) {
    const ls_successor *s = d->remembered && n > 1 ? ls_successors_get(&d->successors, tail[n - 2], tail[n - 1]) : NULL;
    *pair = s != NULL;
    return s || !d->remembered ? s : ls_successors_get(&d->successors, -1, tail[n - 1]);
}

// What may follow candidate `at`: what followed the same tokens before, what the target said there before, and, after
// the root, the other tokens of the last logits.
static void expand(search *q, int32_t at) {
    candidate *list = &q->c[q->n];
    int32_t n = 0, tail[MAX_AGREE];
    const candidate *c = &q->c[at];
    const int32_t n_tail = tail_of(q, at, tail, MAX_AGREE);
    if (c->draft.match_pos >= 0 && (size_t)c->draft.match_pos + 1 < q->s->n_context)
        add_copy(q, list, &n, c->draft.match_n, c->draft.match_pos + 1, tail, n_tail); // the copy goes on
    const ls_match m = q->d->retrieved ? ls_pool_find(&q->d->pool, tail, (size_t)n_tail) : (ls_match){0};
    if (m.n) add_copy(q, list, &n, m.n, m.pos, tail, n_tail);
    bool pair;
    const ls_successor *known = remembered_after(q->d, tail, n_tail, &pair);
    for (int32_t i = 0; known && i < LS_ROW_TOP && known->id[i] >= 0; i++) {
        candidate *k = child_of(list, &n, known->id[i]);
        k->f.succ_rank = i;
        k->f.succ_p = known->p[i];
    }
    if (at == 0 && q->d->last_logit) add_guesses(q->s, list, &n);
    double est[MAX_CHILDREN], sum = 0;
    for (int32_t i = 0; i < n; i++) {
        list[i].f.known = known != NULL;
        list[i].f.pair = pair;
        list[i].draft.key = (int16_t)ls_rate_key(&list[i].f);
        sum += est[i] = ls_rate(&q->d->rates, list[i].draft.key);
    }
    bool under_guess = false;
    for (int32_t a = at; a > 0; a = q->c[a].draft.parent) under_guess |= q->c[a].draft.from == LS_FROM_LAST_LOGIT;
    for (int32_t i = 0; i < n && q->n < MAX_CANDIDATES; i++) {
        candidate *k = &q->c[q->n];
        const double p = sum > 1 ? est[i] / sum : est[i]; // one of them at most comes true
        if (q->s->costs && c->path * p < LEAST) continue;
        *k = list[i];
        k->draft.parent = (int16_t)at;
        k->draft.from = k->f.agree            ? (under_guess ? LS_FROM_GUESS_TAIL : LS_FROM_RETRIEVED)
                        : k->f.succ_rank >= 0 ? LS_FROM_REMEMBERED
                                              : LS_FROM_LAST_LOGIT;
        k->draft.rank = k->draft.from == LS_FROM_LAST_LOGIT ? (int16_t)k->f.last_rank : -1;
        k->draft.est_p = (float)p;
        k->path = c->path * p;
        ls_frontier_push(&q->open, q->n++, k->path);
    }
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    static _Thread_local search q; // large, and used here only
    ls_draft taken[LS_MAX_ROWS];
    int16_t row[MAX_CANDIDATES];
    int32_t n = 0;
    q.d = (const drafter *)base;
    q.s = s;
    q.c[0] = (candidate){.draft = {.token = s->root, .parent = -1, .match_pos = -1, .rank = -1}, .path = 1};
    q.n = 1;
    q.open.n = 0;
    const int32_t context = (int32_t)s->n_context;
    for (int32_t at = 0; at >= 0; at = ls_frontier_pop(&q.open, NULL)) {
        const candidate *c = &q.c[at];
        if (n && s->costs && !ls_cost_may_pay(s->costs, c->path, n, context)) break;
        row[at] = (int16_t)n;
        taken[n] = c->draft;
        if (n) taken[n].parent = row[c->draft.parent];
        if (++n == budget) break;
        expand(&q, at);
    }
    ls_tree_lay_out(tree, taken, n);
}

static bool among(const int32_t *ids, int32_t n, int32_t id) {
    int32_t i = 0;
    while (i < n && ids[i] != id) i++;
    return i < n;
}

// Asks the sources of `expand` one by one, then what these pass over: shorter n-grams, and what was remembered of the
// last token alone.
static ls_knowledge knows(const ls_drafter *base, const ls_draft_question *q) {
    const drafter *d = (const drafter *)base;
    const ls_draft_state *s = q->state;
    const size_t copied = (size_t)(q->tree->nodes[q->row].match_pos + 1); // what the row was copied from goes on there
    int32_t tail[LS_POOL_ORDER];
    const int32_t n = ls_draft_tail(s, q->tree, q->row, tail, LS_POOL_ORDER);
    const bool copies = copied > 0 && copied < s->n_context, guesses = !q->row && d->last_logit && q->token != s->root;
    bool pair, has = false;
    const ls_match m = d->retrieved ? ls_pool_find(&d->pool, tail, (size_t)n) : (ls_match){0};
    const ls_successor *known = remembered_after(d, tail, n, &pair);
    if ((copies && s->context[copied] == q->token) || (m.n && s->context[m.pos] == q->token) ||
        (known && among(known->id, LS_ROW_TOP, q->token)) || (guesses && among(s->top_ids, s->n_top, q->token)))
        return LS_KNOWS_IT;
    if (d->retrieved) ls_pool_ask(&d->pool, s->context, tail, (size_t)n, q->token, &has);
    const ls_successor *one = pair ? ls_successors_get(&d->successors, -1, tail[n - 1]) : NULL;
    if (has || (one && among(one->id, LS_ROW_TOP, q->token))) return LS_KNOWS_HIDDEN;
    return guesses ? LS_KNOWS_BEYOND : copies || m.n || known ? LS_KNOWS_OTHERS : LS_KNOWS_NOTHING;
}

// before: the token before the row's; -1: none.
static void remember(drafter *d, int32_t before, int32_t token, const ls_node *row) {
    if (!d->remembered) return;
    const ls_successor said = ls_successors_of(row);
    if (before >= 0) ls_successors_put(&d->successors, before, token, &said);
    ls_successors_put(&d->successors, -1, token, &said);
}

static void learn(ls_drafter *base, const ls_draft_result *r) {
    drafter *d = (drafter *)base;
    const ls_tree *t = r->tree;
    for (int32_t i = 0; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        if (i && n->state != LS_NODE_NOT_REACHED) ls_rates_learn(&d->rates, n->key, n->state == LS_NODE_ACCEPTED);
        const int32_t before = i ? t->nodes[n->parent].token : r->n_context ? r->context[r->n_context - 1] : -1;
        remember(d, before, n->token, n);
    }
}

static void read_prompt(ls_drafter *base, const int32_t *context, size_t at, size_t n, const ls_node *rows) {
    drafter *d = (drafter *)base;
    for (size_t i = at; i < at + n; i++) remember(d, i ? context[i - 1] : -1, context[i], &rows[i - at]);
}

static int32_t pool_size(const ls_drafter *base) {
    return ls_pool_size(&((const drafter *)base)->pool);
}

static size_t bytes(const ls_drafter *base) {
    const drafter *d = (const drafter *)base;
    return sizeof *d + ls_pool_bytes(&d->pool) + ls_successors_bytes(&d->successors);
}

static void free_drafter(ls_drafter *base) {
    drafter *d = (drafter *)base;
    ls_pool_free(&d->pool);
    ls_successors_free(&d->successors);
    free(d);
}

enum { MEMORY, READ, RETRIEVED, REMEMBERED, LAST_LOGIT };
static const ls_knob knobs[] = {
    [MEMORY] = {"logitspec.memory", LS_KNOB_INT, 32, 1, 4096,
                "megabytes of remembered choices at most; the oldest are forgotten"},
    [READ] = {"logitspec.read_prompt", LS_KNOB_NUMBER, 0.01, 0, 1000,
              "learn from the prompt's rows too, where that costs at most this share of the answer's time"},
    [RETRIEVED] = {"logitspec.retrieved", LS_KNOB_SWITCH, 1, 0, 1, "copies of what followed the same tokens before"},
    [REMEMBERED] = {"logitspec.remembered", LS_KNOB_SWITCH, 1, 0, 1,
                    "what the target said after the same tokens before"},
    [LAST_LOGIT] = {"logitspec.last_logit", LS_KNOB_SWITCH, 1, 0, 1, "the other tokens of the last logits"},
    {0},
};

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)err;
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){.observe = observe,
                           .propose = propose,
                           .learn = learn,
                           .knows = knows,
                           .read = read_prompt,
                           .pool_size = pool_size,
                           .bytes = bytes,
                           .free = free_drafter};
    d->pool = (ls_pool){.order = LS_POOL_ORDER, .span = LS_POOL_SPAN};
    d->successors.limit = (size_t)setup->knobs[MEMORY].number << 20;
    d->retrieved = setup->knobs[RETRIEVED].number != 0;
    d->remembered = setup->knobs[REMEMBERED].number != 0;
    d->base.read_share = d->remembered ? setup->knobs[READ].number : 0; // nothing else is learnt from a prompt's rows
    d->last_logit = setup->knobs[LAST_LOGIT].number != 0;
    ls_rates_init(&d->rates);
    *out = &d->base;
    return LS_OK;
}

const ls_method ls_method_logitspec = {
    .name = "logitspec",
    .summary = "LogitSpec and remembered choices in a best-first tree, sized by measured cost",
    .source = "after arXiv 2507.01449; the tree and the estimates are this program's own",
    .rows = 64,
    .sized = true,
    .scored = true,
    .knobs = knobs,
    .make = make,
};

const ls_rates *ls_draft_logitspec_rates(const ls_drafter *d) {
    return &((const drafter *)d)->rates;
}
