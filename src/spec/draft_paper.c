// LogitSpec as published: arXiv 2507.01449, section 3, and the authors' program. Two ablations keep one half of it
// each.
#include "base/mem.h"
#include "spec/drafter.h"
#include "spec/pool.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_drafter base;
    ls_pool pool;
    bool guesses;
    bool root, tails; // looks up what follows the root, and what follows a guess
    int32_t ranks;    // of the last logits that are guesses at most; 0: as many as rows
} drafter;

// Tokens that a guess of this rank may take, itself included.
static int32_t branch_length(int32_t rank) {
    return rank <= 8 ? 4 : rank <= 32 ? 3 : 1;
}

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset) ls_pool_clear(&d->pool);
    ls_pool_update(&d->pool, context, n);
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    drafter *d = (drafter *)base;
    ls_tree_start(tree, s->root);
    const int32_t ranks = d->ranks && d->ranks < budget ? d->ranks : budget;
    // the last two committed tokens, the root, and a guess after it
    int32_t tail[4], n = 0;
    for (size_t i = s->n_context > 2 ? s->n_context - 2 : 0; i < s->n_context; i++) tail[n++] = s->context[i];
    tail[n++] = s->root;
    // (a) what followed the longest n-gram that ends in the root
    ls_match m = {0};
    if (d->root) m = ls_pool_find(&d->pool, tail, (size_t)n);
    if (m.n)
        ls_tree_add(tree, s->context + m.pos, m.len, budget,
                    (ls_branch){.rank = -1, .match_n = (int16_t)m.n, .match_pos = m.pos, .found = (int16_t)m.len});
    // (b) next-next-token guesses: the other likely tokens at the root's place tend to come right after it
    for (int32_t rank = 0; d->guesses && rank < s->n_top && rank < ranks && tree->n < budget; rank++) {
        int32_t chain[1 + LS_POOL_MAX_SPAN], x = s->top_ids[rank];
        if (x == s->root) continue;
        tail[n] = chain[0] = x;
        m = d->tails ? ls_pool_find(&d->pool, tail, (size_t)n + 1) : (ls_match){.pos = -1};
        if (m.n) memcpy(chain + 1, s->context + m.pos, (size_t)m.len * sizeof *chain);
        int32_t len = 1 + m.len, most = branch_length(rank);
        ls_tree_add(
            tree, chain, len < most ? len : most, budget,
            (ls_branch){.rank = (int16_t)rank, .match_n = (int16_t)m.n, .match_pos = m.pos, .found = (int16_t)m.len});
    }
}

static int32_t pool_size(const ls_drafter *base) {
    return ls_pool_size(&((const drafter *)base)->pool);
}

static void free_drafter(ls_drafter *base) {
    ls_pool_free(&((drafter *)base)->pool);
    free(base);
}

static size_t bytes(const ls_drafter *base) {
    return sizeof(drafter) + ls_pool_bytes(&((const drafter *)base)->pool);
}

static drafter *make(ls_drafter **out, bool guesses, bool retrieval) {
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){
        .observe = observe, .propose = propose, .pool_size = pool_size, .bytes = bytes, .free = free_drafter};
    d->pool = (ls_pool){.order = LS_POOL_ORDER, .span = LS_POOL_SPAN};
    d->guesses = guesses;
    d->root = d->tails = retrieval;
    *out = &d->base;
    return d;
}

enum { NGRAM, SPAN, RANKS, ROOT, TAILS };
static const ls_knob knobs[] = {
    [NGRAM] = {"logitspec-paper.ngram", LS_KNOB_INT, LS_POOL_ORDER, 1, LS_POOL_ORDER,
               "longest n-gram that is looked up (the authors' max_ngram_size)"},
    [SPAN] = {"logitspec-paper.span", LS_KNOB_INT, LS_POOL_SPAN, 1, LS_POOL_MAX_SPAN,
              "tokens copied after a match at most (num_pred_tokens)"},
    [RANKS] = {"logitspec-paper.ranks", LS_KNOB_INT, 0, 0, LS_MAX_ROWS,
               "ranks of the last logits that are looked at, the root's own included; 0: as many as the tree has rows, "
               "as published"},
    [ROOT] = {"logitspec-paper.root", LS_KNOB_SWITCH, 1, 0, 1, "what followed the root before, copied behind it"},
    [TAILS] = {"logitspec-paper.tails", LS_KNOB_SWITCH, 1, 0, 1, "what followed a guess before, copied behind it"},
    {0},
};

static ls_code make_paper(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)err;
    drafter *d = make(out, true, true);
    d->pool.order = (int32_t)setup->knobs[NGRAM].number;
    d->pool.span = (int32_t)setup->knobs[SPAN].number;
    d->ranks = (int32_t)setup->knobs[RANKS].number;
    d->root = setup->knobs[ROOT].number > 0;
    d->tails = setup->knobs[TAILS].number > 0;
    return LS_OK;
}

static ls_code make_guesses(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)setup, (void)err;
    make(out, true, false);
    return LS_OK;
}

static ls_code make_retrieval(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)setup, (void)err;
    make(out, false, true);
    return LS_OK;
}

const ls_method ls_method_logitspec_paper = {
    .name = "logitspec-paper",
    .summary = "LogitSpec exactly as published",
    .source = "arXiv 2507.01449, section 3, and the authors' program",
    .rows = 64,
    .shares_prefixes = true,
    .knobs = knobs,
    .make = make_paper,
};

const ls_method ls_method_logit_only = {
    .name = "logit-only",
    .summary = "its guesses from the last logits alone, without retrieval",
    .source = "arXiv 2507.01449, one half",
    .rows = 64,
    .make = make_guesses,
};

const ls_method ls_method_retrieval_only = {
    .name = "retrieval-only",
    .summary = "its retrieval for the root alone, without guesses",
    .source = "arXiv 2507.01449, the other half",
    .rows = 1 + LS_POOL_SPAN,
    .text_only = true,
    .make = make_retrieval,
};
