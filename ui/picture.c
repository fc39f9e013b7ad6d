#include "ui/canvas.h"
#include "base/colour.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double CELL_W = 8.43, CELL_H = 18; // of 14 pixel type

static void escape(ls_buf *out, const char *s) {
    for (; *s; s++)
        if (strchr("<>&", *s)) ls_buf_fmt(out, "&#%d;", *s);
        else ls_buf_char(out, *s);
}

static void svg_run(const ui_canvas *c, const ui_theme *t, int row, int from, int to, ls_buf *out) {
    const ui_cell *cell = &c->cells[row * c->cols];
    const ui_style *s = &t->style[cell[from].role];
    const int mark = s->mark | cell[from].mark;
    unsigned fg = s->fg256 >= 0 ? ls_rgb256(s->fg256) : t->ink, bg = s->bg256 >= 0 ? ls_rgb256(s->bg256) : t->ground;
    if (mark & UI_REVERSE) {
        const unsigned swap = fg;
        fg = bg;
        bg = swap;
    }
    const double x = 10 + from * CELL_W, y = 10 + row * CELL_H, w = (to - from) * CELL_W;
    if (bg != t->ground)
        ls_buf_fmt(out, "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"#%06x\"/>", x, y, w, CELL_H,
                   bg);
    bool blank = true;
    for (int i = from; i < to; i++) blank &= !strcmp(cell[i].glyph, " ") || !*cell[i].glyph;
    if (blank && !(mark & UI_UNDERLINE)) return;
    ls_buf_fmt(out, "<text x=\"%.2f\" y=\"%.1f\" textLength=\"%.2f\" xml:space=\"preserve\" fill=\"#%06x\"%s%s%s%s>", x,
               y + 14, w, fg, mark & UI_BOLD ? " font-weight=\"bold\"" : "",
               mark & UI_ITALIC ? " font-style=\"italic\"" : "",
               mark & UI_UNDERLINE ? " text-decoration=\"underline\"" : "", mark & UI_FAINT ? " opacity=\".7\"" : "");
    for (int i = from; i < to; i++) escape(out, cell[i].glyph);
    ls_buf_str(out, "</text>\n");
}

static void svg_begin(const ui_theme *t, int rows, int cols, const char *title, ls_buf *out) {
    ls_buf shown = {0};
    ls_sanitize_str(&shown, title);
    ls_buf_fmt(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %.0f %.0f\" "
               "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\">\n<title>",
               cols * CELL_W + 20, rows * CELL_H + 20);
    escape(out, shown.p);
    ls_buf_fmt(out, "</title>\n<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#%06x\"/>\n", t->ground);
    ls_buf_free(&shown);
}

static void svg_row(const ui_canvas *c, const ui_theme *t, int row, ls_buf *out) {
    for (int col = 0; col < c->cols;) {
        const ui_cell *first = &c->cells[row * c->cols + col], *cell = first;
        const int from = col;
        while (col < c->cols && (!*cell->glyph || (cell->role == first->role && cell->mark == first->mark)))
            cell = &c->cells[row * c->cols + ++col];
        svg_run(c, t, row, from, col, out);
    }
}

void ui_canvas_svg(const ui_canvas *c, const ui_theme *t, ls_buf *out) {
    svg_begin(t, c->rows, c->cols, "The screen of logitspec", out);
    for (int row = 0; row < c->rows; row++) svg_row(c, t, row, out);
    ls_buf_str(out, "</svg>\n");
}

ls_code ui_canvas_save(const ui_canvas *c, const ui_theme *t, const char *path, ls_err *err) {
    ls_buf out = {0};
    if (ls_ends_with(path, ".svg")) ui_canvas_svg(c, t, &out);
    else if (ls_ends_with(path, ".ansi")) ui_canvas_ansi(c, t, &out);
    else if (ls_ends_with(path, ".txt")) ui_canvas_text(c, false, &out);
    else return ls_fail(err, LS_E_USAGE, "cannot save '%.200s': its name must end in .txt, .ansi or .svg", path);
    const ls_code code = ls_write_file(path, &out, err);
    ls_buf_free(&out);
    return code;
}

// ---- films

struct ui_film_row {
    ls_buf svg;
    double since; // seconds
};

static void cast_color(ls_jsonw *w, const char *name, unsigned rgb) {
    char text[8];
    snprintf(text, sizeof text, "#%06x", rgb);
    ls_jw_field_str(w, name, text);
}

static void cast_begin(const ui_film *f) {
    ls_jsonw w = {.out = f->out};
    ls_jw_open(&w, '{');
    ls_jw_field_int(&w, "version", 2);
    ls_jw_field_int(&w, "width", f->shown.cols);
    ls_jw_field_int(&w, "height", f->shown.rows);
    ls_buf text = {0}; // players put it on a terminal or a page
    ls_sanitize_str(&text, f->title);
    ls_jw_field_str(&w, "title", text.n ? text.p : "");
    ls_jw_field_open(&w, "env", '{');
    ls_jw_field_str(&w, "TERM", "xterm-256color");
    ls_jw_close(&w, '}');
    ls_jw_field_open(&w, "theme", '{');
    cast_color(&w, "fg", f->theme->ink);
    cast_color(&w, "bg", f->theme->ground);
    ls_buf_clear(&text);
    for (int i = 0; i < 16; i++) ls_buf_fmt(&text, "%s#%06x", i ? ":" : "", ls_rgb256(i));
    ls_jw_field_str(&w, "palette", text.p);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, '}');
    ls_buf_char(f->out, '\n');
    ls_buf_free(&text);
}

static void cast_output(const ui_film *f, double seconds, const char *text, size_t n) {
    ls_jsonw w = {.out = f->out};
    ls_jw_open(&w, '[');
    ls_jw_num(&w, seconds, 9);
    ls_jw_str(&w, "o");
    ls_jw_strn(&w, text, n);
    ls_jw_close(&w, ']');
    ls_buf_char(f->out, '\n');
}

// Writes the text that a row showed until `until`. The last text of a row is visible in viewers without animation; in
// others it is hidden before its time.
static void animate_row(ui_film *f, const struct ui_film_row *r, double until, bool last) {
    if (!r->svg.n || (!last && until <= r->since)) return;
    ls_buf_str(&f->body, last ? "<g>" : "<g visibility=\"hidden\">");
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

void ui_film_begin(ui_film *f, bool svg, const ui_theme *t, int rows, int cols, const char *title, ls_buf *out) {
    *f = (ui_film){.svg = svg, .theme = t, .title = title, .out = out};
    ui_canvas_resize(&f->shown, rows, cols);
    if (!svg) cast_begin(f);
    else {
        f->row = ls_calloc((size_t)rows, sizeof *f->row);
        memset(f->shown.cells, 0xff, (size_t)rows * (size_t)cols * sizeof *f->shown.cells); // equal to no row
    }
}

void ui_film_frame(ui_film *f, const ui_canvas *now, double seconds) {
    if (f->svg) seconds = round(seconds * 1e3) / 1e3; // as it is written, so that one text begins where another ends
    const size_t row_bytes = (size_t)now->cols * sizeof *now->cells;
    ls_buf text = {0}; // of the asciicast
    for (int row = 0; row < now->rows; row++) {
        const size_t at = (size_t)(row * now->cols);
        if (!memcmp(&f->shown.cells[at], &now->cells[at], row_bytes)) continue;
        memcpy(&f->shown.cells[at], &now->cells[at], row_bytes);
        if (f->svg) {
            animate_row(f, &f->row[row], seconds, false);
            ls_buf_clear(&f->row[row].svg);
            svg_row(now, f->theme, row, &f->row[row].svg);
            f->row[row].since = seconds;
        } else { // hides the cursor once, then draws each changed row again
            ls_buf_fmt(&text, "%s\033[%d;1H", text.n ? "" : "\033[?25l", row + 1);
            ui_canvas_ansi_row(now, row, f->theme, &text);
        }
    }
    if (text.n) cast_output(f, seconds, text.p, text.n);
    ls_buf_free(&text);
}

static void svg_film_end(ui_film *f, double seconds) {
    char *title = ls_format("Replay of %s", f->title);
    svg_begin(f->theme, f->shown.rows, f->shown.cols, title, f->out);
    free(title);
    ls_buf_fmt(f->out,
               "<rect width=\"0\" height=\"0\"><animate id=\"film\" attributeName=\"x\" values=\"0\" dur=\"%.3fs\" "
               "begin=\"0s;film.end\"/></rect>\n",
               seconds);
    for (int row = 0; row < f->shown.rows; row++) {
        animate_row(f, &f->row[row], seconds, true);
        ls_buf_free(&f->row[row].svg);
    }
    ls_buf_add(f->out, f->body.p, f->body.n);
    ls_buf_str(f->out, "</svg>\n");
    ls_buf_free(&f->body);
    free(f->row);
}

void ui_film_end(ui_film *f, double seconds) {
    static const char show_cursor[] = "\033[?25h";
    if (f->svg) svg_film_end(f, seconds);
    else cast_output(f, seconds, show_cursor, sizeof show_cursor - 1);
    ui_canvas_free(&f->shown);
}
