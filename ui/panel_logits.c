// The last logits: the target's top tokens, the branches that begin with them, and the outcome of each.
#include "ui/panels.h"

#include <stdio.h>

// tried: the branch was verified, and no quiz hides it.
static void draw_draft(ui_pen *p, const ls_step *step, int rank, bool is_root, bool tried) {
    const bool ascii = p->canvas->ascii;
    const ls_branch *b = ui_branch_of_rank(step, is_root ? -1 : rank);
    if (is_root) {
        ui_print(ui_as(p, UI_ROOT), "root");
        if (!b) return;
        ui_print(p, " ");
    } else if (!b) {
        ui_print(ui_as(p, UI_DIM), "-");
        return;
    }
    const bool accepted = ls_step_branch_accepted(step, b) > 0;
    ui_print(ui_as(p, accepted ? UI_GOOD : UI_DIM), "%s ",
             accepted ? (ascii ? "*" : "●")
             : tried  ? (ascii ? "o" : "○")
                      : " ");
    ui_print(p, "%s +%d", ui_match_text(b->match_n, b->match_pos).s, b->n_nodes);
}

void ui_panel_logits(ui_panel_view *v) {
    const ls_step *step = ui_viewed(v->state);
    const int rows = v->area.rows - 1, bar = v->area.cols >= 50 ? 12 : v->area.cols >= 40 ? 6 : 0;
    const int draft = v->area.cols >= 40 ? 17 : 15;
    const int token_cells = v->area.cols - 4 - 6 - (bar ? bar + 1 : 0) - draft;
    int16_t order[LS_MAX_ROWS];
    const int n = ui_rows_of(v->state, step, UI_LOGITS, order);
    const ls_next_next next = ls_step_next_next(step);
    const int top = ui_rows_top(v, UI_LOGITS, order, n, rows, next.rank);
    ui_pen head = ui_pen_at(v->canvas, v->area, 0, UI_LABEL);
    ui_print(&head, " rk token");
    ui_print(ui_pad(&head, v->area.col + 4 + token_cells), "    p");
    ui_print(ui_pad(&head, v->area.col + v->area.cols - draft), "draft n@pos +m");
    for (int i = 0; i < rows && top + i < n; i++) {
        int rank = order[top + i];
        const ls_top_entry *e = &step->top[rank];
        bool is_root = e->id == step->tree.nodes[0].token;
        double prob = ui_prob(e->logit, step->top_lse);
        ui_pen p = ui_pen_at(v->canvas, v->area, 1 + i, rank == next.rank ? UI_GOOD : UI_DIM);
        p.tag = rank + 1;
        ui_print(&p, "%3d%s", rank, rank != next.rank ? " " : p.canvas->ascii ? ">" : "▸");
        p.role = rank == v->state->list[UI_LOGITS].found ? UI_CURSOR : is_root ? UI_NUMBER : UI_TEXT;
        ui_draw_token_in(&p, v->state, e->id, token_cells - 1);
        ui_draw_prob(ui_as(ui_pad(&p, v->area.col + 4 + token_cells), UI_TEXT), "", prob);
        ui_print(&p, " ");
        if (bar) {
            ui_bar(ui_as(&p, UI_BAR), bar, prob);
            ui_print(&p, " ");
        }
        draw_draft(&p, step, rank, is_root, step->forward && !ui_quiz_hides(v->state));
    }
    char after[40] = "", of[48];
    const bool narrow = v->area.cols < 38; // the title has no room for more than the rank
    if (next.rank >= 0)
        snprintf(after, sizeof after, "next-next: #%d%s", next.rank, next.drafted && !narrow ? ", drafted" : "");
    else if (next.token >= 0 && narrow) snprintf(after, sizeof after, "next-next: >63");
    else if (next.token >= 0) snprintf(after, sizeof after, "next-next: not in the top %d", step->n_top);
    snprintf(of, sizeof of, "top %d, entropy %.2f nat", step->n_top, (double)step->top_entropy);
    const bool both = *after && v->area.cols >= 64;
    if (!step->n_top) ui_right(v, "not recorded");
    else ui_right(v, "%s%s%s", after, both ? "; " : "", both || !*after ? of : "");
    ui_rows_title(v->state, UI_LOGITS, n, step->n_top, v->right);
}
