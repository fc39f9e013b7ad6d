#include "costs/ar_cost.h"
#include "base/system.h"

#include <stdlib.h>

enum { PROBE_EVERY = 64 };

bool ls_ar_due(const ls_ar_cost *a, int32_t context) {
    return !a->n_timed || abs(context - a->at) >= PROBE_EVERY;
}

static void insert(double *sorted, int n, double v) {
    for (; n > 0 && v < sorted[n - 1]; n--) sorted[n] = sorted[n - 1];
    sorted[n] = v;
}

void ls_ar_bound(ls_ar_cost *a, double step_us) {
    double sorted[LS_AR_RECENT];
    a->recent[a->n_steps++ % LS_AR_RECENT] = step_us;
    if (a->n_steps < LS_AR_RECENT) return;
    for (int i = 0; i < LS_AR_RECENT; i++) insert(sorted, i, a->recent[i]);
    if (sorted[LS_AR_RECENT / 2] < a->us) a->us = sorted[LS_AR_RECENT / 2];
}

double ls_ar_spread(const ls_ar_cost *a) {
    double sorted[LS_AR_RECENT];
    const int n = a->n_timed < LS_AR_RECENT ? (int)a->n_timed : LS_AR_RECENT, cut = n / 6;
    if (!n) return 0;
    for (int i = 0; i < n; i++) insert(sorted, i, a->timed[i]);
    return (sorted[n - 1 - cut] - sorted[cut]) / 2 / sorted[n / 2];
}

ls_code ls_ar_probe(ls_ar_cost *a, ls_timeline *timeline, int32_t token, const lst_sampling *s, double host_us,
                    ls_err *err) {
    double t[3];
    const int32_t parent = -1;
    for (int i = 0; i < 3; i++) {
        lst_row row;
        uint64_t start = ls_now_ns();
        ls_code code = timeline->forward_tree(timeline, &token, &parent, 1, s, &row, err);
        if (code) return code;
        const double took = (double)(ls_now_ns() - start) / 1e3;
        insert(t, i, took);
        a->timed[a->n_timed++ % LS_AR_RECENT] = took;
    }
    double us = t[1] + host_us;
    a->us = a->us > 0 ? 0.5 * a->us + 0.5 * us : us; // average two measurements to reduce noise
    a->at = timeline->length(timeline);
    return LS_OK;
}
