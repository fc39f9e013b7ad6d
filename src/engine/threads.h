// How many threads share a forward where nobody says: as many as are fastest, measured once per model, arithmetic and
// processor, and kept in the user's cache folder. Cores are not always worth a thread: memory may be read as fast by
// fewer, threads wait for each other up to 243 times in a forward, and a container may have fewer processors than it
// sees. Forwards of few rows, which wait for memory, and of many, which compute, are measured apart.
#pragma once
#include "engine/load.h"

// Milliseconds of forwards with n threads.
typedef ls_code (*ls_threads_timer)(void *ud, int32_t n, double *ms, ls_err *err);
// Puts into *best the fastest of `most` (where that is more than usual), usual, and smaller numbers, each a power of
// two or three times one, from large to small until two in turn are no faster. A number other than usual must be so by
// 3%, also when both are timed once more. Errors: the timer's.
ls_code ls_threads_fastest(int32_t usual, int32_t most, ls_threads_timer time, void *ud, int32_t *best, ls_err *err);

// Has m's engine use that many, if their number is not fixed and nothing computes slower than it could (an engine that
// is slow takes one for each core). again: measure even if a choice is kept. While other programs have the processors
// the usual number, one for each core, stays, and nothing is kept. Errors: those of the forwards; LS_E_CANCELLED.
ls_code ls_threads_choose(ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err);
enum { LS_THREADS_TEXT = 64 };
// "1 thread", "4 threads", "4 threads (16 for more than 8 rows)".
void ls_threads_text(const ls_engine *e, char out[LS_THREADS_TEXT]);
