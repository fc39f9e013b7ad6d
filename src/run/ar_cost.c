#include "run/ar_cost.h"
#include "base/clock.h"

#include <stdlib.h>

enum { PROBE_EVERY = 64 };

bool ls_ar_due(const ls_ar_cost *a, int32_t context) {
    return !a->n_probes || abs(context - a->at) >= PROBE_EVERY;
}

void ls_ar_bound(ls_ar_cost *a, double step_us) {
    if (step_us < a->us) a->us = step_us;
}

ls_code ls_ar_probe(ls_ar_cost *a, ls_backend *b, int32_t token, const lst_sampling *s, double host_us, ls_err *err) {
    double t[3];
    const int32_t parent = -1;
    for (int i = 0; i < 3; i++) {
        lst_row row;
        uint64_t start = ls_now_ns();
        ls_code code = b->forward_tree(b, &token, &parent, 1, s, &row, err);
        if (code) return code;
        t[i] = (double)(ls_now_ns() - start) / 1e3;
        for (int j = i; j > 0 && t[j] < t[j - 1]; j--) {
            double swap = t[j];
            t[j] = t[j - 1];
            t[j - 1] = swap;
        }
    }
    double us = t[1] + host_us;
    a->us = a->us > 0 ? 0.5 * a->us + 0.5 * us : us; // two neighbouring points share one machine's noise
    a->at = b->length(b);
    a->n_probes++;
    return LS_OK;
}
