#include "source/sources.h"
#include "base/mem.h"
#include "source/channel.h"
#include "trace/trace_events.h"

#include <stdio.h>

enum { CHUNK = 1 << 18 };

typedef struct {
    ls_channel c; // first: a source is one of these
    ls_feed *feed;
    ls_feed_reader reader;
    uint64_t said;    // messages of the feed that were sent
    uint64_t cleared; // as ls_feed_cleared was
    int32_t shown;    // request; 0: none
    bool follows;
    ls_trace_events *t; // of its recording, which was read up to byte `at`; NULL: nothing was read
    size_t at;
    bool broken;      // the recording cannot be read any further
    ls_event *header; // of the server, without a request; NULL: not known yet
} watching;

static void send_header(watching *w) {
    ls_run *run = ls_malloc(sizeof *run);
    *run = *w->header->header;
    ls_channel_tell(&w->c, (ls_event){.kind = LS_EV_HEADER, .header = run});
}

static void take_header(watching *w, ls_event *e) {
    if (e->kind == LS_EV_HEADER && !w->header) {
        w->header = e;
        if (!w->shown) send_header(w);
    } else ls_event_free(e);
}

// Reads what has come of the recording of a request, or (id 0) of the server, which is a header.
static void read_on(watching *w, int32_t id, ls_trace_events **t, size_t *at) {
    ls_buf text = {0};
    ls_err err;
    char name[32];
    snprintf(name, sizeof name, "request %d", id);
    while (!w->broken && !ls_channel_wants(&w->c, LS_WANTS_CLOSE)) {
        ls_event *e;
        ls_buf_clear(&text);
        if (!ls_feed_lines(w->feed, id, at, &text, CHUNK) || !text.n) break;
        ls_lines *lines = ls_lines_in(text.p, text.n, name);
        if (*t) ls_trace_read_more(ls_trace_events_reader(*t), lines);
        else *t = ls_trace_events_of(ls_trace_read_of(lines));
        ls_code code;
        while (!(code = ls_trace_events_next(*t, &e, &err)) && e)
            if (id) ls_channel_send(&w->c, e);
            else take_header(w, e);
        w->broken = code != LS_OK;
        if (code) ls_channel_message(&w->c, true, err.msg);
    }
    ls_buf_free(&text);
}

static void read_server(watching *w) {
    ls_trace_events *t = NULL;
    size_t at = 0;
    if (!w->header) read_on(w, 0, &t, &at);
    ls_trace_events_close(t);
}

static void send_request(watching *w, const ls_request_facts *facts, bool shown) {
    ls_request_facts *copy = ls_malloc(sizeof *copy);
    *copy = *facts;
    ls_channel_tell(&w->c, (ls_event){.kind = LS_EV_REQUEST, .request = {copy, shown, w->follows}});
}

static void forget_shown(watching *w) {
    ls_trace_events_close(w->t);
    w->t = NULL;
    w->at = 0;
    w->shown = 0;
    w->broken = false;
}

// Its events follow; the header empties the screen, also if the request has none yet.
static void show(watching *w, int32_t id) {
    ls_request_facts facts;
    if (!ls_feed_facts(w->feed, id, &facts)) return;
    const bool again = id == w->shown;
    if (!again) forget_shown(w);
    w->shown = id;
    send_request(w, &facts, true);
    if (!again && w->header) send_header(w);
}

static void tell_state(watching *w) {
    ls_request_facts f;
    if (!w->shown && w->c.state == LS_STATE_LOADING) ls_channel_status(&w->c, LS_STATE_IDLE, "", -1);
    if (!w->shown || !ls_feed_facts(w->feed, w->shown, &f)) return;
    const bool waits = f.state == LS_REQUEST_QUEUED, reads = f.state == LS_REQUEST_READING;
    const ls_run_state now = waits || reads                   ? LS_STATE_PREFILL
                             : f.state == LS_REQUEST_DECODING ? LS_STATE_RUNNING
                                                              : LS_STATE_IDLE;
    if (now != w->c.state || reads)
        ls_channel_status(&w->c, now,
                          waits   ? "waiting in the queue"
                          : reads ? "reading the prompt"
                                  : "",
                          reads && f.read > 0 ? f.read : -1);
}

static void follow(watching *w) {
    ls_request_facts f = {.state = LS_REQUEST_FORGOTTEN};
    const int32_t now = ls_feed_current(w->feed);
    if (w->shown) ls_feed_facts(w->feed, w->shown, &f);
    if (now && now != w->shown && (!w->shown || f.state >= LS_REQUEST_DONE)) show(w, now);
}

static void tell_news(watching *w) {
    ls_request_facts facts;
    const uint64_t cleared = ls_feed_cleared(w->feed);
    if (cleared != w->cleared) { // another server, with other numbers and perhaps another model
        forget_shown(w);
        ls_event_free(w->header);
        w->header = NULL;
        w->follows = true;
        ls_channel_status(&w->c, LS_STATE_IDLE, "", -1);
    }
    w->cleared = cleared;
    read_server(w);
    bool is_error;
    char text[LS_FEED_TEXT];
    while (ls_feed_said(w->feed, &w->said, &is_error, text)) ls_channel_message(&w->c, is_error, text);
    while (!ls_channel_wants(&w->c, LS_WANTS_CLOSE) && ls_feed_next(w->feed, &w->reader, &facts, NULL, 0))
        if (facts.id) send_request(w, &facts, false);
    if (w->follows) follow(w);
    if (w->shown) read_on(w, w->shown, &w->t, &w->at);
    tell_state(w);
}

static void carry_out(watching *w, const ls_command *c) {
    w->follows = c->n == 0;
    const int32_t id = c->n ? c->n : ls_feed_current(w->feed);
    if (id) show(w, id);
}

static void *watcher(void *ud) {
    watching *w = ud;
    const ls_command *c;
    w->reader = (ls_feed_reader){.wake = ls_channel_wake, .ud = &w->c};
    ls_feed_listen(w->feed, &w->reader);
    tell_news(w);
    while (ls_channel_take(&w->c, &c, -1)) {
        if (c) carry_out(w, c);
        tell_news(w);
    }
    ls_feed_leave(w->feed, &w->reader);
    forget_shown(w);
    ls_event_free(w->header);
    return NULL;
}

ls_source *ls_source_feed(ls_feed *feed) {
    watching *w = ls_calloc(1, sizeof *w);
    w->feed = feed;
    w->follows = true;
    w->c.kind = LS_CHANNEL_SERVER;
    return ls_channel_open(&w->c, watcher);
}
