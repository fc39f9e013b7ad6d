#include "ui/picture.h"
#include "base/file.h"

#include <stdbool.h>
#include <string.h>

static const double CELL_W = 8.43, CELL_H = 18; // of 14 pixel type

// xterm's 256 colours; the first 16 as a soft dark theme has them.
static unsigned rgb(int n) {
    static const unsigned base[16] = {0x1c1f26, 0xe06c75, 0x98c379, 0xe5c07b, 0x61afef, 0xc678dd, 0x56b6c2, 0xdcdfe4,
                                      0x5c6370, 0xe06c75, 0x98c379, 0xe5c07b, 0x61afef, 0xc678dd, 0x56b6c2, 0xffffff};
    static const unsigned level[6] = {0, 95, 135, 175, 215, 255};
    if (n < 16) return base[n];
    if (n >= 232) return (unsigned)(8 + 10 * (n - 232)) * 0x010101;
    n -= 16;
    return level[n / 36] << 16 | level[n / 6 % 6] << 8 | level[n % 6];
}

enum { GROUND = 0, INK = 7 };

static void escape(ls_buf *out, const char *s) {
    for (; *s; s++)
        if (strchr("<>&", *s)) ls_buf_fmt(out, "&#%d;", *s);
        else ls_buf_char(out, *s);
}

static void run(const ui_canvas *c, const ui_theme *t, int row, int from, int to, ls_buf *out) {
    const ui_cell *cell = &c->cells[row * c->cols];
    const ui_style *s = &t->style[cell[from].role];
    const int mark = s->mark | cell[from].mark;
    int fg = s->fg256 >= 0 ? s->fg256 : INK, bg = s->bg256 >= 0 ? s->bg256 : GROUND;
    if (mark & UI_REVERSE) {
        const int swap = fg;
        fg = bg;
        bg = swap;
    }
    const double x = 10 + from * CELL_W, y = 10 + row * CELL_H, w = (to - from) * CELL_W;
    if (bg != GROUND)
        ls_buf_fmt(out, "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"#%06x\"/>", x, y, w, CELL_H,
                   rgb(bg));
    bool blank = true;
    for (int i = from; i < to; i++) blank &= !strcmp(cell[i].glyph, " ") || !*cell[i].glyph;
    if (blank && !(mark & UI_UNDERLINE)) return;
    ls_buf_fmt(out, "<text x=\"%.2f\" y=\"%.1f\" textLength=\"%.2f\" xml:space=\"preserve\" fill=\"#%06x\"%s%s%s>", x,
               y + 14, w, rgb(fg), mark & UI_BOLD ? " font-weight=\"bold\"" : "",
               mark & UI_UNDERLINE ? " text-decoration=\"underline\"" : "", mark & UI_FAINT ? " opacity=\".7\"" : "");
    for (int i = from; i < to; i++) escape(out, cell[i].glyph);
    ls_buf_str(out, "</text>\n");
}

void ui_svg_begin(int rows, int cols, ls_buf *out) {
    ls_buf_fmt(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"DejaVu Sans Mono, "
               "Menlo, Consolas, "
               "monospace\" font-size=\"14\">\n<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#%06x\"/>\n",
               cols * CELL_W + 20, rows * CELL_H + 20, rgb(GROUND));
}

void ui_svg_row(const ui_canvas *c, const ui_theme *t, int row, ls_buf *out) {
    for (int col = 0; col < c->cols;) {
        const ui_cell *first = &c->cells[row * c->cols + col], *cell = first;
        const int from = col;
        while (col < c->cols && cell->role == first->role && cell->mark == first->mark)
            cell = &c->cells[row * c->cols + ++col];
        run(c, t, row, from, col, out);
    }
}

void ui_canvas_svg(const ui_canvas *c, const ui_theme *t, ls_buf *out) {
    ui_svg_begin(c->rows, c->cols, out);
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
    else ui_canvas_text(c, false, &out);
    const ls_code code = ls_write_file(path, &out, err);
    ls_buf_free(&out);
    return code;
}
