// A conversation as lines of text: prompts from standard input, a line for each step, no cursor movements. For screen
// readers, logs and pipes. Errors go to standard error; through a pipe they make the program fail at its end.
#pragma once
#include "source/source.h"
#include "ui/app.h"

// Takes the source. *status: the program's exit code.
ls_code ls_plain_chat(ls_source *source, const ui_options *o, int *status, ls_err *err);
