// The draft model's prediction after a tree row.
#pragma once
#include <stdint.h>

enum { LS_SAID_TOP = 8 };

typedef struct {
    int32_t chosen;            // its choice with the target's sampling and the same random number; greedy: the best
    int32_t id[LS_SAID_TOP];   // its best tokens, best first, or the drawn tokens; -1: no more
    float p[LS_SAID_TOP];      // their probabilities among all tokens, or in the distribution of the draws
    float entropy;             // nats, of the complete distribution
    int32_t n_draws;           // 0: nothing was drawn
    int32_t draw[LS_SAID_TOP]; // the draws in order
} ls_said;
