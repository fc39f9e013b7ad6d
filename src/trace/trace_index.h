// An index of a trace's lines: any step of a long trace can be shown without reading the rest. The first pass looks for
// line ends and kinds only; it unpacks a pipe or a compressed trace into a temporary file. One thread.
#pragma once
#include "trace/trace_events.h"

typedef struct ls_trace_index ls_trace_index;

// path "-": standard input. Reads no further than that step of that turn, if they are there. Errors name file and line.
ls_code ls_trace_index_open(ls_trace_index **out, const char *path, size_t turn, size_t step, ls_err *err);
void ls_trace_index_close(ls_trace_index *x);         // accepts NULL
size_t ls_trace_index_turns(const ls_trace_index *x); // headers that were read, in the file's order
size_t ls_trace_index_steps(const ls_trace_index *x, size_t turn);
// The events that a listener needs to show one step: header, tokens, prompt, up to `before` steps before it, the step.
// Close them before the next call and before the index.
ls_code ls_trace_index_events(ls_trace_index *x, size_t turn, size_t step, size_t before, ls_trace_events **out,
                              ls_err *err);
