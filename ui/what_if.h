// What-if: the model continues from a rejected draft, from another token, or from a text of the user, on a second
// timeline. The result can be kept as the answer.
#pragma once
#include "ui/panels.h"

void ui_what_if(ui_state *s);                        // from where the cursor is, or asks for a text
void ui_what_if_text(ui_state *s, const char *text); // behind the token under the cursor
void ui_keep(ui_state *s);
void ui_draw_fork(ui_panel_view *v); // in Compare's place
