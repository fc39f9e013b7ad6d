// Reads a trace as the events that its run sent, for screens and replays; one line at a time.
#pragma once
#include "decode/conversation.h"
#include "trace/trace_read.h"

typedef struct ls_trace_events ls_trace_events;

ls_code ls_trace_events_open(ls_trace_events **out, const char *path, ls_err *err); // "-": standard input
ls_trace_events *ls_trace_events_of(ls_trace_reader *r);                            // takes the reader
void ls_trace_events_close(ls_trace_events *t);                                     // accepts NULL
// The next event, owned by the caller; NULL at the end. Every conversation begins with its header.
ls_code ls_trace_events_next(ls_trace_events *t, ls_event **out, ls_err *err);
// The event of the turn of a header, which is the last one of the conversation, and has no step yet.
ls_event *ls_trace_prompt_event(const ls_trace_header *h, const ls_conversation *d);
ls_trace_reader *ls_trace_events_reader(const ls_trace_events *t); // borrowed

// ---- an index of a trace's lines, for access to any step of a long trace without reading the rest. The first pass
// only finds the ends and kinds of lines; it unpacks a pipe or a compressed trace into a temporary file. One thread.

typedef struct ls_trace_index ls_trace_index;

// path "-": standard input. Stops reading at that step of that turn, if it exists. Errors name file and line.
ls_code ls_trace_index_open(ls_trace_index **out, const char *path, size_t turn, size_t step, ls_err *err);
void ls_trace_index_close(ls_trace_index *x);         // accepts NULL
size_t ls_trace_index_turns(const ls_trace_index *x); // headers that were read, in the file's order
size_t ls_trace_index_steps(const ls_trace_index *x, size_t turn);
// The events that a listener needs for one step: header, tokens, prompt, up to `before` earlier steps, the step. Close
// them before the next call and before closing the index.
ls_code ls_trace_index_events(ls_trace_index *x, size_t turn, size_t step, size_t before, ls_trace_events **out,
                              ls_err *err);
