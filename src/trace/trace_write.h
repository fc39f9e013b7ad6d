// Formats the lines of a trace (trace/trace.h). One thread.
#pragma once
#include "base/json.h"
#include "engine/load.h"
#include "decode/session.h"
#include "trace/trace_read.h"

typedef struct {
    ls_trace_level level;
    uint32_t first; // number of the first turn, because a recording may begin in the middle of a conversation
    const ls_vocab *vocab;
    ls_buf line; // the last line, with its newline
    ls_jsonw w;
    ls_node node;  // see node_told
} ls_trace_writer; // set the first three fields and zero the others; free with ls_buf_free(&line)

// Each function puts its line into w->line. Headers and endings pass turns from 0; `first` is added when writing.
void ls_trace_write_header(ls_trace_writer *w, const ls_trace_header *h);
void ls_trace_write_tokens(ls_trace_writer *w, const ls_ids *ids); // at least one
void ls_trace_write_step(ls_trace_writer *w, const ls_step *s);
void ls_trace_write_end(ls_trace_writer *w, uint32_t turn, ls_finish reason, const ls_stats *totals);

void ls_run_describe(ls_run *r, const ls_model *m, const ls_session *s, const ls_decode_options *opt);
// The header of a turn that begins after `kept` tokens of the conversation. config: the effective configuration as
// key, value, key, value, ..., NULL; text: the user's text. Borrows the session's context; free it with
// ls_trace_header_free.
void ls_trace_describe(ls_trace_header *h, const ls_model *m, const ls_session *s, const ls_decode_options *opt,
                       const char *const *config, uint32_t turn, size_t kept, const char *text, double prefill_ms);
void ls_trace_header_free(ls_trace_header *h); // of ls_trace_describe
