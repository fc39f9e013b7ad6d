#include "ui/welcome.h"
#include "ui/modes.h"

#include <string.h>

const ui_starter ui_starters[] = {
#define STARTER(key, offer, prompt) {key, offer, prompt},
#include "ui/starters.def"
#undef STARTER
    {0}};

bool ui_can_begin(const ui_state *s) {
    return !s->n_turns && !s->recording && !s->demo && s->editing < 0 && s->run_state != LS_STATE_FAILED;
}

bool ui_welcome_key(ui_state *s, int key) {
    if (!ui_can_begin(s) || s->prompt.text.n) return false;
    for (const ui_starter *t = ui_starters; t->key; t++) {
        if (t->key != key || (!t->prompt && !s->has_tour)) continue;
        if (t->prompt) {
            ui_edit_set(&s->prompt, t->prompt);
            ui_send_prompt(s);
        } else s->want_tour = true;
        return true;
    }
    return false;
}

void ui_legend(ui_pen *p, const ui_state *s) {
    for (int kind = 0; kind <= LS_KIND_COUNT; kind++) { // the last: no source, but what a wrong draft gave way to
        if (kind == LS_KIND_DRAFTED && !*s->header.second) continue; // nothing drafts so here
        const char *word = kind < LS_KIND_COUNT ? ls_source_kinds[kind].word : "correction";
        if ((int)strlen(word) + 1 > p->end - p->col) return;
        p->col++; // the frame's line
        p->role = (uint8_t)(kind < LS_KIND_COUNT ? ui_kind_role((ls_from_kind)kind) : UI_CORRECTED);
        ui_print(p, "%s", word);
    }
}
