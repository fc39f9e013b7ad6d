// LogitSpec as published: arXiv 2507.01449, section 3, and the authors' program (smart-lty/LogitSpec, 659bba9), which
// drafts the same (test_published). Each of two ablations has one half of it.
#include "spec/pool.h"

#include <string.h>

typedef struct {
    ls_copier base;
    bool guesses;
    bool root, tails; // look-ups after the root; look-ups after a guess
    int32_t ranks;    // largest number of guesses from the last logits; 0: the number of rows
} drafter;

// Largest number of tokens of a guess's branch by the guess's rank, including the guess.
static int32_t branch_length(int32_t rank) {
    return rank <= 8 ? 4 : rank <= 32 ? 3 : 1;
}

// A chain under the root: a continuation retrieved after the root (rank -1), or a guess and its retrieved continuation.
typedef struct {
    int32_t tokens[1 + LS_MAX_ROWS], n;
    int32_t most; // limit of drafted tokens
    ls_match match;
} chain;

// For a question: so many tokens as it has rows if the text has them there, even beyond those of the match.
static chain chain_of(const drafter *d, const ls_draft_state *s, int32_t rank, const ls_growth *g) {
    chain c;
    c.n = 0;
    c.match = (ls_match){.pos = -1};
    int32_t tail[LS_POOL_ORDER + 1], n = ls_draft_tail(s, g->rows, sizeof *g->rows, 0, tail, LS_POOL_ORDER);
    if (rank >= 0) tail[n++] = c.tokens[c.n++] = s->top_ids[rank];
    if (rank < 0 ? d->root : d->tails) c.match = ls_pool_find(&d->base.pool, tail, (size_t)n);
    const int32_t least = g->q ? g->n : 0, limited = c.n + c.match.len, left = (int32_t)s->n_context - c.match.pos,
                  more = least <= c.match.len || !c.match.n ? c.match.len
                         : least < left                     ? least
                                                            : left;
    if (c.match.n) memcpy(c.tokens + c.n, s->context + c.match.pos, (size_t)more * sizeof *c.tokens);
    c.n += more;
    c.most = rank < 0 || limited < branch_length(rank) ? limited : branch_length(rank);
    return c;
}

// Number of ranks of the last logits that may become guesses.
static int32_t ranks_of(const drafter *d, const ls_draft_state *s, int32_t max_rows) {
    if (!d->guesses) return 0;
    const int32_t most = d->ranks && d->ranks < max_rows ? d->ranks : max_rows;
    return most < s->n_top ? most : s->n_top;
}

// First (a) the tokens that followed the longest n-gram that ends in the root, then (b) next-next-token guesses: the
// other likely tokens at the root's position often come directly after it.
static void paper_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    const drafter *d = (const drafter *)base;
    const int32_t ranks = ranks_of(d, s, g->max_rows);
    for (int32_t rank = -1; rank < ranks && ls_grow_room(g) > 0; rank++) {
        if (rank >= 0 && s->top_ids[rank] == s->root) continue;
        const chain c = chain_of(d, s, rank, g);
        ls_grow_chain(g, c.tokens, c.n, c.most,
                      (ls_branch){.rank = (int16_t)rank,
                                  .match_n = (int16_t)c.match.n,
                                  .match_pos = c.match.pos,
                                  .found = (int16_t)c.match.len});
    }
}

static ls_miss paper_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const drafter *d = (const drafter *)base;
    if (d->root || (q->row && d->tails)) miss = ls_pool_miss(&d->base.pool, q, miss);
    if (miss == LS_MISS_TAKEN) return miss;
    return !q->row && d->guesses && q->token != q->state->root ? LS_MISS_BEYOND : miss;
}

static const ls_knob knobs[] = {
    {"logitspec-paper.ngram", LS_KNOB_INT, LS_POOL_ORDER, 1, LS_POOL_ORDER,
     "longest n-gram of a look-up (the authors' max_ngram_size)", offsetof(drafter, base.pool.order)},
    {"logitspec-paper.span", LS_KNOB_INT, LS_POOL_SPAN, 1, LS_POOL_MAX_SPAN,
     "largest number of tokens copied after a match (num_pred_tokens)", offsetof(drafter, base.pool.span)},
    {"logitspec-paper.ranks", LS_KNOB_INT, 0, 0, LS_MAX_ROWS,
     "number of ranks of the last logits for guesses, including the root's; 0: the number of rows, "
     "as published",
     offsetof(drafter, ranks)},
    {"logitspec-paper.root", LS_KNOB_SWITCH, 1, 0, 1, "copy the tokens that followed the root before",
     offsetof(drafter, root)},
    {"logitspec-paper.tails", LS_KNOB_SWITCH, 1, 0, 1, "copy the tokens that followed a guess before",
     offsetof(drafter, tails)},
    {0},
};

static ls_code paper_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    (void)setup, (void)err;
    d->guesses = !base->method->text_only;
    if (base->method->knobs) return LS_OK; // they set the rest
    d->base.pool = (ls_pool){.order = LS_POOL_ORDER, .span = LS_POOL_SPAN};
    d->root = d->tails = !d->guesses; // an ablation has one half
    return LS_OK;
}

static const ls_drafter functions = {.size = sizeof(drafter),
                                     .set_up = paper_set_up,
                                     .observe = ls_copier_observe,
                                     .grow = paper_grow,
                                     .miss = paper_miss,
                                     .arrays = ls_copier_arrays,
                                     .pool_size = ls_copier_pool_size};

const ls_method ls_method_logitspec_paper = {
    .name = "logitspec-paper",
    .summary = "LogitSpec exactly as published",
    .source = "arXiv 2507.01449, section 3, and the authors' program",
    .rows = 64,
    .shares_prefixes = true,
    .knobs = knobs,
    .drafter = &functions,
};

const ls_method ls_method_logit_only = {
    .name = "logit-only",
    .summary = "LogitSpec's guesses from the last logits, without retrieval",
    .source = "arXiv 2507.01449, one half",
    .rows = 64,
    .drafter = &functions,
};

const ls_method ls_method_retrieval_only = {
    .name = "retrieval-only",
    .summary = "LogitSpec's retrieval for the root, without guesses",
    .source = "arXiv 2507.01449, the other half",
    .rows = 1 + LS_POOL_SPAN,
    .text_only = true,
    .drafter = &functions,
};
