// A table with the simulated result of each method on the answer.
#include "ui/panels.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Text that ends before that column.
static void cell(ui_pen *p, int end, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void cell(ui_pen *p, int end, const char *fmt, ...) {
    char text[48];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ui_pad(p, end - (int)strlen(text));
    ui_print(p, "%s", text);
}

// A row of the table, simulated or measured.
typedef struct {
    double mat, speed, rows, draft_us, known; // known: share of the rows, 1: all; NAN: measured
    uint64_t accepted, drafted;
} line;

static line line_of(const ls_simulated *t, const ls_method *m) {
    const double known = ls_simulated_is_exact(t, m) ? 1 : ls_per((double)t->rows_known, t->rows);
    return (line){ls_per((double)t->emitted, t->steps),
                  ls_simulated_speedup(t),
                  ls_per((double)(t->drafted + t->forwards), t->forwards),
                  ls_per(t->draft_us, t->forwards),
                  known,
                  t->accepted,
                  t->drafted};
}

static line real_line(const ls_stats *st) {
    return (line){ls_stats_mat(st),
                  ls_stats_speedup(st) > 0 ? ls_stats_speedup(st) : (double)NAN,
                  ls_per((double)(st->drafted + st->forwards), st->forwards),
                  ls_per(st->draft_us, st->forwards),
                  (double)NAN,
                  st->accepted,
                  st->drafted};
}

static void draw_way(ui_pen *p, int col, const line *l) {
    const bool guess = l->known < 1;
    ui_pad(p, col + 28);
    p->role = UI_NUMBER;
    ui_print(p, "%s%.2f", !guess ? " " : p->canvas->ascii ? "~" : "≈", l->mat);
    p->role = UI_TEXT;
    ui_pad(p, col + 36);
    if (isnan(l->speed)) ui_print(p, "-");
    else ui_print(p, "%s%.2f", ui_times(p->canvas), l->speed);
    cell(p, col + 54, "%" PRIu64 "/%" PRIu64, l->accepted, l->drafted);
    cell(p, col + 61, "%.1f", l->rows);
    cell(p, col + 70, "%.0f", l->draft_us);
    if (isnan(l->known)) cell(p, col + 77, "real");
    else if (!guess) cell(p, col + 77, "all");
    else cell(p, col + 77, "%.0f%%", 100 * l->known);
}

void ui_panel_shadows(ui_panel_view *v) {
    const ui_state *s = v->state;
    const char *why;
    const ui_turn *turn;
    const ls_shadows *w = ui_shadows_of(s, &turn, &why);
    if (!w) {
        ui_pen p = ui_next_line(v, UI_DIM);
        ui_print(&p, " %s", why);
        return;
    }
    const int n = ls_shadows_count(w);
    ui_pen head = ui_pen_at(v->canvas, v->area, 0, UI_LABEL);
    ui_print(&head, " %-28s%-8s%-6s%11s%7s%9s%7s", "method", "MAT", "speed", "accepted", "rows", "draft us", "known");
    for (int i = 0; i < n && i + 1 < v->area.rows; i++) {
        const char *label = ls_shadows_label(w, i), *refusal = ls_shadows_refusal(w, i);
        const ls_simulated *t = ls_shadows_of(w, i);
        const bool decodes = !turn->switched && !strcmp(label, turn->method);
        ui_pen p = ui_pen_at(v->canvas, v->area, 1 + i, i == s->shadows.chosen ? UI_CURSOR : UI_LABEL);
        const int col = p.col;
        p.tag = i + 1;
        ui_print(&p, " %s%s", label, decodes ? " (active)" : "");
        p.role = UI_DIM;
        ui_pad(&p, col + 29);
        const line l = decodes ? real_line(&s->shadows.real) : line_of(t, ls_shadows_method(w, i));
        if (refusal || !(l.mat > 0)) ui_print(&p, "%s", refusal ? refusal : "-");
        else draw_way(&p, col, &l);
    }
    const double us = ls_shadows_us_per_step(w), share = ui_shadows_share(s);
    const char *when = s->shadows.always   ? "always runs (u: above 2%, only in pauses)"
                       : ui_shadows_may(s) ? "above 2%, runs only in pauses (u: always)"
                                           : "waiting for a pause (u: run now)";
    v->line = v->area.rows > n + 4 ? n + 2 : n + 1;
    ui_pen p = ui_next_line(v, UI_DIM);
    if (isnan(us) || isnan(share)) ui_print(&p, " %s", when);
    else ui_print(&p, " cost: %.0f us per step, %.1f%%; %s", us, 100 * share, when);
    ui_dim_line(v, s->given.recording ? " speed: against plain decoding, by recorded costs and drafting timed here"
                                      : " Enter: use this method. speed: against plain decoding, by measured costs");
    ui_dim_line(v, " known: verified share of the rows that the method would learn from; all: exact; ≈: estimate");
    ui_right(v, "turn %td%s; a closes", turn - s->run.turns + 1,
             turn + 1 < s->run.turns + s->run.dialog->n_turns ? ", not up to date" : "");
}
