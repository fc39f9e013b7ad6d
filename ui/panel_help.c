// What every key does, from the table of actions.
#include "ui/command.h"
#include "ui/panels.h"

#include <stdio.h>
#include <string.h>

static const char *const words[] = {
    "root: the model's own next token, always right.  draft: a guess at what follows it.",
    "R: what followed this text before (retrieved).  M: what the target said here before (remembered).",
    "H: what followed it in this or an earlier conversation.  C: in your corpus.  W: a window of guesses (lookahead).",
    "#n: rank n of the last logits, a guess at the next-next token, with what followed it before.",
    "n@pos: an n-gram of that length matched; its continuation was copied from that position (=n: from elsewhere).",
    "accepted (* or a dot), rejected (! or a cross), not reached (o): signs say it, not colour alone.",
    "LOSSY: a draft that is not the target's own choice may stand (~ or a double wave), and the text may differ.",
    "cut: tokens that were found behind a branch but not drafted, because the step had no rows left.",
    "MAT: tokens emitted / decode steps; plain decoding has 1.  Speedup: against plain decoding timed here.",
};

static void entry(ui_pen *p, const char *key, const char *name, const char *help) {
    const int col = p->col;
    ui_print(p, "  %s", key);
    ui_pad(p, col + 14);
    p->role = UI_LABEL;
    ui_print(p, "%s", name);
    ui_pad(p, col + 34);
    p->role = UI_TEXT;
    ui_print(p, "%s", help);
}

void ui_panel_help(ui_panel_view *v) {
    const int n_words = (int)(sizeof words / sizeof *words);
    int n_verbs = 0;
    while (ui_verbs[n_verbs].name) n_verbs++;
    const int n = UI_ACTIONS + n_verbs + n_words + 3,
              top = ui_scroll_top(&v->state->overlay_scroll[UI_HELP], n, v->area.rows);
    for (int i = 0; i < v->area.rows && top + i < n; i++) {
        const int action = top + i, verb = action - UI_ACTIONS - 1, word = verb - n_verbs - 1;
        ui_pen p = ui_pen_at(v->canvas, v->area, i, UI_KEY);
        if (verb < -1) entry(&p, ui_action_keys((ui_action)action), ui_actions[action].name, ui_actions[action].help);
        else if (verb == -1) entry(&p, "Enter", "send", "send the prompt (Esc leaves the prompt line for the panels)");
        else if (verb < n_verbs) {
            char typed[40];
            snprintf(typed, sizeof typed, ":%s%s", ui_verbs[verb].name, ui_verbs[verb].argument);
            entry(&p, typed, "", ui_verbs[verb].help);
        } else if (word >= 0 && word < n_words) {
            p.role = UI_TEXT;
            ui_print(&p, "  %s", words[word]);
        }
    }
    strcpy(v->right, top + v->area.rows < n ? "j, k and page keys scroll, any other closes" : "any other key closes");
}
