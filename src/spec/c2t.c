// C2T's weights by logistic regression: maximises the log-likelihood of the rows minus a small penalty for large
// weights. The penalty keeps the weights finite if features are redundant or separate the rows completely. The function
// is concave, so Newton's steps, halved if they overshoot, find its only maximum.
#include "spec/sizing.h"

#include <float.h>
#include <math.h>

enum { N = LS_C2T_FEATURES, STEPS = 50, HALVINGS = 30, LEAST_ROWS = 100 };

static const double PENALTY = 0.5, ENOUGH = 1e-9; // of the weights' squares, in nats; of a row's loss

static double score(const double *w, const float *x) {
    double z = 0;
    for (int i = 0; i < N; i++) z += w[i] * (double)x[i];
    return z;
}

static double loss_of(double z, bool accepted) { // -log of the probability of the outcome
    const double m = accepted ? -z : z;
    return m > 0 ? m + log1p(exp(-m)) : log1p(exp(m));
}

double ls_c2t_loss(const ls_c2t_row *rows, size_t n, const double *weights) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += loss_of(score(weights, rows[i].x), rows[i].accepted);
    return n ? sum / (double)n : 0;
}

static double penalised(const ls_c2t_row *rows, size_t n, const double *w) {
    double squares = 0;
    for (int i = 0; i < N; i++) squares += w[i] * w[i];
    return ls_c2t_loss(rows, n, w) * (double)n + PENALTY * squares;
}

// Solves a x = b for a positive definite a; overwrites a and b.
static void solve(double a[N][N], double *b) {
    for (int k = 0; k < N; k++)
        for (int i = k + 1; i < N; i++) {
            const double f = a[i][k] / a[k][k];
            for (int j = k; j < N; j++) a[i][j] -= f * a[k][j];
            b[i] -= f * b[k];
        }
    for (int i = N - 1; i >= 0; i--) {
        for (int j = i + 1; j < N; j++) b[i] -= a[i][j] * b[j];
        b[i] /= a[i][i];
    }
}

// Newton's step at w.
static void newton(const ls_c2t_row *rows, size_t n, const double *w, double *step) {
    double curve[N][N] = {{0}};
    for (int i = 0; i < N; i++) step[i] = -2 * PENALTY * w[i], curve[i][i] = 2 * PENALTY;
    for (size_t k = 0; k < n; k++) {
        const float *x = rows[k].x;
        const double p = 1 / (1 + exp(-score(w, x)));
        for (int i = 0; i < N; i++) {
            step[i] += ((rows[k].accepted ? 1 : 0) - p) * (double)x[i];
            for (int j = 0; j < N; j++) curve[i][j] += p * (1 - p) * (double)x[i] * (double)x[j];
        }
    }
    solve(curve, step);
}

ls_code ls_c2t_fit(const ls_c2t_row *rows, size_t n, double *weights, ls_err *err) {
    size_t accepted = 0;
    for (size_t i = 0; i < n; i++) accepted += rows[i].accepted;
    if (n < LEAST_ROWS || !accepted || accepted == n)
        return ls_fail(err, LS_E_RANGE,
                       "%zu of %zu drafted rows were accepted; a fit needs %d rows, with both outcomes", accepted, n,
                       LEAST_ROWS);
    double now = penalised(rows, n, weights);
    for (int i = 0; i < STEPS; i++) {
        double step[N], next[N], then = DBL_MAX, part = 1;
        newton(rows, n, weights, step);
        for (int h = 0; h < HALVINGS && !(then <= now); h++) {
            for (int k = 0; k < N; k++) next[k] = weights[k] + part * step[k];
            then = penalised(rows, n, next);
            part /= 2;
        }
        if (!(then <= now)) break;
        for (int k = 0; k < N; k++) weights[k] = next[k];
        if (now - then < ENOUGH * (double)n) break;
        now = then;
    }
    return LS_OK;
}
