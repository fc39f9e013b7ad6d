// How many threads share a forward where nobody says. One for each core is a guess: memory may be read as fast by
// fewer, threads wait for each other up to 243 times in a forward, and a machine may give a process less than it shows.
// So other numbers are timed once for each program, model, arithmetic and processor, by forwards of one row and of
// four, which are what a step mostly is. The fastest is kept in the user's cache folder.
#pragma once
#include "engine/load.h"

// Milliseconds of forwards with n threads.
typedef ls_code (*ls_threads_timer)(void *ud, int32_t n, double *ms, ls_err *err);
// Puts the fastest number into *best. Timed are usual, most (if that is more), and smaller numbers, each a power of two
// or three times one, from large to small until two in turn are no faster. A number other than usual must take less
// than *share of its time, also when both are timed once more; *share may change until then. Errors: the timer's.
ls_code ls_threads_fastest(int32_t usual, int32_t most, ls_threads_timer time, void *ud, const double *share,
                           int32_t *best, ls_err *err);

// Has m's engine use the fastest number, unless its number is fixed or the engine is slow (engine/engine.h). again:
// time forwards even if a choice is kept. If a forward fails or other programs have the processors, the choice that is
// kept stays, else one for each core. Where one thread for each core had to wait for processors, a smaller number may
// be the fastest only for now: it must be much faster, as where a machine shows more processors than it gives, and that
// is measured again (engine/measured.h). Errors: LS_E_CANCELLED.
ls_code ls_threads_choose(ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err);
