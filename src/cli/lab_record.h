// Records what the pages of the lab are made of: every run of its plan on every conversation of a suite, on one engine.
#pragma once
#include "cli/contender.h"
#include "cli/progress.h"
#include "report/lab_index.h"

typedef struct {
    size_t all, kept, decoded; // recordings: of the plan, that were there already, that were made
} ls_lab_recorded;

// Records into folder `dir`, which is made. A recording takes its place when it is whole, and one that is there, of the
// same model, machine and settings, is kept: a lab that was stopped goes on. LS_E_UNSUPPORTED: recordings of another
// model are there.
ls_code ls_lab_record(const ls_command_line *c, const char *dir, ls_gauge *gauge, ls_lab_recorded *out, ls_err *err);
