// The token ids whose bytes a listener already has: traces and screens get each id's bytes once, before its first use.
#pragma once
#include "base/buf.h"
#include "decode/step.h"

typedef struct {
    uint8_t *known;
    int32_t n;    // size of the vocabulary
    ls_ids order; // the known ids, in the order in which they were added
} ls_seen;

void ls_seen_init(ls_seen *s, int32_t n_vocab); // makes s empty; s must be zeroed or initialised before
void ls_seen_free(ls_seen *s);
void ls_seen_cut(ls_seen *s, size_t n); // keeps only the first n of `order`
// Appends the new ids to fresh; ignores ids out of range.
void ls_seen_ids(ls_seen *s, const int32_t *ids, size_t n, ls_ids *fresh);
void ls_seen_step(ls_seen *s, const ls_step *step, ls_ids *fresh);
