// The verified tree. One line a chain (a run of nodes with one child each), or one line a node.
#include "ui/panels.h"
#include "base/mem.h"

#include <math.h>
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
    row *rows;
    int n, cap;
    int16_t order[LS_MAX_ROWS]; // nodes, chain after chain
    int n_order;
} tree;

static int children(const ls_step *s, int parent, int16_t *out) {
    int n = 0;
    for (int i = parent + 1; i < s->n_nodes; i++)
        if (s->nodes[i].parent == parent) out[n++] = (int16_t)i;
    return n;
}

static void add_node(tree *t, int node, const char *prefix, const char *below) {
    int16_t kids[LS_MAX_ROWS];
    if (t->n == t->cap) t->rows = ls_realloc(t->rows, (size_t)(t->cap = t->cap * 2 + 64) * sizeof *t->rows);
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
    for (int i = 0; i < n; i++) {
        bool end = i == n - 1;
        char head[160], next[160];
        snprintf(head, sizeof head, "%.120s%s", below, t->ascii ? (end ? "`-" : "+-") : end ? "└─" : "├─");
        snprintf(next, sizeof next, "%.120s%s", below, end ? "  " : t->ascii ? "| " : "│ ");
        add_node(t, kids[i], head, next);
    }
}

static const char *sign(const ls_step *step, const ls_node *n, bool ascii) {
    if (!step->forward) return ascii ? "*" : "●";
    switch (n->state) {
    case LS_NODE_ACCEPTED:
        if (n->parent >= 0 && step->nodes[n->parent].target != n->token) return ascii ? "~" : "≈"; // let stand
        return ascii ? "*" : "●";
    case LS_NODE_REJECTED: return ascii ? "!" : "✗";
    default: return ascii ? "." : "○";
    }
}

static void draw_row(ui_pen *p, const ui_state *s, const tree *t, const row *r) {
    const ls_step *step = t->step;
    p->role = UI_FRAME;
    ui_print(p, "%s", r->prefix);
    const ls_node *broke = NULL; // the rejected node of this chain
    for (int i = 0; i < r->n; i++) {
        const ls_node *n = &step->nodes[t->order[r->at + i]];
        p->role = n->state == LS_NODE_ACCEPTED ? UI_GOOD : n->state == LS_NODE_REJECTED ? UI_BAD : UI_DIM;
        if (n->state == LS_NODE_REJECTED) broke = n;
        ui_print(p, "%s%s", i ? " " : "", sign(step, n, t->ascii));
        if (!ui_draw_token(p, s, n->token)) return;
    }
    const int head = t->order[r->at];
    const ls_node *first = &step->nodes[head];
    const ls_branch *b = ls_branch_of(step, first);
    p->role = UI_DIM;
    if (head == 0) {
        ui_print(p, "  root p");
        ui_draw_prob(p, (double)first->p);
    } else if (b && b->first_node == head) {
        if (b->rank < 0) ui_print(p, "  %s ", ui_branch_letter(step, b));
        else ui_print(p, "  #%d ", b->rank);
        if (b->match_n) ui_draw_match(p, b->match_n, b->match_pos);
    }
    if (broke) {
        ui_print(p, "  p");
        ui_draw_prob(p, (double)broke->p);
        const ls_node *parent = &step->nodes[broke->parent];
        ui_print(p, ", wants ");
        p->role = UI_CORRECTED;
        if (ui_draw_token(p, s, parent->target)) {
            p->role = UI_DIM;
            ui_print(p, " p");
            ui_draw_prob(p, (double)parent->target_p);
        }
    }
}

void ui_panel_tree(ui_panel_view *v) {
    ui_state *s = v->state;
    const ls_step *step = ui_viewed(s);
    if (!step) {
        ui_pen p = ui_pen_at(v->canvas, v->area, 0, UI_DIM);
        ui_print(&p, "the tree that one pass of the model checked");
        return;
    }
    tree t = {.step = step, .full = s->tree_full, .ascii = v->canvas->ascii};
    add_node(&t, 0, "", "");
    int top = ui_scroll_top(&s->scroll[UI_TREE], t.n, v->area.rows);
    for (int i = 0; i < v->area.rows && top + i < t.n; i++) {
        ui_pen p = ui_pen_at(v->canvas, v->area, i, UI_TEXT);
        if (i == v->area.rows - 1 && top + i < t.n - 1) {
            p.role = UI_DIM;
            ui_print(&p, v->canvas->ascii ? "... %d more lines (t: other view)" : "… %d more lines (t: other view)",
                     t.n - top - i);
        } else draw_row(&p, s, &t, &t.rows[top + i]);
    }
    if (!step->forward) snprintf(v->right, UI_RIGHT_BYTES, "the root only: no forward");
    else
        snprintf(v->right, UI_RIGHT_BYTES, "%d node%s, root + %d accepted%s", step->rows, step->rows == 1 ? "" : "s",
                 step->n_path - 1, step->n_nodes < step->rows ? " (the others were not recorded)" : "");
    free(t.rows);
}
