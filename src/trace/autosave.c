#include "trace/autosave.h"
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char ending[] = ".jsonl.zst", locked[] = ".lock"; // of a conversation, and of its lock file

static struct {
    char *path;
    int lock;
} own = {.lock = -1};

static char *path_of(const char *name) {
    return ls_user_path("XDG_STATE_HOME", ".local/state", name);
}

// Path of a conversation's lock file; owned by the caller.
static char *lock_of(const char *path) {
    return ls_format("%.*s%s", (int)(strlen(path) - strlen(ending)), path, locked);
}

// Creates and locks the file of this name, unless another process has it. Returns 0 or errno.
static int take(char *path) {
    char *lock = lock_of(path);
    const int fd = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const int error = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
    if (!error) {
        own.path = path;
        own.lock = fd;
    } else if (fd >= 0) { // the file system does not support locks
        unlink(lock);
        close(fd);
    }
    free(lock);
    return error;
}

char *ls_autosave_path(ls_err *err) {
    long long began = time(NULL);
    for (int error = EEXIST; !own.path && error == EEXIST;
         began++) { // the name is used: another process had this id in this second
        char name[64];
        snprintf(name, sizeof name, "conversation-%lld-%d%s", began, (int)getpid(), ending);
        char *path = path_of(name);
        if (!path) {
            ls_fail(err, LS_E_IO, "HOME is not set");
            return NULL;
        }
        ls_make_folders(path);
        if (!(error = take(path))) break;
        ls_fail(err, LS_E_IO, "%.*s: %s", (int)(strrchr(path, '/') - path), path,
                error == ENOENT ? "the folder cannot be made" : ls_write_reason(error));
        free(path);
    }
    return own.path ? ls_strdup(own.path) : NULL;
}

void ls_autosave_end(bool stays) {
    if (!own.path) return;
    char *lock = lock_of(own.path);
    if (!stays) unlink(own.path);
    unlink(lock);
    close(own.lock);
    free(lock);
    free(own.path);
    own.path = NULL;
    own.lock = -1;
}

// Whether the process of this conversation is running; if not, deletes its lock file.
static bool lives(const char *path) {
    char *lock = lock_of(path);
    const int fd = open(lock, O_RDWR | O_CLOEXEC);
    const bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0 && !held) unlink(lock);
    if (fd >= 0) close(fd);
    free(lock);
    return held;
}

static bool is_name(const char *name, const char *end) {
    long long began;
    int pid, n = 0;
    return sscanf(name, "conversation-%lld-%d%n", &began, &pid, &n) == 2 && !strcmp(name + n, end);
}

// A lock file without a conversation is from a process that ended before its first answer, or from one that has just
// started and has not locked it yet.
static void tidy_lock(const char *name) {
    enum { YOUNG_S = 10 };
    struct stat st;
    if (!is_name(name, locked)) return;
    char *lock = path_of(name), *path = ls_format("%.*s%s", (int)(strlen(lock) - strlen(locked)), lock, ending);
    if (!stat(lock, &st) && time(NULL) - st.st_mtime > YOUNG_S) lives(path);
    free(path);
    free(lock);
}

bool ls_autosave_is_left(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || !is_name(slash + 1, ending)) return false;
    char *there = path_of(slash + 1);
    const bool is = there && !strcmp(there, path) && !lives(path);
    free(there);
    return is;
}

void ls_autosave_forget(const char *path) {
    if (ls_autosave_is_left(path)) unlink(path);
}

typedef struct {
    char *path;
    time_t changed;
} kept;

static int newest_first(const void *a, const void *b) {
    const time_t x = ((const kept *)a)->changed, y = ((const kept *)b)->changed;
    return (x < y) - (x > y);
}

char **ls_autosave_left(void) {
    char *folder = path_of(""), **left = NULL;
    DIR *d = folder ? opendir(folder) : NULL;
    kept *files = NULL;
    size_t n = 0, n_left = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        tidy_lock(e->d_name);
        if (!is_name(e->d_name, ending)) continue;
        char *path = path_of(e->d_name);
        if (lives(path) || lstat(path, &st) || !S_ISREG(st.st_mode)) {
            free(path);
            continue;
        }
        files = ls_realloc(files, (n + 1) * sizeof *files);
        files[n++] = (kept){path, st.st_mtime};
    }
    if (d) closedir(d);
    if (n) qsort(files, n, sizeof *files, newest_first);
    left = ls_calloc(LS_AUTOSAVE_FILES + 1, sizeof *left);
    for (size_t i = 0; i < n; i++) {
        if (n_left < LS_AUTOSAVE_FILES && files[i].changed >= time(NULL) - LS_AUTOSAVE_DAYS * 86400)
            left[n_left++] = files[i].path;
        else {
            unlink(files[i].path);
            free(files[i].path);
        }
    }
    free(files);
    free(folder);
    return left;
}

void ls_autosave_free(char **left) {
    for (size_t i = 0; left && left[i]; i++) free(left[i]);
    free(left);
}
