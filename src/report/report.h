// Collects traces for reports: turns by prompt, and groups (variants) side by side. It reads traces line by line and
// keeps a few numbers for each step and token, and the complete trees of a few steps. Zero-initialise. For one thread.
#pragma once
#include "decode/stats.h"
#include "decode/step.h"
#include "decode/suite.h"
#include "trace/trace_events.h"

enum { LS_REPORT_BINS = 10, LS_REPORT_WORST = 5, LS_REPORT_BEST = 2 };

// An output token and where it came from.
typedef struct {
    ls_draft draft;
    float p;
    uint32_t step;         // of its turn
    bool corrected, lossy; // replaces a rejected draft; accepted although the target chose another token
} ls_report_token;

// A step without its tree.
typedef struct {
    uint32_t index;
    int32_t context_len, output_pos, root;
    int16_t asked_rows, rows, probes, n_emitted;
    int16_t n_plain; // forwards that plain decoding needs for the same tokens
    bool forward, corrected;
    float draft_us, forward_us, verify_us, commit_us, total_us, plain_us; // plain_us 0: not known
} ls_report_step;

// A step with its tree: one with a large gain or loss, or one selected by the user.
typedef struct {
    size_t turn;         // index into ls_report.turns
    const ls_step *step; // kept
    double gain_us;      // ls_step_gain_us
} ls_report_tree;

// One turn of one trace.
typedef struct {
    char *file;
    ls_trace_header header; // owned
    size_t group, prompt;   // indexes into ls_report.groups and .prompts
    const ls_tokens *tokens;
    ls_report_token *text;
    size_t n_text;
    ls_report_step *steps;
    size_t n_steps;
    ls_stats stats;
    ls_finish finish; // LS_GOING: the trace ends before the turn does
} ls_report_turn;

size_t ls_report_same_text(const ls_report_turn *a, const ls_report_turn *b); // tokens with which both begin

// Turns with the same model, device, method and settings.
typedef struct {
    char *key, *label;
    size_t n_turns;
    size_t first_turn;
    ls_stats stats; // pooled
    double prefill_ms;
    // drafts whose parent was accepted, by their estimate; bin i begins at i / 10
    ls_ratio estimated[LS_REPORT_BINS]; // accepted of all
    double estimate_sum[LS_REPORT_BINS];
    ls_guarantee guarantee;                                      // of its acceptance
    ls_report_tree worst[LS_REPORT_WORST], best[LS_REPORT_BEST]; // by gain; n below
    int n_worst, n_best;
    // comparison with the first group, on prompts that both answered
    size_t shared, equal;       // turns; turns with the same text
    double shared_us, first_us; // decode time of these turns in this group; in the first group
} ls_report_group;

typedef struct {
    const char *text; // of the first turn with this prompt
    size_t *turns;    // turns whose tokens before the output are the same, in the order of the groups
    size_t n_turns;
} ls_report_prompt;

typedef struct {
    uint64_t tokenizer;
    ls_tokens tokens;
} ls_report_vocabulary;

typedef struct {
    ls_report_turn *turns;
    size_t n_turns;
    ls_report_group *groups;
    size_t n_groups;
    ls_report_prompt *prompts;
    size_t n_prompts;
    ls_report_tree *asked;
    size_t n_asked;
    size_t n_files;
    ls_trace_gaps gaps;
    ls_report_vocabulary **vocabularies;
    size_t n_vocabularies;
} ls_report;

void ls_report_free(ls_report *r);
// Reads one trace ("-": standard input). each: called for every step of the newest turn: whether to keep its tree, to
// show it; may be NULL.
ls_code ls_report_add(ls_report *r, const char *path, bool (*each)(void *ud, const ls_step *step), void *ud,
                      ls_err *err);
bool ls_report_is_whole(const ls_report *r); // it has a turn, and no turn and no line is cut short
// Call it after the last trace: makes labels, prompts and comparisons. LS_E_RANGE: the traces hold no step.
ls_code ls_report_finish(ls_report *r, ls_err *err);

// ---- the forms of a report; each appends to out
void ls_report_html(const ls_report *r, ls_buf *out);     // one self-contained page
void ls_report_markdown(const ls_report *r, ls_buf *out); // the tables
void ls_report_csv(const ls_report *r, ls_buf *out);      // a line for each step
void ls_report_json(const ls_report *r, ls_buf *out);     // the numbers of every table and plot
void ls_report_svg(const ls_report *r, ls_buf *out);      // the plots
// Chrome's trace-event format (JSON object form) for Perfetto and chrome://tracing: a process for each recording, with
// the prompt, the steps and their timed parts in sequence, and counters.
void ls_export_chrome(const ls_report *r, ls_buf *out);
// Spec-Bench's answer file (evaluation/eval.py, github.com/hemingkx/Spec-Bench): a JSON line for each conversation, in
// choices[0] a list each of turns, decoding_steps, new_tokens and wall_time (seconds, prompt included, as there), and
// accept_lengths of all steps. A numeric name is written as a number. question_id and category come from
// the suite's item with the same first prompt. If there is none, they are the conversation's number and "". suite may
// be NULL.
void ls_export_spec_bench(const ls_report *r, const ls_suite *suite, ls_buf *out);
