#include "source/channel.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MAX_QUEUED = 512 }; // unread events; ls_channel_send blocks at this number until the listener reads one

// What refuses a command: an answer that is being decoded, or also a comparison; that there is neither; nothing.
typedef enum { NEVER, BY_ANSWER, BY_ANY_ANSWER, WHEN_IDLE } refused;

static const struct {
    const char *name;
    refused refused;
    bool recording;
    enum { HIDDEN, SHOWN, SETTING } text; // in logs
} commands[] = {
#define COMMAND(name, in_logs, refused, recording, text) {in_logs, refused, recording, text},
#include "source/commands.def"
#undef COMMAND
};

// ---- what the log tells of commands and events (base/log.h): texts of prompts and tokens only if it may

static void log_command(const ls_command *c) {
    if (!ls_log_is_on()) return;
    const char *text = c->text ? c->text : "";
    const bool setting = commands[c->kind].text == SETTING,
               shown = setting ? ls_log_may_hold(text) : commands[c->kind].text == SHOWN || ls_log_has_text();
    ls_log("command %s, n %d, %zu bytes%s%s", commands[c->kind].name, c->n, strlen(text), shown && *text ? ": " : "",
           shown ? text : "");
}

static void log_status(const ls_event *e) {
    static const char *const names[] = {
        [LS_STATE_LOADING] = "loading", [LS_STATE_IDLE] = "idle",     [LS_STATE_PREFILL] = "prefill",
        [LS_STATE_RUNNING] = "running", [LS_STATE_PAUSED] = "paused", [LS_STATE_COMPARING] = "comparing",
        [LS_STATE_FAILED] = "failed"};
    ls_log("state %s%s%s", names[e->status.state], *e->status.stage ? ": " : "", e->status.stage);
}

// Quotations in a message may be texts of the user (a stop text, a search, a line of a file): replaces them by "...".
static void log_message(const ls_event *e) {
    const char *text = e->message.text, *kind = e->message.is_error ? ", an error" : "";
    if (!ls_log_may_hold(text)) {
        ls_log("event message%s: (a text)", kind);
        return;
    }
    ls_buf shown = {0};
    bool quoted = false;
    for (const char *p = text; *p; p++) {
        const bool opens = *p == '\'' && !quoted && (p == text || strchr(" (:", p[-1])),
                   closes = *p == '\'' && quoted && !isalnum((unsigned char)p[1]);
        if (closes && !ls_log_has_text()) ls_buf_str(&shown, "...");
        if (closes) quoted = false;
        if (!quoted || ls_log_has_text()) ls_buf_char(&shown, *p);
        if (opens) quoted = true;
    }
    ls_log("event message%s: %s", kind, shown.p ? shown.p : "");
    ls_buf_free(&shown);
}

static void log_event(const ls_event *e) {
    if (!ls_log_is_on()) return;
    switch (e->kind) {
    case LS_EV_STATUS:
        if (e->status.fraction <= 0) log_status(e); // one line for each state, none for its progress
        break;
    case LS_EV_HEADER:
        ls_log("event header: %s, %s on %s (%s), %s, %d threads, context %d, method %s", e->header->model,
               e->header->dtype, e->header->device, e->header->kernel, e->header->version, e->header->threads,
               e->header->n_context, e->header->method);
        break;
    case LS_EV_PROMPT:
        ls_log("event prompt: turn %u, %d tokens read in %.3f ms, context %d, method %s", e->prompt.turn + 1,
               e->prompt.n_ids, e->prompt.prefill_ms, e->prompt.context_len, e->prompt.method);
        break;
    case LS_EV_END: ls_log("event end: turn %u, %s", e->end.turn + 1, ls_finish_name(e->end.finish)); break;
    case LS_EV_RIVAL:
        if (e->rival.what == LS_RIVAL_BEGINS)
            ls_log("event rival: %s begins at token %d", e->rival.method, e->rival.at);
        if (e->rival.what == LS_RIVAL_ENDS) ls_log("event rival: %s", ls_finish_name(e->rival.finish));
        break;
    case LS_EV_SETTING:
        ls_log("event setting: %s %s", e->setting.key, e->setting.in_force ? "is in force" : "is refused");
        break;
    case LS_EV_MESSAGE: log_message(e); break;
    case LS_EV_REQUEST:
        if (e->request.shown)
            ls_log("event request %lld is shown, %s", (long long)e->request.facts->id,
                   ls_request_state_name(e->request.facts->state));
        break;
    case LS_EV_TOKENS:
    case LS_EV_STEP: break;
    }
}

// ---- queues

static ls_event *next_event(ls_source *s) {
    ls_channel *c = (ls_channel *)s;
    pthread_mutex_lock(&c->lock);
    ls_event *e = c->events;
    if (e) {
        if (!(c->events = e->next)) c->events_end = &c->events;
        if (c->n_events-- == MAX_QUEUED) pthread_cond_signal(&c->changed); // ls_channel_send may wait for room
    } else {
        uint64_t count; // the queue is empty: resets the descriptor, under the lock, so that no event is missed
        if (read(c->base.wake_fd, &count, sizeof count) < 0) count = 0;
    }
    pthread_mutex_unlock(&c->lock);
    return e;
}

static void free_command(ls_command *q) {
    if (q) free(q->text);
    free(q);
}

static void close_channel(ls_source *s) {
    ls_channel *c = (ls_channel *)s;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    for (ls_event *e = c->events, *next; e; e = next) {
        next = e->next;
        if (e->kind == LS_EV_MESSAGE && e->message.is_error && e->message.is_result) {
            ls_warn("%s", e->message.text); // the screen is gone by now
            if (c->failed) *c->failed = true;
        }
        ls_event_free(e);
    }
    free_command(c->taken);
    for (ls_command *q = c->commands, *next; q; q = next) {
        next = q->next;
        free_command(q);
    }
    close(c->base.wake_fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

bool ls_command_waits(ls_command_kind kind) {
    return commands[kind].refused == BY_ANSWER || commands[kind].refused == BY_ANY_ANSWER;
}

// Why this source never takes the command; NULL: it may.
static const char *never(const ls_channel *c, ls_command_kind kind) {
    if (c->kind == LS_CHANNEL_SERVER && kind != LS_CMD_OPEN)
        return "this is a server: its clients begin and end requests";
    if (c->kind != LS_CHANNEL_RECORDING || commands[kind].recording) return NULL;
    return kind == LS_CMD_RIVAL ? "this is a recording: 'logitspec replay A B' compares it with another"
                                : "this is a recording: it can be run, paused and stepped through";
}

const char *ls_command_refusal(ls_command_kind kind, ls_run_state state) {
    const bool answers = state == LS_STATE_PREFILL || state == LS_STATE_RUNNING || state == LS_STATE_PAUSED,
               compares = state == LS_STATE_COMPARING;
    if (state == LS_STATE_FAILED) return "the model is not loaded";
    if (answers && ls_command_waits(kind)) return "an answer is being decoded: stop it first";
    if (compares && commands[kind].refused == BY_ANY_ANSWER)
        return "a comparison or what-if is still running: stop it first";
    return commands[kind].refused == WHEN_IDLE && !answers && !compares ? "nothing is being decoded" : NULL;
}

static ls_code queue_command(ls_source *s, const ls_command *command, ls_err *err) {
    ls_channel *c = (ls_channel *)s;
    pthread_mutex_lock(&c->lock);
    const char *why = never(c, command->kind);
    if (!why && c->kind == LS_CHANNEL_LIVE) why = ls_command_refusal(command->kind, c->state);
    if (!why) {
        log_command(command);
        ls_command *q = ls_malloc(sizeof *q);
        *q = (ls_command){command->kind, command->n, command->text ? ls_strdup(command->text) : NULL, NULL};
        *c->commands_end = q;
        c->commands_end = &q->next;
        c->stopping |= command->kind == LS_CMD_STOP;
        pthread_cond_signal(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return why ? ls_fail(err, LS_E_UNSUPPORTED, "%s", why) : LS_OK;
}

ls_source *ls_channel_open(ls_channel *c, void *(*run)(void *channel)) {
    c->base.next = next_event;
    c->base.command = queue_command;
    c->base.close = close_channel;
    c->commands_end = &c->commands;
    c->events_end = &c->events;
    c->base.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&c->lock, NULL);
    ls_cond_init(&c->changed);
    if (c->base.wake_fd >= 0 && ls_thread_start(&c->thread, run, c)) return &c->base;
    if (c->base.wake_fd >= 0) close(c->base.wake_fd); // else nothing could wake the listener
    free(c);
    return NULL;
}

void ls_channel_send(ls_channel *c, ls_event *e) {
    log_event(e);
    e->next = NULL;
    pthread_mutex_lock(&c->lock);
    while (c->n_events >= MAX_QUEUED && !c->closing) pthread_cond_wait(&c->changed, &c->lock);
    *c->events_end = e;
    c->events_end = &e->next;
    c->n_events++;
    if (e->kind == LS_EV_STATUS) {
        c->state = e->status.state;
        c->owes = c->worked && c->state != LS_STATE_IDLE;
    }
    pthread_mutex_unlock(&c->lock);
    const uint64_t one = 1;
    if (write(c->base.wake_fd, &one, sizeof one) < 0) return; // the counter is full, so it is readable anyway
}

void ls_channel_tell(ls_channel *c, ls_event e) {
    ls_event *copy = ls_event_new(e.kind);
    *copy = e;
    ls_channel_send(c, copy);
}

void ls_channel_status(ls_channel *c, ls_run_state state, const char *stage, double fraction) {
    ls_event e = {.kind = LS_EV_STATUS, .status = {.state = state, .fraction = fraction}};
    snprintf(e.status.stage, sizeof e.status.stage, "%s", stage);
    ls_channel_tell(c, e);
}

static void send_message(ls_channel *c, bool is_error, bool is_result, const char *text) {
    ls_event e = {.kind = LS_EV_MESSAGE, .message = {.is_error = is_error, .is_result = is_result}};
    snprintf(e.message.text, sizeof e.message.text, "%s", text);
    ls_channel_tell(c, e);
}

void ls_channel_message(ls_channel *c, bool is_error, const char *text) {
    send_message(c, is_error, false, text);
}

void ls_channel_result(ls_channel *c, bool is_error, const char *text) {
    send_message(c, is_error, true, text);
}

void ls_channel_setting(ls_channel *c, const char *text, int n, const char *refusal) {
    ls_buf said = {0};
    for (; n > 0; n--) {
        ls_event e = {.kind = LS_EV_SETTING, .setting.in_force = !refusal};
        const size_t length = n > 1 ? strcspn(text, "\n") : strlen(text);
        size_t key = strcspn(text, "=");
        if (key > length) key = length;
        const size_t value = key + (key < length);
        snprintf(e.setting.key, sizeof e.setting.key, "%.*s", (int)key, text);
        snprintf(e.setting.value, sizeof e.setting.value, "%.*s", (int)(length - value), text + value);
        ls_channel_tell(c, e);
        ls_buf_fmt(&said, "%s%.*s", said.n ? ", " : "", (int)length, text);
        text += length + (n > 1);
    }
    ls_channel_message(c, refusal != NULL, refusal ? refusal : said.p);
    ls_buf_free(&said);
}

// Whether a turn or a rival is decoded, whose end will send LS_STATE_IDLE. By the source's thread.
static bool runs(const ls_channel *c) {
    return c->state == LS_STATE_RUNNING || c->state == LS_STATE_PAUSED || c->state == LS_STATE_COMPARING;
}

bool ls_channel_take(ls_channel *c, const ls_command **out, double wait_ms) {
    if (c->owes && !runs(c)) ls_channel_status(c, LS_STATE_IDLE, "", -1);
    free_command(c->taken);
    const struct timespec until = ls_time_after(wait_ms > 0 ? (uint64_t)(wait_ms * 1e6) : 0);
    pthread_mutex_lock(&c->lock);
    while (!c->closing && !c->commands && !c->woken && wait_ms != 0) {
        if (wait_ms < 0) pthread_cond_wait(&c->changed, &c->lock);
        else if (pthread_cond_timedwait(&c->changed, &c->lock, &until) == ETIMEDOUT) break;
    }
    c->woken = false;
    ls_command *q = c->taken = c->commands;
    *out = q;
    if (q && !(c->commands = q->next)) c->commands_end = &c->commands;
    if (q && q->kind == LS_CMD_STOP) c->stopping = false;
    if (q && ls_command_waits(q->kind) && c->state != LS_STATE_FAILED) c->worked = c->owes = true; // that state stays
    const bool go = !c->closing;
    pthread_mutex_unlock(&c->lock);
    return go;
}

void ls_channel_pace(ls_channel *c, const ls_command *q, bool active) {
    enum { MOST_STEPS = 1 << 30 };
    const bool steps = q->kind == LS_CMD_STEP && active;
    if (!steps) c->steps_left = 0;
    else c->steps_left += q->n < MOST_STEPS - c->steps_left ? q->n : MOST_STEPS - c->steps_left; // keys may be faster
    c->paused = q->kind != LS_CMD_RUN;
}

bool ls_channel_goes(const ls_channel *c) {
    return !c->paused || c->steps_left > 0;
}

bool ls_channel_stepped(ls_channel *c) {
    return c->paused && --c->steps_left == 0;
}

void ls_channel_wake(void *channel) {
    ls_channel *c = channel;
    pthread_mutex_lock(&c->lock);
    c->woken = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

bool ls_channel_wants(ls_channel *c, ls_wants what) {
    pthread_mutex_lock(&c->lock);
    const bool wants =
        c->closing || (what >= LS_WANTS_STOP && c->stopping) || (what == LS_WANTS_ANY && c->commands != NULL);
    pthread_mutex_unlock(&c->lock);
    return wants;
}
