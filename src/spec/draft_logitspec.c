// LogitSpec's sources of drafts (retrieval for the root, next-next-token guesses from the last logits), the target's
// remembered choices and tokens by their usage, in one best-first tree. The acceptance probability of each candidate is
// estimated from all its sources (rates.h). The most likely paths are taken until the tree is full, or until another
// row would cost more time than it is expected to save.
#include "spec/recall.h"

typedef struct {
    ls_searcher base;
    ls_recall recall;
    int32_t megabytes;          // a knob: limit of the remembered choices
    const char *bigrams, *file; // knobs
} drafter;

static void logitspec_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    if (reset) ((drafter *)base)->recall.broken = true;
    ls_searcher_observe(base, context, n, reset);
}

static void logitspec_learn(ls_drafter *base, const ls_draft_result *r) {
    ls_searcher_learn(base, r);
    ls_recall_learn(&((drafter *)base)->recall, r);
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

static const ls_knob knobs[] = {
    {"logitspec.memory", LS_KNOB_INT, 32, 1, 4096,
     "memory limit of remembered choices in megabytes; the oldest are forgotten", offsetof(drafter, megabytes)},
    {"logitspec.read_prompt", LS_KNOB_NUMBER, 0.01, 0, 1000,
     "also learn from the prompt's rows, if this takes at most this share of the answer's time",
     offsetof(drafter, base.base.read_share)},
    {"logitspec.retrieved", LS_KNOB_SWITCH, 1, 0, 1, "use copies of the tokens that followed the same tokens before",
     offsetof(drafter, base.e.retrieved)},
    {"logitspec.remembered", LS_KNOB_SWITCH, 1, 0, 1, "use the target's earlier predictions after the same tokens",
     offsetof(drafter, base.e.remembered)},
    {"logitspec.last_logit", LS_KNOB_SWITCH, 1, 0, 1, "use the other tokens of the last logits",
     offsetof(drafter, base.e.last_logit)},
    {"logitspec.bigrams", LS_KNOB_FILE, 0, 0, 0,
     "file of the target's choices after each token alone; without it that of 'doctor --bigrams', if there "
     "is one; none: no file",
     offsetof(drafter, bigrams)},
    {"logitspec.file", LS_KNOB_FILE, 0, 0, 0,
     "file that keeps the target's choices of earlier answers for the next run; auto: one for each model in "
     "the state folder, used by chat and generate",
     offsetof(drafter, file)},
    {0},
};

static ls_code logitspec_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    ls_code code = LS_OK;
    base->stream = &d->recall.stream;
    ls_searcher_set_up(&d->base, (size_t)d->megabytes << 20);
    if (!d->base.e.remembered) base->read_share = 0; // only remembered choices learn from a prompt's rows
    else code = ls_bigrams_read(&d->base, d->bigrams, setup, &base->began, &base->lacks_bigrams, err);
    return code ? code : ls_recall_open(&d->recall, &d->base, d->file, setup, err);
}

const ls_method ls_method_logitspec = {
    .name = "logitspec",
    .summary = "LogitSpec and remembered choices in a best-first tree, sized by measured cost",
    .source = "after arXiv 2507.01449; the tree and the estimates are this program's own",
    .rows = 64,
    .sized = true,
    .knobs = knobs,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = logitspec_set_up,
                                   .observe = logitspec_observe,
                                   .propose = logitspec_propose,
                                   .learn = logitspec_learn,
                                   .read = ls_searcher_read,
                                   .miss = logitspec_miss,
                                   .arrays = ls_searcher_arrays,
                                   .pool_size = ls_searcher_pool_size},
};
