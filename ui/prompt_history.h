// What the user typed in earlier sessions: each line is a JSON list of one text, oldest first, in a file that only the
// user can read. A prompt is added when it is sent, so several screens can share the file, and a screen that is killed
// loses nothing.
#pragma once
#include "base/err.h"
#include "ui/edit.h"

// Reads what it can; a missing or damaged file is no error. Cuts a file that has grown to its last thousand prompts.
void ui_history_load(ui_edit *e, const char *path);
// Adds what was typed since the last call. LS_E_IO, LS_E_RANGE (a prompt is too long) with the reason.
ls_code ui_history_add(ui_edit *e, const char *path, ls_err *err);
