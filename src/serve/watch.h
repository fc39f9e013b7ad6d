// What the answer to a request tells watchers (trace/feed.h). The decoder's thread.
#pragma once
#include "serve/exchange.h"
#include "trace/trace.h"

typedef struct {
    ls_queue *queue;
    ls_exchange *x;
    ls_trace *trace; // NULL: nobody can watch
    const ls_runner *run;
} ls_watched;

void ls_watched_begin(ls_watched *w, ls_queue *q, ls_exchange *x, double queued_ms, ls_trace_level level);
void ls_watched_read(ls_watched *w, size_t prompt_tokens, double fraction); // of the prompt
ls_run_sink ls_watched_sink(ls_watched *w);
void ls_watched_end(ls_watched *w, ls_request_state state, const char *why); // why: it failed
