// `inspect TRACE --step LIST`: recorded steps in words, with their last logits, drafts and trees, as plain text.
#include "base/err.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "trace/trace_events.h"
#include "ui/panels.h"
#include "ui/term_curses.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_COLS = 110, LOGIT_ROWS = 12, MOST_ROWS = 2 + LS_MAX_ROWS };

static void draw(ui_state *s, const char *title, void (*panel)(ui_panel_view *v), int rows, bool ascii, ls_buf *out) {
    char right[UI_RIGHT_BYTES] = "";
    ui_canvas canvas = {.utf8 = !ascii, .ascii = ascii};
    ls_buf text = {0};
    const int columns = ls_columns(STDOUT_FILENO), cols = columns ? columns : FILE_COLS;
    const size_t from = out->n;
    ui_canvas_resize(&canvas, rows, cols);
    panel(&(ui_panel_view){&canvas, s, &s->drawn, {0, 0, rows, cols}, right, 0});
    ui_canvas_text(&canvas, false, &text);
    while (text.n && text.p[text.n - 1] == '\n') text.n--; // empty rows at the end
    ls_buf_fmt(out, "\n%s%s%s\n", title, *right ? ": " : "", right);
    ls_wrap(out, from, columns, 2);
    ls_buf_add(out, text.p, text.n);
    ls_buf_char(out, '\n');
    ls_buf_free(&text);
    ui_canvas_free(&canvas);
}

// For each judged row: the choice of the target, and its choice with the reflection (decode/choose.h).
static void list_judged(const ui_canvas *c, const ui_state *s, const ls_step *step, ls_buf *out) {
    int changed;
    if (!ls_step_judged(step, &changed)) return;
    ls_buf_str(out, "\nJudged\n");
    for (int i = 0; i < step->tree.n; i++) {
        const ls_node *n = &step->tree.nodes[i];
        if (n->own < 0) continue;
        ls_buf_fmt(out, " row %d: after ", i);
        ui_quote_token(c, s, n->token, out);
        ls_buf_str(out, " the target chose ");
        ui_quote_token(c, s, n->own, out);
        if (n->own == n->target) ls_buf_str(out, "; the reflection did not change it");
        else {
            ls_buf_str(out, ", with the reflection ");
            ui_quote_token(c, s, n->target, out);
        }
        ls_buf_char(out, '\n');
    }
}

static void describe(ui_state *s, bool ascii, ls_buf *out) {
    const ui_canvas canvas = {.utf8 = !ascii, .ascii = ascii};
    const ls_step *step = s->run.steps[s->view.step];
    const size_t from = out->n;
    s->view.tree_full = true;
    ui_narrate(&canvas, s, step, out);
    ls_buf_char(out, '\n');
    ls_sanitize_fmt(out, "turn %u, context %d tokens, method %s, at most %d rows; %.3f ms (draft %.3f, forward %.3f",
                    step->turn + 1, step->context_len, s->run.header.method, step->asked_rows, step->t_total_us / 1e3,
                    step->t_draft_us / 1e3, step->t_forward_us / 1e3);
    if (step->probes) ls_buf_fmt(out, " of %d rows, %d of them for the probe", ls_step_forwarded(step), step->probes);
    if (step->draft_forwards)
        ls_sanitize_fmt(out, ", %d forward%s of the draft model %.3f: %s", step->draft_forwards,
                        ls_plural(step->draft_forwards), step->t_draft_forward_us / 1e3, s->run.header.draft_model);
    if (step->ahead_forwards)
        ls_sanitize_fmt(out, "; at the same time %d forward%s of %s, waited for %.3f", step->ahead_forwards,
                        ls_plural(step->ahead_forwards), s->run.header.draft_model, step->t_wait_us / 1e3);
    if (step->t_comm_us > 0) ls_buf_fmt(out, ", %.3f of that for exchanges with other ranks", step->t_comm_us / 1e3);
    if (step->t_device_us > 0) ls_buf_fmt(out, ", %.3f of that on the GPU", step->t_device_us / 1e3);
    ls_buf_str(out, ")\n");
    list_judged(&canvas, s, step, out);
    ls_wrap(out, from, ls_columns(STDOUT_FILENO), 2);
    draw(s, "Last logits", ui_panel_logits, LOGIT_ROWS, ascii, out);
    draw(s, "Drafts", ui_panel_drafts, step->tree.n_branches + 2, ascii, out);
    draw(s, "Tree", ui_panel_tree, MOST_ROWS, ascii, out);
}

static ls_code show(ls_trace_index *x, size_t turn, size_t step, bool ascii, ls_buf *out, ls_err *err) {
    enum { BEFORE = 8 }; // steps before it, which have the tokens of a matched n-gram
    ls_trace_events *t;
    ls_event *e;
    ui_state s;
    ls_code code = ls_trace_index_events(x, turn, step, BEFORE, &t, err);
    if (code) return code;
    ui_state_init(&s);
    while (!(code = ls_trace_events_next(t, &e, err)) && e) ui_on_event(&s, e);
    s.view.at_newest = false;
    s.view.step = s.run.n_steps - 1;
    if (!code) describe(&s, ascii, out);
    ui_state_free(&s);
    ls_trace_events_close(t);
    return code;
}

// The number of the step at a place of its turn. It is another one if lines before it are missing.
static ls_code number_at(ls_trace_index *x, size_t turn, size_t at, size_t *number, ls_err *err) {
    ls_trace_events *t;
    ls_event *e;
    ls_code code = ls_trace_index_events(x, turn, at, 0, &t, err);
    if (code) return code;
    for (; !(code = ls_trace_events_next(t, &e, err)) && e; ls_event_free(e))
        if (e->kind == LS_EV_STEP) *number = e->step->index;
    ls_trace_events_close(t);
    return code;
}

// The place of the step with that number among the n steps of a turn, whose numbers rise.
static ls_code place_of(ls_trace_index *x, size_t turn, size_t n, size_t number, size_t *at, ls_err *err) {
    size_t found = 0;
    for (size_t least = 0, end = n; least < end;) {
        *at = least + (end - least) / 2;
        const ls_code code = number_at(x, turn, *at, &found, err);
        if (code) return code;
        if (found == number) return LS_OK;
        if (found < number) least = *at + 1;
        else end = *at;
    }
    return ls_fail(err, LS_E_USAGE, "--step %zu: the line of this step is missing", number);
}

static ls_code show_all(const ls_command_line *c, size_t turn, ls_buf *out, ls_err *err) {
    const bool ascii = c->options.ascii || !ui_term_is_utf8();
    ls_trace_index *x = NULL;
    size_t last = 0, first_number = 0, last_number = 0, from, to, at;
    for (const char *list = c->step; list && ls_steps_next(&list, &from, &to);) last = to > last ? to : last;
    // without a list the whole turn is read, as the note below has its length
    ls_code code = ls_trace_index_open(&x, c->args[0], turn, c->step ? last : SIZE_MAX, err);
    if (code) return code;
    const size_t turns = ls_trace_index_turns(x), n = turn < turns ? ls_trace_index_steps(x, turn) : 0;
    if (turn >= turns)
        code = ls_fail(err, LS_E_USAGE, "--turn is '%.40s'; the trace has turns 1 to %zu", c->turn, turns);
    else if (!n) code = ls_fail(err, LS_E_RANGE, "%s: the turn has no steps", c->args[0]);
    else if (!(code = number_at(x, turn, 0, &first_number, err))) code = number_at(x, turn, n - 1, &last_number, err);
    if (!code && c->step) // checks the list again: the steps of the turn are known only now
        code = ls_steps_check(c->step, first_number, n > last ? SIZE_MAX : last_number, err);
    else if (!code) code = show(x, turn, 0, ascii, out, err);
    for (const char *list = c->step; list && !code && ls_steps_next(&list, &from, &to);)
        for (size_t step = from; step <= to && !code; step++) {
            if (out->n) ls_buf_str(out, "\n\n");
            code = place_of(x, turn, n, step, &at, err);
            if (!code) code = show(x, turn, at, ascii, out, err);
        }
    if (!code && !c->step && n > 1)
        ls_say(0, "step %zu of turn %zu, which has steps %zu to %zu: --step LIST and --turn N show others",
               first_number, turn + 1, first_number, last_number);
    ls_trace_index_close(x);
    return code;
}

ls_code ls_cmd_inspect(const ls_command_line *c, ls_console *to, ls_err *err) {
    char *end = "";
    const size_t turn = c->turn ? strtoul(c->turn, &end, 10) - 1 : 0; // users count from 1
    if (c->n_args != 1)
        return ls_fail(err, LS_E_USAGE, "usage: logitspec inspect TRACE [--step LIST] (a file of --trace)");
    if (*end || (c->turn && !isdigit((unsigned char)*c->turn)))
        return ls_fail(err, LS_E_USAGE, "--turn is '%.40s', expected a number, 1 or more", c->turn);
    ls_gauge_reads();
    const ls_code code = c->step ? ls_steps_check(c->step, 0, SIZE_MAX, err) : LS_OK;
    return code ? code : show_all(c, turn, &to->out, err);
}
