// What was typed in earlier sessions: one JSON list of one text a line, oldest first, readable by the user only.
#pragma once
#include "ui/edit.h"

void ui_history_load(ui_edit *e, const char *path); // a missing or damaged file is no error: what can be read is taken
void ui_history_save(const ui_edit *e, const char *path); // the last thousand; fails silently
