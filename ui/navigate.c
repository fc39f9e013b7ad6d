#include "base/mem.h"
#include "base/err.h"
#include "ui/panels.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_message(ui_state *s, bool is_error, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->message, sizeof s->message, fmt, ap);
    va_end(ap);
    s->message_is_error = is_error;
}

void ui_focus(ui_state *s, ui_panel p) {
    s->shown.focus = p;
    if (s->shown.zoom != UI_NO_PANEL) s->shown.zoom = p;
}

void ui_open(ui_state *s, ui_panel p, bool open) {
    *(p == UI_INSPECT ? &s->shown.inspect : &s->shown.compare) = open;
    if (open) s->shown.inspect_last = p == UI_INSPECT;
    if (open && p == UI_INSPECT && s->shown.focus == UI_COMPARE) s->shown.focus = p; // they may share a place
    if (open && p == UI_COMPARE && s->shown.focus != UI_NO_PANEL) s->shown.focus = p;
    if (!open && s->shown.focus == p) s->shown.focus = p == UI_INSPECT ? UI_TREE : UI_STATS;
    if (!open && s->shown.zoom == p) s->shown.zoom = UI_NO_PANEL;
}

void ui_look_at(ui_state *s, int64_t step) {
    if (!s->run.n_steps) {
        ui_say(s, "no step yet: type a prompt first");
        return;
    }
    if (step < 0) step = 0;
    ui_quiz_go_on(s);
    s->view.step = step < (int64_t)s->run.n_steps ? (size_t)step : s->run.n_steps - 1;
    s->view.at_newest = false;
    s->view.at_newest = ui_viewed_end(s) == s->run.n_steps;
    ui_leave_rows(s);
    s->drawn.scroll[UI_OUTPUT] = 0;
}

// ---- steps by what happened in them

static void jump(ui_state *s, int64_t step, const char *none) {
    if (step >= 0 || !s->run.n_steps) ui_look_at(s, step);
    else ui_say(s, "%s", none);
}

static bool happened(const ui_state *s, const ls_step *step, ui_find what) {
    if (what == UI_FIND_LOSSY) return ls_step_lossy(step, NULL) > 0 || ui_preview(s, step) >= 0;
    bool tried = !ls_step_described(step) && step->n_path < step->rows; // where it was is not recorded
    for (int i = 1; i < step->tree.n; i++) tried |= step->tree.nodes[i].state == LS_NODE_REJECTED;
    return step->forward && tried;
}

// Negative: there is none.
static int64_t find_step(const ui_state *s, ui_find what, int by) {
    if (!s->run.n_steps) return -1;
    for (int64_t i = (int64_t)ui_viewed_index(s) + by; i >= 0 && i < (int64_t)s->run.n_steps; i += by)
        if (happened(s, s->run.steps[i], what)) return i;
    return -1;
}

// The step that lost (sign -1) or gained (1) most against plain decoding; after: the one behind this step in that
// order, -1: the first. Returns -1 where there is none.
static int64_t extreme_step(const ui_state *s, int sign, int64_t after) {
    const double limit = after < 0 ? (double)INFINITY : sign * ls_step_gain_us(s->run.steps[after]);
    double found = -(double)INFINITY;
    int64_t at = -1;
    for (size_t i = 0; i < s->run.n_steps; i++) {
        const double v = sign * ls_step_gain_us(s->run.steps[i]);
        if (isnan(v) || v <= found || v > limit || (v == limit && (int64_t)i <= after)) continue;
        found = v;
        at = (int64_t)i;
    }
    return at;
}

void ui_jump(ui_state *s, ui_find what, int by) {
    const char *none = what == UI_FIND_REJECTION
                           ? (by > 0 ? "no later step rejected a draft" : "no earlier step rejected a draft")
                       : s->view.preview ? "no later step has a draft that this rule would accept"
                                         : "no later step accepted a draft that the target did not choose";
    jump(s, find_step(s, what, by), none);
}

// A repeated call shows the next best or worst step.
void ui_jump_extreme(ui_state *s, int sign) {
    const bool again = s->view.extreme == sign && s->run.n_steps && ui_viewed_index(s) == s->view.extreme_at;
    const int64_t step = extreme_step(s, sign, again ? (int64_t)s->view.extreme_at : -1);
    jump(s, step, again ? "no more steps" : "plain decoding was not measured");
    if (step < 0) return;
    s->view.extreme = sign;
    s->view.extreme_at = (size_t)step;
    const ls_step *at = s->run.steps[step];
    ui_say(s, "step %u: %d token%s in %.2f ms, by plain decoding %.2f ms", at->index, at->n_emitted,
           ls_plural(at->n_emitted), at->t_total_us / 1e3, (at->t_total_us + ls_step_gain_us(at)) / 1e3);
}

void ui_choose_row(ui_state *s, ui_panel p, int row) {
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    if ((p == UI_TREE || p == UI_INSPECT) && row < step->tree.n) s->view.node = row;
    if (p == UI_DRAFTS && row < step->tree.n_branches) s->view.node = step->tree.branches[row].first_node;
    for (int b = 0; p == UI_LOGITS && b < step->tree.n_branches; b++)
        if (step->tree.branches[b].rank == row) s->view.node = step->tree.branches[b].first_node;
}

// ---- search

// The next place of the output that holds the text, whatever its case; the search goes on at the other end. Returns
// its step and sets *node to the row of its token; -1: nowhere.
static int64_t search_output(const ui_state *s, const char *text, int by, int *node) {
    struct token {
        size_t end, step; // end: of its text
        int row;
    } *tokens = NULL;
    size_t n = 0;
    ls_buf all = {0};
    for (size_t i = 0; i < s->run.n_steps; i++) {
        const ls_step *step = s->run.steps[i];
        for (int k = 0; k < step->n_emitted; k++) {
            tokens = ls_grown(tokens, n, sizeof *tokens);
            ui_add_sought(s, step->tree.nodes[step->path[k]].token, &all);
            tokens[n++] = (struct token){all.n, i, step->path[k]};
        }
    }
    const size_t view = n ? ui_viewed_index(s) : 0;
    const int row = n ? ui_inspected(s) : 0;
    const struct token *t = tokens, *first = NULL, *before = NULL, *after = NULL, *last = NULL;
    for (const char *p = all.p; p && *text && (p = strcasestr(p, text)); p++) {
        while (t->end <= (size_t)(p - all.p)) t++;
        if (!first) first = t;
        if (t->step < view || (t->step == view && t->row < row)) before = t;
        else if (!after && (t->step > view || t->row > row)) after = t;
        last = t;
    }
    const struct token *found = by > 0 ? (after ? after : first) : before ? before : last;
    const int64_t at = found ? (int64_t)found->step : -1;
    if (found) *node = found->row;
    ls_buf_free(&all);
    free(tokens);
    return at;
}

static void search_rows(ui_state *s, ui_panel p, int by) {
    const int row = ui_rows_find(s, p, s->view.sought, by);
    int16_t rows[LS_MAX_ROWS];
    if (row < 0) {
        ui_say(s, "not found in this panel: '%.100s'", s->view.sought);
        return;
    }
    s->list[p].found = row;
    ui_choose_row(s, p, row);
    const int n = p == UI_TREE ? 0 : ui_rows_of(s, ui_viewed(s), p, rows);
    for (int i = 0; i < n; i++)
        if (rows[i] == row) s->drawn.scroll[p] = i;
}

void ui_look_for(ui_state *s, int by) {
    int node = -1;
    if (!s->view.sought || !*s->view.sought) {
        ui_say(s, "no previous search: press / to search");
        return;
    }
    if (ui_rows_in(s->shown.focus)) {
        search_rows(s, s->shown.focus, by);
        return;
    }
    const int64_t step = search_output(s, s->view.sought, by, &node);
    char none[160];
    snprintf(none, sizeof none, "not found: '%.100s'", s->view.sought);
    jump(s, step, none);
    if (step >= 0) s->view.at_newest = false, s->view.node = node;
}

// ---- the cursor on a row, and on a node

void ui_move_row(ui_state *s, ui_panel p, int by) {
    int16_t rows[LS_MAX_ROWS];
    const ls_step *step = ui_viewed(s);
    const int n = step ? ui_rows_of(s, step, p, rows) : 0;
    if (!n) return;
    int at = s->drawn.scroll[p] - (by > 0); // without a cursor, it starts at the first row in sight
    for (int i = 0; i < n; i++)
        if (rows[i] == s->list[p].found) at = i;
    at += by;
    at = at < 0 ? 0 : at >= n ? n - 1 : at;
    s->list[p].found = rows[at];
    s->drawn.to_row = true;
    ui_choose_row(s, p, rows[at]);
}

void ui_move_node(ui_state *s, int by) {
    int16_t order[LS_MAX_ROWS];
    bool shown[LS_MAX_ROWS];
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    ui_tree_order(step, order);
    ui_rows_tree(s, step, shown);
    const int from = ui_inspected(s);
    int at = 0;
    while (order[at] != from) at++;
    s->view.node = from;
    for (at += by; at >= 0 && at < step->tree.n; at += by)
        if (shown[order[at]]) {
            s->view.node = order[at];
            break;
        }
}

void ui_move_deeper(ui_state *s, bool deeper) {
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    const int node = ui_inspected(s);
    s->view.node = node;
    if (!deeper && node > 0) s->view.node = step->tree.nodes[node].parent;
    for (int i = node + 1; deeper && i < step->tree.n; i++)
        if (step->tree.nodes[i].parent == node) {
            s->view.node = i;
            break;
        }
}

void ui_move_token(ui_state *s, int by) {
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    int at = s->view.node >= 0 ? 0 : by > 0 ? -1 : step->n_emitted; // without a cursor it enters the step
    for (int i = 0; s->view.node >= 0 && i < step->n_emitted; i++)
        if (step->path[i] == s->view.node) at = i;
    at += by;
    int64_t view = (int64_t)ui_viewed_index(s);
    if (at < 0 || at >= step->n_emitted) {
        view += by;
        if (view < 0 || view >= (int64_t)s->run.n_steps) return;
        ui_look_at(s, view);
        step = s->run.steps[view];
        at = by > 0 ? 0 : step->n_emitted - 1;
    }
    s->view.step = (size_t)view;
    s->view.at_newest = false;
    s->view.node = step->path[at];
}
