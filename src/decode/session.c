#include "decode/session.h"
#include "base/system.h"
#include "base/mem.h"
#include "decode/draft_model.h"
#include "decode/session_state.h"
#include "engine/measured.h"
#include "engine/dialog.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ls_code open_head(const ls_session *s, const char *folder, ls_trained **out, ls_err *err) {
    const ls_engine_options how = {.stop = s->model->stop, .ud = s->model->stop_ud};
    *out = NULL;
    if (!s->model->checkpoint)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s has no weights that a trained head could read", s->model->name);
    return ls_trained_open(out, s->model->engine, s->model->checkpoint, folder, &how, err);
}

static ls_code open_multi_head(void *of, const ls_draft_options *o, ls_multi_head **out, ls_err *err) {
    const ls_session *s = of;
    ls_trained *heads;
    *out = NULL;
    const ls_code code = open_head(s, o->head, &heads, err);
    return code ? code : ls_multi_head_medusa(out, heads, s->t, err);
}

static ls_code open_second(void *of, const ls_draft_options *o, ls_draft_model **out, ls_err *err) {
    ls_session *s = of;
    if (o->head && *o->head) {
        ls_trained *head;
        *out = NULL;
        const ls_code code = open_head(s, o->head, &head, err);
        return code ? code : ls_draft_model_eagle(out, head, s->t, &s->sampling, &s->accept, err);
    }
    return ls_draft_model_open(out, s->model, o, &s->sampling, &s->accept, err);
}

static void set_ahead(ls_session *s, const ls_decode_options *opt, bool same_drafter) {
    const ls_drafter *d = s->drafting.drafter;
    ls_overlap how = opt->draft.overlap;
    // auto only where trees are sized by measured costs: other trees must be the same in every run
    if (how == LS_OVERLAP_AUTO && (!s->drafting.sizing.rule->by_cost || opt->costs.given)) how = LS_OVERLAP_OFF;
    if (same_drafter && how == s->overlap) return;
    ls_ahead_free(s->ahead);
    s->overlap = how;
    s->ahead = ls_ahead_new(how, d, strcmp(s->e->device, "cpu") ? 0 : s->e->threads);
    if (s->overlap == LS_OVERLAP_ON && d && d->draft_model && !ls_ahead_can(d) && opt->note)
        opt->note(opt->ud,
                  "draft.overlap: on needs a draft model on the CPU. This draft model is not on the CPU, so it "
                  "drafts before the target verifies.");
}

ls_code ls_session_set(ls_session *s, const ls_decode_options *opt, ls_err *err) {
    const ls_eos_set ends = ls_vocab_ends(s->model->vocab);
    const ls_draft_setup place = {.tokenizer = s->model->name,
                                  .n_vocab = s->e->n_vocab,
                                  .tokenizer_id = ls_vocab_id(s->model->vocab),
                                  .ends = &ends,
                                  .draft_model = open_second,
                                  .multi_head = open_multi_head,
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
    s->note = opt->note;
    s->ud = opt->ud;
    if (opt->costs.given || s->costs.given) s->costs = opt->costs; // zeros: to be measured
    s->accept = opt->accept;
    s->sampling = opt->sampling;
    ls_answer_ends(&s->answer, opt->max_tokens, opt->stops);
    return LS_OK;
}

static ls_code new_session(ls_session **out, ls_model *model, ls_kv_cache *lent, const ls_decode_options *opt,
                           ls_err *err) {
    *out = NULL;
    ls_session *s = ls_calloc(1, sizeof *s);
    s->model = model;
    s->e = model->engine;
    s->t = lent;
    s->borrowed = lent != NULL;
    s->uncommitted = -1;
    ls_code code = lent ? LS_OK : model->engine->kv_cache(model->engine, 0, &s->t, err);
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
    ls_drafting_free(&s->drafting); // before the KV cache, whose hidden states a trained head uses
    if (s->t && !s->borrowed) s->t->free(s->t);
    ls_ids_free(&s->context);
    ls_ids_free(&s->reflection);
    ls_answer_free(&s->answer);
    free(s);
}

void ls_session_remember(ls_session *s, ls_buf *out) {
    ls_drafting_remember(&s->drafting, out);
}

bool ls_session_return(ls_session *s, const ls_buf *from) {
    ls_session_reset(s);
    const bool known = ls_drafting_return(&s->drafting, from);
    ls_drafting_observe(&s->drafting, s->context.p, 0, true);
    return known;
}

void ls_session_reset(ls_session *s) {
    s->t->rewind(s->t, 0, NULL);
    s->context.n = 0;
    ls_answer_begin(&s->answer);
    s->started = s->active = s->corrected = s->cut = false;
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
ls_kv_cache *ls_session_kv_cache(ls_session *s) {
    return s->t;
}
size_t ls_session_settled(const ls_session *s) {
    return s->active ? ls_answer_settled(&s->answer) : s->answer.text.n;
}
ls_code ls_session_go_on(ls_session *s, ls_err *err) {
    if (!s->cut || s->active) return ls_fail(err, LS_E_RANGE, "no answer was cut by max_tokens");
    if ((int32_t)s->context.n + (s->uncommitted >= 0) + 1 >= s->e->n_context)
        return ls_fail(err, LS_E_RANGE, "the context is full (%d tokens): the answer cannot continue", s->e->n_context);
    if (s->uncommitted >= 0) { // nothing was to follow the last token, so no forward has seen it
        const ls_code code = s->t->prefill(s->t, &s->uncommitted, 1, &s->sampling, &s->last, NULL, NULL, err);
        if (code) return code;
        ls_ids_push(&s->context, s->uncommitted);
        s->uncommitted = -1;
        s->corrected = false;
        ls_drafting_observe(&s->drafting, s->context.p, s->context.n, false);
    }
    ls_answer_go_on(&s->answer);
    s->cut = false;
    s->active = true;
    return LS_OK;
}

void ls_session_stop(ls_session *s) {
    if (s->active) ls_answer_flush(&s->answer);
    s->active = false;
}

ls_code ls_session_calibrate(ls_session *s, ls_costs_wish wish, ls_progress progress, void *ud, ls_err *err) {
    if (s->costs.given) return LS_OK;
    ls_costs_noise noise;
    char line[LS_COSTS_NOTE];
    const ls_code code = ls_costs_get(&s->costs, s->model, wish, LS_BUSY, &noise, progress, ud, err);
    if (!code && s->note && ls_costs_note(&noise, line)) s->note(s->ud, line);
    return code;
}

// Whether the drafter should learn from the prompt's rows: compares what they cost more than a prefill with the time of
// plain decoding of the answer. They cost at least the output head more, which a prefill runs for the last row only. If
// the prefill was not measured, or at a bad moment, the head's share of a row's multiply-adds estimates that cost.
static bool rows_of_prompt_pay(const ls_session *s, size_t n) {
    enum { ANSWER = 256 }; // tokens that are expected at most
    const ls_drafter *d = s->drafting.drafter;
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1],
                  answer = s->answer.max_tokens < ANSWER ? s->answer.max_tokens : ANSWER;
    if (!d || !d->read || d->read_share <= 0 || s->costs.base_ms[0] <= 0) return false;
    const double row_ms = s->costs.base_ms[LS_COST_SIZES - 1] / most,
                 head_ms = s->e->row_macs ? row_ms * (double)s->e->head_macs / (double)s->e->row_macs : 0,
                 measured_ms = s->costs.prefill_ms > 0 ? row_ms - s->costs.prefill_ms : 0;
    return fmax(measured_ms, head_ms) * (double)n <= d->read_share * answer * s->costs.base_ms[0];
}

// Reads context[from..) as chains of rows; the drafter learns the target's choice after each row.
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
        for (int32_t i = 0; i < n; i++) ls_session_complete(&said[i], &s->rows[i]);
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
    const int32_t room = s->e->n_context - (int32_t)s->context.n - (s->uncommitted >= 0) - 1; // one is for an answer
    if (n > room)
        return ls_fail(
            err, LS_E_RANGE,
            "the prompt has %d tokens, but only %d of the context's %d are free: shorten it, increase --context%s", n,
            room < 0 ? 0 : room, s->e->n_context, s->started ? " or start a new conversation" : "");
    ls_code code = ls_prompt_fits(s->e, n, err);
    if (code) return code;
    ls_buf before = {0}; // of the turn that may begin: a cancelled one leaves that of the last turn
    ls_drafting_remember(&s->drafting, &before);
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
        ls_buf_free(&before);
        return code;
    }
    ls_buf_free(&s->drafting.before);
    s->drafting.before = before;
    s->uncommitted = -1;
    if (prefill_ms) *prefill_ms = (double)(ls_now_ns() - start) / 1e6;
    ls_drafting_observe(&s->drafting, s->context.p, s->context.n, false);
    if (s->started) s->turn++;
    ls_answer_begin(&s->answer);
    s->step = 0;
    s->corrected = s->cut = false;
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

// ---- replacing the conversation

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

// Cuts the KV cache to the first n_read tokens of the conversation, and reads the rest.
static ls_code read_rest(ls_session *s, size_t n_read, ls_progress progress, void *ud, ls_err *err) {
    lst_row last;
    const ls_code code = s->t->rewind(s->t, (int32_t)n_read, err);
    if (code || n_read == s->context.n) return code;
    return s->t->prefill(s->t, s->context.p + n_read, (int32_t)(s->context.n - n_read), &s->sampling, &last, progress,
                         ud, err);
}

// known: the drafter knows this past, and nothing after it.
static ls_code take_past(ls_session *s, const past *p, size_t n_read, bool known, ls_progress progress, void *ud,
                         ls_err *err) {
    s->context.n = 0;
    ls_answer_begin(&s->answer);
    ls_ids_add(&s->context, p->context.p, p->context.n);
    s->uncommitted = p->uncommitted;
    s->turn = p->turns ? p->turns - 1 : 0;
    s->started = p->turns > 0;
    s->active = s->corrected = s->cut = false;
    const ls_code code = read_rest(s, n_read, progress, ud, err);
    if (!known) ls_drafting_observe(&s->drafting, s->context.p, s->context.n, true);
    return code;
}

static void bring_back(ls_session *s, const past *p, size_t n_read) {
    if (take_past(s, p, n_read, false, NULL, NULL, NULL)) ls_session_reset(s);
}

ls_code ls_session_begin_at(ls_session *s, uint32_t turn, size_t kept, const int32_t *ids, int32_t n,
                            ls_progress progress, void *ud, double *prefill_ms, ls_err *err) {
    const size_t all = s->context.n + (s->uncommitted >= 0);
    const bool next = turn == turns_of(s) && kept == all;
    if (s->active || turn > turns_of(s) || (kept > s->context.n && !next))
        return ls_fail(err, LS_E_RANGE, "there is no such turn");
    if (next) return ls_session_begin(s, ids, n, progress, ud, prefill_ms, err);
    past before = past_of(s);
    const bool known = ls_drafting_return(&s->drafting, &s->drafting.before) && turn == s->turn;
    const past until = {.context = {.p = before.context.p, .n = kept}, .uncommitted = -1, .turns = turn};
    ls_code code = take_past(s, &until, kept, known, NULL, NULL, err);
    if (!code) code = ls_session_begin(s, ids, n, progress, ud, prefill_ms, err);
    if (code) bring_back(s, &before, kept);
    ls_ids_free(&before.context);
    return code;
}

ls_code ls_session_restore(ls_session *s, const ls_ids *context, int32_t uncommitted, uint32_t turns,
                           ls_progress progress, void *ud, ls_err *err) {
    if (context->n < 1 || context->n > (size_t)s->e->n_context)
        return ls_fail(err, LS_E_RANGE,
                       "the conversation has %zu tokens, but the context has %d: start with --context %zu", context->n,
                       s->e->n_context, context->n);
    ls_code code = ls_prompt_fits(s->e, (int32_t)context->n, err);
    if (code) return code;
    past before = past_of(s);
    const past wanted = {.context = *context, .uncommitted = uncommitted, .turns = turns};
    code = take_past(s, &wanted, 0, false, progress, ud, err);
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
