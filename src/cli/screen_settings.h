// What the screen's Setup knows of options: those that can change while it runs, what their values mean, and the user's
// configuration.
#pragma once
#include "cli/options.h"
#include "ui/state.h"

const ui_setting *ls_screen_settings(const ls_options *o); // as they are now; ends with a NULL key
const char *const *ls_screen_words(void);                  // what commands complete to; ends with NULL
const char *ls_screen_about(const char *key, const char *value);
// Writes those that a plain start would not have to the user's configuration; *said: what came of it, also on errors.
ls_code ls_screen_save(const ui_setting *settings, int n, char *said, size_t size);
