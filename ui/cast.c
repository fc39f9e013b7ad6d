#include "ui/cast.h"
#include "base/colour.h"
#include "base/json.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static void field_color(ls_jsonw *w, const char *name, unsigned rgb) {
    char text[8];
    snprintf(text, sizeof text, "#%06x", rgb);
    ls_jw_field_str(w, name, text);
}

void ui_cast_begin(ui_cast *c, const ui_theme *t, int rows, int cols, const char *title, ls_buf *out) {
    ls_jsonw w = {.out = out};
    *c = (ui_cast){.theme = t, .out = out};
    ui_canvas_resize(&c->shown, rows, cols);
    ls_jw_open(&w, '{');
    ls_jw_field_int(&w, "version", 2);
    ls_jw_field_int(&w, "width", cols);
    ls_jw_field_int(&w, "height", rows);
    ls_buf shown = {0}; // players put it on a terminal or a page
    ls_sanitize_str(&shown, title);
    ls_jw_field_str(&w, "title", shown.n ? shown.p : "");
    ls_buf_free(&shown);
    ls_jw_field_open(&w, "env", '{');
    ls_jw_field_str(&w, "TERM", "xterm-256color");
    ls_jw_close(&w, '}');
    ls_jw_field_open(&w, "theme", '{');
    field_color(&w, "fg", t->ink);
    field_color(&w, "bg", t->ground);
    ls_buf palette = {0};
    for (int i = 0; i < 16; i++) ls_buf_fmt(&palette, "%s#%06x", i ? ":" : "", ls_rgb256(i));
    ls_jw_field_str(&w, "palette", palette.p);
    ls_buf_free(&palette);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, '}');
    ls_buf_char(out, '\n');
}

static void put(ui_cast *c, double seconds, const ls_buf *text) {
    ls_jsonw w = {.out = c->out};
    ls_jw_open(&w, '[');
    ls_jw_num(&w, seconds, 9);
    ls_jw_str(&w, "o");
    ls_jw_strn(&w, text->n ? text->p : "", text->n);
    ls_jw_close(&w, ']');
    ls_buf_char(c->out, '\n');
}

void ui_cast_frame(ui_cast *c, const ui_canvas *now, double seconds) {
    ls_buf text = {0};
    const size_t row_bytes = (size_t)now->cols * sizeof *now->cells;
    for (int row = 0; row < now->rows; row++) {
        const size_t at = (size_t)(row * now->cols);
        if (!memcmp(&c->shown.cells[at], &now->cells[at], row_bytes)) continue;
        memcpy(&c->shown.cells[at], &now->cells[at], row_bytes);
        // hides the cursor once, then draws each changed row again
        ls_buf_fmt(&text, "%s\033[%d;1H", text.n ? "" : "\033[?25l", row + 1);
        ui_canvas_ansi_row(now, row, c->theme, &text);
    }
    if (text.n) put(c, seconds, &text);
    ls_buf_free(&text);
}

void ui_cast_end(ui_cast *c, double seconds) {
    ls_buf text = {0};
    ls_buf_str(&text, "\033[?25h");
    put(c, seconds, &text);
    ls_buf_free(&text);
    ui_canvas_free(&c->shown);
}
