// Changes to a configuration file that a person wrote: its comments, order and other keys stay.
#pragma once
#include "base/err.h"

typedef struct {
    const char *key, *value; // "decode.method", "pld"
} ls_config_change;

// Sets keys in the file, which is made where it is missing, whole or not at all. What is written is read again before
// it takes the place of the old file: if anything but these keys would have changed, LS_E_USAGE names the place, and
// the file stays.
ls_code ls_config_file_change(const char *path, const ls_config_change *changes, int n, ls_err *err);
