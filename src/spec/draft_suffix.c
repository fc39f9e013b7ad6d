// SuffixDecoding (arXiv 2411.04975): the longest endings of the text that occurred before, in this conversation or an
// earlier one; each proposes the tree of what followed it, likeliest first by counts, as large as the match is long
// times a factor; the tree with the highest sum of chances is taken. The paper's suffix trees are suffix automata here
// (spec/automaton.h), which hold the same counts. Memory is bounded: when the younger of two automata holds half of the
// tokens to be remembered, the older one is forgotten.
#include "base/mem.h"
#include "spec/automaton.h"
#include "spec/drafter.h"
#include "spec/frontier.h"
#include "spec/stream.h"

#include <stdlib.h>

enum { ENDINGS = 8, MAX_CHILDREN = 64 }; // endings that are tried; children of a state that are looked at, newest first

typedef struct {
    ls_drafter base;
    ls_stream history;
    ls_automaton young, old;
    ls_automaton_match young_at, old_at;
    int32_t breaks; // separators so far: each is a token of its own
    double factor, least;
} drafter;

static void add_token(drafter *d, int32_t token) {
    if (token == LS_STREAM_BREAK) token = -2 - d->breaks++;
    if ((size_t)d->young.n >= d->history.limit / 2) {
        ls_automaton_free(&d->old);
        d->old = d->young;
        d->old_at = d->young_at;
        d->young = (ls_automaton){0};
        d->young_at = (ls_automaton_match){0};
    }
    ls_automaton_follow(&d->old, &d->old_at, token);
    ls_automaton_follow(&d->young, &d->young_at, token);
    ls_automaton_add(&d->young, token);
    ls_automaton_settle(&d->young, &d->young_at);
}

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    const size_t added = ls_stream_observe(&d->history, context, n, reset);
    for (size_t i = d->history.ids.n - added; i < d->history.ids.n; i++) add_token(d, d->history.ids.p[i]);
}

// Nodes of a tree that grows from one state.
typedef struct {
    ls_draft nodes[LS_MAX_ROWS];
    int32_t n;
    double sum; // of the chances of its draft nodes: expected accepted tokens
} growth;

static void grow(const ls_automaton *a, ls_automaton_match at, const drafter *d, int32_t budget, growth *g) {
    static _Thread_local struct {
        ls_draft node;
        int32_t state;
    } c[LS_FRONTIER_MAX];
    static _Thread_local ls_frontier open;
    int32_t n = 0;
    const double most = d->factor * at.length;
    if (budget > most + 1) budget = 1 + (int32_t)most;
    g->n = 1;
    g->sum = 0;
    open.n = 0;
    int32_t state = at.state, parent = 0;
    double chance = 1;
    while (g->n < budget) {
        const double total = a->states[state].count;
        int32_t looked = 0;
        for (int32_t e = a->states[state].first_edge; e >= 0 && looked < MAX_CHILDREN && n < LS_FRONTIER_MAX;
             looked++) {
            const ls_automaton_edge *edge = &a->edges[e];
            const double p = a->states[edge->to].count / total;
            e = edge->next;
            if (edge->token < 0 || p < d->least || p > 1) continue; // a separator; counts that were cut off
            c[n].node = (ls_draft){.token = edge->token,
                                   .parent = (int16_t)parent,
                                   .rank = -1,
                                   .match_n = (int16_t)(at.length < INT16_MAX ? at.length : INT16_MAX),
                                   .match_pos = -1,
                                   .from = LS_FROM_HISTORY,
                                   .est_p = (float)p};
            c[n].state = edge->to;
            ls_frontier_push(&open, n++, chance * p);
        }
        const int32_t item = ls_frontier_pop(&open, &chance);
        if (item < 0) break;
        state = c[item].state;
        parent = g->n;
        g->nodes[g->n++] = c[item].node;
        g->sum += chance;
    }
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    drafter *d = (drafter *)base;
    static _Thread_local growth best, g;
    const ls_automaton *text[] = {&d->young, &d->old};
    ls_automaton_match at[] = {d->young_at, d->old_at};
    best.nodes[0] = g.nodes[0] = (ls_draft){.token = s->root, .parent = -1};
    best.n = 1;
    best.sum = 0;
    for (int i = 0; i < 2; i++) {
        if (!text[i]->n_states) continue;
        ls_automaton_follow(text[i], &at[i], s->root);
        for (int k = 0; k < ENDINGS && at[i].state > 0; k++) { // the longest ending, then shorter ones with more counts
            grow(text[i], at[i], d, budget, &g);
            if (g.sum > best.sum) best = g;
            at[i].state = text[i]->states[at[i].state].link;
            if (at[i].state >= 0) at[i].length = text[i]->states[at[i].state].length;
        }
    }
    ls_tree_lay_out(tree, best.nodes, best.n);
}

static int32_t pool_size(const ls_drafter *base) {
    const drafter *d = (const drafter *)base;
    return d->young.n_states + d->old.n_states;
}

static size_t bytes(const ls_drafter *base) {
    const drafter *d = (const drafter *)base;
    return sizeof *d + d->history.ids.cap * sizeof *d->history.ids.p + ls_automaton_bytes(&d->young) +
           ls_automaton_bytes(&d->old);
}

static void free_drafter(ls_drafter *base) {
    drafter *d = (drafter *)base;
    ls_stream_close(&d->history);
    ls_automaton_free(&d->young);
    ls_automaton_free(&d->old);
    free(d);
}

enum { FACTOR, LEAST, TOKENS, FILE_NAME };
static const ls_knob knobs[] = {
    [FACTOR] = {"suffix.factor", LS_KNOB_NUMBER, 4, 0.1, 256, "draft tokens for each token of the match"},
    [LEAST] = {"suffix.min_p", LS_KNOB_NUMBER, 0.1, 0, 1, "a token followed at least this share of the times"},
    [TOKENS] = {"suffix.tokens", LS_KNOB_INT, 200000, 1000, 50000000,
                "tokens that are remembered, about 150 bytes each"},
    [FILE_NAME] = {"suffix.file", LS_KNOB_FILE, 0, 0, 0, "keep them there for the next run"},
    {0},
};

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){
        .observe = observe, .propose = propose, .pool_size = pool_size, .bytes = bytes, .free = free_drafter};
    d->factor = setup->knobs[FACTOR].number;
    d->least = setup->knobs[LEAST].number;
    const ls_code code =
        ls_stream_open(&d->history, setup->knobs[FILE_NAME].text, (size_t)setup->knobs[TOKENS].number, setup, err);
    for (size_t i = 0; i < d->history.ids.n; i++) add_token(d, d->history.ids.p[i]);
    *out = code ? NULL : &d->base;
    if (code) free_drafter(&d->base);
    return code;
}

const ls_method ls_method_suffix = {
    .name = "suffix",
    .summary = "SuffixDecoding: what followed the longest endings of the text before, by counts",
    .source = "arXiv 2411.04975",
    .rows = 64,
    .text_only = true,
    .knobs = knobs,
    .make = make,
};
