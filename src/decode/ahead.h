// Drafting beside the target's forward (PEARL, arXiv 2408.11850): a thread in which the drafter continues while the
// target verifies. Measurements decide whether it is used: two forwards at once share memory and CPU cores, and the
// step waits for a draft forward that has not finished when the target has.
#pragma once
#include "spec/drafter.h"

typedef struct ls_ahead ls_ahead; // NULL, which free, is_on and learn accept: nothing drafts ahead

// Whether the drafter can: it has a draft model with a KV cache of its own, on the CPU.
bool ls_ahead_can(const ls_drafter *d);
// target_threads: threads of the target's forwards, 0 if it does not run on the CPU. Returns NULL if the drafter cannot
// draft ahead, if `how` is off, or if it is auto and both models together need more cores than there are.
ls_ahead *ls_ahead_new(ls_overlap how, const ls_drafter *d, int32_t target_threads);
void ls_ahead_free(ls_ahead *a);
// Whether the next step drafts ahead: with auto, blocks of steps with and without are compared now and then.
bool ls_ahead_is_on(const ls_ahead *a);
// Starts d->ahead(d, s, ..) in the thread; d and s must not change until ls_ahead_stop. False: no thread could be
// started.
bool ls_ahead_start(ls_ahead *a, ls_drafter *d, const ls_draft_state *s);
void ls_ahead_stop(ls_ahead *a); // waits until the drafter has stopped
// The time of the step, and the tokens that it emitted.
void ls_ahead_learn(ls_ahead *a, double us, int32_t tokens);
