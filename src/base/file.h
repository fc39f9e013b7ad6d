// Files: where they are, random-access and whole reads, and outputs that replace a file atomically.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

// A file for random-access reads. If it is truncated or changed while it is open, reads fail; there is no SIGBUS.
typedef struct {
    int fd;
    uint64_t n_bytes;
    struct stat opened; // fstat() when it was opened
    char *path;
    char sha256[65]; // of its bytes; "": not computed (engine/load.h)
} ls_file;

ls_code ls_file_open(ls_file *out, const char *path, ls_err *err);
// All n bytes from offset on, or LS_E_IO with path and reason.
ls_code ls_file_read(const ls_file *f, uint64_t offset, void *out, size_t n, ls_err *err);
// LS_E_IO: the contents may have changed since the file was opened. Renaming or deleting a file is no change.
ls_code ls_file_unchanged(const ls_file *f, ls_err *err);
// Cache key, "DEVICE:INODE SIZE MTIME CTIME" when the file was opened: equal keys mean equal contents. Owned by the
// caller. NULL: the last change is so recent that another write could leave the same times.
char *ls_file_key(const ls_file *f);
void ls_file_close(ls_file *f);

// Recognises a wrong download by its first bytes (a Git LFS pointer, a web page). Returns the end of a message, or "".
const char *ls_file_mistaken(const void *p, size_t n);
// Appends a whole regular file to b. A file larger than `limit` bytes or the free memory is LS_E_RANGE; other errors
// are LS_E_IO with path and reason. Files are read, not mapped: if another program truncates a mapped file, SIGBUS ends
// the process.
ls_code ls_read_file(ls_buf *b, const char *path, size_t limit, ls_err *err);
// Appends the whole of a file of any kind (a pipe, too), at most `limit` bytes (more is LS_E_RANGE). LS_E_IO: "PATH:
// reason"; or, with *unopened (NULL: not wanted) the errno, it cannot be opened, and the caller writes the message.
ls_code ls_read_any(ls_buf *b, const char *path, size_t limit, int *unopened, ls_err *err);
// Appends everything from f to b, at most `limit` bytes (more is LS_E_RANGE). `name` is for messages.
ls_code ls_read_all(ls_buf *b, FILE *f, const char *name, size_t limit, ls_err *err);

// Opens path for writing, with further open() flags; a new file gets mode. If path is a FIFO without a reader, tries
// again while go_on returns true; go_on NULL: for 30 s. -1 with errno: ECANCELED if go_on returned false, ETIMEDOUT.
int ls_open_output(const char *path, int flags, mode_t mode, ls_progress go_on, void *ud);
// Opens a regular file for reading and appending and locks it against other callers of this function until it is
// closed. Waits up to 2 s for the lock. The path may be replaced (ls_write_private) while the lock is held. made not
// NULL: a missing file is created, for its owner only, and *made is true. -1 with errno; EWOULDBLOCK: another program
// holds the lock.
int ls_open_locked(const char *path, bool *made);
// Writes as much as fits, and waits at most wait_ms for room in a pipe or device. Returns the bytes written, 0 (no
// room) or -1 with errno.
ssize_t ls_write_some(int fd, const void *p, size_t n, int wait_ms);
// The reason of a failed write, for a message: "the disk is full", ...
const char *ls_write_reason(int error);
// The end of a message about writing the file, asked for before: ", replacing the existing file", or "".
const char *ls_replaces(const char *path);
bool ls_is_same_file(const char *a, const char *b); // both exist and are one file

// An output that replaces its target only when it is complete: written beside the target, then renamed. It gets mode
// and owner of the old file; a symbolic link stays a link. A target that is no regular file (a device, a FIFO) is
// written directly.
typedef struct {
    FILE *f; // write to this
    int fd, error;
    bool in_place;
    char *path, *target, *part; // as given; behind links; temporary name, NULL: none yet
} ls_atomic_file;

enum { LS_FILE_SHARED = 0666, LS_FILE_PRIVATE = 0600 }; // mode of a new file; the umask applies

// LS_E_IO with path and reason. r must not move until it is closed.
ls_code ls_atomic_open(ls_atomic_file *r, const char *path, mode_t mode, ls_err *err);
// If keep is false or a write failed, the old file stays unchanged. LS_E_CANCELLED: a signal came while a FIFO was
// full.
ls_code ls_atomic_close(ls_atomic_file *r, bool keep, ls_err *err);

ls_code ls_write_file(const char *path, const ls_buf *bytes, ls_err *err);    // the same in one call
ls_code ls_write_private(const char *path, const ls_buf *bytes, ls_err *err); // a new file is for its owner only

// ---- where the program finds its files: beside the executable in a source checkout, or under PREFIX when installed

const char *ls_exe_dir(void); // folder of the running executable, no trailing slash; valid for the process's life
// Path of a user file: $VARIABLE/logitspec/name, or ~/fallback/logitspec/name if $VARIABLE is not an absolute path
// (such as XDG_STATE_HOME, .local/state). Owned by the caller; NULL: HOME is not an absolute path either.
char *ls_user_path(const char *variable, const char *fallback, const char *name);
char *ls_folder_of(const char *path);   // "." without a slash; owned by the caller
char *ls_real_path(const char *path);   // absolute and without links, owned by the caller; NULL with errno
bool ls_is_missing(int error);          // errno of a missing file, or of a path through a file (HOME=/dev/null)
void ls_make_folders(const char *path); // creates the parent folders of a file, for the user only

// Path of a shipped file such as "configs/default.yaml": the first one that exists, one to three folders above the
// executable (a checkout: build/, build/tests/, build/san/tests/) or in ../share/logitspec. If none exists, the path
// one folder above. Owned by the caller.
char *ls_data_path(const char *rel);
