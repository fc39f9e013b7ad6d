// Conversations that survive a process that ends unexpectedly: a file for each process, in the user's state folder. A
// lock file beside it is locked while the process runs. A process id is not enough for that, because ids are reused and
// differ between containers.
#pragma once
#include "base/err.h"

#include <stdbool.h>

enum { LS_AUTOSAVE_FILES = 8, LS_AUTOSAVE_DAYS = 30, LS_AUTOSAVE_BYTES = 64 << 20 }; // limits

// The path of this process's file, always the same, for a file that does not exist yet; owned by the caller. NULL: the
// state folder cannot be made or written; err has the folder and the reason.
char *ls_autosave_path(ls_err *err);
// The files whose process has ended, the newest first, ending with NULL; array and strings are owned by the caller.
// Deletes files above the limits of age and number.
char **ls_autosave_left(void);
void ls_autosave_free(char **left);
bool ls_autosave_is_left(const char *path); // whether it is one of these files
// Deletes the file if it is one of these.
void ls_autosave_forget(const char *path);
// Call when the process ends: keeps or deletes its file.
void ls_autosave_end(bool stays);
