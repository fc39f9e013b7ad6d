// An empty conversation: what it offers by number, and the legend of the tokens' colours.
#pragma once
#include "ui/widgets.h"

typedef struct {
    char key; // 0 ends the list
    const char *offer, *prompt;
} ui_starter;
extern const ui_starter ui_starters[];

bool ui_can_begin(const ui_state *s);         // nothing was prompted yet, and a prompt could be
bool ui_welcome_key(ui_state *s, int key);    // of the prompt line; false: it is text, as ever
void ui_legend(ui_pen *p, const ui_state *s); // as much as fits, whole words only
