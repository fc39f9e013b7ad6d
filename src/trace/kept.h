// Conversations that outlive a process that ends unasked: a file for each process, in the user's state folder. A file
// beside it, locked as long as the process lives, says that it does: process ids come again, and mean others elsewhere.
#pragma once
#include "base/err.h"

#include <stdbool.h>

enum { LS_KEPT_FILES = 8, LS_KEPT_DAYS = 30, LS_KEPT_BYTES = 64 << 20 }; // at most

// The file of this process, always the same, which is not there yet; owned by the caller. NULL: there is no such
// folder, or it cannot be written.
char *ls_kept_path(void);
// Those whose process is gone, the newest first, ending with NULL; owned by the caller, with the strings. Deletes what
// is too old or too many.
char **ls_kept_left(void);
void ls_kept_free(char **left);
bool ls_kept_is_left(const char *path); // it is one of those
// Deletes it, if it is.
void ls_kept_forget(const char *path);
// The process ends: its file stays, or is deleted.
void ls_kept_end(bool stays);
