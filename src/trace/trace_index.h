// An index of a trace's lines, for access to any step of a long trace without reading the rest. The first pass only
// finds the ends and kinds of lines; it unpacks a pipe or a compressed trace into a temporary file. One thread.
#pragma once
#include "trace/trace_events.h"

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
