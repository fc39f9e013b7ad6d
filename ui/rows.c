#include "base/mem.h"
#include "ui/panels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BY_PLACE, BY_LENGTH, BY_ACCEPTED, BY_MATCH, LOGITS_ORDERS = BY_MATCH, DRAFTS_ORDERS };
static const char *const order_names[] = {"rank", "length", "accepted", "match"};

bool ui_rows_in(ui_panel p) {
    return p == UI_LOGITS || p == UI_DRAFTS || p == UI_TREE;
}

void ui_add_sought(const ui_state *s, int32_t id, ls_buf *out) {
    const ls_token *t = ls_token_of(&s->run.tokens, id);
    for (int32_t i = 0; i < t->n; i++) ls_buf_char(out, t->bytes[i] ? t->bytes[i] : ' ');
}

// Whether the text of a row contains `text`.
static bool row_holds(const ui_state *s, const ls_step *step, ui_panel p, int row, const char *text) {
    ls_buf b = {0};
    if (p == UI_LOGITS) ui_add_sought(s, step->top[row].id, &b);
    else if (p == UI_DRAFTS) {
        const ls_branch *br = &step->tree.branches[row];
        for (int i = br->first_node; i < br->first_node + br->n_nodes; i++)
            ui_add_sought(s, step->tree.nodes[i].token, &b);
    } else {
        int32_t ids[LS_MAX_ROWS];
        const int n = ls_tree_tokens(&step->tree, row, ids);
        for (int i = 0; i < n; i++) ui_add_sought(s, ids[i], &b);
    }
    const bool found = b.n && strcasestr(b.p, text);
    ls_buf_free(&b);
    return found;
}

static const ls_branch *branch_of_row(const ls_step *step, ui_panel p, int row) {
    if (p == UI_DRAFTS) return &step->tree.branches[row];
    const bool is_root = step->top[row].id == step->tree.nodes[0].token;
    return ui_branch_of_rank(step, is_root ? -1 : row);
}

static int value(const ls_step *step, ui_panel p, int row, int column) {
    const ls_branch *b = branch_of_row(step, p, row);
    if (!b) return -1;
    return column == BY_LENGTH ? b->n_nodes : column == BY_ACCEPTED ? ls_step_branch_accepted(step, b) : b->match_n;
}

int ui_rows_of(const ui_state *s, const ls_step *step, ui_panel p, int16_t *rows) {
    const int all = p == UI_LOGITS ? step->n_top : step->tree.n_branches, column = s->list[p].order;
    int values[LS_MAX_ROWS], n = 0;
    for (int row = 0; row < all && n < LS_MAX_ROWS; row++) {
        if (s->list[p].filter && !row_holds(s, step, p, row, s->list[p].filter)) continue;
        const int v = column == BY_PLACE ? -row : value(step, p, row, column);
        int at = n++; // few rows: equal ones keep their order
        for (; at > 0 && values[at - 1] < v; at--) values[at] = values[at - 1], rows[at] = rows[at - 1];
        values[at] = v;
        rows[at] = (int16_t)row;
    }
    for (int i = 0; s->list[p].reversed && i < n / 2; i++) {
        const int16_t other = rows[i];
        rows[i] = rows[n - 1 - i];
        rows[n - 1 - i] = other;
    }
    return n;
}

void ui_rows_tree(const ui_state *s, const ls_step *step, bool *shown) {
    const char *filter = s->list[UI_TREE].filter;
    int16_t top[LS_MAX_ROWS]; // the child of the root that a node hangs from
    bool kept[LS_MAX_ROWS] = {false};
    for (int i = 0; i < step->tree.n; i++) {
        const int parent = step->tree.nodes[i].parent;
        top[i] = (int16_t)(parent <= 0 ? i : top[parent]);
        kept[top[i]] |= !filter || i == 0 || row_holds(s, step, UI_TREE, i, filter);
    }
    for (int i = 0; i < step->tree.n; i++) shown[i] = kept[top[i]];
}

int ui_rows_find(const ui_state *s, ui_panel p, const char *text, int by) {
    const ls_step *step = ui_viewed(s);
    int16_t rows[LS_MAX_ROWS];
    bool shown[LS_MAX_ROWS];
    int n = 0, from = -1;
    if (!step || !*text) return -1;
    if (p == UI_TREE) ui_rows_tree(s, step, shown);
    const int all = p == UI_TREE ? step->tree.n : ui_rows_of(s, step, p, rows);
    for (int i = 0; i < all; i++) {
        const int row = p == UI_TREE ? i : rows[i], above = p == UI_TREE ? step->tree.nodes[i].parent : -1;
        // of the tree the node that completes the text, not all nodes below it
        if ((p == UI_TREE && !shown[i]) || !row_holds(s, step, p, row, text) ||
            (above >= 0 && row_holds(s, step, p, above, text)))
            continue;
        if (row == s->list[p].found) from = n;
        rows[n++] = (int16_t)row;
    }
    if (!n) return -1;
    return rows[from < 0 ? (by > 0 ? 0 : n - 1) : (from + by + n) % n];
}

void ui_rows_filter(ui_state *s, ui_panel p, const char *text) {
    if (!ui_rows_in(p)) return;
    free(s->list[p].filter);
    s->list[p].filter = *text ? ls_strdup(text) : NULL;
    s->drawn.scroll[p] = 0;
}

bool ui_rows_sort(ui_state *s, ui_panel p, bool reverse) {
    const int n = p == UI_LOGITS ? LOGITS_ORDERS : p == UI_DRAFTS ? DRAFTS_ORDERS : 0;
    if (n && reverse) s->list[p].reversed = !s->list[p].reversed;
    else if (n) s->list[p].order = (s->list[p].order + 1) % n;
    return n > 0;
}

void ui_rows_title(const ui_state *s, ui_panel p, int n, int of, char right[UI_RIGHT_BYTES]) {
    char order[48] = "", filter[64] = "";
    if (s->list[p].order != BY_PLACE || s->list[p].reversed)
        snprintf(order, sizeof order, "by %s%s", order_names[s->list[p].order], s->list[p].reversed ? " reversed" : "");
    if (s->list[p].filter) snprintf(filter, sizeof filter, "'%.12s' %d of %d", s->list[p].filter, n, of);
    if (*order || *filter) snprintf(right, UI_RIGHT_BYTES, "%s%s%s", order, *order && *filter ? ", " : "", filter);
}

int ui_rows_top(ui_panel_view *v, ui_panel p, int16_t *rows, int n, int lines, int decided) {
    const ui_state *s = v->state;
    int *scroll = &v->drawn->scroll[p];
    for (int i = 0; i < n && v->drawn->to_row && s->shown.focus == p; i++) {
        if (rows[i] != s->list[p].found) continue;
        ui_scroll_to(scroll, i, lines);
        v->drawn->to_row = false;
    }
    const int top = ui_scroll_top(scroll, n, lines);
    if (top || s->list[p].order != BY_PLACE || s->list[p].reversed || ui_quiz_hides(s)) return top;
    for (int i = lines; i < n && lines > 1; i++)
        if (rows[i] == decided) {
            memmove(rows + lines, rows + lines - 1, (size_t)(i - lines + 1) * sizeof *rows);
            rows[lines - 1] = (int16_t)decided;
        }
    return top;
}
