#include "ui/welcome.h"
#include "base/mem.h"
#include "ui/modes.h"
#include "ui/navigate.h"

#include <string.h>

static const struct {
    char key;
    const char *offer, *prompt;
    bool tour, left;
} starters[] = {
#define STARTER(key, offer, prompt, ...) {key, offer, prompt, __VA_ARGS__},
#include "ui/starters.def"
#undef STARTER
};
enum { STARTERS = sizeof starters / sizeof *starters };

static bool is_there(const ui_state *s, int i) {
    return starters[i].tour ? s->has_tour : !starters[i].left || (s->left && *s->left);
}

bool ui_can_begin(const ui_state *s) {
    return !s->n_turns && !s->recording && !s->demo && s->editing < 0 && s->run_state != LS_STATE_FAILED;
}

const char *ui_welcome_offer(const ui_state *s, int i, char *key) {
    if (!ui_can_begin(s) || i >= STARTERS) return NULL;
    *key = starters[i].key;
    return is_there(s, i) ? starters[i].offer : "";
}

bool ui_welcome_choose(ui_state *s, const char *prompt) {
    if (!ui_can_begin(s)) return false;
    for (int i = 0; i < STARTERS; i++) {
        if (prompt[0] != starters[i].key || prompt[1] || !is_there(s, i)) continue;
        if (!starters[i].tour && !ui_can_send(s)) return true; // it stays typed
        ui_edit_clear(&s->prompt);
        if (starters[i].tour) s->want_tour = true;
        else if (starters[i].left) {
            ui_request_of(s, LS_CMD_LOAD, ls_strdup(*s->left), 0);
            s->left++; // if it cannot be loaded, the one before it is offered
            if (s->run_state == LS_STATE_LOADING) ui_say(s, "the model is loading; the conversation is queued", false);
        } else {
            ui_edit_set(&s->prompt, starters[i].prompt);
            ui_send_prompt(s);
        }
        return true;
    }
    return false;
}

void ui_legend(ui_pen *p, const ui_state *s) {
    for (int kind = 0; kind <= LS_KIND_COUNT; kind++) {              // the last one is no source: corrections
        if (kind == LS_KIND_DRAFTED && !*s->header.second) continue; // nothing drafts so here
        const char *word = kind < LS_KIND_COUNT ? ls_source_kinds[kind].word : "correction";
        if ((int)strlen(word) + 1 > p->end - p->col) return;
        p->col++; // the frame's line
        p->role = (uint8_t)(kind < LS_KIND_COUNT ? ui_kind_role((ls_from_kind)kind) : UI_CORRECTED);
        ui_print(p, "%s", word);
    }
}
