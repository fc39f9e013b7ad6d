#include "engine/threads.h"
#include "base/system.h"
#include "base/buf.h"
#include "base/log.h"
#include "engine/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char magic[] = "logitspec-threads 2";

// The largest number below n of the form 2^k or 3 * 2^k; 0: there is none.
static int32_t next_below(int32_t n) {
    int32_t power = 1;
    if (n <= 1) return 0;
    while (2 * power < n) power *= 2;
    return power + power / 2 < n ? power + power / 2 : power;
}

ls_code ls_threads_fastest(int32_t usual, int32_t most, ls_threads_timer time, void *ud, const double *share,
                           int32_t *best, ls_err *err) {
    double usual_ms, usual_again, best_ms, again, ms;
    *best = usual;
    ls_code code = time(ud, usual, &usual_ms, err);
    best_ms = usual_ms;
    int32_t n = most > usual ? most : next_below(usual);
    for (int in_vain = 0; !code && n && in_vain < 2; n = next_below(n > usual ? usual : n)) {
        code = time(ud, n, &ms, err);
        if (!code && ms < best_ms) {
            *best = n;
            best_ms = ms;
            in_vain = 0;
        } else if (n < usual) in_vain++;
    }
    if (code || *best == usual) return code;
    code = time(ud, *best, &again, err);
    if (!code) code = time(ud, usual, &usual_again, err);
    if (!code && !(fmax(best_ms, again) < *share * fmin(usual_ms, usual_again))) *best = usual;
    return code;
}

// ---- of a model

typedef struct {
    ls_engine *engine;
    ls_timeline *t;
    int calls;    // of time_forwards, so far
    bool waited;  // with the usual number, threads had to wait for a CPU
    double share; // another number must take less than this share of the usual number's time
    ls_progress progress;
    void *ud;
} trial;

static ls_code time_forwards(void *ud, int32_t n, double *ms, ls_err *err) {
    enum { FEW = 4, REPEATS = 5 };
    static const double MUCH = 1 / 1.5; // with 8 processors shown but 2 given, 2 threads took 1 / 2.2
    trial *x = ud;
    double one, few;
    // The number of trials is unknown, so progress approaches 1 asymptotically.
    if (x->progress && !x->progress(x->ud, "measuring threads", 1 - 1.0 / ++x->calls))
        return ls_fail(err, LS_E_CANCELLED, "the measurement of threads was cancelled");
    ls_cpu_wait load = {0};
    ls_code code = x->engine->use_threads(x->engine, n, err);
    if (!code) code = ls_measure_forward(x->t, 1, 1, &one, err); // also starts the threads, before anything is read
    ls_cpu_wait_share(&load, 0);
    if (!code) code = ls_measure_forward(x->t, 1, REPEATS, &one, err);
    if (!code) code = ls_measure_forward(x->t, FEW, REPEATS, &few, err);
    // If another program uses one of two processors, one thread is the fastest, and it never waits.
    if (n == x->engine->usual_threads && ls_cpu_wait_share(&load, 0) > LS_BUSY) {
        x->waited = true;
        x->share = MUCH;
    }
    if (!code) *ms = one + few;
    return code;
}

// Number of layers to time: the first layers of a large model are enough for a comparison; 0: all.
static int32_t layers_to_time(const ls_engine *e) {
    static const double BYTES = 256e6;
    const double head = e->row_macs ? (double)e->head_macs / (double)e->row_macs : 0,
                 layer = (double)e->weight_bytes * (1 - head) / e->n_layers;
    return BYTES < layer * e->n_layers ? (int32_t)(BYTES / layer) + 1 : 0;
}

// *busy: even with the fastest number, threads waited for a CPU; *sure: with one thread for each core, none waited.
static ls_code measure(ls_engine *e, bool *busy, bool *sure, ls_progress progress, void *ud, ls_err *err) {
    int32_t best;
    double ms;
    trial x = {.engine = e, .share = 0.97, .progress = progress, .ud = ud};
    ls_cpu_wait load = {0};
    ls_code code = e->timeline(e, layers_to_time(e), &x.t, err);
    if (!code) code = ls_threads_fastest(e->usual_threads, e->most_threads, time_forwards, &x, &x.share, &best, err);
    // With too many threads they wait for each other's CPUs, so the waits are measured only with the fastest number.
    // A thread's counters vanish when it exits, so the set of threads must not change after the first reading.
    if (!code) code = time_forwards(&x, best, &ms, err);
    ls_cpu_wait_share(&load, 0);
    for (int i = 0; i < 2 && !code; i++) code = time_forwards(&x, best, &ms, err);
    *busy = ls_cpu_wait_share(&load, 0) > LS_BUSY;
    *sure = !*busy && !x.waited;
    if (x.t) x.t->free(x.t);
    return code;
}

static bool load(ls_engine *e, const char *path, const char *key, ls_measured *is) {
    int32_t n;
    FILE *f = path ? ls_measured_open(path, magic, key, is) : NULL;
    const bool ok = f && fscanf(f, " threads %d", &n) == 1 && !e->use_threads(e, n, NULL);
    if (f) fclose(f);
    return ok;
}

ls_code ls_threads_choose(ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err) {
    ls_engine *e = m->engine;
    if (!e->use_threads || e->slow) return LS_OK;
    char range[64], key[LS_MEASURED_KEY];
    snprintf(range, sizeof range, "%d to %d", e->usual_threads, e->most_threads);
    ls_measured_key(m, range, key);
    char *path = ls_measured_path(m, key);
    ls_code code = LS_OK;
    ls_measured is;
    bool kept = load(e, path, key, &is);
    if (again || !kept || !ls_measured_lasts(&is)) {
        bool busy, sure;
        code = measure(e, &busy, &sure, progress, ud, err);
        kept = kept && (code || busy || (!sure && is.how == LS_MEASURED_QUIETLY)) && load(e, path, key, &is);
        if ((code || busy) && !kept) e->use_threads(e, e->usual_threads, NULL);
        if (!code && path && !(kept && is.how == LS_MEASURED_QUIETLY)) {
            ls_buf text = {0};
            is = ls_measured_now(sure ? LS_MEASURED_QUIETLY : LS_MEASURED_BUSY);
            ls_buf_fmt(&text, "threads %d\n", e->threads);
            ls_measured_write(path, magic, key, &is, &text);
            ls_buf_free(&text);
        }
    }
    ls_log("threads %d of %s", e->threads, range);
    free(path);
    return code == LS_E_CANCELLED ? code : LS_OK;
}
