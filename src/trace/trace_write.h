// Formats the lines of a trace (trace/trace.h). One thread.
#pragma once
#include "base/json.h"
#include "decode/runner.h"
#include "trace/trace_read.h"

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
// The header of a turn that begins. Borrows the session's context; free it with ls_trace_header_free.
void ls_trace_describe(ls_trace_header *h, const ls_runner *run, double prefill_ms);
void ls_trace_header_free(ls_trace_header *h); // of ls_trace_describe
