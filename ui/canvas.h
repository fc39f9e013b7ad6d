// A grid of cells that panels draw on; a thin last stage copies it to a terminal, tests compare it as text.
// Text is UTF-8 of unknown origin: control characters, escapes and broken sequences are drawn as visible forms and
// never reach the terminal; wide characters take two cells, combining ones join the cell before them. Widths are
// utf8proc's, whatever the locale. What terminals do not agree on (emoji of several characters) gets the cells that any
// of them may take, and is marked UI_ODD.
#pragma once
#include "base/buf.h"
#include "ui/theme.h"

#include <stdbool.h>

enum { UI_GLYPH_BYTES = 40 };

typedef struct {
    char glyph[UI_GLYPH_BYTES]; // UTF-8, NUL-terminated; "" in the further cells of a wide character
    uint8_t role;               // ui_role
    uint8_t mark;               // ui_mark bits
    int32_t tag;                // what a click there means to its panel; 0: nothing
} ui_cell;

typedef struct {
    int rows, cols;
    int cursor_row, cursor_col; // of the text cursor; row -1: hidden
    bool utf8;                  // the terminal shows UTF-8; else anything beyond ASCII is drawn as '?'
    bool ascii;                 // lines, bars and signs in ASCII (to be set where utf8 is not)
    bool ambiguous_wide;        // characters that East Asian fonts draw wide take two cells; lines are then in ASCII
    ui_cell *cells;
} ui_canvas;

typedef struct {
    int row, col, rows, cols;
} ui_rect;

void ui_canvas_resize(ui_canvas *c, int rows, int cols); // cleared
void ui_canvas_free(ui_canvas *c);

// Where and how to draw. Drawing never passes the end of the line.
typedef struct {
    ui_canvas *canvas;
    int row, col, end; // next cell, and the first cell beyond
    int clause;        // where the clause begins that is being drawn
    bool cut;          // something did not fit
    uint8_t role, mark;
    int32_t tag;
} ui_pen;

// row: of the rectangle; outside it the pen draws nothing.
ui_pen ui_pen_at(ui_canvas *c, ui_rect r, int row, ui_role role);
static inline ui_pen *ui_as(ui_pen *p, ui_role role) { // the pen, which draws in that role from now on
    p->role = (uint8_t)role;
    return p;
}
// Draws n bytes as one line; newlines and tabs become visible signs. False: something did not fit.
bool ui_draw(ui_pen *p, const char *text, size_t n);
// The same, but a word with a digit in it is drawn whole or not at all: a part of a number is another number.
bool ui_print(ui_pen *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Ends a clause of a line: where some of it did not fit, all of it goes, and nothing follows.
void ui_end_clause(ui_pen *p);
ui_pen *ui_pad(ui_pen *p, int col); // blanks up to that column of the canvas; returns the pen

// One displayed character: the bytes it uses, the cells it needs, and what to draw.
typedef struct {
    size_t n;
    int cells;
    char glyph[UI_GLYPH_BYTES];
    bool newline, space, visible_form; // visible_form: stands for something that cannot be drawn
    bool odd;                          // see UI_ODD
} ui_glyph;
// Includes the combining characters that follow. n is at least 1.
ui_glyph ui_next_glyph(const ui_canvas *c, const char *text, size_t n);
int ui_text_cells(const ui_canvas *c, const char *text, size_t n);

void ui_box(ui_canvas *c, ui_rect r, const char *title, const char *right, bool focused);
ui_rect ui_inside(ui_rect r);

int ui_cells_at(const ui_canvas *c, int row, int col); // of the character that begins there
// Appends the canvas as lines of text without trailing blanks; roles: one letter for each cell instead of its glyph.
void ui_canvas_text(const ui_canvas *c, bool roles, ls_buf *out);
// Appends the sequence that sets this look, in so many colours: 0, 16 or 256.
void ui_sgr(const ui_style *s, int mark, int colors, ls_buf *out);
// Appends the canvas with 256 ANSI colours, for pictures and recordings.
void ui_canvas_ansi_row(const ui_canvas *c, int row, const ui_theme *t, ls_buf *out);
void ui_canvas_ansi(const ui_canvas *c, const ui_theme *t, ls_buf *out);

// ---- picture.c: the canvas as a file, or a film of its frames

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
