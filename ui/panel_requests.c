// The requests of a server, a line each.
#include "ui/panels.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 5, STATE = 10, COLUMNS = 7, LEAST_CLIENT = 8 };

static const struct {
    const char *heading;
    int cells;
} columns[COLUMNS] = {{"prompt", 7}, {"kept", 7},     {"answer", 7}, {"MAT", 6},
                      {"tok/s", 7},  {"speedup", 11}, {"waited", 7}};

// Cells at the right end of a line, from left to right.
typedef struct {
    ui_pen *pen;
    int col, n;
} cells;

static void cell(cells *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void cell(cells *c, const char *fmt, ...) {
    char text[48];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->col += columns[c->n++].cells;
    ui_pad(c->pen, c->col - ui_text_cells(c->pen->canvas, text, strlen(text)));
    ui_print(c->pen, "%s", text);
}

static void count(cells *c, int64_t n) {
    if (n) cell(c, "%lld", (long long)n);
    else cell(c, "-");
}

static void client(ui_pen *p, const ls_request_facts *f, int room) {
    const int end = p->end, beyond = p->col + room;
    p->end = beyond < end ? beyond : end;
    // "curl/8.1" without its version where that has no room: a part of a number would not be drawn
    const int whole = (int)strlen(f->agent), name = (int)strcspn(f->agent, "/ ");
    if (*f->agent) ui_print(p, "%.*s", whole > room ? name : whole, f->agent);
    else ui_print(p, "%s", f->client);
    if (f->key) ui_print(p, " key %d", f->key);
    if (*f->agent) ui_print(p, " %s", f->client);
    ui_print(p, " %s", f->path);
    p->end = end;
}

static void row(ui_panel_view *v, int line, const ls_request_facts *f, int room) {
    const ui_state *s = v->state;
    const int32_t cursor = s->requests.cursor ? s->requests.cursor : s->requests.shown;
    const bool focus = s->shown.focus == UI_REQUESTS;
    ui_pen p = ui_pen_at(v->canvas, v->area, line, f->id == cursor && focus ? UI_CURSOR : UI_NUMBER);
    const int start = p.col;
    cells c = {&p, start + NUMBER + 1 + room + 1 + STATE, 0};
    p.tag = f->id + 1;
    ui_print(&p, "%c%*d", f->id == s->requests.shown ? '>' : ' ', NUMBER - 1, f->id);
    p.role = UI_TEXT;
    ui_print(&p, " ");
    client(&p, f, room);
    ui_pad(&p, start + NUMBER + 1 + room + 1);
    p.role = f->state == LS_REQUEST_FAILED                                       ? UI_BAD
             : f->state == LS_REQUEST_READING || f->state == LS_REQUEST_DECODING ? UI_GOOD
                                                                                 : UI_DIM;
    ui_print(&p, "%s", ls_request_state_name(f->state));
    if (f->read > 0 && f->state == LS_REQUEST_READING) ui_print(&p, "%3.0f", 100 * f->read);
    if (*f->why) ui_print(&p, ": %s", f->why);
    if (*f->why) return;
    const double speed = f->decode_ms > 0 ? 1e3 * (double)f->emitted / f->decode_ms : 0;
    p.role = UI_TEXT;
    count(&c, f->prompt_tokens);
    count(&c, f->kept_tokens);
    count(&c, f->emitted);
    if (f->steps) cell(&c, "%.2f", (double)f->emitted / (double)f->steps);
    else cell(&c, "-");
    if (speed > 0) cell(&c, speed < 1000 ? "%.1f" : "%.0f", speed);
    else cell(&c, "-");
    if (f->speedup > 0)
        cell(&c, "%s%s", ui_times(v->canvas), ls_speedup_text(f->speedup, f->speedup_spread, v->canvas->ascii).s);
    else cell(&c, "-");
    if (f->queued_ms >= 1) cell(&c, "%.1fs", f->queued_ms / 1e3);
    else cell(&c, "-");
    if (f->lost_lines) ui_print(&p, " cut");
}

static void head(ui_panel_view *v, int room) {
    ui_pen p = ui_next_line(v, UI_LABEL);
    const int start = p.col;
    cells c = {&p, start + NUMBER + 1 + room + 1 + STATE, 0};
    ui_print(&p, "%*s client", NUMBER, "no.");
    ui_pad(&p, start + NUMBER + 1 + room + 1);
    ui_print(&p, "state");
    for (int i = 0; i < COLUMNS; i++) cell(&c, "%s", columns[i].heading);
}

void ui_panel_requests(ui_panel_view *v) {
    const ui_requests *r = &v->state->requests;
    int room = v->area.cols - NUMBER - 2 - STATE;
    for (int i = 0; i < COLUMNS; i++) room -= columns[i].cells;
    if (room < LEAST_CLIENT) room = LEAST_CLIENT;
    const size_t waiting = ui_requests_open_count(r, LS_REQUEST_QUEUED, LS_REQUEST_QUEUED),
                 running = ui_requests_open_count(r, LS_REQUEST_READING, LS_REQUEST_DECODING);
    int *order = ui_requests_order(r), *scroll = &v->drawn->scroll[UI_REQUESTS];
    const int n = (int)r->n, lines = v->area.rows - 1, cursor = r->cursor;
    head(v, room);
    if (!n) ui_dim_line(v, " no request yet");
    if (!cursor) *scroll = 0; // the newest are in sight
    for (int i = 0; i < n && cursor && v->drawn->to_row; i++) {
        if (r->facts[order[i]].id != cursor) continue;
        if (i < *scroll) *scroll = i;
        if (i >= *scroll + lines) *scroll = i - lines + 1;
        v->drawn->to_row = false;
    }
    const int top = ui_scroll_top(scroll, n, lines);
    for (int i = 0; i < lines && top + i < n; i++) row(v, 1 + i, &r->facts[order[top + i]], room);
    free(order);
    if (v->area.cols > 100 && v->state->given.server) ui_right(v, "%.60s, ", v->state->given.server);
    ui_right(v, "%zu answered now, %zu waiting, %d kept%s", running, waiting, n, r->follows ? "" : "; G follows");
}
