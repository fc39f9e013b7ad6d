#include "engine/threads.h"
#include "base/cpuwait.h"
#include "base/file.h"
#include "base/paths.h"
#include "base/plural.h"
#include "base/processors.h"
#include "engine/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char magic[] = "logitspec-threads 1";

// The largest number below n that is a power of two or three times one; 0: there is none.
static int32_t next_below(int32_t n) {
    int32_t power = 1;
    if (n <= 1) return 0;
    while (2 * power < n) power *= 2;
    return power + power / 2 < n ? power + power / 2 : power;
}

ls_code ls_threads_fastest(int32_t usual, int32_t most, ls_threads_timer time, void *ud, int32_t *best, ls_err *err) {
    static const double FASTER = 0.97;
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
    if (!code && !(fmax(best_ms, again) < FASTER * fmin(usual_ms, usual_again))) *best = usual;
    return code;
}

// ---- of a model

typedef struct {
    ls_engine *engine;
    ls_timeline *t;
    bool many; // rows
    ls_progress progress;
    void *ud;
} trial;

static ls_code use(const trial *x, int32_t n, ls_err *err) {
    ls_engine *e = x->engine;
    return e->use_threads(e, x->many ? e->threads : n, x->many ? n : e->many_threads, err);
}

static ls_code time_forwards(void *ud, int32_t n, double *ms, ls_err *err) {
    enum { FEW = 4, MANY = 2 * LST_FEW_ROWS, REPEATS = 4, REPEATS_MANY = 3 };
    const trial *x = ud;
    double one, few;
    if (x->progress && !x->progress(x->ud, "measuring threads", x->many ? 0.5 : 0))
        return ls_fail(err, LS_E_CANCELLED, "the measurement of threads was cancelled");
    ls_code code = use(x, n, err);
    if (code) return code;
    if (x->many) return ls_measure_forward(x->t, MANY, REPEATS_MANY, ms, err);
    code = ls_measure_forward(x->t, 1, REPEATS, &one, err);
    if (!code) code = ls_measure_forward(x->t, FEW, REPEATS, &few, err);
    if (!code) *ms = one + few;
    return code;
}

// So many layers that a forward reads more than caches hold, which is enough to compare.
static int32_t layers_to_time(const ls_engine *e) {
    static const uint64_t BYTES = 256 << 20;
    const uint64_t layer = e->weight_bytes / (uint64_t)e->n_layers + 1;
    return BYTES / layer < (uint64_t)e->n_layers ? (int32_t)(BYTES / layer) + 1 : 0;
}

static ls_code measure(ls_engine *e, int32_t usual, bool *busy, ls_progress progress, void *ud, ls_err *err) {
    int32_t best[2];
    double ms;
    trial x = {.engine = e, .progress = progress, .ud = ud};
    ls_code code = e->timeline(e, layers_to_time(e), &x.t, err);
    for (int many = 0; many < 2 && !code; many++) {
        x.many = many;
        code = ls_threads_fastest(usual, e->most_threads, time_forwards, &x, &best[many], err);
        if (!code) code = use(&x, best[many], err);
    }
    // With what was chosen nobody waits for a processor, unless other programs have them; with more threads than there
    // are processors this program's own would.
    ls_cpu_wait load = {0};
    ls_cpu_wait_share(&load, 0);
    for (int many = 0; many < 2 && !code; many++) {
        x.many = many;
        code = time_forwards(&x, best[many], &ms, err);
    }
    *busy = ls_cpu_wait_share(&load, 0) > LS_BUSY;
    if (x.t) x.t->free(x.t);
    if (code || *busy) e->use_threads(e, usual, usual, NULL);
    return code;
}

static bool load(ls_engine *e, const char *path, const char *key) {
    int32_t few, many;
    FILE *f = ls_measured_open(path, magic, key);
    const bool ok = f && fscanf(f, "few %d many %d", &few, &many) == 2 && !e->use_threads(e, few, many, NULL);
    if (f) fclose(f);
    return ok;
}

ls_code ls_threads_choose(ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err) {
    ls_engine *e = m->engine;
    if (!e->use_threads || e->most_threads < 2 || e->slow) return LS_OK;
    const int32_t usual = ls_cores();
    bool busy = false;
    char how[64], key[LS_MEASURED_KEY];
    snprintf(how, sizeof how, "some of %d to %d", usual, e->most_threads);
    ls_measured_key(m, how, key);
    char *path = ls_measured_path(m, key);
    ls_code code = LS_OK;
    if (again || !path || !load(e, path, key)) {
        code = measure(e, usual, &busy, progress, ud, err);
        if (!code && !busy && path) {
            ls_buf text = {0};
            ls_make_folders(path);
            ls_buf_fmt(&text, "%s\n%s\nfew %d many %d\n", magic, key, e->threads, e->many_threads);
            ls_write_file(path, &text, NULL); // else it is measured again next time
            ls_buf_free(&text);
        }
    }
    free(path);
    return code;
}

void ls_threads_text(const ls_engine *e, char out[LS_THREADS_TEXT]) {
    const int n = snprintf(out, LS_THREADS_TEXT, "%d thread%s", e->threads, ls_plural(e->threads));
    if (e->many_threads > 0 && e->many_threads != e->threads)
        snprintf(out + n, LS_THREADS_TEXT - (size_t)n, " (%d for more than %d rows)", e->many_threads, LST_FEW_ROWS);
}
