// The branches under the root: source, matched n-gram and outcome of each.
#include "ui/panels.h"

#include <string.h>

// Draws the nodes of a branch in the colours of their outcome, the accepted path first. A bar marks a node that is not
// the child of the node drawn before it.
static void draw_tokens(ui_pen *p, const ui_state *s, const ls_step *step, const ls_branch *b) {
    const char *letter =
        ui_branch_letter(step, b); // a token from another source has the letter of that source after it
    int before = -1;
    for (int round = 0; round < 2; round++)
        for (int i = b->first_node; i < b->first_node + b->n_nodes; i++) {
            const ls_node *n = &step->tree.nodes[i];
            const ls_node_state state = ls_step_state(step, i);
            if ((state == LS_NODE_ACCEPTED) == (round == 1)) continue;
            p->role = UI_FRAME;
            if (before >= 0 && n->parent != before) ui_print(p, p->canvas->ascii ? "| " : "│ ");
            before = i;
            p->role = ui_outcome_role(state);
            const char *sign = state == LS_NODE_REJECTED ? (p->canvas->ascii ? "!" : "✗") : "";
            ui_print(p, "%s", sign);
            if (!ui_draw_token(p, s, n->token)) return;
            p->role = UI_DIM;
            ui_print(p, strcmp(letter, ls_sources[n->from].letter) ? "(%s) " : " ", ls_sources[n->from].letter);
        }
}

static void draw_ngram(ui_pen *p, const ui_state *s, const ls_step *step, const ls_branch *b) {
    int32_t ids[UI_NGRAM];
    const int n = ui_ngram(s, step, b, ids);
    for (int i = 0; i < n; i++) {
        if (!ui_draw_token(p, s, ids[i])) return;
        ui_print(p, i + 1 < n ? " " : "");
    }
}

// Why a step has no row for a draft. A recording does not have the setting.
static const char *one_row(const ui_state *s) {
    const ui_setting *max_rows = ui_setting_of(&s->setup, "decode.max_rows");
    if (s->given.recording || !max_rows) return "no draft: none was worth its cost, or a tree may have 1 row only";
    return strcmp(ui_setting_now(max_rows), "1") ? "no draft: none is worth its cost here"
                                                 : "no draft: decode.max_rows is 1";
}

void ui_panel_drafts(ui_panel_view *v) {
    const ui_state *s = v->state;
    const ls_step *step = ui_viewed(s);
    const ui_turn *turn = ui_viewed_turn(s);
    const int rows = v->area.rows - 1, ngram = v->area.cols >= 100 ? 24 : v->area.cols >= 70 ? 16 : 0;
    const int at_ngram = v->area.col + 19, at_len = at_ngram + (ngram ? ngram + 1 : 0), at_tokens = at_len + 14;
    ui_pen head = ui_pen_at(v->canvas, v->area, 0, UI_LABEL);
    ui_print(&head, " rk  source");
    if (ngram) ui_print(ui_pad(&head, at_ngram), "matched n-gram");
    ui_print(ui_pad(&head, at_len), "len cut acc");
    ui_print(ui_pad(&head, at_tokens), "tokens");
    int16_t order[LS_MAX_ROWS];
    const int n = ui_rows_of(s, step, UI_DRAFTS, order);
    const int decided = step->n_path > 1 ? step->tree.nodes[step->path[1]].branch : -1;
    const int top = ui_rows_top(v, UI_DRAFTS, order, n, rows, decided);
    for (int i = 0; i < rows && top + i < n; i++) {
        const int row = order[top + i];
        const ls_branch *b = &step->tree.branches[row];
        const ls_node *first = &step->tree.nodes[b->first_node];
        ui_pen p = ui_pen_at(v->canvas, v->area, 1 + i, row == s->list[UI_DRAFTS].found ? UI_CURSOR : UI_TEXT);
        int end = p.end;
        p.tag = row + 1;
        if (b->rank < 0) ui_print(&p, "  %s  ", ui_branch_letter(step, b));
        else ui_print(&p, "%3d  ", b->rank);
        p.role = UI_DIM;
        // the matched n-gram ends before match_pos: before this turn's output it was part of a prompt
        if (!b->match_n || b->match_pos < 0) ui_print(&p, "%s", ls_sources[first->from].label);
        else
            ui_print(&p,
                     turn && (size_t)b->match_pos >= ls_turn_output_at(ui_said(&s->run, turn)) ? "output" : "prompt");
        if (b->match_n) ui_print(&p, " %s", ui_match_text(b->match_n, b->match_pos).s);
        p.end = at_len - 1;
        ui_pad(&p, at_ngram);
        if (ngram && b->match_n) draw_ngram(&p, s, step, b);
        else if (ngram && first->draft_p > 0) ui_draw_prob(&p, "its p", (double)first->draft_p);
        p.end = end;
        ui_print(ui_as(ui_pad(&p, at_len), UI_TEXT), "%3d ", b->n_nodes);
        p.role = UI_DIM; // found behind its first token, but not drafted
        const int found = b->found + (b->rank >= 0), cut = found > b->n_nodes ? found - b->n_nodes : 0;
        ui_print(&p, cut ? "%3d " : "  - ", cut);
        const int accepted = ls_step_branch_accepted(step, b);
        ui_print(ui_as(&p, accepted ? UI_GOOD : UI_DIM), "%3d", accepted);
        draw_tokens(ui_pad(&p, at_tokens), s, step, b);
    }
    if (!step->tree.n_branches) {
        v->line = 1;
        ui_dim_line(v, step->rows > 1          ? "the recording has accepted drafts only (trace level steps)"
                       : !step->forward        ? "no draft: the answer ends with this token"
                       : step->asked_rows <= 1 ? one_row(s)
                                               : "no draft: no candidate found");
    }
    ui_right(v, "%d branch%s, %d drafted", step->tree.n_branches, step->tree.n_branches == 1 ? "" : "es",
             step->rows - 1);
    if (!ui_quiz_hides(s)) ui_right(v, ", %d accepted", ls_step_accepted(step));
    ui_rows_title(s, UI_DRAFTS, n, step->tree.n_branches, v->right);
}
