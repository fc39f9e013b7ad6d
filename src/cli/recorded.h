// A whole trace in memory, as the screen would have it: for commands that show or compare recordings in plain text.
#pragma once
#include "cli/commands.h"
#include "ui/state.h"

// Reads the trace into a fresh state (ui_state_free). torn: the last line was cut short. Errors name file and line.
ls_code ls_recorded_load(ui_state *out, const char *path, bool *torn, ls_err *err);
// The text of a token, as on the screen.
void ls_recorded_token(const ui_state *s, int32_t id, ls_buf *out);
