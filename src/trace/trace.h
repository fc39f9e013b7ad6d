// Trace files: `logitspec-trace` version 1, JSON Lines. Every line is an object with a `type`:
//
//   header  a turn begins: the model, the method, the configuration, the prompt
//   tokens  bytes of token ids, before the first use of each id in a conversation: a reader needs no tokenizer
//   step    one verified tree, as in ls_step (decode/step.h)
//   end     the turn is over
//
// trace_fields.def has every field; trace_format.md describes the guarantees of the format and the cost of the levels.
// trace/trace_read.h reads traces; trace/conversation.h keeps a conversation that can be saved at any time.
#pragma once
#include "decode/runner.h"
#include "trace/trace_write.h"

typedef struct ls_trace ls_trace;

void ls_trace_schema(ls_buf *out); // the JSON Schema of a line

// Creates the file, see base/io.h: "-" is standard output, .zst is compressed. go_on (may be NULL) is called while a
// pipe has no reader. LS_E_IO: the message has the reason. The caller's thread formats the lines; another thread
// writes.
ls_code ls_trace_open(ls_trace **out, const char *path, ls_trace_level level, ls_progress go_on, void *ud, ls_err *err);
// The same for a recording that goes elsewhere: put() gets whole lines. Never fails.
ls_trace *ls_trace_to(void (*put)(void *ud, const char *p, size_t n), void *ud, ls_trace_level level);
// Records what a runner does. The end of a turn that was cut by max_tokens is written when it cannot go on any more.
ls_run_sink ls_trace_sink(ls_trace *t);
// Another conversation took the place of this one: what its last turn adds is left out, because the trace does not have
// the beginning. Accepts NULL. in_turn: whether the trace has the beginning of the last turn.
void ls_trace_leave(ls_trace *t);
bool ls_trace_in_turn(const ls_trace *t);
// True once, after the first failed write (disk full, closed pipe). Decoding can continue, and the written part is
// valid.
bool ls_trace_failed(ls_trace *t, ls_err *err);
// Writes the remaining lines. False: the file is incomplete; err has the reason and the number of missing bytes.
// Accepts NULL.
bool ls_trace_close(ls_trace *t, ls_err *err);
