// REST (arXiv 2311.08252): finds the longest suffix of the text, including the root, that occurs in the user's corpus,
// and makes a tree of the tokens that followed it there, by counts, the most likely paths first. As in the authors'
// program (FasterDecoding/REST, 50a5fc1), a suffix has at least two tokens, and only its first 5,000 occurrences in the
// suffix array are counted. What differs: the 63 most frequent prefixes are verified; of 64 the program drops the
// longest until their lengths, repeated tokens not counted, sum to 64. Equal counts come in the order of the corpus; in
// the program by chance. Without a match nothing is drafted; the program drafts token 100. test_published compares
// them.
#include "spec/corpus.h"
#include "spec/drafter.h"

#include <stdlib.h>

enum { MATCHES = 5000, MIN_NGRAM = 2, MAX_NGRAM = 24, MAX_DEPTH = LS_CORPUS_DEPTH - MAX_NGRAM };

typedef struct {
    ls_drafter base;
    ls_corpus *corpus;
    const char *path;      // a knob: its file
    int32_t ngram, tokens; // knobs
} drafter;

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
    int32_t parent, token, depth; // depth: of the row in the tree
    double share;
    ls_corpus_range range;
} candidate;

// The occurrences of the longest suffix of the text plus the root.
static ls_corpus_range matches(const drafter *d, const ls_draft_state *s, const ls_growth *g, int32_t *length) {
    int32_t tail[MAX_NGRAM];
    const int32_t n = ls_draft_tail(s, g->rows, sizeof *g->rows, 0, tail, d->ngram);
    ls_corpus_range range = ls_corpus_find(d->corpus, tail, n, d->ngram, length);
    if (*length < MIN_NGRAM) range.hi = range.lo;
    if (range.hi - range.lo > MATCHES) range.hi = range.lo + MATCHES;
    return range;
}

static void rest_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    const drafter *d = (const drafter *)base;
    static _Thread_local candidate c[LS_CANDIDATES];
    static _Thread_local continuation next[MATCHES];
    static _Thread_local ls_open open;
    int32_t length, n_c = 0, parent = 0, depth = 0, room;
    ls_corpus_range range = matches(d, s, g, &length);
    double chance = 1;
    open.n = 0;
    while ((room = ls_grow_room(g)) > 0) {
        const int32_t n_next = depth < d->tokens || g->q ? continuations(d->corpus, range, length + depth, next) : 0;
        for (int32_t i = 0; i < n_next && n_c < LS_CANDIDATES; i++) {
            if (next[i].token == LS_CORPUS_BREAK) continue;
            if (depth == d->tokens) { // of a question
                ls_grow_note(g, next[i].token == g->q->token ? LS_MISS_BEYOND : LS_MISS_OTHERWISE);
                continue;
            }
            const double share = (double)(next[i].range.hi - next[i].range.lo) / (range.hi - range.lo);
            if (g->q && ls_grow(g, parent, next[i].token, LS_SOURCE_CORPUS, length, share) < 0) continue;
            if (!ls_open_add(&open, room, n_c, chance * share)) break; // nor would the following ones get a row
            c[n_c++] = (candidate){parent, next[i].token, depth + 1, share, next[i].range};
        }
        const int32_t at = ls_open_take(&open, &chance);
        if (at < 0) break;
        range = c[at].range;
        depth = c[at].depth;
        parent = ls_grow(g, c[at].parent, c[at].token, LS_SOURCE_CORPUS, length, c[at].share);
    }
}

static ls_miss rest_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const drafter *d = (const drafter *)base;
    int32_t tail[MIN_NGRAM + 1], found; // the shortest ending that a look-up could find
    const int32_t n = ls_question_tail(q, tail, MIN_NGRAM);
    if (miss == LS_MISS_BEYOND || n < MIN_NGRAM) return miss;
    tail[n] = q->token;
    ls_corpus_find(d->corpus, tail, n + 1, n + 1, &found);
    if (found > n) return LS_MISS_TAKEN;
    ls_corpus_find(d->corpus, tail, n, n, &found);
    return found == n ? LS_MISS_OTHERWISE : miss;
}

static int32_t rest_pool_size(const ls_drafter *base) {
    return (int32_t)((const drafter *)base)->corpus->facts.n;
}

static void rest_arrays(void *d, ls_memory_visit *v) {
    ls_memory_own(v, &((drafter *)d)->corpus, sizeof(ls_corpus *));
}

static void rest_free(ls_drafter *base) {
    ls_corpus_close(((drafter *)base)->corpus);
    ls_drafter_free(base);
}

static const ls_knob knobs[] = {
    {"rest.corpus", LS_KNOB_FILE, 0, 0, 0, "corpus file written by 'logitspec corpus build'", offsetof(drafter, path)},
    {"rest.ngram", LS_KNOB_INT, 16, MIN_NGRAM, MAX_NGRAM, "longest ending of a look-up", offsetof(drafter, ngram)},
    {"rest.tokens", LS_KNOB_INT, 10, 1, MAX_DEPTH, "tokens drafted after a match", offsetof(drafter, tokens)},
    {0},
};

static ls_code rest_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    if (!d->path || !*d->path)
        return ls_fail(err, LS_E_USAGE,
                       "method rest needs a corpus: run 'logitspec corpus build FILE... --out my.corpus', then "
                       "use --set rest.corpus=my.corpus");
    const ls_code code = ls_corpus_open(&d->corpus, d->path, err);
    if (code) return code;
    const ls_corpus_facts *f = &d->corpus->facts;
    return setup->tokenizer_id && f->tokenizer_id != setup->tokenizer_id
               ? ls_fail(err, LS_E_USAGE,
                         "%s: built with the tokenizer of %s, but the model has that of %s; build it again", d->path,
                         f->tokenizer, setup->tokenizer)
               : LS_OK;
}

const ls_method ls_method_rest = {
    .name = "rest",
    .summary = "REST: the tokens that followed the longest suffix of the text in your corpus, by counts",
    .source = "arXiv 2311.08252",
    .rows = 64,
    .text_only = true,
    .knobs = knobs,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = rest_set_up,
                                   .grow = rest_grow,
                                   .miss = rest_miss,
                                   .arrays = rest_arrays,
                                   .pool_size = rest_pool_size,
                                   .free = rest_free},
};
