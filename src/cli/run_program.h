// Runs another program on this terminal.
#pragma once
#include "base/err.h"

// arguments: the program, searched in PATH, and its arguments; ends with NULL. needed: who needs it and how to install
// it, for the message if it is missing. If the program fails, it has printed the reason, and err stays empty (LS_E_IO).
// SIGINT, SIGTERM and SIGHUP end it (LS_E_CANCELLED), also if only this process gets them. It ends with this process.
// Not thread-safe.
ls_code ls_run_program(char *const *arguments, const char *needed, ls_err *err);
