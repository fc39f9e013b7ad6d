// The screen as a moving picture: an SVG that a page shows as any image, without a script, again and again. Holds a row
// once for each text that it shows. What shows no animations shows the last frame.
#pragma once
#include "ui/canvas.h"

typedef struct {
    const ui_theme *theme; // borrowed
    const char *recording; // borrowed
    ui_canvas shown;       // what the viewer sees
    struct ui_film_row {
        ls_buf svg;
        double since; // seconds
    } * row;
    ls_buf body;
    ls_buf *out; // borrowed
} ui_film;

void ui_film_begin(ui_film *f, const ui_theme *t, int rows, int cols, const char *recording, ls_buf *out);
// The screen looks like this from `seconds` on; frames come in order of time. The canvas has the size of the film.
void ui_film_frame(ui_film *f, const ui_canvas *now, double seconds);
void ui_film_end(ui_film *f, double seconds); // shows the last frame until then
