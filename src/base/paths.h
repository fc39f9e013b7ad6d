// Where the program finds its files: beside the executable in a source checkout, or under PREFIX when installed.
#pragma once
#include <stdbool.h>

const char *ls_exe_dir(void); // folder of the running executable, no trailing slash; valid for the process's life
// Path of a file of the user's: $VARIABLE/logitspec/name, where that is no absolute path ~/fallback/logitspec/name
// (such as XDG_STATE_HOME, .local/state). Owned by the caller; NULL where there is no such place.
char *ls_user_path(const char *variable, const char *fallback, const char *name);
char *ls_real_path(const char *path);   // absolute and without links, owned by the caller; NULL with errno
bool ls_is_missing(int error);          // an errno: the file is not there, nor need its folder be one (HOME=/dev/null)
void ls_make_folders(const char *path); // those that the file lies in, for the user only

// Path of a shipped file such as "configs/default.yaml": the first that exists one to three folders above the
// executable (a checkout: build/, build/tests/, build/san/tests/) or in ../share/logitspec; where none does, one
// folder above. Owned by the caller.
char *ls_data_path(const char *rel);
