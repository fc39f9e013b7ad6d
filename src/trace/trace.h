// Trace files: `logitspec-trace` version 1, JSON Lines. Every line is an object with a `type`:
//
//   header  a turn begins: the model, the method, the configuration, the prompt
//   tokens  bytes of token ids, before the first use of each id in a conversation: a reader needs no tokenizer
//   step    one verified tree, as in ls_step (decode/step.h)
//   end     the turn is over
//
// trace_fields.def has every field; trace_format.md says what the format promises and what the levels cost. Readers are
// in trace/trace_read.h, the conversation that can be saved at any moment is in trace/conversation.h.
#pragma once
#include "trace/trace_write.h"

typedef struct ls_trace ls_trace;

void ls_trace_schema(ls_buf *out); // the JSON Schema of a line

// Creates the file, see base/sink.h: "-" is standard output, .zst is compressed; go_on (NULL: none) is asked while
// nobody reads a pipe. LS_E_IO with the reason. The caller's thread only formats; another one writes.
ls_code ls_trace_open(ls_trace **out, const char *path, ls_trace_level level, ls_progress go_on, void *ud, ls_err *err);
// A turn begins, with the header of ls_trace_describe.
void ls_trace_begin(ls_trace *t, const ls_model *m, const ls_trace_header *h);
void ls_trace_step(ls_trace *t, const ls_step *s);
void ls_trace_end(ls_trace *t, uint32_t turn, ls_finish reason, const ls_stats *st);
// True once, after the first failed write (disk full, closed pipe): decoding goes on, what was written stays valid.
bool ls_trace_failed(ls_trace *t, ls_err *err);
// Writes what is left. False: the file is not whole, and err says why and how much is missing. Accepts NULL.
bool ls_trace_close(ls_trace *t, ls_err *err);
