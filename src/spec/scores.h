// Acceptance rates for drafters whose trees carry none, or only counts: how often rows like this one were right, by
// source, length of the match, the drafter's own estimate and place among the siblings, refined by depth. Counted
// online; a kind that was never seen has the drafter's estimate, or a guess.
#pragma once
#include "spec/tree.h"

enum { LS_SCORE_DEPTHS = 6, LS_SCORE_KINDS = LS_FROM_COUNT * 5 * 7 * 5 };

typedef struct {
    float hit[LS_SCORE_KINDS][LS_SCORE_DEPTHS + 1], trial[LS_SCORE_KINDS][LS_SCORE_DEPTHS + 1]; // the last: all depths
} ls_scores;

// Replaces the estimates of a tree as it was proposed; the children of a row add up to 1 at most.
void ls_scores_fill(const ls_scores *s, ls_tree *t);
// Counts the rows of a verified tree that was filled before (and perhaps cut since).
void ls_scores_learn(ls_scores *s, const ls_tree *t);
