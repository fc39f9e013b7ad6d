#include "ui/film.h"
#include "base/mem.h"
#include "ui/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ui_film_begin(ui_film *f, const ui_theme *t, int rows, int cols, const char *recording, ls_buf *out) {
    *f = (ui_film){.theme = t, .recording = recording, .out = out, .row = ls_calloc((size_t)rows, sizeof *f->row)};
    ui_canvas_resize(&f->shown, rows, cols);
    memset(f->shown.cells, 0xff, (size_t)rows * (size_t)cols * sizeof *f->shown.cells); // equal to no row
}

// Writes the text that a row showed until `until`. The last text of a row is visible in viewers without animation; in
// others it is hidden before its time.
static void put(ui_film *f, struct ui_film_row *r, double until, bool last) {
    if (!r->svg.n || (!last && until <= r->since)) return;
    if (!last) ls_buf_str(&f->body, "<g visibility=\"hidden\">");
    else ls_buf_str(&f->body, "<g>");
    ls_buf_add(&f->body, r->svg.p, r->svg.n);
    if (!last)
        ls_buf_fmt(&f->body,
                   "<set attributeName=\"visibility\" to=\"visible\" begin=\"film.begin+%.3fs\" dur=\"%.3fs\"/>",
                   r->since, until - r->since);
    else if (r->since > 0)
        ls_buf_fmt(&f->body, "<set attributeName=\"visibility\" to=\"hidden\" begin=\"film.begin\" dur=\"%.3fs\"/>",
                   r->since);
    ls_buf_str(&f->body, "</g>\n");
}

void ui_film_frame(ui_film *f, const ui_canvas *now, double seconds) {
    seconds = round(seconds * 1e3) / 1e3; // as it is written, so that one text begins where another ends
    const size_t row_bytes = (size_t)now->cols * sizeof *now->cells;
    for (int row = 0; row < now->rows; row++) {
        const size_t at = (size_t)(row * now->cols);
        if (!memcmp(&f->shown.cells[at], &now->cells[at], row_bytes)) continue;
        memcpy(&f->shown.cells[at], &now->cells[at], row_bytes);
        put(f, &f->row[row], seconds, false);
        ls_buf_clear(&f->row[row].svg);
        ui_svg_row(now, f->theme, row, &f->row[row].svg);
        f->row[row].since = seconds;
    }
}

void ui_film_end(ui_film *f, double seconds) {
    char *title = ls_format("Replay of %s", f->recording);
    ui_svg_begin(f->theme, f->shown.rows, f->shown.cols, title, f->out);
    free(title);
    ls_buf_fmt(f->out,
               "<rect width=\"0\" height=\"0\"><animate id=\"film\" attributeName=\"x\" values=\"0\" dur=\"%.3fs\" "
               "begin=\"0s;film.end\"/></rect>\n",
               seconds);
    for (int row = 0; row < f->shown.rows; row++) {
        put(f, &f->row[row], seconds, true);
        ls_buf_free(&f->row[row].svg);
    }
    ls_buf_add(f->out, f->body.p, f->body.n);
    ls_buf_str(f->out, "</svg>\n");
    ls_buf_free(&f->body);
    free(f->row);
    ui_canvas_free(&f->shown);
}
