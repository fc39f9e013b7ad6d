// Prompt lookup decoding (Saxena 2023; Hugging Face's prompt_lookup_num_tokens): drafts the tokens that followed the
// earliest occurrence of the last n tokens, including the root; n = 3, then 2, then 1.
#include "base/mem.h"
#include "spec/drafter.h"
#include "spec/pool.h"

#include <stdlib.h>

enum { ORDER = 3 }; // an n-gram must fit a key of 64 bits

typedef struct {
    ls_drafter base;
    ls_map first[ORDER]; // n-gram -> position after its first occurrence
    size_t indexed;
    int32_t order, tokens; // knobs
} drafter;

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset) {
        for (int k = 0; k < ORDER; k++) ls_map_clear(&d->first[k]);
        d->indexed = 0;
    }
    for (size_t at = d->indexed ? d->indexed : 1; at < n; at++) // context[at] follows the n-grams that end before it
        for (size_t k = 1; k <= (size_t)d->order && k <= at; k++) {
            int32_t old;
            const uint64_t key = ls_gram_key(context + at - k, k);
            if (!ls_map_get(&d->first[k - 1], key, &old)) ls_map_put(&d->first[k - 1], key, (int32_t)at);
        }
    d->indexed = n;
}

// The position after the longest known n-gram that ends tail[0..n). *k: in: largest length; out: its length.
static bool look_up(const drafter *d, const int32_t *tail, int32_t n, int32_t *k, int32_t *pos) {
    for (*k = n < *k ? n : *k; *k > 0; --*k)
        if (ls_map_get(&d->first[*k - 1], ls_gram_key(tail + n - *k, (size_t)*k), pos)) return true;
    return false;
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    const drafter *d = (const drafter *)base;
    int32_t tail[ORDER], k = d->order, pos;
    ls_tree_start(tree, s->root);
    if (!look_up(d, tail, ls_draft_tail(s, tree, 0, tail, ORDER), &k, &pos)) return;
    const int32_t left = (int32_t)s->n_context - pos, len = left < d->tokens ? left : d->tokens;
    ls_tree_add(tree, s->context + pos, len, budget,
                (ls_branch){.rank = -1, .match_n = (int16_t)k, .match_pos = pos, .found = (int16_t)len});
}

static ls_knowledge knows(const ls_drafter *base, const ls_draft_question *q) {
    const drafter *d = (const drafter *)base;
    const ls_draft_state *s = q->state;
    const int32_t depth = q->tree->nodes[q->row].depth;
    int32_t tail[ORDER], k = d->order, pos;
    ls_knowledge best = LS_KNOWS_NOTHING;
    if (look_up(d, tail, ls_draft_tail(s, q->tree, 0, tail, ORDER), &k, &pos)) { // the tree was copied from there
        if ((size_t)(pos + depth) < s->n_context && s->context[pos + depth] == q->token)
            return depth < d->tokens ? LS_KNOWS_IT : LS_KNOWS_BEYOND;
        best = LS_KNOWS_OTHERS;
    }
    const int32_t n = ls_draft_tail(s, q->tree, q->row, tail, ORDER);
    for (k = d->order; look_up(d, tail, n, &k, &pos); k--) {
        if (s->context[pos] == q->token) return LS_KNOWS_HIDDEN;
        best = LS_KNOWS_OTHERS;
    }
    return best;
}

static void memory(void *of, ls_memory_visit *v) {
    drafter *d = of;
    for (int k = 0; k < ORDER; k++) ls_memory_map(v, &d->first[k]);
    ls_memory_part(v, &d->indexed, sizeof d->indexed);
}

static int32_t pool_size(const ls_drafter *base) {
    const drafter *d = (const drafter *)base;
    size_t n = 0;
    for (int k = 0; k < ORDER; k++) n += d->first[k].n;
    return (int32_t)n;
}

static void free_drafter(ls_drafter *base) {
    for (int k = 0; k < ORDER; k++) ls_map_free(&((drafter *)base)->first[k]);
    free(base);
}

static size_t bytes(const ls_drafter *base) {
    size_t n = sizeof(drafter);
    for (int k = 0; k < ORDER; k++) n += ls_map_bytes(&((const drafter *)base)->first[k]);
    return n;
}

enum { NGRAM, TOKENS };
static const ls_knob knobs[] = {
    [NGRAM] = {"pld.ngram", LS_KNOB_INT, 3, 1, ORDER, "longest n-gram of a look-up"},
    [TOKENS] = {"pld.tokens", LS_KNOB_INT, 10, 1, LS_MAX_ROWS - 1, "tokens copied after a match"},
    {0},
};

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)err;
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){.observe = observe,
                           .propose = propose,
                           .knows = knows,
                           .memory = memory,
                           .pool_size = pool_size,
                           .bytes = bytes,
                           .free = free_drafter};
    d->order = (int32_t)setup->knobs[NGRAM].number;
    d->tokens = (int32_t)setup->knobs[TOKENS].number;
    *out = &d->base;
    return LS_OK;
}

const ls_method ls_method_pld = {
    .name = "pld",
    .summary = "prompt lookup: the tokens that followed the earliest match of the last three, two or one tokens",
    .source = "Saxena 2023, prompt lookup decoding",
    .rows = 1 + 10,
    .text_only = true,
    .knobs = knobs,
    .make = make,
};
