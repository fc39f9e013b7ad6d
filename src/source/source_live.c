#include "source/live.h"
#include "base/system.h"
#include "base/mem.h"
#include "base/file.h"
#include "base/utf8.h"
#include "engine/dialog.h"
#include "trace/kept.h"
#include "trace/saved.h"
#include "trace/trace_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLD_NS = 20000000 }; // after this pause caches are cold and threads sleep
static const char answered_too[] = "a comparison or what-if is still running: stop it first";
static const char still_written[] = "an answer is being decoded: stop it first";

void ls_live_note(void *ud, const char *text) {
    ls_channel_message(ud, false, text);
}

void ls_live_tokens(live *l, ls_ids *fresh) {
    if (fresh->n) {
        ls_event *e = ls_event_new(LS_EV_TOKENS);
        ls_buf bytes = {0};
        e->tokens.n = (int32_t)fresh->n;
        e->tokens.ends = ls_malloc(fresh->n * sizeof *e->tokens.ends);
        e->tokens.special = ls_malloc(fresh->n);
        for (size_t i = 0; i < fresh->n; i++) {
            size_t len;
            const char *p = ls_vocab_bytes(l->model.vocab, fresh->p[i], &len);
            ls_buf_add(&bytes, p, len);
            e->tokens.ends[i] = (int32_t)bytes.n;
            e->tokens.special[i] = ls_vocab_is_special(l->model.vocab, fresh->p[i]);
        }
        e->tokens.bytes = bytes.p;
        e->tokens.ids = fresh->p;
        *fresh = (ls_ids){0};
        ls_channel_send(&l->c, e);
    }
    ls_ids_free(fresh);
}

static void send_header(live *l) {
    ls_event *e = ls_event_new(LS_EV_HEADER);
    e->header = ls_malloc(sizeof *e->header);
    ls_run_describe(e->header, &l->model, l->session, &l->opt.setup.decode);
    ls_channel_send(&l->c, e);
}

static bool on_load(void *ud, const char *stage, double fraction) {
    live *l = ud;
    ls_channel_status(&l->c, LS_STATE_LOADING, stage, fraction);
    return !ls_channel_closing(&l->c);
}

// The reader of the trace has stalled: tells the user once.
static bool on_record(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)fraction;
    if (!l->waited) ls_channel_message(&l->c, false, stage);
    l->waited = true;
    return !ls_channel_closing(&l->c);
}

static bool on_prefill(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)stage;
    ls_channel_status(&l->c, LS_STATE_PREFILL, l->reading, fraction);
    return !ls_channel_stopping(&l->c);
}

// Called when the process ends unexpectedly: saves the conversation as a kept one (trace/kept.h), else in a new folder
// in /tmp.
static void rescue(void *ud, char *said, size_t n) {
    live *l = ud;
    ls_conversation *c = l->kept;
    ls_err err = {.msg = "no writable folder was found"};
    char folder[] = "/tmp/logitspec-XXXXXX";
    if (!c || !ls_conversation_turns(c)) return;
    if (l->opt.forget) {
        snprintf(said, n, "the conversation is lost (ui.history: no)");
        return;
    }
    char *path = ls_kept_path();
    ls_code code = path ? ls_conversation_rescue(c, path, &err) : LS_E_IO;
    if (code && mkdtemp(folder)) {
        free(path);
        path = ls_format("%s/conversation.jsonl.zst", folder);
        code = ls_conversation_rescue(c, path, &err);
    }
    if (code) snprintf(said, n, "the conversation is lost: %s", err.msg);
    else snprintf(said, n, "the conversation was saved: start logitspec, then type ':load %s'", path);
    free(path);
}

// Writes opt.keep, which has the conversation if this process ends unexpectedly.
static void write_kept(live *l) {
    const char *path = l->opt.keep;
    ls_err err = {0};
    struct stat st;
    if (!path || !l->keep_due) return;
    const uint64_t began_ns = ls_now_ns();
    l->keep_due = false;
    if (!ls_conversation_turns(l->kept)) {
        unlink(path);
        return;
    }
    ls_conversation_save(l->kept, path, &err);
    if (!err.code && !stat(path, &st) && st.st_size > LS_KEPT_BYTES) {
        unlink(path);
        ls_fail(&err, LS_E_RANGE, "the file is longer than %d MiB", LS_KEPT_BYTES >> 20);
    }
    if (err.code && !l->keep_failed) {
        char said[400];
        snprintf(said, sizeof said, "cannot save the conversation for the next start: %.300s", err.msg);
        if (ls_channel_closing(&l->c)) ls_channel_result(&l->c, true, said); // printed after the screen has closed
        else ls_channel_message(&l->c, true, said);
    }
    if (!err.code && l->left) { // this process's file has it now
        ls_kept_forget(l->left);
        free(l->left);
        l->left = NULL;
    }
    l->keep_failed = err.code != LS_OK;
    l->kept_ns = ls_now_ns();
    l->keep_ns = l->kept_ns - began_ns;
}

// Makes the loaded conversation this process's own. If an earlier process left it, it also stays in its file until a
// turn is added, so that only looking at it loses nothing.
static void take_over(live *l, const char *path) {
    free(l->left);
    l->left = NULL;
    l->keep_due = true;
    if (l->opt.keep && ls_kept_is_left(path)) {
        unlink(l->opt.keep);
        l->keep_due = link(path, l->opt.keep) != 0;
        if (!l->keep_due) l->left = ls_strdup(path);
    }
    write_kept(l);
}

// Called after each step: writes opt.keep at most once in LEAST ns, and in at most 1/SHARE of the time.
static void write_kept_at_times(live *l) {
    enum { SHARE = 50 };
    static const uint64_t LEAST = 5000000000;
    const uint64_t pause = SHARE * l->keep_ns;
    if (!l->kept_ns || ls_now_ns() - l->kept_ns >= (pause > LEAST ? pause : LEAST)) write_kept(l);
}

// Replaces the conversation that rescue() saves. Unregisters it first: rescue() must not use a freed one.
static void keep(live *l, ls_conversation *c) {
    ls_conversation *before = l->kept;
    ls_rescue_remove(rescue, l);
    l->kept = c;
    if (c) ls_rescue_add(rescue, l);
    ls_conversation_free(before);
}

// Called within forwards. True: the forward ends now.
static bool on_stop(void *ud) {
    live *l = ud;
    return l->idles ? ls_channel_wanted(&l->c) : l->holding ? ls_channel_closing(&l->c) : ls_channel_stopping(&l->c);
}

static ls_code start(live *l, ls_err *err) {
    ls_setup *s = &l->opt.setup;
    s->model.engine.progress = on_load;
    s->model.engine.note = ls_live_note;
    s->model.engine.stop = on_stop;
    s->model.engine.ud = l;
    s->decode.note = ls_live_note;
    s->decode.ud = l;
    ls_code code;
    if ((l->opt.trace && (code = ls_trace_open(&l->trace, l->opt.trace, l->opt.trace_level, on_record, l, err))) ||
        (code = ls_model_load(&l->model, &s->model, err)) ||
        (code = ls_session_new(&l->session, &l->model, &s->decode, err)))
        return code;
    ls_seen_init(&l->seen, l->model.engine->n_vocab);
    keep(l, ls_conversation_new(l->model.vocab));
    l->dialog = ls_dialog_new();
    return ls_session_calibrate(l->session, LS_COSTS_AT_ONCE, on_load, l, err);
}

static void report_trace(live *l) {
    ls_err err;
    if (l->trace && ls_trace_failed(l->trace, &err)) ls_channel_message(&l->c, true, err.msg);
}

// Adds the answer to the dialog, including the tokens that the user chose as its beginning.
static void tell_dialog(live *l, bool eos) {
    const ls_ids *out = ls_session_output(l->session);
    const ls_buf *written = ls_session_text(l->session);
    ls_ids ids = {0};
    ls_buf text = {0};
    for (size_t i = 0; i < l->begun.n; i++) {
        size_t len;
        const char *p = ls_vocab_bytes(l->model.vocab, l->begun.p[i], &len);
        if (!ls_vocab_is_special(l->model.vocab, l->begun.p[i])) ls_buf_add(&text, p, len);
    }
    ls_buf_add(&text, written->p, written->n);
    ls_ids_add(&ids, l->begun.p, l->begun.n);
    ls_ids_add(&ids, out->p, out->n - eos);
    ls_dialog_answer(l->dialog, &l->model, &text, ids.p, ids.n);
    ls_ids_free(&ids);
    ls_buf_free(&text);
}

static void tell_end(live *l) {
    if (l->trace && l->end_due) ls_trace_end(l->trace, l->turn, l->turn_finish, &l->stats);
    l->end_due = false;
}

static void end_turn(live *l, ls_finish reason) {
    l->turn_output = ls_session_output(l->session)->n;
    l->turn_finish = reason;
    ls_session_stop(l->session);
    tell_dialog(l, reason == LS_FINISH_EOS);
    l->end_due = true;
    if (reason != LS_FINISH_LENGTH) tell_end(l); // else the answer may continue
    ls_conversation_end(l->kept, l->turn, reason, &l->stats);
    write_kept(l);
    report_trace(l);
    ls_event *e = ls_event_new(LS_EV_END);
    e->end.turn = l->turn;
    e->end.finish = reason;
    ls_channel_send(&l->c, e);
    ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
}

// Announces the new turn to the traces and the listener.
static void tell_turn(live *l, const char *text, size_t kept, const ls_ids *read, double prefill_ms) {
    const ls_setup *s = &l->opt.setup;
    ls_ids fresh = {0}, ids = {0};
    ls_trace_header header;
    ls_trace_describe(&header, &l->model, l->session, &s->decode, s->config, l->turn, kept, text, prefill_ms);
    if (l->begun.n) header.begun = (int32_t)l->begun.n;
    if (l->trace) ls_trace_begin(l->trace, &l->model, &header);
    ls_conversation_begin(l->kept, &header);
    l->keep_due = true;
    ls_trace_header_free(&header);
    report_trace(l);
    ls_seen_ids(&l->seen, read->p, read->n, &fresh);
    ls_live_tokens(l, &fresh);
    ls_ids_add(&ids, read->p, read->n);
    ls_event *e = ls_event_new(LS_EV_PROMPT);
    e->prompt.n_begun = (int32_t)l->begun.n;
    e->prompt.turn = l->turn;
    e->prompt.n_ids = (int32_t)ids.n;
    e->prompt.ids = ids.p;
    e->prompt.text = ls_strdup(text);
    e->prompt.context_len = (int32_t)ls_session_context(l->session)->n;
    e->prompt.prefill_ms = prefill_ms;
    snprintf(e->prompt.method, sizeof e->prompt.method, "%s", s->decode.method);
    e->prompt.temperature = (double)s->decode.sampling.temperature;
    e->prompt.costs = *ls_session_costs(l->session);
    ls_channel_send(&l->c, e);
}

// edited: the turn to replace; negative: a new turn. begun: tokens with which the answer begins; taken.
static void begin_turn(live *l, const char *text, int edited, ls_ids begun) {
    const ls_setup *s = &l->opt.setup;
    const uint32_t turn = edited >= 0 ? (uint32_t)edited : ls_session_started(l->session) ? l->turn + 1 : 0;
    ls_next_prompt p;
    ls_err err = {0};
    double prefill_ms = 0;
    ls_live_end_rival(l, LS_FINISH_INTERRUPTED);
    ls_channel_status(&l->c, LS_STATE_PREFILL, "reading the prompt", 0);
    ls_code code = ls_dialog_prompt(l->dialog, &l->model, s->format, s->system, turn, text, strlen(text), &p, &err);
    ls_prompt_describe(l->model.engine, (int32_t)p.ids.n, l->reading, sizeof l->reading);
    if (!code) ls_channel_status(&l->c, LS_STATE_PREFILL, l->reading, 0);
    ls_ids read = {0};
    ls_ids_add(&read, p.ids.p, p.ids.n);
    ls_ids_add(&read, begun.p, begun.n);
    if (!code)
        code = ls_session_begin_at(l->session, turn, p.kept, read.p, (int32_t)read.n, on_prefill, l, &prefill_ms, &err);
    if (code) {
        ls_ids_free(&read);
        ls_ids_free(&begun);
        ls_channel_message(&l->c, code != LS_E_CANCELLED, err.msg);
        ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
        ls_next_prompt_free(&p);
        return;
    }
    tell_end(l);
    const size_t gone = ls_dialog_tokens(l->dialog) - p.kept;
    l->turn = turn;
    l->stats = (ls_stats){0};
    l->turn_context = ls_session_context(l->session)->n;
    l->turn_output = 0;
    ls_ids_free(&l->begun);
    l->begun = begun;
    ls_dialog_begin(l->dialog, turn, text, strlen(text), &p);
    tell_turn(l, text, p.kept, &read, prefill_ms);
    write_kept_at_times(l);
    ls_ids_free(&read);
    ls_next_prompt_free(&p);
    if (gone && edited < 0 && !l->model.chat)
        ls_channel_message(
            &l->c, false,
            "this model has no chat template: each prompt begins a new text (prompt.format: raw continues "
            "the previous text)");
    else if (gone && edited < 0) {
        char said[160];
        snprintf(said, sizeof said, "the chat template changed earlier turns: their last %zu tokens were read again",
                 gone);
        ls_channel_message(&l->c, false, said);
    }
    ls_channel_status(&l->c, l->paused ? LS_STATE_PAUSED : LS_STATE_RUNNING, "", -1);
}

static void run_step(live *l, ls_step *step) {
    ls_err err = {0};
    if (ls_now_ns() - l->worked_ns > COLD_NS) ls_session_warm(l->session);
    const ls_code code = ls_session_step(l->session, step, &err);
    if (code == LS_E_CANCELLED) return; // the stop command is still queued, and will end the turn
    if (code) {
        ls_channel_message(&l->c, true, err.msg);
        end_turn(l, LS_FINISH_ERROR);
        return;
    }
    l->worked_ns = ls_now_ns();
    ls_stats_add(&l->stats, step);
    if (l->trace) ls_trace_step(l->trace, step);
    report_trace(l);
    ls_ids fresh = {0};
    ls_seen_step(&l->seen, step, &fresh);
    ls_live_tokens(l, &fresh);
    ls_event *e = ls_event_new(LS_EV_STEP);
    e->step = ls_pack(step);
    ls_conversation_step(l->kept, step, ls_packed_share(e->step));
    l->keep_due = true;
    ls_channel_send(&l->c, e);
    write_kept_at_times(l);
    if (step->finish) end_turn(l, step->finish);
    else if (l->paused && --l->steps_left == 0) ls_channel_status(&l->c, LS_STATE_PAUSED, "", -1);
}

static void change(live *l, const char *assignment) {
    ls_err err = {0};
    ls_code code = l->opt.set ? l->opt.set(l->opt.ud, assignment, &l->opt.setup, &err)
                              : ls_fail(&err, LS_E_UNSUPPORTED, "settings cannot be changed here");
    if (!code && (code = ls_session_set(l->session, &l->opt.setup.decode, &err)))
        l->opt.set(l->opt.ud, NULL, &l->opt.setup, NULL);
    if (!code && ls_session_costs(l->session)->base_ms[0] <= 0) // the given cost curve was removed
        code = ls_session_calibrate(l->session, LS_COSTS_AT_ONCE, NULL, NULL, &err);
    ls_channel_setting(&l->c, assignment, code ? err.msg : NULL);
}

static void save(live *l, const char *path) {
    ls_err err;
    char text[400];
    snprintf(text, sizeof text, "saved %.280s%s", path, access(path, F_OK) ? "" : ", replacing the existing file");
    const ls_code code = ls_conversation_save(l->kept, path, &err);
    ls_channel_result(&l->c, code != LS_OK, code ? err.msg : text);
}

// Commands that were queued when the source was closed: writes the requested files. A conversation that was to be
// loaded first is missing; saving this one under its name would destroy the file.
static void save_what_waits(live *l, ls_queued_command *c) {
    bool loaded = true;
    do {
        if (c && c->kind == LS_CMD_LOAD) loaded = false;
        if (c && c->kind == LS_CMD_RESET) {
            ls_conversation_cut(l->kept, 0);
            loaded = l->keep_due = true;
        }
        if (c && c->kind == LS_CMD_SAVE && loaded) save(l, c->text);
        else if (c && c->kind == LS_CMD_SAVE) {
            char text[400];
            snprintf(text, sizeof text, "%.300s was not written: the conversation was not loaded yet", c->text);
            ls_channel_result(&l->c, true, text);
        }
        ls_queued_command_free(c);
        ls_channel_take(&l->c, &c, 0);
    } while (c);
}

// Sends the loaded conversation to the listener, so the screen shows what a save would write.
static ls_code tell_kept(live *l, const char *path, ls_err *err) {
    ls_trace_events *t = ls_trace_events_of(ls_conversation_read(l->kept, path));
    ls_event *e;
    ls_code code;
    while (!(code = ls_trace_events_next(t, &e, err)) && e) {
        if (e->kind == LS_EV_HEADER) {
            send_header(l); // of this engine; the conversation begins anew
            ls_event_free(e);
        } else ls_channel_send(&l->c, e);
    }
    ls_trace_events_close(t);
    return code;
}

static bool stops(void *ud) {
    live *l = ud;
    return ls_channel_stopping(&l->c);
}

static void load(live *l, const char *path) {
    ls_err err;
    ls_saved v;
    char text[320] = "";
    if (!strcmp(path, "-")) path = "./-"; // a file of that name: standard input has the keys of the screen
    ls_channel_status(&l->c, LS_STATE_PREFILL, "reading the saved conversation", 0);
    ls_code code = ls_saved_read(&v, path, &l->model, l->opt.setup.format, l->opt.setup.system, stops, l, &err);
    if (!code) {
        ls_prompt_describe(l->model.engine, (int32_t)v.turns.context.n, l->reading, sizeof l->reading);
        const size_t turns = ls_turns_count(&v.turns);
        code =
            ls_session_restore(l->session, &v.turns.context, v.turns.uncommitted, (uint32_t)turns, on_prefill, l, &err);
        if (!code) {
            tell_end(l);
            keep(l, v.kept);
            v.kept = NULL;
            ls_dialog_free(l->dialog);
            l->dialog = v.dialog;
            v.dialog = NULL;
            l->turn = (uint32_t)turns - 1;
            l->turn_output = l->fork.n = 0;
            ls_seen_init(&l->seen, l->model.engine->n_vocab);
            code = tell_kept(l, path, &err);
            take_over(l, path);
            snprintf(text, sizeof text, "loaded %.240s, %zu turn%s: the next prompt continues it", path, turns,
                     ls_plural(turns));
        }
        ls_saved_free(&v);
    }
    ls_channel_message(&l->c, code && code != LS_E_CANCELLED, code ? err.msg : text);
    ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
}

static void stop_turn(live *l) {
    if (ls_session_active(l->session)) end_turn(l, LS_FINISH_INTERRUPTED);
    ls_live_end_rival(l, LS_FINISH_INTERRUPTED);
}

// Decodes the answer again from the beginning of the fork. The text is the fork's if acceptance is exact and no setting
// has changed.
static void keep_fork(live *l, const char *text, int turn) {
    ls_ids begun = {0};
    if (!l->fork.n) {
        ls_channel_message(&l->c, true, "no what-if to keep: press x on a draft to make one");
        return;
    }
    ls_ids_add(&begun, l->fork.p, l->fork.n);
    begin_turn(l, text, turn, begun);
}

static void go_on(live *l) {
    ls_err err = {0};
    ls_live_end_rival(l, LS_FINISH_INTERRUPTED);
    if (ls_session_go_on(l->session, &err)) {
        ls_channel_message(&l->c, true, err.msg);
        return;
    }
    ls_dialog_unanswer(l->dialog);
    l->turn_output = 0;
    l->end_due = false;
    ls_channel_status(&l->c, l->paused ? LS_STATE_PAUSED : LS_STATE_RUNNING, "", -1);
}

static void carry_out(live *l, const ls_queued_command *c) {
    const bool active = ls_session_active(l->session);
    if (active && ls_command_waits(c->kind)) { // queued before the turn began
        ls_channel_message(&l->c, true, still_written);
        return;
    }
    if (l->rival && (c->kind == LS_CMD_RIVAL || c->kind == LS_CMD_FORK)) { // several were queued at once
        ls_channel_message(&l->c, true, answered_too);
        return;
    }
    switch (c->kind) {
    case LS_CMD_PROMPT: begin_turn(l, c->text, -1, (ls_ids){0}); break;
    case LS_CMD_FORK: ls_live_begin_fork(l, c->text, c->n); break;
    case LS_CMD_KEEP: keep_fork(l, c->text, c->n); break;
    case LS_CMD_SAVE: save(l, c->text); break;
    case LS_CMD_GO_ON: go_on(l); break;
    case LS_CMD_LOAD:
        ls_live_end_rival(l, LS_FINISH_INTERRUPTED);
        load(l, c->text);
        break;
    case LS_CMD_EDIT: begin_turn(l, c->text, c->n, (ls_ids){0}); break;
    case LS_CMD_RUN:
        l->paused = false;
        if (active) ls_channel_status(&l->c, LS_STATE_RUNNING, "", -1);
        break;
    case LS_CMD_PAUSE:
        l->paused = true;
        l->steps_left = 0;
        if (active) ls_channel_status(&l->c, LS_STATE_PAUSED, "", -1);
        break;
    case LS_CMD_STEP:
        l->steps_left = active ? (l->paused ? l->steps_left : 0) + c->n : 0; // keys may come faster than steps
        l->paused = true;
        break;
    case LS_CMD_STOP: stop_turn(l); break;
    case LS_CMD_RIVAL: ls_live_begin_rival(l, c->text); break;
    case LS_CMD_SET: change(l, c->text); break;
    case LS_CMD_RESET:
        stop_turn(l);
        tell_end(l);
        ls_session_reset(l->session);
        ls_conversation_cut(l->kept, 0);
        l->keep_due = true;
        write_kept(l);
        ls_dialog_cut(l->dialog, 0);
        l->turn_output = l->fork.n = 0;
        send_header(l);
        break;
    }
}

static bool on_idle(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)stage;
    (void)fraction;
    return !ls_channel_wanted(&l->c);
}

// Whether costs that were measured with few forwards at the start can be measured fully while the source is idle.
static bool has_costs_to_measure(const live *l) {
    return !l->measured && !ls_session_active(l->session) && !l->opt.setup.decode.costs.given &&
           ls_costs_due(&l->model);
}

static void measure_costs(live *l) {
    ls_err err;
    l->idles = true;
    const ls_code code = ls_session_calibrate(l->session, LS_COSTS_MEASURED, on_idle, l, &err);
    l->idles = false;
    l->measured = code && code != LS_E_CANCELLED; // it would fail again
}

// How long to wait for a command, in ms: 0 if a step is due, IDLE_MS before costs are measured, -1 (no limit) if there
// is no work.
static double patience(const live *l) {
    enum { IDLE_MS = 1000 };
    const bool decodes = l->rival || (ls_session_active(l->session) && (!l->paused || l->steps_left > 0));
    return decodes ? 0 : has_costs_to_measure(l) ? IDLE_MS : -1;
}

static void *decoder(void *ud) {
    live *l = ud;
    ls_err err = {0};
    ls_step *step = ls_malloc(sizeof *step);
    l->holding = true;
    bool failed = start(l, &err) != LS_OK;
    l->holding = false;
    if (failed) {
        ls_channel_message(&l->c, true, err.msg);
        ls_channel_status(&l->c, LS_STATE_FAILED, "failed", -1);
    } else {
        send_header(l);
        if (*l->model.chat_problem) {
            char text[600];
            snprintf(text, sizeof text, "prompts are used without a chat template: %s", l->model.chat_problem);
            ls_channel_message(&l->c, false, text);
        }
        ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
    }
    ls_queued_command *c;
    while (ls_channel_take(&l->c, &c, failed ? -1 : patience(l))) {
        // commands first; without one, a step of the rival, else of the turn, else work for idle times
        if (c && !failed) carry_out(l, c);
        else if (!c && l->rival) ls_live_run_rival(l, step);
        else if (!c && ls_session_active(l->session)) run_step(l, step);
        else if (!c) measure_costs(l);
        ls_queued_command_free(c);
    }
    if (failed) ls_queued_command_free(c);
    else {
        save_what_waits(l, c);
        write_kept(l);
    }
    if (l->session && ls_session_active(l->session) && l->trace)
        ls_trace_end(l->trace, l->turn, LS_FINISH_INTERRUPTED, &l->stats);
    tell_end(l);
    free(step);
    ls_session_free(l->rival);
    ls_ids_free(&l->begun);
    ls_ids_free(&l->fork);
    free(l->left);
    keep(l, NULL);
    ls_dialog_free(l->dialog);
    if (!ls_trace_close(l->trace, &err)) {
        ls_warn("%s", err.msg); // the screen is gone by now
        if (l->opt.failed) *l->opt.failed = true;
    }
    ls_session_free(l->session);
    ls_model_free(&l->model);
    ls_seen_free(&l->seen);
    return NULL;
}

static ls_code live_command(ls_source *s, const ls_command *c, ls_err *err) {
    live *l = (live *)s;
    ls_code code = LS_OK;
    pthread_mutex_lock(&l->c.lock);
    const ls_run_state state = l->c.state;
    const bool answers = state == LS_STATE_PREFILL || state == LS_STATE_RUNNING || state == LS_STATE_PAUSED;
    const bool busy = answers || state == LS_STATE_COMPARING;
    if (state == LS_STATE_FAILED) code = ls_fail(err, LS_E_UNSUPPORTED, "the model is not loaded");
    else if ((c->kind == LS_CMD_PROMPT || c->kind == LS_CMD_EDIT) && answers)
        code = ls_fail(err, LS_E_UNSUPPORTED, "%s", still_written);
    else if ((c->kind == LS_CMD_RIVAL || c->kind == LS_CMD_FORK) && state == LS_STATE_COMPARING)
        code = ls_fail(err, LS_E_UNSUPPORTED, "%s", answered_too);
    else if (c->kind == LS_CMD_STOP && !busy) code = ls_fail(err, LS_E_UNSUPPORTED, "nothing is being decoded");
    else ls_channel_put(&l->c, c);
    pthread_mutex_unlock(&l->c.lock);
    return code;
}

ls_source *ls_source_live(const ls_live_options *opt) {
    live *l = ls_calloc(1, sizeof *l);
    l->c.base.command = live_command;
    l->opt = *opt;
    l->c.failed = opt->failed;
    if (ls_channel_open(&l->c, decoder)) return &l->c.base;
    free(l);
    return NULL;
}
