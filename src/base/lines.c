#include "base/lines.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/zst.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINE = 16 << 20, CHUNK = 1 << 16 };

struct ls_lines {
    int fd;           // -1: in memory
    const char *from; // in memory: the rest that is not read yet
    size_t n_from;
    bool (*stop)(void *ud); // NULL: `watch` is asked
    void *ud;
    char *name;
    ls_buf bytes; // read; not yet returned as lines from `at` on
    size_t at;
    uint64_t taken; // bytes of text before `at`
    size_t number;  // of the last line
    bool sniffed;
    ls_zst_decoder *zst; // NULL: not compressed
    ls_buf packed;       // compressed bytes; not yet decoded from packed_at on
    size_t packed_at;
};

static struct {
    bool (*show)(void *ud, const char *stage, double fraction);
    void *ud;
} watch; // for readers without a stop of their own

void ls_lines_watch(bool (*show)(void *ud, const char *stage, double fraction), void *ud) {
    watch.show = show;
    watch.ud = ud;
}

static ls_lines *make(int fd, const char *name) {
    ls_lines *l = ls_calloc(1, sizeof *l);
    l->fd = fd;
    l->name = ls_strdup(name);
    ls_buf_str(&l->bytes, ""); // never NULL
    return l;
}

ls_code ls_lines_of(ls_lines **out, int fd, const char *name, ls_err *err) {
    *out = NULL;
    if (fd < 0) return ls_fail(err, LS_E_IO, "cannot read %s: %s", name, strerror(errno));
    *out = make(fd, name);
    return LS_OK;
}

ls_lines *ls_lines_in(const void *p, size_t n, const char *name) {
    ls_lines *l = make(-1, name);
    l->from = p;
    l->n_from = n;
    return l;
}

ls_code ls_lines_open(ls_lines **out, const char *path, ls_err *err) {
    if (!strcmp(path, "-")) return ls_lines_of(out, STDIN_FILENO, "standard input", err);
    // O_NONBLOCK: open() must not wait for the writer of a FIFO. The read waits instead, and can be stopped.
    return ls_lines_of(out, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), path, err);
}

void ls_lines_close(ls_lines *l) {
    if (!l) return;
    if (l->fd > STDIN_FILENO) close(l->fd);
    ls_zst_decoder_free(l->zst);
    ls_buf_free(&l->packed);
    ls_buf_free(&l->bytes);
    free(l->name);
    free(l);
}

int ls_lines_fd(const ls_lines *l) {
    return l->fd;
}

const char *ls_lines_name(const ls_lines *l) {
    return l->name;
}

void ls_lines_stop(ls_lines *l, bool (*stop)(void *ud), void *ud) {
    l->stop = stop;
    l->ud = ud;
}

double ls_lines_progress(const ls_lines *l) {
    struct stat st;
    const off_t at = lseek(l->fd, 0, SEEK_CUR);
    if (at < 0 || fstat(l->fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) return -1;
    if (l->zst && st.st_size < 1 << 20) return -1;                                 // only a few reads
    const size_t waits = l->zst ? l->packed.n - l->packed_at : l->bytes.n - l->at; // read, but not yet taken
    return ((double)at - (double)waits) / (double)st.st_size;
}

bool ls_lines_seek_works(const ls_lines *l) {
    return !l->zst && lseek(l->fd, 0, SEEK_CUR) >= 0;
}

ls_code ls_lines_seek(ls_lines *l, uint64_t offset, size_t number, ls_err *err) {
    l->number = number - 1;
    if (offset == l->taken && l->sniffed) return LS_OK; // it is the next one anyway
    l->sniffed = true;                                  // what seeks is plain
    if (lseek(l->fd, (off_t)offset, SEEK_SET) < 0)
        return ls_fail(err, LS_E_IO, "cannot read %s: %s", l->name, strerror(errno));
    l->bytes.n = l->at = 0;
    l->taken = offset;
    return LS_OK;
}

// Asked before each piece: a file of gigabytes takes as long as a silent pipe may.
static bool is_stopped(const ls_lines *l) {
    char stage[300];
    if (l->stop) return l->stop(l->ud);
    if (!watch.show) return false;
    snprintf(stage, sizeof stage, "reading %s", l->name);
    return !watch.show(watch.ud, stage, ls_lines_progress(l));
}

// Appends the next chunk of the file or memory to b; *n is 0 at the end.
static ls_code read_some(ls_lines *l, ls_buf *b, size_t *n, ls_err *err) {
    enum { PATIENCE_MS = 100 };
    if (l->fd < 0) {
        *n = l->n_from < CHUNK ? l->n_from : CHUNK;
        ls_buf_add(b, l->from, *n);
        l->from += *n;
        l->n_from -= *n;
        return LS_OK;
    }
    ssize_t got;
    do { // a descriptor from ls_lines_of may block, so poll first
        struct pollfd p = {l->fd, POLLIN, 0};
        do {
            if (is_stopped(l)) return ls_fail(err, LS_E_CANCELLED, "reading %s was interrupted", l->name);
        } while (poll(&p, 1, PATIENCE_MS) == 0);
        got = read(l->fd, ls_buf_room(b, CHUNK), CHUNK);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got < 0) return ls_fail(err, LS_E_IO, "cannot read %s: %s", l->name, strerror(errno));
    b->n += *n = (size_t)got;
    return LS_OK;
}

static ls_code sniff(ls_lines *l, ls_err *err) {
    enum { MAGIC = 4 };
    ls_buf b = {0};
    size_t n = 1;
    ls_code code = LS_OK;
    while (!code && n && b.n < MAGIC) code = read_some(l, &b, &n, err);
    l->sniffed = true;
    if (ls_zst_is(b.p, b.n)) {
        l->zst = ls_zst_decoder_new();
        l->packed = b;
    } else {
        ls_buf_free(&l->bytes);
        l->bytes = b;
    }
    return code;
}

// Appends more text to l->bytes; *n is 0 at the end.
static ls_code fill(ls_lines *l, size_t *n, ls_err *err) {
    if (!l->sniffed) {
        const size_t before = l->bytes.n;
        const ls_code code = sniff(l, err);
        *n = l->bytes.n - before;
        if (code || *n || !l->zst) return code;
    }
    if (!l->zst) return read_some(l, &l->bytes, n, err);
    for (;;) { // decodes at most CHUNK bytes per call, so that a small file cannot fill the memory
        size_t taken, more;
        const char *wrong;
        *n = ls_zst_decode(l->zst, l->packed.p + l->packed_at, l->packed.n - l->packed_at, &taken,
                           ls_buf_room(&l->bytes, CHUNK), CHUNK, &wrong);
        l->packed_at += taken;
        l->bytes.n += *n;
        if (wrong)
            return ls_fail(err, LS_E_PARSE, "%s: the Zstandard stream is incomplete or damaged: %s", l->name, wrong);
        if (*n) return LS_OK;
        if (l->packed_at == l->packed.n) l->packed.n = l->packed_at = 0;
        const ls_code code = read_some(l, &l->packed, &more, err);
        if (code || !more) return code;
    }
}

ls_code ls_lines_next(ls_lines *l, ls_line *out, ls_err *err) {
    *out = (ls_line){.offset = l->taken};
    for (size_t searched = 0;;) { // bytes from l->at on without a newline
        const size_t left = l->bytes.n - l->at;
        const char *from = l->bytes.p + l->at,
                   *end = left > searched ? memchr(from + searched, '\n', left - searched) : NULL;
        size_t more = 0;
        if (!end) { // removes returned lines from the buffer, then reads more
            if (left > MOST_LINE)
                return ls_fail(err, LS_E_PARSE, "%s:%zu: the line is longer than %d MiB", l->name, l->number + 1,
                               MOST_LINE >> 20);
            if (l->at) memmove(l->bytes.p, from, left);
            l->bytes.n = left;
            l->at = 0;
            const ls_code code = fill(l, &more, err);
            if (code) return code;
            searched = left;
            if (more) continue;
            from = l->bytes.p;
        }
        out->whole = end != NULL;
        out->n = end ? (size_t)(end - from) : left;
        if (end || left) {
            out->p = from;
            out->number = ++l->number;
        }
        l->at += out->n + out->whole;
        l->taken += out->n + out->whole;
        return LS_OK;
    }
}
