// How likely a candidate is right, by all that look-ups say of it. Each view of a candidate (how it is copied, what the
// target said after the same tokens, its place in the last logits) has a weight for each thing that it may say, and the
// log odds of the candidate are the sum of these. One of a row's children at most is right, so they share: a
// multinomial logistic regression, which follows each verified row a little. What it begins with was fitted to recorded
// runs. Rows that a tree left out teach nothing, and bias nothing: the weights say how likely a candidate is that looks
// like this, however rarely such are drafted.
//
// A trial is a verified row whose parent was accepted.
#pragma once
#include "spec/successors.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    LS_VIEW_COPY, // length of agreement, and how the copy goes on from the parent's
    LS_VIEW_SAID, // after one, two and three tokens: rank and probability
    LS_VIEW_LAST = LS_VIEW_SAID + LS_SUCCESSORS_ORDER, // rank and share in the last logits
    LS_VIEW_BOTH,                                      // length of agreement, and what was said after one token
    LS_VIEW_KIND,                                      // copied, said by the target before, or in the last logits alone
    LS_VIEWS,
} ls_view;

enum { // weights of each view
    LS_VIEW_COPY_KEYS = 8 * 4,
    LS_VIEW_SAID_KEYS = 1 + 5 * 5,
    LS_VIEW_LAST_KEYS = 1 + 7 * 5,
    LS_VIEW_BOTH_KEYS = 6 * 7,
    LS_VIEW_KINDS = 3,
    LS_RATE_KEYS = LS_VIEW_COPY_KEYS + LS_SUCCESSORS_ORDER * LS_VIEW_SAID_KEYS + LS_VIEW_LAST_KEYS + LS_VIEW_BOTH_KEYS +
                   LS_VIEW_KINDS,
};

// Where a candidate stands, as a copy.
typedef enum {
    LS_PLACE_FIRST, // its parent is the root
    LS_PLACE_ON,    // it goes on where its parent was copied
    LS_PLACE_JUMP,  // its parent was copied, and it does not go on there
    LS_PLACE_NEW,   // its parent was not copied
} ls_place;

// What is known about a candidate token at its place.
typedef struct {
    bool copies;   // something is copied to this place: this token or another
    int32_t agree; // tokens before it that agree with the place it is copied from; 0: it is not copied
    ls_place place;
    struct {
        float p;                 // its probability there
        int16_t rank;            // among what the target said after these tokens; -1: it is not among the best
        bool known;              // what it said there is remembered
    } said[LS_SUCCESSORS_ORDER]; // [i]: after the last i + 1 tokens
    bool last;                   // the last logits were looked at: the place is the root
    int32_t last_rank;           // its rank there; -1: it is not among the best
    float last_p;                // its probability there, of what is left beside the root
} ls_features;

typedef struct {
    float weight[LS_RATE_KEYS];
} ls_rates;

void ls_rates_init(ls_rates *r);
// All views of a candidate in one number, which is not negative: what a tree's row keeps (ls_draft.key).
int32_t ls_rate_note(const ls_features *f);
// The weights of a note (of ls_rate_note, here and below), as places in ls_rates; -1: that view has nothing to say.
void ls_rate_keys(int32_t note, int32_t key[LS_VIEWS]);
// Of the candidate being right, given that its parent was, against no child of that parent being right: its chance is
// its odds over 1 + the odds of all children.
double ls_rate_odds(const ls_rates *r, int32_t note);
// error: 1 or 0, as the candidate was right or wrong, less the chance that it was given. step: how far the weights
// follow.
void ls_rates_learn(ls_rates *r, int32_t note, double error, double step);
