// How often a candidate of some kind turned out right: counts of hits and trials for each feature key, with priors
// fitted on recorded runs. A trial is a verified node whose parent was accepted.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_RATE_KEYS = 28 + 80 + 28 };

typedef struct {
    float hit[LS_RATE_KEYS], trial[LS_RATE_KEYS];      // with the prior, and fading
    uint32_t hits[LS_RATE_KEYS], trials[LS_RATE_KEYS]; // all that were counted, for fitting priors
} ls_rates;

// What is known about a candidate token at its place.
typedef struct {
    int32_t agree;     // tokens before it that agree with the place it is copied from; 0: it is not copied
    bool known;        // the target's choices at this place are remembered
    bool pair;         // ... after this very pair of tokens, not only after the last one
    int32_t succ_rank; // its rank among them; -1: it is not there
    float succ_p;      // its probability there
    int32_t last_rank; // at the root: its rank in the last logits; -1: it is not there
    float last_p;      // its probability there, of what is left beside the root
} ls_features;

void ls_rates_init(ls_rates *r);
int32_t ls_rate_key(const ls_features *f);
double ls_rate(const ls_rates *r, int32_t key); // chance that the candidate is right, given that its parent was
void ls_rates_learn(ls_rates *r, int32_t key, bool hit);
