// Best-first search for the most likely paths from the root. The children of each row come from look-ups
// (ls_evidence) and, after rows that a draft model saw, from its predictions.
#pragma once
#include "spec/pool.h"
#include "spec/rates.h"
#include "spec/usage.h"

// The data behind look-ups for the tokens that may follow a row: a pool (copies of tokens that followed the same tokens
// before), successors (the target's best tokens the last time), usage (statistics of single tokens), and rates, which
// estimate a candidate's acceptance.
typedef struct {
    ls_pool pool;
    ls_successors successors;
    ls_usage usage;
    ls_rates rates;
    bool retrieved, remembered, last_logit; // the enabled sources
} ls_evidence;

// A drafter that searches over evidence begins with this.
typedef struct {
    ls_drafter base;
    ls_evidence e;
} ls_searcher;

// Sets up empty evidence, apart from its switches. memory: limit of the remembered choices in bytes.
void ls_searcher_set_up(ls_searcher *s, size_t memory);
// Functions of a drafter over its evidence.
void ls_searcher_observe(ls_drafter *d, const int32_t *context, size_t n, bool reset);
void ls_searcher_learn(ls_drafter *d, const ls_draft_result *r);
void ls_searcher_read(ls_drafter *d, const int32_t *context, size_t at, size_t n, const ls_node *rows);
void ls_searcher_arrays(void *d, ls_memory_visit *v);
int32_t ls_searcher_pool_size(const ls_drafter *d);
// Remembers the target's prediction after tail[0..n), 1 to LS_SUCCESSORS_ORDER tokens: the row's, and those before it.
// at: see ls_usage_add.
void ls_evidence_remember(ls_evidence *e, const int32_t *tail, int32_t n, int32_t at, const ls_successor *next);

enum {
    LS_SEARCH_GUESSES = LS_MAX_ROWS - 1,
    LS_SEARCH_CHILDREN = LS_SEARCH_GUESSES + LS_SUCCESSORS_ORDER * LS_ROW_TOP + LS_PREDICTION_TOP + 3 + LS_AVERAGE_TOP +
                         (LS_USAGE_ROWS - 1) * LS_ROW_TOP + LS_USAGE_FREQUENT,
    LS_SEARCH_SLOTS = 1024, // a power of two
};

// A possible child of the row that is being expanded.
typedef struct {
    int32_t token;
    int32_t match_pos; // as in ls_draft
    int16_t match_n;
    int16_t kind;
    bool looked; // look-ups have it
    bool m_chosen;
    float p;    // its probability by look-ups
    float m_p;  // the draft model's; -1: it does not name the token
    float bias; // of its token (ls_token_usage)
    ls_features f;
    uint8_t view[LS_VIEWS]; // f as values of views
} ls_child;

// A possible row. The taken candidates form the tree.
typedef struct {
    ls_draft draft;    // its parent is a candidate
    int32_t draft_row; // the row as the draft model saw it; -1: not seen
    double path;       // acceptance probability of the whole path
    double mass;       // probability that one of its children is right; 0: not expanded
} ls_candidate;

// Working memory of one search; large.
typedef struct {
    const ls_evidence *e;
    const ls_blend *blend;           // NULL if draft_rows is NULL
    const ls_draft_rows *draft_rows; // NULL: there is no draft model
    bool drawn;      // drafts were drawn: take all rows that the draft model saw first, because the drawn tokens
                     // must not influence which rows are verified
    bool named_only; // the tree has only tokens named by the draft model, none from look-ups alone
    // EAGLE's tree: the rows with the largest products of the draft model's probabilities, among so many best tokens
    // after each row that it saw; look-ups and acceptance rates are not used. 0: as the header says.
    int32_t children;
    int32_t first_child[LS_MAX_PREDICTIONS + 1]; // candidate of the first child of each of these rows, and the end
    const ls_draft_state *s;
    ls_candidate c[LS_CANDIDATES];
    int32_t n;
    ls_child child[LS_SEARCH_CHILDREN]; // of the row that is being expanded
    double est[LS_SEARCH_CHILDREN];     // their probabilities
    int32_t n_children;
    struct {
        uint16_t round, at;
    } slot[LS_SEARCH_SLOTS]; // hash table of these children, by token
    uint16_t round;          // slots of other rounds are free
    ls_open open;
    int32_t max_rows;
    int32_t n_taken, taken[LS_MAX_ROWS]; // candidates that are rows, parents before children
} ls_search;

// The thread's working memory, for a search over the drafter's evidence without a draft model. It is used up by the
// next call.
ls_search *ls_search_of(const ls_searcher *d, const ls_draft_state *s);
// Finds the best rows: `max_rows` rows, or as many as could pay by s->costs. Set blend, draft_rows and the switches
// before.
void ls_search_run(ls_search *q, int32_t max_rows);
// Makes a tree of the found rows.
void ls_search_tree(const ls_search *q, ls_tree *tree);
// Looks once more for the children of the accepted rows, before anything was learnt from them, and calls `each` with
// those of each row and the token that came after it. The rates learn from those that look-ups have.
void ls_search_trials(ls_search *q, const ls_tree *t,
                      void (*each)(void *ud, const ls_child *children, int32_t n, int32_t came), void *ud);
// Looks once more for the children of a row of such a tree, and then where the search does not look: in shorter
// n-grams.
ls_miss ls_search_miss(ls_search *q, const ls_draft_question *k);
