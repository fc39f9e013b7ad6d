// Where everything stands: a pure function of the window's size and of what is asked for.
#pragma once
#include "ui/canvas.h"
#include "ui/state.h"

enum { UI_MIN_ROWS = 12, UI_MIN_COLS = 40, UI_SMALL_ROWS = 24, UI_SMALL_COLS = 80 };

typedef struct {
    bool too_small;
    ui_rect title, message, prompt, keys;
    ui_rect note;             // rows == 0: not shown
    ui_rect panel[UI_PANELS]; // rows == 0: not shown
} ui_layout;

// Four sizes: from 40x12 Output and the panel with the keys, or one of them; from 80x24 Output, Logits and Tree, Stats
// (Drafts takes the middle when it has the keys); from 110x32 all five in two columns; from 170x44 three columns.
// Inspect takes the place of Logits in the first, of Drafts in the second (unless those have the keys), and stands
// beside Drafts in the third. Compare takes the middle in the first when it has the keys, the place of Drafts in the
// second, and stands beside Stats in the third. A zoomed panel stands alone.
ui_layout ui_layout_of(int rows, int cols, const ui_shown *w);
ui_panel ui_panel_at(const ui_layout *l, int row, int col); // UI_NO_PANEL: none
