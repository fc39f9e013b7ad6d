// The plan of a lab: its runs, and the way to decode of each.
#pragma once
#include "cli/contender.h"
#include "report/lab_index.h"

typedef struct {
    ls_lab_index index; // runs only
    ls_contender *c;    // of each run
    size_t n;
} ls_lab_plan;

// The methods of the main table (NULL: every method that needs no file), plain decoding among them, and the runs of
// lab_runs.def, all under the options, with so many tokens a turn.
ls_code ls_lab_plan_make(ls_lab_plan *out, const char *methods, const ls_options *options, int32_t tokens, ls_err *err);
// How many tokens a turn may have for twelve prompts to take less than ten minutes by these costs, 16 to 64.
int32_t ls_lab_plan_tokens(const ls_lab_plan *p, const ls_cost_curve *costs);
void ls_lab_plan_free(ls_lab_plan *p);
