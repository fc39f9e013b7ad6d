// Sizing rules decide how many rows of a proposed tree are verified. A rule sets the most rows for the drafter and cuts
// the tree by its estimates. To add a rule, add it to the table in sizing.c.
#pragma once
#include "base/err.h"
#include "spec/cost_curve.h"
#include "spec/drafter.h"
#include "spec/routing.h"
#include "spec/rule.h"
#include "spec/tree.h"

#include <stddef.h>

enum { LS_SIZING_KNOBS = 5 };

typedef struct ls_sizing ls_sizing;

typedef struct ls_sizing_rule {
    ls_rule is;
    const ls_knob *knobs; // numbers that are not in NAME:VALUE, at most LS_SIZING_KNOBS; NULL: none
    bool picks;           // it keeps fewer rows than the drafter proposes: max_rows limits the kept rows
    bool by_cost;         // it decides by the cost of rows: the drafter may omit rows that cannot pay
    bool by_rows_alone;   // the experts that rows wake have no cost of their own
    bool counts;          // values[0] is the most rows for the drafter, including the root
    int32_t rows;         // else that number; 0: the rows of the method's paper
    // Clears keep[i] for rows that are not verified; all are true before the call. path[i]: acceptance probability of
    // the whole path to row i. The root is always kept, and a row is cut with its parent. NULL: verifies all rows.
    void (*cut)(const ls_sizing *z, const ls_tree *t, const double *path, const ls_cost_curve *costs, int32_t context,
                bool *keep);
    void (*learn)(ls_sizing *z, const ls_tree *t, int32_t n_path); // NULL: learns nothing
} ls_sizing_rule;

struct ls_sizing {
    const ls_sizing_rule *rule; // NULL: `default`
    double values[LS_RULE_NUMBERS];
    double knobs[LS_SIZING_KNOBS]; // of its rule
    double acceptance, threshold;  // adaedl's running state
    ls_routing *routing;           // of the model, for rules by cost; borrowed; NULL: no mixture of experts
};

const ls_rule *ls_sizing_at(int i);             // the rules, as a list
const ls_sizing_rule *ls_sizing_rule_at(int i); // the same; NULL: no more
// Reads "default" (see ls_sizing_settle) or a rule. The message of LS_E_USAGE lists the allowed values; what: the name
// in the message.
ls_code ls_sizing_read(ls_sizing *out, const char *what, const char *text, ls_err *err);
// Sets its rule's knobs from the values of all knobs (spec/knobs.h); NULL: the defaults, as after ls_sizing_read.
void ls_sizing_tune(ls_sizing *z, const ls_knob_value *all);
// Resolves `default`: exactly `max_rows` rows if it is not 0; otherwise by cost or the paper's rows, as set by the
// method.
void ls_sizing_settle(ls_sizing *z, const ls_method *m, int32_t max_rows);
// The most rows for the drafter. max_rows: limit of the user; 0: no limit.
int32_t ls_sizing_ask(const ls_sizing *z, const ls_method *m, int32_t max_rows);
// Cuts the tree to at most `max_rows` rows (0: no limit). Every row except the root must have an estimate. If there is
// a routing and experts have a cost, it must have predicted the tree's experts.
void ls_sizing_cut(const ls_sizing *z, ls_tree *t, const ls_cost_curve *costs, int32_t context, int32_t max_rows);
// Writes the rule with its values, in the syntax of ls_sizing_read.
void ls_sizing_write(const ls_sizing *z, char *out, size_t size);

// The classifier of C2T: its features, and the fit of its weights to rows with a known outcome (c2t.c).
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
