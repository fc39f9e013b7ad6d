// Which draft rows stand. `exact`: those that are the target's own choice, so the text is plain decoding's. Some rules
// choose the target's token together with the drafts (speculative sampling): each text is as likely as from plain
// decoding, but with a seed it is another one. The others are LOSSY: a row may stand although the target chose another
// token there; never where the tree also holds the target's own choice, but for `reflective`. A new rule is one file
// accept_*.c, which holds its ls_accept_rule, and one line in accepts.def.
#pragma once
#include "spec/rule.h"
#include "spec/tree.h"

typedef struct ls_accept ls_accept;

typedef struct {
    ls_rule is;
    // Whether row i may stand though its parent's choice was another token. NULL: never (exact).
    bool (*stands)(const ls_accept *a, const ls_tree *t, int32_t i);
    // The target judges drafts by a probe in the same forward (decode/reflect.h), and one that it chooses then takes
    // the place of its own choice: values[0] is the weight of what the probe says. LOSSY.
    bool reflects;
    // Where sampling is not greedy, a second model's drafts are drawn from its distribution, and the target chooses
    // with them in view (decode/choose.h): values[0] draws after each row, 1 where the rule has no number.
    bool draws;
    bool replaces; // one token may be drawn several times
} ls_accept_rule;

// What a text is to plain decoding's.
typedef enum {
    LS_PROMISE_TEXT, // the same, with the same seed
    LS_PROMISE_ODDS, // as likely: another draw from the same distribution
    LS_PROMISE_NONE, // LOSSY
} ls_promise;
const char *ls_promise_name(ls_promise p); // "text", "odds", "none"

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
bool ls_accept_previews(const ls_accept *a); // a recorded tree tells what the rule would let stand
ls_promise ls_accept_promise(const ls_accept *a, double temperature);
int32_t ls_accept_draws(const ls_accept *a, double temperature); // 0: drafts are the likeliest tokens
// The deepest path from the root whose rows all stand, by what the forward said of them; of equals the first. Returns
// its length, >= 1; path has room for LS_MAX_ROWS.
int32_t ls_accept_path(const ls_accept *a, const ls_tree *t, int32_t *path);
// What the rule would have let stand behind `end`, the last row of the exact path: how many rows more, of which *row is
// the first, which the target did not choose. 0: nothing.
int32_t ls_accept_more(const ls_accept *a, const ls_tree *t, int32_t end, int32_t *row);
