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
// Fills *out. The model's timeline must be empty, and is empty afterwards. again: measure even if costs are cached. A
// engine that is slow (engine/engine.h) is measured briefly, and that is not cached, unless again. The scripted model
// is never cached. Errors: those of the forwards; LS_E_CANCELLED. A cache that cannot be read or written is only a
// measurement more.
ls_code ls_costs_get(ls_cost_curve *out, const ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err);
