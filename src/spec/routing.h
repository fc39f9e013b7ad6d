// Which experts of a mixture the rows of a tree will take, before they are forwarded: those of the same tokens the last
// time. From this follows how many experts a row wakes that the other rows did not wake, which is what it costs.
//
// A prediction changes the speed, never the text. How often each kind of prediction is right is counted online, in each
// layer: early layers depend on the token alone, later ones on its context. Where predictions are wrong, rows of a tree
// still take the same experts more often than by chance; that share is counted, too.
#pragma once
#include "spec/memory.h"
#include "spec/tree.h"

#include <stddef.h>
#include <stdint.h>

enum {
    LS_ROUTING_ORDER = 2, // largest number of tokens in a key
    // Kinds of predictions: n > 0: the experts of the last row with the same n tokens; 0: of the last row of the text,
    // for a token that was never seen.
    LS_ROUTING_LAST = 0,
    LS_ROUTING_KINDS = LS_ROUTING_ORDER + 1,
    LS_ROUTING_BYTES = 32 << 20, // largest size of what is remembered
};

typedef struct ls_routing ls_routing;

// n_layers: those that are mixtures. NULL: no mixture, or one with more than 4 million experts. Owned by the caller.
ls_routing *ls_routing_new(int32_t n_layers, int32_t n_experts, int32_t n_used);
void ls_routing_free(ls_routing *r); // accepts NULL

// The last n_rows tokens of text[0..n) were forwarded and took these experts, [n_rows][layers][used].
void ls_routing_read(ls_routing *r, const int32_t *text, size_t n, int32_t n_rows, const int32_t *experts);
// All rows of the tree after context[0..n), which ls_routing_expect had last, were forwarded and took these experts,
// n_awake different ones in all layers.
void ls_routing_learn(ls_routing *r, const int32_t *context, size_t n, const ls_tree *t, const int32_t *experts,
                      int32_t n_awake);
// The row was the last one that became text.
void ls_routing_commit(ls_routing *r, const int32_t *experts);

// Predicts the experts of all rows of a tree, and takes none of them. Valid until something is learnt.
void ls_routing_predict(ls_routing *r, const int32_t *context, size_t n, const ls_tree *t);
// Expected number of experts that the row wakes beside the taken rows, in all layers.
double ls_routing_wakes(const ls_routing *r, int32_t row);
void ls_routing_take(ls_routing *r, int32_t row);
double ls_routing_awake(const ls_routing *r); // expected number of experts that the taken rows wake
// Predicts and takes all rows of a tree; returns how many experts they are expected to wake.
double ls_routing_expect(ls_routing *r, const int32_t *context, size_t n, const ls_tree *t);
// Share of a row's experts that predictions of that kind named, over all layers; trials: how many rows were predicted
// so (counts decay). NAN: none.
double ls_routing_rate(const ls_routing *r, int kind, double *trials);
void ls_routing_memory(ls_routing *r, ls_memory_visit *v); // lists what it has learnt
