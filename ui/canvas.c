#include "ui/canvas.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_canvas_resize(ui_canvas *c, int rows, int cols) {
    c->rows = rows > 0 ? rows : 0;
    c->cols = cols > 0 ? cols : 0;
    size_t n = (size_t)c->rows * (size_t)c->cols;
    c->cells = ls_realloc(c->cells, (n ? n : 1) * sizeof *c->cells);
    for (size_t i = 0; i < n; i++) c->cells[i] = (ui_cell){.glyph = " "};
}

void ui_canvas_free(ui_canvas *c) {
    free(c->cells);
    c->cells = NULL;
}

enum { JOINER = 0x200D, EMOJI_SELECTOR = 0xFE0F };
enum { TITLE_CELLS = 12 }; // the least that a box leaves of its title beside the text on the right

// Characters of one cell that an East Asian font may draw in two. The set is larger than Unicode's ambiguous class: one
// cell too many only adds a blank, one cell too few hides a character.
static bool may_be_wide(uint32_t cp) {
    return (cp >= 0xA1 && cp <= 0x2FF) || (cp >= 0x370 && cp <= 0x451) || (cp >= 0x2010 && cp <= 0x2BFF) ||
           (cp >= 0xE000 && cp <= 0xF8FF) || cp == 0xFFFD;
}

// Cells of a code point that follows another; -1: the terminal must not get it.
static int cells_of(const ui_canvas *c, uint32_t cp, uint32_t before) {
    if (!ls_is_visible(cp, before)) return -1;
    if (cp < 127) return 1;
    if (!c->utf8) return -1;
    const int w = ls_char_cells(cp);
    return w == 1 && c->ambiguous_wide && may_be_wide(cp) ? 2 : w;
}

// Printable ASCII with nothing to join: most of any text. Clearing all of the glyph would take longer than the rest.
static ui_glyph plain_glyph(char c) {
    ui_glyph g;
    g.n = 1;
    g.cells = 1;
    g.newline = g.visible_form = g.odd = false;
    g.space = c == ' ';
    g.glyph[0] = c;
    g.glyph[1] = 0;
    return g;
}

ui_glyph ui_next_glyph(const ui_canvas *c, const char *text, size_t n) {
    if (*text >= ' ' && *text < 127 && (n == 1 || (unsigned char)text[1] < 128)) return plain_glyph(*text);
    ui_glyph g = {.n = 1, .cells = 1};
    uint32_t cp = 0;
    int len = ls_utf8_decode(text, n, &cp);
    const int cells = len > 0 ? cells_of(c, cp, 0) : -1;
    if (cells <= 0) { // a combining character with nothing to join, too
        g.visible_form = true;
        g.newline = len > 0 && cp == '\n';
        uint32_t before = 0;
        if (len <= 0) g.n = ls_sanitize_next(text, n, &before, g.glyph);
        else {
            g.n = (size_t)len;
            if (c->ascii && (cp == '\n' || cp == '\t')) strcpy(g.glyph, cp == '\n' ? "\\n" : "\\t");
            else if (c->utf8 || cp < 128) ls_sanitize_sign(cp, g.glyph);
            else strcpy(g.glyph, "?");
        }
        g.cells = 0;
        for (const char *q = g.glyph; *q; q += ls_utf8_decode(q, strlen(q), NULL)) g.cells++;
        return g;
    }
    g.space = cp == ' ';
    g.n = (size_t)len;
    g.cells = cells;
    memcpy(g.glyph, text, (size_t)len);
    uint32_t before = cp;
    int32_t state = 0;
    while (g.n < n && (unsigned char)text[g.n] >= 0x80) { // what joins it, as far as there is room
        const int more = ls_utf8_decode(text + g.n, n - g.n, &cp);
        const int added = more > 0 ? cells_of(c, cp, before) : -1;
        if (added < 0 || g.n + (size_t)more >= sizeof g.glyph) break;
        const bool joins = ls_char_joins(before, cp, &state);
        if (added && !joins) break;
        g.odd |= added || cp == JOINER || cp == EMOJI_SELECTOR;
        g.cells += cp == EMOJI_SELECTOR && g.cells == 1 ? 1 : added;
        before = cp;
        memcpy(g.glyph + g.n, text + g.n, (size_t)more);
        g.n += (size_t)more;
    }
    return g;
}

int ui_text_cells(const ui_canvas *c, const char *text, size_t n) {
    int cells = 0;
    for (size_t i = 0; i < n;) {
        const ui_glyph g = ui_next_glyph(c, text + i, n - i);
        cells += g.cells;
        i += g.n;
    }
    return cells;
}

ui_pen ui_pen_at(ui_canvas *c, ui_rect r, int row, ui_role role) {
    ui_pen p = {
        .canvas = c, .row = r.row + row, .col = r.col, .end = r.col + r.cols, .clause = r.col, .role = (uint8_t)role};
    if (row < 0 || row >= r.rows || p.row < 0 || p.row >= c->rows) p.end = p.col;
    if (p.end > c->cols) p.end = c->cols;
    if (p.col < 0) p.col = 0;
    return p;
}

static void put(ui_pen *p, const char *glyph, size_t n, int cells, int mark) {
    ui_canvas *c = p->canvas;
    ui_cell *cell = &c->cells[p->row * c->cols + p->col];
    int before = 0, behind = cells; // the rest of wide characters that are overwritten in part
    while (p->col + before > 0 && !*cell[before].glyph) before--;
    for (; before < 0; before++) {
        memcpy(cell[before].glyph, " ", 2);
        cell[before].mark &= (uint8_t)~UI_ODD;
    }
    for (; p->col + behind < c->cols && !*cell[behind].glyph; behind++) memcpy(cell[behind].glyph, " ", 2);
    for (int i = 0; i < cells; i++) cell[i] = (ui_cell){.role = p->role, .mark = p->mark, .tag = p->tag};
    cell->mark |= (uint8_t)mark;
    memcpy(cell->glyph, glyph, n);
    cell->glyph[n] = 0;
    p->col += cells;
}

bool ui_draw(ui_pen *p, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        ui_glyph g = ui_next_glyph(p->canvas, text + i, n - i);
        if (p->col + g.cells > p->end) {
            if (i && strchr("0123456789", text[i - 1]) && strchr("0123456789.", text[i]) && p->col > 0)
                p->canvas->cells[p->row * p->canvas->cols + p->col - 1].mark |= UI_CUT;
            p->end = p->col; // draws nothing behind a character that did not fit
            p->cut = true;
            return false;
        }
        if (!g.visible_form) put(p, g.glyph, strlen(g.glyph), g.cells, g.odd ? UI_ODD : 0);
        else
            for (const char *q = g.glyph; *q;) {
                int len = ls_utf8_decode(q, strlen(q), NULL);
                put(p, q, (size_t)len, 1, 0);
                q += len;
            }
        i += g.n;
    }
    return true;
}

bool ui_print(ui_pen *p, const char *fmt, ...) {
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    const size_t n = strlen(line);
    size_t word = 0; // where the word begins that does not fit
    int cells = 0;
    for (size_t i = 0; i < n;) {
        const ui_glyph g = ui_next_glyph(p->canvas, line + i, n - i);
        if (p->col + (cells += g.cells) > p->end) {
            const size_t end = word + strcspn(line + word, " ");
            if (strcspn(line + word, "0123456789") >= end - word) break; // no number
            ui_draw(p, line, word);
            p->end = p->col;
            p->cut = true;
            return false;
        }
        i += g.n;
        if (g.space) word = i;
    }
    return ui_draw(p, line, n);
}

void ui_end_clause(ui_pen *p) {
    if (p->cut && p->clause < p->col) {
        const int end = p->col;
        p->col = p->clause;
        p->mark = 0;
        ui_pad(p, end);
        p->col = p->clause;
        ui_draw(p, p->canvas->ascii ? "~" : "…", p->canvas->ascii ? 1 : strlen("…")); // more was to be said
        p->end = p->col;
    }
    p->clause = p->col;
}

ui_pen *ui_pad(ui_pen *p, int col) {
    while (p->col < col && p->col < p->end) put(p, " ", 1, 1, 0);
    return p;
}

void ui_box(ui_canvas *c, ui_rect r, const char *title, const char *right, bool focused) {
    static const char *const lines[2][2][6] = {{{"┌", "┐", "└", "┘", "─", "│"}, {"┏", "┓", "┗", "┛", "━", "┃"}},
                                               {{"+", "+", "+", "+", "-", "|"}, {"+", "+", "+", "+", "=", "|"}}};
    const char *const *s = lines[c->ascii][focused]; // the focus is visible without colours too
    if (r.rows < 2 || r.cols < 4) return;
    ui_role role = focused ? UI_FOCUS : UI_FRAME;
    for (int row = 0; row < r.rows; row++) {
        ui_pen p = ui_pen_at(c, r, row, role);
        bool top = row == 0, edge = top || row == r.rows - 1;
        ui_print(&p, "%s", !edge ? s[5] : top ? s[0] : s[2]);
        if (edge)
            while (p.col < r.col + r.cols - 1 && p.col < p.end) ui_print(&p, "%s", s[4]);
        else p.col = r.col + r.cols - 1;
        ui_print(&p, "%s", !edge ? s[5] : top ? s[1] : s[3]);
    }
    ui_rect head = {r.row, r.col + 2, 1, r.cols - 4};
    ui_pen p = ui_pen_at(c, head, 0, focused ? role : UI_LABEL);
    const int all = p.end - p.col;
    int n = (int)strlen(right), need = ui_text_cells(c, right, (size_t)n) + 2;
    const int beside = all - ui_text_cells(c, title, strlen(title)) - 2;
    while (n && need >= beside) { // without its last clause
        const int whole = n;
        do n--;
        while (n && right[n] != ',' && right[n] != ';');
        if (!n) { // a long title leaves room for the first clause
            n = whole;
            break;
        }
        need = ui_text_cells(c, right, (size_t)n) + 2;
    }
    const int room = n ? all - need - 1 : all;
    const bool cut = need >= beside, both = n && (!cut || room >= TITLE_CELLS);
    const int end = p.end;
    if (both && cut) p.end = p.col + room;
    ui_print(&p, " %s ", title);
    if (!both) return;
    p = ui_pen_at(c, head, 0, UI_DIM);
    p.col = end - need;
    ui_print(&p, " %.*s ", n, right);
}

ui_rect ui_inside(ui_rect r) {
    return (ui_rect){r.row + 1, r.col + 1, r.rows > 2 ? r.rows - 2 : 0, r.cols > 2 ? r.cols - 2 : 0};
}

int ui_cells_at(const ui_canvas *c, int row, int col) {
    const ui_cell *cell = c->cells + row * c->cols;
    int n = 1;
    while (col + n < c->cols && !*cell[col + n].glyph) n++;
    return n;
}

void ui_canvas_text(const ui_canvas *c, bool roles, ls_buf *out) {
    for (int row = 0; row < c->rows; row++) {
        const ui_cell *cell = c->cells + row * c->cols;
        size_t start = out->n, keep = start;
        for (int col = 0; col < c->cols; col++) {
            bool blank = roles ? cell[col].role == UI_TEXT && !cell[col].mark : !strcmp(cell[col].glyph, " ");
            if (roles) ls_buf_char(out, cell[col].mark & UI_REVERSE ? '#' : ui_role_letter(cell[col].role));
            else ls_buf_str(out, cell[col].glyph);
            if (!blank) keep = out->n;
        }
        out->n = keep;
        ls_buf_char(out, '\n');
    }
}

void ui_sgr(const ui_style *s, int mark, int colors, ls_buf *out) {
    const int m = s->mark | mark;
    ls_buf_str(out, "\033[0");
    if (m & UI_BOLD) ls_buf_str(out, ";1");
    if (m & UI_FAINT) ls_buf_str(out, ";2");
    if (m & UI_ITALIC) ls_buf_str(out, ";3");
    if (m & UI_UNDERLINE) ls_buf_str(out, ";4");
    if (m & UI_REVERSE) ls_buf_str(out, ";7");
    if (colors == 256 && s->fg256 >= 0) ls_buf_fmt(out, ";38;5;%d", s->fg256);
    if (colors == 256 && s->bg256 >= 0) ls_buf_fmt(out, ";48;5;%d", s->bg256);
    if (colors == 16 && s->fg16 >= 0) ls_buf_fmt(out, ";%d", 30 + s->fg16);
    if (colors == 16 && s->bg16 >= 0) ls_buf_fmt(out, ";%d", 40 + s->bg16);
    ls_buf_char(out, 'm');
}

void ui_canvas_ansi_row(const ui_canvas *c, int row, const ui_theme *t, ls_buf *out) {
    int role = -1, mark = -1;
    for (int col = 0; col < c->cols; col++) {
        const ui_cell *cell = &c->cells[row * c->cols + col];
        if (cell->role != role || cell->mark != mark) {
            ui_sgr(&t->style[cell->role], cell->mark, 256, out);
            role = cell->role;
            mark = cell->mark;
        }
        if (cell->mark & UI_ODD) { // whatever the terminal takes for it, what follows is in its place
            const int cells = ui_cells_at(c, row, col);
            ls_buf_fmt(out, "%*s\033[%dG%s\033[%dG", cells, "", col + 1, cell->glyph, col + cells + 1);
        } else ls_buf_str(out, cell->glyph);
    }
    ls_buf_str(out, "\033[0m");
}

void ui_canvas_ansi(const ui_canvas *c, const ui_theme *t, ls_buf *out) {
    for (int row = 0; row < c->rows; row++) {
        ui_canvas_ansi_row(c, row, t, out);
        ls_buf_char(out, '\n');
    }
}
