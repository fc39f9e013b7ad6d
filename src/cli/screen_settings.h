// Options for the panel Setup of the screen: the options that can change at run time, the meaning of their values, and
// saving them to the user's configuration.
#pragma once
#include "cli/options.h"
#include "ui/state.h"

const ui_setting *ls_screen_settings(const ls_options *o); // current values; ends with a NULL key
const char *const *ls_screen_words(void);                  // completions of typed commands; ends with NULL
const char *ls_screen_about(const char *key, const char *value);
// Saves the settings that differ from a start without flags to the user's configuration. said: a message about the
// result, also on errors.
ls_code ls_screen_save(const ui_setting *settings, int n, char *said, size_t size);
