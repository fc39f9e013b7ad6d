// Draws the whole screen from the state onto a canvas. Of the state it changes only `drawn`.
#pragma once
#include "ui/canvas.h"
#include "ui/state.h"

void ui_render(ui_state *s, ui_canvas *c); // the canvas has its size already

// ---- the places of all parts of the screen: a pure function of the window and of the wanted panels

enum { UI_MIN_ROWS = 12, UI_MIN_COLS = 40, UI_SMALL_ROWS = 24, UI_SMALL_COLS = 80 };

typedef struct {
    bool too_small;
    ui_rect title, message, prompt, keys;
    ui_rect note;             // rows == 0: not shown
    ui_rect panel[UI_PANELS]; // rows == 0: not shown
} ui_layout;

// Four sizes (columns x rows):
// 40x12: Output and the panel with the focus, or one of them.
// 80x24: Output, Logits and Tree, Stats. Drafts or Compare takes the middle if it has the focus. Inspect replaces
//   Logits unless Logits has the focus.
// 110x32: all five in two columns. Inspect or Compare replaces Drafts unless Drafts has the focus.
// 170x44: three columns. Inspect is beside Drafts, Compare beside Stats.
// A zoomed panel is alone.
ui_layout ui_layout_of(const ui_room *r, const ui_shown *w);
ui_panel ui_panel_at(const ui_layout *l, int row, int col); // UI_NO_PANEL: none
