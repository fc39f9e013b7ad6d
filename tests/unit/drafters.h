// Drafters for tests: every method can be made, also the one that needs a file.
#pragma once
#include "spec/drafter.h"

// The default knobs of all methods; rest gets a corpus of pseudo-random text over [0, n_vocab) that is written once a
// test program. Valid until the next call.
const ls_knob_value *test_knobs(int32_t n_vocab, uint64_t tokenizer_id);
ls_drafter *test_drafter(const ls_method *m); // with those knobs, 1000 tokens of vocabulary
ls_drafter *test_drafter_named(const char *name);
