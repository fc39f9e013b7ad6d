// Prompt lookup decoding (Saxena 2023; Hugging Face's prompt_lookup_num_tokens): drafts the tokens that followed the
// earliest occurrence of the last n tokens, including the root; n = 3, then 2, then 1. Saxena's program
// (apoorvumang/prompt-lookup-decoding, cada4fe) takes only an occurrence with ten whole tokens behind it, the root
// included, else a smaller n; the variant in Hugging Face transformers differs again. On 36 recorded answers their MAT
// is 1.818 and 1.835, ours 1.836.
#include "spec/drafter.h"
#include "spec/pool.h"

enum { ORDER = 3 }; // an n-gram must fit a key of 64 bits

typedef struct {
    ls_drafter base;
    ls_map first[ORDER]; // n-gram -> position after its first occurrence
    size_t indexed;
    int32_t order, tokens; // knobs
} drafter;

static void pld_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
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
static bool pld_look_up(const drafter *d, const int32_t *tail, int32_t n, int32_t *k, int32_t *pos) {
    for (*k = n < *k ? n : *k; *k > 0; --*k)
        if (ls_map_get(&d->first[*k - 1], ls_gram_key(tail + n - *k, (size_t)*k), pos)) return true;
    return false;
}

static void pld_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    const drafter *d = (const drafter *)base;
    int32_t tail[ORDER], k = d->order, pos;
    if (!pld_look_up(d, tail, ls_draft_tail(s, g->rows, sizeof *g->rows, 0, tail, ORDER), &k, &pos)) return;
    const int32_t left = (int32_t)s->n_context - pos;
    ls_grow_note(g, LS_MISS_OTHERWISE);
    ls_grow_chain(g, s->context + pos, left, d->tokens,
                  (ls_branch){.rank = -1,
                              .match_n = (int16_t)k,
                              .match_pos = pos,
                              .found = (int16_t)(left < d->tokens ? left : d->tokens)});
}

static ls_miss pld_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const drafter *d = (const drafter *)base;
    int32_t tail[ORDER], pos;
    const int32_t n = ls_question_tail(q, tail, ORDER);
    for (int32_t k = d->order; miss < LS_MISS_BEYOND && pld_look_up(d, tail, n, &k, &pos); k--)
        miss = q->state->context[pos] == q->token ? LS_MISS_TAKEN : LS_MISS_OTHERWISE;
    return miss;
}

static void pld_arrays(void *of, ls_memory_visit *v) {
    drafter *d = of;
    for (int k = 0; k < ORDER; k++) ls_memory_map(v, &d->first[k]);
}

static int32_t pld_pool_size(const ls_drafter *base) {
    const drafter *d = (const drafter *)base;
    size_t n = 0;
    for (int k = 0; k < ORDER; k++) n += d->first[k].n;
    return (int32_t)n;
}

static const ls_knob knobs[] = {
    {"pld.ngram", LS_KNOB_INT, 3, 1, ORDER, "longest n-gram of a look-up", offsetof(drafter, order)},
    {"pld.tokens", LS_KNOB_INT, 10, 1, LS_MAX_ROWS - 1, "tokens copied after a match", offsetof(drafter, tokens)},
    {0},
};

const ls_method ls_method_pld = {
    .name = "pld",
    .summary = "prompt lookup: the tokens that followed the earliest match of the last three, two or one tokens",
    .source = "Saxena 2023, prompt lookup decoding",
    .rows = 1 + 10,
    .text_only = true,
    .knobs = knobs,
    .size = sizeof(drafter),
    .drafter = &(const ls_drafter){.observe = pld_observe,
                                   .grow = pld_grow,
                                   .miss = pld_miss,
                                   .arrays = pld_arrays,
                                   .pool_size = pld_pool_size},
};
