// Measurements of a model on this machine. Times forwards, and keeps results in the user's cache folder
// (logitspec/costs/ in XDG_CACHE_HOME, by default ~/.cache): a text file for each key, with its date and its
// reliability.
#pragma once
#include "engine/load.h"
#include "spec/cost_curve.h"

enum { LS_MEASURED_KEY = 1200 };
// The cache key, one line with everything that affects the time of a forward: program, model, device, arithmetic,
// kernels, library, threads (as given by the caller), processor. Returns the path of that key's file, owned by the
// caller; NULL: nothing is cached (the scripted model, or no cache folder).
char *ls_measured_path(const ls_model *m, const char *threads, char key[LS_MEASURED_KEY]);

// How it was measured: with few forwards, so that an answer begins at once; disturbed by other programs; undisturbed.
typedef enum { LS_MEASURED_BRIEFLY, LS_MEASURED_BUSY, LS_MEASURED_QUIETLY, LS_MEASURED_HOWS } ls_measured_how;
extern const char *const ls_measured_hows[LS_MEASURED_HOWS]; // as the files have it
typedef struct {
    int64_t when; // seconds since 1970
    ls_measured_how how;
} ls_measured;

// Lists all cached measurements, of any model; what: "costs" or "threads".
typedef void (*ls_measured_each)(void *ud, const char *what, const char *key, const ls_measured *is);
void ls_measured_list(ls_measured_each each, void *ud);
int ls_measured_forget(void); // removes all cached measurements; returns the number of files

// ---- the time of forwards on this machine, T(rows, context, experts), measured once per model, arithmetic, processor
// and number of threads, and cached. Each step corrects it (ls_cost_observe), so errors of an old or noisy measurement
// decay.

// Sets the sliding window: it is of the model, so not in the file of its costs.
void ls_costs_window(ls_cost_curve *z, const ls_engine *e);
// Measures two sizes on an empty KV cache, which stays empty; proportional above. A rough estimate that steps correct.
ls_code ls_costs_measure_briefly(ls_cost_curve *out, ls_kv_cache *t, ls_err *err);
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
// Fills *out, with its own KV caches. For a slow engine (engine/engine.h) only two sizes are measured and not cached,
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

// ---- the default number of threads of a forward. One for each core is not always the fastest: fewer threads may
// read memory as fast, threads meet at up to 243 barriers in a forward, and a machine may give a process fewer CPUs
// than it shows. So other numbers are timed once for each program, model, arithmetic and processor, by forwards of one
// row and of four rows, the most frequent sizes. The fastest number is kept in the user's cache folder.

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
// gives), and it is measured again later. Errors: LS_E_CANCELLED.
ls_code ls_threads_choose(ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err);

// ---- the current time of a plain decode step on this machine. It is not a constant: single-row forwards are timed in
// this process at the contexts being decoded.

enum { LS_PLAIN_RECENT = 9 };

typedef struct {
    double us;                      // smoothed; 0: not measured yet
    int32_t at;                     // context length of the last measurement
    double timed[LS_PLAIN_RECENT];  // the last single-row forwards, us
    uint64_t n_timed;               // of all
    double recent[LS_PLAIN_RECENT]; // times of whole steps, with any number of rows
    uint64_t n_steps;
} ls_plain_cost;

// True when the context moved far enough from the last measurement (64 tokens).
bool ls_plain_due(const ls_plain_cost *a, int32_t context);
// Records that a whole step of one or more rows took step_us. A plain step cannot take longer, so if the timed forwards
// were disturbed, the median of the last steps replaces them.
void ls_plain_bound(ls_plain_cost *a, double step_us);
// The relative spread of the last timed forwards: half their range / their median, without the fastest and the slowest
// if there are six or more. 0: not measured yet.
double ls_plain_spread(const ls_plain_cost *a);
// Times three single-row forwards of `token` on top of the committed context (nothing is committed); keeps the
// median. host_us: time of a plain step outside the forward.
ls_code ls_plain_measure(ls_plain_cost *a, ls_kv_cache *kv_cache, int32_t token, const lst_sampling *s, double host_us,
                         ls_err *err);
