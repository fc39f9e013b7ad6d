#include "ui/what_if.h"
#include "base/mem.h"
#include "ui/navigate.h"
#include "ui/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The viewed step if a what-if can begin there; else NULL, and a message with the reason.
static const ls_step *place(ui_state *s) {
    const ls_step *step = ui_viewed(s);
    const char *why = s->recording                                       ? "this is a recording: what-if needs a model"
                      : ui_busy(s) || s->run_state == LS_STATE_COMPARING ? "wait for the answer to finish, then press x"
                      : !step                                            ? "no answer to branch from yet"
                      : ui_turn_of(s, ui_viewed_index(s)) != &s->turns[s->n_turns - 1]
                          ? "what-if continues the last answer only (E edits an earlier prompt)"
                          : NULL;
    if (why) ui_say(s, why, false);
    return why ? NULL : step;
}

// text: follows the ids; NULL: none.
static void ask(ui_state *s, const ls_step *step, const int32_t *ids, int32_t n, const char *text) {
    ls_buf request = {0};
    for (int32_t i = 0; i < n; i++) ls_buf_fmt(&request, "%d ", ids[i]);
    if (text) ls_buf_fmt(&request, "\n%s", text);
    ui_request_of(s, LS_CMD_FORK, request.p, step->output_pos);
    ui_open(s, UI_COMPARE, true);
}

// The row under the cursor; without a cursor the last one whose token was emitted.
static int chosen_row(const ui_state *s, const ls_step *step) {
    const bool cursor = s->node >= 0 || s->shown.inspect || s->shown.focus == UI_TREE;
    return cursor ? ui_inspected(s) : step->path[step->n_emitted - 1];
}

void ui_what_if(ui_state *s) {
    int32_t ids[LS_MAX_ROWS];
    const ls_step *step = place(s);
    if (!step) return;
    const int row = chosen_row(s, step), other = s->shown.focus == UI_LOGITS ? s->found[UI_LOGITS] : -1;
    if (other >= 0 && other < step->n_top) ask(s, step, &step->top[other].id, 1, NULL);
    else if (row && step->tree.nodes[row].state != LS_NODE_ACCEPTED)
        ask(s, step, ids, ls_tree_tokens(&step->tree, row, ids), NULL);
    else ui_type_line(s, ':', "what-if ");
}

void ui_what_if_text(ui_state *s, const char *text) {
    int32_t ids[LS_MAX_ROWS];
    const ls_step *step = place(s);
    if (!step) return;
    if (*text) ask(s, step, ids, ls_tree_tokens(&step->tree, chosen_row(s, step), ids), text);
    else ui_say(s, "what-if TEXT: the model continues after TEXT (start a new word with a space)", false);
}

static bool can_keep(const ui_rival *r, size_t n_turns) {
    return r->known && r->forks && r->turn + 1 == n_turns;
}

void ui_keep(ui_state *s) {
    const ui_rival *r = &s->rival;
    if (!can_keep(r, s->n_turns)) ui_say(s, "no what-if to keep: press x on a draft to make one", false);
    else if (!r->done) ui_say(s, "the what-if is still running: press K when it has finished, or ^X to stop it", false);
    else ui_request_of(s, LS_CMD_KEEP, ls_strdup(s->turns[r->turn].text), (int)r->turn);
}

// ---- drawing

static void add_tokens(const ui_state *s, const int32_t *ids, size_t n, ls_buf *out) {
    for (size_t i = 0; i < n; i++) {
        const ls_token *t = ls_token_of(&s->tokens, ids[i]);
        if (!t->special) ls_buf_add(out, t->bytes, (size_t)t->n);
    }
}

void ui_draw_fork(ui_panel_view *v) {
    enum { BEFORE = 12 };
    const ui_state *s = v->state;
    const ui_rival *r = &s->rival;
    const ui_turn *t = &s->turns[r->turn];
    const int32_t answer = t->first_id + t->n_ids, end = answer + r->at,
                  from = end - BEFORE > answer - t->n_begun ? end - BEFORE : answer - t->n_begun;
    ls_buf text = {0};
    size_t n_lines;
    if ((size_t)end <= s->context.n) add_tokens(s, s->context.p + from, (size_t)(end - from), &text);
    const size_t chosen = text.n;
    add_tokens(s, r->begun.p, r->begun.n, &text);
    const size_t written = text.n;
    add_tokens(s, r->text.p, r->text.n, &text);
    ui_line *lines = ui_wrap(v->canvas, text.n ? text.p : "", text.n, v->area.cols, &n_lines);
    const size_t rows = (size_t)(v->area.rows > 1 ? v->area.rows - 1 : 1), top = n_lines > rows ? n_lines - rows : 0;
    for (size_t i = top; i < n_lines; i++) {
        ui_pen p = ui_pen_at(v->canvas, v->area, (int)(i - top), UI_DIM);
        for (size_t at = lines[i].from; at < lines[i].to;) {
            const ui_glyph g = ui_next_glyph(v->canvas, text.p + at, lines[i].to - at);
            p.role = at < chosen ? UI_DIM : at < written ? UI_CURSOR : UI_TEXT;
            ui_draw(&p, text.p + at, g.n);
            at += g.n;
        }
    }
    ui_pen p = ui_pen_at(v->canvas, v->area, v->area.rows - 1, UI_LABEL);
    ui_print(&p, "%zu token%s in %zu step%s", r->text.n, ls_plural(r->text.n), r->n_steps, ls_plural(r->n_steps));
    if (r->done) ui_print(&p, ", %s", r->finish ? ls_finish_name(r->finish) : "ended");
    if (r->done && can_keep(r, s->n_turns)) ui_print(&p, "; K: keep it");
    snprintf(v->right, UI_RIGHT_BYTES, "what if%s", r->done ? "" : ", running");
    free(lines);
    ls_buf_free(&text);
}
