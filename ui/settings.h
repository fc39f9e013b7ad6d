// Settings that can change during a run: which of them apply now, their usual values, and the preset of the paper's
// method.
#pragma once
#include "ui/state.h"

// A knob applies only with its method or sizing rule.
bool ui_setting_applies(const ui_state *s, const ui_setting *t);
const ui_setting *ui_setting_of(const ui_state *s, const char *key); // NULL: it cannot change here
void ui_setting_move(ui_state *s, int by);                           // to the next or previous one that applies
// The usual value after (by: 1) or before (-1) the one in force; NULL: the setting has none.
const char *ui_setting_choice(const ui_setting *t, int by, char *out, size_t size);
void ui_setting_ask(ui_state *s, const ui_setting *t, const char *value); // one of s->setup
const char *ui_setting_now(const ui_setting *t);                          // the value that it has or will have
void ui_settings_save(ui_state *s);                                       // to the user's configuration
// Sets the published method with 16 rows a step (affordable on a CPU). If it is set, restores the previous settings.
void ui_paper_step(ui_state *s);
// Called after each message about a setting. After the one of the preset's last setting, shows one message about the
// whole preset instead.
void ui_paper_said(ui_state *s);
