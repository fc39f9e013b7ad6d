// Finding steps of a conversation by what happened in them and by what they wrote.
#pragma once
#include "ui/state.h"

typedef enum { UI_FIND_REJECTION, UI_FIND_LOSSY } ui_find;

// The next step after the viewed one (by: 1) or before it (-1) that has it; -1: none.
int64_t ui_find_step(const ui_state *s, ui_find what, int by);
// The step that lost (sign -1) or gained (1) most against plain decoding; after: the one behind this step in that
// order, -1: the first. Returns -1 where there is none.
int64_t ui_extreme_step(const ui_state *s, int sign, int64_t after);
// The next place of the output that holds the text, whatever its case; the search goes on at the other end. Returns
// its step and sets *node to the row of its token; -1: nowhere.
int64_t ui_search(const ui_state *s, const char *text, int by, int *node);
