// LogitSpec's sources of drafts (retrieval for the root, next-next-token guesses from the last logits), the target's
// remembered choices and tokens by their usage, in one best-first tree. The acceptance probability of each candidate is
// estimated from all its sources (rates.h). The most likely paths are taken until the tree is full, or until another
// row would cost more time than it is expected to save.
#include "spec/recall.h"

#include <stdlib.h>

typedef struct {
    ls_searcher base;
    ls_recall recall;
} drafter;

static void logitspec_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    if (reset) ls_recall_break(&((drafter *)base)->recall);
    ls_searcher_observe(base, context, n, reset);
}

static void logitspec_learn(ls_drafter *base, const ls_draft_result *r) {
    ls_searcher_learn(base, r);
    ls_recall_learn(&((drafter *)base)->recall, r);
}

static void logitspec_memory(void *of, ls_memory_visit *v) {
    drafter *d = of;
    ls_searcher_memory(d, v);
    ls_stream_memory(&d->recall.stream, v);
    ls_memory_part(v, &d->recall.broken, sizeof d->recall.broken);
}

static void logitspec_free(ls_drafter *base) {
    drafter *d = (drafter *)base;
    ls_stream_close(&d->recall.stream);
    ls_memory_drop(logitspec_memory, d);
    free(d);
}

static void logitspec_propose(ls_drafter *base, const ls_draft_state *s, int32_t max_rows, ls_tree *tree) {
    ls_search *q = ls_search_of((const ls_searcher *)base, s);
    ls_search_run(q, max_rows);
    ls_search_tree(q, tree);
}

static ls_miss logitspec_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    (void)miss;
    return ls_search_miss(ls_search_of((const ls_searcher *)base, q->state), q);
}

enum { MEMORY, READ, RETRIEVED, REMEMBERED, LAST_LOGIT, BIGRAMS, FILE_NAME };
static const ls_knob knobs[] = {
    [MEMORY] = {"logitspec.memory", LS_KNOB_INT, 32, 1, 4096,
                "memory limit of remembered choices in megabytes; the oldest are forgotten"},
    [READ] = {"logitspec.read_prompt", LS_KNOB_NUMBER, 0.01, 0, 1000,
              "also learn from the prompt's rows, if this takes at most this share of the answer's time"},
    [RETRIEVED] = {"logitspec.retrieved", LS_KNOB_SWITCH, 1, 0, 1,
                   "use copies of the tokens that followed the same tokens before"},
    [REMEMBERED] = {"logitspec.remembered", LS_KNOB_SWITCH, 1, 0, 1,
                    "use the target's earlier predictions after the same tokens"},
    [LAST_LOGIT] = {"logitspec.last_logit", LS_KNOB_SWITCH, 1, 0, 1, "use the other tokens of the last logits"},
    [BIGRAMS] = {"logitspec.bigrams", LS_KNOB_FILE, 0, 0, 0,
                 "file of the target's choices after each token alone; without it that of 'doctor --bigrams', if there "
                 "is one; none: no file"},
    [FILE_NAME] =
        {"logitspec.file", LS_KNOB_FILE, 0, 0, 0,
         "file that keeps the target's choices of earlier answers for the next run; auto: one for each model in "
         "the state folder, used by chat and generate"},
    {0},
};

static ls_code logitspec_make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = ls_searcher_new(sizeof *d,
                                 (ls_drafter){.observe = logitspec_observe,
                                              .propose = logitspec_propose,
                                              .learn = logitspec_learn,
                                              .miss = logitspec_miss,
                                              .memory = logitspec_memory,
                                              .free = logitspec_free},
                                 (size_t)setup->knobs[MEMORY].number << 20);
    ls_evidence *e = &d->base.e;
    e->retrieved = setup->knobs[RETRIEVED].number != 0;
    e->remembered = setup->knobs[REMEMBERED].number != 0;
    e->last_logit = setup->knobs[LAST_LOGIT].number != 0;
    d->base.base.read_share =
        e->remembered ? setup->knobs[READ].number : 0; // only remembered choices learn from a prompt's rows
    ls_code code = LS_OK;
    uint64_t bigrams = 0;
    if (e->remembered)
        code = ls_bigrams_read(&d->base, setup->knobs[BIGRAMS].text, setup, &bigrams, &d->base.base.lacks_bigrams, err);
    if (!code) code = ls_recall_open(&d->recall, &d->base, setup->knobs[FILE_NAME].text, setup, err);
    d->base.base.began = d->recall.stream.sum ^ bigrams;
    *out = code ? NULL : &d->base.base;
    if (code) logitspec_free(&d->base.base);
    return code;
}

const ls_method ls_method_logitspec = {
    .name = "logitspec",
    .summary = "LogitSpec and remembered choices in a best-first tree, sized by measured cost",
    .source = "after arXiv 2507.01449; the tree and the estimates are this program's own",
    .rows = 64,
    .sized = true,
    .scored = true,
    .knobs = knobs,
    .make = logitspec_make,
};
