// The screen as a file.
#pragma once
#include "base/err.h"
#include "ui/canvas.h"

void ui_canvas_svg(const ui_canvas *c, const ui_theme *t, ls_buf *out); // on the theme's ground, in any monospaced font
// Parts of such a picture: its head with a title, and the cells of one row.
void ui_svg_begin(const ui_theme *t, int rows, int cols, const char *title, ls_buf *out);
void ui_svg_row(const ui_canvas *c, const ui_theme *t, int row, ls_buf *out);
// The end of the name decides the format: .svg, .ansi or .txt; others are LS_E_USAGE. LS_E_IO gives the reason.
ls_code ui_canvas_save(const ui_canvas *c, const ui_theme *t, const char *path, ls_err *err);
