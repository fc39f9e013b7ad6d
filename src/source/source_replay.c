#include "source/sources.h"
#include "base/mem.h"
#include "source/channel.h"
#include "trace/trace_events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_channel c; // first: a source is one of these
    ls_replay_options opt;
    ls_trace_events *t;
    double due_ms; // when the next step is to be seen, on the clock below
    bool ended, rival_sent;
    bool unended;   // the newest turn has no end line
    ls_err failure; // the first; code LS_OK: none
    int percent;    // of the file, as last reported; -1: not known
    ls_event *next; // read, and waiting for its time
} replay;

static double now_ms(void) {
    return (double)ls_now_ns() / 1e6;
}

static void set_speed(replay *r, const char *text) {
    static const char key[] = "replay.speed=";
    char *end = NULL;
    const double v = strncmp(text, key, sizeof key - 1) ? -1 : strtod(text + sizeof key - 1, &end);
    if (!(v >= 0 && v <= 1e6) || !end || *end || end == text + sizeof key - 1) {
        ls_channel_setting(&r->c, text, 1,
                           "a recording accepts only 'set replay.speed=X' (1: as recorded, 0: at once)");
        return;
    }
    r->opt.speed = v;
    r->due_ms = now_ms();
    ls_channel_setting(&r->c, text, 1, NULL);
}

static bool closing(void *ud) {
    return ls_channel_wants(ud, LS_WANTS_CLOSE);
}

// Plays t from its beginning; takes it.
static void start(replay *r, ls_trace_events *t) {
    ls_trace_events_close(r->t);
    ls_event_free(r->next);
    r->t = t;
    ls_trace_read_stop(ls_trace_events_reader(t), closing, &r->c);
    r->next = NULL;
    r->failure.code = LS_OK;
    r->ended = r->unended = r->rival_sent = false;
    r->c.steps_left = 0;
    r->due_ms = now_ms();
}

static void start_again(replay *r) {
    ls_err err;
    ls_trace_events *t;
    if (!strncmp(r->opt.path, "/dev/fd/", 8)) {
        ls_channel_message(&r->c, true, "a recording from a pipe cannot be played again");
        return;
    }
    if (ls_trace_events_open(&t, r->opt.path, &err)) ls_channel_message(&r->c, true, err.msg);
    else start(r, t);
}

static void send_whole_rival(replay *r) {
    ls_trace_events *t;
    ls_event *e = NULL;
    ls_err err;
    ls_code code = ls_trace_events_open(&t, r->opt.rival, &err);
    ls_finish finish = LS_GOING;
    bool more = !code;
    while (more && !(code = ls_trace_events_next(t, &e, &err)) && e) {
        const ls_event_kind kind = e->kind;
        if (kind == LS_EV_PROMPT) {
            const ls_trace_header *h = ls_trace_read_header(ls_trace_events_reader(t)),
                                  *mine = ls_trace_read_header(ls_trace_events_reader(r->t));
            if (h->prompt.n != mine->prompt.n ||
                memcmp(h->prompt.p, mine->prompt.p, h->prompt.n * sizeof *h->prompt.p)) {
                code =
                    ls_fail(&err, LS_E_USAGE, "%s has another prompt: the recordings cannot be compared", r->opt.rival);
                ls_event_free(e);
                break;
            }
            char name[sizeof h->run.method + sizeof h->acceptance]; // as a variant is written
            const bool same = !strcmp(h->acceptance, mine->acceptance);
            ls_event begins = {.kind = LS_EV_RIVAL, .rival.what = LS_RIVAL_BEGINS};
            snprintf(name, sizeof name, "%s%s%s", h->run.method, same ? "" : "@", same ? "" : h->acceptance);
            snprintf(begins.rival.method, sizeof begins.rival.method, "%.63s", name);
            ls_channel_tell(&r->c, begins);
        }
        if (kind == LS_EV_STEP)
            ls_channel_tell(&r->c, (ls_event){.kind = LS_EV_RIVAL,
                                              .rival = {.what = LS_RIVAL_STEP, .step = ls_step_share(e->step)}});
        if (kind == LS_EV_END) finish = e->end.finish, more = false; // the first turn is compared
        if (kind == LS_EV_TOKENS) ls_channel_send(&r->c, e);
        else ls_event_free(e);
    }
    if (code) {
        ls_channel_message(&r->c, true, err.msg);
        r->failure = err; // the recording itself is played all the same
    }
    ls_channel_tell(&r->c, (ls_event){.kind = LS_EV_RIVAL, .rival = {.what = LS_RIVAL_ENDS, .finish = finish}});
    ls_trace_events_close(t);
}

static void tell_progress(replay *r) {
    const ls_run_state state = r->c.paused ? LS_STATE_PAUSED : LS_STATE_RUNNING;
    ls_channel_status(&r->c, state, "", r->percent < 0 ? -1 : r->percent / 100.0);
}

static void carry_out(replay *r, const ls_command *c) {
    switch (c->kind) {
    case LS_CMD_RUN:
    case LS_CMD_PAUSE:
    case LS_CMD_STEP:
        ls_channel_pace(&r->c, c, true);
        if (c->kind == LS_CMD_RUN) r->due_ms = now_ms();
        if (!r->ended && c->kind != LS_CMD_STEP) tell_progress(r);
        break;
    case LS_CMD_SET: set_speed(r, c->text); break;
    case LS_CMD_RESET: start_again(r); break;
    default: break; // the channel refused it
    }
}

// Ends the replay. After an error of reading the state is LS_STATE_FAILED, so that a film or a script fails too.
static void end(replay *r) {
    ls_trace_gaps gaps = {0};
    ls_buf text = {0};
    ls_trace_read_gaps(ls_trace_events_reader(r->t), &gaps);
    ls_trace_gaps_text(&gaps, &text);
    r->ended = true;
    if (r->failure.code) ls_channel_message(&r->c, true, r->failure.msg);
    else if (text.n) ls_channel_message(&r->c, false, text.p);
    else if (r->unended)
        ls_channel_message(&r->c, false,
                           "the recording ends within a turn: the run was interrupted, or is still running");
    ls_buf_free(&text);
    ls_channel_status(&r->c, r->failure.code ? LS_STATE_FAILED : LS_STATE_IDLE, "", -1);
}

// Milliseconds until the next event is due; negative: a command must come first.
static double patience(replay *r) {
    if (r->ended) return -1;
    if (!r->next || r->next->kind != LS_EV_STEP) return 0;
    if (r->c.paused) return ls_channel_goes(&r->c) ? 0 : -1;
    const double left = r->opt.speed > 0 ? r->due_ms - now_ms() : 0;
    return left > 0 ? left : 0;
}

static void play(replay *r) {
    ls_err err = {0};
    ls_event *e = r->next;
    r->next = NULL;
    if (e) {
        const ls_event_kind kind = e->kind;
        const double ms = kind == LS_EV_STEP ? e->step->t_total_us / 1e3 : 0;
        ls_channel_send(&r->c, e);
        if (kind == LS_EV_END) r->unended = false;
        if (kind == LS_EV_PROMPT) {
            r->unended = true;
            r->due_ms = now_ms();
            if (r->opt.rival && !r->rival_sent) send_whole_rival(r);
            r->rival_sent = true;
            tell_progress(r);
        }
        if (kind == LS_EV_STEP) {
            if (r->opt.speed > 0 && isfinite(ms)) r->due_ms += ms / r->opt.speed;
            if (r->due_ms < now_ms() - 100) r->due_ms = now_ms(); // far behind: continues at the recorded pace
            const double read = ls_trace_read_progress(ls_trace_events_reader(r->t));
            const int percent = read < 0 ? -1 : (int)(100 * read);
            const bool stops = ls_channel_stepped(&r->c);
            const bool news = stops || percent != r->percent;
            r->percent = percent;
            if (news) tell_progress(r);
        }
    }
    if (ls_trace_events_next(r->t, &r->next, &err)) r->failure = err;
    if (!r->next) end(r);
}

static void *player(void *ud) {
    replay *r = ud;
    const ls_command *c;
    while (ls_channel_take(&r->c, &c, patience(r))) {
        if (c) carry_out(r, c);
        else if (patience(r) == 0) play(r);
    }
    ls_trace_events_close(r->t);
    ls_event_free(r->next);
    return NULL;
}

ls_source *ls_source_replay(const ls_replay_options *opt, ls_err *err) {
    ls_trace_events *t;
    if (ls_trace_events_open(&t, opt->path, err)) return NULL;
    replay *r = ls_calloc(1, sizeof *r);
    r->c.kind = LS_CHANNEL_RECORDING;
    r->c.paused = opt->paused;
    r->opt = *opt;
    start(r, t);
    ls_source *s = ls_channel_open(&r->c, player);
    if (s) return s;
    ls_trace_events_close(t);
    ls_fail(err, LS_E_IO, "the system has no memory or file descriptors for another thread");
    return NULL;
}
