// One draft: its outcome and the reason, the target's probabilities there, its source, and what it attends to.
#include "ui/panels.h"
#include "base/err.h"

#include <math.h>
#include <stdio.h>

enum { LEAST = 3 }; // rows that a heading with lines below it is worth

typedef struct {
    ui_panel_view *v;
    const ls_step *step;
    const ls_node *node;
    int row; // of the tree
} inspected;

static void prob(ui_pen *p, const char *before, double v) {
    if (isnan(v)) ui_print(p, "%s-", before);
    else ui_draw_prob(p, before, v);
}

// Draws the text with as many rows as it needs, and frees it. Users open Inspect to read it, so it is not cut.
static void sentence(inspected *o, ls_buf *text) {
    const ui_rect area = o->v->area;
    const ui_rect rest = {area.row + o->v->line, area.col, area.rows - o->v->line, area.cols};
    o->v->line += ui_draw_wrapped(o->v->canvas, rest, text->n ? text->p : "", UI_TEXT, NULL);
    ls_buf_free(text);
}

static void add_token(const inspected *o, int32_t id, ls_buf *text) {
    ui_token_text(o->v->canvas, o->v->state, id, text);
}

// What became of the draft, behind its token.
static void outcome(const inspected *o, ls_node_state state, ls_buf *text) {
    const ui_state *s = o->v->state;
    const ls_node *n = o->node, *parent = &o->step->tree.nodes[n->parent < 0 ? 0 : n->parent];
    const int32_t own = ls_node_own(parent);
    const bool chosen = parent->target == n->token, reflected = own != parent->target;
    if (o->row == 0)
        ls_buf_str(text, o->step->corrected ? ": the target's choice where a draft was rejected"
                                            : ": the target's choice; the root is always emitted");
    else if (ui_quiz_hides(s)) ls_buf_str(text, ": not yet verified");
    else if (state == LS_NODE_NOT_REACHED)
        ls_buf_str(text, state == n->state ? " not reached: an ancestor was rejected"
                                           : " not reached: the answer ended before it");
    else if (state == LS_NODE_ACCEPTED) {
        ls_buf_str(text, !chosen            ? " accepted (LOSSY); the target chose "
                         : reflected        ? " accepted with the reflection (LOSSY); the target alone chose "
                         : parent->own >= 0 ? " accepted: the target chose the same, also with the reflection"
                                            : " accepted: the target chose the same");
        if (!chosen || reflected) add_token(o, own, text);
    } else {
        ls_buf_str(text, chosen ? " rejected: another branch with the same token went further"
                                : " rejected: the target chose ");
        if (!chosen) add_token(o, parent->target, text);
        if (reflected) {
            ls_buf_str(text, " with the reflection; alone it chose ");
            add_token(o, own, text);
        }
        if (ui_preview(s, o->step) == o->row)
            ls_buf_fmt(text, "; %s would accept it", ls_accept_at(s->view.preview)->name);
    }
}

// The outcome of the draft in one sentence; its token has the colour of the outcome.
static void verdict(inspected *o) {
    const ls_node_state state = ls_step_state(o->step, o->row);
    const int row = o->v->line;
    ls_buf text = {0};
    add_token(o, o->node->token, &text);
    outcome(o, state, &text);
    sentence(o, &text);
    ui_pen p = ui_pen_at(o->v->canvas, o->v->area, row, ui_outcome_role(state));
    ui_draw_token(&p, o->v->state, o->node->token);
}

static void estimates(inspected *o) {
    const ls_node *n = o->node;
    ui_pen p = ui_next_line(o->v, UI_TEXT);
    if (o->row == 0) {
        prob(&p, "probability ", (double)n->p);
        ui_print(&p, " in the last logits%s",
                 o->step->n_top && o->step->top[0].id != n->token ? ": sampled (seeded)" : "");
        const ls_next_next next = ls_step_next_next(o->step);
        if (next.token < 0) return;
        ls_buf text = {0};
        ls_buf_str(&text, "after it the target chose ");
        add_token(o, next.token, &text);
        if (next.rank >= 0) ls_buf_fmt(&text, ": rank %d of the same logits", next.rank);
        else ls_buf_fmt(&text, ": not in their top %d", o->step->n_top);
        ls_buf_str(&text, next.drafted ? ", drafted" : ", not drafted");
        sentence(o, &text);
        return;
    }
    prob(&p, "p estimated ", (double)n->est_p);
    const bool hides = ui_quiz_hides(o->v->state);
    if (hides) ui_print(&p, "; the target's choice is shown after your answer");
    if (!hides && n->draft_p > 0) prob(&p, ", draft model ", (double)n->draft_p);
    if (!hides) prob(&p, ", target ", (double)n->p);
}

// If the path ended here: the reason.
static void reason(inspected *o) {
    const int end = o->step->path[o->step->n_path - 1];
    if (!o->step->miss || (o->row != end && o->node->parent != end)) return;
    ls_buf text = {0};
    ls_buf_str(&text, "why ");
    add_token(o, o->step->tree.nodes[end].target, &text);
    ls_buf_fmt(&text, " was missed: %s", ls_misses[o->step->miss].sentence);
    sentence(o, &text);
}

static bool is_drafted(const ls_step *step, int parent, int32_t token) {
    for (int i = parent + 1; i < step->tree.n; i++)
        if (step->tree.nodes[i].parent == parent && step->tree.nodes[i].token == token) return true;
    return false;
}

typedef struct {
    int32_t id; // -1: none
    double p;
} choice;

static void choices_of(const ls_top_entry *top, float lse, int n, choice *out) {
    for (int i = 0; i < n; i++) out[i] = (choice){top[i].id, ui_prob(top[i].logit, lse)};
}

// A line of a distribution: the token and its probability, cut where the second one begins.
static void token_line(ui_pen *p, const ui_state *s, choice c, int cells) {
    const int beyond = p->col + cells + 1;
    ui_draw_token_in(p, s, c.id, cells);
    prob(ui_pad(ui_as(p, UI_TEXT), beyond), "", c.p);
    ui_print(p, " ");
}

// Where a heading and its lines have no room: the best tokens in one line.
static void short_line(inspected *o, const char *label, const choice *c, int n) {
    ui_pen pen = ui_next_line(o->v, UI_LABEL);
    ui_print(&pen, "%s", label);
    for (int i = 0; i < n && c[i].id >= 0; i++) {
        ui_end_clause(&pen);
        ui_print(ui_as(&pen, c[i].id == o->node->token ? UI_CURSOR : UI_TEXT), " ");
        ui_draw_token(&pen, o->v->state, c[i].id);
        prob(ui_as(&pen, UI_TEXT), "", c[i].p);
    }
    ui_end_clause(&pen);
}

// The top tokens of both models at one place, side by side: a draft is rejected where they differ.
static void both_models(inspected *o, const ls_node *parent, const ls_prediction *prediction, int rows) {
    const ui_state *s = o->v->state;
    const int half = o->v->area.cols / 2, cells = half - 16 > 5 ? half - 16 : 5;
    choice theirs[LS_ROW_TOP], drafts[LS_ROW_TOP];
    choices_of(parent->top, parent->lse, LS_ROW_TOP, theirs);
    for (int i = 0; i < LS_ROW_TOP; i++) drafts[i] = (choice){prediction->id[i], (double)prediction->p[i]};
    if (rows < LEAST) {
        short_line(o, "target:", theirs, LS_ROW_TOP);
        short_line(o, "draft model:", drafts, LS_ROW_TOP);
        return;
    }
    ui_pen p = ui_next_line(o->v, UI_LABEL);
    ui_print(&p, half >= 26 ? "the target's top tokens" : "the target's top");
    ui_print(ui_pad(&p, o->v->area.col + half), "the draft model's");
    if (half >= 34) ui_print(&p, "; entropy %.2f nat", (double)prediction->entropy);
    for (int i = 0; i < LS_ROW_TOP && i < rows - 1 && (theirs[i].id >= 0 || drafts[i].id >= 0); i++)
        for (int which = 0; which < 2; which++) {
            const choice c = which ? drafts[i] : theirs[i];
            if (!which) p = ui_next_line(o->v, UI_TEXT);
            else ui_pad(&p, o->v->area.col + half);
            if (c.id < 0) continue;
            token_line(ui_as(&p, c.id == o->node->token ? UI_CURSOR : UI_TEXT), s, c, cells);
            p.role = UI_DIM;
            if (c.id == parent->target)
                ui_print(ui_as(&p, UI_GOOD), which && half >= 34 ? "the target's choice" : "chosen");
        }
}

// The target's best tokens where this one was drafted.
static void alternatives(inspected *o, int rows) {
    const int parent = o->node->parent;
    const ls_node *above = parent < 0 ? NULL : &o->step->tree.nodes[parent]; // else the last logits
    const ls_top_entry *top = above ? above->top : o->step->top;
    const float lse = above ? above->lse : o->step->top_lse;
    const int32_t chosen = above ? above->target : o->node->token;
    const int most = above ? LS_ROW_TOP : o->step->n_top;
    if (above && above->prediction) {
        both_models(o, above, &o->step->tree.predictions[above->prediction - 1], rows);
        return;
    }
    if (!most || top[0].id < 0 || isnan(lse)) {
        ui_pen none = ui_next_line(o->v, UI_LABEL);
        ui_print(&none, "the recording has no top tokens of the target here");
        return;
    }
    choice c[LS_MAX_TOP];
    choices_of(top, lse, most, c);
    if (rows < LEAST) {
        short_line(o, "target:", c, most < LS_ROW_TOP ? most : LS_ROW_TOP);
        return;
    }
    ui_pen head = ui_next_line(o->v, UI_LABEL);
    ui_print(&head, "the target's top tokens");
    const int bar = o->v->area.cols >= 60 ? 16 : 8, room = o->v->area.cols - 8 - bar - 20;
    for (int i = 0; i < most && i < rows - 1 && c[i].id >= 0; i++) {
        ui_pen p = ui_next_line(o->v, c[i].id == o->node->token ? UI_CURSOR : UI_TEXT);
        token_line(&p, o->v->state, c[i], room > 6 ? room : 6);
        ui_bar(ui_as(&p, UI_BAR), bar, c[i].p);
        ui_print(ui_as(&p, c[i].id == chosen ? UI_GOOD : UI_DIM), "%s%s", c[i].id == chosen ? " chosen" : "",
                 above && is_drafted(o->step, parent, c[i].id) ? " drafted" : "");
    }
}

static void context_text(ui_pen *p, const ui_state *s, int32_t from, int32_t to) {
    for (int32_t i = from; i < to && (size_t)i < s->run.conversation->context.n; i++)
        if (!ui_draw_token(p, s, s->run.conversation->context.p[i])) return;
}

static void origin(inspected *o) {
    enum { AROUND = 12 };
    const ui_state *s = o->v->state;
    const ls_node *n = o->node;
    if (o->row == 0) return;
    if (n->match_pos >= 0) {
        ui_pen p = ui_next_line(o->v, UI_TEXT);
        ui_print(&p, "copied from position %d", n->match_pos);
        if (n->match_n) ui_print(&p, ", after a matching %d-gram", n->match_n);
        p = ui_next_line(o->v, UI_DIM);
        ui_print(&p, "  ");
        context_text(&p, s, n->match_pos > AROUND ? n->match_pos - AROUND : 0, n->match_pos - n->match_n);
        context_text(ui_as(&p, UI_SPAN), s, n->match_pos - n->match_n > 0 ? n->match_pos - n->match_n : 0,
                     n->match_pos);
        context_text(ui_as(&p, UI_CURSOR), s, n->match_pos, n->match_pos + 1);
        context_text(ui_as(&p, UI_DIM), s, n->match_pos + 1, n->match_pos + AROUND);
        return;
    }
    if (n->from == LS_SOURCE_LAST_LOGIT) {
        ui_pen p = ui_next_line(o->v, UI_TEXT);
        ui_print(&p, "guessed: rank %d of the last logits", n->rank);
        return;
    }
    ls_buf text = {0};
    ls_buf_str(&text, ls_sources[n->from].sentence);
    if (n->rank >= 0) ls_buf_fmt(&text, "; in the branch of rank %d", n->rank);
    sentence(o, &text);
}

static void attention(inspected *o) {
    const ui_state *s = o->v->state;
    ui_pen p = ui_next_line(o->v, UI_TEXT);
    ui_print(&p, "position %d attends to %d token%s, %d tree row%s", o->step->context_len + o->node->depth,
             o->step->context_len, ls_plural(o->step->context_len), o->node->depth + 1, ls_plural(o->node->depth + 1));
    if (!s->view.mask) {
        ui_print(ui_as(&p, UI_DIM), " (m: which)");
        return;
    }
    bool seen[LS_MAX_ROWS] = {0};
    for (int i = o->row; i >= 0; i = o->step->tree.nodes[i].parent) seen[i] = true;
    for (int i = 0; i < o->step->tree.n;) {
        p = ui_next_line(o->v, UI_DIM);
        for (int k = 0; k < o->v->area.cols && i < o->step->tree.n; k++, i++) {
            p.role = i == o->row ? UI_CURSOR : seen[i] ? UI_GOOD : UI_DIM;
            p.tag = i + 1;
            ui_print(&p, "%s", seen[i] ? (p.canvas->ascii ? "#" : "■") : p.canvas->ascii ? "." : "·");
        }
    }
}

// Of a mixture: how many routers one line has room for.
static int routers_a_line(const ui_panel_view *v) {
    const ls_run *r = &v->state->run.header;
    enum { PROB = 6 };
    const int cells = snprintf(NULL, 0, "  router %d: expert", r->n_mixtures) +
                      r->n_experts_used * (snprintf(NULL, 0, ", %d", r->n_experts - 1) + PROB);
    return cells < v->area.cols ? v->area.cols / cells : 1;
}

// The experts that a row took, in the order of ls_step; NULL: not known. The turns of a damaged recording may differ in
// their mixtures.
static const ls_route *routes_of(const ui_panel_view *v, const ls_step *step, int row) {
    const ls_run *r = &v->state->run.header;
    const int64_t of_row = (int64_t)r->n_mixtures * r->n_experts_used;
    const bool fits = of_row && step->n_routes % of_row == 0 && step->n_routes <= step->tree.n * of_row;
    return fits && (row + 1) * of_row <= step->n_routes ? step->routes + row * of_row : NULL;
}

// Lines that the best tokens leave to the experts of a mixture.
static int expert_lines(const ui_panel_view *v, const ls_step *step) {
    enum { LARGE = 10, ROUTERS = 4 }; // lines: at least of the panel, at most for routers
    if (!step->experts) return 0;
    if (v->area.rows < LARGE || !routes_of(v, step, 0)) return 1;
    const int per = routers_a_line(v), n = (v->state->run.header.n_mixtures + per - 1) / per;
    return 1 + (n < ROUTERS ? n : ROUTERS);
}

// Of a mixture: the experts that the row took, as far as there is room.
static void experts(inspected *o) {
    const ls_run *r = &o->v->state->run.header;
    const int32_t of_row = r->n_mixtures * r->n_experts_used;
    if (!o->step->experts || (o->row && ui_quiz_hides(o->v->state))) return;
    ui_pen p = ui_next_line(o->v, UI_TEXT);
    ui_print_numbers(&p, "experts: of its {%d}, no other row of this forward took {%d}", of_row, o->node->alone);
    const ls_route *route = routes_of(o->v, o->step, o->row);
    if (!route) {
        p.role = UI_DIM;
        const int known = routes_of(o->v, o->step, 0) ? o->step->n_routes / of_row : 0;
        if (known) ui_clause(&p, "; which: first %d row%s", known, ls_plural(known));
        else ui_clause(&p, "; which: not recorded");
        return;
    }
    const int per = routers_a_line(o->v);
    for (int32_t layer = 0; layer < r->n_mixtures; layer++) {
        if (layer % per == 0) {
            if (o->v->line >= o->v->area.rows) return;
            p = ui_next_line(o->v, UI_LABEL);
        }
        ui_print(ui_as(&p, UI_LABEL), "  router %d:", layer + 1);
        for (int32_t i = 0; i < r->n_experts_used; i++, route++) {
            ui_print(ui_as(&p, UI_TEXT), i ? ", %d" : " expert %d", route->expert);
            ui_draw_prob(ui_as(&p, UI_DIM), " ", (double)route->weight);
        }
    }
}

void ui_panel_inspect(ui_panel_view *v) {
    const ls_step *step = ui_viewed(v->state);
    const int row = ui_inspected(v->state);
    inspected o = {v, step, &step->tree.nodes[row], row};
    verdict(&o);
    estimates(&o);
    reason(&o);
    const int below = (row > 0) + (o.node->match_pos >= 0) + (v->area.rows > 8) +
                      (v->state->view.mask ? 1 + step->tree.n / v->area.cols : 0) + expert_lines(v, step);
    if (!row || !ui_quiz_hides(v->state)) alternatives(&o, v->area.rows - v->line - below);
    origin(&o);
    attention(&o);
    experts(&o);
    if (!row) ui_right(v, "root");
    else if (o.node->rank >= 0) ui_right(v, "row %d, depth %d, branch #%d", row, o.node->depth, o.node->rank);
    else ui_right(v, "row %d, depth %d", row, o.node->depth);
}
