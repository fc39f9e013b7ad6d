#include "costs/costs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "engine/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 256 };
static const char magic[] = "logitspec-costs 3";

// ---- measuring

void ls_costs_of_two(ls_cost_curve *z, double one, double few, int32_t n_few) {
    if (few < one) few = one;
    *z = (ls_cost_curve){0};
    for (int i = 0; i < LS_COST_SIZES; i++) {
        const double rows = ls_cost_rows[i], most = n_few;
        z->base_ms[i] = rows < most ? one + (few - one) * (rows - 1) / (most - 1) : few * rows / most;
    }
}

// On a slow engine, where each row takes as long as the first, measuring all sizes would take minutes. So two sizes are
// measured once in an empty context, and the cost above is proportional. Steps correct it like any other measurement.
ls_code ls_costs_measure_briefly(ls_cost_curve *z, ls_timeline *t, ls_err *err) {
    enum { FEW = 3 }; // an index of ls_cost_rows
    double one, few;
    *z = (ls_cost_curve){0};
    ls_code code = ls_measure_forward(t, 1, 2, &one, err);
    if (!code) code = ls_measure_forward(t, ls_cost_rows[FEW], 1, &few, err);
    if (code) return code;
    ls_costs_of_two(z, one, few, ls_cost_rows[FEW]);
    return LS_OK;
}

// For the first answer: measures a few sizes in an empty context, with linear interpolation. The largest size is
// measured only if it takes less than NOTICED_MS, as on a GPU, where the choice of the tree depends on it.
static ls_code measure_at_once(ls_cost_curve *z, ls_timeline *t, ls_err *err) {
    enum { SIZES = 4, LARGE = 2 };
    static const int32_t rows[SIZES] = {1, 4, 16, 64};
    static const double NOTICED_MS = 100;
    double ms[SIZES];
    size_t n = SIZES - 1;
    *z = (ls_cost_curve){0};
    ls_code code = ls_measure_forward(t, rows[LARGE], 1, &ms[LARGE], err); // warm-up of threads, pages and buffers
    if (!code && ms[LARGE] * rows[n] / rows[LARGE] < NOTICED_MS) n = SIZES;
    for (size_t i = 0; i < n && !code; i++) {
        code = ls_measure_forward(t, rows[i], 1, &ms[i], err);
        if (i) ms[i] = fmax(ms[i], ms[i - 1]);
    }
    if (!code) ls_cost_of_points(z, rows, ms, n);
    return code;
}

static ls_code measure(ls_cost_curve *z, ls_timeline *t, double *one_again, ls_progress progress, void *ud,
                       ls_err *err) {
    enum { REPEATS = 4, REPEATS_LARGE = 2, LARGE = 16, SLOPE_ROWS = 16 };
    static const lst_sampling greedy = {.top_p = 1};
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1];
    int32_t context = CONTEXT, filler[CONTEXT];
    if (context > t->engine->n_context - most) context = t->engine->n_context > most ? t->engine->n_context - most : 1;
    for (int32_t i = 0; i < context; i++) filler[i] = i % t->engine->n_vocab;
    double ms, short_ms = 0, long_ms = 0;
    lst_row last;
    *z = (ls_cost_curve){.cost_context = context};
    ls_code code = t->rewind(t, 0, err); // an earlier attempt has filled it
    // the largest forward comes first and does not count: it warms up threads, pages and buffers
    if (!code) code = ls_measure_forward(t, most, 1, &ms, err);
    if (!code) code = ls_measure_forward(t, SLOPE_ROWS, REPEATS, &short_ms, err);
    const uint64_t start = ls_now_ns();
    if (!code) code = t->prefill(t, filler, context, &greedy, &last, NULL, NULL, err);
    z->prefill_ms = (double)(ls_now_ns() - start) / 1e6 / context;
    // Measure all sizes in turn, several times, so that a temporary disturbance does not affect each time of one size.
    for (int round = 0; round < REPEATS && !code; round++)
        for (int i = 0; i < LS_COST_SIZES && !code; i++) {
            const double done = (double)(round * LS_COST_SIZES + i) / (REPEATS * LS_COST_SIZES);
            if (round >= REPEATS_LARGE && ls_cost_rows[i] >= LARGE) break;
            if (progress && !progress(ud, "measuring forwards", done))
                code = ls_fail(err, LS_E_CANCELLED, "the measurement of forwards was cancelled");
            else code = ls_measure_forward(t, ls_cost_rows[i], 1, &ms, err);
            if (!round || ms < z->base_ms[i]) z->base_ms[i] = ms;
        }
    for (int i = LS_COST_SIZES - 1; i > 0; i--) // fewer rows cannot cost more, and noise makes times longer
        z->base_ms[i - 1] = fmin(z->base_ms[i - 1], z->base_ms[i]);
    if (!code) code = ls_measure_forward(t, SLOPE_ROWS, REPEATS, &long_ms, err);
    if (!code) code = ls_measure_forward(t, 1, REPEATS, one_again, err);
    if (long_ms > short_ms) z->slope_ms = (long_ms - short_ms) / ls_cost_context_rows(SLOPE_ROWS) / context;
    return code;
}

// Other programs only make forwards slower, so the shortest of several times is the most accurate.
static void take_shorter(ls_cost_curve *z, const ls_cost_curve *other) {
    for (int i = 0; i < LS_COST_SIZES; i++) z->base_ms[i] = fmin(z->base_ms[i], other->base_ms[i]);
    z->prefill_ms = fmin(z->prefill_ms, other->prefill_ms);
    z->slope_ms = fmin(z->slope_ms, other->slope_ms);
}

static ls_code measure_in_peace(ls_cost_curve *z, ls_timeline *t, double busy, ls_costs_noise *noise,
                                ls_progress progress, void *ud, ls_err *err) {
    enum { ATTEMPTS = 3 };
    static const double APART = 1.25; // largest ratio of two one-row times; on idle machines it was up to 1.1
    static const uint64_t PATIENCE_NS = 4000000000;
    const uint64_t start = ls_now_ns();
    *noise = (ls_costs_noise){.busy = true};
    for (int attempt = 0; noise->busy && attempt < (ls_now_ns() - start < PATIENCE_NS ? ATTEMPTS : 1); attempt++) {
        ls_cost_curve fresh;
        ls_cpu_wait load = {0};
        double again = 0;
        ls_cpu_wait_share(&load, 0);
        const ls_code code = measure(&fresh, t, &again, progress, ud, err);
        if (code) return code;
        noise->waited = ls_cpu_wait_share(&load, 0);
        noise->apart = fmax(again, fresh.base_ms[0]) / fmin(again, fresh.base_ms[0]);
        noise->busy = busy < 0 || (busy <= 1 && (noise->waited > busy || noise->apart > APART));
        fresh.base_ms[0] = fmin(again, fresh.base_ms[0]);
        if (attempt) take_shorter(z, &fresh);
        else *z = fresh;
    }
    return LS_OK;
}

bool ls_costs_note(const ls_costs_noise *n, char *out) {
    char how[80];
    if (!n->busy) return false;
    if (n->waited > LS_BUSY) snprintf(how, sizeof how, "waited %.0f%% of the time for a processor", 100 * n->waited);
    else snprintf(how, sizeof how, "the time of one row varied by a factor of %.1f", n->apart);
    snprintf(out, LS_COSTS_NOTE, "the machine is busy (%s): %s", how,
             n->kept ? "the earlier measured costs of rows are used"
                     : "the costs of rows are measured again in ten minutes");
    return true;
}

// ---- the cache

// The cache key: one line with everything that affects the costs.
static void key_of(const ls_model *m, char key[LS_MEASURED_KEY]) {
    char threads[32];
    snprintf(threads, sizeof threads, "%d", m->engine->threads);
    ls_measured_key(m, threads, key);
}

typedef struct {
    ls_cost_curve curve;
    ls_measured is;
} kept_costs;

static bool load(kept_costs *k, const char *path, const char *key) {
    ls_cost_curve in = {0};
    FILE *f = ls_measured_open(path, magic, key, &k->is);
    if (!f) return false;
    bool ok = fscanf(f, " context %d slope %lf prefill %lf", &in.cost_context, &in.slope_ms, &in.prefill_ms) == 3 &&
              in.cost_context >= 0 && in.prefill_ms >= 0 && in.prefill_ms < 1e6 && in.slope_ms >= 0 &&
              in.slope_ms < 1e3;
    for (int i = 0; ok && i < LS_COST_SIZES; i++) {
        int rows;
        ok = fscanf(f, "%d %lf", &rows, &in.base_ms[i]) == 2 && rows == ls_cost_rows[i] && in.base_ms[i] > 0 &&
             in.base_ms[i] < 1e7;
    }
    fclose(f);
    k->curve = in;
    return ok;
}

static void save(const kept_costs *k, const char *path, const char *key) {
    const ls_cost_curve *z = &k->curve;
    ls_buf text = {0};
    ls_buf_fmt(&text, "context %d slope %.9g prefill %.6g\n", z->cost_context, z->slope_ms, z->prefill_ms);
    for (int i = 0; i < LS_COST_SIZES; i++) ls_buf_fmt(&text, "%d %.6g\n", ls_cost_rows[i], z->base_ms[i]);
    ls_measured_write(path, magic, key, &k->is, &text);
    ls_buf_free(&text);
}

// Stores the costs with which other sessions of this process begin.
static void remember(ls_model *m, const kept_costs *k) {
    m->costs = ls_realloc(m->costs, sizeof *k);
    memcpy(m->costs, k, sizeof *k);
}

static bool will_do(const ls_measured *is, ls_costs_wish wish) {
    return wish == LS_COSTS_AT_ONCE
               ? is->how == LS_MEASURED_BUSY || ls_measured_lasts(is)
               : wish == LS_COSTS_MEASURED && is->how != LS_MEASURED_BRIEFLY && ls_measured_lasts(is);
}

bool ls_costs_due(const ls_model *m) {
    const kept_costs *k = m->costs;
    return k && !will_do(&k->is, LS_COSTS_MEASURED);
}

ls_code ls_costs_get(ls_cost_curve *out, ls_model *m, ls_costs_wish wish, double busy, ls_costs_noise *noise,
                     ls_progress progress, void *ud, ls_err *err) {
    const bool slow = m->engine->slow && wish != LS_COSTS_ANEW;
    char key[LS_MEASURED_KEY];
    kept_costs before, now = {0};
    *noise = (ls_costs_noise){0};
    key_of(m, key);
    char *path = ls_measured_path(m, key);
    if (!path) busy = 2; // the times of the scripted model have no meaning
    const bool kept = path && load(&before, path, key);
    if (!kept && m->costs) before = *(const kept_costs *)m->costs; // used if no file can be written
    if ((kept || m->costs) && will_do(&before.is, wish)) now = before;
    else {
        ls_timeline *t;
        ls_code code = m->engine->timeline(m->engine, 0, &t, err);
        if (!code)
            code = slow                       ? ls_costs_measure_briefly(&now.curve, t, err)
                   : wish == LS_COSTS_AT_ONCE ? measure_at_once(&now.curve, t, err)
                                              : measure_in_peace(&now.curve, t, busy, noise, progress, ud, err);
        if (t) t->free(t);
        if (code) {
            free(path);
            return code;
        }
        now.is = ls_measured_now(slow || wish == LS_COSTS_AT_ONCE ? LS_MEASURED_BRIEFLY
                                 : noise->busy                    ? LS_MEASURED_BUSY
                                                                  : LS_MEASURED_QUIETLY);
        noise->kept = noise->busy && kept && before.is.how == LS_MEASURED_QUIETLY;
        if (noise->kept) now = before;
        else if (kept && now.is.how == LS_MEASURED_BRIEFLY && before.is.how == LS_MEASURED_BRIEFLY)
            take_shorter(&now.curve, &before.curve);
        if (path && !slow && !noise->kept) save(&now, path, key);
    }
    ls_log("costs, measured %s: 1 row %.3f ms, 8 rows %.3f, 64 rows %.3f%s", ls_measured_hows[now.is.how],
           ls_cost_ms(&now.curve, 1, now.curve.cost_context), ls_cost_ms(&now.curve, 8, now.curve.cost_context),
           ls_cost_ms(&now.curve, 64, now.curve.cost_context), noise->busy ? "; the machine is busy" : "");
    if (path && !slow) remember(m, &now);
    *out = now.curve;
    free(path);
    return LS_OK;
}
