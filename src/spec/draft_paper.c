// LogitSpec as published: arXiv 2507.01449, section 3, and the authors' program. Each of two ablations has one half of
// it.
#include "base/mem.h"
#include "spec/drafter.h"
#include "spec/pool.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_drafter base;
    ls_pool pool;
    bool guesses;
    bool root, tails; // look-ups after the root; look-ups after a guess
    int32_t ranks;    // largest number of guesses from the last logits; 0: the number of rows
} drafter;

// Largest number of tokens of a guess's branch by the guess's rank, including the guess.
static int32_t branch_length(int32_t rank) {
    return rank <= 8 ? 4 : rank <= 32 ? 3 : 1;
}

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset) ls_pool_clear(&d->pool);
    ls_pool_update(&d->pool, context, n);
}

// A chain under the root: a continuation retrieved after the root (rank -1), or a guess and its retrieved continuation.
typedef struct {
    int32_t tokens[1 + LS_POOL_MAX_SPAN], n;
    int32_t most; // limit of drafted tokens
    ls_match match;
} chain;

static chain chain_of(const drafter *d, const ls_draft_state *s, int32_t rank) {
    chain c = {.match = {.pos = -1}};
    // the last two committed tokens, the root, and a guess after it
    int32_t tail[4], n = 0;
    for (size_t i = s->n_context > 2 ? s->n_context - 2 : 0; i < s->n_context; i++) tail[n++] = s->context[i];
    tail[n++] = s->root;
    if (rank >= 0) tail[n++] = c.tokens[c.n++] = s->top_ids[rank];
    if (rank < 0 ? d->root : d->tails) c.match = ls_pool_find(&d->pool, tail, (size_t)n);
    if (c.match.n) memcpy(c.tokens + c.n, s->context + c.match.pos, (size_t)c.match.len * sizeof *c.tokens);
    c.n += c.match.len;
    c.most = rank < 0 || c.n < branch_length(rank) ? c.n : branch_length(rank);
    return c;
}

// Number of ranks of the last logits that may become guesses.
static int32_t ranks_of(const drafter *d, const ls_draft_state *s, int32_t budget) {
    if (!d->guesses) return 0;
    const int32_t most = d->ranks && d->ranks < budget ? d->ranks : budget;
    return most < s->n_top ? most : s->n_top;
}

// First (a) the tokens that followed the longest n-gram that ends in the root, then (b) next-next-token guesses: the
// other likely tokens at the root's position often come directly after it.
static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    const drafter *d = (const drafter *)base;
    const int32_t ranks = ranks_of(d, s, budget);
    ls_tree_start(tree, s->root);
    for (int32_t rank = -1; rank < ranks && tree->n < budget; rank++) {
        if (rank >= 0 && s->top_ids[rank] == s->root) continue;
        const chain c = chain_of(d, s, rank);
        ls_tree_add(tree, c.tokens, c.most, budget,
                    (ls_branch){.rank = (int16_t)rank,
                                .match_n = (int16_t)c.match.n,
                                .match_pos = c.match.pos,
                                .found = (int16_t)c.match.len});
    }
}

static ls_knowledge at_most_hidden(const drafter *d, const ls_draft_question *q) {
    int32_t tail[LS_POOL_ORDER];
    const int32_t n = ls_draft_tail(q->state, q->tree, q->row, tail, LS_POOL_ORDER);
    bool has;
    if (!(q->row ? d->root || d->tails : d->root) ||
        !ls_pool_ask(&d->pool, q->state->context, tail, (size_t)n, q->token, &has))
        return LS_KNOWS_NOTHING;
    return has ? LS_KNOWS_HIDDEN : LS_KNOWS_OTHERS;
}

static ls_knowledge knows(const ls_drafter *base, const ls_draft_question *q) {
    const drafter *d = (const drafter *)base;
    const ls_draft_state *s = q->state;
    int32_t path[LS_MAX_ROWS];
    const int32_t depth = ls_tree_tokens(q->tree, q->row, path) - 1, ranks = ranks_of(d, s, q->budget);
    ls_knowledge best = at_most_hidden(d, q);
    if (!depth && d->guesses && q->token != s->root && best < LS_KNOWS_BEYOND) best = LS_KNOWS_BEYOND;
    for (int32_t rank = -1; rank < ranks; rank++) {
        if (rank >= 0 && (s->top_ids[rank] == s->root || (depth && s->top_ids[rank] != path[1]))) continue;
        const chain c = chain_of(d, s, rank);
        if (c.n < depth || memcmp(c.tokens, path + 1, (size_t)depth * sizeof *path)) continue;
        const size_t next = c.match.n ? (size_t)(c.match.pos + depth - (rank >= 0)) : s->n_context;
        const bool has =
            depth < c.n ? c.tokens[depth] == q->token : next < s->n_context && s->context[next] == q->token;
        const ls_knowledge k = !has ? LS_KNOWS_OTHERS : depth < c.most ? LS_KNOWS_IT : LS_KNOWS_BEYOND;
        if (k > best && (has || depth < c.n)) best = k;
    }
    return best;
}

static void memory(void *d, ls_memory_visit *v) {
    ls_pool_memory(&((drafter *)d)->pool, v);
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
    d->base = (ls_drafter){.observe = observe,
                           .propose = propose,
                           .knows = knows,
                           .memory = memory,
                           .pool_size = pool_size,
                           .bytes = bytes,
                           .free = free_drafter};
    d->pool = (ls_pool){.order = LS_POOL_ORDER, .span = LS_POOL_SPAN};
    d->guesses = guesses;
    d->root = d->tails = retrieval;
    *out = &d->base;
    return d;
}

enum { NGRAM, SPAN, RANKS, ROOT, TAILS };
static const ls_knob knobs[] = {
    [NGRAM] = {"logitspec-paper.ngram", LS_KNOB_INT, LS_POOL_ORDER, 1, LS_POOL_ORDER,
               "longest n-gram of a look-up (the authors' max_ngram_size)"},
    [SPAN] = {"logitspec-paper.span", LS_KNOB_INT, LS_POOL_SPAN, 1, LS_POOL_MAX_SPAN,
              "largest number of tokens copied after a match (num_pred_tokens)"},
    [RANKS] = {"logitspec-paper.ranks", LS_KNOB_INT, 0, 0, LS_MAX_ROWS,
               "number of ranks of the last logits for guesses, including the root's; 0: the number of rows, "
               "as published"},
    [ROOT] = {"logitspec-paper.root", LS_KNOB_SWITCH, 1, 0, 1, "copy the tokens that followed the root before"},
    [TAILS] = {"logitspec-paper.tails", LS_KNOB_SWITCH, 1, 0, 1, "copy the tokens that followed a guess before"},
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
    .summary = "LogitSpec's guesses from the last logits, without retrieval",
    .source = "arXiv 2507.01449, one half",
    .rows = 64,
    .make = make_guesses,
};

const ls_method ls_method_retrieval_only = {
    .name = "retrieval-only",
    .summary = "LogitSpec's retrieval for the root, without guesses",
    .source = "arXiv 2507.01449, the other half",
    .rows = 1 + LS_POOL_SPAN,
    .text_only = true,
    .make = make_retrieval,
};
