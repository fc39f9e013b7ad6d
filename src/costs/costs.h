// What forwards cost on this machine: T(rows, context), measured once per model, arithmetic, processor and number of
// threads, and kept in the user's cache folder (XDG_CACHE_HOME, else ~/.cache; logitspec/costs/). Steps correct it as
// they run (ls_cost_observe), so an old or noisy measurement fades.
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
    bool kept;     // ... and an earlier measurement stays in force; else this one is used, and not cached
    double waited; // share of the time that the program's threads waited for a processor; NAN: not known
    double apart;  // the longer over the shorter time of one row, before and after all others
} ls_costs_noise;

// Fills *out. The model's timeline must be empty, and is empty afterwards. again: measure even if costs are cached. An
// engine that is slow (engine/engine.h) is measured briefly, and that is not cached, unless again. The scripted model
// is never cached, nor disturbed. Errors: those of the forwards; LS_E_CANCELLED. A cache that cannot be read or written is only a
// measurement more. A measurement that other programs disturb is repeated; *noise tells how it ended. busy: the share
// of waits from which it is disturbed, LS_BUSY; above 1: never, below 0: always (for tests).
ls_code ls_costs_get(ls_cost_curve *out, ls_model *m, bool again, double busy, ls_costs_noise *noise,
                     ls_progress progress, void *ud, ls_err *err);
enum { LS_COSTS_NOTE = 200 };
// One line for the user, of LS_COSTS_NOTE bytes. False: the machine was quiet, and there is nothing to say.
bool ls_costs_note(const ls_costs_noise *n, char *out);
