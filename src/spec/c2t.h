// The classifier of C2T (size_c2t.c): what it looks at, and how its weights are fitted to rows whose end is known.
#pragma once
#include "base/err.h"
#include "spec/tree.h"

#include <stddef.h>

enum { LS_C2T_FEATURES = 5 };

// Fills x[i] with the features of row i, the root's aside: 1, log-odds of its path, log-odds of its own estimate,
// entropy of the drafter's distribution at its parent, depth. path: as sizing rules have it.
void ls_c2t_features(const ls_tree *t, const double *path, double (*x)[LS_C2T_FEATURES]);
double ls_c2t_chance(const double *weights, const double *x); // that the row is accepted

typedef struct {
    float x[LS_C2T_FEATURES];
    bool accepted;
} ls_c2t_row;

// The weights under which the rows are likeliest, by Newton's method from `weights` on, which it replaces. LS_E_RANGE:
// not enough rows, or all of them ended alike.
ls_code ls_c2t_fit(const ls_c2t_row *rows, size_t n, double *weights, ls_err *err);
double ls_c2t_loss(const ls_c2t_row *rows, size_t n, const double *weights); // mean log loss of a row, nats
