#include "ui/modes.h"
#include "base/mem.h"
#include "ui/demo.h"
#include "ui/render.h"
#include "ui/panels.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_INTERRUPTED = 130 };
enum { BY_ESC = 1, BY_Q = 2, GOES_ON = 4, TYPES = 8 };

// ---- Help, Log, Setup, Shadows: the open ones form a stack, and the last one is drawn

static ui_overlay top_overlay(const ui_state *s) {
    return s->over.n ? s->over.open[s->over.n - 1] : UI_NO_OVERLAY;
}

static void overlay_scroll(ui_state *s, int by) { // while one is open
    const ui_overlay top = s->over.open[s->over.n - 1];
    int *lines = &s->drawn.overlay_scroll[top];
    *lines += top == UI_LOG ? -by : by; // the log's natural position is its end
    if (*lines < 0) *lines = 0;
}

static void overlay_mouse(ui_state *s, ui_key k) {
    if (k.mouse != UI_MOUSE_CLICK) overlay_scroll(s, k.mouse == UI_MOUSE_WHEEL_UP ? -3 : 3);
    else if (top_overlay(s) == UI_SHADOWS && k.tag > 0 && k.tag <= s->shadows.n_variants) s->shadows.chosen = k.tag - 1;
    else if (top_overlay(s) == UI_SETUP && k.tag > 0 && k.tag <= s->setup.n) s->setup.chosen = k.tag - 1;
}

// -1: one of the first two; 1: one of the others; 0: another key.
static int direction(ui_press k, int back, ui_action back_too, int on, ui_action on_too) {
    return k.code == back || k.action == back_too ? -1 : k.code == on || k.action == on_too;
}

static bool help_key(ui_state *s, ui_press k) {
    if (k.action == UI_ACT_UP || k.action == UI_ACT_DOWN || k.action == UI_ACT_PAGE_UP ||
        k.action == UI_ACT_PAGE_DOWN || k.action == UI_ACT_TOP || k.action == UI_ACT_BOTTOM)
        ui_act(s, k.action);
    else if (k.action == UI_ACT_SEARCH) ui_type_line(s, '/', "");
    else if (k.action == UI_ACT_SEARCH_NEXT || k.action == UI_ACT_SEARCH_PREV)
        ui_help_find(s, k.action == UI_ACT_SEARCH_NEXT ? 1 : -1);
    else ui_close(s); // any other key
    return true;
}

static bool panel_key(ui_state *s, ui_press k) {
    ui_act(s, k.action);
    return true;
}

static bool setup_key(ui_state *s, ui_press k) {
    ui_setting *t = &s->setup.settings[s->setup.chosen];
    char value[sizeof t->value], line[160];
    const int by = direction(k, UI_KEY_LEFT, UI_ACT_LEFT, UI_KEY_RIGHT, UI_ACT_RIGHT);
    const int rows = direction(k, UI_KEY_UP, UI_ACT_UP, UI_KEY_DOWN, UI_ACT_DOWN);
    if (k.action == UI_ACT_QUIT) return false;
    if (!s->setup.n) ui_close(s);
    else if (k.action == UI_ACT_CLOSE || k.action == UI_ACT_SETUP || k.action == UI_ACT_HELP || k.action == UI_ACT_LOG)
        ui_act(s, k.action);
    else if (rows) ui_setting_move(&s->setup, rows);
    else if (k.code == 'w') ui_settings_save(s);
    else if (s->given.recording) ui_say(s, "%s: its settings cannot change", ui_fixed(s));
    else if (by && ui_setting_choice(t, by, value, sizeof value)) ui_setting_ask(s, t, value);
    else if (k.action == UI_ACT_PAPER) ui_paper_step(s);
    else if (k.code == UI_KEY_ENTER) {
        snprintf(line, sizeof line, "set %s=", t->key);
        ui_type_line(s, ':', line);
    }
    return true;
}

static bool shadows_key(ui_state *s, ui_press k) {
    ui_shadows *w = &s->shadows;
    const int by = direction(k, UI_KEY_UP, UI_ACT_UP, UI_KEY_DOWN, UI_ACT_DOWN), to = w->chosen + by;
    if (by) w->chosen = to >= 0 && to < w->n_variants ? to : w->chosen;
    else if (k.code == 'u') w->always = !w->always;
    else if (k.code == UI_KEY_ENTER && s->given.recording) ui_say(s, "%s: its method cannot change", ui_fixed(s));
    else if (k.code == UI_KEY_ENTER && w->n_variants) { // a method, and perhaps its rows
        const char *label = w->variants[w->chosen].label, *rows = strchr(label, ':');
        const int name = (int)strcspn(label, ":");
        ls_buf both = {0};
        if (rows) ls_buf_fmt(&both, "decode.max_rows=%s\n", rows + 1);
        ls_buf_fmt(&both, "decode.method=%.*s", name, label);
        ui_ask(s, LS_CMD_SET, both.p, rows ? 2 : 1);
    } else return panel_key(s, k);
    return true;
}

// ---- a demo's note, the prompt

static bool note_key(ui_state *s, ui_press k) {
    if (k.code == UI_KEY_BACKSPACE) return ui_demo_go_back(s);
    if (k.code != UI_KEY_ENTER && k.code != ' ') return false;
    const bool read = ui_demo_go_on(s), next = s->playing.tour_of && ui_demo_is_over(s);
    if (next) s->asked.tour = 1;
    return read || next;
}

static bool quiz_key(ui_state *s, ui_press k) {
    if (k.code != UI_KEY_ENTER) return false;
    if (ui_quiz_go_on(s)) s->view.at_newest = true; // to the next question
    else ui_quiz_answer(s);
    return true;
}

static bool requests_key(ui_state *s, ui_press k) {
    if (k.code != UI_KEY_ENTER) return false;
    ui_requests_open(s);
    return true;
}

bool ui_may_quit(ui_state *s) {
    const size_t open = ui_requests_open_count(&s->requests, LS_REQUEST_QUEUED, LS_REQUEST_DECODING);
    if (!s->given.serves || !open || s->requests.warned) return true;
    ui_say(s, "%zu request%s not answered yet: again ends the server and them", open, open == 1 ? " is" : "s are");
    s->requests.warned = true;
    return false;
}

// Whether the panel is drawn: q does not close an open panel that has no room on the screen.
static bool in_sight(const ui_state *s, ui_panel p) {
    return !s->drawn.room.rows || ui_layout_of(&s->drawn.room, &s->shown).panel[p].rows;
}

static void forget_edit(ui_state *s) { // the prompt stays as it was
    s->typed.editing = -1;
    ui_edit_clear(&s->typed.prompt);
}

// The last answer was cut by its length.
static bool can_go_on(const ui_state *s) {
    return ui_finish(&s->run) == LS_FINISH_LENGTH && !s->given.recording && !s->playing.demo && s->typed.editing < 0 &&
           !ui_busy(&s->run) && !ui_quiz_hides(s) && !s->quiz.answered;
}

void ui_send_prompt(ui_state *s) {
    if (!s->typed.prompt.text.n && can_go_on(s)) {
        ui_ask(s, LS_CMD_GO_ON, NULL, 0);
        s->view.at_newest = true;
        return;
    }
    if (!s->typed.prompt.text.n || !ui_can_send(s)) return;
    char *text = ui_edit_take(&s->typed.prompt);
    if (s->typed.editing >= 0) ui_ask(s, LS_CMD_EDIT, text, s->typed.editing);
    else ui_ask(s, LS_CMD_PROMPT, text, 0);
    s->typed.editing = -1;
    if (s->run.state == LS_STATE_LOADING) ui_say(s, "the model is loading; the prompt is queued");
}

// Begins a command in the place of the prompt.
static void begin_command(ui_state *s, const char *text) {
    ui_type_line(s, ':', text);
    ui_edit_clear(&s->typed.prompt);
    s->typed.in_prompt = true;
}

static void enter_prompt(ui_state *s) {
    const char *text = s->typed.prompt.text.n ? s->typed.prompt.text.p : "";
    if (ui_welcome_choose(s, text)) return;
    if (*text == ':' && ui_is_command(text + 1) && ui_can_send(s)) { // "::" is one ":"
        char *rest = ls_strdup(text + 1);
        ui_edit_set(&s->typed.prompt, rest);
        free(rest);
        ui_send_prompt(s);
    } else if (s->typed.editing >= 0 || !ui_is_command(text)) ui_send_prompt(s);
    else { // a pasted or recalled line: the user decides whether it is a command or a prompt
        begin_command(s, text + 1);
        ui_say(s, "this is a command: Enter runs it; begin with :: to send it to the model");
    }
}

static bool prompt_key(ui_state *s, ui_press k) {
    if (k.code == ':' && !s->typed.prompt.text.n && s->typed.editing < 0) begin_command(s, "");
    else if (k.code == UI_KEY_ENTER) enter_prompt(s);
    else if (k.code == UI_KEY_UP || k.code == UI_KEY_DOWN || k.action == UI_ACT_NONE)
        ui_edit_key(&s->typed.prompt, k.code);
    else ui_act(s, k.action);
    return true;
}

// ---- the panels

static void panel_scroll(ui_state *s, int by) {
    const ui_panel p = s->shown.focus == UI_NO_PANEL ? UI_OUTPUT : s->shown.focus;
    if (p == UI_REQUESTS) {
        ui_requests_move(s, by);
        return;
    }
    if (by == 1 || by == -1) {
        if (p == UI_TREE) ui_move_node(s, by);
        if (p == UI_LOGITS || p == UI_DRAFTS) ui_move_row(s, p, by);
        if (p == UI_TREE || p == UI_LOGITS || p == UI_DRAFTS) return;
    }
    s->drawn.scroll[p] += p == UI_OUTPUT ? -by : by; // the output's natural position is its end
    if (s->drawn.scroll[p] < 0) s->drawn.scroll[p] = 0;
}

// A click means what the panel put into its cells.
static void panel_mouse(ui_state *s, ui_key k) {
    const ui_layout l = ui_layout_of(&s->drawn.room, &s->shown);
    const ui_panel at = ui_panel_at(&l, k.row, k.col), before = s->shown.focus;
    if (at == UI_NO_PANEL) return;
    if (k.mouse != UI_MOUSE_CLICK) {
        s->shown.focus = at; // the wheel scrolls what it is over and leaves the keys where they are
        panel_scroll(s, k.mouse == UI_MOUSE_WHEEL_UP ? -3 : 3);
        s->shown.focus = before;
        return;
    }
    ui_focus(s, at);
    const int what = k.tag - 1;
    if (what < 0) return;
    if (at == UI_OUTPUT && (size_t)(what / LS_MAX_ROWS) < s->run.n_steps) {
        ui_look_at(s, what / LS_MAX_ROWS);
        s->view.at_newest = false;
        s->view.node = what % LS_MAX_ROWS;
    } else if (at == UI_REQUESTS) {
        s->requests.cursor = what;
        ui_requests_open(s);
    } else {
        if (at == UI_LOGITS) s->list[at].found = what; // its rows are no nodes of the tree
        ui_choose_row(s, at, what);
    }
}

// ---- all of them

#define MODE(id, on, leave, ...)                                                                                       \
    static bool id##_is_on(const ui_state *s) {                                                                        \
        (void)s;                                                                                                       \
        return on;                                                                                                     \
    }                                                                                                                  \
    static void leave_##id(ui_state *s) {                                                                              \
        (void)s;                                                                                                       \
        leave;                                                                                                         \
    }
#include "ui/modes.def"
#undef MODE

typedef struct {
    bool (*is_on)(const ui_state *s);
    void (*leave)(ui_state *s);
    int how;
    // the handlers below may be NULL
    bool (*key)(ui_state *s, ui_press k); // false: not handled, the next mode gets the key
    void (*scroll)(ui_state *s, int by);
    void (*mouse)(ui_state *s, ui_key k);
    ui_frame frame;
} mode;

static const mode modes[] = {
#define MODE(id, on, ends, by, ...) {.is_on = id##_is_on, .leave = leave_##id, .how = by, __VA_ARGS__},
#include "ui/modes.def"
#undef MODE
};

// Finds the topmost mode that is on and has this member. PANELS, the last one, is always on and has every handler, so
// the loop ends.
#define TOPMOST(m, s, has)                                                                                             \
    const mode *m = modes;                                                                                             \
    while (!(m->is_on(s) && m->has)) m++

const ui_frame *ui_frame_on_top(const ui_state *s) {
    TOPMOST(m, s, scroll); // PANELS has no frame
    return m->frame.draw ? &m->frame : NULL;
}

static const char *cut_hint(const ui_state *s) {
    static char hint[80];
    const ls_step *last = s->run.steps[s->run.n_steps - 1];
    snprintf(hint, sizeof hint, "cut at %d token%s: Enter continues, or type a prompt",
             last->output_pos + last->n_emitted, ls_plural(last->output_pos + last->n_emitted));
    return hint;
}

ui_bottom ui_bottom_of(const ui_state *s, const char *arrow) {
    TOPMOST(m, s, key);
    const bool prompt = s->shown.focus == UI_NO_PANEL, types = m->how & TYPES;
    ui_bottom b = {.edit = &s->typed.prompt, .active = prompt, .cursor = types};
    if (m == modes) // a line is typed
        return (ui_bottom){{s->typed.sign}, &s->typed.line, "", true, true};
    if (s->typed.editing >= 0) snprintf(b.sign, sizeof b.sign, "%d%s", s->typed.editing, arrow);
    else snprintf(b.sign, sizeof b.sign, "%s", arrow);
    b.hint = s->playing.tour_of   ? "tour: Enter continues, [ ] back and forward, q returns to your conversation"
             : s->given.watches   ? "8: requests, Enter shows one, G the one that is answered, [ ] steps, q quits"
             : s->given.recording ? "recording: Space plays, s steps, [ ] back and forward, G plays all, q quits"
             : s->run.state == LS_STATE_FAILED ? "Esc, then L shows the full message; q quits"
             : prompt && can_go_on(s)          ? cut_hint(s)
             : prompt                          ? "type a prompt, Enter sends it"
                                               : "p: type a prompt";
    return b;
}

void ui_close(ui_state *s) {
    TOPMOST(m, s, how & BY_Q);
    m->leave(s);
}

void ui_scroll(ui_state *s, int by) {
    TOPMOST(m, s, scroll);
    m->scroll(s, by);
}

void ui_toggle(ui_state *s, ui_overlay o) {
    const bool close = top_overlay(s) == o;
    int kept = 0;
    for (int i = 0; i < s->over.n; i++) // removes it wherever it is in the stack
        if (s->over.open[i] != o) s->over.open[kept++] = s->over.open[i];
    s->over.n = kept;
    if (close) return;
    s->over.open[s->over.n++] = o;
    s->drawn.overlay_scroll[o] = 0;
    s->over.help_found = -1;
}

void ui_to_prompt(ui_state *s) {
    s->shown.focus = s->shown.zoom = UI_NO_PANEL;
    s->over.n = 0;
}

// The first ^C stops the answer or warns; the second one quits. If nothing can be lost, the first one quits.
static void interrupt(ui_state *s) {
    const bool busy = ui_busy(&s->run) || s->run.state == LS_STATE_COMPARING;
    const bool safe = s->given.recording || s->run.state == LS_STATE_FAILED ||
                      (!s->run.conversation->n_turns && !s->typed.prompt.text.n && !busy && !s->asked.sent);
    const char *then = !s->run.conversation->n_turns ? "your input is lost"
                       : s->given.autosave && !access(s->given.autosave, F_OK)
                           ? "the next start offers to load the conversation"
                           : "the conversation is lost";
    if (s->playing.tour_of) s->asked.tour = -1;
    else if (s->typed.sign) ui_line_leave(s);
    else if ((safe || s->typed.interrupted) && ui_may_quit(s)) {
        s->asked.quit = true;
        s->asked.exit_code = EXIT_INTERRUPTED;
    } else if (!s->given.serves) {
        if (busy) ui_ask(s, LS_CMD_STOP, NULL, 0);
        ui_say(s, "%s^C again quits: %s", busy ? "stopped. " : "", then);
        s->typed.interrupted = true;
    }
}

static void take_key(ui_state *s, ui_key k) {
    s->typed.interrupted &= k.code == UI_CTRL('C');
    s->requests.warned &= k.code == UI_CTRL('C') || k.code == 'q' || k.code == 'Q';
    if (k.code == UI_CTRL('C')) interrupt(s);
    else if (k.code == UI_KEY_MOUSE) {
        TOPMOST(m, s, mouse);
        m->mouse(s, k);
    } else {
        *s->message = 0;
        TOPMOST(keys, s, key);
        const ui_press press = {k.code, ui_action_of(k.code, keys->how & TYPES)};
        for (const mode *m = modes; m < modes + sizeof modes / sizeof *modes; m++) {
            if (!m->is_on(s)) continue;
            // Esc is for no handler: it leaves the topmost mode that has BY_ESC, and with GOES_ON the next one too
            if (k.code != UI_KEY_ESC && m->key && m->key(s, press)) return;
            if (k.code != UI_KEY_ESC || !(m->how & BY_ESC)) continue;
            m->leave(s);
            if (!(m->how & GOES_ON)) return;
        }
    }
}

void ui_on_key(ui_state *s, ui_key k) {
    take_key(s, k);
    if (s->run.n_steps && !s->view.at_newest) ui_requests_pin(s); // a step is looked at: it stays on the screen
}

void ui_on_paste(ui_state *s, const char *text, size_t n) {
    s->typed.interrupted = false;
    if (!s->typed.sign && s->given.recording) return;
    if (!s->typed.sign) ui_to_prompt(s); // what is pasted is a prompt, wherever the keys were
    const size_t left_out = ui_edit_insert(s->typed.sign ? &s->typed.line : &s->typed.prompt, text, n);
    if (left_out)
        ui_say(s, "%zu character%s of the paste ignored: control characters or invalid UTF-8", left_out,
               ls_plural(left_out));
}
