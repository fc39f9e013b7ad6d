#include "decode/drafting.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

ls_draft_setup ls_run_place(const ls_run *r) {
    return (ls_draft_setup){
        .tokenizer = r->model, .n_vocab = r->n_vocab, .tokenizer_id = r->tokenizer_id, .ends = &r->ends};
}

static void free_knobs(ls_knob_value *knobs, const ls_method *m) {
    for (size_t i = 0; m && m->knobs && m->knobs[i].key; i++) free((char *)knobs[i].text);
    free(knobs);
}

// The method's values of all knobs, texts owned.
static ls_knob_value *copy_knobs(const ls_knob_value *all, const ls_method *m) {
    ls_knob_value *k = ls_calloc(ls_knob_count() + 1, sizeof *k);
    if (all) memcpy(k, all, ls_knob_count() * sizeof *k);
    else ls_knob_defaults(k);
    memmove(k, k + ls_knob_offset(m), (ls_knob_count() - ls_knob_offset(m)) * sizeof *k);
    for (size_t i = 0; m->knobs && m->knobs[i].key; i++) k[i].text = k[i].text ? ls_strdup(k[i].text) : NULL;
    return k;
}

static bool same_knobs(const ls_knob_value *a, const ls_knob_value *b, const ls_method *m) {
    for (size_t i = 0; m->knobs && m->knobs[i].key; i++) {
        const char *x = a[i].text ? a[i].text : "", *y = b[i].text ? b[i].text : "";
        if (a[i].number < b[i].number || a[i].number > b[i].number || strcmp(x, y)) return false;
    }
    return true;
}

static void free_draft(ls_draft_options *o) {
    free((char *)o->model);
    free((char *)o->weights);
    free((char *)o->head);
    free((char *)o->device);
}

static ls_draft_options copy_draft(const ls_draft_options *o) {
    ls_draft_options c = *o;
    c.model = ls_strdup(o->model ? o->model : "");
    c.weights = ls_strdup(o->weights ? o->weights : "auto");
    c.head = ls_strdup(o->head ? o->head : "");
    c.device = ls_strdup(o->device ? o->device : "auto");
    if (!c.depth) c.depth = LS_DRAFT_DEPTH;
    if (!c.width) c.width = LS_DRAFT_WIDTH;
    return c;
}

static bool same_draft(const ls_draft_options *a, const ls_draft_options *b) {
    return !strcmp(a->model, b->model) && !strcmp(a->weights, b->weights) && !strcmp(a->head, b->head) &&
           !strcmp(a->device, b->device) && a->threads == b->threads && a->layers == b->layers &&
           a->depth == b->depth && a->width == b->width;
}

static ls_code set_method(ls_drafting *d, const ls_method *m, const ls_decode_options *opt, const ls_draft_setup *place,
                          const int32_t *context, size_t n, ls_err *err) {
    ls_knob_value *knobs = copy_knobs(opt->knobs, m);
    ls_draft_options draft = copy_draft(&opt->draft);
    if (m == d->method && same_knobs(knobs, d->knobs, m) && (!m->asks_model || same_draft(&draft, &d->draft))) {
        free_knobs(knobs, m);
        free_draft(&draft);
        return LS_OK;
    }
    ls_draft_setup setup = *place;
    ls_drafter *drafter = NULL;
    setup.knobs = knobs;
    setup.draft = draft;
    setup.note = opt->note;
    setup.ud = opt->ud;
    const ls_code code = m->make ? m->make(&drafter, &setup, err) : LS_OK;
    if (code) {
        free_knobs(knobs, m);
        free_draft(&draft);
        return code;
    }
    ls_drafting_free(d);
    d->method = m;
    d->drafter = drafter;
    d->knobs = knobs;
    d->draft = draft;
    if (!m->scored) d->scores = ls_calloc(1, sizeof *d->scores);
    // the state before the turn: if the last prompt is answered again, the drafter must not know the first answer
    ls_drafting_remember(d, &d->before);
    if (drafter) drafter->observe(drafter, context, n, true);
    return LS_OK;
}

static bool same_weights(const ls_sizing *a, const ls_sizing *b) {
    for (int i = 0; i < LS_SIZING_KNOBS; i++)
        if (a->knobs[i] < b->knobs[i] || a->knobs[i] > b->knobs[i]) return false;
    return true;
}

ls_code ls_drafting_set(ls_drafting *d, const ls_decode_options *opt, const ls_draft_setup *place,
                        const int32_t *context, size_t n, ls_err *err) {
    const ls_method *m = ls_method_find(opt->method);
    if (!m) return ls_fail(err, LS_E_USAGE, "unknown method '%s'", opt->method);
    const ls_code code = set_method(d, m, opt, place, context, n, err);
    if (code) return code;
    char asked[sizeof d->asked];
    ls_sizing_write(&opt->sizing, asked, sizeof asked);
    ls_sizing sizing = opt->sizing;
    ls_sizing_settle(&sizing, m, opt->budget);
    ls_sizing_tune(&sizing, opt->knobs);
    if (!d->sizing.rule || opt->budget != d->budget || strcmp(asked, d->asked) ||
        !same_weights(&sizing, &d->sizing)) { // else the rule keeps what it learnt
        d->sizing = sizing;
        memcpy(d->asked, asked, sizeof asked);
    }
    d->budget = opt->budget;
    d->ends = place->ends ? *place->ends : (ls_ends){0};
    return LS_OK;
}

void ls_drafting_free(ls_drafting *d) {
    if (d->drafter) d->drafter->free(d->drafter);
    free_knobs(d->knobs, d->method);
    free_draft(&d->draft);
    free(d->scores);
    ls_buf_free(&d->before);
    *d = (ls_drafting){0};
}

int32_t ls_drafting_rows(const ls_drafting *d) {
    return d->drafter ? ls_sizing_ask(&d->sizing, d->method, d->budget) : 1;
}

// Drops nodes that do not fit into the context (the position of a node is the context plus its depth), and nodes after
// the end of an answer.
static void trim(ls_tree *t, int32_t room, const ls_ends *ends) {
    bool keep[LS_MAX_ROWS], all = keep[0] = room > 0;
    for (int32_t i = 1; i < t->n; i++)
        all &= keep[i] = t->nodes[i].depth < room && !ls_ends_has(ends, t->nodes[t->nodes[i].parent].token);
    if (!all) ls_tree_keep(t, keep);
}

static int32_t deepest(const ls_tree *t) {
    int32_t depth = 0;
    for (int32_t i = 1; i < t->n; i++) depth = t->nodes[i].depth > depth ? t->nodes[i].depth : depth;
    return depth;
}

int32_t ls_drafting_propose(const ls_drafting *d, const ls_draft_state *s, const ls_cost_curve *costs, int32_t room,
                            ls_tree *tree) {
    if (!d->drafter) {
        ls_tree_start(tree, s->root);
        return 1;
    }
    const int32_t ask = ls_drafting_rows(d);
    ls_draft_state state = *s;
    state.costs = d->sizing.rule->by_cost ? costs : NULL;
    d->drafter->propose(d->drafter, &state, ask, tree);
    if (d->scores) ls_scores_fill(d->scores, tree);
    trim(tree, room, &d->ends);
    if (!d->sizing.rule->cut) return ask;
    ls_cost_curve step = *costs;
    step.beside_ms = d->drafter->second ? d->drafter->second->forward_us / 1e3 : 0;
    if (step.beside_rows) step.beside_rows += deepest(tree) - 1;
    ls_sizing_cut(&d->sizing, tree, &step, (int32_t)s->n_context, d->budget);
    return tree->n;
}

ls_miss ls_drafting_blame(const ls_drafting *d, const ls_draft_state *s, const ls_tree *tree, int32_t row) {
    static const ls_miss of[] = {[LS_KNOWS_NOTHING] = LS_MISS_UNKNOWN,
                                 [LS_KNOWS_OTHERS] = LS_MISS_OTHERWISE,
                                 [LS_KNOWS_BEYOND] = LS_MISS_BEYOND,
                                 [LS_KNOWS_HIDDEN] = LS_MISS_TAKEN,
                                 [LS_KNOWS_IT] = LS_MISS_BUDGET};
    const ls_node *last = &tree->nodes[row];
    const int32_t ask = ls_drafting_rows(d), most = d->budget > 0 && d->budget < ask ? d->budget : ask;
    if (!d->drafter || !d->drafter->knows) return LS_MISS_NONE;
    if (last->target != last->top[0].id) return LS_MISS_SAMPLED;
    const ls_draft_question q = {s, tree, row, last->target, ask};
    const ls_miss miss = of[ls_drafter_knows(d->drafter, &q)];
    return miss == LS_MISS_BUDGET && d->sizing.rule->cut && tree->n < most ? LS_MISS_COST : miss;
}

void ls_drafting_learn(ls_drafting *d, const ls_draft_result *r) {
    if (!d->drafter) return;
    ls_sizing_learn(&d->sizing, r->tree, r->n_path);
    if (d->scores) ls_scores_learn(d->scores, r->tree);
    if (d->drafter->learn) d->drafter->learn(d->drafter, r);
}

static void drafting_memory(void *of, ls_memory_visit *v) {
    ls_drafting *d = of;
    if (d->drafter->memory) d->drafter->memory(d->drafter, v);
    if (d->scores) ls_memory_part(v, d->scores, sizeof *d->scores);
    ls_memory_part(v, &d->sizing.acceptance, sizeof d->sizing.acceptance);
    ls_memory_part(v, &d->sizing.threshold, sizeof d->sizing.threshold);
}

void ls_drafting_remember(ls_drafting *d, ls_buf *out) {
    enum { MOST = 256 << 20 };
    ls_buf_clear(out);
    if (d->drafter && ls_memory_bytes(drafting_memory, d) <= MOST) ls_memory_copy(out, drafting_memory, d);
}

bool ls_drafting_return(ls_drafting *d, const ls_buf *from) {
    if (from->n) ls_memory_return(from, drafting_memory, d);
    return !d->drafter || from->n;
}

void ls_drafting_observe(ls_drafting *d, const int32_t *context, size_t n, bool reset) {
    if (reset) ls_buf_clear(&d->before); // it was of another conversation
    if (d->drafter) d->drafter->observe(d->drafter, context, n, reset);
}
