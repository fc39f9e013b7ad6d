#include "serve/watch.h"

#include <stdio.h>

static void tell(ls_watched *w) {
    ls_feed_set(w->queue->feed, &w->x->facts);
}

static void put_line(void *ud, const char *p, size_t n) {
    const ls_watched *w = ud;
    ls_feed_put(w->queue->feed, w->x->facts.id, p, n);
}

void ls_watched_begin(ls_watched *w, ls_queue *q, ls_exchange *x, double queued_ms, ls_trace_level level) {
    *w = (ls_watched){.queue = q, .x = x};
    if (q->feed) w->trace = ls_trace_to(put_line, w, level);
    x->facts.state = LS_REQUEST_READING;
    x->facts.queued_ms = queued_ms;
    tell(w);
}

void ls_watched_read(ls_watched *w, size_t prompt_tokens, double fraction) {
    w->x->facts.prompt_tokens = (int32_t)prompt_tokens;
    w->x->facts.read = fraction > 0 && fraction < 1 ? fraction : 0;
    tell(w);
}

static void on_begin(void *ud, const ls_runner *run, double prefill_ms) {
    ls_watched *w = ud;
    ls_request_facts *f = &w->x->facts;
    const ls_run_sink records = ls_trace_sink(w->trace);
    w->run = run;
    f->state = LS_REQUEST_DECODING;
    f->kept_tokens = (int32_t)run->other.kept;
    f->prefill_ms = prefill_ms;
    f->read = 0;
    records.begin(records.ud, run, prefill_ms);
    tell(w);
}

static void on_step(void *ud, const ls_step *step) {
    ls_watched *w = ud;
    ls_request_facts *f = &w->x->facts;
    const ls_stats *st = &w->run->stats;
    const ls_run_sink records = ls_trace_sink(w->trace);
    f->steps = (int64_t)st->steps;
    f->emitted = (int64_t)st->emitted;
    f->decode_ms = st->total_us / 1e3;
    const ls_speedup told = ls_stats_speedup_told(st);
    f->speedup = told.x, f->speedup_spread = told.spread;
    records.step(records.ud, step);
    tell(w);
}

static void on_end(void *ud, uint32_t turn, ls_finish reason, const ls_stats *totals) {
    ls_watched *w = ud;
    const ls_run_sink records = ls_trace_sink(w->trace);
    records.end(records.ud, turn, reason, totals);
}

ls_run_sink ls_watched_sink(ls_watched *w) {
    return (ls_run_sink){on_begin, on_step, on_end, w};
}

void ls_watched_end(ls_watched *w, ls_request_state state, const char *why) {
    ls_request_facts *f = &w->x->facts;
    ls_trace_close(w->trace, NULL);
    w->trace = NULL;
    f->state = state;
    f->read = 0;
    snprintf(f->why, sizeof f->why, "%s", why);
    tell(w);
}
