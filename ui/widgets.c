#include "ui/panels.h"
#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_right(ui_panel_view *v, const char *fmt, ...) {
    const size_t used = strlen(v->right);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->right + used, UI_RIGHT_BYTES - used, fmt, ap);
    va_end(ap);
}

ui_pen ui_next_line(ui_panel_view *v, ui_role role) {
    return ui_pen_at(v->canvas, v->area, v->line++, role);
}

void ui_dim_line(ui_panel_view *v, const char *text) {
    ui_pen p = ui_next_line(v, UI_DIM);
    ui_print(&p, "%s", text);
}

int ui_scroll_top(int *scroll, int n_lines, int rows) {
    int most = n_lines > rows ? n_lines - rows : 0;
    if (*scroll > most) *scroll = most;
    return *scroll;
}

void ui_scroll_to(int *scroll, int line, int rows) {
    if (line < *scroll) *scroll = line;
    if (line >= *scroll + rows) *scroll = line - rows + 1;
}

int ui_draw_wrapped(ui_canvas *c, ui_rect area, const char *text, ui_role role, int *up) {
    size_t n;
    ui_line *line = ui_wrap(c, text, strlen(text), area.cols, &n);
    const int most = (int)n > area.rows ? (int)n - area.rows : 0;
    if (up && *up > most) *up = most;
    const ui_line *first = line + (up ? most - *up : 0);
    for (int i = 0; i < (int)n && i < area.rows; i++) {
        ui_pen p = ui_pen_at(c, area, i, role);
        ui_draw(&p, text + first[i].from, first[i].to - first[i].from);
    }
    free(line);
    return (int)n;
}

static void print_numbers(ui_pen *p, const char *fmt, va_list ap) {
    char text[512];
    const uint8_t role = p->role;
    vsnprintf(text, sizeof text, fmt, ap);
    for (char *at = text; *at;) {
        const size_t n = strcspn(at, "{}");
        ui_print(p, "%.*s", (int)n, at);
        at += n;
        if (*at) p->role = *at++ == '{' ? UI_NUMBER : role;
    }
}

void ui_print_numbers(ui_pen *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_numbers(p, fmt, ap);
    va_end(ap);
}

void ui_clause(ui_pen *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print_numbers(p, fmt, ap);
    va_end(ap);
    ui_end_clause(p);
}

void ui_print_to(ui_pen *p, int end, const char *fmt, ...) {
    char text[48];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ui_print(ui_pad(p, end - ui_text_cells(p->canvas, text, strlen(text))), "%s", text);
}

const char *ui_times(const ui_canvas *c) {
    return c->ascii ? "x" : "×";
}

void ui_bar(ui_pen *p, int cells, double fraction) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    if (!(fraction > 0)) fraction = 0;
    if (fraction > 1) fraction = 1;
    int units = (int)lround(fraction * cells * 8), start = p->col;
    for (int i = 0; i < units / 8; i++) ui_print(p, p->canvas->ascii ? "#" : "█");
    if (p->canvas->ascii) {
        if (units % 8 >= 4) ui_print(p, "#");
    } else if (units % 8) ui_print(p, "%s", eighths[units % 8]);
    ui_pad(p, start + cells);
}

void ui_token_text(const ui_canvas *c, const ui_state *s, int32_t id, ls_buf *out) {
    const ls_token *t = ls_token_of(&s->run.tokens, id);
    if (c->ascii) ls_buf_char(out, '"');
    for (size_t i = 0, n = (size_t)t->n; i < n;) {
        const ui_glyph g = ui_next_glyph(c, t->bytes + i, n - i);
        ls_buf_str(out, g.space && !c->ascii ? "·" : g.glyph);
        i += g.n;
    }
    if (c->ascii) ls_buf_char(out, '"');
}

void ui_quote_token(const ui_canvas *c, const ui_state *s, int32_t id, ls_buf *out) {
    if (!c->ascii) ls_buf_char(out, '"');
    ui_token_text(c, s, id, out);
    if (!c->ascii) ls_buf_char(out, '"');
}

bool ui_draw_token(ui_pen *p, const ui_state *s, int32_t id) {
    ls_buf text = {0};
    ui_token_text(p->canvas, s, id, &text);
    bool fits = ui_draw(p, text.n ? text.p : "", text.n);
    ls_buf_free(&text);
    return fits;
}

void ui_draw_token_in(ui_pen *p, const ui_state *s, int32_t id, int cells) {
    const int end = p->end, beyond = p->col + cells;
    p->end = beyond < end ? beyond : end;
    ui_draw_token(p, s, id);
    p->end = end;
}

const char *ui_branch_letter(const ls_step *step, const ls_branch *b) {
    return ls_sources[step->tree.nodes[b->first_node].from].letter;
}

const ls_branch *ui_branch_of_rank(const ls_step *step, int rank) {
    const ls_branch *best = NULL;
    for (int b = 0; b < step->tree.n_branches; b++)
        if (step->tree.branches[b].rank == rank && (!best || step->tree.branches[b].accepted > best->accepted))
            best = &step->tree.branches[b];
    return best;
}

ls_short_text ui_match_text(int match_n, int32_t match_pos) {
    ls_short_text t = {"-"};
    if (match_n > 0 && match_pos >= 0) snprintf(t.s, sizeof t.s, "%d@%d", match_n, match_pos);
    else if (match_n > 0) snprintf(t.s, sizeof t.s, "=%d", match_n);
    return t;
}

double ui_prob(float logit, float lse) {
    return exp((double)logit - (double)lse);
}

void ui_draw_prob(ui_pen *p, const char *before, double prob) {
    ui_print(p, "%s", before);
    if (isnan(prob)) ui_print(p, "    -");
    else if (prob >= 0.9995) ui_print(p, " 1.00");
    else if (prob < 0.0005) ui_print(p, "<.001");
    else ui_print(p, " .%03d", (int)lround(prob * 1000));
}

ui_role ui_outcome_role(ls_node_state s) {
    return s == LS_NODE_ACCEPTED ? UI_GOOD : s == LS_NODE_REJECTED ? UI_BAD : UI_DIM;
}

ui_line *ui_wrap(const ui_canvas *c, const char *text, size_t n_text, int cols, size_t *n_lines) {
    size_t n = 0, start = 0, i = 0, blank = 0; // blank: behind the last one of the line
    int used = 0;
    ui_line *lines = NULL;
    for (;;) {
        const bool end = i == n_text;
        ui_glyph g = {0};
        if (!end) g = ui_next_glyph(c, text + i, n_text - i);
        const bool full = !end && !g.newline && used && used + g.cells > cols;
        if (!end && !g.newline && !full) {
            used += g.cells;
            i += g.n;
            if (g.space) blank = i;
            continue;
        }
        const size_t stop = full && blank > start ? blank : i;
        lines = ls_grown(lines, n, sizeof *lines);
        lines[n++] = (ui_line){start, stop};
        if (end) break;
        i = start = blank = full ? stop : i + g.n; // of a full line the last word is measured again
        used = 0;
    }
    *n_lines = n;
    return lines;
}
