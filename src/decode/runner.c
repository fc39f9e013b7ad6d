#include "decode/runner.h"

void ls_runner_free(ls_runner *r) {
    ls_step_free(r->step);
    r->step = NULL;
}

bool ls_runner_active(const ls_runner *r) {
    return r->session && ls_session_active(r->session);
}

size_t ls_runner_turns(const ls_runner *r) {
    return ls_session_conversation(r->session)->n_turns;
}

ls_finish ls_runner_finish(const ls_runner *r) {
    const ls_turn *last = ls_conversation_last(ls_session_conversation(r->session));
    return last ? last->finish : LS_GOING;
}

static bool on_prefill(void *ud, const char *stage, double fraction) {
    const ls_runner *r = ud;
    (void)stage;
    return !r->progress || r->progress(r->ud, r->reading, fraction);
}

static void tell_begin(ls_runner *r, double prefill_ms) {
    r->stats = (ls_stats){0};
    for (int i = 0; i < r->n_sinks; i++)
        if (r->sinks[i].begin) r->sinks[i].begin(r->sinks[i].ud, r, prefill_ms);
}

// What will be read, for the progress.
static void announce(ls_runner *r, size_t n) {
    r->n_read = n;
    ls_prompt_describe(r->model->engine, (int32_t)n, r->reading, sizeof r->reading);
    on_prefill(r, "", 0);
}

ls_code ls_runner_begin(ls_runner *r, size_t turn, ls_str text, const char *system, const ls_ids *begun, ls_err *err) {
    const ls_setup *s = r->setup;
    const ls_conversation *d = ls_session_conversation(r->session);
    const size_t before = turn == d->n_turns ? ls_conversation_tokens(d) : 0;
    ls_next_prompt p;
    double prefill_ms = 0;
    if (turn > d->n_turns) return ls_fail(err, LS_E_RANGE, "there is no such turn");
    ls_code code =
        ls_conversation_prompt(d, r->model, s->format, system ? system : s->system, turn, text.p, text.n, &p, err);
    if (code) return code;
    if (begun) {
        ls_ids_add(&p.ids, begun->p, begun->n);
        p.n_begun = begun->n;
    }
    r->full = p.kept + p.ids.n + 1 >= (size_t)r->model->engine->n_context;
    announce(r, p.ids.n);
    code = ls_session_begin_at(r->session, turn, &p, on_prefill, r, &prefill_ms, err);
    if (!code) {
        r->reread = before > p.kept ? before - p.kept : 0;
        tell_begin(r, prefill_ms);
    }
    ls_next_prompt_free(&p);
    return code;
}

ls_code ls_runner_begin_other(ls_runner *r, ls_str text, const ls_ids *ids, size_t most, ls_err *err) {
    r->full = ids->n + 1 >= (size_t)r->model->engine->n_context;
    announce(r, ids->n);
    const ls_code code = ls_session_begin_other(r->session, text, ids, most, &r->other, on_prefill, r, err);
    if (!code && ls_runner_active(r)) tell_begin(r, r->other.prefill_ms);
    return code;
}

static void end(ls_runner *r, ls_finish reason) {
    ls_session_stop(r->session, reason);
    for (int i = 0; i < r->n_sinks; i++)
        if (r->sinks[i].end) r->sinks[i].end(r->sinks[i].ud, (uint32_t)ls_runner_turns(r) - 1, reason, &r->stats);
}

ls_code ls_runner_step(ls_runner *r, ls_err *err) {
    if (!r->step) r->step = ls_step_new();
    const ls_code code = ls_session_step(r->session, r->step, err);
    if (code) return code;
    const ls_step *kept = ls_step_share(r->step); // once, for all who want to keep it
    ls_stats_add(&r->stats, kept);
    for (int i = 0; i < r->n_sinks; i++)
        if (r->sinks[i].step) r->sinks[i].step(r->sinks[i].ud, kept);
    if (kept->finish) end(r, (ls_finish)kept->finish);
    ls_step_free(kept);
    return LS_OK;
}

void ls_runner_stop(ls_runner *r, ls_finish reason) {
    if (ls_runner_active(r)) end(r, reason);
}

ls_code ls_runner_replace(ls_runner *r, ls_conversation **conversation, const ls_stats *stats, ls_err *err) {
    announce(r, (*conversation)->context.n);
    const ls_code code = ls_session_replace(r->session, conversation, on_prefill, r, err);
    if (!code) r->stats = *stats;
    return code;
}
