// Whole files: read-only mapping, reading a stream to its end, and replacing a file at once.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    const unsigned char *p; // NULL when empty
    size_t n;
} ls_mapping;

// Maps path read-only. Errors: LS_E_IO with path and reason.
ls_code ls_map_open(ls_mapping *out, const char *path, ls_err *err);
void ls_map_close(ls_mapping *m);
// Appends everything from f to b, at most `limit` bytes (more is LS_E_RANGE). `name` is for messages.
ls_code ls_read_all(ls_buf *b, FILE *f, const char *name, size_t limit, ls_err *err);

ls_code ls_write_file(const char *path, const ls_buf *bytes, ls_err *err); // whole or not at all, as below

// A file that takes its place only when it is whole: written beside it under another name, then renamed.
typedef struct {
    FILE *f; // write to this
    char *path, *part;
} ls_replacement;

ls_code ls_replace_open(ls_replacement *r, const char *path, ls_err *err); // LS_E_IO with path and reason
// keep false, or a failed write: the old file stays as it was.
ls_code ls_replace_close(ls_replacement *r, bool keep, ls_err *err);
