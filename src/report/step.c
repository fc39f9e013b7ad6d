// A step of a report: its verified tree as SVG, and why it gained or lost time.
#include "base/mem.h"
#include "base/utf8.h"
#include "report/markup.h"
#include "report/parts.h"

#include <math.h>
#include <stdlib.h>

// ---- the tree: a column for each depth, a row for each leaf. The label of a rejected node names the target's choice.

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
               ls_sources[n->from].label);
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

// ---- why it gained or lost: compares it with plain decoding and with the usual cost of its rows, and names the
// target's choice

// The median time of the group's forwards with this number of rows; 0: the group has fewer than five.
static double usual_forward_us(const ls_report *r, size_t group, int rows) {
    enum { FEW = 5 };
    size_t n = 0;
    double *list = NULL;
    for (size_t i = 0; i < r->n_turns; i++) {
        const ls_report_turn *t = &r->turns[i];
        for (size_t k = 0; t->group == group && k < t->n_steps; k++) {
            if (t->steps[k].rows + t->steps[k].probes != rows || !t->steps[k].forward) continue;
            list = ls_grown(list, n, sizeof *list);
            list[n++] = (double)t->steps[k].forward_us;
        }
    }
    ls_sort(list, n);
    const double median = n < FEW ? 0 : list[n / 2];
    free(list);
    return median;
}

static void chance(float p, const char *what, ls_buf *out) {
    if (!isnan(p)) ls_buf_fmt(out, "%s%.2f", what, (double)p);
}

static void token(const ls_tokens *t, int32_t id, ls_buf *out) {
    ls_buf_str(out, "“");
    ls_label_token(out, t, id);
    ls_buf_str(out, "”");
}

// Appends the target's choice at the end of the path, and the most likely draft there.
static void where_it_ended(const ls_tokens *t, const ls_step *s, ls_buf *out) {
    const int at = s->path[s->n_path - 1];
    const ls_node *last = &s->tree.nodes[at], *tried = NULL;
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        if (n->parent == at && (!tried || n->est_p > tried->est_p)) tried = n;
    }
    if (last->target < 0) return;
    ls_buf_str(out, " After ");
    token(t, last->token, out);
    ls_buf_str(out, " the target chose ");
    token(t, last->target, out);
    chance(last->target_p, " with p ", out);
    if (!tried) {
        ls_buf_str(out, !ls_step_described(s) ? "." : "; nothing was drafted there.");
        return;
    }
    ls_buf_str(out, "; the draft was ");
    token(t, tried->token, out);
    chance(tried->est_p, ", estimated at ", out);
    chance(tried->p, ", with target p ", out);
    ls_buf_char(out, '.');
}

void ls_report_explain(const ls_report *r, const ls_report_tree *tree, ls_buf *out) {
    const ls_report_turn *t = &r->turns[tree->turn];
    const ls_step *s = tree->step;
    const int rows = ls_step_forwarded(s);
    const double ms = s->t_total_us / 1e3, usual = usual_forward_us(r, t->group, rows);
    if (!isnan(tree->gain_us))
        ls_buf_fmt(out, "%s %.2f ms against plain decoding: %.2f ms for %d token%s; plain decoding takes %.2f ms.",
                   tree->gain_us < 0 ? "Lost" : "Gained", fabs(tree->gain_us) / 1e3, ms, s->n_emitted,
                   ls_plural(s->n_emitted), ls_step_plain_us(s) * ls_plain_forwards(s) / 1e3);
    else ls_buf_fmt(out, "%.2f ms for %d token%s.", ms, s->n_emitted, ls_plural(s->n_emitted));
    if (!s->forward) {
        ls_buf_str(out, " The answer ended with the root, so there was no forward.");
        return;
    }
    if (usual > 0 && s->t_forward_us > 1.5 * usual)
        ls_buf_fmt(out, " The machine was busy: the forward took %.1f times the usual %.2f ms for %d row%s.",
                   s->t_forward_us / usual, usual / 1e3, rows, ls_plural(rows));
    else if (s->plain_us > 0 && s->rows > 1)
        ls_buf_fmt(out, " A step of %d rows took as long as %.1f plain steps.", rows,
                   s->t_total_us / ls_step_plain_us(s));
    if (s->t_draft_us > 0.2 * s->t_total_us)
        ls_buf_fmt(out, " Drafting took %.0f%% of the step.", 100 * s->t_draft_us / s->t_total_us);
    if (s->rows == 1) ls_buf_str(out, " The step had no draft.");
    else ls_buf_fmt(out, " %d of %d drafts were accepted.", ls_step_accepted(s), s->rows - 1);
    int changed;
    const int judged = ls_step_judged(s, &changed);
    if (s->probes)
        ls_buf_fmt(out, " A probe of %d rows checked %d choice%s and changed %d.", s->probes, judged, ls_plural(judged),
                   changed);
    where_it_ended(t->tokens, s, out);
    if (s->miss) ls_buf_fmt(out, " The target's choice was missed: %s.", ls_misses[s->miss].sentence);
}
