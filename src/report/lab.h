// The results of a lab's recordings (report/lab_index.h): one for each run and conversation, and per-step counts of
// some runs. It needs no model. One thread.
#pragma once
#include "decode/totals.h"
#include "report/lab_counts.h"
#include "report/lab_index.h"
#include "trace/trace_read.h"

typedef struct {
    bool there; // there is a complete recording
    ls_result result;
} ls_lab_answer;

typedef struct {
    uint64_t n; // forwards
    double us;  // sum of their times
} ls_lab_forwards;

typedef struct {
    ls_lab_index index;
    ls_lab_answer *answers; // [run * index.n_items + item]
    bool *lossy;            // of each run: its acceptance rule is lossy
    bool *sampled;          // of each run: its tokens are sampled
    uint64_t *prompts;      // of each item: a hash of what was asked; 0: not known yet
    int ar;                 // the run with greedy plain decoding; -1: none
    ls_run machine;         // of the first recording, with the costs measured before it
    uint64_t seed;
    size_t n_there, n_left_out; // used recordings; skipped recordings
    uint64_t exact, different;  // greedy answers of exact runs other than `ar`; those that differ from its answer
    ls_lab_distances distances;
    ls_lab_matches matches;
    ls_lab_hits hits;
    ls_lab_forwards forwards[LS_MAX_ROWS + 1]; // by rows
} ls_lab;

// progress: called for each recording with the share that has been read; false stops (LS_E_CANCELLED). left_out:
// called with a message about each skipped recording.
typedef struct {
    bool (*progress)(void *ud, const char *stage, double fraction);
    void (*left_out)(void *ud, const char *text);
    void *ud;
} ls_lab_listener;

// Reads folder `dir`. LS_E_RANGE: there is no complete recording. LS_E_UNSUPPORTED: the recordings differ in model,
// machine, prompts or lengths, or a recording's method differs from its folder's name.
ls_code ls_lab_read(ls_lab *out, const char *dir, const ls_lab_listener *l, ls_err *err);
void ls_lab_free(ls_lab *lab);

const ls_lab_answer *ls_lab_answer_of(const ls_lab *lab, size_t run, size_t item);
// The sums of a run over the conversations of a category (NULL: all) that both it and plain decoding answered.
// interval: compute the 95% interval of the speedup by resampling.
ls_total ls_lab_total(const ls_lab *lab, size_t run, const char *category, bool interval);
// The categories in order of appearance, NULL-terminated; owned by the caller, the names borrowed.
const char **ls_lab_categories(const ls_lab *lab);
// A phrase that names the difference between two runs' machines or models; NULL: times and outputs can be compared.
const char *ls_lab_other_source(const ls_run *a, const ls_run *b);

// ---- the forms; each appends to out
void ls_lab_page(const ls_lab *lab, ls_buf *out); // HTML
void ls_lab_main_csv(const ls_lab *lab, ls_buf *out);
