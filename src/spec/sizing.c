#include "spec/sizing.h"

const int32_t ls_size_rows[LS_SIZES] = {1, 2, 4, 8, 16, 24, 32, 48, 64};

// Mean accepted tokens of the paper's rule by budget, measured on 72 prompts with the default model; what is
// believed before the first steps, with the weight of a few steps. Sizes in between are interpolated.
static const double prior[LS_SIZES] = {1, 1.4, 1.85, 2.27, 2.46, 2.58, 2.67, 2.79, 2.88};
enum { PRIOR_STEPS = 4, EXPLORE_EVERY = 24 };
static const double DECAY = 0.98; // a memory of about 50 steps: texts change their repetitiveness

void ls_sizing_init(ls_sizing *z) {
    *z = (ls_sizing){0};
    for (int i = 0; i < LS_SIZES; i++) {
        z->emitted[i] = prior[i] * PRIOR_STEPS;
        z->weight[i] = PRIOR_STEPS;
    }
}

double ls_sizing_cost_ms(const ls_sizing *z, int32_t rows, int32_t context) {
    double base = 0;
    for (int i = 0; i < LS_SIZES && rows >= ls_size_rows[i]; i++) {
        base = z->base_ms[i];
        if (i + 1 < LS_SIZES && rows < ls_size_rows[i + 1])
            base += (z->base_ms[i + 1] - base) * (rows - ls_size_rows[i]) / (ls_size_rows[i + 1] - ls_size_rows[i]);
        else if (i + 1 == LS_SIZES) base *= (double)rows / ls_size_rows[i]; // beyond the largest: in proportion
    }
    if (base <= 0) return 0;
    double more = z->slope_ms * rows * (context - z->cost_context);
    return base + (more > 0 ? more : 0);
}

double ls_sizing_expected(const ls_sizing *z, int i) {
    return z->emitted[i] / z->weight[i];
}

int32_t ls_sizing_choose(ls_sizing *z, int32_t context) {
    int best = 0;
    double most = 0;
    for (int i = 0; i < LS_SIZES; i++) {
        double ms = ls_sizing_cost_ms(z, ls_size_rows[i], context);
        if (ms <= 0) continue;
        double rate = ls_sizing_expected(z, i) / ms;
        if (rate > most) most = rate, best = i;
    }
    // now and then one size more, since larger trees are otherwise never seen again
    if (++z->steps % EXPLORE_EVERY == 0 && best + 1 < LS_SIZES) best++;
    z->last_size = best;
    return ls_size_rows[best];
}

void ls_sizing_observe(ls_sizing *z, int32_t n_rows, const int32_t *path, int32_t n_path, int32_t context, double ms) {
    double seen = n_path, seen_prior = 1;
    for (int i = 0; i < LS_SIZES; i++) {
        double emitted = 1;
        if (ls_size_rows[i] <= n_rows) {
            for (int32_t j = 1; j < n_path; j++) emitted += path[j] < ls_size_rows[i];
            seen_prior = prior[i];
        } else emitted = seen * prior[i] / seen_prior; // not seen: scaled as the priors are
        z->emitted[i] = z->emitted[i] * DECAY + emitted;
        z->weight[i] = z->weight[i] * DECAY + 1;
    }
    int32_t more = context - z->cost_context;
    double base = ls_sizing_cost_ms(z, n_rows, z->cost_context);
    if (base > 0 && more >= 64) {
        double slope = (ms - base) / ((double)n_rows * more);
        z->slope_ms += 0.1 * ((slope > 0 ? slope : 0) - z->slope_ms);
    }
}
