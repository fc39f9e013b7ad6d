// The decode step: root, draft, verify, commit (paper, section 3).
#include "base/log.h"
#include "decode/choose.h"
#include "decode/session_state.h"
#include "decode/stats.h"
#include "engine/measured.h"

#include <math.h>

_Static_assert(LST_ROW_TOP == LS_ROW_TOP && LST_MAX_ROWS == LS_MAX_ROWS,
               "a node has as many top tokens as a row of the engine");

void ls_session_complete(ls_node *n, const lst_row *r) {
    n->p = expf(r->parent_logit - r->parent_lse);
    n->target = r->chosen;
    n->target_p = expf(r->chosen_logit - r->lse);
    n->own = -1;
    n->entropy = r->entropy;
    n->lse = r->lse;
    for (int j = 0; j < LS_ROW_TOP; j++) n->top[j] = (ls_top_entry){r->top_id[j], r->top_logit[j]};
}

// What the phases of one step share.
typedef struct {
    ls_session *s;
    ls_step *out;
    uint64_t start, phase;               // when the step began, and its phase
    int32_t context;                     // tokens committed before it
    int32_t n_top, top_ids[LS_MAX_ROWS]; // of the last logits, for the drafter
    float top_p[LS_MAX_ROWS];
    bool ahead; // the drafter works beside the forward
    ls_finish finish;
} work;

enum { LOAD_EVERY_NS = 250000000 };

static double end_phase(work *w) {
    const uint64_t start = w->phase;
    w->phase = ls_now_ns();
    return (double)(w->phase - start) / 1e3;
}

// Times a plain step if ls_plain_due; its time is not a part of the step.
static ls_code measure_plain(ls_session *s, ls_err *err) {
    const int32_t context = (int32_t)s->conversation->context.n;
    if (!s->drafting.drafter || !ls_plain_due(&s->plain, context)) return LS_OK;
    const ls_code code = ls_plain_measure(&s->plain, s->kv, s->last.chosen, &s->sampling, s->host_us, err);
    if (!code) ls_cost_observe(&s->costs, 1, context, -1, (s->plain.us - s->host_us) / 1e3);
    return code;
}

// The root is the target's own next token, chosen from the last logits before anything is drafted.
static ls_code take_root(work *w, ls_err *err) {
    const ls_session *s = w->s;
    const ls_drafter *d = s->drafting.drafter;
    const ls_guarantee guarantee = ls_method_guarantee(s->drafting.method->name, &s->accept, s->sampling.temperature);
    ls_step *out = w->out;
    ls_step_start(out, (ls_step){.turn = (uint32_t)s->conversation->n_turns - 1,
                                 .index = ls_conversation_last(s->conversation)->n_steps,
                                 .context_len = w->context,
                                 .output_pos = (int32_t)s->answer.ids.n,
                                 .corrected = s->corrected,
                                 .exact = s->e->exact && guarantee == LS_SAME_TEXT,
                                 .same_distribution = guarantee == LS_SAME_DISTRIBUTION,
                                 .plain_us = s->plain.us,
                                 .plain_spread = ls_plain_spread(&s->plain),
                                 .plain_timed = (int32_t)(s->plain.n_timed < INT32_MAX ? s->plain.n_timed : INT32_MAX),
                                 .asked_rows = (int16_t)ls_drafting_rows(&s->drafting),
                                 .pool_size = d && d->pool_size ? d->pool_size(d) : 0,
                                 .rows = 1,
                                 .n_path = 1,
                                 .experts_read = -1,
                                 .top_lse = s->last.lse,
                                 .top_entropy = s->last.entropy});
    ls_tree_start(&out->tree, s->last.chosen);
    ls_node *root = &out->tree.nodes[0];
    root->p = expf(s->last.chosen_logit - s->last.lse);
    root->target = root->own = -1;
    root->target_p = root->entropy = root->lse = NAN;
    for (int i = 0; i < LS_ROW_TOP; i++) root->top[i].id = -1;
    w->n_top = out->asked_rows > LS_MAX_TOP ? out->asked_rows : LS_MAX_TOP;
    if (w->n_top > s->e->n_vocab) w->n_top = s->e->n_vocab;
    const ls_code code = s->kv->row_top(s->kv, -1, w->n_top, w->top_ids, w->top_p, err);
    if (code) return code;
    out->n_top = (int16_t)(w->n_top < LS_MAX_TOP ? w->n_top : LS_MAX_TOP);
    for (int32_t i = 0; i < out->n_top; i++) out->top[i] = (ls_top_entry){w->top_ids[i], w->top_p[i]};
    for (int32_t i = 0; i < w->n_top; i++) w->top_p[i] = expf(w->top_p[i] - s->last.lse);
    return LS_OK;
}

static ls_draft_state state_of(const work *w) {
    const ls_session *s = w->s;
    return (ls_draft_state){
        s->conversation->context.p, s->conversation->context.n, s->last.chosen, w->top_ids, w->top_p, w->n_top, NULL};
}

// Whether a draft model had better begin a draft beside this step's forward than before it (PEARL's pre-verification).
// Say that D is what its forwards take, T the target's, and E drafts of a tree are accepted. Over two steps, drafting
// first brings 2 + 2E tokens in 2T + D (the second draft is made ahead), drafting beside 2 + E in 2T. With E = 2 the
// latter is better from D = T on; but a few of its forwards must fit into one of the target's.
static bool begins_beside(const ls_session *s) {
    enum { FIT = 3 };
    const ls_draft_model *m = s->drafting.drafter->draft_model;
    const double one = ls_cost_ms(&m->costs, s->drafting.width, (int32_t)s->conversation->context.n),
                 target = ls_cost_ms(&s->costs, 1, (int32_t)s->conversation->context.n);
    return one > 0 && FIT * one <= target && s->drafting.depth * one >= target;
}

// The costs by which the sizing rule decides.
static ls_cost_curve costs_of(const ls_session *s) {
    ls_cost_curve costs = s->costs;
    if (s->drafting.sizing.rule->by_rows_alone) costs.expert_ms = 0;
    return costs;
}

static bool reflects(const ls_session *s) {
    return s->accept.rule && s->accept.rule->reflects;
}

// The tree under the root: retrieval for the root, and next-next-token guesses from the last logits.
static void draft(work *w) {
    const ls_session *s = w->s;
    ls_step *out = w->out;
    w->ahead = ls_ahead_is_on(s->ahead) && !ls_accept_draws(&s->accept, s->sampling.temperature);
    if (s->ahead) s->drafting.drafter->beside = w->ahead && begins_beside(s);
    const ls_draft_state state = state_of(w);
    ls_cost_curve costs = costs_of(s);
    // rows of a probe for a path of depth 1; ls_drafting_propose adds those of deeper paths
    if (reflects(s)) costs.beside_rows = (int32_t)s->reflection.n + 1;
    out->asked_rows =
        (int16_t)ls_drafting_propose(&s->drafting, &state, &costs, s->e->n_context - w->context, &out->tree);
    if (s->routing)
        out->expected_experts =
            ls_routing_expect(s->routing, s->conversation->context.p, (size_t)w->context, &out->tree);
    const double us = end_phase(w);
    const ls_draft_model *draft_model = s->drafting.drafter ? s->drafting.drafter->draft_model : NULL;
    out->t_draft_us = s->drafting.drafter ? us : 0;
    out->draft_forwards = draft_model ? (int16_t)draft_model->forwards : 0;
    out->t_draft_forward_us = draft_model ? draft_model->forward_us : 0;
}

// Runs the forward; beside it the drafter may draft for later steps.
static ls_code forward(work *w, const int32_t *ids, const int32_t *parents, int32_t n, ls_err *err) {
    ls_session *s = w->s;
    ls_step *out = w->out;
    ls_drafter *d = s->drafting.drafter;
    const ls_draft_state state = state_of(w);
    const int32_t before = w->ahead ? d->draft_model->forwards : 0;
    w->ahead = w->ahead && ls_ahead_start(s->ahead, d, &state);
    const ls_code code = s->kv->forward_tree(s->kv, ids, parents, n, &s->sampling, s->rows, err);
    out->t_forward_us = end_phase(w);
    if (!w->ahead) return code;
    ls_ahead_stop(s->ahead);
    out->t_wait_us = end_phase(w);
    out->ahead_forwards = (int16_t)(d->draft_model->forwards - before);
    return code;
}

static ls_code accept_path(work *w, ls_err *err) {
    const ls_session *s = w->s;
    ls_step *out = w->out;
    ls_accept a = s->accept;
    ls_shaped shaped[LS_MAX_ROWS];
    ls_code code = LS_OK;
    const double temperature = ls_accept_temperature(&a, s->sampling.temperature);
    if (temperature <= 0) a.rule = NULL;
    else if (temperature != 1) {
        code = ls_shape_tree(temperature, s->kv, &out->tree, shaped, err);
        a.shaped = shaped;
    }
    if (!code) out->n_path = (int16_t)ls_accept_path(&a, &out->tree, out->path);
    return code;
}

static void log_experts(const work *w) {
    const ls_cost_curve *z = &w->s->costs;
    const ls_step *out = w->out;
    const int32_t n = ls_step_forwarded(out);
    double rate[LS_ROUTING_KINDS], trials;
    if (!ls_log_is_on()) return;
    for (int i = 0; i < LS_ROUTING_KINDS; i++) rate[i] = 100 * ls_routing_rate(w->s->routing, i, &trials);
    ls_log("experts: %d awake, %.0f expected; forward %.3f ms, expected by rows %.3f, by experts %.3f; right by kind "
           "%.0f%% %.0f%% %.0f%%",
           out->experts, out->expected_experts, out->t_forward_us / 1e3, ls_cost_ms(z, n, w->context),
           ls_cost_ms(z, n, w->context) + ls_cost_experts_ms(z, n, out->experts), rate[0], rate[1], rate[2]);
}

// Of a mixture: the experts that the rows took, from which sizing learns.
static void observe_experts(const work *w) {
    const ls_session *s = w->s;
    ls_step *out = w->out;
    lst_experts_seen seen;
    int32_t alone[LST_MAX_ROWS];
    if (!ls_session_experts(s, &seen) || seen.n_rows < out->tree.n) {
        out->experts_read = -1; // of how many is not known
        return;
    }
    out->experts = ls_experts_count(&seen, 0, s->e->n_experts, NULL, alone);
    for (int32_t i = 0; i < out->tree.n; i++) out->tree.nodes[i].alone = alone[i];
    const int32_t of_row = seen.n_layers * seen.n_used, room = LS_MAX_ROUTES / of_row;
    out->n_routes = of_row * (out->tree.n < room ? out->tree.n : room);
    for (int32_t i = 0; i < out->n_routes; i++) out->routes[i] = (ls_route){seen.expert[i], seen.weight[i]};
    log_experts(w);
    const bool whole = seen.n_rows == out->tree.n; // without the rows of a probe
    const int32_t n_awake = whole ? out->experts : ls_experts_count(&seen, out->tree.n, s->e->n_experts, NULL, NULL);
    ls_routing_learn(s->routing, s->conversation->context.p, (size_t)w->context, &out->tree, seen.expert, n_awake);
    ls_routing_commit(s->routing, seen.expert + (ptrdiff_t)of_row * out->path[out->n_path - 1]);
}

// One forward over all rows; then the accepted path and its text.
static ls_code verify(work *w, ls_err *err) {
    ls_session *s = w->s;
    ls_step *out = w->out;
    ls_tree *t = &out->tree;
    int32_t ids[LS_MAX_ROWS], parents[LS_MAX_ROWS], own[LS_MAX_ROWS];
    ls_probe probe = {0};
    for (int32_t i = 0; i < t->n; i++) ids[i] = t->nodes[i].token, parents[i] = t->nodes[i].parent;
    if (reflects(s)) ls_probe_add(&probe, t, &s->reflection, s->e->n_context - w->context, ids, parents);
    ls_code code = forward(w, ids, parents, t->n + probe.n, err);
    if (code) return code;
    lst_timing timing = {0};
    s->kv->timings(s->kv, &timing);
    out->t_device_us = timing.device_us;
    out->t_comm_us = timing.ranks_us;
    out->experts_read = timing.experts_read;
    out->forward = true;
    out->rows = (int16_t)t->n;
    out->probes = (int16_t)probe.n;
    if (ls_accept_draws(&s->accept, s->sampling.temperature) && s->drafting.drafter &&
        (code =
             ls_choose(&s->accept, &s->sampling, s->kv, s->drafting.drafter->draft_model, t, w->context, s->rows, err)))
        return code;
    if (probe.n &&
        (code = ls_reflect(&probe, s->accept.values[0], &s->sampling, s->kv, t, w->context, s->rows, own, err)))
        return code;
    for (int32_t i = 0; i < t->n; i++) {
        ls_session_complete(&t->nodes[i], &s->rows[i]);
        if (probe.n) t->nodes[i].own = own[i];
    }
    if ((code = accept_path(w, err))) return code;
    ls_tree_mark(t, out->path, out->n_path);
    observe_experts(w);
    for (int32_t i = 0; i < out->n_path; i++) ids[i] = t->nodes[out->path[i]].token;
    out->n_emitted = (int16_t)ls_answer_add(&s->answer, s->model->vocab, ids, out->n_path, &w->finish);
    out->t_verify_us = end_phase(w);
    return LS_OK;
}

// The emitted path becomes context, and the drafter learns from the whole tree.
static ls_code commit(work *w, ls_err *err) {
    ls_session *s = w->s;
    ls_step *out = w->out;
    const ls_tree *t = &out->tree;
    // the end-of-sequence token is emitted but not committed: the next turn's frame brings it back
    const int32_t n_keep = w->finish == LS_FINISH_EOS ? out->n_emitted - 1 : out->n_emitted;
    const ls_code code = s->kv->keep_path(s->kv, out->path, n_keep, err);
    if (code) return code;
    const ls_draft_state state = state_of(w);
    out->miss = (uint8_t)ls_drafting_miss(&s->drafting, &state, t, out->path[out->n_path - 1]);
    const ls_cost_curve costs = costs_of(s);
    // not while the next forward runs: a draft that does not know the step before it costs 5% of MAT with 16 rows and
    // 11% with 32 (18 prompts), more than these microseconds
    ls_drafting_learn(&s->drafting, &state, &costs, t, out->n_path);
    out->finish = (uint8_t)w->finish;
    ls_conversation_step(s->conversation, out);
    ls_drafting_observe(&s->drafting, s->conversation->context.p, s->conversation->context.n, false);
    s->last = s->rows[out->path[n_keep - 1]];
    s->corrected = false;
    for (int32_t i = 1; i < t->n; i++) // the root that follows is none of the drafts there
        s->corrected |= t->nodes[i].parent == out->path[out->n_path - 1] && t->nodes[i].token != s->last.chosen;
    if (!w->finish && (int32_t)s->conversation->context.n >= s->e->n_context) w->finish = LS_FINISH_CONTEXT;
    if (w->finish) out->miss = LS_MISS_NONE;
    out->t_commit_us = end_phase(w);
    return LS_OK;
}

// The turn ends with the root: nothing follows it, so no forward is run for it.
static void end_on_root(work *w) {
    ls_session *s = w->s;
    ls_finish finish = LS_GOING;
    ls_answer_add(&s->answer, s->model->vocab, &s->last.chosen, 1, &finish);
    if (!finish) finish = LS_FINISH_CONTEXT;
    w->out->n_emitted = 1;
    w->out->finish = (uint8_t)(w->finish = finish);
    ls_conversation_step(s->conversation, w->out);
}

static void finish_step(work *w) {
    ls_session *s = w->s;
    w->out->finish = (uint8_t)w->finish;
    if (w->finish) ls_session_stop(s, w->finish);
    s->model->worked_ns = ls_now_ns();
    w->out->t_total_us = (double)(s->model->worked_ns - w->start) / 1e3;
}

// Updates the cost curve and the baseline with the times of this step.
static void update_statistics(const work *w) {
    ls_session *s = w->s;
    ls_step *out = w->out;
    const bool by_rows = !out->experts || s->drafting.sizing.rule->by_rows_alone;
    ls_cost_observe(&s->costs, ls_step_forwarded(out), w->context, by_rows ? -1 : out->experts,
                    out->t_forward_us / 1e3);
    const double host = out->t_total_us - out->t_forward_us - out->t_draft_forward_us - out->t_wait_us;
    ls_ahead_learn(s->ahead, out->t_total_us, out->n_emitted);
    ls_plain_bound(&s->plain, out->t_total_us);
    s->host_us = s->host_us > 0 ? 0.9 * s->host_us + 0.1 * host : host;
    if (!s->costs.given) s->costs.beside_ms = s->host_us / 1e3; // with given costs all runs have the same trees
    out->plain_us = s->drafting.drafter ? s->plain.us : out->t_total_us; // a plain step is its own baseline
    out->plain_us = ls_step_plain_us(out);                               // never more than this step without its draft
    const double waits = ls_cpu_wait_share(&s->waits, LOAD_EVERY_NS);
    out->cpu_wait = waits > 0 ? waits : 0; // not known: 0
}

// After a pause caches are cold and threads sleep: a forward that changes nothing comes before a step, so that it is
// not timed with them.
static void warm(ls_session *s) {
    enum { COLD_NS = 20000000 };
    const int32_t parent = -1;
    lst_row row;
    if (ls_now_ns() - s->model->worked_ns > COLD_NS)
        s->kv->forward_tree(s->kv, &s->last.chosen, &parent, 1, &s->sampling, &row, NULL);
}

static ls_code decode_step(ls_session *s, ls_step *out, ls_err *err) {
    const int32_t context = (int32_t)s->conversation->context.n;
    const bool ends = ls_vocab_is_end(s->model->vocab, s->last.chosen) || ls_answer_ends_next(&s->answer) ||
                      context + 1 >= s->e->n_context;
    if (!ends) warm(s);
    ls_code code = ends ? LS_OK : measure_plain(s, err);
    if (code) return code;
    const uint64_t now = ls_now_ns();
    work w = {.s = s, .out = out, .start = now, .phase = now, .context = context};
    if ((code = take_root(&w, err))) return code;
    if (ends) end_on_root(&w);
    else {
        draft(&w);
        if ((code = verify(&w, err)) || (code = commit(&w, err))) return code;
    }
    finish_step(&w);
    if (!ends) update_statistics(&w);
    ls_step_round(out);
    return LS_OK;
}

static void log_step(const ls_step *out) {
    ls_log("step %u.%u: context %d, %d rows of at most %d, %d accepted, %d emitted%s%s; us: draft %.0f, forward %.0f, "
           "verify %.0f, commit %.0f, in all %.0f, a plain one %.0f",
           out->turn + 1, out->index, out->context_len, out->rows, out->asked_rows, ls_step_accepted(out),
           out->n_emitted, out->miss ? ", missed: " : "", ls_miss_name((ls_miss)out->miss), out->t_draft_us,
           out->t_forward_us, out->t_verify_us, out->t_commit_us, out->t_total_us, out->plain_us);
}

ls_code ls_session_step(ls_session *s, ls_step *out, ls_err *err) {
    if (!ls_session_active(s)) return ls_fail(err, LS_E_USAGE, "no turn is active");
    ls_code code = decode_step(s, out, err);
    if (!code && ls_log_is_on()) log_step(out);
    return code;
}
