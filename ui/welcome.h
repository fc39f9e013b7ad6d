// An empty conversation: what it offers by number, and the legend of the tokens' colours.
#pragma once
#include "ui/widgets.h"

bool ui_can_begin(const ui_state *s); // nothing was prompted yet, and a prompt could be
// A prompt that is one of the numbers alone chooses what it stands for. False: it is a prompt.
bool ui_welcome_choose(ui_state *s, const char *prompt);
// The offer of that number, from 0; NULL: there is none.
const char *ui_welcome_offer(const ui_state *s, int i, char *key);
void ui_legend(ui_pen *p, const ui_state *s); // as much as fits, whole words only
