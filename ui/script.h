// The screen without a terminal, driven by a script: for tests, for pictures, for films.
//
// One command a line, # begins a comment:
//   size COLSxROWS     of the screen (120x36)
//   type TEXT          as if it were typed
//   key NAME...        F5, Space, Enter, Esc, ^X, Up, s, ... one after another
//   wait TEXT          until the screen shows it, for a minute at most
//   expect TEXT        the screen shows it now       reject TEXT: it does not
//   pause SECONDS      goes on meanwhile
//   save FILE          the screen as .txt, .ansi or .svg
// Without a script the screen goes on until the answer or the recording has ended.
#pragma once
#include "ui/app.h"

typedef struct {
    const char *script; // file; NULL: none
    const char *cast;   // file for an asciicast of it all; NULL: none
    int rows, cols;
} ui_play;

// As ui_run. LS_E_RANGE with "FILE:LINE: ..." where the screen is not as the script says; what the screen shows
// goes to standard error.
ls_code ui_run_script(ls_source *source, const ui_options *o, const ui_play *play, int *exit_code, ls_err *err);
