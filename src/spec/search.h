// Best-first search for the most likely paths from the root. The children of each row come from look-ups
// (ls_evidence) and, after rows that a second model saw, from its predictions.
#pragma once
#include "spec/drafter.h"
#include "spec/pool.h"
#include "spec/rates.h"
#include "spec/second.h"
#include "spec/successors.h"

// The data behind look-ups for the tokens that may follow a row: a pool (copies of tokens that followed the same tokens
// before), successors (the target's best tokens the last time), and rates, which estimate a candidate's acceptance.
// Each drafter that searches over them (spec/search.h) owns one.
typedef struct {
    ls_pool pool;
    ls_successors successors;
    ls_rates rates;
    bool retrieved, remembered, last_logit; // the enabled sources
} ls_evidence;

// Initialises all sources as empty; memory: limit of the remembered choices in bytes.
void ls_evidence_init(ls_evidence *e, size_t memory);
void ls_evidence_free(ls_evidence *e);
size_t ls_evidence_bytes(const ls_evidence *e);              // beside the struct itself
void ls_evidence_memory(ls_evidence *e, ls_memory_visit *v); // lists all of it
// The implementations of a drafter's functions with these names.
void ls_evidence_observe(ls_evidence *e, const int32_t *context, size_t n, bool reset);
void ls_evidence_learn(ls_evidence *e, const ls_draft_result *r);
void ls_evidence_read(ls_evidence *e, const int32_t *context, size_t at, size_t n, const ls_node *rows);
ls_knowledge ls_evidence_knows(const ls_evidence *e, const ls_draft_question *q);
// The target's predictions the last time after the last `order` tokens of tail[0..n); NULL: none.
const ls_successor *ls_evidence_remembered(const ls_evidence *e, const int32_t *tail, int32_t n, int32_t order);
const ls_rates *ls_draft_logitspec_rates(const ls_drafter *d); // its learned rates; d must be of method "logitspec"

enum {
    LS_SEARCH_GUESSES = LS_MAX_ROWS - 1,
    LS_SEARCH_CHILDREN = LS_SEARCH_GUESSES + LS_SUCCESSORS_ORDER * LS_ROW_TOP + LS_SAID_TOP + 3,
};

// A possible row. The taken candidates form the tree.
typedef struct {
    ls_draft draft; // its parent is a candidate
    ls_features f;
    int32_t m_rank; // place among the second model's best; -1: not among them
    float m_p;
    bool m_chosen;
    int32_t spoken; // the row as the second model saw it; -1: not seen
    double path;    // acceptance probability of the whole path
    double mass;    // probability that one of its children is right; 0: not expanded
} ls_candidate;

// Working memory of one search; large.
typedef struct {
    const ls_evidence *e;
    const ls_blend *blend;   // NULL if spoken is NULL
    const ls_spoken *spoken; // NULL: there is no second model
    bool drawn;      // drafts were drawn: take all rows that the second model saw first, because the drawn tokens
                     // must not influence which rows are verified
    bool named_only; // the tree has only tokens named by the second model, none from look-ups alone
    const ls_draft_state *s;
    ls_candidate c[LS_FRONTIER_MAX + LS_SEARCH_CHILDREN]; // the additional ones are for the children being collected
    int32_t n;
    ls_frontier open;
    int32_t n_taken, taken[LS_MAX_ROWS]; // candidates that are rows, parents before children
} ls_search;

// Finds the best rows: `budget` rows, or as many as could pay by s->costs. Set e, blend, spoken and s before.
void ls_search_run(ls_search *q, int32_t budget);
// Makes a tree of the found rows.
void ls_search_tree(const ls_search *q, ls_tree *tree);
