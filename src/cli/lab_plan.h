// The plan of a lab: its runs, and how each run decodes.
#pragma once
#include "cli/variant.h"
#include "report/lab.h"

typedef struct {
    ls_lab_index index; // runs only
    ls_variant *c;      // of each run
    size_t n;
} ls_lab_plan;

// Makes the plan: the methods of the main table (NULL: every method that needs no file), always with plain decoding,
// and the runs of lab_runs.def. All use the options, with `tokens` tokens per turn.
ls_code ls_lab_plan_make(ls_lab_plan *out, const char *methods, const ls_options *options, int32_t tokens, ls_err *err);
// Tokens per turn, 16 to 64, so that twelve prompts take less than ten minutes with these costs.
int32_t ls_lab_plan_tokens(const ls_lab_plan *p, const ls_cost_curve *costs);
void ls_lab_plan_free(ls_lab_plan *p);
