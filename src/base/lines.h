// A text line by line, in bounded memory: plain or a Zstandard stream (recognised by its first bytes), from a regular
// file, a pipe or memory. One thread.
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *p; // without its newline; NULL: there are no more
    size_t n;
    bool whole;      // it had a newline
    uint64_t offset; // bytes of text before it
    size_t number;   // from 1
} ls_line;

typedef struct ls_lines ls_lines;

// path "-": standard input. LS_E_IO with the reason.
ls_code ls_lines_open(ls_lines **out, const char *path, ls_err *err);
ls_code ls_lines_of(ls_lines **out, int fd, const char *name, ls_err *err); // takes the descriptor
ls_lines *ls_lines_in(const void *p, size_t n, const char *name);           // borrows p[0..n) until it is closed
void ls_lines_close(ls_lines *l);                                           // accepts NULL
const char *ls_lines_name(const ls_lines *l);                               // for messages
int ls_lines_fd(const ls_lines *l);                                         // borrowed
// Reading fails with LS_E_CANCELLED when stop() returns true. It is called before each piece and while a pipe is idle.
void ls_lines_stop(ls_lines *l, bool (*stop)(void *ud), void *ud);
// The same for all readers of the process without a stop of their own; NULL ends it. show() gets a text with the name,
// and the fraction read (negative: not known); if it returns false, reading fails.
void ls_lines_watch(bool (*show)(void *ud, const char *stage, double fraction), void *ud);
// The next line, valid until the next call. A line of more than 16 MiB is LS_E_PARSE.
ls_code ls_lines_next(ls_lines *l, ls_line *out, ls_err *err);
double ls_lines_progress(const ls_lines *l); // fraction read of a regular file, 0..1; negative: not known
// Whether lines can be read in any order: not in pipes and compressed files. Known once a line was read.
bool ls_lines_seek_works(const ls_lines *l);
ls_code ls_lines_seek(ls_lines *l, uint64_t offset, size_t number, ls_err *err); // the next line is that one
