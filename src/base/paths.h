// Where the program finds its files: beside the executable in a source checkout, or under PREFIX when installed.
#pragma once
#include <stdbool.h>

const char *ls_exe_dir(void); // folder of the running executable, no trailing slash; valid for the process's life
// Path of a user file: $VARIABLE/logitspec/name, or ~/fallback/logitspec/name if $VARIABLE is not an absolute path
// (such as XDG_STATE_HOME, .local/state). Owned by the caller; NULL: HOME is not an absolute path either.
char *ls_user_path(const char *variable, const char *fallback, const char *name);
char *ls_real_path(const char *path);   // absolute and without links, owned by the caller; NULL with errno
bool ls_is_missing(int error);          // errno of a missing file, or of a path through a file (HOME=/dev/null)
void ls_make_folders(const char *path); // creates the parent folders of a file, for the user only

// Path of a shipped file such as "configs/default.yaml": the first one that exists, one to three folders above the
// executable (a checkout: build/, build/tests/, build/san/tests/) or in ../share/logitspec. If none exists, the path
// one folder above. Owned by the caller.
char *ls_data_path(const char *rel);
