// Texts for other programs: the terminal's clipboard (by OSC 52), or a file.
#pragma once
#include "ui/state.h"

// Appends the tokens of a turn's answer; a quiz hides its end.
void ui_answer_text(const ui_state *s, const ui_turn *t, ls_buf *out);
void ui_copy_text(ui_state *s);                   // of the answer; in Logits, Drafts and Tree what the cursor is on
void ui_copy_step(ui_state *s);                   // the viewed step in words
void ui_save_text(ui_state *s, const char *path); // the answer of the viewed turn
void ui_save_step(ui_state *s, const char *path);
