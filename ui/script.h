// The screen without a terminal, driven by a script: for tests, for pictures, for films.
//
// One command a line (script.def), # begins a comment.
// Without a script the screen goes on until the answer or the recording has ended.
#pragma once
#include "ui/app.h"

typedef enum {
#define SCRIPT(name, word, argument, help) UI_SCRIPT_##name,
#include "ui/script.def"
#undef SCRIPT
    UI_SCRIPT_LINES
} ui_script_what;

typedef struct {
    const char *word, *argument, *help;
} ui_script_line;

extern const ui_script_line ui_script_lines[]; // UI_SCRIPT_LINES of them, by ui_script_what

typedef struct {
    const char *script; // file; NULL: none
    const char *cast;   // file for an asciicast of it all; NULL: none
    int rows, cols;
} ui_play;

// As ui_run. LS_E_RANGE with "FILE:LINE: ..." where the screen is not as the script says; what the screen shows
// goes to standard error.
ls_code ui_run_script(ls_source *source, const ui_options *o, const ui_play *play, int *exit_code, ls_err *err);
