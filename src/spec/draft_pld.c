// Prompt lookup decoding (Saxena 2023; Hugging Face's prompt_lookup_num_tokens): drafts the tokens that followed the
// earliest occurrence of the last n tokens, including the root; n = 3, then 2, then 1. Saxena's program
// (apoorvumang/prompt-lookup-decoding, cada4fe) takes only an occurrence with ten whole tokens behind it, the root
// included, else a smaller n; the variant in Hugging Face transformers differs again. On 36 recorded answers their MAT
// is 1.818 and 1.835, ours 1.836.
#include "spec/pool.h"

typedef struct {
    ls_copier base; // the order of its pool is a knob
    int32_t tokens; // a knob
} drafter;

static void pld_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    const drafter *d = (const drafter *)base;
    int32_t tail[LS_POOL_ORDER];
    const int32_t n = ls_draft_tail(s, g->rows, sizeof *g->rows, 0, tail, LS_POOL_ORDER);
    const ls_match m = ls_pool_find(&d->base.pool, tail, (size_t)n);
    if (!m.n) return;
    const int32_t left = (int32_t)s->n_context - m.pos;
    ls_grow_note(g, LS_MISS_OTHERWISE);
    ls_grow_chain(g, s->context + m.pos, left, d->tokens,
                  (ls_branch){.rank = -1,
                              .match_n = (int16_t)m.n,
                              .match_pos = m.pos,
                              .found = (int16_t)(left < d->tokens ? left : d->tokens)});
}

static ls_miss pld_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    return miss >= LS_MISS_BEYOND ? miss : ls_pool_miss(&((const ls_copier *)base)->pool, q, miss);
}

static ls_code pld_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    (void)setup, (void)err;
    d->base.pool.span = LS_POOL_SPAN;
    d->base.pool.earliest = true;
    return LS_OK;
}

static const ls_knob knobs[] = {
    {"pld.ngram", LS_KNOB_INT, 3, 1, LS_POOL_ORDER, "longest n-gram of a look-up", offsetof(drafter, base.pool.order)},
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
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = pld_set_up,
                                   .observe = ls_copier_observe,
                                   .grow = pld_grow,
                                   .miss = pld_miss,
                                   .arrays = ls_copier_arrays,
                                   .pool_size = ls_copier_pool_size},
};
