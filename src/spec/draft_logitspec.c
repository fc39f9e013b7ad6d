// LogitSpec's sources of drafts (retrieval for the root, next-next-token guesses from the last logits), the target's
// remembered choices and tokens by their usage, in one best-first tree. The acceptance probability of each candidate is
// estimated from all its sources (rates.h). The most likely paths are taken until the tree is full, or until another
// row would cost more time than it is expected to save.
#include "spec/search.h"

static void logitspec_propose(ls_drafter *base, const ls_draft_state *s, int32_t max_rows, ls_tree *tree) {
    ls_search *q = ls_search_of((const ls_searcher *)base, s);
    ls_search_run(q, max_rows);
    ls_search_tree(q, tree);
}

static ls_knowledge logitspec_knows(const ls_drafter *base, const ls_draft_question *q, ls_knowledge known) {
    (void)known;
    return ls_search_knows(ls_search_of((const ls_searcher *)base, q->state), q);
}

enum { MEMORY, READ, RETRIEVED, REMEMBERED, LAST_LOGIT };
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
    {0},
};

static ls_code logitspec_make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)err;
    ls_searcher *d = ls_searcher_new(sizeof *d, (ls_drafter){.propose = logitspec_propose, .knows = logitspec_knows},
                                     (size_t)setup->knobs[MEMORY].number << 20);
    d->e.retrieved = setup->knobs[RETRIEVED].number != 0;
    d->e.remembered = setup->knobs[REMEMBERED].number != 0;
    d->e.last_logit = setup->knobs[LAST_LOGIT].number != 0;
    d->base.read_share =
        d->e.remembered ? setup->knobs[READ].number : 0; // only remembered choices learn from a prompt's rows
    *out = &d->base;
    return LS_OK;
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
