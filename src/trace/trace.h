// Trace files: `logitspec-trace` version 1, JSON Lines. Every line is an object with a `type`:
//
//   header  a turn begins: the model, the method, the configuration, the prompt
//   tokens  bytes of token ids, before the first use of each id in a conversation: a reader needs no tokenizer
//   step    one verified tree, as in ls_step (decode/step.h)
//   end     the turn is over
//
// trace_fields.def has every field; trace_format.md describes the guarantees of the format and the cost of the levels.
// trace/trace_read.h reads traces; trace/conversation_log.h keeps a conversation that can be saved at any time.
#pragma once
#include "decode/runner.h"
#include "trace/trace_read.h"

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

// ---- the lines of a trace, formatted by one thread

// The token ids whose bytes a listener already has: traces and screens get each id's bytes once, before its first use.
typedef struct {
    uint8_t *known;
    int32_t n;    // size of the vocabulary
    ls_ids order; // the known ids, in the order in which they were added
} ls_seen;

void ls_seen_init(ls_seen *s, int32_t n_vocab); // makes s empty; s must be zeroed or initialised before
void ls_seen_free(ls_seen *s);
void ls_seen_cut(ls_seen *s, size_t n); // keeps only the first n of `order`
// Appends the new ids to fresh; ignores ids out of range.
void ls_seen_ids(ls_seen *s, const int32_t *ids, size_t n, ls_ids *fresh);
void ls_seen_step(ls_seen *s, ls_trace_level level, const ls_step *step, ls_ids *fresh); // those that the level shows

typedef struct {
    ls_trace_level level;
    uint32_t first; // number of the first turn, because a recording may begin in the middle of a conversation
    const ls_vocab *vocab;
    ls_seen seen; // ids whose bytes were written
    ls_buf line;  // the last line, with its newline
    ls_jsonw w;
    ls_node node;  // see node_told
} ls_trace_writer; // set the first three fields and zero the others
void ls_trace_writer_free(ls_trace_writer *w);

// Each function puts its line into w->line. Headers and endings pass turns from 0; `first` is added when writing.
void ls_trace_write_header(ls_trace_writer *w, const ls_trace_header *h);
// The bytes of ids whose bytes were not written before; of a step: call it before the step is written. An empty line:
// there are none.
void ls_trace_write_ids(ls_trace_writer *w, const int32_t *ids, size_t n);
void ls_trace_write_ids_of(ls_trace_writer *w, const ls_step *s);
void ls_trace_write_step(ls_trace_writer *w, const ls_step *s);
void ls_trace_write_end(ls_trace_writer *w, uint32_t turn, ls_finish reason, const ls_stats *totals);
void ls_trace_write_request(ls_trace_writer *w, const ls_request_facts *f);

// s: NULL: no session yet, so no costs are known.
void ls_run_describe(ls_run *r, const ls_model *m, const ls_session *s, const ls_decode_options *opt);
// The header of a turn that begins; free it with ls_trace_header_free.
void ls_trace_describe(ls_trace_header *h, const ls_runner *run, double prefill_ms);
