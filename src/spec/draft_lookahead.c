// Lookahead decoding (arXiv 2402.02057): the forward that verifies also refines a window of guesses in place (Jacobi
// iteration). The window's intermediate tokens are harvested as n-grams; the n-grams that begin with the root are the
// branches that can be accepted.
//
// The window has `window` columns and ngram - 1 levels. Level 0 is a chain under the root; level j of a column is the
// child of its level j - 1. This is a tree, so the paper's attention mask is the mask of a draft tree, and one forward
// does both. The target's choice after the lowest level of a column is the column's next token; then each level moves
// up. The rows of the window are verified and accepted like other rows.
#include "base/mem.h"
#include "spec/drafter.h"

#include <math.h>
#include <string.h>

enum { MAX_WINDOW = 32, MAX_NGRAM = 8, MAX_GUESSES = 32, LEADERS = 4096 };

typedef struct {
    int32_t token;                            // first token of the n-grams; -1: none
    int32_t n;                                // n-grams, latest first
    int32_t gram[MAX_GUESSES][MAX_NGRAM - 1]; // without their first token
} leader;

typedef struct {
    ls_drafter base;
    int32_t window, ngram, guesses;      // knobs
    int32_t cell[MAX_NGRAM][MAX_WINDOW]; // [level][column]
    int32_t node[MAX_NGRAM][MAX_WINDOW]; // key of its row in the last tree
    bool filled;
    leader *leaders[LEADERS]; // by token; on a collision the newer token replaces the older one
    int32_t n_grams;
    size_t harvested; // tokens of the text
} drafter;

static void harvest(drafter *d, const int32_t *gram) {
    leader **slot = &d->leaders[(uint32_t)gram[0] % LEADERS], *l = *slot;
    if (!l) l = *slot = ls_calloc(1, sizeof *l), l->token = -1;
    if (l->token != gram[0]) {
        d->n_grams -= l->n;
        l->token = gram[0];
        l->n = 0;
    }
    const size_t size = (size_t)(d->ngram - 1) * sizeof *gram;
    int32_t at = 0;
    while (at < l->n && memcmp(l->gram[at], gram + 1, size)) at++;
    if (at == l->n && l->n < d->guesses) l->n++, d->n_grams++;
    if (at == d->guesses) at--;
    memmove(l->gram[1], l->gram[0], (size_t)at * sizeof l->gram[0]);
    memcpy(l->gram[0], gram + 1, size);
}

static void lookahead_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset) d->harvested = 0, d->filled = false; // keep the n-grams
    const size_t len = (size_t)d->ngram;
    for (size_t at = d->harvested > len - 1 ? d->harvested - (len - 1) : 0; at + len <= n; at++)
        harvest(d, context + at);
    d->harvested = n;
    if (d->filled || !n) return;
    for (int32_t j = 0; j < d->ngram - 1; j++) // the first guesses: tokens of the prompt
        for (int32_t i = 0; i < d->window; i++) d->cell[j][i] = context[(size_t)(i * 7 + j * 3) % n];
    d->filled = true;
}

static const leader *leader_of(const drafter *d, int32_t token) {
    const leader *l = d->leaders[(uint32_t)token % LEADERS];
    return l && l->token == token ? l : NULL;
}

static void lookahead_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    drafter *d = (drafter *)base;
    const leader *l = leader_of(d, s->root);
    int32_t row[MAX_NGRAM][MAX_WINDOW] = {{0}};
    for (int32_t k = 0; l && k < l->n; k++)
        for (int32_t i = 0, at = 0; i < d->ngram - 1 && at >= 0; i++)
            at = ls_grow(g, at, l->gram[k][i], LS_FROM_HISTORY, 1, NAN);
    for (int32_t j = 0; j < d->ngram - 1; j++)
        for (int32_t i = 0; i < d->window; i++) {
            const int32_t parent = j ? row[j - 1][i] : i ? row[0][i - 1] : 0;
            row[j][i] = d->filled && parent >= 0 ? ls_grow(g, parent, d->cell[j][i], LS_FROM_WINDOW, 0, NAN) : -1;
        }
    if (!g->q) memcpy(d->node, row, sizeof row);
}

// n-grams that begin at the row are not looked up.
static ls_knowledge lookahead_knows(const ls_drafter *base, const ls_draft_question *q, ls_knowledge known) {
    const leader *l = leader_of((const drafter *)base, q->tree->nodes[q->row].token);
    for (int32_t k = 0; l && k < l->n; k++) {
        if (l->gram[k][0] == q->token) return LS_KNOWS_HIDDEN;
        known = LS_KNOWS_OTHERS;
    }
    return known;
}

static void lookahead_learn(ls_drafter *base, const ls_draft_result *r) {
    drafter *d = (drafter *)base;
    int32_t row_of[LS_MAX_ROWS];
    const int32_t lowest = d->ngram - 2;
    memset(row_of, -1, sizeof row_of);
    for (int32_t i = 1; i < r->tree->n; i++) row_of[r->tree->nodes[i].key] = i;
    for (int32_t i = 0; i < d->window; i++) {
        const int32_t row = d->node[lowest][i] < 0 ? -1 : row_of[d->node[lowest][i]];
        if (row < 0 || r->tree->nodes[row].top[0].id < 0) continue; // the row was cut
        int32_t gram[MAX_NGRAM];
        for (int32_t j = 0; j <= lowest; j++) gram[j] = d->cell[j][i];
        gram[lowest + 1] = r->tree->nodes[row].top[0].id;
        harvest(d, gram);
        for (int32_t j = 0; j <= lowest; j++) d->cell[j][i] = gram[j + 1];
    }
}

static void lookahead_memory(void *of, ls_memory_visit *v) {
    drafter *d = of;
    ls_memory_part(v, d->cell, sizeof d->cell);
    ls_memory_part(v, d->node, sizeof d->node);
    ls_memory_part(v, &d->filled, sizeof d->filled);
    ls_memory_part(v, &d->harvested, sizeof d->harvested);
    ls_memory_part(v, d->leaders, sizeof d->leaders);
    ls_memory_part(v, &d->n_grams, sizeof d->n_grams);
    for (int i = 0; i < LEADERS; i++)
        ls_memory_array(v, (void **)&d->leaders[i], d->leaders[i] ? sizeof *d->leaders[i] : 0);
}

static int32_t lookahead_pool_size(const ls_drafter *base) {
    return ((const drafter *)base)->n_grams;
}

enum { WINDOW, NGRAM, GUESSES };
static const ls_knob knobs[] = {
    [WINDOW] = {"lookahead.window", LS_KNOB_INT, 15, 1, MAX_WINDOW, "columns of the window"},
    [NGRAM] = {"lookahead.ngram", LS_KNOB_INT, 5, 2, MAX_NGRAM, "tokens of a harvested n-gram, including its first"},
    [GUESSES] = {"lookahead.guesses", LS_KNOB_INT, 15, 1, MAX_GUESSES, "n-grams verified in one step"},
    {0},
};

static ls_code lookahead_make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)err;
    drafter *d = ls_drafter_new(sizeof *d, (ls_drafter){.observe = lookahead_observe,
                                                        .grow = lookahead_grow,
                                                        .learn = lookahead_learn,
                                                        .knows = lookahead_knows,
                                                        .memory = lookahead_memory,
                                                        .pool_size = lookahead_pool_size});
    d->window = (int32_t)setup->knobs[WINDOW].number;
    d->ngram = (int32_t)setup->knobs[NGRAM].number;
    d->guesses = (int32_t)setup->knobs[GUESSES].number;
    *out = &d->base;
    return LS_OK;
}

const ls_method ls_method_lookahead = {
    .name = "lookahead",
    .summary = "Lookahead decoding: n-grams harvested from a window of guesses in the same forward",
    .source = "arXiv 2402.02057",
    .rows = 1 + 15 * 4 + 15 * 4,
    .knobs = knobs,
    .make = lookahead_make,
};
