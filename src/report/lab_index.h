// The folder of a lab: traces/lab.jsonl lists the runs (variants) and the items (conversations); their recordings are
// traces/RUN/ITEM.jsonl.zst. The page needs only this list and the recordings.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

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
