// Drafters for tests: every method can be made, also the one that needs a file.
#pragma once
#include "spec/drafter.h"

ls_tree test_tree(void); // room for any tree, which the 100th call after this one uses again
ls_tree test_tree_copy(const ls_tree *t);

// The default knobs of all methods; rest gets a corpus of pseudo-random text over [0, n_vocab) that is written once a
// test program. Valid until the next call.
const ls_knob_value *test_knobs(int32_t n_vocab, uint64_t tokenizer_id);
ls_drafter *test_drafter(const ls_method *m); // with those knobs, 1000 tokens of vocabulary
ls_drafter *test_drafter_named(const char *name);

// The target's j-th best token after a row, and its probability.
void test_say(ls_node *row, int j, int32_t id, float p);
// chosen[row]: what the target chooses after it. Fills path with the accepted rows and returns how many they are; the
// tree is marked.
int32_t test_verify(ls_tree *t, const int32_t *chosen, int32_t *path);
// A forward of the one row `token`, after which the target says n tokens of equal probability p from `first` on.
void test_teach(ls_drafter *d, const int32_t *context, size_t n_context, int32_t token, int32_t first, int n, float p);
