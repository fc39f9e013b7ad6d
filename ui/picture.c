#include "ui/picture.h"
#include "base/colour.h"
#include "base/file.h"
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static const double CELL_W = 8.43, CELL_H = 18; // of 14 pixel type

static void escape(ls_buf *out, const char *s) {
    for (; *s; s++)
        if (strchr("<>&", *s)) ls_buf_fmt(out, "&#%d;", *s);
        else ls_buf_char(out, *s);
}

static void run(const ui_canvas *c, const ui_theme *t, int row, int from, int to, ls_buf *out) {
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

void ui_svg_begin(const ui_theme *t, int rows, int cols, const char *title, ls_buf *out) {
    ls_buf shown = {0};
    ls_sanitize_str(&shown, title);
    ls_buf_fmt(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %.0f %.0f\" font-family=\"DejaVu "
               "Sans Mono, "
               "Menlo, Consolas, "
               "monospace\" font-size=\"14\">\n<title>",
               cols * CELL_W + 20, rows * CELL_H + 20);
    escape(out, shown.p);
    ls_buf_fmt(out, "</title>\n<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#%06x\"/>\n", t->ground);
    ls_buf_free(&shown);
}

void ui_svg_row(const ui_canvas *c, const ui_theme *t, int row, ls_buf *out) {
    for (int col = 0; col < c->cols;) {
        const ui_cell *first = &c->cells[row * c->cols + col], *cell = first;
        const int from = col;
        while (col < c->cols && (!*cell->glyph || (cell->role == first->role && cell->mark == first->mark)))
            cell = &c->cells[row * c->cols + ++col];
        run(c, t, row, from, col, out);
    }
}

void ui_canvas_svg(const ui_canvas *c, const ui_theme *t, ls_buf *out) {
    ui_svg_begin(t, c->rows, c->cols, "The screen of logitspec", out);
    for (int row = 0; row < c->rows; row++) ui_svg_row(c, t, row, out);
    ls_buf_str(out, "</svg>\n");
}

static bool ends(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

ls_code ui_canvas_save(const ui_canvas *c, const ui_theme *t, const char *path, ls_err *err) {
    ls_buf out = {0};
    if (ends(path, ".svg")) ui_canvas_svg(c, t, &out);
    else if (ends(path, ".ansi")) ui_canvas_ansi(c, t, &out);
    else if (ends(path, ".txt")) ui_canvas_text(c, false, &out);
    else return ls_fail(err, LS_E_USAGE, "cannot save '%.200s': its name must end in .txt, .ansi or .svg", path);
    const ls_code code = ls_write_file(path, &out, err);
    ls_buf_free(&out);
    return code;
}
