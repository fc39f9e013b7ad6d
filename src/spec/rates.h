// Acceptance probability of a candidate, learnt online, in three ways: of look-ups (ls_rates), of a draft model beside
// them (ls_blend), and of drafters without estimates of their own (ls_scores).
#pragma once
#include "spec/successors.h"

#include <stdbool.h>
#include <stdint.h>

// ---- ls_rates

// Online multinomial logistic regression over look-up features. Each view of a candidate (its copy, the target's
// earlier predictions after the same tokens, its rank in the last logits) has a weight for each value; the candidate's
// log odds are the sum of these weights. At most one child of a row is right, so the children share the probability.
// Each verified row moves the weights a little; the initial weights were fitted to recorded runs. Rows that are not
// drafted do not change the weights. This adds no bias, because the weights estimate the acceptance of a candidate with
// these features, not how often it is drafted.
//
// A trial is a verified row whose parent was accepted.

typedef enum {
    LS_VIEW_COPY,       // length of agreement, and whether the copy continues the parent's copy
    LS_VIEW_REMEMBERED, // rank and probability after one, two and three tokens
    LS_VIEW_LAST = LS_VIEW_REMEMBERED + LS_SUCCESSORS_ORDER, // rank and share in the last logits
    LS_VIEW_BOTH,                                            // length of agreement, and the prediction after one token
    LS_VIEW_KIND, // copied, predicted by the target before, or only in the last logits
    LS_VIEWS,
} ls_view;

enum { // number of weights of each view
    LS_VIEW_COPY_KEYS = 8 * 4,
    LS_VIEW_REMEMBERED_KEYS = 1 + 5 * 5,
    LS_VIEW_LAST_KEYS = 1 + 7 * 5,
    LS_VIEW_BOTH_KEYS = 6 * 7,
    LS_VIEW_KINDS = 3,
    LS_RATE_KEYS = LS_VIEW_COPY_KEYS + LS_SUCCESSORS_ORDER * LS_VIEW_REMEMBERED_KEYS + LS_VIEW_LAST_KEYS +
                   LS_VIEW_BOTH_KEYS + LS_VIEW_KINDS,
};

// The position of a copied candidate relative to its parent's copy.
typedef enum {
    LS_PLACE_FIRST, // its parent is the root
    LS_PLACE_ON,    // it continues the copy of its parent
    LS_PLACE_JUMP,  // its parent was copied from another position
    LS_PLACE_NEW,   // its parent was not copied
} ls_place;

// The features of a candidate token.
typedef struct {
    bool copies;   // there is a copy for this place: this token or another one
    int32_t agree; // number of tokens before it that equal those before its copied original; 0: it is not copied
    ls_place place;
    struct {
        float p;                       // its probability there
        int16_t rank;                  // in the target's prediction after these tokens; -1: not among the best
        bool known;                    // there is a remembered prediction
    } remembered[LS_SUCCESSORS_ORDER]; // [i]: after the last i + 1 tokens
    bool last;                         // the last logits apply, because the parent is the root
    int32_t last_rank;                 // its rank there; -1: it is not among the best
    float last_p;                      // its probability there, given that it is not the root's token
} ls_features;

typedef struct {
    float weight[LS_RATE_KEYS];
} ls_rates;

void ls_rates_init(ls_rates *r);
// Packs all views of a candidate into one non-negative number, which is stored in the tree's row (ls_draft.key).
int32_t ls_rate_note(const ls_features *f);
// Indices in ls_rates of the weights of a note (from ls_rate_note, also below); -1: that view does not apply.
void ls_rate_keys(int32_t note, int32_t key[LS_VIEWS]);
// Odds of the candidate against "no child of its parent is right", given that the parent is. Its probability is its
// odds divided by 1 + the odds of all children.
double ls_rate_odds(const ls_rates *r, int32_t note);
// error: outcome (1: right, 0: wrong) minus the estimated probability. step: learning rate.
void ls_rates_learn(ls_rates *r, int32_t note, double error, double step);

// ---- ls_blend

// Acceptance rates of a token by two inputs: the draft model's probability and the look-ups' estimate, each in grades;
// counted online. A draft model's probability is not an acceptance rate (the model may be overconfident), and its
// errors and the look-ups' errors are not independent. So each pair of grades has its own rate, which starts at the
// value for independent inputs.
enum { LS_BLEND_MODEL = 9, LS_BLEND_LOOKED = 7, LS_BLEND_KEYS = (2 * LS_BLEND_MODEL + 1) * LS_BLEND_LOOKED };

typedef struct {
    float hit[LS_BLEND_KEYS], trial[LS_BLEND_KEYS]; // exponentially decayed counts
} ls_blend;

// The inputs for a token.
typedef struct {
    float p;       // the draft model's probability; negative: the token is beyond its best
    bool chosen;   // the draft model chose it
    double looked; // probability by look-ups; negative: no look-up has the token
} ls_views;

int32_t ls_blend_key(const ls_views *v);
double ls_blend_rate(const ls_blend *b, const ls_views *v); // acceptance probability, given that the parent is accepted
void ls_blend_learn(ls_blend *b, int32_t key, bool hit);

// ---- ls_scores

// Acceptance rates for drafters whose trees have none, or only counts: the hit rate of similar rows, by source, length
// of the match, the drafter's own estimate and place among the siblings, refined by depth. Counted online; a kind of
// row that was never seen gets the drafter's estimate, or a fixed rate.
enum { LS_SCORE_DEPTHS = 6, LS_SCORE_KINDS = LS_FROM_COUNT * 5 * 7 * 5 };

typedef struct {
    float hit[LS_SCORE_KINDS][LS_SCORE_DEPTHS + 1], trial[LS_SCORE_KINDS][LS_SCORE_DEPTHS + 1]; // the last: all depths
} ls_scores;

// Replaces the estimates of a proposed tree; the children of a row sum to at most 1.
void ls_scores_fill(const ls_scores *s, ls_tree *t);
// Counts the rows of a verified tree whose estimates were replaced before (some rows may have been cut since).
void ls_scores_learn(ls_scores *s, const ls_tree *t);
