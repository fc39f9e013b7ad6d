// REST (arXiv 2311.08252): the longest ending of the text, root included, that occurs in the user's corpus; what
// followed it there, all occurrences at once, makes a tree by counts, the likeliest paths first.
#include "base/mem.h"
#include "spec/corpus.h"
#include "spec/drafter.h"
#include "spec/frontier.h"

#include <stdlib.h>

// A token that follows a share of 1 / PROBES of the occurrences or more is found for certain, a rarer one by chance:
// the range is looked at in that many places.
enum { PROBES = 24, MAX_NGRAM = 24, MAX_DEPTH = LS_CORPUS_DEPTH - MAX_NGRAM };

typedef struct {
    ls_drafter base;
    ls_corpus *corpus;
    int32_t ngram, tokens;
} drafter;

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    (void)base, (void)context, (void)n, (void)reset; // the corpus stays as it is
}

typedef struct {
    ls_draft node;
    ls_corpus_range range;
    int32_t depth; // of the node in the tree
} candidate;

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    const drafter *d = (const drafter *)base;
    static _Thread_local candidate c[LS_FRONTIER_MAX];
    static _Thread_local ls_frontier open;
    ls_draft nodes[LS_MAX_ROWS] = {{.token = s->root, .parent = -1}};
    int32_t tail[MAX_NGRAM], m = d->ngram, length, n = 1, n_c = 0;
    tail[--m] = s->root;
    for (size_t i = s->n_context; i > 0 && m > 0; i--) tail[--m] = s->context[i - 1];
    ls_corpus_range range = ls_corpus_find(d->corpus, tail + m, d->ngram - m, d->ngram, &length);
    int32_t parent = 0, depth = 0;
    double chance = 1;
    open.n = 0;
    while (n < budget) {
        const int32_t all = range.hi - range.lo;
        for (int32_t p = 0, i = range.lo; p < PROBES && i < range.hi && depth < d->tokens && n_c < LS_FRONTIER_MAX;
             p++) {
            int32_t token;
            const ls_corpus_range next = ls_corpus_next(d->corpus, range, length + depth, i, &token);
            const int32_t step = range.lo + (int32_t)((int64_t)all * (p + 1) / PROBES);
            i = next.hi > step ? next.hi : step;
            if (token == LS_CORPUS_BREAK) continue;
            bool known = false; // a step may land in a range that was seen
            for (int32_t k = n_c - 1; k >= 0 && c[k].node.parent == parent && !known; k--)
                known = c[k].node.token == token;
            if (known) continue;
            const double share = (double)(next.hi - next.lo) / all;
            c[n_c].node = (ls_draft){.token = token,
                                     .parent = (int16_t)parent,
                                     .rank = -1,
                                     .match_n = (int16_t)length,
                                     .match_pos = -1,
                                     .from = LS_FROM_CORPUS,
                                     .est_p = (float)share};
            c[n_c].range = next;
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

static int32_t pool_size(const ls_drafter *base) {
    return (int32_t)ls_corpus_get_facts(((const drafter *)base)->corpus)->n;
}

static size_t bytes(const ls_drafter *base) {
    (void)base;
    return sizeof(drafter); // the corpus is a mapped file
}

static void free_drafter(ls_drafter *base) {
    ls_corpus_close(((drafter *)base)->corpus);
    free(base);
}

enum { CORPUS, NGRAM, TOKENS };
static const ls_knob knobs[] = {
    [CORPUS] = {"rest.corpus", LS_KNOB_FILE, 0, 0, 0, "what 'logitspec corpus build' wrote"},
    [NGRAM] = {"rest.ngram", LS_KNOB_INT, 16, 1, MAX_NGRAM, "longest ending that is looked up"},
    [TOKENS] = {"rest.tokens", LS_KNOB_INT, 10, 1, MAX_DEPTH, "tokens drafted after a match"},
    {0},
};

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    const char *path = setup->knobs[CORPUS].text;
    if (!path || !*path)
        return ls_fail(err, LS_E_USAGE,
                       "method rest needs a corpus: 'logitspec corpus build FILE... --out my.corpus', then "
                       "--set rest.corpus=my.corpus");
    ls_corpus *corpus;
    ls_code code = ls_corpus_open(&corpus, path, err);
    if (code) return code;
    const ls_corpus_facts *f = ls_corpus_get_facts(corpus);
    if (setup->tokenizer_id && f->tokenizer_id != setup->tokenizer_id) {
        code = ls_fail(err, LS_E_USAGE, "%s: built with the tokenizer of %s; the model's is that of %s: build it again",
                       path, f->tokenizer, setup->tokenizer);
        ls_corpus_close(corpus);
        return code;
    }
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){
        .observe = observe, .propose = propose, .pool_size = pool_size, .bytes = bytes, .free = free_drafter};
    d->corpus = corpus;
    d->ngram = (int32_t)setup->knobs[NGRAM].number;
    d->tokens = (int32_t)setup->knobs[TOKENS].number;
    *out = &d->base;
    return LS_OK;
}

const ls_method ls_method_rest = {
    .name = "rest",
    .summary = "REST: what followed the longest ending of the text in your corpus, by counts",
    .source = "arXiv 2311.08252",
    .rows = 64,
    .text_only = true,
    .knobs = knobs,
    .make = make,
};
