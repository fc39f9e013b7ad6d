// What forwards cost on this machine: T(rows, context), measured once per model, arithmetic, processor and number of
// threads, and kept in the user's cache folder (engine/measured.h). Steps correct it as they run (ls_cost_observe), so
// an old or noisy measurement fades.
#pragma once
#include "engine/load.h"
#include "spec/cost_curve.h"

// Of a timeline that is empty, and stays so: two sizes, and in proportion beyond. For what steps soon correct.
ls_code ls_costs_measure_briefly(ls_cost_curve *out, ls_timeline *t, ls_err *err);
// The same from the times of forwards of one row and of n_few, ms.
void ls_costs_of_two(ls_cost_curve *out, double one_ms, double few_ms, int32_t n_few);
// Whether other programs disturbed a measurement, and what became of it.
typedef struct {
    bool busy;     // they did, each time it was tried
    bool kept;     // ... and an earlier measurement stays in force; else this one is used for ten minutes
    double waited; // share of the time that the program's threads waited for a processor; NAN: not known
    double apart;  // the longer over the shorter time of one row, before and after all others
} ls_costs_noise;

// At once: where nothing is kept, a few forwards must do, mostly of up to 16 rows; of those of several starts the
// shortest times count.
// Measured: nothing else but all sizes, in a second for a small model and ten for a large one. Anew: even if costs of a
// quiet moment are kept.
typedef enum { LS_COSTS_AT_ONCE, LS_COSTS_MEASURED, LS_COSTS_ANEW } ls_costs_wish;
// Fills *out from timelines of its own. An engine that is slow (engine/engine.h) is measured by two sizes, and that is
// not kept, unless anew. The scripted model's are never kept, nor disturbed. Errors: those of the forwards;
// LS_E_CANCELLED. A cache that cannot be read or written is only a measurement more. A measurement that other programs
// disturb is repeated, and kept as such if they still do; *noise tells how it ended. busy: the share of waits from
// which it is disturbed, LS_BUSY; above 1: never, below 0: always (for tests).
ls_code ls_costs_get(ls_cost_curve *out, ls_model *m, ls_costs_wish wish, double busy, ls_costs_noise *noise,
                     ls_progress progress, void *ud, ls_err *err);
// Whether the costs that this process uses should be measured when nobody waits.
bool ls_costs_due(const ls_model *m);
enum { LS_COSTS_NOTE = 200 };
// One line for the user, of LS_COSTS_NOTE bytes. False: the machine was quiet, and there is nothing to say.
bool ls_costs_note(const ls_costs_noise *n, char *out);
