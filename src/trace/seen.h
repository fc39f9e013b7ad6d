// Which token ids a listener already knows the bytes of: traces and screens get each id's bytes once, before its
// first use.
#pragma once
#include "base/buf.h"
#include "decode/step.h"

typedef struct {
    uint8_t *known;
    int32_t n;    // size of the vocabulary
    ls_ids order; // the ids that are known, in the order in which they became so
} ls_seen;

void ls_seen_init(ls_seen *s, int32_t n_vocab); // forgets everything; s is zeroed or was used before
void ls_seen_free(ls_seen *s);
void ls_seen_cut(ls_seen *s, size_t n); // only the first n of `order` stay known
// Appends to fresh what was not known until now; ids out of range are left out.
void ls_seen_ids(ls_seen *s, const int32_t *ids, size_t n, ls_ids *fresh);
void ls_seen_step(ls_seen *s, const ls_step *step, ls_ids *fresh);
