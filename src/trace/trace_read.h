// Reads trace files (trace/trace.h has the format) line by line. Every field is checked: an error names file, line and
// field. Needs no model. One thread.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "decode/stats.h"

#include <stdbool.h>

#define LS_TRACE_FORMAT "logitspec-trace"
#define LS_TRACE_VERSION 1

// The amount of detail of a step in a trace.
typedef enum {
    LS_LEVEL_STEPS, // emitted tokens, number of verified rows, times
    LS_LEVEL_NODES, // the whole tree, with the target's choice at every row; eight of the last logits
    LS_LEVEL_FULL,  // also the best eight tokens at every row and 64 of the last logits
} ls_trace_level;

const char *ls_trace_level_name(ls_trace_level level); // "steps", "nodes", "full"
ls_trace_level ls_trace_level_named(const char *name); // LS_LEVEL_FULL for an unknown name

typedef enum {
    LS_TRACE_NONE,
    LS_TRACE_HEADER,
    LS_TRACE_TOKENS,
    LS_TRACE_STEP,
    LS_TRACE_END,
    LS_TRACE_REQUEST, // of a server: in what is watched; the lines up to the next one belong to it
    LS_TRACE_OTHER    // a kind unknown to this program: skip it
} ls_trace_line;

// The content of the lines. A header begins a turn.
typedef struct {
    ls_trace_level level;
    ls_run run; // costs.base_ms[0] is 0: not measured
    char acceptance[64];
    int32_t eos;
    uint64_t seed;
    uint32_t turn;
    int32_t kept;       // number of earlier tokens that the prompt keeps; -1: all
    int32_t begun;      // number of tokens at the end of the prompt that begin the answer; -1: none
    int32_t cached;     // of a server: tokens of the prompt that were in a kept KV cache; -1: not known
    char history[20];   // of a server: what its drafter had been shown before, as a hash; "": not known
    ls_buf prompt_text; // the user's text
    ls_ids prompt;      // all tokens before the turn's output
    double prefill_ms;
    ls_buf config; // key, NUL, value, NUL, ...: the effective configuration
} ls_trace_header;
void ls_trace_header_free(ls_trace_header *h); // what it owns; leaves zeros
typedef struct {
    uint32_t turn; // written only
    ls_finish reason;
    const ls_stats *totals; // written only
} ls_trace_ending;
typedef struct {
    ls_ids ids, special; // special: the control tokens among the ids
    ls_ids ends;         // of each id's bytes; read only
    ls_buf bytes;        // read only
} ls_trace_tokens;

// The next setting of a header's `config`; *key is NULL at first. False: it was the last.
bool ls_trace_next_setting(const ls_buf *config, const char **key, const char **value);
const char *ls_trace_config(const ls_trace_header *h, const char *key); // "": there is no such key
ls_guarantee ls_trace_guarantee(const ls_trace_header *h); // by its acceptance rule; LS_LOSSY for an unknown rule

typedef struct ls_trace_reader ls_trace_reader;

// "-": standard input. Zstandard is recognised by its first bytes.
ls_code ls_trace_read_open(ls_trace_reader **out, const char *path, ls_err *err);
void ls_trace_read_close(ls_trace_reader *r);            // accepts NULL
double ls_trace_read_progress(const ls_trace_reader *r); // 0..1; negative: not known
// Cancels reading (LS_E_CANCELLED) when stop returns true.
void ls_trace_read_stop(ls_trace_reader *r, bool (*stop)(void *ud), void *ud);
// The next line; LS_TRACE_NONE at the end. LS_E_PARSE: "FILE:LINE: what"; LS_E_UNSUPPORTED: another major version.
// Skips an incomplete last line (ls_trace_read_gaps).
ls_code ls_trace_read_next(ls_trace_reader *r, ls_trace_line *kind, ls_err *err);

// What recordings are without. Numbers of such recordings must say so.
typedef struct {
    size_t torn;   // recordings whose last line is incomplete
    uint64_t lost; // lines that a server had no memory to keep for watchers
} ls_trace_gaps;
void ls_trace_read_gaps(const ls_trace_reader *r, ls_trace_gaps *sum); // adds those that r has met
void ls_trace_gaps_text(const ls_trace_gaps *g,
                        ls_buf *out); // appends nothing, or what is missing, without a full stop

// ---- partial reading (trace_index.c)

typedef struct {
    uint64_t offset; // bytes of text before the line
    size_t number;   // of the line, from 1
} ls_trace_place;

ls_trace_reader *ls_trace_read_of(ls_lines *lines); // takes ownership

// Skips the next line: gives its kind and place without reading its fields, but for those of a request. line->p is NULL
// at the end.
ls_code ls_trace_read_pass(ls_trace_reader *r, ls_trace_line *kind, ls_line *line, ls_err *err);
// From now on reads the lines at places[0..n) in that order. The lines must be seekable; places is borrowed.
void ls_trace_read_places(ls_trace_reader *r, const ls_trace_place *places, size_t n);

const char *ls_trace_read_text(const ls_trace_reader *r, size_t *n); // the last line verbatim, without its newline
// The content of the last line of that kind; valid until the next line of its kind.
const ls_trace_header *ls_trace_read_header(const ls_trace_reader *r);
const ls_step *ls_trace_read_step(const ls_trace_reader *r);
ls_finish ls_trace_read_finish(const ls_trace_reader *r); // of the last end line
const ls_request_facts *ls_trace_read_request(const ls_trace_reader *r);
// Continues with these lines, as if they followed the last ones. Takes them.
void ls_trace_read_more(ls_trace_reader *r, ls_lines *lines);
ls_event *
ls_trace_read_tokens(ls_trace_reader *r); // the event of the last tokens line; call it once; owned by the caller
