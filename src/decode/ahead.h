// Drafting beside the target's forward (PEARL, arXiv 2408.11850): a thread in which the drafter goes on while the
// target verifies. Whether that pays is measured: two forwards at once share memory and processors, and a draft forward
// that is under way when the target is done is waited for.
#pragma once
#include "spec/drafter.h"

typedef struct ls_ahead ls_ahead; // NULL wherever one is taken: nothing drafts ahead

// Whether there is a second model that can: one with a timeline of its own, on the CPU.
bool ls_ahead_can(const ls_drafter *d);
// target_threads: processors that the target's forwards take, 0 if it runs elsewhere. NULL where nothing is to be
// tried: the drafter cannot, `how` is off, or it is auto and both take more processors than there are.
ls_ahead *ls_ahead_new(ls_overlap how, const ls_drafter *d, int32_t target_threads);
void ls_ahead_free(ls_ahead *a);
// Whether the next step drafts ahead: with auto, blocks of steps with and without are compared now and then.
bool ls_ahead_is_on(const ls_ahead *a);
// d->ahead(d, s, ..) begins in the thread; what it is given stays as it is until ls_ahead_stop. False: the system gives
// no thread.
bool ls_ahead_start(ls_ahead *a, ls_drafter *d, const ls_draft_state *s);
void ls_ahead_stop(ls_ahead *a); // waits until the drafter has stopped
// What the step took, and the tokens that it brought.
void ls_ahead_learn(ls_ahead *a, double us, int32_t tokens);
