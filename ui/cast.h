// The screen as a film: asciicast v2 (docs.asciinema.org/manual/asciicast/v2), without a terminal. Writes only
// the rows that changed.
#pragma once
#include "ui/canvas.h"

typedef struct {
    const ui_theme *theme; // borrowed
    ui_canvas shown;       // what the viewer sees
    ls_buf *out;           // borrowed
} ui_cast;

void ui_cast_begin(ui_cast *c, const ui_theme *t, int rows, int cols, const char *title, ls_buf *out);
// The screen looks like this from `seconds` on; frames come in order of time. The canvas has the size of the film.
void ui_cast_frame(ui_cast *c, const ui_canvas *now, double seconds);
void ui_cast_end(ui_cast *c, double seconds); // shows the last frame until then
