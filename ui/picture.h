// The screen as a file: as a picture, or as a film of its frames.
#pragma once
#include "base/err.h"
#include "ui/canvas.h"

void ui_canvas_svg(const ui_canvas *c, const ui_theme *t, ls_buf *out); // on the theme's ground, in any monospaced font
// The end of the name decides the format: .svg, .ansi or .txt; others are LS_E_USAGE. LS_E_IO gives the reason.
ls_code ui_canvas_save(const ui_canvas *c, const ui_theme *t, const char *path, ls_err *err);

// Writes only the rows that changed. One of two formats:
// asciicast v2 (docs.asciinema.org/manual/asciicast/v2), without a terminal;
// SVG that a page shows as any image, without a script, again and again. It holds a row once for each text that the row
// shows. A viewer without animation shows the last frame.
typedef struct {
    bool svg;
    const ui_theme *theme;   // borrowed
    const char *title;       // borrowed
    ui_canvas shown;         // what the viewer sees
    struct ui_film_row *row; // of the SVG
    ls_buf body;             // likewise
    ls_buf *out;             // borrowed
} ui_film;

void ui_film_begin(ui_film *f, bool svg, const ui_theme *t, int rows, int cols, const char *title, ls_buf *out);
// The screen looks like this from `seconds` on; frames come in order of time. The canvas has the size of the film.
void ui_film_frame(ui_film *f, const ui_canvas *now, double seconds);
void ui_film_end(ui_film *f, double seconds); // shows the last frame until then
