// Reads a trace as the events that its run sent, for screens and replays; one line at a time.
#pragma once
#include "decode/dialog.h"
#include "trace/trace_read.h"

typedef struct ls_trace_events ls_trace_events;

ls_code ls_trace_events_open(ls_trace_events **out, const char *path, ls_err *err); // "-": standard input
ls_trace_events *ls_trace_events_of(ls_trace_reader *r);                            // takes the reader
void ls_trace_events_close(ls_trace_events *t);                                     // accepts NULL
// The next event, owned by the caller; NULL at the end. Every conversation begins with its header.
ls_code ls_trace_events_next(ls_trace_events *t, ls_event **out, ls_err *err);
// The event of the turn of a header, which is the last one of the conversation, and has no step yet.
ls_event *ls_trace_prompt_event(const ls_trace_header *h, const ls_dialog *d);
ls_trace_reader *ls_trace_events_reader(const ls_trace_events *t); // borrowed
