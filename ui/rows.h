// The rows of the panels that list a step: which of them a filter leaves, in which order they stand, and which hold a
// text. A text is found in a token of Logits, in the tokens of a branch of Drafts taken together, and in Tree in the
// tokens on the way from the root to a node; capitals or not.
#pragma once
#include "ui/state.h"

bool ui_rows_in(ui_panel p); // Logits, Drafts, Tree
// The rows of Logits (ranks) or Drafts (branches) of a step, from top to bottom; returns how many. rows: at least
// LS_MAX_ROWS.
int ui_rows_of(const ui_state *s, const ls_step *step, ui_panel p, int16_t *rows);
// Which nodes Tree shows: a filter leaves the branches that hold the text, and the root. shown: step->tree.n.
void ui_rows_tree(const ui_state *s, const ls_step *step, bool *shown);
// The next row of the viewed step (by: 1) or the one before (-1) that holds the text, from the last one found on and
// around the end: a rank, a branch, a node. -1: none.
int ui_rows_find(const ui_state *s, ui_panel p, const char *text, int by);
// Only the rows with this text are shown; "": all.
void ui_rows_filter(ui_state *s, ui_panel p, const char *text);
// The panel sorts by its next column. False: it has one order only.
bool ui_rows_sort(ui_state *s, ui_panel p);
// For the title of the panel, in place of its own words: the filter and the order that are in force, if any. n: rows
// shown, of: all.
void ui_rows_title(const ui_state *s, ui_panel p, int n, int of, char *right, size_t size);
