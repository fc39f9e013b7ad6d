// The panels. Each draws the inside of its box from the state, keeps its scroll position in range, and writes the
// text at the right of the box's title into `right`.
#pragma once
#include "ui/widgets.h"

typedef struct {
    ui_canvas *canvas;
    ui_state *state;
    ui_rect area; // inside the box
    char *right;  // 128 bytes
} ui_panel_view;

void ui_panel_output(ui_panel_view *v);
void ui_panel_logits(ui_panel_view *v);
void ui_panel_drafts(ui_panel_view *v);
void ui_panel_tree(ui_panel_view *v);
void ui_panel_stats(ui_panel_view *v);
void ui_panel_inspect(ui_panel_view *v);
void ui_panel_compare(ui_panel_view *v);
void ui_panel_note(ui_panel_view *v);
void ui_panel_log(ui_panel_view *v);
void ui_panel_shadows(ui_panel_view *v);
void ui_panel_setup(ui_panel_view *v);
void ui_panel_help(ui_panel_view *v);

enum { UI_RIGHT_BYTES = 128 };

// The rows of a tree as the Tree panel lists them, from top to bottom: order[0 .. step->tree.n).
void ui_tree_order(const ls_step *step, int16_t *order);
// Limits a scroll position so that the last of n lines stays in sight; returns the first line to draw.
int ui_scroll_top(int *scroll, int n_lines, int rows);
