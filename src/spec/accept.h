// Acceptance rules decide which draft rows are accepted. `exact` accepts only the target's choice, so the text equals
// plain decoding's. Some rules choose the target's token together with the drafts (speculative sampling): the text has
// the distribution of plain decoding, but differs for the same seed. The other rules are LOSSY: a row may be accepted
// although the target chose another token. Except for `reflective` and `typical`, they do not if the tree also has the
// target's choice. To add a rule, add it to the table in accept.c.
#pragma once
#include "spec/rule.h"
#include "spec/tree.h"

typedef struct ls_accept ls_accept;

typedef struct {
    ls_rule is;
    // Whether row i may be accepted although the target chose another token after its parent. NULL: never (exact).
    bool (*stands)(const ls_accept *a, const ls_tree *t, int32_t i);
    bool refuses;                             // `stands` also decides about the target's choice
    bool by_chance;                           // all siblings may be accepted; of the longest paths the likeliest is
    double (*divergence)(double p, double q); // of the fuzzy rules: one outcome's part; p: the target's
    // The target judges drafts again with a probe in the same forward (decode/choose.h). A draft that it then chooses
    // replaces its first choice. values[0] is the weight of the probe's distribution. LOSSY.
    bool reflects;
    // If sampling is not greedy, a draft model's drafts are drawn from its distribution, and the target's choice
    // depends on them (decode/choose.h). values[0]: number of draws after each row; 1 if the rule has no number.
    bool draws;
    bool replaces; // one token may be drawn several times
} ls_accept_rule;

// How a text relates to that of plain decoding.
typedef enum {
    LS_SAME_TEXT,         // the same, with the same seed
    LS_SAME_DISTRIBUTION, // another sample from the same distribution
    LS_LOSSY,             // perhaps another text
} ls_guarantee;
const char *ls_guarantee_name(ls_guarantee p); // "text", "distribution", "none"

// A row in the target's distributions at another temperature than 1.
typedef struct {
    float p;       // of its token at its parent
    float entropy; // of the distribution after it, nats; 0 for a row without children
} ls_shaped;

struct ls_accept {
    const ls_accept_rule *rule; // NULL: exact
    double values[LS_RULE_NUMBERS];
    const ls_shaped *shaped; // by row, for a rule that asks for it (ls_accept_temperature); NULL: at temperature 1
};

enum { LS_ACCEPT_COUNT = 11 }; // of the rules

const ls_rule *ls_accept_at(int i); // the rules, as a list; the first is exact
// That rule with its default numbers, so that a recorded tree is enough for it: `typical` at temperature 1.
ls_accept ls_accept_usual(int i);
// The message of LS_E_USAGE lists the allowed values; what: the name in the message.
ls_code ls_accept_read(ls_accept *out, const char *what, const char *text, ls_err *err);
void ls_accept_write(const ls_accept *a, char *out, size_t size);
bool ls_accept_previews(const ls_accept *a); // a recorded tree is enough to tell which drafts the rule would accept
ls_guarantee ls_accept_guarantee(const ls_accept *a, double temperature);
int32_t ls_accept_draws(const ls_accept *a, double temperature); // 0: drafts are the most likely tokens
// The temperature at which the rule wants the target's distributions in a run at `temperature`. 0: the rule is then
// exact.
double ls_accept_temperature(const ls_accept *a, double temperature);
// Finds the deepest path from the root whose rows are all accepted, from the forward's results; of equal paths the
// first (or the likeliest, by_chance). Returns its length, >= 1; path has room for LS_MAX_ROWS.
int32_t ls_accept_path(const ls_accept *a, const ls_tree *t, int32_t *path);
