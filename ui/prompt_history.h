// What was typed in earlier sessions: one JSON list of one text a line, oldest first, readable by the user only. Each
// prompt is added when it is sent, so that several screens share the file and one that is killed loses nothing.
#pragma once
#include "base/err.h"
#include "ui/edit.h"

// Takes what can be read; a missing or damaged file is no error. A file that has grown is cut to its last thousand.
void ui_history_load(ui_edit *e, const char *path);
// Adds what was typed since it was called last. LS_E_IO, LS_E_RANGE (a prompt is too long) with the reason.
ls_code ui_history_add(ui_edit *e, const char *path, ls_err *err);
