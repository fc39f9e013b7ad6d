// `inspect TRACE --step N`: one recorded step in words, with its last logits, its drafts and its tree, as plain text.
#include "cli/recorded.h"
#include "ui/panels.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 110, LOGIT_ROWS = 12, MOST_ROWS = 2 + LS_MAX_ROWS };

static void draw(ui_state *s, const char *title, void (*panel)(ui_panel_view *v), int rows, bool ascii, ls_buf *out) {
    char right[UI_RIGHT_BYTES] = "";
    ui_canvas canvas = {.utf8 = !ascii, .ascii = ascii};
    ls_buf text = {0};
    ui_canvas_resize(&canvas, rows, COLS);
    panel(&(ui_panel_view){&canvas, s, {0, 0, rows, COLS}, right});
    ui_canvas_text(&canvas, false, &text);
    while (text.n && text.p[text.n - 1] == '\n') text.n--; // rows that nothing was drawn on
    ls_buf_fmt(out, "\n%s%s%s\n", title, *right ? ": " : "", right);
    ls_buf_add(out, text.p, text.n);
    ls_buf_char(out, '\n');
    ls_buf_free(&text);
    ui_canvas_free(&canvas);
}

static ls_code find_step(const ui_state *s, const ls_command_line *c, size_t *at, ls_err *err) {
    char *end;
    const long step = c->step ? strtol(c->step, &end, 10) : 0;
    if (c->step && (end == c->step || *end || step < 0))
        return ls_fail(err, LS_E_USAGE, "--step is '%.40s', expected a step's number, from 0", c->step);
    const long turn = c->turn ? strtol(c->turn, &end, 10) : 0;
    if (c->turn && (end == c->turn || *end || turn < 0 || (size_t)turn >= s->n_turns))
        return ls_fail(err, LS_E_USAGE, "--turn is '%.40s'; the trace has turns 0 to %zu", c->turn, s->n_turns - 1);
    const size_t first = s->turns[turn].first_step,
                 last = (size_t)turn + 1 < s->n_turns ? s->turns[turn + 1].first_step : s->n_steps;
    if ((size_t)step >= last - first)
        return ls_fail(err, LS_E_USAGE, "--step %ld: turn %ld has steps 0 to %zu", step, turn, last - first - 1);
    *at = first + (size_t)step;
    return LS_OK;
}

int ls_cmd_inspect(const ls_command_line *c) {
    ls_err err = {0};
    ui_state s;
    bool torn = false;
    if (c->n_args != 1) {
        ls_fail(&err, LS_E_USAGE, "'logitspec inspect TRACE --step N' is expected: a file of --trace");
        return ls_report(&err);
    }
    ls_code code = ls_recorded_load(&s, c->args[0], &torn, &err);
    if (!code) code = find_step(&s, c, &s.view, &err);
    int status = LS_EXIT_OK;
    if (code) status = ls_report(&err);
    else {
        const bool ascii = c->options.ascii || strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
        const ui_canvas canvas = {.utf8 = !ascii, .ascii = ascii};
        const ls_step *step = s.steps[s.view];
        ls_buf out = {0};
        s.live = false;
        s.tree_full = true;
        if (torn) fprintf(stderr, "logitspec: the last line of the trace was cut short and is left out\n");
        ui_narrate(&canvas, &s, step, &out);
        ls_buf_fmt(&out,
                   "\nturn %u, context %d tokens, method %s, budget %d rows; %.3f ms (draft %.3f, forward %.3f)\n",
                   step->turn, step->context_len, s.header.method, step->budget, step->t_total_us / 1e3,
                   step->t_draft_us / 1e3, step->t_forward_us / 1e3);
        draw(&s, "Last logits", ui_panel_logits, LOGIT_ROWS, ascii, &out);
        draw(&s, "Drafts", ui_panel_drafts, step->n_branches + 2, ascii, &out);
        draw(&s, "Tree", ui_panel_tree, MOST_ROWS, ascii, &out);
        if (!ls_print(&out)) status = LS_EXIT_FAILED;
    }
    ui_state_free(&s);
    return status;
}
