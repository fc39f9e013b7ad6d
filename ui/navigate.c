#include "ui/navigate.h"
#include "ui/find.h"
#include "ui/panels.h"
#include "ui/quiz.h"
#include "ui/rows.h"

#include <stdio.h>

void ui_say(ui_state *s, const char *text, bool is_error) {
    snprintf(s->message, sizeof s->message, "%s", text);
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
    if (!s->n_steps) {
        ui_say(s, "no step yet: type a prompt first", false);
        return;
    }
    if (step < 0) step = 0;
    ui_quiz_go_on(s);
    s->view = step < (int64_t)s->n_steps ? (size_t)step : s->n_steps - 1;
    s->at_newest = false;
    s->at_newest = ui_viewed_end(s) == s->n_steps;
    s->node = -1;
    ui_find_nothing(s);
    s->scroll[UI_OUTPUT] = s->scroll[UI_LOGITS] = s->scroll[UI_DRAFTS] = s->scroll[UI_TREE] = 0;
}

void ui_jump(ui_state *s, int64_t step, const char *none) {
    if (step >= 0) ui_look_at(s, step);
    else ui_say(s, s->n_steps ? none : "no step yet: type a prompt first", false);
}

// A repeated call shows the next best or worst step.
void ui_jump_extreme(ui_state *s, int sign) {
    const bool again = s->extreme == sign && s->n_steps && ui_viewed_index(s) == s->extreme_at;
    const int64_t step = ui_extreme_step(s, sign, again ? (int64_t)s->extreme_at : -1);
    ui_jump(s, step, again ? "no more steps" : "plain decoding was not measured");
    if (step < 0) return;
    s->extreme = sign;
    s->extreme_at = (size_t)step;
    const ls_step *at = ui_step(s, (size_t)step);
    char text[120];
    snprintf(text, sizeof text, "step %u: %d token%s in %.2f ms, by plain decoding %.2f ms", at->index, at->n_emitted,
             ls_plural(at->n_emitted), at->t_total_us / 1e3, (at->t_total_us + ls_step_gain_us(at)) / 1e3);
    ui_say(s, text, false);
}

void ui_choose_row(ui_state *s, ui_panel p, int row) {
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    if ((p == UI_TREE || p == UI_INSPECT) && row < step->tree.n) s->node = row;
    if (p == UI_DRAFTS && row < step->tree.n_branches) s->node = step->tree.branches[row].first_node;
    for (int b = 0; p == UI_LOGITS && b < step->tree.n_branches; b++)
        if (step->tree.branches[b].rank == row) s->node = step->tree.branches[b].first_node;
}

static void search_rows(ui_state *s, ui_panel p, int by) {
    const int row = ui_rows_find(s, p, s->sought, by);
    int16_t rows[LS_MAX_ROWS];
    if (row < 0) {
        char none[160];
        snprintf(none, sizeof none, "not found in this panel: '%.100s'", s->sought);
        ui_say(s, none, false);
        return;
    }
    s->found[p] = row;
    ui_choose_row(s, p, row);
    const int n = p == UI_TREE ? 0 : ui_rows_of(s, ui_viewed(s), p, rows);
    for (int i = 0; i < n; i++)
        if (rows[i] == row) s->scroll[p] = i;
}

void ui_look_for(ui_state *s, int by) {
    int node = -1;
    if (!s->sought || !*s->sought) {
        ui_say(s, "no previous search: press / to search", false);
        return;
    }
    if (ui_rows_in(s->shown.focus)) {
        search_rows(s, s->shown.focus, by);
        return;
    }
    const int64_t step = ui_search(s, s->sought, by, &node);
    char none[160];
    snprintf(none, sizeof none, "not found: '%.100s'", s->sought);
    ui_jump(s, step, none);
    if (step >= 0) s->at_newest = false, s->node = node;
}

// ---- the cursor on a row, and on a node

void ui_move_row(ui_state *s, ui_panel p, int by) {
    int16_t rows[LS_MAX_ROWS];
    const ls_step *step = ui_viewed(s);
    const int n = step ? ui_rows_of(s, step, p, rows) : 0;
    if (!n) return;
    int at = s->scroll[p] - (by > 0); // without a cursor, it starts at the first row in sight
    for (int i = 0; i < n; i++)
        if (rows[i] == s->found[p]) at = i;
    at += by;
    at = at < 0 ? 0 : at >= n ? n - 1 : at;
    s->found[p] = rows[at];
    s->to_row = true;
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
    s->node = from;
    for (at += by; at >= 0 && at < step->tree.n; at += by)
        if (shown[order[at]]) {
            s->node = order[at];
            break;
        }
}

void ui_move_deeper(ui_state *s, bool deeper) {
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    const int node = ui_inspected(s);
    s->node = node;
    if (!deeper && node > 0) s->node = step->tree.nodes[node].parent;
    for (int i = node + 1; deeper && i < step->tree.n; i++)
        if (step->tree.nodes[i].parent == node) {
            s->node = i;
            break;
        }
}

void ui_move_token(ui_state *s, int by) {
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    int at = s->node >= 0 ? 0 : by > 0 ? -1 : step->n_emitted; // without a cursor it enters the step
    for (int i = 0; s->node >= 0 && i < step->n_emitted; i++)
        if (step->path[i] == s->node) at = i;
    at += by;
    int64_t view = (int64_t)ui_viewed_index(s);
    if (at < 0 || at >= step->n_emitted) {
        view += by;
        if (view < 0 || view >= (int64_t)s->n_steps) return;
        ui_look_at(s, view);
        step = ui_step(s, view);
        at = by > 0 ? 0 : step->n_emitted - 1;
    }
    s->view = (size_t)view;
    s->at_newest = false;
    s->node = step->path[at];
}

void ui_move(ui_state *s, int64_t by) {
    if (s->n_steps) ui_look_at(s, (int64_t)ui_viewed_index(s) + by);
    else ui_look_at(s, 0);
}
