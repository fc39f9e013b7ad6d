#include "source/sources.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "decode/bigrams.h"
#include "source/channel.h"
#include "trace/autosave.h"
#include "trace/trace.h"
#include "trace/trace_events.h"
#include "trace/turns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    ls_channel c; // first: a source is one of these
    ls_live_options opt;
    ls_setup *setup; // in force
    ls_model model;
    ls_session *session;
    ls_runner run;            // of the session
    ls_trace *trace;          // NULL: none
    ls_conversation_log *log; // the conversation as it is saved; NULL: no model is loaded
    ls_seen seen;
    bool waited;          // the user was told that the reader of the trace is slow
    bool autosave_failed; // opt.autosave could not be written, and the user was told
    char *left;           // file of an earlier process from which this conversation was loaded; NULL: none
    // What ends the current work: LS_CMD_STOP, but not while the model is loaded; any command while the source is idle.
    ls_wants ends;
    bool measured; // measuring costs failed: it is not tried again
    bool asked;    // the model's bigrams were asked, or asking failed
    // who answers the prompt of the last turn too
    ls_runner rival;   // its session is NULL: nobody
    ls_setup *variant; // its setup; NULL: that of the session, because it is a what-if; or no rival
} live;

static void note(void *ud, const char *text) {
    ls_channel_message(ud, false, text);
}

static void free_setup(live *l, ls_setup *s) {
    if (s && l->opt.free_setup) l->opt.free_setup(s);
}

// The setup in force is now s; what the session decodes by is not changed.
static void adopt(live *l, ls_setup *s) {
    free_setup(l, l->setup);
    l->setup = s;
    l->run.setup = s;
}

static void send_tokens(live *l, ls_ids *fresh) {
    ls_event e = {.kind = LS_EV_TOKENS, .tokens = {.n = (int32_t)fresh->n, .ids = fresh->p}};
    ls_buf bytes = {0};
    if (!fresh->n) {
        ls_ids_free(fresh);
        return;
    }
    e.tokens.ends = ls_malloc(fresh->n * sizeof *e.tokens.ends);
    e.tokens.special = ls_malloc(fresh->n);
    for (size_t i = 0; i < fresh->n; i++) {
        size_t len;
        const char *p = ls_vocab_bytes(l->model.vocab, fresh->p[i], &len);
        ls_buf_add(&bytes, p, len);
        e.tokens.ends[i] = (int32_t)bytes.n;
        e.tokens.special[i] = ls_vocab_is_special(l->model.vocab, fresh->p[i]);
    }
    e.tokens.bytes = bytes.p;
    ls_channel_tell(&l->c, e);
}

static void send_header(live *l) {
    ls_run *run = ls_malloc(sizeof *run);
    ls_run_describe(run, &l->model, l->session, &l->setup->decode);
    ls_channel_tell(&l->c, (ls_event){.kind = LS_EV_HEADER, .header = run});
}

// Called within forwards and other long work. True: it ends now.
static bool on_stop(void *ud) {
    live *l = ud;
    return ls_channel_wants(&l->c, l->ends);
}

static bool on_load(void *ud, const char *stage, double fraction) {
    live *l = ud;
    ls_channel_status(&l->c, LS_STATE_LOADING, stage, fraction);
    return !ls_channel_wants(&l->c, LS_WANTS_CLOSE);
}

// The reader of the trace has stalled: tells the user once.
static bool on_record(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)fraction;
    if (!l->waited) ls_channel_message(&l->c, false, stage);
    l->waited = true;
    return !ls_channel_wants(&l->c, LS_WANTS_CLOSE);
}

static bool on_prefill(void *ud, const char *stage, double fraction) {
    live *l = ud;
    ls_channel_status(&l->c, LS_STATE_PREFILL, stage, fraction);
    return !on_stop(l);
}

// ---- another method answers the last prompt too, step by step, while l->rival has a session

static const char comparing[] = "the other method is answering the same prompt", forking[] = "decoding the what-if";

static void end_rival(live *l, ls_finish finish) {
    free_setup(l, l->variant);
    l->variant = NULL;
    if (!l->rival.session) return;
    ls_session_free(l->rival.session);
    l->rival.session = NULL;
    ls_channel_tell(&l->c, (ls_event){.kind = LS_EV_RIVAL, .rival = {.what = LS_RIVAL_ENDS, .finish = finish}});
    ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
}

static bool on_rival_prefill(void *ud, const char *stage, double fraction) {
    live *l = ud;
    (void)stage;
    ls_channel_status(&l->c, LS_STATE_COMPARING, "reading the same prompt again", fraction);
    return !on_stop(l);
}

static void on_rival_step(void *ud, const ls_step *step) {
    live *l = ud;
    ls_ids fresh = {0};
    ls_seen_step(&l->seen, LS_LEVEL_FULL, step, &fresh);
    send_tokens(l, &fresh);
    ls_channel_tell(&l->c,
                    (ls_event){.kind = LS_EV_RIVAL, .rival = {.what = LS_RIVAL_STEP, .step = ls_step_share(step)}});
    const double done = (double)(step->output_pos + step->n_emitted) /
                        (double)ls_conversation_output(ls_session_conversation(l->session));
    ls_channel_status(&l->c, LS_STATE_COMPARING, l->variant ? comparing : forking, l->variant ? fmin(1, done) : -1);
}

// fork: tokens that follow the first `at` tokens of the answer, which it takes; none: a race.
static void begin_rival(live *l, const char *name, const ls_decode_options *opt, size_t at, ls_ids fork) {
    ls_err err = {0};
    bool lent;
    const ls_turn *turn = ls_conversation_last(ls_session_conversation(l->session));
    ls_runner_free(&l->rival);
    l->rival = (ls_runner){.sinks[0] = {.step = on_rival_step, .ud = l}, .n_sinks = 1};
    ls_code code = ls_session_rival(&l->rival.session, l->session, opt, &lent, &err);
    if (!code && lent)
        ls_channel_message(&l->c, false,
                           "not enough memory for a second KV cache: the conversation will be read again");
    if (!code) code = ls_session_calibrate(l->rival.session, LS_COSTS_AT_ONCE, on_rival_prefill, l, &err);
    if (!code)
        code = ls_session_answer_too(l->rival.session, l->session, ls_turn_output_at(turn) + at, &fork,
                                     on_rival_prefill, l, &err);
    if (code) ls_channel_message(&l->c, code != LS_E_CANCELLED, err.msg);
    if (code && !l->rival.session) {
        ls_ids_free(&fork);
        end_rival(l, LS_FINISH_ERROR);
        return;
    }
    // there is a rival, even after an error: announces its beginning, so that its end can follow
    ls_ids fresh = {0};
    ls_seen_ids(&l->seen, fork.p, fork.n, &fresh);
    send_tokens(l, &fresh);
    ls_event begins = {.kind = LS_EV_RIVAL,
                       .rival = {LS_RIVAL_BEGINS, .at = (int32_t)at, .ids = fork.p, .n_ids = (int32_t)fork.n}};
    snprintf(begins.rival.method, sizeof begins.rival.method, "%.63s", name);
    ls_channel_tell(&l->c, begins);
    if (code) end_rival(l, code == LS_E_CANCELLED ? LS_FINISH_INTERRUPTED : LS_FINISH_ERROR);
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

static bool read_fork(live *l, const char *text, int n, ls_ids *out) {
    const ls_conversation *d = ls_session_conversation(l->session);
    const ls_turn *turn = ls_conversation_last(d);
    const char *why = NULL;
    if (!ls_conversation_output(d)) why = "no answer to branch from yet";
    else if (n < 0 || (size_t)n > d->context.n - ls_turn_output_at(turn) || !read_tokens(l, text, out) || !out->n)
        why = "what-if: the position does not exist, or the text is empty";
    if (why) ls_channel_message(&l->c, true, why);
    return !why;
}

static void begin_fork(live *l, const char *text, int n) {
    ls_ids ids = {0};
    if (read_fork(l, text, n, &ids)) begin_rival(l, "what if", &l->setup->decode, (size_t)n, ids);
    else ls_ids_free(&ids);
}

// Limits, sampling and stop texts are those of this conversation.
static ls_code read_variant(live *l, const char *text, ls_err *err) {
    const ls_decode_options *mine = &l->setup->decode;
    const size_t output = ls_conversation_output(ls_session_conversation(l->session));
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

static void begin_race(live *l, const char *text) {
    ls_err err = {0};
    if (read_variant(l, text, &err)) ls_channel_message(&l->c, true, err.msg);
    else begin_rival(l, text, &l->variant->decode, 0, (ls_ids){0});
}

static void run_rival(live *l) {
    ls_err err = {0};
    const ls_code code = ls_runner_step(&l->rival, &err);
    if (code == LS_E_CANCELLED) return;
    if (code) {
        ls_channel_message(&l->c, true, err.msg);
        ls_runner_stop(&l->rival, LS_FINISH_ERROR);
    }
    const ls_finish finish = ls_runner_finish(&l->rival);
    if (finish) end_rival(l, finish);
}

// ---- the conversation, as it is saved

// Called when the process ends unexpectedly: says where the conversation is, for which a log in memory gets a file in
// the state folder, else in a new folder in /tmp.
static void rescue(void *ud, char *said, size_t n) {
    live *l = ud;
    char folder[] = "/tmp/logitspec-XXXXXX", in_folder[64], at[512];
    if (!l->log || !ls_conversation_log_turns(l->log)) return;
    char *path = l->opt.forget ? NULL : ls_autosave_path(NULL);
    bool saved = path && ls_conversation_log_rescue(l->log, path, at, sizeof at);
    if (!saved && !l->opt.forget && mkdtemp(folder)) {
        snprintf(in_folder, sizeof in_folder, "%s/conversation.jsonl.zst", folder);
        saved = ls_conversation_log_rescue(l->log, in_folder, at, sizeof at);
    }
    if (saved) snprintf(said, n, "the conversation was saved: start logitspec, then type ':load %s'", at);
    else
        snprintf(said, n, "the conversation is lost%s",
                 l->opt.forget ? " (ui.history: no)" : ": no writable folder was found");
    free(path);
}

// Says once that the conversation is in no file for the next start.
static void tell_not_saved(live *l, const char *why) {
    char said[400];
    if (!l->autosave_failed) {
        snprintf(said, sizeof said, "cannot save the conversation for the next start: %.300s", why);
        if (ls_channel_wants(&l->c, LS_WANTS_CLOSE))
            ls_channel_result(&l->c, true, said); // printed after the screen has closed
        else ls_channel_message(&l->c, true, said);
    }
    l->autosave_failed = true;
}

// From now on this process's file has the conversation, and no longer that of an earlier process.
static void begin_autosave(live *l) {
    ls_err err;
    if (!l->opt.autosave) return;
    if (ls_conversation_log_autosave(l->log, l->opt.autosave, &err)) {
        tell_not_saved(l, err.msg);
        return;
    }
    l->autosave_failed = false;
    if (l->left) ls_autosave_forget(l->left);
    free(l->left);
    l->left = NULL;
}

// Makes the loaded conversation this process's own. If an earlier process left it, it stays in that file until a turn
// is added, so that only looking at it loses nothing.
static void take_over(live *l, const char *path) {
    free(l->left);
    l->left = l->opt.autosave && ls_autosave_is_left(path) ? ls_strdup(path) : NULL;
    if (!l->left) begin_autosave(l);
}

// Replaces the log. Unregisters it first: rescue() must not use a freed one.
static void replace_log(live *l, ls_conversation_log *c) {
    ls_conversation_log *before = l->log;
    ls_rescue_remove(rescue, l);
    l->log = c;
    l->run.sinks[0] = ls_conversation_log_sink(c);
    if (c) ls_rescue_add(rescue, l);
    if (c && before) ls_conversation_log_clear(before);
    ls_conversation_log_free(before);
}

static void report_files(live *l, bool last) {
    ls_err err;
    if (l->trace && ls_trace_failed(l->trace, &err)) ls_channel_message(&l->c, true, err.msg);
    if (ls_conversation_log_failed(l->log, last, &err)) tell_not_saved(l, err.msg);
    if (ls_conversation_log_lost(l->log, &err)) ls_channel_message(&l->c, true, err.msg);
}

// ---- turns: the sink that is the screen

static void on_begin(void *ud, const ls_runner *run, double prefill_ms) {
    live *l = ud;
    const ls_conversation *d = ls_session_conversation(run->session);
    const size_t kept = ls_conversation_last(d)->kept;
    ls_ids fresh = {0};
    ls_trace_header h;
    begin_autosave(l);
    report_files(l, false);
    ls_seen_ids(&l->seen, d->context.p + kept, d->context.n - kept, &fresh);
    send_tokens(l, &fresh);
    ls_trace_describe(&h, run, prefill_ms);
    ls_channel_send(&l->c, ls_trace_prompt_event(&h, d));
    ls_trace_header_free(&h);
}

static void on_step(void *ud, const ls_step *step) {
    live *l = ud;
    ls_ids fresh = {0};
    report_files(l, false);
    ls_seen_step(&l->seen, LS_LEVEL_FULL, step, &fresh);
    send_tokens(l, &fresh);
    ls_channel_tell(&l->c, (ls_event){.kind = LS_EV_STEP, .step = ls_step_share(step)});
}

static void on_end(void *ud, uint32_t turn, ls_finish reason, const ls_stats *totals) {
    live *l = ud;
    (void)totals;
    report_files(l, true);
    l->c.steps_left = 0; // those that were asked for beyond it
    ls_channel_tell(&l->c, (ls_event){.kind = LS_EV_END, .end = {turn, reason}});
    ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
}

// Says why tokens of earlier turns were read again, or are no part of the new turn's context.
static void tell_reread(live *l, size_t n) {
    char said[160] = "this model has no chat template: each prompt begins a new text (prompt.format: raw continues "
                     "the previous text)";
    if (l->model.chat)
        snprintf(said, sizeof said, "the chat template changed earlier turns: their last %zu tokens were read again",
                 n);
    ls_channel_message(&l->c, false, said);
}

// begun: tokens with which the answer begins; NULL: none.
static void begin_turn(live *l, const char *text, size_t turn, const ls_ids *begun) {
    ls_err err = {0};
    end_rival(l, LS_FINISH_INTERRUPTED);
    ls_channel_status(&l->c, LS_STATE_PREFILL, "reading the prompt", 0);
    const ls_code code = ls_runner_begin(&l->run, turn, (ls_str){text, strlen(text)}, NULL, begun, &err);
    if (code) {
        ls_channel_message(&l->c, code != LS_E_CANCELLED, err.msg);
        return;
    }
    if (l->run.reread) tell_reread(l, l->run.reread);
    ls_channel_status(&l->c, l->c.paused ? LS_STATE_PAUSED : LS_STATE_RUNNING, "", -1);
}

static void run_step(live *l) {
    ls_err err = {0};
    const ls_code code = ls_runner_step(&l->run, &err);
    if (code == LS_E_CANCELLED) return; // the stop command is still queued, and will end the turn
    if (code) {
        ls_channel_message(&l->c, true, err.msg);
        ls_runner_stop(&l->run, LS_FINISH_ERROR);
        return;
    }
    if (ls_runner_active(&l->run) && ls_channel_stepped(&l->c)) ls_channel_status(&l->c, LS_STATE_PAUSED, "", -1);
}

static ls_code start(live *l, ls_err *err) {
    ls_setup *s = l->setup;
    s->model.engine.progress = on_load;
    s->model.engine.note = s->decode.note = note;
    s->model.engine.stop = on_stop;
    s->model.engine.ud = s->decode.ud = l;
    ls_code code;
    if ((l->opt.trace && (code = ls_trace_open(&l->trace, l->opt.trace, l->opt.trace_level, on_record, l, err))) ||
        (code = ls_model_load(&l->model, &s->model, err)) ||
        (code = ls_session_new(&l->session, &l->model, &s->decode, err)))
        return code;
    ls_seen_init(&l->seen, l->model.engine->n_vocab);
    ls_conversation_log *log;
    if ((code = ls_conversation_log_new(&log, l->model.vocab, err))) return code;
    l->run = (ls_runner){
        .session = l->session, .model = &l->model, .setup = s, .n_sinks = 2, .progress = on_prefill, .ud = l};
    replace_log(l, log);
    l->run.sinks[1] = (ls_run_sink){on_begin, on_step, on_end, l};
    if (l->trace) l->run.sinks[l->run.n_sinks++] = ls_trace_sink(l->trace);
    return ls_session_calibrate(l->session, LS_COSTS_AT_ONCE, on_load, l, err);
}

// The setup after n assignments, a line each; NULL: one is refused.
static ls_setup *changed_setup(live *l, const char *text, int n, ls_err *err) {
    ls_setup *made = NULL;
    if (!l->opt.changed) ls_fail(err, LS_E_UNSUPPORTED, "settings cannot be changed here");
    for (int i = 0; i < n && (made || !i) && l->opt.changed; i++) {
        char *line = i < n - 1 ? ls_strndup(text, strcspn(text, "\n")) : ls_strdup(text);
        ls_setup *next = l->opt.changed(made ? made : l->setup, line, err);
        free_setup(l, made);
        made = next;
        text += strlen(line) + (i < n - 1);
        free(line);
    }
    return made;
}

// A refusal changes nothing: the setup that was made is dropped.
static void change(live *l, const char *text, int n) {
    ls_err err = {0};
    ls_setup *next = changed_setup(l, text, n, &err);
    ls_code code = next ? ls_session_set(l->session, &next->decode, &err) : err.code;
    if (code) free_setup(l, next);
    else adopt(l, next);
    ls_channel_setting(&l->c, text, n, code ? err.msg : NULL);
    if (!code && ls_session_costs(l->session)->base_ms[0] <= 0 && // the given cost curve was removed
        ls_session_calibrate(l->session, LS_COSTS_AT_ONCE, NULL, NULL, &err))
        ls_channel_message(&l->c, true, err.msg);
}

static void save(live *l, const char *path) {
    ls_err err;
    char text[400];
    if (l->opt.autosave && ls_is_same_file(path, l->opt.autosave)) {
        snprintf(text, sizeof text, "%.280s is where this program keeps the conversation: choose another file", path);
        ls_channel_result(&l->c, true, text);
        return;
    }
    snprintf(text, sizeof text, "saved %.280s%s", path, ls_replaces(path));
    const ls_code code = ls_conversation_log_save(l->log, path, &err);
    ls_channel_result(&l->c, code != LS_OK, code ? err.msg : text);
}

// Commands that were queued when the source was closed: writes the requested files. A conversation that was to be
// loaded first is missing; saving this one under its name would destroy the file.
static void save_what_waits(live *l, const ls_command *c) {
    bool loaded = true;
    for (; c; ls_channel_take(&l->c, &c, 0)) {
        if (c->kind == LS_CMD_LOAD) loaded = false;
        if (c->kind == LS_CMD_RESET) {
            ls_conversation_log_clear(l->log);
            loaded = true;
        }
        if (c->kind == LS_CMD_SAVE && loaded) save(l, c->text);
        else if (c->kind == LS_CMD_SAVE) {
            char text[400];
            snprintf(text, sizeof text, "%.300s was not written: the conversation was not loaded yet", c->text);
            ls_channel_result(&l->c, true, text);
        }
    }
}

// Sends the loaded conversation to the listener, so the screen shows what a save would write.
static ls_code tell_kept(live *l, const char *path, ls_err *err) {
    ls_trace_reader *r;
    ls_event *e;
    ls_code code = ls_conversation_log_read(l->log, path, &r, err);
    if (code) return code;
    ls_trace_events *t = ls_trace_events_of(r);
    while (!(code = ls_trace_events_next(t, &e, err)) && e) {
        if (e->kind == LS_EV_HEADER) {
            send_header(l); // of this engine; the conversation begins anew
            ls_event_free(e);
        } else ls_channel_send(&l->c, e);
    }
    ls_trace_events_close(t);
    return code;
}

static void load(live *l, const char *path) {
    ls_err err;
    ls_saved v;
    ls_buf text = {0}, gaps = {0};
    end_rival(l, LS_FINISH_INTERRUPTED);
    if (!strcmp(path, "-")) path = "./-"; // a file of that name: standard input has the keys of the screen
    ls_channel_status(&l->c, LS_STATE_PREFILL, "reading the saved conversation", 0);
    ls_code code = ls_saved_read(&v, path, &l->model, l->setup->format, l->setup->system, on_stop, l, &err);
    if (!code) {
        code = ls_runner_replace(&l->run, &v.conversation, &v.stats, &err);
        if (!code) {
            const size_t turns = ls_runner_turns(&l->run);
            replace_log(l, v.log);
            v.log = NULL;
            ls_trace_leave(l->trace);
            ls_seen_init(&l->seen, l->model.engine->n_vocab);
            code = tell_kept(l, path, &err);
            take_over(l, path);
            ls_trace_gaps_text(&v.gaps, &gaps);
            ls_buf_fmt(&text, "loaded %.240s, %zu turn%s: the next prompt continues it%s%s", path, turns,
                       ls_plural(turns), gaps.n ? "; " : "", gaps.n ? gaps.p : "");
        }
        ls_saved_free(&v);
    }
    ls_channel_message(&l->c, code && code != LS_E_CANCELLED, code ? err.msg : text.p);
    ls_buf_free(&text), ls_buf_free(&gaps);
}

static void stop_turn(live *l) {
    ls_runner_stop(&l->run, LS_FINISH_INTERRUPTED);
    end_rival(l, LS_FINISH_INTERRUPTED);
}

// Decodes the last answer again, beginning as the fork. The text is the fork's if acceptance is exact and no setting
// has changed.
static void keep_fork(live *l, const char *text, int n) {
    const ls_conversation *d = ls_session_conversation(l->session);
    const ls_turn *last = ls_conversation_last(d);
    ls_ids ids = {0}, begun = {0};
    if (read_fork(l, text, n, &ids)) {
        char *prompt = ls_strndup(last->user.n ? last->user.p : "", last->user.n); // the turn is replaced
        ls_ids_add(&begun, d->context.p + last->answer_at, last->n_begun + (size_t)n);
        ls_ids_add(&begun, ids.p, ids.n);
        begin_turn(l, prompt, d->n_turns - 1, &begun);
        free(prompt);
    }
    ls_ids_free(&ids);
    ls_ids_free(&begun);
}

static void go_on(live *l) {
    ls_err err = {0};
    end_rival(l, LS_FINISH_INTERRUPTED);
    const ls_code code = ls_session_go_on(l->session, &err);
    if (code) ls_channel_message(&l->c, code != LS_E_CANCELLED, err.msg);
    else if (l->trace && !ls_trace_in_turn(l->trace))
        ls_channel_message(&l->c, false, "this answer began in another run: the trace records from the next prompt on");
    if (!code) ls_channel_status(&l->c, l->c.paused ? LS_STATE_PAUSED : LS_STATE_RUNNING, "", -1);
}

static void carry_out(live *l, const ls_command *c) {
    const bool active = ls_runner_active(&l->run);
    const ls_run_state state = active ? LS_STATE_RUNNING : l->rival.session ? LS_STATE_COMPARING : LS_STATE_IDLE;
    const char *why = c->kind == LS_CMD_STOP ? NULL : ls_command_refusal(c->kind, state);
    if (why) { // it was queued before the answer began
        ls_channel_message(&l->c, true, why);
        return;
    }
    switch (c->kind) {
    case LS_CMD_PROMPT: begin_turn(l, c->text, ls_runner_turns(&l->run), NULL); break;
    case LS_CMD_FORK: begin_fork(l, c->text, c->n); break;
    case LS_CMD_KEEP: keep_fork(l, c->text, c->n); break;
    case LS_CMD_SAVE: save(l, c->text); break;
    case LS_CMD_GO_ON: go_on(l); break;
    case LS_CMD_LOAD: load(l, c->text); break;
    case LS_CMD_EDIT: begin_turn(l, c->text, (size_t)c->n, NULL); break;
    case LS_CMD_RUN:
    case LS_CMD_PAUSE:
    case LS_CMD_STEP:
        ls_channel_pace(&l->c, c, active);
        if (active && c->kind != LS_CMD_STEP)
            ls_channel_status(&l->c, l->c.paused ? LS_STATE_PAUSED : LS_STATE_RUNNING, "", -1);
        break;
    case LS_CMD_STOP: stop_turn(l); break;
    case LS_CMD_RIVAL: begin_race(l, c->text); break;
    case LS_CMD_OPEN: break; // of a server's requests
    case LS_CMD_SET: change(l, c->text, c->n > 1 ? c->n : 1); break;
    case LS_CMD_RESET:
        stop_turn(l);
        ls_session_reset(l->session);
        ls_conversation_log_clear(l->log);
        free(l->left);
        l->left = NULL;
        send_header(l);
        break;
    }
}

static bool on_idle(void *ud, const char *stage, double fraction) {
    (void)stage, (void)fraction;
    return !on_stop(ud);
}

// Whether costs that were measured with few forwards at the start can be measured fully while the source is idle.
static bool has_costs_to_measure(const live *l) {
    return !l->measured && !ls_runner_active(&l->run) && !l->setup->decode.costs.given && ls_costs_due(&l->model);
}

static void measure_costs(live *l) {
    ls_err err;
    l->ends = LS_WANTS_ANY;
    const ls_code code = ls_session_calibrate(l->session, LS_COSTS_MEASURED, on_idle, l, &err);
    l->ends = LS_WANTS_STOP;
    l->measured = code && code != LS_E_CANCELLED; // it would fail again
}

// Whether the model's bigrams can be asked while the source is idle: if all of them take a minute at most, and
// steps are sized by the costs of this machine.
static bool has_bigrams_to_ask(const live *l) {
    enum { ROWS = 64, MOST_MS = 100 };
    const ls_drafter *d = l->session ? ls_session_drafter(l->session) : NULL;
    const ls_cost_curve *z = l->session ? ls_session_costs(l->session) : NULL;
    return !l->asked && !ls_runner_active(&l->run) && !l->setup->decode.costs.given && d && d->lacks_bigrams &&
           z->base_ms[0] > 0 && ls_cost_ms(z, ROWS, z->cost_context) <= MOST_MS;
}

static void ask_bigrams(live *l) {
    ls_err err;
    char *path, text[200];
    int32_t n;
    l->ends = LS_WANTS_ANY;
    const ls_code code =
        ls_bigrams_learn(&l->model, l->setup->format, l->setup->system, false, on_idle, l, &n, &path, &err);
    l->ends = LS_WANTS_STOP;
    l->asked = (code && code != LS_E_CANCELLED) ||
               !ls_channel_wants(&l->c, LS_WANTS_ANY); // else a command came; later the rest
    if (!code && l->asked) {
        snprintf(text, sizeof text,
                 "the model was asked once what follows each of %d tokens: drafts are better from the next start on "
                 "(doctor --bigrams)",
                 n);
        ls_channel_message(&l->c, false, text);
    }
    free(path);
}

// How long to wait for a command, in ms: 0 if a step is due, IDLE_MS before work for idle times, -1 (no limit) if there
// is no work.
static double patience(const live *l) {
    enum { IDLE_MS = 1000 };
    const bool decodes = l->rival.session || (ls_runner_active(&l->run) && ls_channel_goes(&l->c));
    return decodes ? 0 : has_costs_to_measure(l) || has_bigrams_to_ask(l) ? IDLE_MS : -1;
}

static void *decoder(void *ud) {
    live *l = ud;
    ls_err err = {0};
    l->ends = LS_WANTS_CLOSE;
    const bool failed = start(l, &err) != LS_OK;
    l->ends = LS_WANTS_STOP;
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
        if (l->opt.no_autosave) tell_not_saved(l, l->opt.no_autosave);
        ls_channel_status(&l->c, LS_STATE_IDLE, "", -1);
    }
    const ls_command *c;
    while (ls_channel_take(&l->c, &c, failed ? -1 : patience(l))) {
        // commands first; without one, a step of the rival, else of the turn, else work for idle times
        if (c && !failed) carry_out(l, c);
        else if (!c && l->rival.session) run_rival(l);
        else if (!c && ls_runner_active(&l->run)) run_step(l);
        else if (!c && has_costs_to_measure(l)) measure_costs(l);
        else if (!c) ask_bigrams(l);
    }
    if (!failed) {
        save_what_waits(l, c);
        if (ls_conversation_log_failed(l->log, true, &err)) tell_not_saved(l, err.msg);
    }
    // only the trace is told: the screen is gone, and the conversation was saved
    if (ls_runner_active(&l->run) && l->trace) {
        const ls_run_sink records = ls_trace_sink(l->trace);
        records.end(records.ud, (uint32_t)ls_runner_turns(&l->run) - 1, LS_FINISH_INTERRUPTED, &l->run.stats);
    }
    ls_session_free(l->rival.session);
    ls_runner_free(&l->rival);
    free_setup(l, l->variant);
    ls_runner_free(&l->run);
    free(l->left);
    replace_log(l, NULL);
    if (!ls_trace_close(l->trace, &err)) {
        ls_warn("%s", err.msg); // the screen is gone by now
        if (l->opt.failed) *l->opt.failed = true;
    }
    ls_session_free(l->session);
    ls_model_free(&l->model);
    adopt(l, NULL);
    ls_seen_free(&l->seen);
    return NULL;
}

ls_source *ls_source_live(const ls_live_options *opt) {
    live *l = ls_calloc(1, sizeof *l);
    l->opt = *opt;
    l->setup = opt->setup;
    l->c.failed = opt->failed;
    return ls_channel_open(&l->c, decoder);
}
