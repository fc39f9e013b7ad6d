// Acceptance rates of a token by two inputs: the second model's probability and the look-ups' estimate, each in grades;
// counted online. A second model's probability is not an acceptance rate (the model may be overconfident), and its
// errors and the look-ups' errors are not independent. So each pair of grades has its own rate, which starts at the
// value for independent inputs.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_BLEND_MODEL = 9, LS_BLEND_LOOKED = 7, LS_BLEND_KEYS = (2 * LS_BLEND_MODEL + 1) * LS_BLEND_LOOKED };

typedef struct {
    float hit[LS_BLEND_KEYS], trial[LS_BLEND_KEYS]; // exponentially decayed counts
} ls_blend;

// The inputs for a token.
typedef struct {
    float p;       // the second model's probability; negative: the token is beyond its best
    bool chosen;   // the second model chose it
    double looked; // probability by look-ups; negative: no look-up has the token
} ls_views;

int32_t ls_blend_key(const ls_views *v);
double ls_blend_rate(const ls_blend *b, const ls_views *v); // acceptance probability, given that the parent is accepted
void ls_blend_learn(ls_blend *b, int32_t key, bool hit);
