// What a model that drafts said after a row: its own guess at the target's next token.
#pragma once
#include <stdint.h>

enum { LS_SAID_TOP = 8 };

typedef struct {
    int32_t chosen;            // its choice with the target's sampling and the same random number; greedy: the first
    int32_t id[LS_SAID_TOP];   // its best tokens, best first, or those that were drawn; -1: no more
    float p[LS_SAID_TOP];      // their probabilities among all tokens, or in the distribution that they were drawn from
    float entropy;             // nats, of its whole distribution
    int32_t n_draws;           // 0: nothing was drawn
    int32_t draw[LS_SAID_TOP]; // as they were drawn, one after the other
} ls_said;
