// The verified tree. One line a chain (a run of nodes with one child each), or one line a node.
#include "ui/panels.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int at, n;        // its nodes: order[at .. at + n)
    char prefix[160]; // lines to the left
} row;

typedef struct {
    const ls_step *step;
    bool full, ascii;
    int preview;             // row that a lossy rule would accept; -1: none
    bool shown[LS_MAX_ROWS]; // a filter may leave branches out
    row *rows;
    int n;
    int16_t order[LS_MAX_ROWS]; // nodes, chain after chain
    int n_order, cursor;        // cursor: the node that is shown; -1: none
} tree;

static int children(const ls_step *s, int parent, int16_t *out) {
    int n = 0;
    for (int i = parent + 1; i < s->tree.n; i++)
        if (s->tree.nodes[i].parent == parent) out[n++] = (int16_t)i;
    return n;
}

static void add_node(tree *t, int node, const char *prefix, const char *below) {
    int16_t kids[LS_MAX_ROWS];
    t->rows = ls_grown(t->rows, (size_t)t->n, sizeof *t->rows);
    row *r = &t->rows[t->n++];
    *r = (row){.at = t->n_order};
    snprintf(r->prefix, sizeof r->prefix, "%s", prefix);
    t->order[t->n_order++] = (int16_t)node;
    int n = children(t->step, node, kids);
    while (!t->full && n == 1 && node != 0) {
        t->order[t->n_order++] = kids[0];
        n = children(t->step, kids[0], kids);
    }
    r->n = t->n_order - r->at;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (t->shown[kids[i]]) kids[kept++] = kids[i];
    n = kept;
    for (int i = 0; i < n; i++) {
        bool end = i == n - 1;
        char head[160], next[160];
        snprintf(head, sizeof head, "%.120s%s", below, t->ascii ? (end ? "`-" : "+-") : end ? "└─" : "├─");
        snprintf(next, sizeof next, "%.120s%s", below, end ? "  " : t->ascii ? "| " : "│ ");
        add_node(t, kids[i], head, next);
    }
}

static void visit(const ls_step *s, int node, int16_t *order, int *n) {
    int16_t kids[LS_MAX_ROWS];
    order[(*n)++] = (int16_t)node;
    const int m = children(s, node, kids);
    for (int i = 0; i < m; i++) visit(s, kids[i], order, n);
}

void ui_tree_order(const ls_step *step, int16_t *order) {
    int n = 0;
    visit(step, 0, order, &n);
}

static const char *sign(const ls_step *step, int node, bool ascii, bool would) {
    const ls_node *n = &step->tree.nodes[node];
    if (!step->forward) return ascii ? "*" : "●";
    if (would) return ascii ? "~" : "≈";
    switch (ls_step_state(step, node)) {
    case LS_NODE_ACCEPTED:
        if (n->parent >= 0 && ls_node_own(&step->tree.nodes[n->parent]) != n->token)
            return ascii ? "~" : "≈"; // accepted by a lossy rule
        return ascii ? "*" : "●";
    case LS_NODE_REJECTED: return ascii ? "!" : "✗";
    default: return ascii ? "." : "○";
    }
}

static void draw_row(ui_pen *p, const ui_state *s, const tree *t, const row *r) {
    const ls_step *step = t->step;
    ui_print(ui_as(p, UI_FRAME), "%s", r->prefix);
    const ls_node *broke = NULL; // the rejected node of this chain
    for (int i = 0; i < r->n; i++) {
        const int node = t->order[r->at + i];
        const ls_node *n = &step->tree.nodes[node];
        const ls_node_state state = ls_step_state(step, node);
        p->role = ui_outcome_role(state);
        if (state == LS_NODE_REJECTED) broke = n;
        p->tag = node + 1;
        if (i) ui_print(p, " ");
        if (node == t->cursor) p->role = UI_CURSOR;
        ui_print(p, "%s", sign(step, node, t->ascii, node == t->preview));
        if (!ui_draw_token(p, s, n->token)) return;
    }
    p->tag = 0;
    const int head = t->order[r->at];
    const ls_node *first = &step->tree.nodes[head];
    const ls_branch *b = ls_branch_of(step, first);
    p->role = UI_DIM;
    if (head == 0) {
        ui_draw_prob(p, "  root p", (double)first->p);
    } else if (b && b->first_node == head) {
        if (b->rank < 0) ui_print(p, "  %s ", ui_branch_letter(step, b));
        else ui_print(p, "  #%d ", b->rank);
        if (b->match_n) ui_print(p, "%s", ui_match_text(b->match_n, b->match_pos).s);
    }
    int64_t alone = 0;
    for (int i = 0; i < r->n; i++) alone += step->tree.nodes[t->order[r->at + i]].alone;
    if (step->experts && !ui_quiz_hides(s)) ui_print(p, "  +%lld expert%s", (long long)alone, ls_plural(alone));
    if (first->from == LS_SOURCE_DRAFT_MODEL)
        ui_draw_prob(p, b && b->first_node == head ? " draft p" : "  draft p", (double)first->draft_p);
    if (broke) {
        ui_draw_prob(p, "  p", (double)broke->p);
        const ls_node *parent = &step->tree.nodes[broke->parent];
        ui_print(p, ", target ");
        if (ui_draw_token(ui_as(p, UI_CORRECTED), s, parent->target))
            ui_draw_prob(ui_as(p, UI_DIM), " p", (double)parent->target_p);
    }
}

// Moves the accepted chain after the root up to this line, if it is further down.
static void show_accepted(tree *t, int line) {
    for (int i = line + 1; i < t->n; i++)
        if (t->order[t->rows[i].at] == t->step->path[1]) {
            const row accepted = t->rows[i];
            memmove(t->rows + line + 1, t->rows + line, (size_t)(i - line) * sizeof *t->rows);
            t->rows[line] = accepted;
        }
}

void ui_panel_tree(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ls_step *step = ui_viewed(s);
    const bool chosen = s->view.node >= 0 || ui_quiz_hides(s) || s->shown.inspect || s->shown.focus == UI_TREE;
    tree t = {.step = step,
              .full = s->view.tree_full,
              .ascii = v->canvas->ascii,
              .preview = ui_preview(s, step),
              .cursor = chosen ? ui_inspected(s) : -1};
    int *scroll = &v->drawn->scroll[UI_TREE];
    ui_rows_tree(s, step, t.shown);
    add_node(&t, 0, "", "");
    for (int i = 0; i < t.n; i++) // the cursor stays in sight
        for (int k = 0; k < t.rows[i].n && chosen; k++)
            if (t.order[t.rows[i].at + k] == t.cursor) ui_scroll_to(scroll, i, v->area.rows - 1);
    const int top = ui_scroll_top(scroll, t.n, v->area.rows), last = v->area.rows - 2;
    if (!chosen && !top && step->n_path > 1 && last > 0) show_accepted(&t, last);
    for (int i = 0; i < v->area.rows && top + i < t.n; i++) {
        ui_pen p = ui_pen_at(v->canvas, v->area, i, UI_TEXT);
        if (i == v->area.rows - 1 && top + i < t.n - 1) {
            ui_print(ui_as(&p, UI_DIM),
                     v->canvas->ascii ? "... %d more line%s (t: other view)" : "… %d more line%s (t: other view)",
                     t.n - top - i, ls_plural(t.n - top - i));
        } else draw_row(&p, s, &t, &t.rows[top + i]);
    }
    if (ui_quiz_hides(s)) ui_right(v, "%d row%s, not yet verified", step->rows, ls_plural(step->rows));
    else if (!step->forward) ui_right(v, "the root only: no forward");
    else {
        ui_right(v, "%d row%s", step->rows, ls_plural(step->rows));
        if (step->experts) ui_right(v, ", %d expert%s", step->experts, ls_plural(step->experts));
        ui_right(v, ", root + %d accepted%s", ls_step_accepted(step),
                 step->tree.n < step->rows ? " (other rows not recorded)" : "");
        if (step->experts && step->expected_experts > 0) // last: a clause that does not fit is left out
            ui_right(v, "; expected %.0f experts", step->expected_experts);
    }
    ui_rows_title(s, UI_TREE, t.n_order, step->tree.n, v->right);
    free(t.rows);
}
