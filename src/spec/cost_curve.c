#include "spec/cost_curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const int32_t ls_cost_rows[LS_COST_SIZES] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

static const double LEARN = 0.05; // share of a step's deviation that updates the cost of its size
// Each size gets this share of the update of its neighbour towards the step's size. A machine becomes faster or slower
// for all sizes, and a disturbance of a measurement also affects its neighbours. Without this, a size that was measured
// as too slow would never be tried again.
static const double ALIKE = 0.9;
static const double SOME = 0.1;   // share of the experts of a forward; deviations below it teach little
static const double LEAST = 1e-3; // share of the largest time of an expert: so it may rise again

// Reading one token of context from memory takes as long as multiplying it for this many rows. Measured: 2.9 (Zen
// 3), 5.3 (Emerald Rapids), 2.5 and 5.1 (two models on an H100); about 4 from figures of different runs (Zen 4).
static const double READING = 4;

double ls_cost_context_rows(int32_t rows) {
    return sqrt(READING * READING + (double)rows * rows);
}

// Linear between n points. Returns the first size above them.
static int fill(double *of_size, const int32_t *rows, const double *value, size_t n) {
    int at = 0;
    for (size_t i = 0; i < n; i++) {
        const double more = i ? value[i] - value[i - 1] : 0;
        for (; at < LS_COST_SIZES && ls_cost_rows[at] <= rows[i]; at++)
            of_size[at] =
                i ? value[i - 1] + more * (ls_cost_rows[at] - rows[i - 1]) / (rows[i] - rows[i - 1]) : value[i];
    }
    return at;
}

void ls_cost_of_points(ls_cost_curve *z, const int32_t *rows, const double *ms, const double *awake, size_t n) {
    for (int at = fill(z->base_ms, rows, ms, n); n && at < LS_COST_SIZES; at++)
        z->base_ms[at] = ms[n - 1] * ls_cost_rows[at] / rows[n - 1];
    if (!awake) return;
    for (int at = fill(z->awake, rows, awake, n); n && at < LS_COST_SIZES; at++) z->awake[at] = awake[n - 1];
}

const ls_cost_preset ls_cost_presets[] = {
#define PRESET(name, points, help) {name, points, help},
    LS_COST_PRESETS(PRESET)
#undef PRESET
        {0}};

static double with_digits(double x) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.4g", x);
    return strtod(digits, NULL);
}

// Gives the curve the digits that its text has, so that the text gives the same trees.
static void round_to_text(ls_cost_curve *z) {
    for (int i = 0; i < LS_COST_SIZES; i++) {
        z->base_ms[i] = with_digits(z->base_ms[i]);
        z->awake[i] = with_digits(z->awake[i]);
    }
    const double most = ls_cost_most_expert_ms(z), ms = with_digits(z->expert_ms);
    z->expert_ms = ms > most ? with_digits(most * (1 - 1e-3)) : ms;
}

void ls_cost_text(const ls_cost_curve *z, char out[LS_COST_TEXT]) {
    const bool of_mixture = z->expert_ms > 0 && z->awake[0] > 0;
    double ms = 0, awake = 0; // of a noisy measurement more rows may take less
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < LS_COST_SIZES && z->base_ms[0] > 0; i++) {
        ms = fmax(ms, z->base_ms[i]);
        awake = fmax(awake, z->awake[i]);
        n += (size_t)snprintf(out + n, LS_COST_TEXT - n, "%s%d:%.4g", i ? "," : "", ls_cost_rows[i], ms);
        if (of_mixture) n += (size_t)snprintf(out + n, LS_COST_TEXT - n, ":%.4g", awake);
    }
    if (of_mixture) snprintf(out + n, LS_COST_TEXT - n, ",expert:%.4g", z->expert_ms);
}

ls_code ls_cost_read(ls_cost_curve *z, const char *what, const char *text, ls_err *err) {
    enum { MOST = 32 };
    const char *points = text;
    int32_t rows[MOST];
    double ms[MOST], awake[MOST] = {0}, expert_ms = 0; // awake: experts in these forwards; 0: no mixture
    size_t n = 0;
    *z = (ls_cost_curve){0};
    if (!strcmp(text, "auto")) return LS_OK;
    for (const ls_cost_preset *p = ls_cost_presets; p->name; p++)
        if (!strcmp(text, p->name)) points = p->points;
    for (const char *p = points;; p++) {
        char *end = NULL;
        const bool last = n && !strncmp(p, "expert:", 7); // how many experts are awake is known of all points
        const long r = last ? 0 : strtol(p, &end, 10);
        const double t = last ? strtod(p + 7, &end) : end > p && *end == ':' ? strtod(end + 1, &end) : 0;
        const bool of_mixture = !last && t > 0 && *end == ':';
        const double x = of_mixture ? strtod(end + 1, &end) : 0;
        bool ok = t > 0 && t < 1e6;
        if (last) ok = ok && awake[0] > 0 && !*end;
        else
            ok = ok && n < MOST && r <= 4096 && (n ? r > rows[n - 1] && t >= ms[n - 1] : r == 1) &&
                 (!of_mixture || (x > 0 && x < 1e7)) && (!n || of_mixture == (awake[0] > 0)) &&
                 (!n || x >= awake[n - 1]);
        if (!ok || (*end && *end != ','))
            return ls_fail(
                err, LS_E_USAGE,
                "%s is '%.60s', expected auto, free, h200, or ROWS:MS,... in ascending order from 1 row, such as "
                "1:10,8:15,64:90; of a mixture also experts: 1:10:32,8:15:80,expert:0.1",
                what, text);
        if (last) expert_ms = t;
        else {
            rows[n] = (int32_t)r;
            ms[n] = t;
            awake[n++] = x;
        }
        if (!*end) break;
        p = end;
    }
    ls_cost_of_points(z, rows, ms, awake, n);
    z->expert_ms = expert_ms;
    round_to_text(z);
    z->given = true;
    return LS_OK;
}

// The last size that is not above the rows.
static int size_of(int32_t rows) {
    int i = 0;
    while (i + 1 < LS_COST_SIZES && rows >= ls_cost_rows[i + 1]) i++;
    return i;
}

// Linear between sizes, above the largest its value.
static double between(const double *of_size, int32_t rows) {
    const int i = size_of(rows);
    if (i + 1 == LS_COST_SIZES) return of_size[i];
    return of_size[i] +
           (of_size[i + 1] - of_size[i]) * (rows - ls_cost_rows[i]) / (ls_cost_rows[i + 1] - ls_cost_rows[i]);
}

double ls_cost_seen(const ls_cost_curve *z, int32_t context) {
    return context - z->local * (context > z->window ? context - z->window : 0);
}

// Tokens that a layer sees beyond those of the measurement.
static double more_seen(const ls_cost_curve *z, int32_t context) {
    return ls_cost_seen(z, context) - ls_cost_seen(z, z->cost_context);
}

double ls_cost_ms(const ls_cost_curve *z, int32_t rows, int32_t context) {
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1];
    double base = between(z->base_ms, rows);
    if (rows > most) base *= (double)rows / most; // proportional to the rows
    if (base <= 0) return 0;
    const double ms = base + z->slope_ms * ls_cost_context_rows(rows) * more_seen(z, context);
    return ms > base / 2 ? ms : base / 2; // limit the extrapolation to short contexts
}

double ls_cost_awake(const ls_cost_curve *z, int32_t rows) {
    return between(z->awake, rows);
}

double ls_cost_experts_ms(const ls_cost_curve *z, int32_t rows, double awake) {
    // a recording has the time of an expert, but not how many its measured forwards took
    return z->expert_ms > 0 && z->awake[0] > 0 ? z->expert_ms * (awake - ls_cost_awake(z, rows)) : 0;
}

int32_t ls_cost_choose(const ls_cost_curve *z, const double *path, int32_t n, int32_t context, double *rate) {
    double expected = 0, most = 0;
    int32_t best = 1;
    for (int32_t k = 1; k <= n; k++) {
        expected += path[k - 1];
        double ms = ls_cost_ms(z, k > 1 ? k + z->beside_rows : k, context);
        if (ms <= 0) { // without measurements keep all rows
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
    // Costs rise in stairs: one row may be nearly free and the next one expensive. So the test uses the next 16 rows
    // together: if all of them were as likely as this one, would they gain more than they cost?
    enum { AHEAD = 16 };
    const int32_t rows = n + z->beside_rows;
    const double now = ls_cost_ms(z, rows, context),
                 then = ls_cost_ms(z, rows + AHEAD, context) +
                        ls_cost_experts_ms(z, rows + AHEAD, ls_cost_awake(z, rows)); // the same experts
    if (now <= 0) return true;
    const double least =
        (then - now) / (now + z->beside_ms) / AHEAD; // least expected tokens of a row, relative to a step of one token
    return path > least;
}

double ls_cost_most_expert_ms(const ls_cost_curve *z) {
    double most = INFINITY;
    for (int i = 0; i < LS_COST_SIZES; i++)
        if (z->awake[i] > 0 && z->base_ms[i] < most * z->awake[i]) most = z->base_ms[i] / z->awake[i];
    return isfinite(most) ? most : 0;
}

// A machine becomes faster or slower for experts, too. Beside that, an expert takes more than was thought if forwards
// are late when more experts than usual are awake, and early when fewer are.
static void learn_expert(ls_cost_curve *z, double error, double expected, double other, double usual) {
    const double late = error - z->mean_error, above = other - z->mean_other, some = SOME * usual,
                 most = ls_cost_most_expert_ms(z);
    const double ms =
        z->expert_ms * (1 + LEARN * error) + LEARN * late * expected * above / (above * above + some * some);
    z->expert_ms = fmax(LEAST * most, fmin(most, ms));
    z->mean_error += LEARN * late;
    z->mean_other += LEARN * above;
}

void ls_cost_observe(ls_cost_curve *z, int32_t n_rows, int32_t context, double awake, double ms) {
    const double usual = ls_cost_awake(z, n_rows), other = awake < 0 ? 0 : awake - usual,
                 expected = ls_cost_ms(z, n_rows, context) + z->expert_ms * other;
    const double more = more_seen(z, context);
    if (z->given || expected <= 0 || !(ms > 0))
        return; // a difference of two times may come out below zero on a busy machine
    double error = ms / expected - 1;
    if (error > 1) error = 1; // an interruption
    if (z->expert_ms > 0 && awake >= 0) learn_expert(z, error, expected, other, usual);
    if (more > 512) { // far from the measured context, the slope is the least certain term
        const double slope = z->slope_ms + LEARN * error * expected / (ls_cost_context_rows(n_rows) * more);
        z->slope_ms = slope > 0 ? slope : 0;
        return;
    }
    const int i = size_of(n_rows);
    const int above = n_rows > ls_cost_rows[i] ? i + 1 : i;
    for (int j = 0; j < LS_COST_SIZES; j++)
        z->base_ms[j] *= 1 + LEARN * error * pow(ALIKE, j < i ? i - j : j > above ? j - above : 0);
}
