// Draws the whole screen from the state onto a canvas. It keeps scroll positions in range, and notes
// the size of the frame and the rows of prompt and message in the state; it changes nothing else.
#pragma once
#include "ui/canvas.h"
#include "ui/layout.h"

// The canvas has its size already. *cursor_row, *cursor_col: where the text cursor stands; -1: hidden.
void ui_render(ui_state *s, ui_canvas *c, int *cursor_row, int *cursor_col);
