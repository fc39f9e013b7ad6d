#include "source/channel.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/utf8.h"
#include "source/event_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_QUEUED = 512 }; // unread events; ls_channel_send blocks at this number until the listener reads one

typedef struct ls_queued_event {
    struct ls_queued_event *next;
    ls_event *event;
} queued_event;

static ls_event *next_event(ls_source *s) {
    ls_channel *c = (ls_channel *)s;
    ls_event *e = NULL;
    pthread_mutex_lock(&c->lock);
    queued_event *q = c->events;
    if (q) {
        e = q->event;
        if (!(c->events = q->next)) c->events_end = &c->events;
        if (c->n_events-- == MAX_QUEUED) pthread_cond_signal(&c->changed); // ls_channel_send may wait for room
    } else {
        uint64_t count; // the queue is empty: resets the descriptor, under the lock, so that no event is missed
        if (read(c->wake, &count, sizeof count) < 0) count = 0;
    }
    pthread_mutex_unlock(&c->lock);
    free(q);
    return e;
}

static int wake_fd(ls_source *s) {
    return ((ls_channel *)s)->wake;
}

static void close_channel(ls_source *s) {
    ls_channel *c = (ls_channel *)s;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    for (queued_event *q = c->events, *next; q; q = next) {
        next = q->next;
        const ls_event *e = q->event;
        if (e->kind == LS_EV_MESSAGE && e->message.is_error && e->message.is_result) {
            ls_warn("%s", e->message.text); // the screen is gone by now
            if (c->failed) *c->failed = true;
        }
        ls_event_free(q->event);
        free(q);
    }
    for (ls_queued_command *q = c->commands, *next; q; q = next) {
        next = q->next;
        ls_queued_command_free(q);
    }
    close(c->wake);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

bool ls_channel_open(ls_channel *c, void *(*run)(void *channel)) {
    c->base.next = next_event;
    c->base.wake_fd = wake_fd;
    c->base.close = close_channel;
    c->commands_end = &c->commands;
    c->events_end = &c->events;
    c->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->wake < 0) return false; // nothing could wake the listener
    pthread_condattr_t monotonic;  // a change of the system time must not change waits
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const bool started = ls_thread_start(&c->thread, run, c);
    if (!started) close(c->wake);
    return started;
}

void ls_channel_put(ls_channel *c, const ls_command *command) {
    ls_log_command(command);
    ls_queued_command *q = ls_calloc(1, sizeof *q);
    *q = (ls_queued_command){NULL, command->kind, command->text ? ls_strdup(command->text) : NULL, command->n};
    *c->commands_end = q;
    c->commands_end = &q->next;
    c->stopping |= command->kind == LS_CMD_STOP;
    pthread_cond_signal(&c->changed);
}

void ls_channel_send(ls_channel *c, ls_event *e) {
    ls_log_event(e);
    queued_event *q = ls_calloc(1, sizeof *q);
    q->event = e;
    pthread_mutex_lock(&c->lock);
    while (c->n_events >= MAX_QUEUED && !c->closing) pthread_cond_wait(&c->changed, &c->lock);
    *c->events_end = q;
    c->events_end = &q->next;
    c->n_events++;
    if (e->kind == LS_EV_STATUS) c->state = e->status.state;
    pthread_mutex_unlock(&c->lock);
    const uint64_t one = 1;
    if (write(c->wake, &one, sizeof one) < 0) return; // the counter is full, so it is readable anyway
}

void ls_channel_status(ls_channel *c, ls_run_state state, const char *stage, double fraction) {
    ls_event *e = ls_event_new(LS_EV_STATUS);
    e->status.state = state;
    e->status.fraction = fraction;
    snprintf(e->status.stage, sizeof e->status.stage, "%s", stage);
    ls_channel_send(c, e);
}

static void send_message(ls_channel *c, bool is_error, bool is_result, const char *text) {
    ls_event *e = ls_event_new(LS_EV_MESSAGE);
    e->message.is_error = is_error;
    e->message.is_result = is_result;
    snprintf(e->message.text, sizeof e->message.text, "%s", text);
    ls_channel_send(c, e);
}

void ls_channel_message(ls_channel *c, bool is_error, const char *text) {
    send_message(c, is_error, false, text);
}

void ls_channel_result(ls_channel *c, bool is_error, const char *text) {
    send_message(c, is_error, true, text);
}

void ls_channel_setting(ls_channel *c, const char *assignment, const char *refusal) {
    ls_event *e = ls_event_new(LS_EV_SETTING);
    const size_t n = strcspn(assignment, "=");
    e->setting.in_force = !refusal;
    snprintf(e->setting.key, sizeof e->setting.key, "%.*s", (int)n, assignment);
    snprintf(e->setting.value, sizeof e->setting.value, "%s", assignment + n + (assignment[n] == '='));
    ls_channel_send(c, e);
    ls_channel_message(c, refusal != NULL, refusal ? refusal : assignment);
}

bool ls_channel_take(ls_channel *c, ls_queued_command **out, double wait_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (wait_ms > 0) {
        const int64_t ns = until.tv_nsec + (int64_t)(wait_ms * 1e6);
        until.tv_sec += ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
    }
    pthread_mutex_lock(&c->lock);
    while (!c->closing && !c->commands && wait_ms != 0) {
        if (wait_ms < 0) pthread_cond_wait(&c->changed, &c->lock);
        else if (pthread_cond_timedwait(&c->changed, &c->lock, &until) == ETIMEDOUT) break;
    }
    ls_queued_command *q = *out = c->commands;
    if (q && !(c->commands = q->next)) c->commands_end = &c->commands;
    if (q && q->kind == LS_CMD_STOP) c->stopping = false;
    const bool go = !c->closing;
    pthread_mutex_unlock(&c->lock);
    return go;
}

void ls_queued_command_free(ls_queued_command *q) {
    if (!q) return;
    free(q->text);
    free(q);
}

bool ls_channel_closing(ls_channel *c) {
    pthread_mutex_lock(&c->lock);
    const bool closing = c->closing;
    pthread_mutex_unlock(&c->lock);
    return closing;
}

bool ls_channel_wanted(ls_channel *c) {
    pthread_mutex_lock(&c->lock);
    const bool wanted = c->closing || c->commands;
    pthread_mutex_unlock(&c->lock);
    return wanted;
}

bool ls_channel_stopping(ls_channel *c) {
    pthread_mutex_lock(&c->lock);
    const bool stopping = c->closing || c->stopping;
    pthread_mutex_unlock(&c->lock);
    return stopping;
}
