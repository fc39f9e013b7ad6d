// What if: the model goes on from a draft that was rejected, from another token, or from a text of the user's, on a
// second timeline; what it writes can be kept as the answer.
#pragma once
#include "ui/panels.h"

void ui_what_if(ui_state *s);                        // from where the cursor is, or asks for a text
void ui_what_if_text(ui_state *s, const char *text); // behind the token under the cursor
void ui_keep(ui_state *s);
void ui_draw_fork(ui_panel_view *v); // in Compare's place
