// Prompt lookup decoding (Saxena 2023; Hugging Face's prompt_lookup_num_tokens): the tokens that followed the earliest
// place where the last n tokens, root included, stood before; n = 3, then 2, then 1.
#include "base/mem.h"
#include "spec/drafter.h"
#include "spec/pool.h"

#include <stdlib.h>

enum { ORDER = 3, COPIED = 10 };

typedef struct {
    ls_drafter base;
    ls_map first[ORDER]; // n-gram -> position after its first occurrence
    size_t indexed;
} drafter;

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset) {
        for (int k = 0; k < ORDER; k++) ls_map_clear(&d->first[k]);
        d->indexed = 0;
    }
    for (size_t at = d->indexed ? d->indexed : 1; at < n; at++) // context[at] follows the n-grams that end before it
        for (size_t k = 1; k <= ORDER && k <= at; k++) {
            int32_t old;
            const uint64_t key = ls_gram_key(context + at - k, k);
            if (!ls_map_get(&d->first[k - 1], key, &old)) ls_map_put(&d->first[k - 1], key, (int32_t)at);
        }
    d->indexed = n;
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    drafter *d = (drafter *)base;
    int32_t tail[ORDER], n = 0;
    ls_tree_start(tree, s->root);
    for (size_t i = s->n_context > ORDER - 1 ? s->n_context - (ORDER - 1) : 0; i < s->n_context; i++)
        tail[n++] = s->context[i];
    tail[n++] = s->root;
    for (int32_t k = n; k > 0; k--) {
        int32_t pos;
        if (!ls_map_get(&d->first[k - 1], ls_gram_key(tail + n - k, (size_t)k), &pos)) continue;
        const int32_t left = (int32_t)s->n_context - pos, len = left < COPIED ? left : COPIED;
        ls_tree_add(tree, s->context + pos, len, budget,
                    (ls_tree_branch){.rank = -1, .match_n = (int16_t)k, .match_pos = pos, .found = (int16_t)len});
        return;
    }
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

ls_drafter *ls_draft_pld(void) {
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){.observe = observe, .propose = propose, .pool_size = pool_size, .free = free_drafter};
    return &d->base;
}
