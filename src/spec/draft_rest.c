// REST (arXiv 2311.08252): finds the longest suffix of the text, including the root, that occurs in the user's corpus,
// and makes a tree of the tokens that followed it there, by counts, the most likely paths first. As in the authors'
// program, a suffix has at least two tokens, and only its first 5,000 occurrences in the suffix array are counted.
#include "base/mem.h"
#include "spec/corpus.h"
#include "spec/drafter.h"

#include <stdlib.h>

enum { MATCHES = 5000, MIN_NGRAM = 2, MAX_NGRAM = 24, MAX_DEPTH = LS_CORPUS_DEPTH - MAX_NGRAM };

typedef struct {
    ls_drafter base;
    ls_corpus *corpus;
    int32_t ngram, tokens;
} drafter;

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    (void)base, (void)context, (void)n, (void)reset; // the corpus does not change
}

typedef struct {
    int32_t token;
    ls_corpus_range range;
} continuation;

static int more_often_first(const void *a, const void *b) {
    const continuation *x = a, *y = b;
    const int32_t nx = x->range.hi - x->range.lo, ny = y->range.hi - y->range.lo;
    return nx != ny ? (nx < ny) - (nx > ny) : (x->range.lo > y->range.lo) - (x->range.lo < y->range.lo);
}

// The tokens after the first `depth` tokens of the range's suffixes, the most frequent first.
static int32_t continuations(const ls_corpus *corpus, ls_corpus_range range, int32_t depth, continuation *out) {
    int32_t n = 0;
    for (int32_t i = range.lo; i < range.hi; i = out[n - 1].range.hi) {
        out[n].range = ls_corpus_next(corpus, range, depth, i, &out[n].token);
        n++;
    }
    qsort(out, (size_t)n, sizeof *out, more_often_first);
    return n;
}

typedef struct {
    ls_draft node;
    ls_corpus_range range;
    int32_t depth; // of the node in the tree
} candidate;

// The occurrences of the longest suffix of the text plus the root, which is row 0 of the tree.
static ls_corpus_range matches(const drafter *d, const ls_draft_state *s, const ls_tree *tree, int32_t *length) {
    int32_t tail[MAX_NGRAM];
    const int32_t n = ls_draft_tail(s, tree, 0, tail, d->ngram);
    ls_corpus_range range = ls_corpus_find(d->corpus, tail, n, d->ngram, length);
    if (*length < MIN_NGRAM) range.hi = range.lo;
    if (range.hi - range.lo > MATCHES) range.hi = range.lo + MATCHES;
    return range;
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    const drafter *d = (const drafter *)base;
    static _Thread_local candidate c[LS_FRONTIER_MAX];
    static _Thread_local continuation next[MATCHES];
    static _Thread_local ls_frontier open;
    ls_draft nodes[LS_MAX_ROWS] = {{.token = s->root, .parent = -1}};
    int32_t length, n = 1, n_c = 0, parent = 0, depth = 0;
    ls_tree_start(tree, s->root);
    ls_corpus_range range = matches(d, s, tree, &length);
    double chance = 1;
    open.n = 0;
    while (n < budget) {
        const int32_t n_next = depth < d->tokens ? continuations(d->corpus, range, length + depth, next) : 0;
        for (int32_t i = 0; i < n_next && n_c < LS_FRONTIER_MAX; i++) {
            if (next[i].token == LS_CORPUS_BREAK) continue;
            const double share = (double)(next[i].range.hi - next[i].range.lo) / (range.hi - range.lo);
            int32_t before = 0; // if enough more likely nodes fill the tree, skip this one and the following ones
            for (int32_t k = 0; k < open.n && before < budget - n; k++) before += open.path[k] >= chance * share;
            if (before == budget - n) break;
            c[n_c].node = (ls_draft){.token = next[i].token,
                                     .parent = (int16_t)parent,
                                     .rank = -1,
                                     .match_n = (int16_t)length,
                                     .match_pos = -1,
                                     .from = LS_FROM_CORPUS,
                                     .est_p = (float)share};
            c[n_c].range = next[i].range;
            c[n_c].depth = depth + 1;
            ls_frontier_push(&open, n_c++, chance * share);
        }
        const int32_t item = ls_frontier_pop(&open, &chance);
        if (item < 0) break;
        range = c[item].range;
        depth = c[item].depth;
        parent = n;
        nodes[n++] = c[item].node;
    }
    ls_tree_lay_out(tree, nodes, n);
}

// The part of a range with this token at this depth; may be empty.
static ls_corpus_range going_on(const ls_corpus *corpus, ls_corpus_range range, int32_t depth, int32_t token) {
    while (range.lo < range.hi) {
        int32_t next;
        const ls_corpus_range r = ls_corpus_next(corpus, range, depth, range.lo, &next);
        if (next == token) return r;
        range.lo = r.hi;
    }
    return range;
}

static ls_knowledge knows(const ls_drafter *base, const ls_draft_question *q) {
    const drafter *d = (const drafter *)base;
    int32_t path[LS_MAX_ROWS], tail[MIN_NGRAM + 1], length, found;
    const int32_t depth = ls_tree_tokens(q->tree, q->row, path) - 1;
    ls_corpus_range range = matches(d, q->state, q->tree, &length);
    for (int32_t i = 1; i <= depth; i++) range = going_on(d->corpus, range, length + i - 1, path[i]);
    const bool any = range.lo < range.hi;
    range = going_on(d->corpus, range, length + depth, q->token);
    if (range.lo < range.hi) return depth < d->tokens ? LS_KNOWS_IT : LS_KNOWS_BEYOND;
    const int32_t n =
        ls_draft_tail(q->state, q->tree, q->row, tail, MIN_NGRAM); // the shortest ending that a look-up could find
    tail[n] = q->token;
    if (n < MIN_NGRAM) return LS_KNOWS_NOTHING;
    ls_corpus_find(d->corpus, tail, n + 1, n + 1, &found);
    if (found > n) return LS_KNOWS_HIDDEN;
    ls_corpus_find(d->corpus, tail, n, n, &found);
    return any || found == n ? LS_KNOWS_OTHERS : LS_KNOWS_NOTHING;
}

static int32_t pool_size(const ls_drafter *base) {
    return (int32_t)ls_corpus_get_facts(((const drafter *)base)->corpus)->n;
}

static size_t bytes(const ls_drafter *base) {
    (void)base;
    return sizeof(drafter); // without the corpus, which is a mapped file
}

static void free_drafter(ls_drafter *base) {
    ls_corpus_close(((drafter *)base)->corpus);
    free(base);
}

enum { CORPUS, NGRAM, TOKENS };
static const ls_knob knobs[] = {
    [CORPUS] = {"rest.corpus", LS_KNOB_FILE, 0, 0, 0, "corpus file written by 'logitspec corpus build'"},
    [NGRAM] = {"rest.ngram", LS_KNOB_INT, 16, MIN_NGRAM, MAX_NGRAM, "longest ending of a look-up"},
    [TOKENS] = {"rest.tokens", LS_KNOB_INT, 10, 1, MAX_DEPTH, "tokens drafted after a match"},
    {0},
};

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    const char *path = setup->knobs[CORPUS].text;
    if (!path || !*path)
        return ls_fail(err, LS_E_USAGE,
                       "method rest needs a corpus: run 'logitspec corpus build FILE... --out my.corpus', then "
                       "use --set rest.corpus=my.corpus");
    ls_corpus *corpus;
    ls_code code = ls_corpus_open(&corpus, path, err);
    if (code) return code;
    const ls_corpus_facts *f = ls_corpus_get_facts(corpus);
    if (setup->tokenizer_id && f->tokenizer_id != setup->tokenizer_id) {
        code =
            ls_fail(err, LS_E_USAGE, "%s: built with the tokenizer of %s, but the model has that of %s; build it again",
                    path, f->tokenizer, setup->tokenizer);
        ls_corpus_close(corpus);
        return code;
    }
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){.observe = observe,
                           .propose = propose,
                           .knows = knows,
                           .pool_size = pool_size,
                           .bytes = bytes,
                           .free = free_drafter};
    d->corpus = corpus;
    d->ngram = (int32_t)setup->knobs[NGRAM].number;
    d->tokens = (int32_t)setup->knobs[TOKENS].number;
    *out = &d->base;
    return LS_OK;
}

const ls_method ls_method_rest = {
    .name = "rest",
    .summary = "REST: the tokens that followed the longest suffix of the text in your corpus, by counts",
    .source = "arXiv 2311.08252",
    .rows = 64,
    .text_only = true,
    .knobs = knobs,
    .make = make,
};
