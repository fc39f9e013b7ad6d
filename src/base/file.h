// Files: reading in places and as a whole, outputs that replace a file at once.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

// A file that is read in places. A file that was cut or changed since it was opened is an error, never a signal.
typedef struct {
    int fd;
    uint64_t n_bytes;
    struct stat opened; // what the system said of it when it was opened
    char *path;
    char sha256[65]; // of its bytes; "": nobody asked (engine/model_hash.h)
} ls_file;

ls_code ls_file_open(ls_file *out, const char *path, ls_err *err);
// All n bytes from offset on, or LS_E_IO with path and reason.
ls_code ls_file_read(const ls_file *f, uint64_t offset, void *out, size_t n, ls_err *err);
// LS_E_IO: its bytes may be others than when it was opened. A file that was only renamed or deleted has not changed.
ls_code ls_file_unchanged(const ls_file *f, ls_err *err);
// The file's bytes are those of any file of the same key: "DEVICE:INODE SIZE MTIME CTIME", of the file as it was
// opened. Owned by the caller. NULL: it changed so recently that another write may leave the same times.
char *ls_file_key(const ls_file *f);
void ls_file_close(ls_file *f);

// What people download in a file's place, by its first bytes: words that end a message, or "".
const char *ls_file_mistaken(const void *p, size_t n);
// Appends a whole regular file to b, at most `limit` bytes (more is LS_E_RANGE) and as many as memory is free. Files
// are read, never mapped: what others may shorten would end the process by a signal. Errors: LS_E_IO with path and
// reason.
ls_code ls_read_file(ls_buf *b, const char *path, size_t limit, ls_err *err);
// Appends everything from f to b, at most `limit` bytes (more is LS_E_RANGE). `name` is for messages.
ls_code ls_read_all(ls_buf *b, FILE *f, const char *name, size_t limit, ls_err *err);

// Opens path for writing (and what flags say), new files with mode. A FIFO that nobody reads yet is tried again while
// go_on agrees; NULL: for half a minute. -1 with errno: ECANCELED where go_on does not, ETIMEDOUT.
typedef bool (*ls_file_wait)(void *ud, const char *stage, double fraction);
int ls_open_output(const char *path, int flags, mode_t mode, ls_file_wait go_on, void *ud);
// Opens a regular file for reading and appending and locks it against other programs that do the same, until it is
// closed; waits up to two seconds for them. The path may be replaced (ls_write_private) while the lock is held.
// made not NULL: a file that is missing is made, for its owner alone, and *made is true. -1 with errno; EWOULDBLOCK:
// another program keeps the lock.
int ls_open_locked(const char *path, bool *made);
// Writes what fits, waiting at most wait_ms for a pipe or a device to take it. Bytes, 0 (it took nothing), -1 with
// errno.
ssize_t ls_write_some(int fd, const void *p, size_t n, int wait_ms);
// What a failed write is called: "the disk is full", ...
const char *ls_write_reason(int error);
bool ls_is_same_file(const char *a, const char *b); // both are there, under one name or two

// An output that takes its place only when it is whole: written beside its place, then renamed; the file that was there
// keeps its mode and owner, a link stays a link. What is no regular file (a device, a FIFO) is written as it comes.
typedef struct {
    FILE *f; // write to this
    int fd, error;
    bool in_place;
    char *path, *target, *part; // as it was named; where that leads; NULL: has no name yet
} ls_replacement;

enum { LS_FILE_SHARED = 0666, LS_FILE_PRIVATE = 0600 }; // of a file that is new; the umask applies

// LS_E_IO with path and reason. r must stay where it is.
ls_code ls_replace_open(ls_replacement *r, const char *path, mode_t mode, ls_err *err);
// keep false, or a failed write: the old file stays as it was. LS_E_CANCELLED: a signal came while a FIFO was full.
ls_code ls_replace_close(ls_replacement *r, bool keep, ls_err *err);

ls_code ls_write_file(const char *path, const ls_buf *bytes, ls_err *err);    // so, in one call
ls_code ls_write_private(const char *path, const ls_buf *bytes, ls_err *err); // a new file is for its owner alone
