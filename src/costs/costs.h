// The time of forwards on this machine, T(rows, context), measured once per model, arithmetic, processor and number of
// threads, and cached in the user's cache folder (engine/measured.h). Each step corrects it (ls_cost_observe), so
// errors of an old or noisy measurement decay.
#pragma once
#include "engine/load.h"
#include "spec/cost_curve.h"

// Measures two sizes on an empty timeline, which stays empty; proportional above. A rough estimate that steps correct.
ls_code ls_costs_measure_briefly(ls_cost_curve *out, ls_timeline *t, ls_err *err);
// The same from the times of forwards of one row and of n_few rows, ms.
void ls_costs_of_two(ls_cost_curve *out, double one_ms, double few_ms, int32_t n_few);
// Whether other programs disturbed a measurement, and which costs are used.
typedef struct {
    bool busy;     // every attempt was disturbed
    bool kept;     // busy only: an earlier measurement is used; false: this one is used for ten minutes
    double waited; // share of thread time spent waiting for a CPU; NAN: not known
    double apart;  // longer / shorter time of one row, measured before and after the other sizes
} ls_costs_noise;

// At once: if there are no cached costs, measures only a few forwards, mostly of up to 16 rows, and keeps the shortest
// times of several starts.
// Measured: measures all sizes, in a second for a small model and ten for a large one. Anew: even if the cached costs
// were measured undisturbed.
typedef enum { LS_COSTS_AT_ONCE, LS_COSTS_MEASURED, LS_COSTS_ANEW } ls_costs_wish;
// Fills *out, with its own timelines. For a slow engine (engine/engine.h) only two sizes are measured and not cached,
// unless anew. The scripted model's costs are never cached and never count as disturbed. Errors: those of the forwards;
// LS_E_CANCELLED. If the cache cannot be read or written, the costs are measured again. A disturbed measurement is
// repeated; if it is still disturbed, it is cached and marked so, and *noise has the details. busy: the share of waits
// above which a measurement is disturbed, normally LS_BUSY; above 1: never, below 0: always (for tests).
ls_code ls_costs_get(ls_cost_curve *out, ls_model *m, ls_costs_wish wish, double busy, ls_costs_noise *noise,
                     ls_progress progress, void *ud, ls_err *err);
// Whether the costs used by this process should be measured again while the program is idle.
bool ls_costs_due(const ls_model *m);
enum { LS_COSTS_NOTE = 200 };
// Writes a note for the user, of at most LS_COSTS_NOTE bytes. False: no note, because the measurement was undisturbed.
bool ls_costs_note(const ls_costs_noise *n, char *out);
