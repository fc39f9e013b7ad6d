#include "decode/session.h"
#include "base/clock.h"
#include "base/mem.h"
#include "decode/ahead.h"
#include "decode/answer.h"
#include "decode/choose.h"
#include "decode/guesser_medusa.h"
#include "decode/reflect.h"
#include "decode/second.h"
#include "decode/second_eagle.h"
#include "costs/ar_cost.h"
#include "costs/costs.h"
#include "engine/prompt.h"
#include "decode/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ls_session {
    ls_model *model;
    const ls_engine *e;
    ls_timeline *t;
    bool borrowed; // t is another session's
    // settings
    ls_drafting drafting;
    ls_ahead *ahead;
    ls_overlap overlap;
    ls_accept accept;
    ls_ids reflection; // the prompt of a probe
    lst_sampling sampling;
    // conversation
    ls_ids context;
    ls_answer answer;
    bool started, active;
    int32_t uncommitted; // a turn's last token when it ended the turn without a forward; -1: none
    lst_row last;        // row that predicts the next root
    bool corrected;      // that row's draft children were all rejected
    uint32_t turn, step;
    ls_cost_curve costs;
    ls_ar_cost ar;
    double host_us; // smoothed host work of a step
    lst_row rows[LST_MAX_ROWS];
};
_Static_assert(LST_ROW_TOP == LS_ROW_TOP && LST_MAX_ROWS == LS_MAX_ROWS, "a node holds what the engine says of a row");

static double us_since(uint64_t start) {
    return (double)(ls_now_ns() - start) / 1e3;
}

static ls_code open_head(const ls_session *s, const char *folder, ls_trained **out, ls_err *err) {
    const ls_engine_options how = {.stop = s->model->stop, .ud = s->model->stop_ud};
    *out = NULL;
    if (!s->model->checkpoint)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s has no weights that a trained head could read", s->model->name);
    return ls_trained_open(out, s->model->engine, s->model->checkpoint, folder, &how, err);
}

static ls_code open_guesser(void *of, const ls_draft_options *o, ls_guesser **out, ls_err *err) {
    const ls_session *s = of;
    ls_trained *heads;
    *out = NULL;
    const ls_code code = open_head(s, o->head, &heads, err);
    return code ? code : ls_guesser_medusa(out, heads, s->t, err);
}

static ls_code open_second(void *of, const ls_draft_options *o, ls_second **out, ls_err *err) {
    ls_session *s = of;
    if (o->head && *o->head) {
        ls_trained *head;
        *out = NULL;
        const ls_code code = open_head(s, o->head, &head, err);
        return code ? code : ls_second_eagle(out, head, s->t, &s->sampling, &s->accept, err);
    }
    return ls_second_open(out, s->model, o, &s->sampling, &s->accept, err);
}

static void set_ahead(ls_session *s, const ls_decode_options *opt, bool same_drafter) {
    const ls_drafter *d = s->drafting.drafter;
    ls_overlap how = opt->draft.overlap;
    // trees of a fixed size are the same in every run, unless it is asked for
    if (how == LS_OVERLAP_AUTO && !s->drafting.sizing.rule->by_cost) how = LS_OVERLAP_OFF;
    if (same_drafter && how == s->overlap) return;
    ls_ahead_free(s->ahead);
    s->overlap = how;
    s->ahead = ls_ahead_new(how, d, strcmp(s->e->device, "cpu") ? 0 : s->e->threads);
    if (s->overlap == LS_OVERLAP_ON && d && d->second && !ls_ahead_can(d) && opt->note)
        opt->note(opt->ud, "draft.overlap: on is for a draft model on the CPU, and this one is not: it drafts first, "
                           "then the target verifies");
}

ls_code ls_session_set(ls_session *s, const ls_decode_options *opt, ls_err *err) {
    const ls_draft_setup place = {.tokenizer = s->model->name,
                                  .n_vocab = s->e->n_vocab,
                                  .tokenizer_id = ls_vocab_id(s->model->vocab),
                                  .second = open_second,
                                  .guesser = open_guesser,
                                  .of = s};
    const ls_drafter *before = s->drafting.drafter;
    ls_ids reflection = {0};
    ls_code code = LS_OK;
    if (opt->accept.rule && opt->accept.rule->reflects && opt->reflection)
        code = ls_encode(s->model->vocab, opt->reflection, strlen(opt->reflection), true, &reflection, err);
    if (!code) code = ls_drafting_set(&s->drafting, opt, &place, s->context.p, s->context.n, err);
    if (code) ls_ids_free(&reflection);
    if (code) return code;
    ls_ids_free(&s->reflection);
    s->reflection = reflection;
    set_ahead(s, opt, s->drafting.drafter == before);
    s->accept = opt->accept;
    s->sampling = opt->sampling;
    ls_answer_ends(&s->answer, opt->max_tokens, opt->stops);
    return LS_OK;
}

static ls_code new_session(ls_session **out, ls_model *model, ls_timeline *lent, const ls_decode_options *opt,
                           ls_err *err) {
    *out = NULL;
    ls_session *s = ls_calloc(1, sizeof *s);
    s->model = model;
    s->e = model->engine;
    s->t = lent;
    s->borrowed = lent != NULL;
    s->uncommitted = -1;
    ls_code code = lent ? LS_OK : model->engine->timeline(model->engine, 0, &s->t, err);
    if (!code) code = ls_session_set(s, opt, err);
    if (code) ls_session_free(s);
    else *out = s;
    return code;
}

ls_code ls_session_new(ls_session **out, ls_model *model, const ls_decode_options *opt, ls_err *err) {
    return new_session(out, model, NULL, opt, err);
}

void ls_session_free(ls_session *s) {
    if (!s) return;
    ls_ahead_free(s->ahead);
    ls_drafting_free(&s->drafting); // before the timeline, which a trained head listens to
    if (s->t && !s->borrowed) s->t->free(s->t);
    ls_ids_free(&s->context);
    ls_ids_free(&s->reflection);
    ls_answer_free(&s->answer);
    free(s);
}

void ls_session_reset(ls_session *s) {
    s->t->rewind(s->t, 0, NULL);
    s->context.n = 0;
    ls_answer_begin(&s->answer);
    s->started = s->active = s->corrected = false;
    s->turn = s->step = 0;
    s->uncommitted = -1;
    ls_drafting_observe(&s->drafting, s->context.p, 0, true);
}

const ls_cost_curve *ls_session_costs(const ls_session *s) {
    return &s->costs;
}
const ls_drafter *ls_session_drafter(const ls_session *s) {
    return s->drafting.drafter;
}
const ls_ids *ls_session_context(const ls_session *s) {
    return &s->context;
}
const ls_ids *ls_session_output(const ls_session *s) {
    return &s->answer.ids;
}
const ls_buf *ls_session_text(const ls_session *s) {
    return &s->answer.text;
}
bool ls_session_started(const ls_session *s) {
    return s->started;
}
bool ls_session_active(const ls_session *s) {
    return s->active;
}
ls_timeline *ls_session_timeline(ls_session *s) {
    return s->t;
}
size_t ls_session_settled(const ls_session *s) {
    return s->active ? ls_answer_settled(&s->answer) : s->answer.text.n;
}
void ls_session_stop(ls_session *s) {
    if (s->active) ls_answer_flush(&s->answer);
    s->active = false;
}

ls_code ls_session_calibrate(ls_session *s, ls_progress progress, void *ud, ls_err *err) {
    return ls_costs_get(&s->costs, s->model, false, progress, ud, err);
}

// Whether the drafter is to learn from the prompt's rows: what they cost more than reading alone, against what plain
// decoding of the answer would take.
static bool rows_of_prompt_pay(const ls_session *s, size_t n) {
    enum { ANSWER = 256 }; // tokens that are expected at most
    const ls_drafter *d = s->drafting.drafter;
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1],
                  answer = s->answer.max_tokens < ANSWER ? s->answer.max_tokens : ANSWER;
    if (!d || !d->read || d->read_share <= 0 || s->costs.base_ms[0] <= 0) return false;
    const double more = s->costs.base_ms[LS_COST_SIZES - 1] / most - s->costs.prefill_ms;
    return more * (double)n <= d->read_share * answer * s->costs.base_ms[0];
}

// What the forward said of a row.
static void complete(ls_node *n, const lst_row *r) {
    n->p = expf(r->parent_logit - r->parent_lse);
    n->target = r->chosen;
    n->target_p = expf(r->chosen_logit - r->lse);
    n->own = -1;
    n->entropy = r->entropy;
    n->lse = r->lse;
    for (int j = 0; j < LS_ROW_TOP; j++) n->top[j] = (ls_top_entry){r->top_id[j], r->top_logit[j]};
}

// Reads context[from..) as chains of rows, each of which tells the drafter what the target said after it.
static ls_code read_rows(ls_session *s, size_t from, ls_progress progress, void *ud, ls_err *err) {
    int32_t parents[LST_MAX_ROWS], path[LST_MAX_ROWS];
    ls_node said[LS_MAX_ROWS] = {0};
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1];
    ls_code code = LS_OK;
    for (int32_t i = 0; i < most; i++) parents[i] = i - 1, path[i] = i;
    for (size_t at = from; at < s->context.n && !code;) {
        const size_t left = s->context.n - at;
        const int32_t n = left < (size_t)most ? (int32_t)left : most;
        if (progress && !progress(ud, "prefill", (double)(at - from) / (double)(s->context.n - from)))
            code = ls_fail(err, LS_E_CANCELLED, "reading the prompt was cancelled");
        if (!code) code = s->t->forward_tree(s->t, s->context.p + at, parents, n, &s->sampling, s->rows, err);
        if (!code) code = s->t->keep_path(s->t, path, n, err);
        if (code) break;
        for (int32_t i = 0; i < n; i++) complete(&said[i], &s->rows[i]);
        s->drafting.drafter->read(s->drafting.drafter, s->context.p, at, (size_t)n, said);
        s->last = s->rows[n - 1];
        at += (size_t)n;
    }
    if (code) s->t->rewind(s->t, (int32_t)from, NULL);
    return code;
}

ls_code ls_session_begin(ls_session *s, const int32_t *ids, int32_t n, ls_progress progress, void *ud,
                         double *prefill_ms, ls_err *err) {
    if (n < 1) return ls_fail(err, LS_E_RANGE, "the prompt is empty");
    if (n + (s->uncommitted >= 0) >= s->e->n_context - (int32_t)s->context.n)
        return ls_fail(err, LS_E_RANGE, "the prompt has %d tokens; %d of the context's %d are left: shorten it%s", n,
                       s->e->n_context - (int32_t)s->context.n, s->e->n_context,
                       s->started ? " or start a new conversation" : "");
    ls_code code = ls_prompt_fits(s->e, n, err);
    if (code) return code;
    // a token that ended the previous turn without a forward belongs to the conversation
    size_t committed = s->context.n;
    if (s->uncommitted >= 0) ls_ids_push(&s->context, s->uncommitted);
    ls_ids_add(&s->context, ids, (size_t)n);
    uint64_t start = ls_now_ns();
    const size_t more = s->context.n - committed;
    code = rows_of_prompt_pay(s, more) ? read_rows(s, committed, progress, ud, err)
                                       : s->t->prefill(s->t, s->context.p + committed, (int32_t)more, &s->sampling,
                                                       &s->last, progress, ud, err);
    if (code) {
        s->context.n = committed;
        return code;
    }
    s->uncommitted = -1;
    if (prefill_ms) *prefill_ms = us_since(start) / 1e3;
    ls_drafting_observe(&s->drafting, s->context.p, s->context.n, false);
    if (s->started) s->turn++;
    ls_answer_begin(&s->answer);
    s->step = 0;
    s->corrected = false;
    s->started = s->active = true;
    return LS_OK;
}

// ---- a second answer

ls_code ls_session_rival(ls_session **out, ls_session *of, const ls_decode_options *opt, bool *lent, ls_err *err) {
    *lent = ls_prompt_fits(of->e, (int32_t)of->context.n + opt->max_tokens, NULL) ||
            new_session(out, of->model, NULL, opt, NULL);
    return *lent ? new_session(out, of->model, of->t, opt, err) : LS_OK;
}

ls_code ls_session_answer_too(ls_session *s, ls_session *of, size_t n, const ls_ids *more, ls_progress progress,
                              void *ud, ls_err *err) {
    size_t have = 0;
    ls_ids ids = {0};
    ls_code code = LS_OK;
    if (s->borrowed) code = s->t->rewind(s->t, 0, err);
    else if (n > 1 && !rows_of_prompt_pay(s, n) && !(code = s->t->copy(s->t, of->t, (int32_t)n - 1, err)))
        ls_ids_add(&s->context, of->context.p, have = n - 1);
    ls_ids_add(&ids, of->context.p + have, n - have);
    ls_ids_add(&ids, more->p, more->n);
    if (!code) code = ls_session_begin(s, ids.p, (int32_t)ids.n, progress, ud, NULL, err);
    ls_ids_free(&ids);
    return code;
}

// ---- another past

typedef struct {
    ls_ids context;
    int32_t uncommitted;
    uint32_t turns;
} past;

static uint32_t turns_of(const ls_session *s) {
    return s->started ? s->turn + 1 : 0;
}

static past past_of(const ls_session *s) {
    past p = {.uncommitted = s->uncommitted, .turns = turns_of(s)};
    ls_ids_add(&p.context, s->context.p, s->context.n);
    return p;
}

// The engine has the first n_read tokens of the conversation; it reads the rest.
static ls_code read_rest(ls_session *s, size_t n_read, ls_progress progress, void *ud, ls_err *err) {
    lst_row last;
    const ls_code code = s->t->rewind(s->t, (int32_t)n_read, err);
    if (code || n_read == s->context.n) return code;
    return s->t->prefill(s->t, s->context.p + n_read, (int32_t)(s->context.n - n_read), &s->sampling, &last, progress,
                         ud, err);
}

static ls_code take_past(ls_session *s, const past *p, size_t n_read, ls_progress progress, void *ud, ls_err *err) {
    s->context.n = 0;
    ls_answer_begin(&s->answer);
    ls_ids_add(&s->context, p->context.p, p->context.n);
    s->uncommitted = p->uncommitted;
    s->turn = p->turns ? p->turns - 1 : 0;
    s->started = p->turns > 0;
    s->active = s->corrected = false;
    const ls_code code = read_rest(s, n_read, progress, ud, err);
    ls_drafting_observe(&s->drafting, s->context.p, s->context.n, true);
    return code;
}

static void bring_back(ls_session *s, const past *p, size_t n_read) {
    if (take_past(s, p, n_read, NULL, NULL, NULL)) ls_session_reset(s);
}

ls_code ls_session_begin_at(ls_session *s, uint32_t turn, size_t kept, const int32_t *ids, int32_t n,
                            ls_progress progress, void *ud, double *prefill_ms, ls_err *err) {
    const size_t all = s->context.n + (s->uncommitted >= 0);
    const bool next = turn == turns_of(s) && kept == all;
    if (s->active || turn > turns_of(s) || (kept > s->context.n && !next))
        return ls_fail(err, LS_E_RANGE, "there is no such turn");
    if (next) return ls_session_begin(s, ids, n, progress, ud, prefill_ms, err);
    past before = past_of(s);
    const past until = {.context = {.p = before.context.p, .n = kept}, .uncommitted = -1, .turns = turn};
    ls_code code = take_past(s, &until, kept, NULL, NULL, err);
    if (!code) code = ls_session_begin(s, ids, n, progress, ud, prefill_ms, err);
    if (code) bring_back(s, &before, kept);
    ls_ids_free(&before.context);
    return code;
}

ls_code ls_session_restore(ls_session *s, const ls_ids *context, int32_t uncommitted, uint32_t turns,
                           ls_progress progress, void *ud, ls_err *err) {
    if (context->n < 1 || context->n + 1 >= (size_t)s->e->n_context)
        return ls_fail(err, LS_E_RANGE, "the conversation has %zu tokens, the context %d", context->n, s->e->n_context);
    ls_code code = ls_prompt_fits(s->e, (int32_t)context->n, err);
    if (code) return code;
    past before = past_of(s);
    const past wanted = {.context = *context, .uncommitted = uncommitted, .turns = turns};
    code = take_past(s, &wanted, 0, progress, ud, err);
    if (code) bring_back(s, &before, 0);
    ls_ids_free(&before.context);
    return code;
}

ls_code ls_session_reload(ls_session *s, ls_progress progress, void *ud, ls_err *err) {
    return read_rest(s, 0, progress, ud, err);
}

void ls_session_warm(ls_session *s) {
    const int32_t parent = -1;
    lst_row row;
    if (s->active && (int32_t)s->context.n + 1 < s->e->n_context)
        s->t->forward_tree(s->t, &s->last.chosen, &parent, 1, &s->sampling, &row, NULL);
}

// ---- the decode step: root, draft, verify, commit (paper, section 3)

// What the phases of one step share.
typedef struct {
    ls_session *s;
    ls_step *out;
    uint64_t start, phase;               // when the step began, and its phase
    int32_t context;                     // tokens committed before it
    int32_t n_top, top_ids[LS_MAX_ROWS]; // of the last logits, for the drafter
    float top_p[LS_MAX_ROWS];
    bool ahead; // the drafter goes on beside the forward
    ls_finish finish;
} work;

static double end_phase(work *w) {
    const uint64_t start = w->phase;
    w->phase = ls_now_ns();
    return (double)(w->phase - start) / 1e3;
}

// Times plain decoding where the context has moved on; not a part of the step.
static ls_code measure_plain(ls_session *s, ls_err *err) {
    const int32_t context = (int32_t)s->context.n;
    if (!s->drafting.drafter || !ls_ar_due(&s->ar, context)) return LS_OK;
    const ls_code code = ls_ar_probe(&s->ar, s->t, s->last.chosen, &s->sampling, s->host_us, err);
    if (!code) ls_cost_observe(&s->costs, 1, context, (s->ar.us - s->host_us) / 1e3);
    return code;
}

// The root is the target's own next token, chosen from the last logits: it stands before anything is drafted.
static ls_code take_root(work *w, ls_err *err) {
    const ls_session *s = w->s;
    const ls_promise promise = ls_accept_promise(&s->accept, s->sampling.temperature);
    ls_step *out = w->out;
    *out = (ls_step){.turn = s->turn,
                     .index = s->step,
                     .context_len = w->context,
                     .output_pos = (int32_t)s->answer.ids.n,
                     .corrected = s->corrected,
                     .exact = s->e->exact && promise == LS_PROMISE_TEXT,
                     .odds = promise == LS_PROMISE_ODDS,
                     .ar_us = s->ar.us,
                     .budget = (int16_t)ls_drafting_rows(&s->drafting),
                     .pool_size = s->drafting.drafter ? s->drafting.drafter->pool_size(s->drafting.drafter) : 0,
                     .rows = 1,
                     .n_path = 1,
                     .top_lse = s->last.lse,
                     .top_entropy = s->last.entropy};
    ls_tree_start(&out->tree, s->last.chosen);
    ls_node *root = &out->tree.nodes[0];
    root->p = expf(s->last.chosen_logit - s->last.lse);
    root->target = root->own = -1;
    root->target_p = root->entropy = root->lse = NAN;
    for (int i = 0; i < LS_ROW_TOP; i++) root->top[i].id = -1;
    w->n_top = out->budget > LS_MAX_TOP ? out->budget : LS_MAX_TOP;
    if (w->n_top > s->e->n_vocab) w->n_top = s->e->n_vocab;
    const ls_code code = s->t->row_top(s->t, -1, w->n_top, w->top_ids, w->top_p, err);
    if (code) return code;
    out->n_top = (int16_t)(w->n_top < LS_MAX_TOP ? w->n_top : LS_MAX_TOP);
    for (int32_t i = 0; i < out->n_top; i++) out->top[i] = (ls_top_entry){w->top_ids[i], w->top_p[i]};
    for (int32_t i = 0; i < w->n_top; i++) w->top_p[i] = expf(w->top_p[i] - s->last.lse);
    return LS_OK;
}

static ls_draft_state state_of(const work *w) {
    const ls_session *s = w->s;
    return (ls_draft_state){s->context.p, s->context.n, s->last.chosen, w->top_ids, w->top_p, w->n_top, NULL};
}

// Whether a second model had better begin a draft beside this step's forward than before it (PEARL's pre-verification).
// Say that D is what its forwards take, T the target's, and E drafts of a tree are accepted. Over two steps, drafting
// first brings 2 + 2E tokens in 2T + D (the second draft is made ahead), drafting beside 2 + E in 2T. With E = 2 the
// latter is better from D = T on; but a few of its forwards must fit into one of the target's.
static bool begins_beside(const ls_session *s) {
    enum { FIT = 3 };
    const ls_second *m = s->drafting.drafter->second;
    const double one = m->cost_ms(m, s->drafting.draft.width, s->context.n),
                 target = ls_cost_ms(&s->costs, 1, (int32_t)s->context.n);
    return one > 0 && FIT * one <= target && s->drafting.draft.depth * one >= target;
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
    ls_cost_curve costs = s->costs;
    if (reflects(s)) costs.beside_rows = (int32_t)s->reflection.n + 1;
    out->budget = (int16_t)ls_drafting_propose(&s->drafting, &state, &costs, s->e->n_context - w->context, &out->tree);
    const double us = end_phase(w);
    const ls_second *second = s->drafting.drafter ? s->drafting.drafter->second : NULL;
    out->t_draft_us = s->drafting.drafter ? us : 0;
    out->draft_forwards = second ? (int16_t)second->forwards : 0;
    out->t_draft_forward_us = second ? second->forward_us : 0;
}

// A forward, and beside it what the drafter does for the steps to come.
static ls_code forward(work *w, const int32_t *ids, const int32_t *parents, int32_t n, ls_err *err) {
    ls_session *s = w->s;
    ls_step *out = w->out;
    ls_drafter *d = s->drafting.drafter;
    const ls_draft_state state = state_of(w);
    const int32_t before = w->ahead ? d->second->forwards : 0;
    w->ahead = w->ahead && ls_ahead_start(s->ahead, d, &state);
    const ls_code code = s->t->forward_tree(s->t, ids, parents, n, &s->sampling, s->rows, err);
    out->t_forward_us = end_phase(w);
    if (!w->ahead) return code;
    ls_ahead_stop(s->ahead);
    out->t_wait_us = end_phase(w);
    out->ahead_forwards = (int16_t)(d->second->forwards - before);
    return code;
}

// One forward over all rows; the path whose drafts stand; the text that it makes.
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
    out->t_device_us = s->t->device_us(s->t);
    out->forward = true;
    out->rows = (int16_t)t->n;
    out->probes = (int16_t)probe.n;
    if (ls_accept_draws(&s->accept, s->sampling.temperature) && s->drafting.drafter &&
        (code = ls_choose(&s->accept, &s->sampling, s->t, s->drafting.drafter->second, t, w->context, s->rows, err)))
        return code;
    if (probe.n &&
        (code = ls_reflect(&probe, s->accept.values[0], &s->sampling, s->t, t, w->context, s->rows, own, err)))
        return code;
    for (int32_t i = 0; i < t->n; i++) {
        complete(&t->nodes[i], &s->rows[i]);
        if (probe.n) t->nodes[i].own = own[i];
    }
    out->n_path = (int16_t)ls_accept_path(&s->accept, t, out->path);
    ls_tree_mark(t, out->path, out->n_path);
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
    const ls_code code = s->t->keep_path(s->t, out->path, n_keep, err);
    if (code) return code;
    const ls_draft_state state = state_of(w);
    out->miss = (uint8_t)ls_drafting_blame(&s->drafting, &state, t, out->path[out->n_path - 1]);
    // not while the next forward runs: a draft that does not know the step before it costs 5% of MAT with 16 rows and
    // 11% with 32 (18 prompts), more than these microseconds
    ls_drafting_learn(&s->drafting, &(ls_draft_result){s->context.p, s->context.n, t, out->n_path});
    for (int32_t i = 0; i < n_keep; i++) ls_ids_push(&s->context, t->nodes[out->path[i]].token);
    ls_drafting_observe(&s->drafting, s->context.p, s->context.n, false);
    s->last = s->rows[out->path[n_keep - 1]];
    s->corrected = false;
    for (int32_t i = 1; i < t->n; i++) s->corrected |= t->nodes[i].parent == out->path[out->n_path - 1];
    if (!w->finish && (int32_t)s->context.n >= s->e->n_context) w->finish = LS_FINISH_CONTEXT;
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
    if (finish != LS_FINISH_EOS) s->uncommitted = s->last.chosen;
    w->out->n_emitted = 1;
    w->finish = finish;
}

static void finish_step(work *w) {
    ls_session *s = w->s;
    w->out->finish = (uint8_t)w->finish;
    if (w->finish) ls_session_stop(s);
    w->out->t_total_us = us_since(w->start);
    s->step++;
}

// What rows cost here, and what a plain step would have.
static void keep_books(const work *w) {
    ls_session *s = w->s;
    ls_step *out = w->out;
    ls_cost_observe(&s->costs, ls_step_forwarded(out), w->context, out->t_forward_us / 1e3);
    const double host = out->t_total_us - out->t_forward_us - out->t_draft_forward_us - out->t_wait_us;
    ls_ahead_learn(s->ahead, out->t_total_us, out->n_emitted);
    ls_ar_bound(&s->ar, out->t_total_us);
    s->host_us = s->host_us > 0 ? 0.9 * s->host_us + 0.1 * host : host;
    out->ar_us = s->drafting.drafter ? s->ar.us : out->t_total_us; // a plain step is its own baseline
    out->ar_us = ls_step_plain_us(out);
}

static ls_code decode_step(ls_session *s, ls_step *out, ls_err *err) {
    const int32_t context = (int32_t)s->context.n;
    const bool ends = ls_vocab_is_end(s->model->vocab, s->last.chosen) || ls_answer_ends_next(&s->answer) ||
                      context + 1 >= s->e->n_context;
    ls_code code = ends ? LS_OK : measure_plain(s, err);
    if (code) return code;
    const uint64_t now = ls_now_ns();
    work w = {.s = s, .out = out, .start = now, .phase = now, .context = context};
    if ((code = take_root(&w, err))) return code;
    if (ends) {
        end_on_root(&w);
        finish_step(&w);
        return LS_OK;
    }
    draft(&w);
    if ((code = verify(&w, err)) || (code = commit(&w, err))) return code;
    finish_step(&w);
    keep_books(&w);
    return LS_OK;
}

ls_code ls_session_step(ls_session *s, ls_step *out, ls_err *err) {
    if (!s->active) return ls_fail(err, LS_E_USAGE, "no turn is active");
    ls_code code = decode_step(s, out, err);
    if (code && code != LS_E_CANCELLED) s->active = false; // a step that was cancelled did not happen
    return code;
}
