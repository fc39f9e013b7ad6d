// A log to send with a bug report (--log FILE): one line for each command, event, state, setting, step and decision,
// each after the seconds since the log was opened. Before ls_log_open the log is off. Any thread may write a line.
#pragma once
#include "base/err.h"

#include <stdbool.h>

// Creates or truncates the file, for its owner only. text: the log also has prompts and answers. LS_E_IO.
ls_code ls_log_open(const char *path, bool text, ls_err *err);
bool ls_log_is_on(void);
bool ls_log_has_text(void);
int ls_log_failure(void); // errno of the first line that could not be written, else 0
// Whether the log may have this setting, or a line that names it. Settings with user text (a system message, a stop
// text) need ls_log_has_text.
bool ls_log_may_hold(const char *said);
// Writes one line, with control characters as blanks; does nothing if the log is off.
void ls_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
