// Chooses the default number of threads of a forward. One for each core is not always the fastest: fewer threads may
// read memory as fast, threads meet at up to 243 barriers in a forward, and a machine may give a process fewer CPUs
// than it shows. So other numbers are timed once for each program, model, arithmetic and processor, by forwards of one
// row and of four rows, the most frequent sizes. The fastest number is kept in the user's cache folder.
#pragma once
#include "engine/load.h"

// Milliseconds of forwards with n threads.
typedef ls_code (*ls_threads_timer)(void *ud, int32_t n, double *ms, ls_err *err);
// Puts the fastest number into *best. Times `usual`, `most` (if larger), and smaller numbers of the form 2^k or 3 *
// 2^k, from large to small, until two numbers in turn are not faster. A number other than `usual` must take less than
// *share of the time of `usual`, also in a second measurement of both; *share may change until then. Errors: the
// timer's.
ls_code ls_threads_fastest(int32_t usual, int32_t most, ls_threads_timer time, void *ud, const double *share,
                           int32_t *best, ls_err *err);

// Sets the fastest number for m's engine, unless its number is fixed or the engine is slow (engine/engine.h). again:
// time forwards even if there is a cached number. If a forward fails or other programs use the processors, the cached
// number is used, otherwise one thread for each core. If one thread for each core had to wait for a CPU, a smaller
// number may be only temporarily faster. Then it must be much faster (a machine that shows more processors than it
// gives), and it is measured again later (engine/measured.h). Errors: LS_E_CANCELLED.
ls_code ls_threads_choose(ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err);
