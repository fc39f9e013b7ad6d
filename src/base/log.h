// A log to send with a report (--log FILE): a line for each command, event, state, setting, step and decision, behind
// the seconds since it was opened. It is off until then. Any thread may write a line.
#pragma once
#include "base/err.h"

#include <stdbool.h>

// Begins the file anew, for its owner alone. text: prompts and answers go there, too. LS_E_IO.
ls_code ls_log_open(const char *path, bool text, ls_err *err);
bool ls_log_is_on(void);
bool ls_log_has_text(void);
int ls_log_failure(void); // errno of the first line that could not be written, else 0
// Whether a setting or a line that names it may stand there: a system message or a stop text may not, unless texts may.
bool ls_log_may_hold(const char *said);
// A line, without what would break it; nothing where the log is off.
void ls_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
