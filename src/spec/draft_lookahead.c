// Lookahead decoding (arXiv 2402.02057; the authors' program hao-ai-lab/LookaheadDecoding, eed010d,
// jacobi_greedy_search_multilevel): the forward that verifies also refines a window of guesses (Jacobi iteration). The
// window's intermediate tokens are harvested as n-grams; the n-grams that begin with the root are the branches that can
// be accepted.
//
// The window has `window` columns and ngram - 1 levels. The root is the first column's level 0, the other columns'
// level 0 is a chain below it; level j of a column is the child of its level j - 1. This is a tree, so the paper's
// attention mask is the mask of a draft tree, and one forward does both. The target's choice after the lowest level of
// a column is its next token. The first steps add a level each and drop the first column, so the window begins wider;
// then each level moves up. Only then n-grams are harvested and verified. They belong to the conversation.
// From the same first guesses the program has the same rows in every step (test_published).
//
// What differs: the first guesses are tokens of the prompt at fixed places, the program's at random ones. The window's
// rows can be accepted, too, and so can the last token of an n-gram, at which the program stops one too early. Equal
// prefixes share their rows. Both make the MAT higher; so do two switches: `text` also harvests the prompt and the
// answer (the program's POOL_FROM_PROMPT), `keep` keeps the n-grams for the next conversation.
#include "base/mem.h"
#include "spec/drafter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WINDOW = 32, MAX_NGRAM = 8, MAX_GUESSES = 32, LEADERS = 4096, CELLS = MAX_WINDOW + MAX_NGRAM };

typedef struct {
    int32_t token;                            // first token of the n-grams
    uint32_t used;                            // when one was harvested last
    int32_t n;                                // n-grams, latest first
    int32_t gram[MAX_GUESSES][MAX_NGRAM - 1]; // without their first token
} leader;

typedef struct {
    ls_drafter base;
    int32_t window, ngram, guesses; // knobs
    bool text, keep;                // knobs
    int32_t levels, columns;        // of the window; columns include the root's
    int32_t cell[MAX_NGRAM][CELLS]; // [level][column]; the root's is not a cell
    int32_t node[CELLS];            // key of each column's lowest row in the last tree; -1: none
    ls_map by_token;                // token -> its leader; -1: none any more
    leader *leaders[LEADERS];
    int32_t n_leaders, n_grams;
    uint32_t now;
    size_t harvested; // tokens of the text
} drafter;

static leader *leader_of(const drafter *d, int32_t token) {
    int32_t at;
    return ls_map_get(&d->by_token, (uint64_t)token, &at) && at >= 0 ? d->leaders[at] : NULL;
}

// The leader that a new token gets: a new one, or the least recently used.
static leader *new_leader(drafter *d, int32_t token) {
    int32_t at = d->n_leaders;
    if (at < LEADERS) d->leaders[d->n_leaders++] = ls_calloc(1, sizeof **d->leaders);
    else {
        at = 0;
        for (int32_t i = 1; i < LEADERS; i++)
            if (d->leaders[i]->used < d->leaders[at]->used) at = i;
        ls_map_put(&d->by_token, (uint64_t)d->leaders[at]->token, -1);
        d->n_grams -= d->leaders[at]->n;
    }
    *d->leaders[at] = (leader){.token = token};
    ls_map_put(&d->by_token, (uint64_t)token, at);
    return d->leaders[at];
}

static void harvest(drafter *d, const int32_t *gram) {
    leader *l = leader_of(d, gram[0]);
    if (!l) l = new_leader(d, gram[0]);
    l->used = ++d->now;
    const size_t size = (size_t)(d->ngram - 1) * sizeof *gram;
    int32_t at = 0;
    while (at < l->n && memcmp(l->gram[at], gram + 1, size)) at++;
    if (at == l->n && l->n < d->guesses) l->n++, d->n_grams++;
    if (at == d->guesses) at--;
    memmove(l->gram[1], l->gram[0], (size_t)at * sizeof l->gram[0]);
    memcpy(l->gram[0], gram + 1, size);
}

static void forget(drafter *d) {
    for (int32_t i = 0; i < d->n_leaders; i++) free(d->leaders[i]), d->leaders[i] = NULL;
    d->n_leaders = d->n_grams = 0;
    ls_map_clear(&d->by_token);
}

static void lookahead_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset) d->harvested = 0, d->levels = 0;
    if (reset && !d->keep) forget(d);
    const size_t len = (size_t)d->ngram;
    for (size_t at = d->harvested > len - 1 ? d->harvested - (len - 1) : 0; d->text && at + len <= n; at++)
        harvest(d, context + at);
    d->harvested = n;
    if (d->levels || !n) return;
    d->levels = 1;
    d->columns = d->window + d->ngram - 2;
    for (int32_t i = 1; i < d->columns; i++) d->cell[0][i] = context[(size_t)(i * 7) % n]; // the first guesses
}

static bool is_filled(const drafter *d) {
    return d->levels == d->ngram - 1;
}

static void lookahead_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    drafter *d = (drafter *)base;
    const leader *l = is_filled(d) ? leader_of(d, s->root) : NULL;
    int32_t row[CELLS] = {0};
    for (int32_t k = 0; l && k < l->n; k++)
        for (int32_t i = 0, at = 0; i < d->ngram - 1 && at >= 0; i++)
            at = ls_grow(g, at, l->gram[k][i], LS_SOURCE_HISTORY, 1, NAN);
    for (int32_t j = 0; j < d->levels; j++)
        for (int32_t i = j ? 0 : 1; i < d->columns; i++) {
            const int32_t parent = j ? row[i] : row[i - 1];
            row[i] = parent >= 0 ? ls_grow(g, parent, d->cell[j][i], LS_SOURCE_WINDOW, 0, NAN) : -1;
        }
    if (!g->q) memcpy(d->node, row, sizeof row);
}

// n-grams that begin at the row are not looked up.
static ls_miss lookahead_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const leader *l = leader_of((const drafter *)base, q->tree->nodes[q->row].token);
    for (int32_t k = 0; l && k < l->n; k++) {
        if (l->gram[k][0] == q->token) return LS_MISS_TAKEN;
        miss = LS_MISS_OTHERWISE;
    }
    return miss;
}

static void lookahead_learn(ls_drafter *base, const ls_draft_result *r) {
    drafter *d = (drafter *)base;
    int32_t row_of[LS_MAX_ROWS], next[CELLS];
    const int32_t lowest = d->levels - 1;
    if (!d->levels) return;
    memset(row_of, -1, sizeof row_of);
    row_of[0] = 0;
    for (int32_t i = 1; i < r->tree->n; i++) row_of[r->tree->nodes[i].key] = i;
    for (int32_t i = 0; i < d->columns; i++) {
        const int32_t row = d->node[i] < 0 ? -1 : row_of[d->node[i]];
        const bool known = row >= 0 && r->tree->nodes[row].top[0].id >= 0; // else the row was cut: its guess stays
        const int32_t root = r->tree->nodes[0].token;
        int32_t gram[MAX_NGRAM];
        for (int32_t j = 0; j <= lowest; j++) gram[j] = j || i ? d->cell[j][i] : root;
        next[i] = gram[lowest + 1] = known ? r->tree->nodes[row].top[0].id : gram[lowest];
        if (known && is_filled(d)) harvest(d, gram);
    }
    const size_t row_size = (size_t)d->columns * sizeof *next;
    if (is_filled(d)) {
        for (int32_t j = 0; j < lowest; j++) memcpy(d->cell[j], d->cell[j + 1], row_size);
        memcpy(d->cell[lowest], next, row_size);
        return; // the first column's level 0 is the next root
    }
    d->columns--;
    for (int32_t j = 0; j < d->levels; j++) memmove(d->cell[j], d->cell[j] + 1, row_size - sizeof *next);
    memcpy(d->cell[d->levels++], next + 1, row_size - sizeof *next);
}

static void lookahead_arrays(void *of, ls_memory_visit *v) {
    drafter *d = of;
    ls_memory_map(v, &d->by_token);
    for (int i = 0; i < LEADERS; i++)
        ls_memory_array(v, (void **)&d->leaders[i], d->leaders[i] ? sizeof *d->leaders[i] : 0);
}

static int32_t lookahead_pool_size(const ls_drafter *base) {
    return ((const drafter *)base)->n_grams;
}

static const ls_knob knobs[] = {
    {"lookahead.window", LS_KNOB_INT, 15, 1, MAX_WINDOW, "columns of the window", offsetof(drafter, window)},
    {"lookahead.ngram", LS_KNOB_INT, 5, 2, MAX_NGRAM, "tokens of a harvested n-gram, including its first",
     offsetof(drafter, ngram)},
    {"lookahead.guesses", LS_KNOB_INT, 15, 1, MAX_GUESSES, "n-grams verified in one step", offsetof(drafter, guesses)},
    {"lookahead.text", LS_KNOB_SWITCH, 0, 0, 1, "also harvest the prompt and the answer", offsetof(drafter, text)},
    {"lookahead.keep", LS_KNOB_SWITCH, 0, 0, 1, "keep the n-grams for the next conversation", offsetof(drafter, keep)},
    {0},
};

const ls_method ls_method_lookahead = {
    .name = "lookahead",
    .summary = "Lookahead decoding: n-grams harvested from a window of guesses in the same forward",
    .source = "arXiv 2402.02057",
    .rows = 15 * 4 + 15 * 4,
    .knobs = knobs,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .observe = lookahead_observe,
                                   .grow = lookahead_grow,
                                   .learn = lookahead_learn,
                                   .miss = lookahead_miss,
                                   .arrays = lookahead_arrays,
                                   .pool_size = lookahead_pool_size},
};
