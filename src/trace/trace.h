// Trace files: `logitspec-trace` version 1, JSON Lines. Every line is an object with a `type`:
//
//   header  a turn begins: the model, the method, the configuration, the prompt
//   tokens  bytes of token ids, before the first use of each id in a conversation: a reader needs no tokenizer
//   step    one verified tree, as in ls_step (decode/step.h)
//   end     the turn is over
//
// trace_fields.def has every field; trace_format.md says what the format promises and what the levels cost. Readers are
// in trace/trace_read.h.
#pragma once
#include "trace/conversation.h"
#include "engine/load.h"
#include "decode/session.h"
#include "decode/stats.h"
#include "trace/trace_level.h"
#include "trace/trace_read.h"

typedef struct ls_trace ls_trace;

void ls_trace_schema(ls_buf *out); // the JSON Schema of a line

// Creates the file, see base/sink.h: "-" is standard output, .zst is compressed; go_on (NULL: none) is asked while
// nobody reads a pipe. LS_E_IO with the reason. The caller's thread only formats; another one writes.
ls_code ls_trace_open(ls_trace **out, const char *path, ls_trace_level level, ls_progress go_on, void *ud, ls_err *err);
// The current conversation in memory, see trace/conversation.h: a turn that begins replaces the turns from its number on.
// vocab is borrowed.
ls_trace *ls_trace_open_memory(const ls_vocab *vocab);
ls_conversation *ls_trace_conversation(const ls_trace *t); // borrowed; NULL: it is no trace in memory
// Only in memory: forgets turn `turn` and those after it.
void ls_trace_cut(ls_trace *t, uint32_t turn);
// Copies the line that r read last, of that kind, into a trace in memory as it stands, so that a turn keeps what
// another program or version recorded. turn: the number of the turn that a header begins.
void ls_trace_copy(ls_trace *t, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn);
// A turn begins. config: the effective configuration as key, value, key, value, ..., NULL; text: what was typed.
void ls_trace_begin(ls_trace *t, const ls_model *m, const ls_session *s, const ls_decode_options *opt,
                    const char *const *config, uint32_t turn, const char *text, double prefill_ms);
void ls_trace_step(ls_trace *t, const ls_step *s);
void ls_trace_end(ls_trace *t, uint32_t turn, ls_finish reason, const ls_stats *st);
// True once, after the first failed write (disk full, closed pipe): decoding goes on, what was written stays valid.
bool ls_trace_failed(ls_trace *t, ls_err *err);
// Writes what is left. False: the file is not whole, and err says why and how much is missing. Accepts NULL.
bool ls_trace_close(ls_trace *t, ls_err *err);
