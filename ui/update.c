// Actions: how the user changes what is shown, and what is asked of the source.
#include "base/mem.h"
#include "ui/demo.h"
#include "ui/modes.h"
#include "ui/panels.h"
#include "base/err.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PAGE = 10, ALL_STEPS = 1 << 30 };

void ui_ask(ui_state *s, ls_command_kind kind, char *text, int n) {
    if (s->asked.n_outbox == (int)(sizeof s->asked.outbox / sizeof *s->asked.outbox)) {
        free(text);
        if (kind == LS_CMD_SET) ui_setting_unasked(s);
        return;
    }
    s->asked.outbox[s->asked.n_outbox++] = (ls_command){.kind = kind, .n = n, .text = text};
}

void ui_ask_rival(ui_state *s, const char *method) {
    ui_ask(s, LS_CMD_RIVAL, ls_strdup(method), 0);
    ui_open(s, UI_COMPARE, true);
    // a narrow screen shows Compare when it has the focus, which stays in the prompt
    if (s->shown.focus == UI_NO_PANEL)
        ui_say(s, "racing %.40s on the last prompt (Esc, then 7, shows Compare)", method);
}

static void cycle_focus(ui_state *s, int by) {
    int p = s->shown.focus;
    do p = (p + by + UI_PANELS) % UI_PANELS;
    while ((p == UI_INSPECT && !s->shown.inspect) || (p == UI_COMPARE && !s->shown.compare) ||
           (p == UI_REQUESTS && !s->given.watches));
    ui_focus(s, (ui_panel)p);
}

static bool ended(ui_state *s) { // a recording that was played to its end, or one that cannot be paused
    if (s->given.watches) {
        ui_say(s, "the requests of a server run freely: [ and ] show their steps, G the newest one");
        return true;
    }
    const bool failed = s->given.recording && s->run.state == LS_STATE_FAILED;
    const bool yes = failed || (s->given.recording && s->run.has_header && s->run.state == LS_STATE_IDLE);
    if (failed)
        ui_say_error(s,
                     "cannot read the rest of the recording (L shows why): ^N plays it again, [ and ] show its steps");
    else if (yes) ui_say(s, "the recording has ended: ^N plays it again, [ and ] show its steps");
    return yes;
}

// At the newest step of a recording, a key that moves forward plays more of it.
static void move_view(ui_state *s, int steps) {
    const bool plays = steps > 0 && s->given.recording && !s->given.watches && s->view.at_newest && ui_busy(&s->run);
    if (plays) ui_ask(s, LS_CMD_STEP, NULL, steps);
    else ui_look_at(s, s->run.n_steps ? (int64_t)ui_viewed_index(s) + steps : 0);
}

static bool takes_prompts(ui_state *s) {
    if (s->given.watches) ui_say(s, "%s: its clients send the prompts", ui_fixed(s));
    else if (s->given.recording) ui_say(s, "%s: it accepts no prompts", ui_fixed(s));
    return !s->given.recording;
}

bool ui_can_send(ui_state *s) {
    if (!takes_prompts(s)) return false;
    const char *why = ls_command_refusal(LS_CMD_PROMPT, s->run.state);
    if (!why && s->asked.sent) why = "the previous request has not started yet";
    if (why && s->run.state == LS_STATE_FAILED) ui_say_error(s, "%s; your input was kept", why);
    else if (why) ui_say(s, "%s%s; your input was kept", why, ui_busy(&s->run) ? " (^X)" : "");
    return !why;
}

static void preview_next(ui_state *s) {
    ls_accept rule;
    do {
        s->view.preview = (s->view.preview + 1) % LS_ACCEPT_COUNT;
        rule = ls_accept_usual(s->view.preview);
    } while (s->view.preview && !ls_accept_previews(&rule));
    const ls_stats *st = ui_stats(s, &s->drawn.statistics);
    if (!s->view.preview) ui_say(s, "no lossy rule is previewed");
    else if (s->run.n_steps && !ui_viewed(s)->exact)
        ui_say(s, "a preview needs an exact answer; this answer is not exact");
    else
        ui_say(s,
               "%s (lossy) would accept %" PRIu64 " of %" PRIu64 " rejected drafts, +%" PRIu64
               " token%s (! goes to the next one)",
               ls_accept_at(s->view.preview)->name, st->would_steps[s->view.preview], st->rejections,
               st->would_tokens[s->view.preview], ls_plural(st->would_tokens[s->view.preview]));
}

// Opens Compare, and starts a race on the last answer if it had none. False: Compare stays closed.
static bool compare(ui_state *s) {
    if (ui_raced(&s->run) || s->given.recording || s->run.state == LS_STATE_COMPARING) ui_open(s, UI_COMPARE, true);
    else if (ui_busy(&s->run)) ui_say(s, "wait for the answer to finish, then press c to compare");
    else if (!s->run.conversation->n_turns) ui_say(s, "no answer to compare yet");
    else ui_ask_rival(s, "plain");
    return s->shown.compare;
}

// ---- what-if: the model continues from a rejected draft, from another token, or from a text of the user, on a second
// KV cache; the result can be kept as the answer

// The viewed step if a what-if can begin there; else NULL, and a message with the reason.
static const ls_step *what_if_step(ui_state *s) {
    const ls_step *step = ui_viewed(s);
    const char *why = s->given.watches     ? "what-if needs a conversation of your own: 'logitspec chat'"
                      : s->given.recording ? "this is a recording: what-if needs a model"
                      : ui_busy(&s->run) || s->run.state == LS_STATE_COMPARING
                          ? "wait for the answer to finish, then press x"
                      : !step ? "no answer to branch from yet"
                      : ui_viewed_turn(s) != ui_last_turn(&s->run)
                          ? "what-if continues the last answer only (E edits an earlier prompt)"
                          : NULL;
    if (why) ui_say(s, "%s", why);
    return why ? NULL : step;
}

// What LS_CMD_FORK and LS_CMD_KEEP take. text: follows the ids; NULL: none.
static char *branch(const int32_t *ids, size_t n, const char *text) {
    ls_buf out = {0};
    for (size_t i = 0; i < n; i++) ls_buf_fmt(&out, "%d ", ids[i]);
    if (text) ls_buf_fmt(&out, "\n%s", text);
    return out.p;
}

static void ask_fork(ui_state *s, const ls_step *step, const int32_t *ids, int32_t n, const char *text) {
    ui_ask(s, LS_CMD_FORK, branch(ids, (size_t)n, text), step->output_pos);
    ui_open(s, UI_COMPARE, true);
}

// The row under the cursor; without a cursor the last one whose token was emitted.
static int chosen_row(const ui_state *s, const ls_step *step) {
    const bool cursor = s->view.node >= 0 || s->shown.inspect || s->shown.focus == UI_TREE;
    return cursor ? ui_inspected(s) : step->path[step->n_emitted - 1];
}

// From where the cursor is, or asks for a text.
static void what_if(ui_state *s) {
    int32_t ids[LS_MAX_ROWS];
    const ls_step *step = what_if_step(s);
    if (!step) return;
    const int row = chosen_row(s, step), other = s->shown.focus == UI_LOGITS ? s->list[UI_LOGITS].found : -1;
    if (other >= 0 && other < step->n_top) ask_fork(s, step, &step->top[other].id, 1, NULL);
    else if (row && step->tree.nodes[row].state != LS_NODE_ACCEPTED)
        ask_fork(s, step, ids, ls_tree_tokens(&step->tree, row, ids), NULL);
    else ui_type_line(s, ':', "what-if ");
}

void ui_what_if_text(ui_state *s, const char *text) {
    int32_t ids[LS_MAX_ROWS];
    const ls_step *step = what_if_step(s);
    if (!step) return;
    if (*text) ask_fork(s, step, ids, ls_tree_tokens(&step->tree, chosen_row(s, step), ids), text);
    else ui_say(s, "what-if TEXT: the model continues after TEXT (start a new word with a space)");
}

bool ui_can_keep(const ui_state *s) {
    return s->run.rival.begun.n && ui_raced(&s->run);
}

static void keep_fork(ui_state *s) {
    const ui_rival *r = &s->run.rival;
    if (s->given.recording && !ui_can_keep(s)) ui_say(s, "this is a recording: what-if needs a model");
    else if (!ui_can_keep(s)) ui_say(s, "no what-if to keep: press x on a draft to make one");
    else if (!r->done) ui_say(s, "the what-if is still running: press K when it has finished, or ^X to stop it");
    else ui_ask(s, LS_CMD_KEEP, branch(r->begun.p, r->begun.n, NULL), r->at);
}

// ----

void ui_act(ui_state *s, ui_action a) {
    switch (a) {
    case UI_ACT_HELP: ui_toggle(s, UI_HELP); break;
    case UI_ACT_PROMPT:
        if (takes_prompts(s)) ui_to_prompt(s);
        break;
    case UI_ACT_RUN_PAUSE:
        if (ended(s) || ui_demo_hold(s)) break;
        if (!ui_busy(&s->run)) {
            s->asked.starts_paused = !s->asked.starts_paused;
            ui_say(s, s->asked.starts_paused ? "the next answer will start paused: s (F6) decodes one step"
                                             : "the next answer will not pause");
            ui_ask(s, s->asked.starts_paused ? LS_CMD_PAUSE : LS_CMD_RUN, NULL, 0);
            break;
        }
        ui_ask(s, s->run.state == LS_STATE_PAUSED ? LS_CMD_RUN : LS_CMD_PAUSE, NULL, 0);
        if (s->run.state == LS_STATE_PAUSED) {
            ui_quiz_go_on(s);
            s->view.at_newest = true;
        }
        break;
    case UI_ACT_STEP:
    case UI_ACT_STEP_10:
        if (ended(s)) break;
        if (!ui_busy(&s->run)) ui_say(s, "nothing is being decoded: type a prompt first");
        else {
            ui_quiz_go_on(s);
            s->view.at_newest = s->playing.held = true;
            ui_ask(s, LS_CMD_STEP, NULL, a == UI_ACT_STEP ? 1 : 10);
        }
        break;
    case UI_ACT_BACK: move_view(s, -1); break;
    case UI_ACT_FORWARD: move_view(s, 1); break;
    case UI_ACT_BACK_10: move_view(s, -10); break;
    case UI_ACT_FORWARD_10: move_view(s, 10); break;
    case UI_ACT_FIRST: move_view(s, -ALL_STEPS); break;
    case UI_ACT_LIVE:
        if (s->given.watches) ui_requests_follow(s);
        else move_view(s, ALL_STEPS);
        break;
    case UI_ACT_STOP:
        if (s->given.watches) ui_say(s, "a request ends when its client leaves");
        else if (s->given.recording && ui_busy(&s->run)) ui_say(s, "this is a recording: Space pauses it");
        else if (ui_busy(&s->run) || s->run.state == LS_STATE_COMPARING) {
            ui_ask(s, LS_CMD_STOP, NULL, 0);
            ui_say(s, "stopped; the text so far is kept");
        } else what_if(s);
        break;
    case UI_ACT_WHAT_IF: what_if(s); break;
    case UI_ACT_KEEP: keep_fork(s); break;
    case UI_ACT_NEXT_REJECTION: ui_jump(s, UI_FIND_REJECTION, 1); break;
    case UI_ACT_PREV_REJECTION: ui_jump(s, UI_FIND_REJECTION, -1); break;
    case UI_ACT_NEXT_LOSSY: ui_jump(s, UI_FIND_LOSSY, 1); break;
    case UI_ACT_PREVIEW: preview_next(s); break;
    case UI_ACT_WORST: ui_jump_extreme(s, -1); break;
    case UI_ACT_BEST: ui_jump_extreme(s, 1); break;
    case UI_ACT_SEARCH: ui_type_line(s, '/', ""); break;
    case UI_ACT_SEARCH_NEXT: ui_look_for(s, 1); break;
    case UI_ACT_SEARCH_PREV: ui_look_for(s, -1); break;
    case UI_ACT_FILTER:
        if (ui_rows_in(s->shown.focus))
            ui_type_line(s, '\\', s->list[s->shown.focus].filter ? s->list[s->shown.focus].filter : "");
        else ui_say(s, "only Logits (2), Drafts (3) and Tree (4) can be filtered");
        break;
    case UI_ACT_SORT:
    case UI_ACT_REVERSE:
        if (!ui_rows_sort(s, s->shown.focus, a == UI_ACT_REVERSE))
            ui_say(s, "only Logits (2) and Drafts (3) can be sorted");
        break;
    case UI_ACT_NEXT_PANEL: cycle_focus(s, 1); break;
    case UI_ACT_PREV_PANEL: cycle_focus(s, -1); break;
    case UI_ACT_PANEL_6:
        ui_open(s, UI_INSPECT, true);
        ui_focus(s, UI_INSPECT);
        break;
    case UI_ACT_PANEL_7:
        if (!s->shown.compare && !compare(s)) ui_open(s, UI_COMPARE, true); // the empty panel says how to use it
        ui_focus(s, UI_COMPARE);
        break;
    case UI_ACT_PANEL_8:
        if (s->given.watches) ui_focus(s, UI_REQUESTS);
        else ui_say(s, "'logitspec serve' and 'logitspec watch' show requests");
        break;
    case UI_ACT_COMPARE:
        if (s->shown.compare && ui_raced(&s->run)) ui_open(s, UI_COMPARE, false);
        else compare(s);
        break;
    case UI_ACT_INSPECT: // Compare may be in its place
        ui_open(s, UI_INSPECT, !s->shown.inspect || (s->shown.compare && !s->shown.inspect_last));
        break;
    case UI_ACT_LEFT:
    case UI_ACT_RIGHT:
        if (s->shown.focus == UI_TREE || s->shown.focus == UI_INSPECT) ui_move_deeper(s, a == UI_ACT_RIGHT);
        else ui_move_token(s, a == UI_ACT_RIGHT ? 1 : -1);
        break;
    case UI_ACT_MASK: s->view.mask = !s->view.mask; break;
    case UI_ACT_PANEL_1:
    case UI_ACT_PANEL_2:
    case UI_ACT_PANEL_3:
    case UI_ACT_PANEL_4:
    case UI_ACT_PANEL_5: ui_focus(s, (ui_panel)(a - UI_ACT_PANEL_1)); break;
    case UI_ACT_ZOOM:
        s->shown.zoom =
            s->shown.zoom == UI_NO_PANEL ? (s->shown.focus == UI_NO_PANEL ? UI_OUTPUT : s->shown.focus) : UI_NO_PANEL;
        break;
    case UI_ACT_UP: ui_scroll(s, -1); break;
    case UI_ACT_DOWN: ui_scroll(s, 1); break;
    case UI_ACT_PAGE_UP: ui_scroll(s, -PAGE); break;
    case UI_ACT_PAGE_DOWN: ui_scroll(s, PAGE); break;
    case UI_ACT_TOP: ui_scroll(s, -(1 << 20)); break;
    case UI_ACT_BOTTOM: ui_scroll(s, 1 << 20); break;
    case UI_ACT_TREE_MODE:
        s->view.tree_full = !s->view.tree_full;
        s->drawn.scroll[UI_TREE] = 0;
        break;
    case UI_ACT_BRACKETS: s->view.brackets = !s->view.brackets; break;
    case UI_ACT_FOLD: s->view.folded = !s->view.folded; break;
    case UI_ACT_ASCII: s->view.ascii = !s->view.ascii; break;
    case UI_ACT_COMMAND: ui_type_line(s, ':', ""); break;
    case UI_ACT_REGENERATE:
        if (ui_can_send(s) && s->run.conversation->n_turns)
            ui_ask(s, LS_CMD_EDIT, ls_strdup(ui_prompt_of(&s->run, ui_last_turn(&s->run))),
                   (int)s->run.conversation->n_turns - 1);
        break;
    case UI_ACT_EDIT_TURN:
        if (!takes_prompts(s)) break;
        if (!s->run.conversation->n_turns) {
            ui_say(s, "no prompt yet");
            break;
        }
        s->typed.editing = (int)(ui_viewed_turn(s) - s->run.turns);
        ui_edit_set(&s->typed.prompt, ui_prompt_of(&s->run, ui_viewed_turn(s)));
        ui_to_prompt(s);
        ui_say(s, "edit the prompt: Enter answers it again and discards later turns, Esc cancels");
        break;
    case UI_ACT_EDITOR: s->asked.editor = takes_prompts(s); break;
    case UI_ACT_NEW:
        if (s->given.watches) ui_say(s, "%s: its clients begin conversations", ui_fixed(s));
        else ui_ask(s, LS_CMD_RESET, NULL, 0);
        break;
    case UI_ACT_COPY: ui_export_text(s, NULL); break;
    case UI_ACT_COPY_STEP: ui_export_step(s, NULL); break;
    case UI_ACT_PAPER: ui_paper_step(s); break;
    case UI_ACT_QUIZ: ui_quiz_toggle(s); break;
    case UI_ACT_SHADOWS: ui_toggle(s, UI_SHADOWS); break;
    case UI_ACT_SETUP: ui_toggle(s, UI_SETUP); break;
    case UI_ACT_THEME: s->asked.themes++; break;
    case UI_ACT_MOUSE: s->asked.mice++; break;
    case UI_ACT_LOG: ui_toggle(s, UI_LOG); break;
    case UI_ACT_REDRAW: s->asked.redraw = true; break;
    case UI_ACT_SUSPEND: s->asked.suspend = true; break;
    case UI_ACT_CLOSE: ui_close(s); break;
    case UI_ACT_QUIT:
        if (ui_may_quit(s)) s->asked.quit = true;
        break;
    case UI_ACT_NONE: break;
    }
}
