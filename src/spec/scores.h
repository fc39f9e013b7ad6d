// Acceptance rates for drafters whose trees have none, or only counts: the hit rate of similar rows, by source, length
// of the match, the drafter's own estimate and place among the siblings, refined by depth. Counted online; a kind of
// row that was never seen gets the drafter's estimate, or a fixed rate.
#pragma once
#include "spec/tree.h"

enum { LS_SCORE_DEPTHS = 6, LS_SCORE_KINDS = LS_FROM_COUNT * 5 * 7 * 5 };

typedef struct {
    float hit[LS_SCORE_KINDS][LS_SCORE_DEPTHS + 1], trial[LS_SCORE_KINDS][LS_SCORE_DEPTHS + 1]; // the last: all depths
} ls_scores;

// Replaces the estimates of a proposed tree; the children of a row sum to at most 1.
void ls_scores_fill(const ls_scores *s, ls_tree *t);
// Counts the rows of a verified tree whose estimates were replaced before (some rows may have been cut since).
void ls_scores_learn(ls_scores *s, const ls_tree *t);
