// Conversations that outlive a process that ends unasked: a file for each process, in the user's state folder.
#pragma once
#include "base/err.h"

#include <stdbool.h>

enum { LS_KEPT_FILES = 8, LS_KEPT_DAYS = 30, LS_KEPT_BYTES = 64 << 20 }; // at most

// The file of this process, always the same; owned by the caller, NULL where there is no such folder.
char *ls_kept_path(void);
// The newest one whose process is gone; owned by the caller, NULL: none. Deletes what is too old or too many.
char *ls_kept_left(void);
bool ls_kept_is(const char *path); // a file of such a name, in that folder
