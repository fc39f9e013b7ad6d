#include "ui/state.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static size_t place_of(const ui_requests *r, int32_t id) { // where it is, or would be
    size_t i = r->n;
    while (i > 0 && r->facts[i - 1].id >= id) i--;
    return i;
}

static const ls_request_facts *find(const ui_requests *r, int32_t id) {
    const size_t i = place_of(r, id);
    return i < r->n && r->facts[i].id == id ? &r->facts[i] : NULL;
}

void ui_requests_on(ui_state *s, const ls_event *e) {
    ui_requests *r = &s->requests;
    const ls_request_facts *f = e->request.facts;
    const size_t i = place_of(r, f->id);
    const bool known = i < r->n && r->facts[i].id == f->id;
    if (f->state == LS_REQUEST_FORGOTTEN) {
        if (known) memmove(r->facts + i, r->facts + i + 1, (--r->n - i) * sizeof *r->facts);
    } else {
        if (!known) {
            r->facts = ls_realloc(r->facts, (r->n + 1) * sizeof *r->facts);
            memmove(r->facts + i + 1, r->facts + i, (r->n++ - i) * sizeof *r->facts);
        }
        r->facts[i] = *f;
    }
    r->follows = e->request.follows;
    if (e->request.shown) r->shown = f->id;
    if (r->cursor && !find(r, r->cursor)) r->cursor = 0;
}

static int rank(ls_request_state s) { // in the order of the list
    return s == LS_REQUEST_QUEUED ? 1 : s >= LS_REQUEST_DONE ? 2 : 0;
}

static int compare(const void *a, const void *b, void *of) {
    const ls_request_facts *x = (const ls_request_facts *)of + *(const int *)a,
                           *y = (const ls_request_facts *)of + *(const int *)b;
    const int by = rank(x->state) - rank(y->state);
    return by ? by : rank(x->state) == 2 ? y->id - x->id : x->id - y->id;
}

int *ui_requests_order(const ui_requests *r) {
    int *order = ls_malloc((r->n + 1) * sizeof *order);
    for (size_t i = 0; i < r->n; i++) order[i] = (int)i;
    qsort_r(order, r->n, sizeof *order, compare, r->facts);
    return order;
}

void ui_requests_move(ui_state *s, int by) {
    ui_requests *r = &s->requests;
    const int n = (int)r->n, from = r->cursor ? r->cursor : r->shown;
    if (!n) return;
    int *order = ui_requests_order(r), at = 0;
    for (int i = 0; i < n; i++)
        if (r->facts[order[i]].id == from) at = i;
    at += by;
    r->cursor = r->facts[order[at < 0 ? 0 : at < n ? at : n - 1]].id;
    s->drawn.to_row = true;
    free(order);
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
