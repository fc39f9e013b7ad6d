#include "source/live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char comparing[] = "the other method is answering the same prompt", forking[] = "decoding the what-if";

void ls_live_end_rival(live *l, ls_finish finish) {
    if (!l->rival.session) return;
    ls_session_free(l->rival.session);
    l->rival.session = NULL;
    ls_live_free_setup(l, l->variant);
    l->variant = NULL;
    ls_channel_tell(&l->c, (ls_event){.kind = LS_EV_RIVAL, .rival = {.what = LS_RIVAL_ENDS, .finish = finish}});
    ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
}

static bool on_rival(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)stage;
    ls_channel_status(&l->c, LS_STATE_COMPARING, "reading the same prompt again", fraction);
    return !ls_channel_stopping(&l->c);
}

static void on_step(void *ud, const ls_step *step) {
    live *l = ud;
    ls_ids fresh = {0};
    ls_seen_step(&l->seen, LS_LEVEL_FULL, step, &fresh);
    ls_live_tokens(l, &fresh);
    ls_channel_tell(&l->c,
                    (ls_event){.kind = LS_EV_RIVAL, .rival = {.what = LS_RIVAL_STEP, .step = ls_step_share(step)}});
    const double done =
        (double)(step->output_pos + step->n_emitted) / (double)ls_dialog_output(ls_session_dialog(l->session));
    ls_channel_status(&l->c, LS_STATE_COMPARING, l->variant ? comparing : forking, l->variant ? fmin(1, done) : -1);
}

// fork: tokens that follow the first `at` tokens of the answer; NULL: a race.
static void begin(live *l, const char *name, const ls_decode_options *opt, size_t at, const ls_ids *fork) {
    ls_err err = {0};
    bool lent;
    const ls_turn *turn = ls_dialog_last(ls_session_dialog(l->session));
    ls_runner_free(&l->rival);
    l->rival = (ls_runner){.sinks[0] = {.step = on_step, .ud = l}, .n_sinks = 1};
    ls_code code = ls_session_rival(&l->rival.session, l->session, opt, &lent, &err);
    if (!code && lent)
        ls_channel_message(&l->c, false,
                           "not enough memory for a second KV cache: the conversation will be read again");
    if (!code) code = ls_session_calibrate(l->rival.session, LS_COSTS_AT_ONCE, on_rival, l, &err);
    if (!code)
        code = ls_session_answer_too(l->rival.session, l->session, ls_turn_output_at(turn) + at,
                                     fork ? fork : &(ls_ids){0}, on_rival, l, &err);
    if (code) ls_channel_message(&l->c, code != LS_E_CANCELLED, err.msg);
    if (code && !l->rival.session) {
        ls_live_free_setup(l, l->variant);
        l->variant = NULL;
        return;
    }
    // there is a rival, even after an error: announces its beginning, so that its end can follow
    ls_event begins = {.kind = LS_EV_RIVAL, .rival = {.what = LS_RIVAL_BEGINS, .at = (int32_t)at}};
    snprintf(begins.rival.method, sizeof begins.rival.method, "%.63s", name);
    if (fork) {
        ls_ids fresh = {0}, copy = {0};
        ls_seen_ids(&l->seen, fork->p, fork->n, &fresh);
        ls_live_tokens(l, &fresh);
        ls_ids_add(&copy, fork->p, fork->n);
        begins.rival.ids = copy.p;
        begins.rival.n_ids = (int32_t)copy.n;
    }
    ls_channel_tell(&l->c, begins);
    if (code) ls_live_end_rival(l, code == LS_E_CANCELLED ? LS_FINISH_INTERRUPTED : LS_FINISH_ERROR);
}

// Reads token ids and, after a newline, text, as tokens. False: malformed.
static bool read_tokens(const live *l, const char *text, ls_ids *out) {
    while (*text && *text != '\n') {
        char *end;
        const long id = strtol(text, &end, 10);
        if (end == text || id < 0 || id >= l->model.engine->n_vocab) return false;
        ls_ids_push(out, (int32_t)id);
        text = end + strspn(end, " ");
    }
    return !*text || !ls_encode(l->model.vocab, text + 1, strlen(text + 1), false, out, NULL);
}

bool ls_live_read_fork(live *l, const char *text, int n, ls_ids *out) {
    const ls_dialog *d = ls_session_dialog(l->session);
    const ls_turn *turn = ls_dialog_last(d);
    const char *why = NULL;
    if (!ls_dialog_output(d)) why = "no answer to branch from yet";
    else if (n < 0 || (size_t)n > d->context.n - ls_turn_output_at(turn) || !read_tokens(l, text, out) || !out->n)
        why = "what-if: the position does not exist, or the text is empty";
    if (why) ls_channel_message(&l->c, true, why);
    return !why;
}

void ls_live_begin_fork(live *l, const char *text, int n) {
    ls_ids ids = {0};
    if (ls_live_read_fork(l, text, n, &ids)) begin(l, "what if", &l->setup->decode, (size_t)n, &ids);
    ls_ids_free(&ids);
}

// Limits, sampling and stop texts are those of this conversation.
static ls_code read_variant(live *l, const char *text, ls_err *err) {
    const ls_decode_options *mine = &l->setup->decode;
    const size_t output = ls_dialog_output(ls_session_dialog(l->session));
    if (!output) return ls_fail(err, LS_E_UNSUPPORTED, "no answer to compare yet");
    if (!l->opt.variant) return ls_fail(err, LS_E_UNSUPPORTED, "comparisons are not available here");
    if (!(l->variant = l->opt.variant(l->setup, text, err))) return err->code;
    ls_decode_options *d = &l->variant->decode;
    d->max_tokens = mine->max_tokens;
    d->sampling = mine->sampling;
    d->stops = mine->stops;
    d->note = mine->note;
    d->ud = mine->ud;
    if (ls_runner_finish(&l->run) == LS_FINISH_INTERRUPTED || output > (size_t)d->max_tokens)
        d->max_tokens = (int32_t)output; // as far as this one came
    return LS_OK;
}

void ls_live_begin_rival(live *l, const char *text) {
    ls_err err = {0};
    if (read_variant(l, text, &err)) ls_channel_message(&l->c, true, err.msg);
    else begin(l, text, &l->variant->decode, 0, NULL);
}

void ls_live_run_rival(live *l) {
    ls_err err = {0};
    const ls_code code = ls_runner_step(&l->rival, &err);
    if (code == LS_E_CANCELLED) return;
    if (code) {
        ls_channel_message(&l->c, true, err.msg);
        ls_runner_stop(&l->rival, LS_FINISH_ERROR);
    }
    const ls_finish finish = ls_runner_finish(&l->rival);
    if (finish) ls_live_end_rival(l, finish);
}
