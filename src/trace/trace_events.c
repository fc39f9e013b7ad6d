#include "trace/trace_events.h"
#include "base/mem.h"
#include "trace/turns.h"

#include <stdlib.h>
#include <string.h>

struct ls_trace_events {
    ls_trace_reader *r;
    ls_event *prompt;   // of the last turn, until the tokens that it uses have been returned
    ls_event *ready[2]; // read, not yet returned
    size_t n_ready;
    ls_turns turns; // of the conversation
    uint32_t turn;  // the last turn
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
    ls_event_free(t->prompt);
    for (size_t i = 0; i < t->n_ready; i++) ls_event_free(t->ready[i]);
    ls_turns_free(&t->turns);
    free(t);
}

ls_trace_reader *ls_trace_events_reader(const ls_trace_events *t) {
    return t->r;
}

ls_event *ls_trace_prompt_event(const ls_trace_header *h, const ls_conversation *d) {
    const ls_turn *turn = ls_conversation_last(d);
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

static void add(ls_trace_events *t, ls_event *e) {
    t->ready[t->n_ready++] = e;
}

// Begins a turn: finds the tokens that it adds to the conversation.
static void begin_turn(ls_trace_events *t) {
    const ls_trace_header *h = ls_trace_read_header(t->r);
    t->turn = ls_turns_begin(&t->turns, h);
    if (t->turn == 0) { // another conversation
        ls_event *e = ls_event_new(LS_EV_HEADER);
        e->header = ls_malloc(sizeof h->run);
        *e->header = h->run;
        add(t, e);
    }
    ls_event_free(t->prompt); // not returned, if the turn had no steps
    t->prompt = ls_trace_prompt_event(h, t->turns.conversation);
}

static ls_event *step_event(ls_trace_events *t) {
    const ls_step *s = ls_trace_read_step(t->r);
    ls_event *e = ls_event_new(LS_EV_STEP);
    e->step = ls_step_share(s);
    ls_conversation_step(t->turns.conversation, s);
    return e;
}

static ls_event *end_event(const ls_trace_events *t) {
    ls_event *e = ls_event_new(LS_EV_END);
    e->end.turn = t->turn;
    e->end.finish = ls_trace_read_finish(t->r);
    return e;
}

ls_code ls_trace_events_next(ls_trace_events *t, ls_event **out, ls_err *err) {
    ls_trace_line line = LS_TRACE_HEADER;
    *out = NULL;
    while (!t->n_ready && line != LS_TRACE_NONE) {
        const ls_code code = ls_trace_read_next(t->r, &line, err);
        if (code) return code;
        if (line == LS_TRACE_HEADER) begin_turn(t);
        if (line == LS_TRACE_TOKENS) add(t, ls_trace_read_tokens(t->r));
        if (t->prompt && (line == LS_TRACE_STEP || line == LS_TRACE_END || line == LS_TRACE_NONE)) {
            add(t, t->prompt);
            t->prompt = NULL;
        }
        if (line == LS_TRACE_STEP) add(t, step_event(t));
        if (line == LS_TRACE_END) add(t, end_event(t));
    }
    if (!t->n_ready) return LS_OK;
    *out = t->ready[0];
    t->ready[0] = t->ready[1];
    t->n_ready--;
    return LS_OK;
}
