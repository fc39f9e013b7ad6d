// The rows of the panels that list a step: filter, order and search. A row contains a text if its token does (Logits),
// if the tokens of its branch do together (Drafts), or if the tokens from the root to the node do (Tree). Case is
// ignored.
#pragma once
#include "ui/state.h"

bool ui_rows_in(ui_panel p); // Logits, Drafts, Tree
// The rows of Logits (ranks) or Drafts (branches) of a step, from top to bottom; returns how many. rows has room for
// LS_MAX_ROWS.
int ui_rows_of(const ui_state *s, const ls_step *step, ui_panel p, int16_t *rows);
// Sets shown[0 .. step->tree.n) to the nodes that Tree shows: a filter keeps the root and the branches with its text.
void ui_rows_tree(const ui_state *s, const ls_step *step, bool *shown);
// The first of n rows to draw in so many lines: the scroll position, limited, and moved to the cursor if that moved. If
// the panel is not scrolled or sorted and the row `decided` (-1: none) is further down, it becomes the last line:
// `rows` is changed.
int ui_rows_top(ui_state *s, ui_panel p, int16_t *rows, int n, int lines, int decided);
// The next (by: 1) or previous (-1) row of the viewed step with the text, from the last one found on, wrapping around:
// a rank, a branch or a node. -1: none.
int ui_rows_find(const ui_state *s, ui_panel p, const char *text, int by);
// Shows only the rows with the text; "": all.
void ui_rows_filter(ui_state *s, ui_panel p, const char *text);
// Sorts the panel by its next column. False: it has only one order.
bool ui_rows_sort(ui_state *s, ui_panel p);
// If the panel is filtered or sorted, replaces `right` (the text at the right of its title) with the filter and the
// order. n of `of` rows are shown.
void ui_rows_title(const ui_state *s, ui_panel p, int n, int of, char *right, size_t size);
