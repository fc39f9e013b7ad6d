// Records the traces of a lab: every run of its plan on every conversation of a suite, on one engine.
#pragma once
#include "cli/variant.h"
#include "cli/progress.h"
#include "report/lab.h"

typedef struct {
    size_t all, kept, decoded; // recordings: in the plan, already present, newly made
} ls_lab_recorded;

// Records into folder `dir`, which is created. A recording appears in the folder when it is complete. A recording of
// the same model, machine and settings is kept, so that an interrupted lab continues. LS_E_UNSUPPORTED: the folder has
// recordings of another model.
ls_code ls_lab_record(const ls_command_line *c, const char *dir, ls_gauge *gauge, ls_lab_recorded *out, ls_err *err);
