// A conversation as lines of text: prompts from standard input, one line per step, no cursor movements. For screen
// readers, logs and pipes. Errors go to standard error; if standard input is a pipe, the exit code then is not 0.
#pragma once
#include "source/source.h"
#include "ui/app.h"

// Takes ownership of the source. *status: the exit code.
ls_code ls_plain_chat(ls_source *source, const ui_options *o, int *status, ls_err *err);
