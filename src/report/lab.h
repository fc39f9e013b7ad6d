// A lab: the folder of its recordings, and their results.
#pragma once
#include "report/bench.h"
#include "report/chart.h"
#include "trace/trace_read.h"

// ---- the folder: traces/lab.jsonl lists the runs (variants) and the items (conversations); their recordings are
// traces/RUN/ITEM.jsonl.zst. The page needs only this list and the recordings.

// The table or figure in which a run is shown.
typedef enum {
#define USE(name, ...) LS_LAB_##name,
#include "report/lab_uses.def"
    LS_LAB_USES
} ls_lab_use;

enum { LS_LAB_WORD = 80, LS_LAB_MOST_RUNS = 256, LS_LAB_MOST_ITEMS = 9999, LS_LAB_MOST_ANSWERS = 100000 };

typedef struct {
    ls_lab_use use;
    char series[LS_LAB_WORD]; // name of the point's line
    char label[LS_LAB_WORD];  // of the point
    double x;                 // the point's place on the x axis
} ls_lab_place;

typedef struct {
    char word[LS_LAB_WORD]; // the variant, as in --methods
    double temperature;
    ls_lab_place *places;
    size_t n_places;
} ls_lab_run;

typedef struct {
    char *name, *category;
} ls_lab_item;

typedef struct {
    ls_lab_run *runs;
    size_t n_runs;
    ls_lab_item *items;
    size_t n_items;
    int32_t max_tokens; // of a turn
} ls_lab_index;

void ls_lab_index_free(ls_lab_index *x);
// Adds a place to the run of this word and temperature; adds the run if necessary.
void ls_lab_index_place(ls_lab_index *x, const char *word, double temperature, const ls_lab_place *place);
void ls_lab_index_item(ls_lab_index *x, const char *name, const char *category);
const ls_lab_place *ls_lab_run_place(const ls_lab_run *r, ls_lab_use use); // the first; NULL: not shown there

// The list of folder `dir`. Every field is checked: an error names file and line. LS_E_IO: there is none.
ls_code ls_lab_index_read(ls_lab_index *out, const char *dir, ls_err *err);
ls_code ls_lab_index_write(const ls_lab_index *x, const char *dir, ls_err *err); // replaces it at once
char *ls_lab_trace_path(const char *dir, const ls_lab_run *r, size_t item);      // owned by the caller

// ---- per-step counts beyond the common statistics; zero-initialise. All numbers are uint64_t.

enum { LS_LAB_NEAREST = 2, LS_LAB_FARTHEST = 4, LS_LAB_DISTANCES = LS_LAB_FARTHEST - LS_LAB_NEAREST + 1 };

// The ranks of the following tokens in the last logits. The last logits of a position predict the token at distance 1,
// the root; the token at distance 2 is the next-next token.
typedef struct {
    uint64_t of[LS_LAB_DISTANCES];                   // positions whose output has a token at that distance
    uint64_t rank[LS_LAB_DISTANCES][LS_MAX_TOP + 1]; // ... by its rank, 0 the best; the last: not among those kept
} ls_lab_distances;
// top[i], n_top entries, are the last logits that predicted output[i]; n_top 0: they were not kept.
typedef struct {
    int32_t token;
    int16_t n_top;
    int32_t top[LS_MAX_TOP];
} ls_lab_position;
void ls_lab_count_distances(ls_lab_distances *d, const ls_lab_position *output, size_t n); // of one turn

enum { LS_LAB_MATCHES = 4 };

// Branches by the length of the n-gram match behind their continuation; 0: no match.
typedef struct {
    uint64_t branches, helped; // helped: with an accepted draft
    uint64_t accepted;         // their accepted drafts
} ls_lab_match;
typedef struct {
    ls_lab_match root[LS_LAB_MATCHES];  // the root's own continuation
    ls_lab_match guess[LS_LAB_MATCHES]; // guesses from the last logits, with what follows them
} ls_lab_matches;
void ls_lab_count_matches(ls_lab_matches *m, const ls_step *s);

// Acceptance by place in the tree: the path from the root, at each depth the place among the siblings, most likely
// first (by the drafter's estimate; equal estimates in the order of their rows).
enum { LS_LAB_PLACES = 4, LS_LAB_DEPTH = 4, LS_LAB_HIT_NODES = 4 + 16 + 64 + 256 };
typedef struct {
    uint64_t tested, accepted; // drafts there whose parent was accepted; accepted of those
} ls_lab_hit;
typedef struct {
    uint64_t trees; // forwards with a draft and a recorded tree
    ls_lab_hit node[LS_LAB_HIT_NODES];
} ls_lab_hits;
void ls_lab_count_hits(ls_lab_hits *h, const ls_step *s);
// The index of the first child's node; parent -1: the root. Its siblings follow. -1: too deep.
int ls_lab_hit_child(int parent);

typedef struct {
    uint64_t n;       // forwards
    double us;        // sum of their times
    ls_ratio experts; // of a mixture: of all layers, of these forwards whose experts are known
} ls_lab_forwards;

// ---- all recordings: a benchmark of the runs on the conversations, and per-step counts of some runs. It needs no
// model. One thread.

typedef struct {
    ls_lab_index index;
    ls_bench b;        // methods: the runs; prompts: the items. A result without turns: there is no complete recording
    bool *sampled;     // of each run: its tokens are sampled
    uint64_t *prompts; // of each item: a hash of what was asked; 0: not known yet
    ls_run machine;    // of the first recording, with the costs measured before it
    uint64_t seed;
    size_t n_there, n_left_out; // used recordings; skipped recordings
    uint64_t exact, different;  // greedy answers of exact runs other than plain decoding; those that differ from it
    ls_lab_distances distances;
    ls_lab_matches matches;
    ls_lab_hits hits;
    ls_lab_forwards forwards[LS_MAX_ROWS + 1]; // by rows
} ls_lab;

// progress: called for each recording with the share that has been read; false stops (LS_E_CANCELLED). left_out:
// called with the path of each recording that is skipped, because it is incomplete or damaged.
typedef struct {
    ls_progress progress;
    void (*left_out)(void *ud, const char *path);
    void *ud;
} ls_lab_listener;

// Reads folder `dir`. LS_E_RANGE: there is no complete recording. LS_E_UNSUPPORTED: the recordings differ in model,
// machine, prompts or lengths, or a recording's method differs from its folder's name.
ls_code ls_lab_read(ls_lab *out, const char *dir, const ls_lab_listener *l, ls_err *err);
void ls_lab_free(ls_lab *lab);

// A phrase that names the difference between two runs' machines or models; NULL: times and outputs can be compared.
const char *ls_lab_other_source(const ls_run *a, const ls_run *b);

// ---- the forms

typedef enum {
#define FIGURE(name, ...) LS_FIGURE_##name,
#include "report/lab_figures.def"
    LS_FIGURES
} ls_lab_figure;

// Empty (n is 0) if the recordings lack the data of the figure.
ls_chart ls_lab_chart(const ls_lab *lab, ls_lab_figure f);
ls_table ls_lab_totals(const ls_lab *lab); // a row for each method of the main table and each category, only for CSV
void ls_lab_page(const ls_lab *lab, ls_buf *out); // appends HTML
