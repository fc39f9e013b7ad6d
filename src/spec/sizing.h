// How many rows of a proposed tree are verified. A sizing rule asks the drafter for rows and cuts the tree by the
// estimates that it carries. A new rule is one file size_*.c, which holds its ls_sizing_rule, and one line in
// sizings.def.
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
    const ls_knob *knobs; // numbers beside those of the word, LS_SIZING_KNOBS at most; NULL: none
    bool picks;           // it asks for more rows than it keeps: a budget binds what is kept
    bool by_cost;         // it decides by what rows cost: the drafter may leave out what cannot pay
    // Rows to ask of the drafter, root included.
    int32_t (*ask)(const ls_sizing *z, const ls_method *m);
    // Marks the rows to verify; keep comes all true. path[i]: chance that the whole path to row i is right. The root
    // stays in any case, and a row goes with its parent. NULL: verifies all.
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
// "default" (see ls_sizing_settle) or a rule. LS_E_USAGE with what is allowed; what: for the message.
ls_code ls_sizing_read(ls_sizing *out, const char *what, const char *text, ls_err *err);
// Takes its rule's knobs from the values of all knobs (spec/knobs.h); NULL: their defaults, which it has once it is
// read.
void ls_sizing_tune(ls_sizing *z, const ls_knob_value *all);
// What `default` means: exactly `budget` rows where one was asked for (not 0); else by cost or the paper's rows, as the
// method says.
void ls_sizing_settle(ls_sizing *z, const ls_method *m, int32_t budget);
// Rows to ask the drafter for. budget: the most that are wanted; 0: no limit.
int32_t ls_sizing_ask(const ls_sizing *z, const ls_method *m, int32_t budget);
// Cuts the tree, to `budget` rows at most (0: no limit). Every row but the root must carry an estimate.
void ls_sizing_cut(const ls_sizing *z, ls_tree *t, const ls_cost_curve *costs, int32_t context, int32_t budget);
void ls_sizing_learn(ls_sizing *z, const ls_tree *t, int32_t n_path);
// As it is in force, and as it can be read again.
void ls_sizing_write(const ls_sizing *z, char *out, size_t size);

// For rules: the rows by path, likeliest first (of equals the earlier). Any first k of them are a tree.
void ls_sizing_order(const ls_tree *t, const double *path, int32_t *order);
// Fills entropy[i] with the nats of the drafter's distribution after row i: a second model's where it saw the row, else
// that of the estimates of its children, and what they leave as one more outcome.
void ls_sizing_entropy(const ls_tree *t, double *entropy);
int32_t ls_sizing_paper_rows(const ls_sizing *z, const ls_method *m); // an `ask`: the rows of the method's paper
