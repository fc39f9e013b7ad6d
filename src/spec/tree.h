// The draft tree: the rows of one forward. A drafter fills ls_draft, the forward adds the target's results after each
// row, and acceptance marks the path. Drafters, acceptance rules, sizing rules, traces, statistics and screens all read
// this record.
//
// Row 0 is the root, the target's own token; parents come before children. A tree points to arrays: those of
// ls_tree_new have room for any tree, those of a shared step (decode/step.h) for what is there.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_MAX_ROWS = 256,        // largest number of rows of a forward, including the root
    LS_ROW_TOP = 8,           // kept best tokens of every verified row
    LS_MAX_PREDICTIONS = 128, // largest number of rows that a draft model sees in one draft
};

typedef struct {
    int32_t id;
    float logit; // raw logit
} ls_top_entry;

// The draft model's prediction after a tree row.
enum { LS_PREDICTION_TOP = 10 }; // as many as EAGLE expands

typedef struct {
    int32_t chosen;                // its choice with the target's sampling and the same random number; greedy: the best
    int32_t id[LS_PREDICTION_TOP]; // its best tokens, best first, or the drawn tokens; -1: no more
    float p[LS_PREDICTION_TOP];    // their probabilities among all tokens, or in the distribution of the draws
    float entropy;                 // nats, of the complete distribution
    int32_t n_draws;               // 0: nothing was drawn
    int32_t draw[LS_PREDICTION_TOP]; // the draws in order
} ls_prediction;

typedef enum {
    LS_NODE_ACCEPTED,    // on the verified path (the root always is)
    LS_NODE_REJECTED,    // its parent is on the path, but another token was chosen there
    LS_NODE_NOT_REACHED, // its parent is not on the path
} ls_node_state;
const char *ls_node_state_name(ls_node_state s); // "accepted", "rejected", "not-reached"

// The sources of draft tokens, one row each in sources.def.
typedef enum {
#define SOURCE(name, ...) LS_SOURCE_##name,
#include "spec/sources.def"
    LS_SOURCE_COUNT
} ls_draft_source;

typedef enum {
#define KIND(name, ...) LS_KIND_##name,
#include "spec/sources.def"
    LS_KIND_COUNT
} ls_source_kind;

typedef struct {
    const char *name, *label, *letter;
    ls_source_kind kind;
    const char *sentence;
} ls_draft_source_facts;
extern const ls_draft_source_facts ls_sources[LS_SOURCE_COUNT];

typedef struct {
    const char *legend, *word, *html_class, *html_line; // word: the legend, shorter; line: a border-style
    int dark, light; // colours of the 256 (base/colour.h) on a dark and a light ground; -1: the default colour
} ls_kind_facts;
enum { // the same as constants
#define KIND(name, legend, word, html_class, html_line, dark, light, first8)                                           \
    LS_KIND_##name##_DARK = (dark), LS_KIND_##name##_LIGHT = (light), LS_KIND_##name##_FIRST8 = (first8),
#include "spec/sources.def"
};
extern const ls_kind_facts ls_source_kinds[LS_KIND_COUNT];
const char *ls_draft_source_name(ls_draft_source f); // in traces: "root", "retrieved", "last-logit", ...

// Why the token that the target chose next was not accepted: the reasons of spec/misses.def, in their order.
typedef enum {
#define MISS(place, ...) LS_MISS_##place,
#include "spec/misses.def"
#undef MISS
    LS_MISS_COUNT
} ls_miss;

typedef struct {
    const char *name, *label, *sentence;
} ls_miss_facts;
extern const ls_miss_facts ls_misses[LS_MISS_COUNT];
const char *ls_miss_name(ls_miss m); // in traces; "" for LS_MISS_NONE

// The drafter's part of a row.
#define LS_DRAFT_FIELDS                                                                                                \
    int32_t token;                                                                                                     \
    int16_t parent;     /* row of the parent; -1 for the root */                                                       \
    int16_t depth;      /* 0 for the root */                                                                           \
    int16_t branch;     /* index into the tree's branches; -1 for the root */                                          \
    int16_t rank;       /* of its branch; -1: that continues the root itself */                                        \
    int16_t match_n;    /* length of the matched n-gram; 0: none */                                                    \
    int16_t kind;       /* what hit rates count the row as (spec/rates.h, spec/search.h) */                            \
    int16_t prediction; /* index + 1 of the draft model's prediction after the row; 0: it did not see it */            \
    uint8_t from;       /* ls_draft_source */                                                                          \
    uint8_t state;      /* ls_node_state */                                                                            \
    int32_t match_pos;  /* context position this token was copied from; -1: none */                                    \
    int32_t key;        /* of `ls_grow`: its number as a draft, whatever the tree's order */                           \
    float draft_p;      /* a draft model's probability of the token at its parent; 0: it did not name it */            \
    float est_p;        /* acceptance estimated by the drafter, given the parent accepted; NAN: no estimate */
typedef struct {
    LS_DRAFT_FIELDS
} ls_draft;

typedef struct {
    union {
        ls_draft draft;
        struct {
            LS_DRAFT_FIELDS
        };
    };
    float p;        // the target's probability of this token at its parent (for the root: in the last logits)
    int32_t target; // what the target chose after this node; -1: no forward was run
    float target_p; // its probability
    int32_t alone;  // of a mixture: experts that this row took and no other row of the forward did
    int32_t own;    // target's choice before a probe judged the row (spec/accept.c); -1: no probe
    float entropy;  // nats, of the target's distribution after this node
    float lse;      // log-sum-exp of the raw logits after this node (p = exp(logit - lse))
    ls_top_entry top[LS_ROW_TOP]; // the target's best tokens after this node, best first; id -1: no more
} ls_node;

// One branch under the root, in drafting order. With equal prefixes merged, a branch owns only the nodes
// that it added: rows first_node .. first_node + n_nodes - 1.
typedef struct {
    int16_t rank;      // rank of its first token in the last logits; -1: the root's own continuation
    int16_t match_n;   // n-gram length that gave the continuation; 0: none was found
    int32_t match_pos; // context position of the first copied token; -1: none
    int16_t found;     // continuation tokens found, before any cut
    int16_t first_node;
    int16_t n_nodes;
    int16_t accepted; // how many of its nodes were accepted
} ls_branch;

typedef struct {
    int32_t n;
    int16_t n_branches, n_predictions;
    ls_branch *branches;
    ls_prediction *predictions; // a draft model's predictions, also after rows that were cut
    ls_node *nodes;
} ls_tree;

// The draft model's prediction after a row; NULL: it did not see the row.
static inline const ls_prediction *ls_tree_prediction(const ls_tree *t, int32_t row) {
    return t->nodes[row].prediction ? &t->predictions[t->nodes[row].prediction - 1] : NULL;
}

ls_tree *ls_tree_new(void);                          // room for any tree, zeroed; owned by the caller (free)
void ls_tree_copy(ls_tree *to, const ls_tree *from); // the content; `to` has room for it
// For a tree in memory of one's own: how many bytes its counts take, and where they are (aligned as an int32_t).
size_t ls_tree_bytes(const ls_tree *t);
void ls_tree_place(ls_tree *t, void *bytes);
void ls_tree_start(ls_tree *t, int32_t root);
// Adds a chain of tokens under the root, until the tree has `max_rows` rows. If the branch has a rank, its first token
// is a guess from the last logits; the other tokens continue an n-gram match. Equal prefixes are not merged, as in the
// authors' program. Returns the number of added rows; a branch without rows is not listed.
int32_t ls_tree_add(ls_tree *t, const int32_t *tokens, int32_t n, int32_t max_rows, ls_branch info);
// Makes the tree from drafts[0..n), 1 <= n <= LS_MAX_ROWS: the root first, parents before children. The caller need not
// set depth and branch, and sets the rank only for children of the root. The rows under each child of the root are
// grouped as its branch; siblings keep their order.
void ls_tree_lay_out(ls_tree *t, const ls_draft *drafts, int32_t n);
// Removes the rows whose keep[] is false, and their descendants. The root is always kept.
void ls_tree_keep(ls_tree *t, const bool *keep);
int32_t ls_tree_depth(const ls_tree *t); // of its deepest row
// Fills path[0..] with the rows from the root to `row`, and returns their number: the depth of `row` + 1.
int32_t ls_tree_path(const ls_tree *t, int32_t row, int32_t *path);
int32_t ls_tree_tokens(const ls_tree *t, int32_t row, int32_t *tokens); // the same as the tokens of these rows
// Sets all states and the number of accepted rows of each branch, from the accepted rows.
void ls_tree_mark(ls_tree *t, const int32_t *path, int32_t n_path);
