#include "trace/trace_events.h"
#include "base/mem.h"
#include "trace/turns.h"

#include <stdlib.h>
#include <string.h>

struct ls_trace_events {
    ls_trace_reader *r;
    ls_event *header, *prompt; // not yet returned: the header comes first, the prompt after the tokens that it uses
    ls_event *next;            // an event that was read before the prompt was returned
    ls_turns turns;            // of the conversation
    uint32_t turn;             // the last turn
};

ls_code ls_trace_events_open(ls_trace_events **out, const char *path, ls_err *err) {
    ls_trace_reader *r;
    *out = NULL;
    const ls_code code = ls_trace_read_open(&r, path, err);
    if (code) return code;
    *out = ls_trace_events_of(r);
    return LS_OK;
}

ls_trace_events *ls_trace_events_of(ls_trace_reader *r) {
    ls_trace_events *t = ls_calloc(1, sizeof *t);
    t->r = r;
    return t;
}

void ls_trace_events_close(ls_trace_events *t) {
    if (!t) return;
    ls_trace_read_close(t->r);
    ls_event_free(t->header);
    ls_event_free(t->prompt);
    ls_event_free(t->next);
    ls_turns_free(&t->turns);
    free(t);
}

ls_trace_reader *ls_trace_events_reader(const ls_trace_events *t) {
    return t->r;
}

ls_event *ls_trace_prompt_event(const ls_trace_header *h, const ls_dialog *d) {
    const ls_turn *turn = ls_dialog_last(d);
    ls_event *e = ls_event_new(LS_EV_PROMPT);
    ls_ids added = {0};
    ls_ids_add(&added, d->context.p + turn->kept, d->context.n - turn->kept);
    e->prompt.turn = (uint32_t)d->n_turns - 1;
    e->prompt.n_ids = (int32_t)added.n;
    e->prompt.ids = added.p;
    e->prompt.text = ls_strdup(turn->user.n ? turn->user.p : "");
    e->prompt.n_begun = (int32_t)turn->n_begun;
    e->prompt.context_len = (int32_t)d->context.n;
    e->prompt.prefill_ms = h->prefill_ms;
    memcpy(e->prompt.method, h->run.method, sizeof e->prompt.method);
    e->prompt.temperature = strtod(ls_trace_config(h, "decode.temperature"), NULL);
    e->prompt.costs = h->run.costs;
    return e;
}

// Begins a turn: finds the tokens that it adds to the conversation.
static void begin_turn(ls_trace_events *t) {
    const ls_trace_header *h = ls_trace_read_header(t->r);
    t->turn = ls_turns_begin(&t->turns, h);
    if (t->turn == 0) { // another conversation
        ls_event_free(t->header);
        t->header = ls_event_new(LS_EV_HEADER);
        t->header->header = ls_malloc(sizeof h->run);
        *t->header->header = h->run;
    }
    ls_event_free(t->prompt); // not returned, if the turn had no steps
    t->prompt = ls_trace_prompt_event(h, t->turns.dialog);
}

static ls_event *step_event(ls_trace_events *t) {
    const ls_step *s = ls_trace_read_step(t->r);
    ls_event *e = ls_event_new(LS_EV_STEP);
    e->step = ls_step_keep(s);
    ls_dialog_step(t->turns.dialog, s);
    return e;
}

static ls_code read_line(ls_trace_events *t, ls_event **out, ls_trace_line *line, ls_err *err) {
    const ls_code code = ls_trace_read_next(t->r, line, err);
    *out = NULL;
    if (code) return code;
    switch (*line) {
    case LS_TRACE_HEADER: begin_turn(t); break;
    case LS_TRACE_TOKENS: *out = ls_trace_read_tokens(t->r); break;
    case LS_TRACE_STEP: *out = step_event(t); break;
    case LS_TRACE_END:
        *out = ls_event_new(LS_EV_END);
        (*out)->end.turn = t->turn;
        (*out)->end.finish = ls_trace_read_finish(t->r);
        break;
    case LS_TRACE_NONE:
    case LS_TRACE_REQUEST:
    case LS_TRACE_OTHER: break;
    }
    return LS_OK;
}

static ls_event *take(ls_event **e) {
    ls_event *out = *e;
    *e = NULL;
    return out;
}

ls_code ls_trace_events_next(ls_trace_events *t, ls_event **out, ls_err *err) {
    ls_trace_line line = LS_TRACE_HEADER;
    if (t->header) return *out = take(&t->header), LS_OK;
    if (t->next && !t->prompt) return *out = take(&t->next), LS_OK;
    *out = NULL;
    while (!*out) {
        const ls_code code = read_line(t, out, &line, err);
        if (code) return code;
        if (t->prompt && line != LS_TRACE_TOKENS && line != LS_TRACE_HEADER && line != LS_TRACE_REQUEST &&
            line != LS_TRACE_OTHER) { // its tokens have been returned
            t->next = *out;
            *out = take(&t->prompt);
            return LS_OK;
        }
        if (t->header) return *out = take(&t->header), LS_OK;
        if (line == LS_TRACE_NONE) return LS_OK;
    }
    return LS_OK;
}
