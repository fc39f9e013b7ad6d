// Another program, run on this terminal.
#pragma once
#include "base/err.h"

// arguments: the program, found in PATH, and what it is given; ends with NULL. needed: by what, and how to get it, for
// the message where it is missing. If it fails, it has said why, and err stays empty (LS_E_IO). SIGINT, SIGTERM
// and SIGHUP end it (LS_E_CANCELLED), also those that this process alone gets. It ends with this process. One thread.
ls_code ls_run_program(char *const *arguments, const char *needed, ls_err *err);
