#include "cli/item_run.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "engine/measured.h"

#include <math.h>

typedef struct {
    ls_result *result;
    ls_cost_curve window; // of the model
} work;

// So that r->gaps has one for each token of r->output: a turn's end is no part of the output.
static void align_gaps(ls_result *r) {
    const size_t want = r->output.n * sizeof(double);
    for (const double unknown = NAN; r->gaps.n < want;) ls_buf_add(&r->gaps, &unknown, sizeof unknown);
    r->gaps.n = want;
}

static void on_begin(void *ud, const ls_runner *run, double prefill_ms) {
    ls_result *r = ((const work *)ud)->result;
    (void)run;
    align_gaps(r);
    r->prefill_ms += prefill_ms;
    r->turn = ls_realloc(r->turn, (r->turns + 1) * sizeof *r->turn);
    r->turn[r->turns++] = (ls_result_turn){.prefill_ms = prefill_ms};
}

static void on_step(void *ud, const ls_step *step) {
    const work *w = ud;
    ls_result *r = w->result;
    ls_stats_add(&r->stats, step);
    if (step->forward) // behind a sliding window, what is read of the context
        r->stats.context -= (uint64_t)(step->context_len - lround(ls_cost_seen(&w->window, step->context_len)));
    ls_ids_push(&r->lengths, step->n_emitted);
    for (int k = 0; k < step->n_emitted; k++) {
        const double gap = ls_step_gap(step, k);
        ls_buf_add(&r->gaps, &gap, sizeof gap);
    }
}

static ls_code run_turn(ls_runner *run, size_t turn, const ls_suite_item *item, ls_result *r, ls_err *err) {
    const ls_suite_turn *said = &item->turns[turn];
    ls_code code = ls_runner_begin(run, turn, (ls_str){said->text, said->n}, item->system, NULL, NULL, NULL, NULL, err);
    if (code && turn && run->full) { // no room: the conversation ends
        r->finish = LS_FINISH_CONTEXT;
        return LS_OK;
    }
    while (!code && ls_runner_active(run))
        code = ls_interrupted ? ls_fail(err, LS_E_CANCELLED, "interrupted") : ls_runner_step(run, err);
    if (code) return code;
    const ls_ids *out = ls_session_output(run->session);
    const ls_buf *text = ls_session_text(run->session);
    ls_result_turn *t = &r->turn[r->turns - 1];
    t->text = ls_strndup(text->n ? text->p : "", text->n);
    t->n = text->n;
    t->steps = run->stats.steps;
    t->emitted = run->stats.emitted;
    t->decode_ms = run->stats.total_us / 1e3;
    r->finish = ls_runner_finish(run);
    ls_ids_add(&r->output, out->p, out->n);
    return LS_OK;
}

ls_code ls_item_run(ls_session *s, ls_model *m, const ls_setup *setup, const ls_suite_item *item,
                    const ls_run_sink *also, ls_result *r, ls_err *err) {
    work w = {.result = r};
    ls_costs_window(&w.window, m->engine);
    ls_runner run = {.session = s, .model = m, .setup = setup, .sinks[0] = {on_begin, on_step, NULL, &w}, .n_sinks = 1};
    ls_code code = LS_OK;
    if (also) run.sinks[run.n_sinks++] = *also;
    ls_session_reset(s);
    for (size_t turn = 0; turn < item->n_turns && !code && r->turns == turn; turn++)
        code = run_turn(&run, turn, item, r, err);
    ls_runner_free(&run);
    return code;
}
