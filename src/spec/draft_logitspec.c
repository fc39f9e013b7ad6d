// LogitSpec's sources of drafts (retrieval for the root, next-next-token guesses from the last logits) and the target's
// remembered choices, in one best-first tree. The acceptance probability of each candidate is estimated from all its
// sources (rates.h). The most likely paths are taken until the budget is full, or until another row would cost more
// time than it is expected to save.
#include "base/mem.h"
#include "spec/search.h"

#include <stdlib.h>

typedef struct {
    ls_drafter base;
    ls_evidence e;
} drafter;

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    ls_evidence_observe(&((drafter *)base)->e, context, n, reset);
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    static _Thread_local ls_search q; // too large for the stack; used only in this function
    q.e = &((const drafter *)base)->e;
    q.s = s;
    ls_search_run(&q, budget);
    ls_search_tree(&q, tree);
}

static ls_knowledge knows(const ls_drafter *base, const ls_draft_question *q) {
    return ls_evidence_knows(&((const drafter *)base)->e, q);
}

static void learn(ls_drafter *base, const ls_draft_result *r) {
    ls_evidence_learn(&((drafter *)base)->e, r);
}

static void read_prompt(ls_drafter *base, const int32_t *context, size_t at, size_t n, const ls_node *rows) {
    ls_evidence_read(&((drafter *)base)->e, context, at, n, rows);
}

static void memory(void *d, ls_memory_visit *v) {
    ls_evidence_memory(&((drafter *)d)->e, v);
}

static int32_t pool_size(const ls_drafter *base) {
    return ls_pool_size(&((const drafter *)base)->e.pool);
}

static size_t bytes(const ls_drafter *base) {
    return sizeof(drafter) + ls_evidence_bytes(&((const drafter *)base)->e);
}

static void free_drafter(ls_drafter *base) {
    ls_evidence_free(&((drafter *)base)->e);
    free(base);
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

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    (void)err;
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){.observe = observe,
                           .propose = propose,
                           .learn = learn,
                           .knows = knows,
                           .read = read_prompt,
                           .memory = memory,
                           .pool_size = pool_size,
                           .bytes = bytes,
                           .free = free_drafter};
    ls_evidence_init(&d->e, (size_t)setup->knobs[MEMORY].number << 20);
    d->e.retrieved = setup->knobs[RETRIEVED].number != 0;
    d->e.remembered = setup->knobs[REMEMBERED].number != 0;
    d->base.read_share =
        d->e.remembered ? setup->knobs[READ].number : 0; // only remembered choices learn from a prompt's rows
    d->e.last_logit = setup->knobs[LAST_LOGIT].number != 0;
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
    .make = make,
};

const ls_rates *ls_draft_logitspec_rates(const ls_drafter *d) {
    return &((const drafter *)d)->e.rates;
}
