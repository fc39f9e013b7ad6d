#include "decode/session.h"
#include "base/mem.h"
#include "decode/draft_model.h"
#include "decode/session_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ls_code open_head(const ls_session *s, const ls_draft_options *o, ls_trained **out, ls_err *err) {
    const ls_engine_options how = {.device = o->device, .stop = s->model->stop, .ud = s->model->stop_ud};
    *out = NULL;
    if (!s->model->checkpoint)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s has no weights that a trained head could read", s->model->name);
    const ls_code code = ls_trained_open(out, s->model->engine, s->model->checkpoint, o->head, &how, err);
    if (!code && *(*out)->note && s->note) s->note(s->ud, (*out)->note);
    return code;
}

static ls_code open_multi_head(void *of, const ls_draft_options *o, ls_multi_head **out, ls_err *err) {
    const ls_session *s = of;
    ls_trained *heads;
    const ls_code code = open_head(s, o, &heads, err);
    return code ? code : ls_multi_head_medusa(out, heads, s->kv, err);
}

static ls_code open_draft_model(void *of, const ls_draft_options *o, ls_draft_model **out, ls_err *err) {
    ls_session *s = of;
    if (o->head && *o->head) {
        ls_trained *head;
        const ls_code code = open_head(s, o, &head, err);
        return code ? code : ls_draft_model_eagle(out, head, s->kv, &s->sampling, &s->accept, o->width, err);
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
                                  .draft_model = open_draft_model,
                                  .multi_head = open_multi_head,
                                  .of = s};
    const ls_drafter *before = s->drafting.drafter;
    s->note = opt->note;
    s->ud = opt->ud;
    ls_ids reflection = {0};
    ls_code code = LS_OK;
    if (opt->accept.rule && opt->accept.rule->reflects && opt->reflection)
        code = ls_encode(s->model->vocab, opt->reflection, strlen(opt->reflection), true, &reflection, err);
    if (!code)
        code = ls_drafting_set(&s->drafting, opt, &place, s->conversation->context.p, s->conversation->context.n, err);
    if (code) ls_ids_free(&reflection);
    if (code) return code;
    ls_ids_free(&s->reflection);
    s->reflection = reflection;
    set_ahead(s, opt, s->drafting.drafter == before);
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
    s->kv = lent;
    s->borrowed = lent != NULL;
    s->conversation = ls_conversation_new();
    s->held = SIZE_MAX;
    ls_code code = lent ? LS_OK : model->engine->kv_cache(model->engine, 0, &s->kv, err);
    if (!code && s->kv->experts) {
        s->routing = ls_routing_new(s->e->n_mixtures, s->e->n_experts, s->e->n_experts_used);
        s->drafting.sizing.routing = s->routing;
    }
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
    if (s->kv && !s->borrowed) s->kv->free(s->kv);
    ls_conversation_free(s->conversation);
    ls_ids_free(&s->reflection);
    ls_answer_free(&s->answer);
    ls_routing_free(s->routing);
    free(s);
}

void ls_session_snapshot(ls_session *s, ls_buf *out) {
    ls_drafting_snapshot(&s->drafting, out);
}

bool ls_session_restore(ls_session *s, const ls_buf *from) {
    ls_session_reset(s);
    const bool known = ls_drafting_restore(&s->drafting, from);
    ls_drafting_observe(&s->drafting, NULL, 0, true);
    return known;
}

void ls_session_reset(ls_session *s) {
    s->held = s->kv->rewind(s->kv, 0, NULL) ? 0 : SIZE_MAX;
    ls_conversation_clear(s->conversation);
    ls_answer_begin(&s->answer);
    s->corrected = false;
    ls_drafting_observe(&s->drafting, NULL, 0, true);
}

const ls_cost_curve *ls_session_costs(const ls_session *s) {
    return &s->costs;
}
const ls_drafter *ls_session_drafter(const ls_session *s) {
    return s->drafting.drafter;
}
uint64_t ls_session_bytes(ls_session *s) {
    return ls_drafting_bytes(&s->drafting);
}
const ls_conversation *ls_session_conversation(const ls_session *s) {
    return s->conversation;
}
const ls_ids *ls_session_output(const ls_session *s) {
    return &s->answer.ids;
}
const ls_buf *ls_session_text(const ls_session *s) {
    return &s->answer.text;
}
bool ls_session_active(const ls_session *s) {
    const ls_turn *last = ls_conversation_last(s->conversation);
    return last && last->finish == LS_GOING;
}
size_t ls_session_settled(const ls_session *s) {
    return ls_session_active(s) ? ls_answer_settled(&s->answer) : s->answer.text.n;
}

void ls_session_stop(ls_session *s, ls_finish finish) {
    if (!ls_session_active(s)) return;
    ls_answer_flush(&s->answer);
    ls_conversation_end(s->conversation, s->model->vocab, &s->answer.text, finish);
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

bool ls_session_experts(const ls_session *s, lst_experts_seen *seen) {
    return s->routing && !s->kv->experts(s->kv, seen, NULL) && seen->n_layers == s->e->n_mixtures &&
           seen->n_used == s->e->n_experts_used;
}

// Learns the experts of the prompt's rows that the last forward ran. Nothing without a mixture, or if the engine does
// not tell them.
static void read_experts(ls_session *s, const int32_t *text) {
    lst_experts_seen seen;
    const int32_t n = s->kv->length(s->kv);
    if (ls_session_experts(s, &seen) && seen.n_rows <= n)
        ls_routing_read(s->routing, text, (size_t)n, seen.n_rows, seen.expert);
}

// A prefill runs pieces; its progress is told before each, when the experts of the piece before are still known.
typedef struct {
    ls_session *s;
    const int32_t *text;
    bool begun;
    ls_progress progress;
    void *ud;
} prefill_progress;

static bool piece(void *ud, const char *what, double fraction) {
    prefill_progress *p = ud;
    if (p->begun) read_experts(p->s, p->text);
    p->begun = true;
    return !p->progress || p->progress(p->ud, what, fraction);
}

// Reads text[from..n) into the KV cache, which holds the tokens before.
static ls_code prefill(ls_session *s, const int32_t *text, size_t from, size_t n, lst_row *last, ls_progress progress,
                       void *ud, ls_err *err) {
    prefill_progress p = {s, text, false, progress, ud};
    const bool watches = s->routing || progress;
    const ls_code code =
        s->kv->prefill(s->kv, text + from, (int32_t)(n - from), &s->sampling, last, watches ? piece : NULL, &p, err);
    if (!code) read_experts(s, text);
    return code;
}

// Makes the KV cache hold the first n tokens of the context and no others: cuts it, and reads what it lacks.
static ls_code hold(ls_session *s, size_t n, ls_progress progress, void *ud, ls_err *err) {
    lst_row last;
    const size_t length = (size_t)s->kv->length(s->kv), sound = length < s->held ? length : s->held,
                 keep = sound < n ? sound : n;
    ls_code code = keep < length ? s->kv->rewind(s->kv, (int32_t)keep, err) : LS_OK;
    if (code) return code;
    s->held = keep;
    if (keep < n) code = prefill(s, s->conversation->context.p, keep, n, &last, progress, ud, err);
    if (!code) s->held = n;
    return code;
}

// Reads ids[from..) as chains of rows; the drafter learns the target's choice after each row.
static ls_code read_rows(ls_session *s, const ls_ids *ids, size_t from, lst_row *last, ls_progress progress, void *ud,
                         ls_err *err) {
    int32_t parents[LST_MAX_ROWS], path[LST_MAX_ROWS];
    ls_node said[LS_MAX_ROWS] = {0};
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1];
    ls_code code = LS_OK;
    for (int32_t i = 0; i < most; i++) parents[i] = i - 1, path[i] = i;
    for (size_t at = from; at < ids->n && !code;) {
        const size_t left = ids->n - at;
        const int32_t n = left < (size_t)most ? (int32_t)left : most;
        if (progress && !progress(ud, "prefill", (double)(at - from) / (double)(ids->n - from)))
            code = ls_fail(err, LS_E_CANCELLED, "reading the prompt was cancelled");
        if (!code) code = s->kv->forward_tree(s->kv, ids->p + at, parents, n, &s->sampling, s->rows, err);
        if (!code) code = s->kv->keep_path(s->kv, path, n, err);
        if (code) break;
        read_experts(s, ids->p);
        for (int32_t i = 0; i < n; i++) ls_session_complete(&said[i], &s->rows[i]);
        s->drafting.drafter->read(s->drafting.drafter, ids->p, at, (size_t)n, said);
        *last = s->rows[n - 1];
        at += (size_t)n;
    }
    return code;
}

static ls_code has_room(const ls_session *s, size_t turn, size_t kept, size_t n, ls_err *err) {
    const long room = s->e->n_context - (long)kept - 1; // one is for an answer
    if (n < 1) return ls_fail(err, LS_E_RANGE, "the prompt is empty");
    if ((long)n > room)
        return ls_fail(
            err, LS_E_RANGE,
            "the prompt has %zu tokens, but only %ld of the context's %d are free: shorten it%s increase --context%s",
            n, room < 0 ? 0 : room, s->e->n_context, turn ? "," : " or", turn ? ", or start a new conversation" : "");
    return ls_prompt_fits(s->e, (int32_t)n, err);
}

// Reads ids, whose first `kept` tokens are those of the conversation.
static ls_code read_prompt(ls_session *s, const ls_ids *ids, size_t kept, bool by_rows, lst_row *last,
                           ls_progress progress, void *ud, double *ms, ls_err *err) {
    const size_t from = kept < s->conversation->context.n ? kept : s->conversation->context.n;
    ls_code code = hold(s, from, progress, ud, err);
    const uint64_t start = ls_now_ns();
    if (!code)
        code = by_rows ? read_rows(s, ids, from, last, progress, ud, err)
                       : prefill(s, ids->p, from, ids->n, last, progress, ud, err);
    if (ms) *ms = (double)(ls_now_ns() - start) / 1e6;
    return code;
}

// The prompt of a turn was read.
static void begun(ls_session *s, size_t turn, const ls_next_prompt *p, const lst_row *last) {
    ls_conversation_begin(s->conversation, turn, p);
    ls_answer_take(&s->answer, s->model->vocab, p->ids.p + p->ids.n - p->n_begun, p->n_begun, p->n_begun);
    s->held = SIZE_MAX;
    s->last = *last;
    s->corrected = false;
    s->model->worked_ns = ls_now_ns();
    ls_drafting_observe(&s->drafting, s->conversation->context.p, s->conversation->context.n, false);
}

ls_code ls_session_begin_at(ls_session *s, size_t turn, const ls_next_prompt *p, ls_progress progress, void *ud,
                            double *prefill_ms, ls_err *err) {
    ls_conversation *d = s->conversation;
    const bool next = turn == d->n_turns && p->kept == ls_conversation_tokens(d);
    if (ls_session_active(s) || turn > d->n_turns || (p->kept > d->context.n && !next))
        return ls_fail(err, LS_E_RANGE, "there is no such turn");
    ls_code code = has_room(s, turn, p->kept, p->ids.n, err);
    if (code) return code;
    ls_ids ids = {0}; // of the conversation with this prompt
    // what the drafter had learnt before the last turn, has before this one, and has now, if this one takes some of it
    ls_buf first = s->drafting.before, before = {0}, now = {0};
    lst_row last;
    s->drafting.before = (ls_buf){0};
    if (!next) ls_drafting_snapshot(&s->drafting, &now);
    ls_ids_add(&ids, d->context.p, p->kept < d->context.n ? p->kept : d->context.n);
    // a token that ended the previous turn without a forward belongs to the conversation
    if (next && d->uncommitted >= 0) ls_ids_push(&ids, d->uncommitted);
    ls_ids_add(&ids, p->ids.p, p->ids.n);
    if (!next && !(ls_drafting_restore(&s->drafting, &first) && turn + 1 == d->n_turns))
        ls_drafting_observe(&s->drafting, ids.p, p->kept, true);
    ls_drafting_snapshot(&s->drafting, &before);
    const size_t more = ids.n - (p->kept < d->context.n ? p->kept : d->context.n);
    code = read_prompt(s, &ids, p->kept, rows_of_prompt_pay(s, more), &last, progress, ud, prefill_ms, err);
    if (!code) {
        begun(s, turn, p, &last);
        s->drafting.before = before;
        ls_buf_free(&first);
    } else {
        s->drafting.before = first;
        if (!ls_drafting_restore(&s->drafting, next ? &before : &now) && !next) // too large to be copied
            ls_drafting_observe(&s->drafting, d->context.p, d->context.n, true);
        ls_buf_free(&before);
    }
    ls_buf_free(&now);
    ls_ids_free(&ids);
    return code;
}

ls_code ls_session_begin_other(ls_session *s, ls_str text, const ls_ids *ids, size_t most, ls_reading *r,
                               ls_progress progress, void *ud, ls_err *err) {
    ls_ids *context = &s->conversation->context;
    lst_row last;
    double ms = 0;
    if (ls_session_active(s)) return ls_fail(err, LS_E_RANGE, "a turn is being decoded");
    if (!r->begun) {
        const size_t n = ls_ids_common(context->p, context->n, ids->p, ids->n ? ids->n - 1 : 0);
        const ls_code code = has_room(s, 0, n, ids->n - n, err);
        if (code) return code;
        *r = (ls_reading){.begun = true, .by_rows = rows_of_prompt_pay(s, ids->n - n), .kept = n};
        if (n < context->n) ls_drafting_observe(&s->drafting, ids->p, n, true);
        ls_conversation_clear(s->conversation);
        ls_ids_add(context, ids->p, n);
    }
    const size_t from = context->n, left = ids->n - from, n = left < most ? left : most;
    const ls_ids part = {.p = ids->p, .n = from + n}; // only read
    const ls_code code = read_prompt(s, &part, from, r->by_rows, &last, progress, ud, &ms, err);
    r->prefill_ms += ms;
    if (code) return code;
    if (n < left) {
        ls_ids_add(context, ids->p + from, n);
        s->held = SIZE_MAX;
    } else begun(s, 0, &(ls_next_prompt){.text = text, .ids = *ids}, &last);
    return LS_OK;
}

ls_code ls_session_copy(ls_session *s, ls_session *of, size_t n, ls_err *err) {
    ls_session_reset(s);
    if (n > of->held) n = of->held;
    const ls_code code = s->kv->copy(s->kv, of->kv, (int32_t)n, err);
    if (!code) ls_ids_add(&s->conversation->context, of->conversation->context.p, n);
    s->held = code ? 0 : n;
    return code;
}

ls_code ls_session_begin(ls_session *s, const int32_t *ids, int32_t n, ls_progress progress, void *ud,
                         double *prefill_ms, ls_err *err) {
    const ls_next_prompt p = {.kept = ls_conversation_tokens(s->conversation),
                              .ids = {.p = (int32_t *)ids, .n = n > 0 ? (size_t)n : 0}}; // only read
    return ls_session_begin_at(s, s->conversation->n_turns, &p, progress, ud, prefill_ms, err);
}

ls_code ls_session_go_on(ls_session *s, ls_err *err) {
    ls_conversation *d = s->conversation;
    const ls_turn *turn = ls_conversation_last(d);
    const size_t n = ls_conversation_tokens(d);
    if (!turn || turn->finish != LS_FINISH_LENGTH) return ls_fail(err, LS_E_RANGE, "no answer was cut by max_tokens");
    if (n + 1 >= (size_t)s->e->n_context)
        return ls_fail(err, LS_E_RANGE, "the context is full (%d tokens): the answer cannot continue", s->e->n_context);
    // No forward may have seen the last token. If one has, its logits may be gone: they are computed again.
    const bool owed = d->uncommitted >= 0;
    const int32_t token = owed ? d->uncommitted : d->context.p[n - 1];
    lst_row last;
    ls_code code = hold(s, n - 1, NULL, NULL, err);
    if (!code) code = s->kv->prefill(s->kv, &token, 1, &s->sampling, &last, NULL, NULL, err);
    if (code) return code;
    s->held = SIZE_MAX;
    s->last = last;
    s->corrected &= !owed;
    s->model->worked_ns = ls_now_ns();
    ls_conversation_commit(d);
    if (owed) ls_drafting_observe(&s->drafting, d->context.p, d->context.n, false);
    ls_conversation_go_on(d);
    ls_answer_go_on(&s->answer);
    return LS_OK;
}

ls_code ls_session_replace(ls_session *s, ls_conversation **conversation, ls_progress progress, void *ud, ls_err *err) {
    ls_conversation *before = s->conversation, *d = *conversation;
    if (d->context.n < 1 || d->context.n > (size_t)s->e->n_context)
        return ls_fail(err, LS_E_RANGE,
                       "the conversation has %zu tokens, but the context has %d: start with --context %zu",
                       d->context.n, s->e->n_context, d->context.n);
    ls_code code = ls_prompt_fits(s->e, (int32_t)d->context.n, err);
    if (code) return code;
    s->held = 0; // nothing is the same in both
    s->conversation = d;
    code = hold(s, d->context.n, progress, ud, err);
    if (code) {
        s->conversation = before;
        s->held = 0;
        return code;
    }
    const ls_turn *last = ls_conversation_last(d);
    ls_ids output = {0};
    for (size_t i = last->answer_at; i < ls_conversation_tokens(d); i++)
        ls_ids_push(&output, i < d->context.n ? d->context.p[i] : d->uncommitted);
    ls_answer_take(&s->answer, s->model->vocab, output.p, output.n, last->n_begun);
    ls_ids_free(&output);
    s->corrected = false;
    ls_drafting_observe(&s->drafting, d->context.p, d->context.n, true);
    ls_conversation_free(before);
    *conversation = NULL;
    return LS_OK;
}

// ---- a second answer

ls_code ls_session_rival(ls_session **out, ls_session *of, const ls_decode_options *opt, bool *lent, ls_err *err) {
    *lent = ls_prompt_fits(of->e, (int32_t)of->conversation->context.n + opt->max_tokens, NULL) ||
            new_session(out, of->model, NULL, opt, NULL);
    return *lent ? new_session(out, of->model, of->kv, opt, err) : LS_OK;
}

ls_code ls_session_answer_too(ls_session *s, ls_session *of, size_t n, const ls_ids *more, ls_progress progress,
                              void *ud, ls_err *err) {
    const ls_conversation *d = of->conversation;
    const size_t have = n > 1 && !rows_of_prompt_pay(s, n) ? n - 1 : 0;
    ls_ids ids = {0};
    ls_code code = s->borrowed || of->held < have ? hold(of, have, progress, ud, err) : LS_OK;
    if (!code && have && !s->borrowed) code = s->kv->copy(s->kv, of->kv, (int32_t)have, err);
    if (code) return code;
    ls_ids_add(&s->conversation->context, d->context.p, have);
    ls_ids_add(&ids, d->context.p + have, n - have);
    ls_ids_add(&ids, more->p, more->n);
    code = ls_session_begin(s, ids.p, (int32_t)ids.n, progress, ud, NULL, err);
    ls_ids_free(&ids);
    return code;
}
