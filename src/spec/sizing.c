#include "spec/sizing.h"

const int32_t ls_size_rows[LS_SIZES] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

double ls_sizing_cost_ms(const ls_sizing *z, int32_t rows, int32_t context) {
    int i = 0;
    while (i + 1 < LS_SIZES && rows >= ls_size_rows[i + 1]) i++;
    double base = z->base_ms[i];
    if (i + 1 < LS_SIZES)
        base += (z->base_ms[i + 1] - base) * (rows - ls_size_rows[i]) / (ls_size_rows[i + 1] - ls_size_rows[i]);
    else base *= (double)rows / ls_size_rows[i]; // beyond the largest: in proportion
    if (base <= 0) return 0;
    double more = z->slope_ms * rows * (context - z->cost_context);
    return base + (more > 0 ? more : 0);
}

int32_t ls_sizing_choose(const ls_sizing *z, const double *path, int32_t n, int32_t context) {
    double expected = 0, most = 0;
    int32_t best = 1;
    for (int32_t k = 1; k <= n; k++) {
        expected += path[k - 1];
        const double ms = ls_sizing_cost_ms(z, k, context);
        if (ms <= 0) return n; // nothing measured: nothing to decide by
        if (expected / ms > most) most = expected / ms, best = k;
    }
    return best;
}

bool ls_sizing_may_pay(const ls_sizing *z, double path, int32_t n, int32_t context) {
    // Costs rise in stairs: a row may be nearly free, the next dear. The next 16 rows together are the measure: even if
    // all of them were as likely as this one, would they bring more than they cost?
    enum { AHEAD = 16 };
    const double now = ls_sizing_cost_ms(z, n, context), then = ls_sizing_cost_ms(z, n + AHEAD, context);
    if (now <= 0) return true;
    const double least = (then - now) / now / AHEAD; // tokens a row must bring, if a step brings one
    return path > least;
}

void ls_sizing_observe(ls_sizing *z, int32_t n_rows, int32_t context, double ms) {
    const int32_t more = context - z->cost_context;
    const double base = ls_sizing_cost_ms(z, n_rows, z->cost_context);
    if (base <= 0 || more < 64) return;
    const double slope = (ms - base) / ((double)n_rows * more);
    z->slope_ms += 0.1 * ((slope > 0 ? slope : 0) - z->slope_ms);
}
