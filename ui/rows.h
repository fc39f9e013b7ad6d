// The rows of the panels that list a step: which of them a filter leaves, their order, and which of them hold a text.
// In Logits a token holds it, in Drafts the tokens of a branch taken together, in Tree the tokens from the root to a
// node. Case does not matter.
#pragma once
#include "ui/state.h"

bool ui_rows_in(ui_panel p); // Logits, Drafts, Tree
// The rows of Logits (ranks) or Drafts (branches) of a step, from top to bottom; returns how many. rows has room for
// LS_MAX_ROWS.
int ui_rows_of(const ui_state *s, const ls_step *step, ui_panel p, int16_t *rows);
// Sets shown[0 .. step->tree.n) to the nodes that Tree shows: a filter leaves the root and the branches that hold it.
void ui_rows_tree(const ui_state *s, const ls_step *step, bool *shown);
// The first row to draw of n in so many lines: the scroll position, limited and, where the cursor moved, with it in
// sight. As long as nobody scrolls or sorts, the row `decided` (-1: none) is the last line if it stands further down:
// rows changes.
int ui_rows_top(ui_state *s, ui_panel p, int16_t *rows, int n, int lines, int decided);
// The next (by: 1) or previous (-1) row of the viewed step that holds the text, counted from the last one found and
// around the end: a rank, a branch or a node. -1: none.
int ui_rows_find(const ui_state *s, ui_panel p, const char *text, int by);
// Shows only the rows that hold the text; "": all.
void ui_rows_filter(ui_state *s, ui_panel p, const char *text);
// Sorts the panel by its next column. False: it has only one order.
bool ui_rows_sort(ui_state *s, ui_panel p);
// Writes the filter and the order that are in force, if any, in place of the panel's own words. n rows are shown, `of`
// there are.
void ui_rows_title(const ui_state *s, ui_panel p, int n, int of, char *right, size_t size);
