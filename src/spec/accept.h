// Which draft rows stand. `exact`: those that are the target's own choice, so the text is plain decoding's. The others
// are LOSSY: a row may stand although the target chose another token there; never where the tree also holds the
// target's own choice. A new rule is one file accept_*.c, which holds its ls_accept_rule, and one line in accepts.def.
#pragma once
#include "spec/rule.h"
#include "spec/successors.h"
#include "spec/tree.h"

typedef struct ls_accept ls_accept;

// What the forward said of the tree's rows, row by row.
typedef struct {
    const int32_t *chosen;                  // the target's choice after the row
    const float *p;                         // probability of the row's own token at its parent
    const float *entropy;                   // nats, of the distribution after the row
    const int32_t (*top_id)[LS_SUCCESSORS]; // best tokens after the row, and their probabilities
    const float (*top_p)[LS_SUCCESSORS];
} ls_accept_rows;

typedef struct {
    ls_rule is;
    // Whether row i may stand though its parent's choice was another token. NULL: never (exact).
    bool (*stands)(const ls_accept *a, const ls_tree *t, const ls_accept_rows *r, int32_t i);
} ls_accept_rule;

struct ls_accept {
    const ls_accept_rule *rule; // NULL: exact
    double value;               // the rule's number
};

const ls_rule *ls_accept_at(int i); // the rules, as a list; the first is exact
// LS_E_USAGE with what is allowed; what: for the message.
ls_code ls_accept_read(ls_accept *out, const char *what, const char *text, ls_err *err);
void ls_accept_write(const ls_accept *a, char *out, size_t size);
bool ls_accept_is_lossy(const ls_accept *a);
// The deepest path from the root whose rows all stand; of equals the first. Returns its length, >= 1; rows has room for
// LS_TREE_MAX.
int32_t ls_accept_path(const ls_accept *a, const ls_tree *t, const ls_accept_rows *r, int32_t *rows);
