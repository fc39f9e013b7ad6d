// An empty conversation: what it offers by number, and the legend of the tokens' colours.
#pragma once
#include "ui/widgets.h"

bool ui_can_begin(const ui_state *s); // no prompt was sent yet, and one can be sent
// Carries out an offer if the prompt is its number. False: it is a prompt.
bool ui_welcome_choose(ui_state *s, const char *prompt);
// The offer of that number, from 0; NULL: there is none.
const char *ui_welcome_offer(const ui_state *s, int i, char *key);
void ui_legend(ui_pen *p, const ui_state *s); // as much as fits, whole words only
