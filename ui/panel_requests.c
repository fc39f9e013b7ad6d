// The requests of a server, and the panel with a line for each.
#include "ui/panels.h"
#include "base/mem.h"

#include <string.h>

static ls_request_facts *find(const ui_requests *r, int32_t id) {
    for (size_t i = 0; i < r->n; i++)
        if (r->facts[i].id == id) return &r->facts[i];
    return NULL;
}

static int rank(ls_request_state s) { // in the order of the list
    return s == LS_REQUEST_QUEUED ? 1 : s >= LS_REQUEST_DONE ? 2 : 0;
}

static bool is_above(const ls_request_facts *x, const ls_request_facts *y) {
    const int by = rank(x->state) - rank(y->state);
    return by ? by < 0 : rank(x->state) == 2 ? x->id > y->id : x->id < y->id;
}

void ui_requests_on(ui_state *s, const ls_event *e) {
    ui_requests *r = &s->requests;
    const ls_request_facts *f = e->request.facts;
    ls_request_facts *at = find(r, f->id);
    if (at) memmove(at, at + 1, (size_t)(r->facts + r->n-- - at - 1) * sizeof *at);
    if (f->state != LS_REQUEST_FORGOTTEN) {
        at = r->facts = ls_grown(r->facts, r->n, sizeof *r->facts);
        while (at < r->facts + r->n && is_above(at, f)) at++;
        memmove(at + 1, at, (size_t)(r->facts + r->n++ - at) * sizeof *at);
        *at = *f;
    }
    r->follows = e->request.follows;
    if (e->request.shown) r->shown = f->id;
    if (r->cursor && !find(r, r->cursor)) r->cursor = 0;
}

void ui_requests_move(ui_state *s, int by) {
    ui_requests *r = &s->requests;
    const ls_request_facts *from = find(r, r->cursor ? r->cursor : r->shown);
    const int n = (int)r->n, at = (from ? (int)(from - r->facts) : 0) + by;
    if (!n) return;
    r->cursor = r->facts[at < 0 ? 0 : at < n ? at : n - 1].id;
    s->drawn.to_row = true;
}

void ui_requests_open(ui_state *s) {
    const int32_t id = s->requests.cursor ? s->requests.cursor : s->requests.shown;
    if (!id) {
        ui_say(s, "no request yet");
        return;
    }
    s->requests.follows = false;
    s->view.at_newest = true;
    ui_ask(s, LS_CMD_OPEN, NULL, id);
}

void ui_requests_follow(ui_state *s) {
    s->requests.cursor = 0;
    s->requests.follows = s->view.at_newest = true;
    s->view.node = -1;
    ui_ask(s, LS_CMD_OPEN, NULL, 0);
}

void ui_requests_pin(ui_state *s) {
    if (!s->requests.follows || !s->requests.shown) return;
    s->requests.follows = false;
    ui_ask(s, LS_CMD_OPEN, NULL, s->requests.shown);
}

size_t ui_requests_open_count(const ui_requests *r, ls_request_state from, ls_request_state to) {
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) n += r->facts[i].state >= from && r->facts[i].state <= to;
    return n;
}

const ls_request_facts *ui_request_shown(const ui_state *s) {
    return s->requests.shown ? find(&s->requests, s->requests.shown) : NULL;
}

const char *ui_fixed(const ui_state *s) {
    return s->given.watches ? "this is a server" : "this is a recording";
}

// ---- the panel

enum { NUMBER = 5, STATE = 10, COLUMNS = 7, LEAST_CLIENT = 8 };

static const struct {
    const char *heading;
    int cells;
} columns[COLUMNS] = {{"prompt", 7}, {"kept", 7},     {"answer", 7}, {"MAT", 6},
                      {"tok/s", 7},  {"speedup", 11}, {"waited", 7}};

// Where the next of the cells at the right end of a line ends.
typedef struct {
    int col, n;
} cells;

static int next_end(cells *c) {
    return c->col += columns[c->n++].cells;
}

static void number(ui_pen *p, cells *c, const char *fmt, double v) {
    ui_print_to(p, next_end(c), v > 0 ? fmt : "-", v);
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

static void row(ui_panel_view *v, const ls_request_facts *f, int at_state) {
    const ui_state *s = v->state;
    const int32_t cursor = s->requests.cursor ? s->requests.cursor : s->requests.shown;
    const bool focus = s->shown.focus == UI_REQUESTS;
    ui_pen p = ui_next_line(v, f->id == cursor && focus ? UI_CURSOR : UI_NUMBER);
    cells c = {at_state + STATE, 0};
    p.tag = f->id + 1;
    ui_print(&p, "%c%*d", f->id == s->requests.shown ? '>' : ' ', NUMBER - 1, f->id);
    ui_print(ui_as(&p, UI_TEXT), " ");
    client(&p, f, at_state - 1 - p.col);
    ui_pad(&p, at_state);
    p.role = f->state == LS_REQUEST_FAILED                                       ? UI_BAD
             : f->state == LS_REQUEST_READING || f->state == LS_REQUEST_DECODING ? UI_GOOD
                                                                                 : UI_DIM;
    ui_print(&p, "%s", ls_request_state_name(f->state));
    if (f->read > 0 && f->state == LS_REQUEST_READING) ui_print(&p, "%3.0f", 100 * f->read);
    if (*f->why) ui_print(&p, ": %s", f->why);
    if (*f->why) return;
    const double speed = f->decode_ms > 0 ? 1e3 * (double)f->emitted / f->decode_ms : 0;
    p.role = UI_TEXT;
    number(&p, &c, "%.0f", f->prompt_tokens);
    number(&p, &c, "%.0f", f->kept_tokens);
    number(&p, &c, "%.0f", f->emitted);
    number(&p, &c, "%.2f", f->steps ? (double)f->emitted / (double)f->steps : 0);
    number(&p, &c, speed < 1000 ? "%.1f" : "%.0f", speed);
    if (f->speedup > 0)
        ui_print_to(&p, next_end(&c), "%s%s", ui_times(v->canvas),
                    ls_speedup_text(f->speedup, f->speedup_spread, v->canvas->ascii).s);
    else ui_print_to(&p, next_end(&c), "-");
    number(&p, &c, "%.1fs", f->queued_ms >= 1 ? f->queued_ms / 1e3 : 0);
    if (f->lost_lines) ui_print(&p, " cut");
}

static void head(ui_panel_view *v, int at_state) {
    ui_pen p = ui_next_line(v, UI_LABEL);
    cells c = {at_state + STATE, 0};
    ui_print(&p, "%*s client", NUMBER, "no.");
    ui_print(ui_pad(&p, at_state), "state");
    for (int i = 0; i < COLUMNS; i++) ui_print_to(&p, next_end(&c), "%s", columns[i].heading);
}

void ui_panel_requests(ui_panel_view *v) {
    const ui_requests *r = &v->state->requests;
    int room = v->area.cols - NUMBER - 2 - STATE;
    for (int i = 0; i < COLUMNS; i++) room -= columns[i].cells;
    const int at_state = v->area.col + NUMBER + 2 + (room > LEAST_CLIENT ? room : LEAST_CLIENT);
    const size_t waiting = ui_requests_open_count(r, LS_REQUEST_QUEUED, LS_REQUEST_QUEUED),
                 running = ui_requests_open_count(r, LS_REQUEST_READING, LS_REQUEST_DECODING);
    const ls_request_facts *cursor = find(r, r->cursor);
    const int n = (int)r->n, lines = v->area.rows - 1;
    int *scroll = &v->drawn->scroll[UI_REQUESTS];
    head(v, at_state);
    if (!n) ui_dim_line(v, " no request yet");
    if (!cursor) *scroll = 0; // the newest are in sight
    else if (v->drawn->to_row) {
        ui_scroll_to(scroll, (int)(cursor - r->facts), lines);
        v->drawn->to_row = false;
    }
    const int top = ui_scroll_top(scroll, n, lines);
    for (int i = 0; i < lines && top + i < n; i++) row(v, &r->facts[top + i], at_state);
    if (v->area.cols > 100 && v->state->given.server) ui_right(v, "%.60s, ", v->state->given.server);
    ui_right(v, "%zu answered now, %zu waiting, %d kept%s", running, waiting, n, r->follows ? "" : "; G follows");
}
