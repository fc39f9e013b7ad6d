// Which draft rows stand. `exact`: those that are the target's own choice, so the text is plain decoding's. The others
// are LOSSY: a row may stand although the target chose another token there; never where the tree also holds the
// target's own choice. A new rule is one file accept_*.c, which holds its ls_accept_rule, and one line in accepts.def.
#pragma once
#include "spec/rule.h"
#include "spec/tree.h"

typedef struct ls_accept ls_accept;

typedef struct {
    ls_rule is;
    // Whether row i may stand though its parent's choice was another token. NULL: never (exact).
    bool (*stands)(const ls_accept *a, const ls_tree *t, int32_t i);
} ls_accept_rule;

struct ls_accept {
    const ls_accept_rule *rule; // NULL: exact
    double values[LS_RULE_NUMBERS];
};

#define ACCEPT(rule) +1
enum {
    LS_ACCEPT_COUNT =
#include "spec/accepts.def"
};
#undef ACCEPT

const ls_rule *ls_accept_at(int i); // the rules, as a list; the first is exact
ls_accept ls_accept_usual(int i);   // that rule with its usual numbers
// LS_E_USAGE with what is allowed; what: for the message.
ls_code ls_accept_read(ls_accept *out, const char *what, const char *text, ls_err *err);
void ls_accept_write(const ls_accept *a, char *out, size_t size);
bool ls_accept_is_lossy(const ls_accept *a);
// The deepest path from the root whose rows all stand, by what the forward said of them; of equals the first. Returns
// its length, >= 1; path has room for LS_MAX_ROWS.
int32_t ls_accept_path(const ls_accept *a, const ls_tree *t, int32_t *path);
// What the rule would have let stand behind `end`, the last row of the exact path: how many rows more, of which *row is
// the first, which the target did not choose. 0: nothing.
int32_t ls_accept_more(const ls_accept *a, const ls_tree *t, int32_t end, int32_t *row);
