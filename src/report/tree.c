// A verified tree as SVG: a column for each depth, a row for each leaf. The label of a rejected node names the target's
// choice.
#include "base/mem.h"
#include "base/utf8.h"
#include "report/markup.h"
#include "report/plots.h"

#include <math.h>
#include <stdlib.h>

enum { LINE = 20, COLUMN = 130, MARGIN = 8, LABEL = 13 };

typedef struct {
    const ls_step *step;
    const ls_tokens *tokens;
    double y[LS_MAX_ROWS];
    int leaves, deepest;
} layout;

// Siblings are placed in the order of their rows; a parent is level with its first child.
static void place(layout *l) {
    const ls_step *s = l->step;
    bool placed[LS_MAX_ROWS] = {0};
    int stack[LS_MAX_ROWS], n = 0;
    stack[n++] = 0;
    while (n) {
        const int at = stack[--n];
        bool leaf = true;
        for (int i = s->tree.n - 1; i > at; i--)
            if (s->tree.nodes[i].parent == at) stack[n++] = i, leaf = false;
        if (s->tree.nodes[at].depth > l->deepest) l->deepest = s->tree.nodes[at].depth;
        if (!leaf) continue;
        for (int i = at; i >= 0 && !placed[i]; i = s->tree.nodes[i].parent) placed[i] = true, l->y[i] = l->leaves;
        l->leaves++;
    }
}

static void label_of(const layout *l, int32_t id, ls_buf *out) {
    ls_buf whole = {0};
    ls_label_token(&whole, l->tokens, id);
    int cells;
    const size_t n = ls_fitting(whole.p, whole.n, LABEL, &cells);
    ls_markup(out, whole.p, n);
    if (n < whole.n) ls_buf_str(out, "…");
    ls_buf_free(&whole);
}

static void describe(const layout *l, int row, ls_buf *out) {
    const ls_node *n = &l->step->tree.nodes[row];
    ls_buf t = {0};
    ls_label_token(&t, l->tokens, n->token);
    ls_buf_fmt(&t, " (id %d): %s, %s", n->token, ls_node_state_name(ls_step_state(l->step, row)),
               ls_draft_source_label(n->from));
    if (n->depth && n->rank >= 0) ls_buf_fmt(&t, ", rank %d of the last logits", n->rank);
    if (n->match_n) ls_buf_fmt(&t, ", %d-gram", n->match_n);
    if (n->match_pos >= 0) ls_buf_fmt(&t, " at %d", n->match_pos);
    if (!isnan(n->est_p)) ls_buf_fmt(&t, "; estimated %.3f", (double)n->est_p);
    if (!isnan(n->p)) ls_buf_fmt(&t, ", target p %.3f", (double)n->p);
    if (n->target >= 0) {
        ls_buf_str(&t, "; then the target chose ");
        ls_label_token(&t, l->tokens, n->target);
        if (!isnan(n->target_p)) ls_buf_fmt(&t, " with p %.3f", (double)n->target_p);
        if (ls_node_own(n) != n->target) {
            ls_buf_str(&t, " after a reflection; alone it chose ");
            ls_label_token(&t, l->tokens, n->own);
        }
    }
    ls_markup(out, t.p, t.n);
    ls_buf_free(&t);
}

static void draw_node(const layout *l, int i, ls_buf *out) {
    static const char *const fills[] = {"var(--good)", "var(--bad)", "#999999"};
    static const char *const signs[] = {"●", "✗", "○"};
    const ls_step *s = l->step;
    const ls_node *n = &s->tree.nodes[i];
    const int state = i && !s->forward ? LS_NODE_NOT_REACHED : ls_step_state(s, i);
    const double x = MARGIN + COLUMN * n->depth, y = MARGIN + LINE * (l->y[i] + 0.5);
    if (i) {
        const double px = MARGIN + COLUMN * s->tree.nodes[n->parent].depth + COLUMN - 18,
                     py = MARGIN + LINE * (l->y[n->parent] + 0.5);
        ls_buf_fmt(out,
                   "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" style=\"stroke:%s\" "
                   "stroke-width=\"%s\"/>\n",
                   px, py, px + 12, py, x - 12, y, x, y, fills[state], state == LS_NODE_ACCEPTED ? "2.5" : "1");
    }
    ls_buf_fmt(out, "<g data-row=\"%d\" data-parent=\"%d\" data-token=\"%d\" data-state=\"%s\"><title>", i, n->parent,
               n->token, ls_node_state_name((ls_node_state)state));
    describe(l, i, out);
    ls_buf_fmt(out,
               "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"16\" rx=\"3\" style=\"fill:%s;stroke:%s\" "
               "fill-opacity=\"%s\"/><text x=\"%.1f\" y=\"%.1f\"%s>%s ",
               x, y - 8, COLUMN - 18, fills[state], fills[state], state == LS_NODE_ACCEPTED ? ".25" : ".08", x + 4,
               y + 4, state == LS_NODE_ACCEPTED ? " font-weight=\"bold\"" : "", signs[state]);
    label_of(l, n->token, out);
    ls_buf_str(out, "</text></g>\n");
}

void ls_tree_draw(const ls_report *r, const ls_report_tree *tree, ls_buf *out) {
    const ls_step *s = tree->step;
    layout *l = ls_calloc(1, sizeof *l);
    l->step = s;
    l->tokens = r->turns[tree->turn].tokens;
    place(l);
    const ls_node *last = &s->tree.nodes[s->path[s->n_path - 1]];
    const int w = 2 * MARGIN + COLUMN * (l->deepest + 2), h = 2 * MARGIN + LINE * l->leaves;
    ls_buf_fmt(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tree\" data-turn=\"%zu\" data-step=\"%u\" role=\"img\" "
        "width=\"%d\" "
        "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"monospace\" font-size=\"11\" "
        "fill=\"currentColor\">\n<title>",
        tree->turn, s->index, w, h, w, h);
    ls_markup_fmt(out, "Draft tree of step %u in turn %zu of %zu (%s): %d rows, %d accepted", s->index, tree->turn + 1,
                  r->n_turns, r->turns[tree->turn].file, s->rows, ls_step_accepted(s));
    ls_buf_str(out, "</title>\n");
    for (int i = 0; i < s->tree.n; i++) draw_node(l, i, out);
    if (last->target >= 0 && s->forward) { // what comes next
        const double x = MARGIN + COLUMN * (last->depth + 1), y = MARGIN + LINE * (l->y[s->path[s->n_path - 1]] + 0.5);
        bool free_place = true;
        for (int i = 0; i < s->tree.n; i++) free_place &= s->tree.nodes[i].parent != s->path[s->n_path - 1];
        if (free_place) {
            ls_buf_fmt(out, "<text x=\"%.1f\" y=\"%.1f\" style=\"fill:var(--soft)\">→ ", x, y + 4);
            label_of(l, last->target, out);
            ls_buf_str(out, "</text>\n");
        }
    }
    ls_buf_str(out, "</svg>\n");
    free(l);
}
