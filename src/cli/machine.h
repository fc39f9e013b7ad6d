// What a benchmark says of program, machine and model (report/manifest.def).
#pragma once
#include "base/cpuwait.h"
#include "engine/load.h"
#include "report/bench.h"

typedef struct {
    ls_manifest *m;
    ls_cpu_wait waits;
} ls_machine_watch;

// Before the measurement: program and machine, and how loaded it is.
ls_machine_watch ls_machine_begin(ls_manifest *m);
// What the processor reaches at most with so many threads; 0: one for each core. LS_E_BACKEND: there is no compute
// library. A second call keeps the larger of each.
ls_code ls_machine_limits(ls_manifest *m, int32_t threads, ls_err *err);
void ls_machine_model(ls_manifest *m, const ls_model *model);
void ls_machine_model_limits(ls_manifest *m, const ls_model *model); // where it runs on the processor
void ls_machine_end(ls_machine_watch *w);                            // after it: load, waits, and the limits once more
