// Sizing rules decide how many rows of a proposed tree are verified. A rule sets the drafter's budget and cuts the tree
// by its estimates. To add a rule, write a file size_*.c with its ls_sizing_rule, and add a line to sizings.def.
#pragma once
#include "base/err.h"
#include "spec/cost_curve.h"
#include "spec/drafter.h"
#include "spec/rule.h"
#include "spec/tree.h"

#include <stddef.h>

enum { LS_SIZING_KNOBS = 5 };

typedef struct ls_sizing ls_sizing;

typedef struct ls_sizing_rule {
    ls_rule is;
    const ls_knob *knobs; // numbers that are not in NAME:VALUE, at most LS_SIZING_KNOBS; NULL: none
    bool picks;           // it keeps fewer rows than the drafter proposes: a budget limits the kept rows
    bool by_cost;         // it decides by the cost of rows: the drafter may omit rows that cannot pay
    // The budget for the drafter, including the root.
    int32_t (*ask)(const ls_sizing *z, const ls_method *m);
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
};

const ls_rule *ls_sizing_at(int i);             // the rules, as a list
const ls_sizing_rule *ls_sizing_rule_at(int i); // the same; NULL: no more
// Reads "default" (see ls_sizing_settle) or a rule. The message of LS_E_USAGE lists the allowed values; what: the name
// in the message.
ls_code ls_sizing_read(ls_sizing *out, const char *what, const char *text, ls_err *err);
// Sets its rule's knobs from the values of all knobs (spec/knobs.h); NULL: the defaults, as after ls_sizing_read.
void ls_sizing_tune(ls_sizing *z, const ls_knob_value *all);
// Resolves `default`: exactly `budget` rows if it is not 0; otherwise by cost or the paper's rows, as set by the
// method.
void ls_sizing_settle(ls_sizing *z, const ls_method *m, int32_t budget);
// The budget for the drafter. budget: limit of the user; 0: no limit.
int32_t ls_sizing_ask(const ls_sizing *z, const ls_method *m, int32_t budget);
// Cuts the tree to at most `budget` rows (0: no limit). Every row except the root must have an estimate.
void ls_sizing_cut(const ls_sizing *z, ls_tree *t, const ls_cost_curve *costs, int32_t context, int32_t budget);
void ls_sizing_learn(ls_sizing *z, const ls_tree *t, int32_t n_path);
// Writes the rule with its values, in the syntax of ls_sizing_read.
void ls_sizing_write(const ls_sizing *z, char *out, size_t size);

// For rules: the rows sorted by path, the most likely first (of equal rows the earlier). The first k rows form a tree
// for any k.
void ls_sizing_order(const ls_tree *t, const double *path, int32_t *order);
// Fills entropy[i] with the entropy (nats) of the drafter's distribution after row i: the second model's if it saw the
// row, otherwise that of the children's estimates, with one outcome for all other tokens.
void ls_sizing_entropy(const ls_tree *t, double *entropy);
int32_t ls_sizing_paper_rows(const ls_sizing *z,
                             const ls_method *m); // an `ask` function: the rows of the method's paper
