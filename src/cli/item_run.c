#include "cli/item_run.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "engine/dialog.h"

typedef struct {
    ls_session *session;
    ls_model *model;
    const ls_setup *setup;
    const ls_suite_item *item;
    const ls_item_listener *listener;
    ls_result *result;
    ls_dialog *dialog;
    ls_step *step;
} answering;

static ls_code run_turn(const answering *c, size_t turn, ls_err *err) {
    const ls_suite_turn *said = &c->item->turns[turn];
    const ls_item_listener *l = c->listener;
    ls_result *r = c->result;
    ls_session *s = c->session;
    ls_stats stats = {0};
    ls_next_prompt p;
    double prefill_ms = 0;
    const char *system = c->item->system ? c->item->system : c->setup->system;
    ls_code code = ls_dialog_prompt(c->dialog, c->model, c->setup->format, system, turn, said->text, said->n, &p, err);
    if (code) return code;
    if (turn && p.kept + p.ids.n + 1 >= (size_t)c->model->engine->n_context) { // no room: the conversation ends
        r->finish = LS_FINISH_CONTEXT;
        ls_next_prompt_free(&p);
        return LS_OK;
    }
    code = ls_session_begin_at(s, (uint32_t)turn, p.kept, p.ids.p, (int32_t)p.ids.n, NULL, NULL, &prefill_ms, err);
    if (!code) {
        ls_dialog_begin(c->dialog, turn, said->text, said->n, &p);
        r->finish = LS_GOING;
        r->prefill_ms += prefill_ms;
        r->turn = ls_realloc(r->turn, (r->turns + 1) * sizeof *r->turn);
        r->turn[r->turns++] = (ls_result_turn){.prefill_ms = prefill_ms};
        if (l->begin) l->begin(l->ud, &(ls_turn_begun){turn, p.kept, prefill_ms, said, ls_session_context(s)});
    }
    ls_next_prompt_free(&p);
    while (!code && !r->finish) {
        if (ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
        else if (!(code = ls_session_step(s, c->step, err))) {
            ls_stats_add(&r->stats, c->step);
            ls_stats_add(&stats, c->step);
            ls_ids_push(&r->lengths, c->step->n_emitted);
            r->finish = c->step->finish;
            if (l->step) l->step(l->ud, turn, c->step);
        }
    }
    if (code) return code;
    if (l->end) l->end(l->ud, turn, r->finish, &stats);
    const ls_ids *out = ls_session_output(s);
    const ls_buf *text = ls_session_text(s);
    ls_result_turn *t = &r->turn[r->turns - 1];
    t->text = ls_strndup(text->n ? text->p : "", text->n);
    t->n = text->n;
    t->steps = stats.steps;
    t->emitted = stats.emitted;
    t->decode_ms = stats.total_us / 1e3;
    ls_ids_add(&r->output, out->p, out->n);
    ls_dialog_answer(c->dialog, c->model, ls_session_text(s), out->p, out->n - (r->finish == LS_FINISH_EOS));
    return LS_OK;
}

ls_code ls_item_run(ls_session *s, ls_model *m, const ls_setup *setup, const ls_suite_item *item,
                    const ls_item_listener *listener, ls_result *r, ls_err *err) {
    answering c = {s, m, setup, item, listener, r, ls_dialog_new(), ls_step_new()};
    ls_code code = LS_OK;
    ls_session_reset(s);
    for (size_t turn = 0; turn < item->n_turns && !code && r->turns == turn; turn++) code = run_turn(&c, turn, err);
    ls_step_free(c.step);
    ls_dialog_free(c.dialog);
    return code;
}
