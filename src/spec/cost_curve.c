#include "spec/cost_curve.h"

const int32_t ls_cost_rows[LS_COST_SIZES] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

static const double LEARN = 0.05; // share of a step's deviation that is believed

double ls_cost_ms(const ls_cost_curve *z, int32_t rows, int32_t context) {
    int i = 0;
    while (i + 1 < LS_COST_SIZES && rows >= ls_cost_rows[i + 1]) i++;
    double base = z->base_ms[i];
    if (i + 1 < LS_COST_SIZES)
        base += (z->base_ms[i + 1] - base) * (rows - ls_cost_rows[i]) / (ls_cost_rows[i + 1] - ls_cost_rows[i]);
    else base *= (double)rows / ls_cost_rows[i]; // beyond the largest: in proportion
    if (base <= 0) return 0;
    const double ms = base + z->slope_ms * rows * (context - z->cost_context);
    return ms > base / 2 ? ms : base / 2; // a straight line is believed only so far
}

int32_t ls_cost_choose(const ls_cost_curve *z, const double *path, int32_t n, int32_t context, double *rate) {
    double expected = 0, most = 0;
    int32_t best = 1;
    for (int32_t k = 1; k <= n; k++) {
        expected += path[k - 1];
        double ms = ls_cost_ms(z, k > 1 ? k + z->beside_rows : k, context);
        if (ms <= 0) { // nothing measured: nothing to decide by
            best = n;
            break;
        }
        ms += z->beside_ms;
        if (expected / ms > most) most = expected / ms, best = k;
    }
    if (rate) *rate = most;
    return best;
}

bool ls_cost_may_pay(const ls_cost_curve *z, double path, int32_t n, int32_t context) {
    // Costs rise in stairs: a row may be nearly free, the next dear. The next 16 rows together are the measure: even if
    // all of them were as likely as this one, would they bring more than they cost?
    enum { AHEAD = 16 };
    const int32_t rows = n + z->beside_rows;
    const double now = ls_cost_ms(z, rows, context), then = ls_cost_ms(z, rows + AHEAD, context);
    if (now <= 0) return true;
    const double least = (then - now) / now / AHEAD; // tokens a row must bring, if a step brings one
    return path > least;
}

void ls_cost_observe(ls_cost_curve *z, int32_t n_rows, int32_t context, double ms) {
    const double expected = ls_cost_ms(z, n_rows, context);
    const int32_t more = context - z->cost_context;
    if (expected <= 0 || !(ms > 0)) return; // a difference of two times may come out below zero on a busy machine
    double error = ms / expected - 1;
    if (error > 1) error = 1; // an interruption
    if (more > 512) {         // far away the context is what is known least
        const double slope = z->slope_ms + LEARN * error * expected / ((double)n_rows * more);
        z->slope_ms = slope > 0 ? slope : 0;
        return;
    }
    int i = 0;
    while (i + 1 < LS_COST_SIZES && n_rows >= ls_cost_rows[i + 1]) i++;
    z->base_ms[i] *= 1 + LEARN * error;
    if (n_rows > ls_cost_rows[i] && i + 1 < LS_COST_SIZES) z->base_ms[i + 1] *= 1 + LEARN * error;
}
