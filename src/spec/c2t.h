// The classifier of C2T (size_c2t.c): its features, and the fit of its weights to rows with a known outcome.
#pragma once
#include "base/err.h"
#include "spec/tree.h"

#include <stddef.h>

enum { LS_C2T_FEATURES = 5 };

// Fills x[i] with the features of row i, except the root: 1, log-odds of its path, log-odds of its own estimate,
// entropy of the drafter's distribution at its parent, depth. path: as in sizing rules.
void ls_c2t_features(const ls_tree *t, const double *path, double (*x)[LS_C2T_FEATURES]);
double ls_c2t_chance(const double *weights, const double *x); // probability that the row is accepted

typedef struct {
    float x[LS_C2T_FEATURES];
    bool accepted;
} ls_c2t_row;

// Fits the weights by maximum likelihood with Newton's method; `weights` has the start values and gets the result.
// LS_E_RANGE: not enough rows, or all rows have the same outcome.
ls_code ls_c2t_fit(const ls_c2t_row *rows, size_t n, double *weights, ls_err *err);
double ls_c2t_loss(const ls_c2t_row *rows, size_t n, const double *weights); // mean log loss of a row, nats
