// System files with facts and limits of the machine (/proc, /sys).
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Finds the first line that begins with key ("": the first line) and copies the text after key to out, without the
// newline, cut to size. False: there is no such file or line, and out is "".
bool ls_sysfile_line(const char *path, const char *key, char *out, size_t size);
