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
#include <stdlib.h>
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
    int32_t n_grams, n_leaders;
    size_t harvested; // tokens of the text
} drafter;

static void harvest(drafter *d, const int32_t *gram) {
    leader **slot = &d->leaders[(uint32_t)gram[0] % LEADERS], *l = *slot;
    if (!l) l = *slot = ls_calloc(1, sizeof *l), l->token = -1, d->n_leaders++;
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

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
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

typedef struct {
    ls_draft nodes[LS_MAX_ROWS];
    int32_t n, budget;
} growth;

static int32_t child(growth *g, int32_t parent, int32_t token, uint8_t from, int32_t match_n) {
    const ls_draft draft = {.token = token,
                            .parent = (int16_t)parent,
                            .rank = -1,
                            .match_n = (int16_t)match_n,
                            .match_pos = -1,
                            .from = from,
                            .key = g->n,
                            .est_p = NAN};
    return ls_draft_child(g->nodes, &g->n, g->budget, &draft);
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    drafter *d = (drafter *)base;
    growth g = {.nodes = {{.token = s->root, .parent = -1}}, .n = 1, .budget = budget};
    const leader *l = d->leaders[(uint32_t)s->root % LEADERS];
    for (int32_t k = 0; l && l->token == s->root && k < l->n; k++)
        for (int32_t i = 0, at = 0; i < d->ngram - 1 && at >= 0; i++)
            at = child(&g, at, l->gram[k][i], LS_FROM_HISTORY, 1);
    for (int32_t j = 0; j < d->ngram - 1; j++)
        for (int32_t i = 0; i < d->window; i++) {
            const int32_t parent = j ? d->node[j - 1][i] : i ? d->node[0][i - 1] : 0;
            d->node[j][i] = d->filled && parent >= 0 ? child(&g, parent, d->cell[j][i], LS_FROM_WINDOW, 0) : -1;
        }
    ls_tree_lay_out(tree, g.nodes, g.n);
}

// The tokens at place n of a leader's n-grams, for n-grams that begin with path[0..n).
static ls_knowledge grams_know(const drafter *d, int32_t first, const int32_t *path, int32_t n, int32_t token) {
    const leader *l = d->leaders[(uint32_t)first % LEADERS];
    ls_knowledge best = LS_KNOWS_NOTHING;
    for (int32_t k = 0; l && l->token == first && n < d->ngram - 1 && k < l->n; k++) {
        if (memcmp(l->gram[k], path, (size_t)n * sizeof *path)) continue;
        if (l->gram[k][n] == token) return LS_KNOWS_IT;
        best = LS_KNOWS_OTHERS;
    }
    return best;
}

static ls_knowledge window_knows(const drafter *d, const ls_draft_question *q) {
    const int32_t key = q->row ? q->tree->nodes[q->row].key : 0;
    ls_knowledge best = LS_KNOWS_NOTHING;
    for (int32_t j = 0; d->filled && j < d->ngram - 1; j++)
        for (int32_t i = 0; i < d->window; i++) {
            const int32_t parent = j ? d->node[j - 1][i] : i ? d->node[0][i - 1] : 0;
            if (parent != key) continue;
            if (d->cell[j][i] == q->token) return LS_KNOWS_IT;
            best = LS_KNOWS_OTHERS;
        }
    return best;
}

static ls_knowledge knows(const ls_drafter *base, const ls_draft_question *q) {
    const drafter *d = (const drafter *)base;
    int32_t path[LS_MAX_ROWS];
    const int32_t depth = ls_tree_tokens(q->tree, q->row, path) - 1, last = path[depth];
    const ls_knowledge grams = grams_know(d, q->state->root, path + 1, depth, q->token), window = window_knows(d, q);
    if (grams == LS_KNOWS_IT || window == LS_KNOWS_IT) return LS_KNOWS_IT;
    const ls_knowledge later = depth ? grams_know(d, last, path, 0, q->token) : LS_KNOWS_NOTHING;
    if (later == LS_KNOWS_IT) return LS_KNOWS_HIDDEN; // n-grams that begin there have it, but are not looked up
    return grams || window || later ? LS_KNOWS_OTHERS : LS_KNOWS_NOTHING;
}

static void learn(ls_drafter *base, const ls_draft_result *r) {
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

static void memory(void *of, ls_memory_visit *v) {
    drafter *d = of;
    ls_memory_part(v, d->cell, sizeof d->cell);
    ls_memory_part(v, d->node, sizeof d->node);
    ls_memory_part(v, &d->filled, sizeof d->filled);
    ls_memory_part(v, &d->harvested, sizeof d->harvested);
    ls_memory_part(v, d->leaders, sizeof d->leaders);
    ls_memory_part(v, &d->n_grams, sizeof d->n_grams);
    ls_memory_part(v, &d->n_leaders, sizeof d->n_leaders);
    for (int i = 0; i < LEADERS; i++)
        ls_memory_array(v, (void **)&d->leaders[i], d->leaders[i] ? sizeof *d->leaders[i] : 0);
}

static int32_t pool_size(const ls_drafter *base) {
    return ((const drafter *)base)->n_grams;
}

static size_t bytes(const ls_drafter *base) {
    return sizeof(drafter) + (size_t)((const drafter *)base)->n_leaders * sizeof(leader);
}

static void free_drafter(ls_drafter *base) {
    for (int i = 0; i < LEADERS; i++) free(((drafter *)base)->leaders[i]);
    free(base);
}

enum { WINDOW, NGRAM, GUESSES };
static const ls_knob knobs[] = {
    [WINDOW] = {"lookahead.window", LS_KNOB_INT, 15, 1, MAX_WINDOW, "columns of the window"},
    [NGRAM] = {"lookahead.ngram", LS_KNOB_INT, 5, 2, MAX_NGRAM, "tokens of a harvested n-gram, including its first"},
    [GUESSES] = {"lookahead.guesses", LS_KNOB_INT, 15, 1, MAX_GUESSES, "n-grams verified in one step"},
    {0},
};

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)err;
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){.observe = observe,
                           .propose = propose,
                           .learn = learn,
                           .knows = knows,
                           .memory = memory,
                           .pool_size = pool_size,
                           .bytes = bytes,
                           .free = free_drafter};
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
    .make = make,
};
