// Best-first search: the likeliest paths from the root over all that may follow each row, by what look-ups know
// (spec/evidence.h) and, after rows that a second model saw, by what that said.
#pragma once
#include "spec/blend.h"
#include "spec/evidence.h"
#include "spec/frontier.h"
#include "spec/second.h"

enum {
    LS_SEARCH_GUESSES = LS_MAX_ROWS - 1,
    LS_SEARCH_CHILDREN = LS_SEARCH_GUESSES + LS_SUCCESSORS_ORDER * LS_ROW_TOP + LS_SAID_TOP + 3,
};

// A possible row. Those that were taken form the tree.
typedef struct {
    ls_draft draft; // its parent is a candidate
    ls_features f;
    int32_t m_rank; // place among the second model's best; -1: not among them
    float m_p;
    bool m_chosen;
    int32_t spoken; // the row as the second model saw it; -1: not seen
    double path;    // chance of the whole path
    double mass;    // that one of its children is right; 0: none were looked for
} ls_candidate;

// Working memory of one search; large.
typedef struct {
    const ls_evidence *e;
    const ls_blend *blend;   // NULL where spoken is
    const ls_spoken *spoken; // NULL: there is no second model
    bool drawn;              // what was drawn after a row may not decide whether it stays: those that were seen go first
    bool named_only;         // rows of the tree are what the second model named; look-ups stay out of it
    const ls_draft_state *s;
    ls_candidate c[LS_FRONTIER_MAX + LS_SEARCH_CHILDREN]; // the last of them while a row's children are collected
    int32_t n;
    ls_frontier open;
    int32_t n_taken, taken[LS_MAX_ROWS]; // candidates that are rows, parents before children
} ls_search;

// Finds the best rows, `budget` of them or as many as could pay by s->costs. e, blend, spoken and s are set before.
void ls_search_run(ls_search *q, int32_t budget);
// The rows that were found, as a tree.
void ls_search_tree(const ls_search *q, ls_tree *tree);
