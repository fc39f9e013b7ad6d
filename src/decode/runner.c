#include "decode/runner.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void ls_runner_free(ls_runner *r) {
    ls_dialog_free(r->dialog);
    ls_ids_free(&r->begun);
    ls_step_free(r->step);
    r->dialog = NULL;
    r->step = NULL;
}

uint32_t ls_runner_next(const ls_runner *r) {
    return ls_session_started(r->session) ? r->turn + 1 : 0;
}

// Progress of a prefill, whose stage is the prompt in words.
typedef struct {
    const ls_runner *run;
    ls_progress progress;
    void *ud;
} reading;

static bool on_prefill(void *ud, const char *stage, double fraction) {
    const reading *g = ud;
    (void)stage;
    return !g->progress || g->progress(g->ud, g->run->reading, fraction);
}

static void tell_begin(ls_runner *r, const ls_turn_begun *t) {
    for (int i = 0; i < r->n_sinks; i++)
        if (r->sinks[i].begin) r->sinks[i].begin(r->sinks[i].ud, t);
}

ls_code ls_runner_begin(ls_runner *r, uint32_t turn, ls_str text, const char *system, ls_ids *begun, size_t *reread,
                        ls_progress progress, void *ud, ls_err *err) {
    const ls_setup *s = r->setup;
    reading g = {r, progress, ud};
    ls_next_prompt p;
    double prefill_ms = 0;
    const bool next = turn == ls_runner_next(r);
    if (turn > ls_runner_next(r)) return ls_fail(err, LS_E_RANGE, "there is no such turn");
    if (!r->dialog) r->dialog = ls_dialog_new();
    ls_code code =
        ls_dialog_prompt(r->dialog, r->model, s->format, system ? system : s->system, turn, text.p, text.n, &p, err);
    if (code) return code;
    ls_ids ids = {0};
    ls_ids_add(&ids, p.ids.p, p.ids.n);
    if (begun) ls_ids_add(&ids, begun->p, begun->n);
    r->n_read = ids.n;
    r->full = p.kept + ids.n + 1 >= (size_t)r->model->engine->n_context;
    ls_prompt_describe(r->model->engine, (int32_t)p.ids.n, r->reading, sizeof r->reading);
    on_prefill(&g, "", 0);
    code = ls_session_begin_at(r->session, turn, p.kept, ids.p, (int32_t)ids.n, on_prefill, &g, &prefill_ms, err);
    if (!code) {
        if (reread) *reread = next ? ls_dialog_tokens(r->dialog) - p.kept : 0;
        ls_ids_free(&r->begun);
        if (begun) r->begun = *begun, *begun = (ls_ids){0};
        r->turn = turn;
        r->stats = (ls_stats){0};
        r->finish = LS_GOING;
        r->active = true;
        r->turn_context = ls_session_context(r->session)->n;
        r->turn_output = 0;
        ls_dialog_begin(r->dialog, turn, text.p, text.n, &p);
        tell_begin(r, &(ls_turn_begun){r, turn, text.p, p.kept, &ids, r->begun.n, prefill_ms});
    }
    ls_ids_free(&ids);
    ls_next_prompt_free(&p);
    return code;
}

// Adds the answer to the dialog, including the tokens that the user chose as its beginning.
static void tell_dialog(ls_runner *r) {
    const ls_ids *out = ls_session_output(r->session);
    const ls_buf *written = ls_session_text(r->session);
    ls_ids ids = {0};
    ls_buf text = {0};
    for (size_t i = 0; i < r->begun.n; i++) {
        size_t len;
        const char *p = ls_vocab_bytes(r->model->vocab, r->begun.p[i], &len);
        if (!ls_vocab_is_special(r->model->vocab, r->begun.p[i])) ls_buf_add(&text, p, len);
    }
    ls_buf_add(&text, written->p, written->n);
    ls_ids_add(&ids, r->begun.p, r->begun.n);
    ls_ids_add(&ids, out->p, out->n - (r->finish == LS_FINISH_EOS));
    ls_dialog_answer(r->dialog, r->model, &text, ids.p, ids.n);
    ls_ids_free(&ids);
    ls_buf_free(&text);
}

static void end(ls_runner *r, ls_finish reason) {
    ls_session_stop(r->session);
    r->active = false;
    r->finish = reason;
    r->turn_output = ls_session_output(r->session)->n;
    if (r->dialog) tell_dialog(r);
    for (int i = 0; i < r->n_sinks; i++)
        if (r->sinks[i].end) r->sinks[i].end(r->sinks[i].ud, r->turn, reason, &r->stats);
}

ls_code ls_runner_step(ls_runner *r, ls_err *err) {
    if (!r->step) r->step = ls_step_new();
    const ls_code code = ls_session_step(r->session, r->step, err);
    if (code) return code;
    const ls_step *kept = ls_step_keep(r->step); // once, for all who want to keep it
    ls_stats_add(&r->stats, kept);
    for (int i = 0; i < r->n_sinks; i++)
        if (r->sinks[i].step) r->sinks[i].step(r->sinks[i].ud, kept);
    if (kept->finish) end(r, (ls_finish)kept->finish);
    ls_step_free(kept);
    return LS_OK;
}

void ls_runner_stop(ls_runner *r, ls_finish reason) {
    if (r->active) end(r, reason);
}

ls_code ls_runner_go_on(ls_runner *r, ls_err *err) {
    const ls_code code = ls_session_go_on(r->session, err);
    if (code) return code;
    ls_dialog_unanswer(r->dialog);
    r->turn_output = 0;
    r->finish = LS_GOING;
    r->active = true;
    return LS_OK;
}

void ls_runner_reset(ls_runner *r) {
    ls_session_reset(r->session);
    if (r->dialog) ls_dialog_cut(r->dialog, 0);
    r->turn = 0;
    r->turn_output = 0;
    r->active = false;
}

void ls_runner_replace(ls_runner *r, ls_dialog *dialog, uint32_t turns) {
    ls_dialog_free(r->dialog);
    r->dialog = dialog;
    r->turn = turns - 1;
    r->turn_output = 0;
}
