#include "ui/render.h"
#include "ui/demo.h"
#include "ui/modes.h"
#include "ui/quiz.h"
#include "ui/welcome.h"
#include "ui/words.h"

#include <stdio.h>
#include <string.h>

static const char *state_name(const ui_state *s) {
    switch (s->run_state) {
    case LS_STATE_LOADING: return "LOADING";
    case LS_STATE_IDLE: return s->recording ? "ENDED" : s->starts_paused ? "READY, starts paused" : "READY";
    case LS_STATE_PREFILL: return "READING";
    case LS_STATE_RUNNING: return "RUN";
    case LS_STATE_PAUSED: return ui_demo_plays(s) ? "PLAYING" : ui_demo_note(s) ? "LOOK" : "PAUSED";
    case LS_STATE_COMPARING: return "COMPARE";
    case LS_STATE_FAILED: return "FAILED";
    }
    return "";
}

static void separator(ui_pen *p) {
    ui_print(p, p->canvas->ascii ? " | " : " │ ");
}

static void title(ui_state *s, ui_canvas *c, ui_rect r) {
    ui_pen p = ui_pen_at(c, r, 0, UI_TITLE);
    const bool wide = r.cols >= 110; // else the least important facts are left out
    const ls_step *step = ui_viewed(s);
    const ui_turn *turn = step ? ui_turn_of(s, ui_viewed_index(s)) : s->n_turns ? &s->turns[s->n_turns - 1] : NULL;
    const char *method = turn && *turn->method ? turn->method : s->header.method;
    ui_print(&p, " %s ", wide || !s->has_header ? "LogitSpec" : method);
    if (s->has_header) {
        ui_print(&p, " %.*s %s", wide ? 64 : 12, s->header.model, s->header.dtype);
        if (r.cols >= 140 || strcmp(s->header.device, "cpu")) ui_print(&p, " %s", s->header.device);
        if (wide) {
            separator(&p);
            ui_print(&p, "%s", method);
            if (turn && turn->temperature > 0) ui_print(&p, ", T %.3g", turn->temperature);
        }
    }
    separator(&p);
    if (s->has_header && (!s->header.exact || (step && !step->exact))) {
        ui_print(&p, !s->header.exact ? "NOT EXACT" : step->odds ? "SAME ODDS" : "LOSSY");
        separator(&p);
    }
    ui_print(&p, "%s%s", s->recording ? "REPLAY " : "", state_name(s));
    if (s->recording && s->fraction >= 0) ui_print(&p, " %.0f%%", 100 * s->fraction); // of the file
    if (step) {
        separator(&p);
        if (s->n_turns > 1) ui_print(&p, "turn %td, ", turn - s->turns + 1);
        ui_print(&p, "step %u", step->index);
        if (!s->at_newest) ui_print(&p, ", %zu behind", s->n_steps - 1 - ui_viewed_index(s));
        if (wide) {
            separator(&p);
            ui_print(&p, "ctx %d/%d", step->context_len + step->n_emitted, s->header.n_context);
        }
        const ls_stats *st = ui_stats(s);
        if (wide || s->at_newest) {
            separator(&p);
            ui_print(&p, "%.0f tok/s", ls_stats_tokens_per_s(st));
        }
        if (ls_stats_speedup(st) > 0) {
            static const char *const against[] = {" vs plain (measured)", " vs plain", ""};
            size_t i = 0;
            separator(&p);
            ui_print(&p, "%s%.2f", c->ascii ? "x" : "×", ls_stats_speedup(st));
            while (i < 2 && (int)strlen(against[i]) > p.end - p.col) i++; // as much as fits
            ui_print(&p, "%s", against[i]);
        }
    }
    ui_pad(&p, r.cols);
}

static void message(ui_state *s, ui_canvas *c, ui_rect r) {
    ui_pen p = ui_pen_at(c, r, 0, UI_DIM);
    if (*s->message) {
        p.role = s->message_is_error ? UI_BAD : UI_LABEL;
        ui_print(&p, " %s%s", s->message_is_error ? "! " : "", s->message);
        return;
    }
    if (s->run_state == LS_STATE_LOADING || s->run_state == LS_STATE_PREFILL || s->run_state == LS_STATE_COMPARING) {
        ui_print(&p, " %s ", *s->stage ? s->stage : "starting");
        if (s->fraction >= 0) {
            p.role = UI_BAR;
            ui_bar(&p, 20, s->fraction);
            ui_print(&p, " %3.0f%%", 100 * s->fraction);
        }
        return;
    }
    const ls_step *step = ui_viewed(s);
    if (!step) return;
    ls_buf text = {0};
    if (ui_quiz_hides(s)) ui_quiz_question(s, &text);
    else if (!ui_decode(c, s, step, &text)) ui_narrate(c, s, step, &text);
    ui_print(&p, " ");
    ui_draw(&p, text.p, text.n);
    ls_buf_free(&text);
}

// The cursor stays in sight: one line scrolls sideways, several scroll up and down.
static void bottom(ui_canvas *c, ui_rect r, const ui_bottom *b, int *cursor_row, int *cursor_col) {
    const ui_edit *e = b->edit;
    const char *text = e->text.n ? e->text.p : "";
    int line = 0, lines = 1; // of the cursor; of all
    for (size_t i = 0; i < e->text.n; i++) {
        lines += text[i] == '\n';
        line += i < e->cursor && text[i] == '\n';
    }
    const int top = line - r.rows + 1 > 0 ? line - r.rows + 1 : 0;
    size_t from = 0;
    for (int i = 0; i < lines; i++) {
        size_t end = from;
        while (end < e->text.n && text[end] != '\n') end++;
        if (i >= top && i < top + r.rows) {
            ui_pen p = ui_pen_at(c, r, i - top, b->active ? UI_FOCUS : UI_DIM);
            if (b->active && i == top) p.mark = UI_REVERSE; // it has the keys
            ui_print(&p, " %s ", i == top ? b->sign : " ");
            p.mark = 0;
            const int start = p.col, room = p.end - p.col - 1;
            size_t shown = from;
            const size_t cursor = i == line ? e->cursor : from;
            while (ui_text_cells(c, text + shown, cursor - shown) > room)
                shown += ui_next_glyph(c, text + shown, end - shown).n;
            p.role = b->active ? UI_TEXT : UI_DIM;
            ui_draw(&p, text + shown, end - shown);
            if (b->active && b->cursor && i == line) {
                *cursor_row = r.row + i - top;
                *cursor_col = start + ui_text_cells(c, text + shown, cursor - shown);
            }
            if (!e->text.n) {
                p.role = UI_DIM;
                ui_print(&p, "%s", b->hint);
            }
        }
        from = end + 1;
    }
}

static void key_bar(ui_state *s, ui_canvas *c, ui_rect r) {
    static const ui_action typing[] = {UI_ACT_HELP,    UI_ACT_RUN_PAUSE, UI_ACT_STEP,      UI_ACT_BACK,
                                       UI_ACT_FORWARD, UI_ACT_STOP,      UI_ACT_NEXT_PANEL};
    static const ui_action panels[] = {UI_ACT_HELP,       UI_ACT_RUN_PAUSE, UI_ACT_STEP,  UI_ACT_BACK,   UI_ACT_FORWARD,
                                       UI_ACT_NEXT_PANEL, UI_ACT_ZOOM,      UI_ACT_CLOSE, UI_ACT_PROMPT, UI_ACT_STOP};
    const bool goes = s->run_state == LS_STATE_RUNNING || s->run_state == LS_STATE_PREFILL || ui_demo_plays(s);
    const char *run = goes ? "Pause" : s->run_state == LS_STATE_PAUSED ? "Run" : ui_actions[UI_ACT_RUN_PAUSE].label;
    bool types = s->shown.focus == UI_NO_PANEL;
    const ui_action *list = types ? typing : panels;
    size_t n = types ? sizeof typing / sizeof *typing : sizeof panels / sizeof *panels;
    ui_pen p = ui_pen_at(c, r, 0, UI_KEY);
    const char *fixed[][2] = {{"Enter", "Send"}, {"Esc", "Panels"}, {"^C", "Quit"}};
    for (size_t i = 0; i < n + (types ? 3 : 0); i++) {
        char key[16], label[24];
        if (i < n) {
            const char *keys = ui_action_keys(list[i]), *blank = strchr(keys, ' ');
            if (!types && blank && list[i] != UI_ACT_HELP) keys = blank + 1; // the letter is shorter
            snprintf(key, sizeof key, "%.*s", (int)strcspn(keys, " "), keys);
            snprintf(label, sizeof label, "%s", list[i] == UI_ACT_RUN_PAUSE ? run : ui_actions[list[i]].label);
        } else {
            snprintf(key, sizeof key, "%s", fixed[i - n][0]);
            snprintf(label, sizeof label, "%s", fixed[i - n][1]);
        }
        if (p.col + (int)strlen(key) + (int)strlen(label) + 2 > p.end) break; // whole entries only
        p.role = UI_KEY;
        ui_print(&p, " %s ", key);
        p.role = UI_KEY_LABEL;
        ui_print(&p, "%s", label);
    }
}

static void frame(ui_state *s, ui_canvas *c, const ui_frame *f, ui_rect r, bool active) {
    char right[UI_RIGHT_BYTES] = "";
    if (f->promise && !s->n_steps) {
        ui_pen p = ui_pen_at(c, ui_inside(r), 0, UI_DIM);
        ui_print(&p, "%s", f->promise);
    } else f->draw(&(ui_panel_view){c, s, ui_inside(r), right});
    ui_box(c, r, f->title, right, active);
    if (f->draw != ui_panel_output) return;
    ui_pen p = ui_pen_at(c, (ui_rect){r.row + r.rows - 1, r.col + 2, 1, r.cols - 4}, 0, UI_FRAME);
    ui_legend(&p, s);
}

static void too_small(ui_canvas *c) {
    ui_rect all = {0, 0, c->rows, c->cols};
    ui_pen p = ui_pen_at(c, all, c->rows / 2, UI_TEXT);
    ui_print(&p, "needs %dx%d, have %dx%d", UI_MIN_COLS, UI_MIN_ROWS, c->cols, c->rows);
}

// Over the panels.
static void cover(ui_state *s, ui_canvas *c, const ui_frame *f) {
    const ui_rect body = {1, 0, c->rows - 4, c->cols};
    for (int row = 0; row < body.rows; row++) {
        ui_pen p = ui_pen_at(c, body, row, UI_TEXT);
        ui_pad(&p, c->cols);
    }
    frame(s, c, f, body, true);
}

void ui_render(ui_state *s, ui_canvas *c, int *cursor_row, int *cursor_col) {
    static const ui_frame panels[UI_PANELS] = {
        {"1 Output", ui_panel_output, NULL},
        {"2 Logits", ui_panel_logits, "what the model said last, best first"},
        {"3 Drafts", ui_panel_drafts, "branches that were tried, and where they came from"},
        {"4 Tree", ui_panel_tree, "the tree that one pass of the model checked"},
        {"5 Stats", ui_panel_stats, NULL},
        {"6 Inspect", ui_panel_inspect, "one draft: what the target thought of it"},
        {"7 Compare", ui_panel_compare, NULL}};
    *cursor_row = *cursor_col = -1;
    const ui_bottom b = ui_bottom_of(s, c->ascii ? ">" : "›");
    s->shown.prompt_rows = 1;
    for (size_t i = 0; i < b.edit->text.n; i++) s->shown.prompt_rows += b.edit->text.p[i] == '\n';
    ui_layout l = ui_layout_of(c->rows, c->cols, &s->shown);
    if (l.too_small) {
        too_small(c);
        return;
    }
    title(s, c, l.title);
    for (int i = 0; i < UI_PANELS; i++)
        if (l.panel[i].rows) frame(s, c, &panels[i], l.panel[i], (int)s->shown.focus == i);
    if (l.note.rows) {
        char heading[96];
        if (s->tour_of) snprintf(heading, sizeof heading, "Tour %d of %d: ", s->tour_stop, s->tour_of);
        else snprintf(heading, sizeof heading, "Demo: ");
        snprintf(heading + strlen(heading), sizeof heading - strlen(heading), "%.70s", s->demo ? s->demo->title : "");
        frame(s, c, &(ui_frame){heading, ui_panel_note, NULL}, l.note, ui_demo_note(s) != NULL);
    }
    message(s, c, l.message);
    bottom(c, l.prompt, &b, cursor_row, cursor_col);
    key_bar(s, c, l.keys);
    const ui_frame *top = ui_frame_on_top(s);
    if (top) cover(s, c, top);
}
