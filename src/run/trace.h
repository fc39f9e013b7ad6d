// Trace files: `logitspec-trace` version 1, JSON Lines. Every line is an object with a `type`:
//
//   header  format, version, program, model, backend, method, acceptance, seed, config, turn, prompt_text, prompt_ids,
//           calibration
//   tokens  bytes: {"ID": base64}, special: [ID...]; precedes the first use of each id in a conversation, so a
//           reader needs no tokenizer
//   step    one verified tree; fields as in ls_step (run/step.h), listed in trace_schema.json beside this file
//   end     turn, reason, totals
//
// Levels: `full`; `nodes` leaves out the best tokens of every row and keeps eight of the last logits; `steps` also
// leaves out the branches, the last logits and every node that was not accepted. trace_format.md says what that costs.
//
// A conversation is a header..end group a turn, from turn 0 on; prompt_ids is then everything before the turn's output.
// Lines are written as they happen and flushed, so a file cut off anywhere is valid up to its last whole line. Unknown
// fields are to be ignored by readers, unknown major versions refused. Floats have nine digits, so that they come back
// as they were. run/trace_read.h reads it.
#pragma once
#include "run/conversation.h"
#include "run/load.h"
#include "run/session.h"
#include "run/stats.h"
#include "run/trace_level.h"
#include "run/trace_read.h"

typedef struct ls_trace ls_trace;

// Creates the file, see base/sink.h: "-" is standard output, .zst is compressed; go_on (NULL: none) is asked while
// nobody reads a pipe. LS_E_IO with the reason. The caller's thread only formats; another one writes.
ls_code ls_trace_open(ls_trace **out, const char *path, ls_trace_level level, ls_progress go_on, void *ud, ls_err *err);
// The current conversation in memory, see run/conversation.h: a turn that begins takes the place of those from its
// number on. vocab is borrowed.
ls_trace *ls_trace_open_memory(const ls_vocab *vocab);
ls_conversation *ls_trace_conversation(const ls_trace *t); // borrowed; NULL: it is no trace in memory
// Of a trace in memory: forgets turn `turn` and those after it.
void ls_trace_cut(ls_trace *t, uint32_t turn);
// Into a trace in memory: the line that r read last (of that kind) as it stands there, so that a turn which another
// program or version recorded stays what it was. turn: the number of the turn that a header begins.
void ls_trace_copy(ls_trace *t, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn);
// One turn begins. config: key, value, key, value, ..., NULL (the effective configuration); context: all tokens
// before the turn's output; text: what was typed.
void ls_trace_begin(ls_trace *t, const ls_model *m, const ls_session *s, const ls_decode_options *opt,
                    const char *const *config, uint32_t turn, const char *text, double prefill_ms);
void ls_trace_step(ls_trace *t, const ls_step *s);
void ls_trace_end(ls_trace *t, uint32_t turn, ls_finish reason, const ls_stats *st);
// True once, after the first failed write (disk full, closed pipe): decoding goes on, what was written stays valid.
bool ls_trace_failed(ls_trace *t, ls_err *err);
// Writes what is left. False: the file is not whole, and err says why and how much is missing. Accepts NULL.
bool ls_trace_close(ls_trace *t, ls_err *err);
