#include "decode/drafting.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

ls_draft_setup ls_run_place(const ls_run *r) {
    return (ls_draft_setup){
        .tokenizer = r->model, .n_vocab = r->n_vocab, .tokenizer_id = r->tokenizer_id, .ends = &r->ends};
}

// What the drafter is made of, in words.
static void describe_drafter(const ls_draft_setup *s, const ls_method *m, ls_buf *out) {
    const ls_draft_options *o = &s->draft;
    ls_buf_str(out, m->name);
    for (size_t i = 0; m->knobs && m->knobs[i].key; i++) {
        const ls_knob_value v = s->knobs ? s->knobs[i] : (ls_knob_value){m->knobs[i].fallback, NULL};
        ls_buf_fmt(out, "\n%a %s", v.number, v.text ? v.text : "");
    }
    if (m->asks_model)
        ls_buf_fmt(out, "\n%s\n%s\n%s\n%s\n%d %d %d %d", o->model, o->weights, o->head, o->device, o->threads,
                   o->layers, o->depth, o->width);
}

static ls_code new_drafter(ls_drafting *d, const ls_method *m, const ls_draft_setup *setup, ls_buf *made, ls_err *err) {
    ls_drafter *drafter = NULL;
    const ls_code code = ls_drafter_make(&drafter, m, setup, err);
    if (code) return code;
    ls_routing *routing = d->sizing.routing; // of the model, whatever the method
    ls_drafting_free(d);
    d->sizing.routing = routing;
    d->method = m;
    d->drafter = drafter;
    d->made = *made;
    *made = (ls_buf){0};
    d->depth = setup->draft.depth;
    d->width = setup->draft.width;
    if (!m->sized && drafter) d->scores = ls_calloc(1, sizeof *d->scores);
    // the state before the turn: if the last prompt is answered again, the drafter must not know the first answer
    ls_drafting_snapshot(d, &d->before);
    return LS_OK;
}

static ls_code set_method(ls_drafting *d, const ls_method *m, const ls_decode_options *opt, bool by_cost,
                          const ls_draft_setup *place, const int32_t *context, size_t n, ls_err *err) {
    ls_draft_setup setup = *place;
    ls_buf made = {0};
    ls_code code = LS_OK;
    setup.knobs = opt->knobs ? opt->knobs + ls_knob_offset(m) : NULL;
    setup.draft = ls_draft_defaults(&opt->draft, m, by_cost);
    setup.note = opt->note;
    setup.ud = opt->ud;
    describe_drafter(&setup, m, &made);
    if (!ls_str_same((ls_str){made.p, made.n}, (ls_str){d->made.p, d->made.n})) {
        code = new_drafter(d, m, &setup, &made, err);
        if (!code && d->drafter) d->drafter->observe(d->drafter, context, n, true);
    }
    ls_buf_free(&made);
    return code;
}

// The rule that trees are sized by from now on; one that is already in force keeps what it learnt.
static void set_sizing(ls_drafting *d, ls_sizing sizing, const ls_decode_options *opt) {
    char asked[40];
    ls_buf sized = {0};
    ls_sizing_write(&opt->sizing, asked, sizeof asked);
    ls_sizing_tune(&sizing, opt->knobs);
    ls_buf_fmt(&sized, "%s %d", asked, opt->max_rows);
    for (int i = 0; i < LS_SIZING_KNOBS; i++) ls_buf_fmt(&sized, " %a", sizing.knobs[i]);
    sizing.routing = d->sizing.routing;
    if (!ls_str_same((ls_str){sized.p, sized.n}, (ls_str){d->sized.p, d->sized.n})) d->sizing = sizing;
    ls_buf_free(&d->sized);
    d->sized = sized;
    d->max_rows = opt->max_rows;
}

ls_guarantee ls_method_guarantee(const char *method, const ls_accept *a, double temperature) {
    return !strcmp(method, "plain") ? LS_SAME_TEXT : ls_accept_guarantee(a, temperature);
}

ls_guarantee ls_decode_guarantee(const ls_decode_options *o) {
    return ls_method_guarantee(o->method, &o->accept, o->sampling.temperature);
}

ls_code ls_drafting_set(ls_drafting *d, const ls_decode_options *opt, const ls_draft_setup *place,
                        const int32_t *context, size_t n, ls_err *err) {
    const ls_method *m = ls_method_find(opt->method);
    if (!m) return ls_fail(err, LS_E_USAGE, "unknown method '%s'", opt->method);
    ls_sizing sizing = opt->sizing;
    ls_sizing_settle(&sizing, m, opt->max_rows);
    const ls_code code = set_method(d, m, opt, sizing.rule->by_cost, place, context, n, err);
    if (code) return code;
    set_sizing(d, sizing, opt);
    d->ends = place->ends ? *place->ends : (ls_eos_set){0};
    return LS_OK;
}

void ls_drafting_free(ls_drafting *d) {
    if (d->drafter) d->drafter->free(d->drafter);
    free(d->scores);
    ls_buf_free(&d->made);
    ls_buf_free(&d->sized);
    ls_buf_free(&d->before);
    *d = (ls_drafting){0};
}

// The drafter may omit rows by the costs if the sizing rule decides by them.
static ls_draft_state with_costs(const ls_drafting *d, const ls_draft_state *s, const ls_cost_curve *costs) {
    ls_draft_state state = *s;
    state.costs = d->sizing.rule->by_cost ? costs : NULL;
    return state;
}

int32_t ls_drafting_rows(const ls_drafting *d) {
    return d->drafter ? ls_sizing_ask(&d->sizing, d->method, d->max_rows) : 1;
}

// Drops nodes that do not fit into the context (the position of a node is the context plus its depth), and nodes after
// the end of an answer.
static void trim(ls_tree *t, int32_t room, const ls_eos_set *ends) {
    bool keep[LS_MAX_ROWS], all = keep[0] = room > 0;
    for (int32_t i = 1; i < t->n; i++)
        all &= keep[i] = t->nodes[i].depth < room && !ls_eos_set_has(ends, t->nodes[t->nodes[i].parent].token);
    if (!all) ls_tree_keep(t, keep);
}

int32_t ls_drafting_propose(const ls_drafting *d, const ls_draft_state *s, const ls_cost_curve *costs, int32_t room,
                            ls_tree *tree) {
    if (!d->drafter) {
        ls_tree_start(tree, s->root);
        return 1;
    }
    const int32_t ask = ls_drafting_rows(d);
    const ls_draft_state state = with_costs(d, s, costs);
    d->drafter->propose(d->drafter, &state, ask, tree);
    if (d->scores) ls_scores_fill(d->scores, tree);
    trim(tree, room, &d->ends);
    if (!d->sizing.rule->cut) return ask;
    ls_cost_curve step = *costs;
    if (d->drafter->draft_model) step.beside_ms += d->drafter->draft_model->forward_us / 1e3;
    if (step.beside_rows) step.beside_rows += ls_tree_depth(tree) - 1;
    if (d->sizing.routing && step.expert_ms > 0) ls_routing_predict(d->sizing.routing, s->context, s->n_context, tree);
    ls_sizing_cut(&d->sizing, tree, &step, (int32_t)s->n_context, d->max_rows);
    return tree->n;
}

ls_miss ls_drafting_miss(const ls_drafting *d, const ls_draft_state *s, const ls_tree *tree, int32_t row) {
    const ls_node *last = &tree->nodes[row];
    const int32_t ask = ls_drafting_rows(d), most = d->max_rows > 0 && d->max_rows < ask ? d->max_rows : ask;
    if (!d->drafter || !d->drafter->miss) return LS_MISS_NONE;
    for (int32_t i = row + 1; i < tree->n; i++)
        if (tree->nodes[i].parent == row && tree->nodes[i].token == last->target) return LS_MISS_REFUSED;
    if (last->target != last->top[0].id) return LS_MISS_SAMPLED;
    const ls_draft_question q = {s, tree, row, last->target, ask};
    const ls_miss miss = ls_drafter_miss(d->drafter, &q);
    return miss == LS_MISS_NO_ROW && d->sizing.rule->cut && tree->n < most ? LS_MISS_COST : miss;
}

void ls_drafting_learn(ls_drafting *d, const ls_draft_state *s, const ls_cost_curve *costs, const ls_tree *tree,
                       int32_t n_path) {
    if (!d->drafter) return;
    const ls_draft_state state = with_costs(d, s, costs);
    if (d->sizing.rule->learn) d->sizing.rule->learn(&d->sizing, tree, n_path);
    if (d->scores) ls_scores_learn(d->scores, tree);
    if (d->drafter->learn) d->drafter->learn(d->drafter, &(ls_draft_result){&state, tree, n_path});
}

static void drafting_memory(void *of, ls_memory_visit *v) {
    ls_drafting *d = of;
    if (d->drafter) ls_drafter_memory(d->drafter, v);
    if (d->scores) ls_memory_part(v, d->scores, sizeof *d->scores);
    ls_memory_part(v, &d->sizing.acceptance, sizeof d->sizing.acceptance);
    ls_memory_part(v, &d->sizing.threshold, sizeof d->sizing.threshold);
    if (d->sizing.routing) ls_routing_memory(d->sizing.routing, v);
}

uint64_t ls_drafting_bytes(ls_drafting *d) {
    return ls_memory_bytes(drafting_memory, d) + d->before.cap;
}

void ls_drafting_snapshot(ls_drafting *d, ls_buf *out) {
    enum { MOST = 256 << 20 };
    ls_buf_clear(out);
    if (d->drafter && ls_memory_bytes(drafting_memory, d) <= MOST) ls_memory_copy(out, drafting_memory, d);
}

bool ls_drafting_restore(ls_drafting *d, const ls_buf *from) {
    if (from->n) ls_memory_restore(from, drafting_memory, d);
    return !d->drafter || from->n;
}

void ls_drafting_observe(ls_drafting *d, const int32_t *context, size_t n, bool reset) {
    if (reset) ls_buf_clear(&d->before); // it was of another conversation
    if (d->drafter) d->drafter->observe(d->drafter, context, n, reset);
}
