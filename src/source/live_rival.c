#include "source/live.h"

#include <math.h>
#include <stdio.h>

static void tell_rival(live *l, int what, const char *method, ls_packed *step, ls_finish finish) {
    ls_event *e = ls_event_new(LS_EV_RIVAL);
    e->rival.turn = l->turn;
    e->rival.what = what;
    snprintf(e->rival.method, sizeof e->rival.method, "%s", method);
    e->rival.step = step;
    e->rival.finish = finish;
    ls_channel_send(&l->c, e);
}

static bool on_reload(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)stage;
    ls_channel_status(&l->c, LS_STATE_COMPARING, "reading the conversation again", fraction);
    return !ls_channel_closing(&l->c);
}

void ls_live_end_rival(live *l, ls_finish finish) {
    ls_err err;
    if (!l->rival) return;
    ls_session_free(l->rival);
    l->rival = NULL;
    tell_rival(l, LS_RIVAL_ENDS, "", NULL, finish);
    l->holding = true; // else the conversation would be lost
    if (l->lent && ls_session_reload(l->session, on_reload, l, &err)) ls_channel_message(&l->c, true, err.msg);
    l->holding = false;
    ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
}

static bool on_rival(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)stage;
    ls_channel_status(&l->c, LS_STATE_COMPARING, "the same prompt is read for the other method", fraction);
    return !ls_channel_stopping(&l->c);
}

void ls_live_begin_rival(live *l, const char *text) {
    ls_err err = {0};
    ls_decode_options opt = {0};
    ls_code code = LS_OK;
    if (!ls_session_started(l->session) || !l->turn_output)
        code = ls_fail(&err, LS_E_UNSUPPORTED, "there is no answer to compare with yet");
    else if (!l->opt.rival) code = ls_fail(&err, LS_E_UNSUPPORTED, "nothing can be compared here");
    if (!code) code = l->opt.rival(l->opt.ud, text, &l->opt.setup, &opt, &err);
    if (!code) {
        if (l->turn_finish == LS_FINISH_INTERRUPTED)
            opt.max_tokens = (int32_t)l->turn_output; // as far as this one came
        opt.note = ls_live_note;
        opt.ud = l;
        code = ls_session_rival(&l->rival, l->session, &opt, &l->lent, &err);
    }
    if (!code && l->lent)
        ls_channel_message(&l->c, false,
                           "there is no memory for a second timeline: the conversation will be read again");
    if (!code) code = ls_session_calibrate(l->rival, on_rival, l, &err);
    if (!code) code = ls_session_answer_too(l->rival, l->session, l->turn_context, on_rival, l, &err);
    if (!code) {
        tell_rival(l, LS_RIVAL_BEGINS, text, NULL, LS_GOING);
        return;
    }
    ls_channel_message(&l->c, code != LS_E_CANCELLED, err.msg);
    if (l->rival) {
        tell_rival(l, LS_RIVAL_BEGINS, text, NULL, LS_GOING);
        ls_live_end_rival(l, LS_FINISH_ERROR);
    }
}

void ls_live_run_rival(live *l, ls_step *step) {
    ls_err err = {0};
    const ls_code code = ls_session_step(l->rival, step, &err);
    if (code == LS_E_CANCELLED) return;
    if (code) {
        ls_channel_message(&l->c, true, err.msg);
        ls_live_end_rival(l, LS_FINISH_ERROR);
        return;
    }
    ls_ids fresh = {0};
    ls_seen_step(&l->seen, step, &fresh);
    ls_live_tokens(l, &fresh);
    tell_rival(l, LS_RIVAL_STEP, "", ls_pack(step), LS_GOING);
    ls_channel_status(&l->c, LS_STATE_COMPARING, "the other method answers the same prompt",
                      fmin(1, (double)(step->output_pos + step->n_emitted) / (double)l->turn_output));
    if (step->finish) ls_live_end_rival(l, step->finish);
}
