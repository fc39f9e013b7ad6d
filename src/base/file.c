#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static bool is_file(const char *path, const struct stat *st) {
    struct stat found;
    return !stat(path, &found) && found.st_dev == st->st_dev && found.st_ino == st->st_ino;
}

static bool is_same_time(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

ls_code ls_file_open(ls_file *out, const char *path, ls_err *err) {
    *out = (ls_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    const bool found = out->fd >= 0 && !fstat(out->fd, &out->opened);
    if (found && S_ISREG(out->opened.st_mode)) {
        out->n_bytes = (uint64_t)out->opened.st_size;
        out->path = ls_strdup(path);
        return LS_OK;
    }
    ls_fail(err, LS_E_IO, "%s: %s", path, found ? "not a regular file" : strerror(errno));
    if (out->fd >= 0) close(out->fd);
    out->fd = -1;
    return LS_E_IO;
}

ls_code ls_file_read(const ls_file *f, uint64_t offset, void *out, size_t n, ls_err *err) {
    for (size_t done = 0; done < n;) {
        const size_t most = (size_t)1 << 30, want = n - done < most ? n - done : most;
        const ssize_t got = pread(f->fd, (char *)out + done, want, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ls_fail(err, LS_E_IO, "%s: %s", f->path, strerror(errno));
        if (got == 0)
            return ls_fail(err, LS_E_IO, "%s: ends at byte %llu: the file was truncated while it was open", f->path,
                           (unsigned long long)(offset + done));
        done += (size_t)got;
    }
    return LS_OK;
}

ls_code ls_file_unchanged(const ls_file *f, ls_err *err) {
    struct stat st;
    if (fstat(f->fd, &st) < 0) return ls_fail(err, LS_E_IO, "%s: %s", f->path, strerror(errno));
    const struct stat *old = &f->opened;
    bool changed = st.st_size != old->st_size || !is_same_time(st.st_mtim, old->st_mtim);
    // A program can set the modification time (mtime) back, but not the time of the last status change (ctime).
    // Renaming and deleting change ctime too; then the number of links differs, or the path is another file.
    if (!is_same_time(st.st_ctim, old->st_ctim) && st.st_nlink == old->st_nlink) changed |= is_file(f->path, &st);
    return changed ? ls_fail(err, LS_E_IO, "%s: was changed while it was read: run the command again", f->path) : LS_OK;
}

char *ls_file_key(const ls_file *f) {
    enum { COARSEST_TIMES_S = 2 }; // on FAT; other file systems have finer times
    const struct stat *st = &f->opened;
    if (time(NULL) - st->st_ctim.tv_sec <= COARSEST_TIMES_S) return NULL;
    return ls_format("%llu:%llu %lld %lld.%09ld %lld.%09ld", (unsigned long long)st->st_dev,
                     (unsigned long long)st->st_ino, (long long)st->st_size, (long long)st->st_mtim.tv_sec,
                     st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

const char *ls_file_mistaken(const void *p, size_t n) {
    static const struct {
        const char *begins, *words;
    } kinds[] = {{"version https://git-lfs", ": it is a Git LFS pointer; 'git lfs pull' fetches the file itself"},
                 {"<!DOCTYPE", ": it is a web page; download the file itself"},
                 {"<!doctype", ": it is a web page; download the file itself"},
                 {"<html", ": it is a web page; download the file itself"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= strlen(kinds[i].begins) && !memcmp(p, kinds[i].begins, strlen(kinds[i].begins))) return kinds[i].words;
    return "";
}

void ls_file_close(ls_file *f) {
    if (f->path) close(f->fd);
    free(f->path);
    *f = (ls_file){.fd = -1};
}

ls_code ls_read_file(ls_buf *b, const char *path, size_t limit, ls_err *err) {
    ls_file f;
    ls_code code = ls_file_open(&f, path, err);
    if (code) return code;
    const uint64_t there = ls_memory_free();
    if (f.n_bytes > limit) code = ls_fail(err, LS_E_RANGE, "%s: larger than %zu bytes", path, limit);
    else if (there && f.n_bytes > there)
        code = ls_fail(err, LS_E_RANGE, "%s: the file of %.1f GiB does not fit into the free memory of %.1f GiB", path,
                       (double)f.n_bytes / (1 << 30), (double)there / (1 << 30));
    else if (!(code = ls_file_read(&f, 0, ls_buf_room(b, f.n_bytes), f.n_bytes, err))) b->p[b->n += f.n_bytes] = 0;
    if (!code) code = ls_file_unchanged(&f, err);
    ls_file_close(&f);
    return code;
}

ls_code ls_read_all(ls_buf *b, FILE *f, const char *name, size_t limit, ls_err *err) {
    char chunk[65536];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        if (b->n + n > limit) return ls_fail(err, LS_E_RANGE, "%s: larger than %zu bytes", name, limit);
        ls_buf_add(b, chunk, n);
    }
    if (ferror(f)) return ls_fail(err, LS_E_IO, "%s: %s", name, strerror(errno));
    return LS_OK;
}

ls_code ls_read_any(ls_buf *b, const char *path, size_t limit, int *unopened, ls_err *err) {
    FILE *f = fopen(path, "re");
    if (unopened) *unopened = f ? 0 : errno;
    if (!f) return unopened ? LS_E_IO : ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    const ls_code code = ls_read_all(b, f, path, limit, err);
    fclose(f);
    return code;
}

// ---- outputs

enum { PATIENCE_MS = 30000, BEAT_MS = 50, LOCK_MS = 2000, LOCK_BEAT_MS = 10, CHUNK = 1 << 20, MOST_LINKS = 40 };

int ls_open_output(const char *path, int flags, mode_t mode, ls_progress go_on, void *ud) {
    for (int waited = 0;; waited += BEAT_MS) {
        const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, mode);
        struct stat st;
        if (fd >= 0 || errno != ENXIO) return fd;
        if (stat(path, &st) || !S_ISFIFO(st.st_mode)) return errno = ENXIO, -1;
        if (go_on && !go_on(ud, "waiting for a program to read the output", -1)) return errno = ECANCELED, -1;
        if (!go_on && waited >= PATIENCE_MS) return errno = ETIMEDOUT, -1;
        if (poll(NULL, 0, BEAT_MS) < 0 && !go_on) return -1; // a signal
    }
}

// If another program replaces the file while this one waits, the lock is on the old file. So the lock counts only if
// the path still names the locked file.
int ls_open_locked(const char *path, bool *made) {
    const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    for (int waited = 0;; waited += LOCK_BEAT_MS) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        struct stat st;
        int fd = made ? open(path, flags | O_CREAT | O_EXCL, LS_FILE_PRIVATE) : -1;
        if (made) *made = fd >= 0;
        if (fd < 0) fd = open(path, flags | (made ? O_CREAT : 0), LS_FILE_PRIVATE); // it exists, or is a dangling link
        if (fd < 0) return -1;
        int error = fstat(fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : EINVAL;
        if (!error && fcntl(fd, F_OFD_SETLK, &whole) && (errno == EAGAIN || errno == EACCES))
            error = EWOULDBLOCK; // any other error: this file system has no locks
        if (!error && is_file(path, &st)) return fd;
        close(fd);
        if ((error && error != EWOULDBLOCK) || waited >= LOCK_MS) return errno = error, -1;
        poll(NULL, 0, LOCK_BEAT_MS);
    }
}

ssize_t ls_write_some(int fd, const void *p, size_t n, int wait_ms) {
    struct stat st;
    if (fstat(fd, &st)) return -1;
    const size_t most = S_ISREG(st.st_mode) ? CHUNK : PIPE_BUF; // poll() guarantees room for PIPE_BUF bytes in a pipe
    if (!S_ISREG(st.st_mode)) {
        struct pollfd room = {fd, POLLOUT, 0};
        const int found = poll(&room, 1, wait_ms);
        if (found <= 0) return found;
    }
    const ssize_t done = write(fd, p, n < most ? n : most);
    if (done < 0 && errno == EAGAIN) return poll(NULL, 0, 1) < 0 ? -1 : 0;
    if (done == 0 && n) return errno = EIO, -1;
    return done;
}

const char *ls_write_reason(int error) {
    switch (error) {
    case ENOENT: return "its folder does not exist";
    case ENOSPC: return "the disk is full";
    case EBADF: return "the output is closed";
    case EDQUOT: return "the disk quota of this user is used up";
    case EFBIG: return "the file would exceed the size limit of this process (ulimit -f)";
    case ETIMEDOUT: return "no program reads the output";
    default: return strerror(error ? error : EIO);
    }
}

const char *ls_replaces(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) ? ", replacing the existing file" : "";
}

bool ls_is_same_file(const char *a, const char *b) {
    struct stat st;
    return !stat(b, &st) && is_file(a, &st);
}

static ls_code cannot_write(const char *path, int error, ls_err *err) {
    if (error == EINTR) return ls_fail(err, LS_E_CANCELLED, "interrupted; %s was not written", path);
    return ls_fail(err, LS_E_IO, "cannot write %s: %s", path, ls_write_reason(error));
}

// The path behind symbolic links; its file need not exist.
static char *follow_links(const char *path) {
    char *at = ls_strdup(path), to[PATH_MAX];
    for (int i = 0; i < MOST_LINKS; i++) {
        const ssize_t n = readlink(at, to, sizeof to - 1);
        if (n <= 0) break;
        to[n] = 0;
        const char *slash = *to == '/' ? NULL : strrchr(at, '/');
        char *next = ls_format("%.*s%s", slash ? (int)(slash + 1 - at) : 0, at, to);
        free(at);
        at = next;
    }
    return at;
}

static char *draw_name(const char *folder) {
    return ls_format("%s/.logitspec-%016llx.part", folder, (unsigned long long)ls_seed_draw());
}

// A file without a name (O_TMPFILE) vanishes with the process, however the process ends. If the system has no such
// files, the part gets a random name, which must not exist yet.
static int create_part(ls_atomic_file *r, mode_t mode) {
    char *folder = ls_folder_of(r->target);
    int fd = access("/proc/self/fd", X_OK) ? -1 : open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (fd < 0) {
        r->part = draw_name(folder);
        fd = open(r->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    }
    free(folder);
    return fd;
}

// Mode and owner of the old file. If its group cannot be set, the new group gets the permissions of others.
static void keep_owner(int fd, const struct stat *old) {
    mode_t mode = old->st_mode & 0777;
    if (fchown(fd, old->st_uid, old->st_gid) && fchown(fd, (uid_t)-1, old->st_gid))
        mode = (mode & ~(mode_t)070) | (mode & 07) << 3;
    if (fchmod(fd, mode)) return; // a file system without modes
}

static ssize_t take_bytes(void *cookie, const char *p, size_t n) {
    ls_atomic_file *r = cookie;
    for (size_t done = 0; done < n && !r->error;) {
        const ssize_t got = ls_write_some(r->fd, p + done, n - done, PATIENCE_MS);
        if (got > 0) done += (size_t)got;
        else r->error = got ? errno : ETIMEDOUT;
    }
    return r->error ? 0 : (ssize_t)n;
}

static void free_replacement(ls_atomic_file *r) {
    if (r->fd >= 0) close(r->fd);
    free(r->path);
    free(r->target);
    free(r->part);
}

// Opens the target itself if it is written in place, else a part beside it. Returns an errno, or 0.
static int open_target(ls_atomic_file *r, mode_t mode) {
    struct stat st, own;
    r->fd = ls_open_output(r->path, 0, 0, NULL, NULL);
    if (r->fd < 0 && errno != ENOENT) return errno;
    r->target = follow_links(r->path);
    if (r->fd < 0) return (r->fd = create_part(r, mode)) < 0 ? errno : 0;
    if (fstat(r->fd, &st)) return errno;
    const int there = r->fd;
    r->in_place = !S_ISREG(st.st_mode) || !is_file(r->target, &st);
    if (!fstat(STDOUT_FILENO, &own) && own.st_dev == st.st_dev && own.st_ino == st.st_ino) {
        r->in_place = true; // standard output is the same file (the shell opened it): append
        r->fd = dup(STDOUT_FILENO);
        close(there);
        return r->fd < 0 ? errno : 0;
    }
    if (r->in_place) return S_ISREG(st.st_mode) && ftruncate(r->fd, 0) ? errno : 0;
    const bool held = flock(there, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK; // ls_sink records into it
    r->fd = held ? -1 : create_part(r, LS_FILE_PRIVATE);
    const int error = held ? ETXTBSY : r->fd < 0 ? errno : 0;
    if (!error) keep_owner(r->fd, &st);
    close(there);
    return error;
}

ls_code ls_atomic_open(ls_atomic_file *r, const char *path, mode_t mode, ls_err *err) {
    *r = (ls_atomic_file){.fd = -1, .path = ls_strdup(path)};
    int error = open_target(r, mode);
    if (!error && (r->f = fopencookie(r, "w", (cookie_io_functions_t){.write = take_bytes}))) return LS_OK;
    if (!error) error = ENOMEM; // the only reason for fopencookie to fail
    const ls_code code = error == ETXTBSY
                             ? ls_fail(err, LS_E_IO, "cannot write %s: a program uses it or records into it", path)
                             : cannot_write(path, error, err);
    if (r->fd >= 0 && r->part) unlink(r->part);
    free_replacement(r);
    return code;
}

// Renames the part to the target. fsync comes first, so that after a crash the name has complete contents. Returns an
// errno, or 0.
static int put_in_place(ls_atomic_file *r) {
    char *folder = ls_folder_of(r->target), self[32];
    int error = fsync(r->fd) && errno != EINVAL && errno != ENOTSUP ? errno : 0;
    snprintf(self, sizeof self, "/proc/self/fd/%d", r->fd);
    while (!error && !r->part) {
        r->part = draw_name(folder);
        if (!linkat(AT_FDCWD, self, AT_FDCWD, r->part, AT_SYMLINK_FOLLOW)) break;
        error = errno == EEXIST ? 0 : errno;
        free(r->part);
        r->part = NULL;
    }
    if (!error && rename(r->part, r->target)) error = errno;
    const int fd = error ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) fsync(fd), close(fd);
    free(folder);
    return error;
}

ls_code ls_atomic_close(ls_atomic_file *r, bool keep, ls_err *err) {
    if (fclose(r->f) && !r->error) r->error = errno;
    if (!r->error && keep && !r->in_place) r->error = put_in_place(r);
    const ls_code code = r->error ? cannot_write(r->path, r->error, err) : LS_OK;
    if (r->part && (code || !keep)) unlink(r->part);
    free_replacement(r);
    return code;
}

static ls_code write_file(const char *path, const ls_buf *bytes, mode_t mode, ls_err *err) {
    ls_atomic_file r;
    const ls_code code = ls_atomic_open(&r, path, mode, err);
    if (code) return code;
    fwrite(bytes->n ? bytes->p : "", 1, bytes->n, r.f);
    return ls_atomic_close(&r, true, err);
}

ls_code ls_write_file(const char *path, const ls_buf *bytes, ls_err *err) {
    return write_file(path, bytes, LS_FILE_SHARED, err);
}

ls_code ls_write_private(const char *path, const ls_buf *bytes, ls_err *err) {
    return write_file(path, bytes, LS_FILE_PRIVATE, err);
}

// ---- paths

static char exe_dir[4096] = ".";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_exe(void) {
    ssize_t n = readlink("/proc/self/exe", exe_dir, sizeof exe_dir - 1);
    const char *called = n > 0 ? NULL : (const char *)getauxval(AT_EXECFN); // where /proc is not mounted
    if (n > 0) exe_dir[n] = 0;
    else if (called && strchr(called, '/') && strlen(called) < sizeof exe_dir) strcpy(exe_dir, called);
    else return;
    char *slash = strrchr(exe_dir, '/');
    if (slash && slash > exe_dir) *slash = 0;
}

const char *ls_exe_dir(void) {
    pthread_once(&once, find_exe);
    return exe_dir;
}

char *ls_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? ls_strndup(path, slash > path ? (size_t)(slash - path) : 1) : ls_strdup(".");
}

char *ls_real_path(const char *path) {
    char *real = realpath(path, NULL);
    if (!real && errno == ENOMEM) ls_out_of_memory(0);
    return real;
}

char *ls_data_path(const char *rel) {
    static const char *const places[] = {"../", "../../", "../../../", "../share/logitspec/"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *p = ls_format("%s/%s%s", ls_exe_dir(), places[i], rel), *real = ls_real_path(p);
        free(p);
        if (real) return real;
    }
    char *parent = ls_folder_of(ls_exe_dir()), *p = ls_format("%s/%s", parent, rel);
    free(parent);
    return p;
}

char *ls_user_path(const char *variable, const char *fallback, const char *name) {
    const char *xdg = getenv(variable), *home = getenv("HOME");
    if (xdg && *xdg == '/') return ls_format("%s/logitspec/%s", xdg, name);
    return home && *home == '/' ? ls_format("%s/%s/logitspec/%s", home, fallback, name) : NULL;
}

bool ls_is_missing(int error) {
    return error == ENOENT || error == ENOTDIR;
}

void ls_make_folders(const char *path) {
    char *copy = ls_strdup(path);
    for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(copy, 0700);
        *p = '/';
    }
    free(copy);
}
