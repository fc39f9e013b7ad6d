// Changes single keys of a configuration file that a user wrote; comments, order and other keys stay.
#pragma once
#include "base/err.h"

typedef struct {
    const char *key, *value; // "decode.method", "pld"
} ls_config_change;

// Sets all keys in the file or none; creates a missing file. The new text is parsed before it replaces the old file: if
// anything but these keys would change, the result is LS_E_USAGE and the file stays.
ls_code ls_config_file_change(const char *path, const ls_config_change *changes, int n, ls_err *err);
