// Keys and actions: how the user changes what is shown, and what is asked of the source.
#include "base/mem.h"
#include "ui/demo.h"
#include "ui/history.h"
#include "ui/navigate.h"
#include "ui/overlays.h"
#include "ui/panels.h"
#include "ui/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 10, EXIT_INTERRUPTED = 130, ALL_STEPS = 1 << 30 };

void ui_request_of(ui_state *s, ls_command_kind kind, char *text, int n) {
    if (s->n_outbox == (int)(sizeof s->outbox / sizeof *s->outbox)) {
        free(text);
        return;
    }
    s->outbox[s->n_outbox++] = (ui_request){kind, text, n};
}

static void scroll(ui_state *s, int by) {
    ui_panel p = s->shown.focus == UI_NO_PANEL ? UI_OUTPUT : s->shown.focus;
    if (ui_overlay_scroll(s, by)) return;
    if (p == UI_TREE && (by == 1 || by == -1)) {
        ui_move_node(s, by);
        return;
    }
    if (p == UI_OUTPUT) by = -by; // its natural position is the end
    s->scroll[p] += by;
    if (s->scroll[p] < 0) s->scroll[p] = 0;
}

static void focus(ui_state *s, ui_panel p) {
    s->shown.focus = p;
    if (s->shown.zoom != UI_NO_PANEL) s->shown.zoom = p;
}

static void open_inspect(ui_state *s, bool open) {
    s->shown.inspect = open;
    if (!open && s->shown.focus == UI_INSPECT) s->shown.focus = UI_TREE;
    if (!open && s->shown.zoom == UI_INSPECT) s->shown.zoom = UI_NO_PANEL;
}

static void open_compare(ui_state *s, bool open) {
    s->shown.compare = open;
    if (open && s->shown.focus != UI_NO_PANEL) s->shown.focus = UI_COMPARE;
    if (!open && s->shown.focus == UI_COMPARE) s->shown.focus = UI_STATS;
    if (!open && s->shown.zoom == UI_COMPARE) s->shown.zoom = UI_NO_PANEL;
}

static void ask_rival(ui_state *s, const char *method) {
    ui_request_of(s, LS_CMD_RIVAL, ls_strdup(method), 0);
    open_compare(s, true);
}

static void quit(ui_state *s) {
    s->quit = true;
    if (s->run_state == LS_STATE_FAILED) s->exit_code = 1; // as without a screen
}

static void close_top(ui_state *s) {
    if (ui_overlay_top(s) != UI_NO_OVERLAY) ui_overlay_close(s);
    else if (s->shown.zoom != UI_NO_PANEL) s->shown.zoom = UI_NO_PANEL;
    else if (s->shown.compare) open_compare(s, false);
    else if (s->shown.inspect) open_inspect(s, false);
    else quit(s);
}

// The prompt line has the keys: nothing lies over what it is about.
static void to_prompt(ui_state *s) {
    s->shown.focus = s->shown.zoom = UI_NO_PANEL;
    ui_overlays_clear(s);
}

static void cycle_focus(ui_state *s, int by) {
    int p = s->shown.focus;
    do p = (p + by + UI_PANELS) % UI_PANELS;
    while ((p == UI_INSPECT && !s->shown.inspect) || (p == UI_COMPARE && !s->shown.compare));
    focus(s, (ui_panel)p);
}

void ui_type_line(ui_state *s, char sign, const char *text) {
    s->typing = sign;
    ui_edit_set(&s->command, text);
}

static void set_filter(ui_state *s, ui_panel p, const char *text) {
    free(s->filter[p]);
    s->filter[p] = *text ? ls_strdup(text) : NULL;
    s->scroll[p] = 0;
}

static void sort_rows(ui_state *s, bool reverse) {
    const ui_panel p = s->shown.focus;
    if (p != UI_LOGITS && p != UI_DRAFTS) ui_say(s, "rows are sorted in Logits (2) and Drafts (3)", false);
    else if (reverse) s->reversed[p] = !s->reversed[p];
    else ui_rows_sort(s, p);
}

static bool ended(ui_state *s) { // a recording that was played to its end
    const bool failed = s->recording && s->run_state == LS_STATE_FAILED;
    const bool yes = failed || (s->recording && s->has_header && s->run_state == LS_STATE_IDLE);
    if (failed)
        ui_say(s, "the recording cannot be read further (L: why): ^N plays it again, [ and ] go through its steps",
               true);
    else if (yes) ui_say(s, "the recording has ended: ^N plays it again, [ and ] go through its steps", false);
    return yes;
}

// What was not played yet of a recording lies ahead of its newest step.
static bool play_on(ui_state *s, int steps) {
    if (!s->recording || !s->live || !ui_busy(s)) return false;
    ui_request_of(s, LS_CMD_STEP, NULL, steps);
    return true;
}

static bool can_send(ui_state *s) {
    const bool recording = s->recording;
    if (recording) ui_say(s, "this is a recording: it takes no prompts", false);
    else if (s->run_state == LS_STATE_FAILED) ui_say(s, "the model is not loaded; what you typed is kept", true);
    else if (ui_busy(s)) ui_say(s, "the answer is still being written (^X stops it); what you typed is kept", false);
    else return true;
    return false;
}

void ui_act(ui_state *s, ui_action a) {
    switch (a) {
    case UI_ACT_HELP: ui_overlay_toggle(s, UI_HELP); break;
    case UI_ACT_PROMPT:
        if (s->recording) {
            ui_say(s, "this is a recording: it takes no prompts", false);
            break;
        }
        to_prompt(s);
        break;
    case UI_ACT_RUN_PAUSE:
        if (ended(s)) break;
        if (ui_demo_hold(s)) break;
        if (!ui_busy(s)) {
            s->starts_paused = !s->starts_paused;
            ui_say(s,
                   s->starts_paused ? "the next answer starts paused: s (F6) makes one step" : "the next answer runs",
                   false);
            ui_request_of(s, s->starts_paused ? LS_CMD_PAUSE : LS_CMD_RUN, NULL, 0);
            break;
        }
        ui_request_of(s, s->run_state == LS_STATE_PAUSED ? LS_CMD_RUN : LS_CMD_PAUSE, NULL, 0);
        if (s->run_state == LS_STATE_PAUSED) s->live = true;
        break;
    case UI_ACT_STEP:
    case UI_ACT_STEP_10:
        if (ended(s)) break;
        if (!ui_busy(s)) ui_say(s, "nothing is being decoded: type a prompt first", false);
        else {
            s->live = s->demo_held = true;
            ui_request_of(s, LS_CMD_STEP, NULL, a == UI_ACT_STEP ? 1 : 10);
        }
        break;
    case UI_ACT_BACK: ui_move(s, -1); break;
    case UI_ACT_FORWARD:
        if (!play_on(s, 1)) ui_move(s, 1);
        break;
    case UI_ACT_BACK_10: ui_move(s, -10); break;
    case UI_ACT_FORWARD_10:
        if (!play_on(s, 10)) ui_move(s, 10);
        break;
    case UI_ACT_FIRST: ui_look_at(s, 0); break;
    case UI_ACT_LIVE:
        if (!play_on(s, ALL_STEPS)) ui_look_at(s, (int64_t)s->n_steps);
        break;
    case UI_ACT_STOP:
        if (s->recording) ui_say(s, "this is a recording: Space pauses it", false);
        else if (ui_busy(s) || s->run_state == LS_STATE_COMPARING) {
            ui_request_of(s, LS_CMD_STOP, NULL, 0);
            ui_say(s, "stopped; what was written stays", false);
        } else ui_say(s, "nothing is being decoded", false);
        break;
    case UI_ACT_NEXT_REJECTION:
        ui_jump(s, ui_find_step(s, UI_FIND_REJECTION, 1), "no later step had a draft rejected");
        break;
    case UI_ACT_PREV_REJECTION:
        ui_jump(s, ui_find_step(s, UI_FIND_REJECTION, -1), "no earlier step had a draft rejected");
        break;
    case UI_ACT_NEXT_LOSSY:
        ui_jump(s, ui_find_step(s, UI_FIND_LOSSY, 1), "no later step let a draft stand that the target did not choose");
        break;
    case UI_ACT_WORST: ui_jump_extreme(s, -1); break;
    case UI_ACT_BEST: ui_jump_extreme(s, 1); break;
    case UI_ACT_SEARCH: ui_type_line(s, '/', ""); break;
    case UI_ACT_SEARCH_NEXT: ui_look_for(s, 1); break;
    case UI_ACT_SEARCH_PREV: ui_look_for(s, -1); break;
    case UI_ACT_FILTER:
        if (!ui_rows_in(s->shown.focus)) {
            ui_say(s, "rows are filtered in Logits (2), Drafts (3) and Tree (4)", false);
            break;
        }
        ui_type_line(s, '\\', s->filter[s->shown.focus] ? s->filter[s->shown.focus] : "");
        break;
    case UI_ACT_SORT: sort_rows(s, false); break;
    case UI_ACT_REVERSE: sort_rows(s, true); break;
    case UI_ACT_NEXT_PANEL: cycle_focus(s, 1); break;
    case UI_ACT_PREV_PANEL: cycle_focus(s, -1); break;
    case UI_ACT_PANEL_6:
        open_inspect(s, true);
        focus(s, UI_INSPECT);
        break;
    case UI_ACT_PANEL_7:
        open_compare(s, true);
        focus(s, UI_COMPARE);
        break;
    case UI_ACT_COMPARE:
        if (s->rival.known && s->rival.turn + 1 == s->n_turns) open_compare(s, !s->shown.compare);
        else if (s->recording || s->run_state == LS_STATE_COMPARING) open_compare(s, !s->shown.compare);
        else if (ui_busy(s)) ui_say(s, "the answer is still being written: c races it when it has ended", false);
        else if (!s->n_turns) ui_say(s, "there is no answer to compare with yet", false);
        else ask_rival(s, "ar");
        break;
    case UI_ACT_INSPECT: open_inspect(s, !s->shown.inspect); break;
    case UI_ACT_LEFT:
    case UI_ACT_RIGHT:
        if (s->shown.focus == UI_TREE || s->shown.focus == UI_INSPECT) ui_move_deeper(s, a == UI_ACT_RIGHT);
        else ui_move_token(s, a == UI_ACT_RIGHT ? 1 : -1);
        break;
    case UI_ACT_MASK: s->mask = !s->mask; break;
    case UI_ACT_PANEL_1:
    case UI_ACT_PANEL_2:
    case UI_ACT_PANEL_3:
    case UI_ACT_PANEL_4:
    case UI_ACT_PANEL_5: focus(s, (ui_panel)(a - UI_ACT_PANEL_1)); break;
    case UI_ACT_ZOOM:
        s->shown.zoom =
            s->shown.zoom == UI_NO_PANEL ? (s->shown.focus == UI_NO_PANEL ? UI_OUTPUT : s->shown.focus) : UI_NO_PANEL;
        break;
    case UI_ACT_UP: scroll(s, -1); break;
    case UI_ACT_DOWN: scroll(s, 1); break;
    case UI_ACT_PAGE_UP: scroll(s, -PAGE); break;
    case UI_ACT_PAGE_DOWN: scroll(s, PAGE); break;
    case UI_ACT_TOP: scroll(s, -(1 << 20)); break;
    case UI_ACT_BOTTOM: scroll(s, 1 << 20); break;
    case UI_ACT_TREE_MODE:
        s->tree_full = !s->tree_full;
        s->scroll[UI_TREE] = 0;
        break;
    case UI_ACT_BRACKETS: s->brackets = !s->brackets; break;
    case UI_ACT_ASCII: s->ascii = !s->ascii; break;
    case UI_ACT_COMMAND: ui_type_line(s, ':', ""); break;
    case UI_ACT_REGENERATE:
        if (can_send(s) && s->n_turns)
            ui_request_of(s, LS_CMD_EDIT, ls_strdup(s->turns[s->n_turns - 1].text), (int)s->n_turns - 1);
        break;
    case UI_ACT_EDIT_TURN:
        if (s->recording || !s->n_turns) {
            ui_say(s, s->recording ? "this is a recording: it takes no prompts" : "there is no prompt yet", false);
            break;
        }
        s->editing = s->n_steps ? (int)(ui_turn_of(s, ui_viewed_index(s)) - s->turns) : (int)s->n_turns - 1;
        ui_edit_set(&s->prompt, s->turns[s->editing].text);
        to_prompt(s);
        ui_say(s, "change the prompt: Enter answers it anew (what came after it is forgotten), Esc leaves it as it was",
               false);
        break;
    case UI_ACT_EDITOR:
        if (s->recording) ui_say(s, "this is a recording: it takes no prompts", false);
        else s->want_editor = true;
        break;
    case UI_ACT_NEW: ui_request_of(s, LS_CMD_RESET, NULL, 0); break;
    case UI_ACT_SETUP: ui_overlay_toggle(s, UI_SETUP); break;
    case UI_ACT_THEME: s->themes++; break;
    case UI_ACT_MOUSE: s->mice++; break;
    case UI_ACT_LOG: ui_overlay_toggle(s, UI_LOG); break;
    case UI_ACT_REDRAW: s->redraw = true; break;
    case UI_ACT_SUSPEND: s->suspend = true; break;
    case UI_ACT_CLOSE: close_top(s); break;
    case UI_ACT_QUIT: quit(s); break;
    case UI_ACT_NONE: break;
    }
}

static void send_prompt(ui_state *s) {
    if (!s->prompt.text.n || !can_send(s)) return;
    if (s->editing >= 0) ui_request_of(s, LS_CMD_EDIT, ui_edit_take(&s->prompt), s->editing);
    else ui_request_of(s, LS_CMD_PROMPT, ui_edit_take(&s->prompt), 0);
    s->editing = -1;
    if (s->run_state == LS_STATE_LOADING) ui_say(s, "the model is loading; the prompt waits", false);
}

static void goto_step(ui_state *s, const char *text) {
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    const ui_turn *t = s->n_steps ? ui_turn_of(s, ui_viewed_index(s)) : NULL;
    char line[120];
    if (!t) ui_look_at(s, 0);
    else if (end == text || *end || n >= t->n_steps) {
        snprintf(line, sizeof line, "goto '%.20s': turn %td, which is looked at, has steps 0 to %zu", text,
                 t - s->turns + 1, t->n_steps - 1);
        ui_say(s, line, true);
    } else ui_look_at(s, (int64_t)(t->first_step + n));
}

static void run_command(ui_state *s) {
    char *text = ui_edit_take(&s->command), *word = text + strspn(text, " ");
    const char sign = s->typing;
    s->typing = 0;
    if (sign == '\\') { // it was in force while it was typed
        free(text);
        return;
    }
    if (sign == '/') {
        free(s->sought);
        s->sought = text;
        ui_look_for(s, 1);
        return;
    }
    ui_action a = ui_action_named(word);
    if (!*word) {
    } else if (!strncmp(word, "set ", 4)) ui_request_of(s, LS_CMD_SET, ls_strdup(word + 4), 0);
    else if (!strncmp(word, "save ", 5)) ui_request_of(s, LS_CMD_SAVE, ls_strdup(word + 5 + strspn(word + 5, " ")), 0);
    else if (!strncmp(word, "load ", 5)) ui_request_of(s, LS_CMD_LOAD, ls_strdup(word + 5 + strspn(word + 5, " ")), 0);
    else if (!strncmp(word, "compare ", 8)) ask_rival(s, word + 8 + strspn(word + 8, " "));
    else if (!strncmp(word, "goto ", 5)) goto_step(s, word + 5);
    else if (!strncmp(word, "save-display ", 13)) {
        free(s->save_to);
        s->save_to = ls_strdup(word + 13);
    } else if (a != UI_ACT_NONE) ui_act(s, a);
    else {
        char line[200];
        snprintf(line, sizeof line, "no command '%.80s' (F1 lists them)", word);
        ui_say(s, line, true);
    }
    free(text);
}

// The letters that all candidates have in common; what they are, where there are several.
static void complete(ui_state *s) {
    static const char *const verbs[] = {"set ", "goto ", "compare ", "save ", "load ", "save-display ", NULL};
    const char *typed = s->command.text.n ? s->command.text.p : "", *first = NULL;
    const size_t n = strlen(typed);
    size_t common = 0, found = 0;
    ls_buf list = {0};
    for (int source = 0; source < 3; source++)
        for (int i = 0;; i++) {
            const char *word = source == 0   ? (i < UI_ACTIONS ? ui_actions[i].name : NULL)
                               : source == 1 ? verbs[i]
                                             : (s->words ? s->words[i] : NULL);
            if (!word) break;
            if (strncmp(word, typed, n)) continue;
            size_t same = strlen(word);
            if (first)
                for (same = 0; same < common && first[same] == word[same];) same++;
            else first = word;
            common = same;
            found++;
            ls_buf_fmt(&list, "%s%s", list.n ? "  " : "", word);
        }
    if (common > n) ui_edit_insert(&s->command, first + n, common - n);
    if (found > 1) ui_say(s, list.p, false);
    else if (!found) ui_say(s, "nothing begins like this", false);
    ls_buf_free(&list);
}

static void type_command(ui_state *s, int key) {
    const bool filters = s->typing == '\\' && key != UI_KEY_ENTER;
    if (key == UI_KEY_ENTER) run_command(s);
    else if (key == UI_KEY_TAB && s->typing == ':') complete(s);
    else if (key == UI_KEY_ESC || (key == UI_KEY_BACKSPACE && !s->command.text.n)) s->typing = 0;
    else ui_edit_key(&s->command, key);
    if (filters && ui_rows_in(s->shown.focus))
        set_filter(s, s->shown.focus, key == UI_KEY_ESC || !s->command.text.n ? "" : s->command.text.p);
}

// What the panels put into their cells.
static void click(ui_state *s, ui_panel at, int what) {
    if (at == UI_OUTPUT && (size_t)(what / LS_MAX_ROWS) < s->n_steps) {
        ui_look_at(s, what / LS_MAX_ROWS);
        s->live = false;
        s->node = what % LS_MAX_ROWS;
        return;
    }
    ui_choose_row(s, at, what);
}

static void on_mouse(ui_state *s, ui_key k, ui_panel at) {
    if (ui_overlay_top(s) != UI_NO_OVERLAY) {
        ui_overlay_mouse(s, k);
        return;
    }
    if (at == UI_NO_PANEL) return;
    ui_panel before = s->shown.focus;
    if (k.mouse == UI_MOUSE_CLICK) {
        focus(s, at);
        if (k.tag > 0) click(s, at, k.tag - 1);
        return;
    }
    s->shown.focus = at; // the wheel scrolls what it is over and leaves the keys where they are
    scroll(s, k.mouse == UI_MOUSE_WHEEL_UP ? -3 : 3);
    s->shown.focus = before;
}

void ui_on_key(ui_state *s, ui_key k, ui_panel panel_at) {
    const int key = k.code;
    if (key == UI_CTRL('C')) {
        s->quit = true;
        s->exit_code = EXIT_INTERRUPTED;
        return;
    }
    if (key == UI_KEY_MOUSE) {
        on_mouse(s, k, panel_at);
        return;
    }
    *s->message = 0;
    // who has the keys: a line that is typed below, what lies on top, the prompt line or a panel
    const bool covered = ui_overlay_top(s) != UI_NO_OVERLAY;
    const ui_action a = ui_action_of(key, s->typing || (s->shown.focus == UI_NO_PANEL && !covered));
    if (s->typing) type_command(s, key);
    else if (covered && ui_overlay_key(s, key, a)) {
    } else if ((key == UI_KEY_ENTER || key == ' ') && s->shown.focus != UI_NO_PANEL && ui_demo_go_on(s)) {
    } else if (key == UI_KEY_ESC) {
        if (s->editing >= 0) {
            s->editing = -1; // it stays as it was
            ui_edit_clear(&s->prompt);
        }
        const ui_panel p = s->shown.focus;
        if (p == UI_NO_PANEL) s->shown.focus = UI_OUTPUT;
        else if (s->filter[p]) set_filter(s, p, "");
        else s->shown.zoom = UI_NO_PANEL;
    } else if (s->shown.focus != UI_NO_PANEL) ui_act(s, a);
    else if (key == UI_KEY_ENTER) send_prompt(s);
    else if (key == UI_KEY_UP || key == UI_KEY_DOWN || a == UI_ACT_NONE) ui_edit_key(&s->prompt, key);
    else ui_act(s, a);
}

void ui_on_paste(ui_state *s, const char *text, size_t n) {
    if (s->typing) ui_edit_insert(&s->command, text, n);
    else if (!s->recording) {
        to_prompt(s); // what is pasted is a prompt, wherever the keys were
        ui_edit_insert(&s->prompt, text, n);
    }
}
