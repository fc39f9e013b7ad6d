// Acceptance probability of a candidate, learnt online, in three ways: of look-ups (ls_rates), of a draft model beside
// them (ls_blend), and of drafters without estimates of their own (ls_scores).
#pragma once
#include "spec/successors.h"

#include <stdbool.h>
#include <stdint.h>

// ---- ls_rates

// Online multinomial logistic regression over look-up features. Each view of a candidate (its copy, the target's
// earlier predictions after the same tokens, its rank in the last logits, how recently it occurred ...) has a weight
// for each value; the candidate's log odds are the sum of these weights. At most one child of a row is right, so the
// children share the probability. All candidates after an accepted row move the weights a little, drafted or not,
// because the token that came there is known. The initial weights were fitted to live runs on other prompts.

// VIEW(name, number of weights, what it tells apart)
#define LS_RATE_VIEWS(VIEW)                                                                                            \
    VIEW(COPY, 8 * 4)             /* length of agreement, and whether the copy continues the parent's copy */          \
    VIEW(REMEMBERED_1, 1 + 5 * 5) /* rank and probability after one token */                                           \
    VIEW(REMEMBERED_2, 1 + 5 * 5) /* ... two */                                                                        \
    VIEW(REMEMBERED_3, 1 + 5 * 5) /* ... three */                                                                      \
    VIEW(LAST, 1 + 7 * 5)         /* rank and share in the last logits */                                              \
    VIEW(BOTH, 6 * 7)             /* length of agreement, and the prediction after one token */                        \
    VIEW(KIND, 4)                 /* by usage, only in the last logits, predicted by the target before, copied */      \
    VIEW(RANKS, 2 * 4 * 4 * 4)    /* ranks after one, two and three tokens, and whether it is copied */                \
    VIEW(RECENT, 10 * 3)          /* how long ago the token occurred, by kind */                                       \
    VIEW(COUNT, 7 * 5)            /* how often it occurs in the conversation, by the longest source */                 \
    VIEW(AVERAGE, 4 + 4 * 13)     /* averaged probability after the token before it, by the number of rows */          \
    VIEW(AVERAGE_RANK, 17)        /* its rank there */                                                                 \
    VIEW(LISTED, 1 + 7 * 4)       /* how long ago it was among the target's best tokens, and its rank */               \
    VIEW(LISTED_P, 7 * 13)        /* its probability there */

typedef enum {
#define VIEW(name, weights) LS_VIEW_##name,
    LS_RATE_VIEWS(VIEW) LS_VIEWS
#undef VIEW
} ls_view;

enum { // each view has one weight more, which is 0: the view does not apply
#define VIEW(name, weights) LS_AT_##name, LS_AT_LAST_OF_##name = LS_AT_##name + (weights),
    LS_RATE_VIEWS(VIEW) LS_RATE_KEYS
#undef VIEW
};
extern const int16_t ls_rate_at[LS_VIEWS + 1]; // first weight of each view, and the end

// The position of a copied candidate relative to its parent's copy.
typedef enum {
    LS_PLACE_FIRST, // its parent is the root
    LS_PLACE_ON,    // it continues the copy of its parent
    LS_PLACE_JUMP,  // its parent was copied from another position
    LS_PLACE_NEW,   // its parent was not copied
} ls_place;

// The features of a candidate token. Small, because the search fills one for each.
typedef struct {
    struct {
        float p;                       // its probability there
        int16_t rank;                  // in the target's prediction after these tokens; -1: not among the best
        bool known;                    // there is a remembered prediction
    } remembered[LS_SUCCESSORS_ORDER]; // [i]: after the last i + 1 tokens
    float last_p;                      // its probability in the last logits, given that it is not the root's token
    float average_p, listed_p;
    int32_t ago;          // tokens since it occurred in the conversation; 0: it does not occur
    int32_t listed_ago;   // tokens since it was among the target's best; 0: it was not
    int16_t last_rank;    // its rank in the last logits; -1: it is not among the best
    uint16_t count;       // its occurrences in the conversation
    uint8_t average_rows; // rows of the average after the token before it; 0: there is none
    int8_t average_rank;  // its rank there; -1: it is not among the best
    uint8_t listed_rank;
    uint8_t agree; // number of tokens before it that equal those before its copied original; 0: it is not copied
    uint8_t place; // ls_place
    bool copies;   // there is a copy for this place: this token or another one
    bool last;     // the last logits apply, because the parent is the root
} ls_features;

typedef struct {
    float weight[LS_RATE_KEYS];
} ls_rates;

void ls_rates_init(ls_rates *r);
// The value of each view of a candidate: 0: it does not apply, otherwise 1 .. its number of weights.
void ls_rate_views(const ls_features *f, uint8_t view[LS_VIEWS]);
// Odds of the candidate against "no child of its parent is right", given that the parent is. Its probability is its
// odds divided by 1 + the odds of all children. bias: learnt log odds of its token (ls_token_usage).
double ls_rate_odds(const ls_rates *r, const uint8_t view[LS_VIEWS], float bias);
// error: outcome (1: right, 0: wrong) minus the estimated probability. step: learning rate.
void ls_rates_learn(ls_rates *r, const uint8_t view[LS_VIEWS], double error, double step);

// ---- ls_blend

// Acceptance rates of a token by two inputs: the draft model's probability and the look-ups' estimate, each in grades;
// counted online. A draft model's probability is not an acceptance rate (the model may be overconfident), and its
// errors and the look-ups' errors are not independent. So each pair of grades has its own rate, which starts at the
// value for independent inputs.
enum { LS_BLEND_MODEL = 9, LS_BLEND_LOOKED = 7, LS_BLEND_KEYS = (2 * LS_BLEND_MODEL + 1) * LS_BLEND_LOOKED };

typedef struct {
    float hit, trial; // exponentially decayed counts
} ls_hits;

typedef struct {
    ls_hits of[LS_BLEND_KEYS];
} ls_blend;

// The inputs for a token.
typedef struct {
    float p;       // the draft model's probability; negative: the token is beyond its best
    bool chosen;   // the draft model chose it
    double looked; // probability by look-ups; negative: no look-up has the token
} ls_blend_input;

int32_t ls_blend_key(const ls_blend_input *v);
double ls_blend_rate(const ls_blend *b,
                     const ls_blend_input *v); // acceptance probability, given that the parent is accepted
void ls_blend_learn(ls_blend *b, int32_t key, bool hit);

// ---- ls_scores

// Acceptance rates for drafters whose trees have none, or only counts: the hit rate of similar rows, by source, length
// of the match, the drafter's own estimate and place among the siblings, refined by depth. Counted online; a kind of
// row that was never seen gets the drafter's estimate, or a fixed rate.
enum { LS_SCORE_DEPTHS = 6, LS_SCORE_KINDS = LS_SOURCE_COUNT * 5 * 7 * 5 };

typedef struct {
    ls_hits of[LS_SCORE_KINDS][LS_SCORE_DEPTHS + 1]; // the last: all depths
} ls_scores;

// Replaces the estimates of a proposed tree; the children of a row sum to at most 1.
void ls_scores_fill(const ls_scores *s, ls_tree *t);
// Counts the rows of a verified tree whose estimates were replaced before (some rows may have been cut since).
void ls_scores_learn(ls_scores *s, const ls_tree *t);
