// How often a token that a second model has in mind was the target's, given what look-ups say of the same token: hit
// rates by both, counted online. A second model's probability is no acceptance rate (it may be too sure of itself), and
// look-ups and model do not err independently: so each pair of grades has a rate of its own, which begins with what
// both say if they were independent.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_BLEND_MODEL = 9, LS_BLEND_LOOKED = 7, LS_BLEND_KEYS = (2 * LS_BLEND_MODEL + 1) * LS_BLEND_LOOKED };

typedef struct {
    float hit[LS_BLEND_KEYS], trial[LS_BLEND_KEYS]; // fading
} ls_blend;

// What is known of a token.
typedef struct {
    float p;       // the second model's probability; negative: the token is beyond its best
    bool chosen;   // the second model chose it
    double looked; // chance by look-ups; negative: none of them has it
} ls_views;

int32_t ls_blend_key(const ls_views *v);
double ls_blend_rate(const ls_blend *b, const ls_views *v); // chance that the token is right, given its parent
void ls_blend_learn(ls_blend *b, int32_t key, bool hit);
