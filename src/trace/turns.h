// Which turns of a recording are one conversation, and what a session needs to go on with it: a recording holds turns
// in the order in which they were decoded, also those that an edit or another conversation took the place of.
#pragma once
#include "trace/trace_read.h"

typedef struct {
    ls_ids context;      // committed tokens
    int32_t uncommitted; // the last turn's last token where it was emitted without a forward; -1: none
    ls_ids starts;       // of each turn: tokens committed before it, and the uncommitted one
    size_t kept;         // of the tokens before, those that the last turn's prompt begins with
    uint32_t first;      // number of the first turn in its header
    char sha256[65], model[64];
} ls_turns; // zeroed: no turn yet

void ls_turns_free(ls_turns *t);
size_t ls_turns_count(const ls_turns *t);
// A header came. Turns that it takes the place of are cut; where it goes on with none of them, all are. Returns its
// index among the turns of the conversation, from 0.
uint32_t ls_turns_begin(ls_turns *t, const ls_trace_header *h);
// How many tokens at the end of the prompt, of those that it does not keep, begin the last turn's answer.
size_t ls_turns_begun(const ls_turns *t, const ls_trace_header *h);
void ls_turns_step(ls_turns *t, const ls_step *s);
