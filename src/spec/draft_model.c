// A draft model drafts (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318): alone (`draft-model`), or
// together with LogitSpec's look-ups in one tree (`hybrid`, this program's own), or with drafts from look-ups
// (`hierarchical`, after Hierarchical Speculative Decoding, arXiv 2510.19705: look-ups draft for the draft model,
// which drafts for the target). The tree grows in rounds, as SpecInfer's (arXiv 2305.09781) grows in
// levels. Each round runs one forward of the draft model over the most likely rows that it has not seen, anywhere in
// the tree, and then rebuilds the tree, best first, from all sources, by acceptance rates. A sized tree takes another
// round only if it is expected to give more tokens per millisecond, by the measured costs of both models.
//
// `eagle3` grows the tree of EAGLE-2 and EAGLE-3 (arXiv 2406.16858, 2503.01840; the authors' program SafeAILab/EAGLE,
// cb7e084, topK_genrate) instead: a round runs the `draft.width` rows of the new level with the largest products of
// probabilities, each row has as many children, and the largest products of all are verified. As published: 60 rows,
// width 10, depth 5 (6 forwards, the root's included); the authors' Qwen3 script: 32 rows, width 4, depth 8. What
// differs: by default (`auto`) the tree is sized by cost, its depth up to 8, too; `--sizing paper` is as published. At
// temperature > 0 the program draws the root from its logits, as here, and drafts the same likeliest tokens.
//
// A round may have rows, found by look-ups, under rows of the same round. In `hierarchical` the draft model verifies
// them, and the target's tree has only rows that the draft model names. The paper accepts by random draws at each
// level and plans all lengths ahead from known rates. Here the draft model's probabilities enter the estimates, and
// each round is decided separately.
//
// While the target verifies a tree, the draft model may draft below it (PEARL, arXiv 2408.11850; CARD, arXiv
// 2508.04462). If the next step begins at one of the rows that it sees then, its results are reused. PEARL continues at
// the end of a chain, and verifies a first token while it drafts. Here the root of each tree is the target's own token,
// and the most likely unseen rows come first, at any place in the tree.
#include "spec/search.h"

#include <stdlib.h>

enum {
    ASK_AGAIN = 16,
    STEPS_AHEAD = 64,
    SEEN_AHEAD = 64, // rows that the draft model sees in a step, including those ahead of the target
};
static const double MARGIN = 0.05; // share of the step's time that a round must gain, because its gain is uncertain
static const double LEAST_AHEAD = 0.05;   // least path probability of a row for a forward ahead
static const double READ_SHARE = 0.01;    // as logitspec.read_prompt
static const double MEMORY = 0.03;        // weight of the last step in the moving average `reach`
static const double LEAST_OF_BEST = 0.05; // rows below this share of the round's best path probability are postponed

typedef struct {
    ls_searcher base;
    ls_blend blend;
    ls_draft_rows draft_rows;
    int32_t depth, width;
    bool hierarchical;
    bool levels;           // EAGLE's tree
    double reach;          // how often the target's choice is among the draft model's best tokens
    int32_t unasked, wait; // steps without the draft model; number of such steps after which it is tried again
    // The draft model has drawn drafts for the next root, but the target has not verified them yet. They must be used
    // there: deciding about a new draw after seeing the old one would bias the distribution.
    bool owed;
} drafter;

extern const ls_method ls_method_hybrid, ls_method_hierarchical;

// The rows of the draft model's next forward.
typedef struct {
    int32_t n, candidate[LS_MAX_PREDICTIONS];
    double gain; // their expected accepted tokens
} round_;

static int32_t level_of(const ls_draft_rows *s, int32_t row) {
    int32_t level = 0;
    while ((row = s->parent[row]) >= 0) level++;
    return level;
}

// The most likely rows of the tree that it has not seen, at most `width`; with levels: of the new level, which need not
// be in the tree. No row is more likely than its parent, so each parent is among them or was seen before. reach: how
// often the target's choice is among its best tokens.
static round_ next_round(const drafter *d, const ls_search *q, double reach) {
    round_ r = {0};
    double best = 0;
    const int32_t room = LS_MAX_PREDICTIONS - d->draft_rows.n, most = d->width < room ? d->width : room;
    int32_t last = 0; // level of the rows that it saw last
    for (int32_t i = 0; i < d->draft_rows.n; i++) {
        const int32_t level = level_of(&d->draft_rows, i);
        last = level > last ? level : last;
    }
    for (int32_t i = 0; i < (d->levels ? q->n : q->n_taken); i++) {
        const int32_t at = d->levels ? i : q->taken[i], up = q->c[at].draft.parent;
        if (q->c[at].draft_row >= 0 || (up >= 0 && !d->draft_rows.n)) continue; // the root is seen first, alone
        if (d->levels && up >= 0 && level_of(&d->draft_rows, q->c[up].draft_row) < last) continue;
        int32_t k = r.n < most ? r.n++ : most;
        while (k > 0 && q->c[r.candidate[k - 1]].path < q->c[at].path) { // insertion sort; rows are almost in order
            if (k < most) r.candidate[k] = r.candidate[k - 1];
            k--;
        }
        if (k < most) r.candidate[k] = at;
    }
    for (int32_t i = 0; i < r.n; i++) {
        const ls_candidate *c = &q->c[r.candidate[i]];
        if (c->path > best) best = c->path;
        if (q->s->costs && c->path < LEAST_OF_BEST * best) {
            r.n = i;
            break;
        }
        r.gain += c->path * (reach > c->mass ? reach - c->mass : 0);
    }
    return r;
}

// Whether a forward of the draft model over these rows is expected to give more tokens per millisecond. The time to
// read new text, except the end of the last step, is spread over the following steps.
static bool pays(const drafter *d, const ls_search *q, const round_ *r) {
    const ls_draft_state *s = q->s;
    const ls_draft_model *m = d->base.base.draft_model;
    double path[LS_MAX_ROWS], now, expected = 0;
    if (!s->costs) return true;
    ls_cost_curve costs = *s->costs;
    costs.beside_ms += m->forward_us / 1e3;
    for (int32_t i = 0; i < q->n_taken; i++) path[i] = q->c[q->taken[i]].path;
    const int32_t n = ls_cost_choose(&costs, path, q->n_taken, (int32_t)s->n_context, &now);
    for (int32_t i = 0; i < n; i++) expected += path[i];
    const int32_t unread = d->draft_rows.n ? 0 : m->unread(m, s->context, s->n_context),
                  usual = unread > 1 ? 1 : unread;
    const double ms = ls_cost_ms(&m->costs, r->n + usual, (int32_t)s->n_context),
                 late = ls_cost_ms(&m->costs, r->n + unread, (int32_t)s->n_context) - ms;
    if (now <= 0 || ms <= 0) return true; // without measurements always run the round
    const double then = ls_cost_ms(&costs, n + r->n + costs.beside_rows, (int32_t)s->n_context) + costs.beside_ms + ms;
    return (expected + r->gain) / now - then > late / STEPS_AHEAD + MARGIN * then;
}

static ls_code model_show(drafter *d, const ls_search *q, const round_ *r, ls_err *err) {
    ls_draft_rows *s = &d->draft_rows;
    ls_draft_model *m = d->base.base.draft_model;
    const int32_t first = s->n;
    if (!first) {
        const ls_code code = m->begin(m, q->s->context, q->s->n_context, q->s->root, &s->predictions[0], err);
        s->token[0] = q->s->root;
        s->parent[0] = -1;
        s->n = code ? 0 : 1;
        return code;
    }
    for (int32_t i = 0; i < r->n; i++) {
        const ls_candidate *c = &q->c[r->candidate[i]];
        s->token[first + i] = c->draft.token;
        s->parent[first + i] = q->c[c->draft.parent].draft_row;
        for (int32_t k = 0; k < i && s->parent[first + i] < 0; k++) // of this round
            if (r->candidate[k] == c->draft.parent) s->parent[first + i] = first + k;
    }
    const ls_code code = m->more(m, s->token + first, s->parent + first, r->n, s->predictions + first, err);
    if (!code) s->n += r->n;
    return code;
}

// Reports an error once; the conversation continues without these drafts. If the context is full, the next conversation
// tries again; after other errors the draft model is not used any more.
static void model_tell(drafter *d, ls_code code, const ls_err *err) {
    ls_drafter *base = &d->base.base;
    if (code == LS_E_RANGE && !base->told && base->note) base->note(base->ud, err->msg);
    base->told |= code == LS_E_RANGE;
    ls_drafter_failed(base, "the draft model", code, err);
}

static ls_search *search_for(const drafter *d, const ls_draft_state *s) {
    ls_search *q = ls_search_of(&d->base, s);
    q->blend = &d->blend;
    q->draft_rows = &d->draft_rows;
    q->children = d->levels ? d->width : 0;
    return q;
}

static void model_propose(ls_drafter *base, const ls_draft_state *s, int32_t max_rows, ls_tree *tree) {
    drafter *d = (drafter *)base;
    ls_draft_model *m = base->draft_model;
    ls_search *q = search_for(d, s);
    d->draft_rows.n = 0;
    m->forwards = 0;
    m->forward_us = 0;
    if (m->resume && !base->failed) m->resume(m, s->context, s->n_context, s->root, &d->draft_rows);
    for (;;) {
        q->drawn = d->draft_rows.n && d->draft_rows.predictions[0].n_draws;
        ls_search_run(q, max_rows);
        if (m->forwards >= d->depth || max_rows < 2 || base->failed || (base->beside && !d->draft_rows.n)) break;
        round_ r = next_round(d, q, d->reach);
        bool again = false;
        const bool must = d->owed && !d->draft_rows.n;
        if (r.n && !must && !pays(d, q, &r)) {
            // its usefulness changes with the text: if a perfect model would pay, it is tried again from time to time
            r = next_round(d, q, 1);
            again = !d->draft_rows.n && d->unasked >= d->wait && pays(d, q, &r);
            if (!again) break;
        }
        if (!r.n) break;
        ls_err err = {0};
        const ls_code code = model_show(d, q, &r, &err);
        if (code) {
            model_tell(d, code, &err);
            if (code == LS_E_RANGE) break;
            d->draft_rows.n = 0; // its results may be invalid
            q->drawn = false;
            ls_search_run(q, max_rows);
            break;
        }
        if (again && d->wait < INT32_MAX / 2) d->wait *= 2;
        else if (d->draft_rows.n == 1) d->wait = ASK_AGAIN;
    }
    if (d->draft_rows.n) d->owed = false;
    d->unasked = d->draft_rows.n ? 0 : d->unasked + 1;
    if (d->hierarchical) {
        q->named_only = true;
        ls_search_run(q, max_rows);
    }
    ls_search_tree(q, tree);
}

static void model_ahead(ls_drafter *base, const ls_draft_state *s, const atomic_bool *stop) {
    drafter *d = (drafter *)base;
    ls_search *q = search_for(d, s);
    ls_err err;                                    // ignored: the next propose gets the same error
    if (!base->beside && !d->draft_rows.n) return; // the draft model did not pay in this step
    while (!atomic_load(stop) && d->draft_rows.n < SEEN_AHEAD && !base->failed) {
        ls_search_run(q, SEEN_AHEAD);
        const round_ r = next_round(d, q, 1);
        if (!r.n || q->c[r.candidate[0]].path < LEAST_AHEAD || model_show(d, q, &r, &err)) break;
    }
}

static bool names(const ls_prediction *prediction, int32_t token) {
    for (int i = 0; i < LS_PREDICTION_TOP && prediction->id[i] >= 0; i++)
        if (prediction->id[i] == token) return true;
    return prediction->chosen == token;
}

static ls_miss model_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const ls_miss looked = ls_search_miss(search_for((const drafter *)base, q->state), q);
    if (ls_tree_prediction(q->tree, q->row)) miss = LS_MISS_BEYOND; // the draft model did not name it
    return looked > miss ? looked : miss;
}

static void model_learn(ls_drafter *base, const ls_draft_result *r) {
    drafter *d = (drafter *)base;
    const ls_tree *t = r->tree;
    const ls_node *end = &t->nodes[0];
    for (int32_t i = 1; i < t->n; i++)
        if (t->nodes[i].state == LS_NODE_ACCEPTED && t->nodes[i].depth > end->depth) end = &t->nodes[i];
    for (int32_t i = end->prediction; end->prediction && i < d->draft_rows.n;
         i++) // later rows may be children of the row seen there
        d->owed |= d->draft_rows.parent[i] == end->prediction - 1 && d->draft_rows.token[i] == end->target &&
                   d->draft_rows.predictions[i].n_draws > 0;
    ls_searcher_learn(base, r);
    for (int32_t i = 0; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        if (i && n->kind && n->state != LS_NODE_NOT_REACHED)
            ls_blend_learn(&d->blend, n->kind - 1, n->state == LS_NODE_ACCEPTED);
        const ls_prediction *prediction = n->state == LS_NODE_ACCEPTED ? ls_tree_prediction(t, i) : NULL;
        if (prediction) d->reach += MEMORY * ((names(prediction, n->target) ? 1 : 0) - d->reach);
    }
}

static void model_free(ls_drafter *base) {
    if (base->draft_model) base->draft_model->free(base->draft_model);
    ls_drafter_free(base);
}

static ls_code model_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    enum { REMEMBERED = 32 << 20 };
    const ls_method *m = base->method;
    const bool look_ups = m == &ls_method_hybrid || m == &ls_method_hierarchical; // other sources of drafts, too
    drafter *d = (drafter *)base;
    ls_draft_options options = setup->draft;
    if (!m->asks_head) options.head = NULL;
    else if (!options.head || !*options.head)
        return ls_fail(err, LS_E_USAGE,
                       "method %s needs a trained head for this model: set --draft-head FOLDER, with config.json and "
                       "*.safetensors",
                       m->name);
    if (!setup->draft_model)
        return ls_fail(err, LS_E_USAGE, "method %s cannot be simulated, because a simulation has no draft model",
                       m->name);
    const ls_code code = setup->draft_model(setup->of, &options, &base->draft_model, err);
    if (code) return ls_err_prefix(err, "method %s", m->name);
    if (!base->draft_model->resume) base->ahead = NULL;
    if (look_ups) base->read_share = READ_SHARE;
    ls_searcher_set_up(&d->base, REMEMBERED);
    ls_evidence *e = &d->base.e;
    e->retrieved = e->remembered = e->last_logit = look_ups;
    d->depth = setup->draft.depth;
    d->width = setup->draft.width;
    d->hierarchical = m == &ls_method_hierarchical;
    d->levels = m->asks_head;
    d->reach = 0.8;
    d->wait = ASK_AGAIN;
    return LS_OK;
}

static const ls_drafter functions = {.size = sizeof(drafter),
                                     .set_up = model_set_up,
                                     .observe = ls_searcher_observe,
                                     .propose = model_propose,
                                     .learn = model_learn,
                                     .read = ls_searcher_read,
                                     .miss = model_miss,
                                     .ahead = model_ahead,
                                     .arrays = ls_searcher_arrays,
                                     .pool_size = ls_searcher_pool_size,
                                     .free = model_free};

const ls_method ls_method_eagle3 = {
    .name = "eagle3",
    .summary = "a trained EAGLE-3, EAGLE-2 or EAGLE head drafts from the target's hidden states",
    .source = "arXiv 2503.01840, 2406.16858 and 2401.15077; unless set, the tree is sized by cost",
    .rows = 60,
    .depth = 1 + 5,
    .deepest = 1 + 8,
    .width = 10,
    .sized = true,
    .asks_model = true,
    .asks_head = true,
    .drafter = &functions,
};

const ls_method ls_method_hierarchical = {
    .name = "hierarchical",
    .summary = "look-ups draft for a draft model, which drafts for the target",
    .source = "after arXiv 2510.19705",
    .rows = 32,
    .sized = true,
    .asks_model = true,
    .drafter = &functions,
};

const ls_method ls_method_draft_model = {
    .name = "draft-model",
    .summary = "a draft model drafts a tree: draft.model, or the target's own first layers",
    .source = "arXiv 2211.17192 and 2302.01318; a tree as in 2305.09781; first layers: 2309.08168",
    .rows = 32,
    .sized = true,
    .asks_model = true,
    .drafter = &functions,
};

const ls_method ls_method_hybrid = {
    .name = "hybrid",
    .summary = "logitspec's look-ups and a draft model in one best-first tree",
    .source = "this program's own",
    .rows = 64,
    .sized = true,
    .asks_model = true,
    .drafter = &functions,
};
