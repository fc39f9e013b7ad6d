// The files by which the system says what it is and grants (/proc, /sys).
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Puts what follows key in the first line that begins with it into out, cut to size, without the line's end; key "":
// the first line. False: there is no such file or line, and out is "".
bool ls_sysfile_line(const char *path, const char *key, char *out, size_t size);
