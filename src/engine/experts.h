// Which experts of a mixture the rows of a forward woke. An expert is one of one layer: the same number in another
// layer is another expert.
#pragma once
#include "compute/lst.h"

// Counts the experts that the first n_rows rows (0: all rows) took, each once, in all layers. n_experts: of a layer.
// awake: [e->n_layers], those of each layer; alone: [n_rows], those that a row took and no other of these rows did.
// Both may be NULL.
int32_t ls_experts_count(const lst_experts_seen *e, int32_t n_rows, int32_t n_experts, int32_t *awake, int32_t *alone);
// How many of a layer's experts so many rows take on average, if each takes n_used of them at random.
double ls_experts_at_random(int32_t n_experts, int32_t n_used, int32_t rows);
