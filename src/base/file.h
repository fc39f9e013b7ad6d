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

// A file that is read in places. A file that was cut or changed since it was opened is an error, never a signal.
typedef struct {
    int fd;
    uint64_t n_bytes;
    int64_t changed_s, changed_ns; // modification time when it was opened
    char *path;
} ls_file;

ls_code ls_file_open(ls_file *out, const char *path, ls_err *err);
// All n bytes from offset on, or LS_E_IO with path and reason.
ls_code ls_file_read(const ls_file *f, uint64_t offset, void *out, size_t n, ls_err *err);
ls_code ls_file_unchanged(const ls_file *f, ls_err *err); // LS_E_IO: it was written to since
void ls_file_close(ls_file *f);

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
