// `tune --fit c2t TRACE...`: fits the weights of the sizing rule c2t to recordings.
#pragma once
#include "cli/commands.h"

ls_code ls_tune_fit(const ls_command_line *c, ls_console *to, ls_err *err);
