// Settings that can change while it runs: which of them mean something now, their usual values, and the preset of the
// paper's step.
#pragma once
#include "ui/state.h"

// A knob means something with its method or sizing rule only.
bool ui_setting_applies(const ui_state *s, const ui_setting *t);
ui_setting *ui_setting_of(ui_state *s, const char *key); // NULL: it cannot change here
void ui_setting_move(ui_state *s, int by);               // to the next or previous one that applies
// The usual value after (by: 1) or before (-1) the one in force; NULL: the setting has none.
const char *ui_setting_choice(const ui_setting *t, int by, char *out, size_t size);
void ui_setting_ask(ui_state *s, ui_setting *t, const char *value);
const char *ui_setting_now(const ui_setting *t); // the value that it has or will have
void ui_settings_save(ui_state *s);              // to the user's configuration
// The published method with 16 rows a step, which a CPU can bear; where that is set, what was set before.
// After a message that a setting is in force: where it was the last one of the preset, says what the preset did instead.
void ui_paper_said(ui_state *s);
void ui_paper_step(ui_state *s);
