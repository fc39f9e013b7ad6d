#include "base/io.h"
#include "base/mem.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

// ---- Zstandard

enum { LEVEL = 3, MOST_WINDOW_LOG = 27 }; // MOST_WINDOW_LOG: a decoder keeps at most 2^27 bytes

static void *need(void *context) {
    if (!context) ls_out_of_memory(0);
    return context;
}

ls_zst_encoder *ls_zst_encoder_new(void) {
    ZSTD_CCtx *c = need(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    return c;
}

void ls_zst_encoder_free(ls_zst_encoder *z) {
    ZSTD_freeCCtx(z);
}

void ls_zst_encode(ls_zst_encoder *z, const void *p, size_t n, bool last, ls_buf *out) {
    char chunk[1 << 14];
    ZSTD_inBuffer in = {p, n, 0};
    for (size_t left = 1; left;) {
        ZSTD_outBuffer o = {chunk, sizeof chunk, 0};
        left = ZSTD_compressStream2(z, &o, &in, last ? ZSTD_e_end : ZSTD_e_flush);
        if (ZSTD_isError(left)) ls_out_of_memory(0); // nothing else can fail
        ls_buf_add(out, chunk, o.pos);
    }
}

bool ls_zst_is(const void *p, size_t n) {
    const unsigned char *b = p;
    return n >= 4 && b[0] == 0x28 && b[1] == 0xB5 && b[2] == 0x2F && b[3] == 0xFD;
}

// Decodes in[0..n_in) into out[0..cap) and returns the bytes written; *taken: bytes of the input used. Consecutive
// streams decode as one. *wrong: NULL, or the error in the input.
static size_t decode(ZSTD_DCtx *z, const void *in, size_t n_in, size_t *taken, void *out, size_t cap,
                     const char **wrong) {
    ZSTD_inBuffer i = {in, n_in, 0};
    ZSTD_outBuffer o = {out, cap, 0};
    size_t code = 0;
    do code = ZSTD_decompressStream(z, &o, &i);
    while (!ZSTD_isError(code) && i.pos < n_in && o.pos < cap);
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) ls_out_of_memory(0);
    *wrong = ZSTD_isError(code) ? ZSTD_getErrorName(code) : NULL;
    *taken = i.pos;
    return o.pos;
}

const char *ls_zst_version(void) {
    return ZSTD_versionString();
}

// ---- reading lines

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
    ZSTD_DCtx *zst; // NULL: not compressed
    ls_buf packed;  // compressed bytes; not yet decoded from packed_at on
    size_t packed_at;
};

static struct {
    ls_progress show;
    void *ud;
} watch; // for readers without a stop of their own

void ls_lines_watch(ls_progress show, void *ud) {
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
    ZSTD_freeDCtx(l->zst);
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
        l->zst = need(ZSTD_createDCtx());
        ZSTD_DCtx_setParameter(l->zst, ZSTD_d_windowLogMax, MOST_WINDOW_LOG);
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
        *n = decode(l->zst, l->packed.p + l->packed_at, l->packed.n - l->packed_at, &taken,
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

// ---- writing in the background

enum { MOST_WAITING = 64 << 20, BEAT_MS = 100, UNREAD_MS = 10000, HURRIED_MS = 2000 };

struct ls_sink {
    int fd;
    bool regular;
    ls_zst_encoder *zst; // NULL: not compressed
    ls_progress go_on;
    void *ud;
    pthread_t thread;
    pthread_mutex_t lock; // protects the fields below
    pthread_cond_t changed;
    ls_buf waiting;
    size_t under_way;          // bytes that the thread has taken but not written yet
    uint64_t written, dropped; // bytes; written grows while a program reads the pipe
    bool closing, given_up, ended;
    bool alone; // the thread hangs in a write() and frees the sink itself when it returns
    int error;
};

static int write_all(ls_sink *s, const char *p, size_t n) {
    while (n) {
        const ssize_t done = ls_write_some(s->fd, p, n, BEAT_MS);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        p += done;
        n -= (size_t)done;
        pthread_mutex_lock(&s->lock);
        s->written += (uint64_t)done;
        if (!s->zst) s->under_way -= (size_t)done;
        const bool given_up = s->given_up;
        pthread_mutex_unlock(&s->lock);
        if (given_up && n) return ETIMEDOUT;
    }
    return 0;
}

static int empty_file(int fd) {
    struct stat st;
    return fd != STDOUT_FILENO && !fstat(fd, &st) && S_ISREG(st.st_mode) && ftruncate(fd, 0) ? errno : 0;
}

static void free_sink(ls_sink *s) {
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    ls_zst_encoder_free(s->zst);
    ls_buf_free(&s->waiting);
    free(s);
}

static void *writer(void *ud) {
    ls_sink *s = ud;
    ls_buf now = {0}, packed = {0};
    bool begun = false;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->waiting.n && !s->closing) pthread_cond_wait(&s->changed, &s->lock);
        const bool last = s->closing && !s->waiting.n;
        if (s->given_up || (last && !(begun && s->zst))) break;
        const ls_buf empty = now;
        now = s->waiting;
        s->waiting = empty;
        s->under_way = now.n;
        pthread_mutex_unlock(&s->lock);
        int error = begun ? 0 : empty_file(s->fd);
        begun = true;
        const ls_buf *out = &now;
        if (s->zst) {
            ls_buf_clear(&packed);
            ls_zst_encode(s->zst, now.p, now.n, last, &packed);
            out = &packed;
        }
        if (!error) error = write_all(s, out->p, out->n);
        ls_buf_clear(&now);
        pthread_mutex_lock(&s->lock);
        if (error && !s->error) s->error = error;
        if (!error) s->under_way = 0;
        pthread_cond_broadcast(&s->changed);
        if (error || last) break;
    }
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    const bool alone = s->alone;
    pthread_mutex_unlock(&s->lock);
    ls_buf_free(&now);
    ls_buf_free(&packed);
    if (alone) free_sink(s);
    return NULL;
}

static void wait_a_beat(ls_sink *s) {
    const struct timespec until = ls_time_after(BEAT_MS * 1000000u);
    pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

typedef struct {
    uint64_t written, since_ns; // last seen value, and the time of its last growth
    uint64_t hurried_ns;        // when go_on first returned false; 0: not yet
} patience;

// The owner waits one beat for the thread. For a disk there is no limit. A pipe without progress is given up after
// UNREAD_MS, or HURRIED_MS after go_on returned false.
static void wait_for_thread(ls_sink *s, patience *w) {
    wait_a_beat(s);
    if (s->regular || s->ended || s->error) return;
    const uint64_t now = ls_now_ns();
    if (!w->since_ns || w->written != s->written) *w = (patience){s->written, now, w->hurried_ns};
    pthread_mutex_unlock(&s->lock);
    const bool go_on = !s->go_on || s->go_on(s->ud, "waiting for a program to read the recording", -1);
    pthread_mutex_lock(&s->lock);
    if (!go_on && !w->hurried_ns) w->hurried_ns = now;
    if (now - w->since_ns < UNREAD_MS * 1000000ull && (!w->hurried_ns || now - w->hurried_ns < HURRIED_MS * 1000000ull))
        return;
    s->given_up = true;
    if (!s->error) s->error = ETIMEDOUT;
}

ls_code ls_sink_open(ls_sink **out, const char *path, ls_progress go_on, void *ud, ls_err *err) {
    *out = NULL;
    // The thread truncates the file at the first write, so a run that fails to start destroys nothing.
    const int fd = strcmp(path, "-") ? ls_open_output(path, O_CREAT, LS_FILE_PRIVATE, go_on, ud) : STDOUT_FILENO;
    if (fd < 0 && errno == ECANCELED) return ls_fail(err, LS_E_CANCELLED, "interrupted: no program reads %s", path);
    if (fd < 0) return ls_fail(err, LS_E_IO, "cannot write %s: %s", path, ls_write_reason(errno));
    struct stat st;
    const bool regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
    if (regular && fd != STDOUT_FILENO && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return ls_fail(err, LS_E_IO, "cannot write %s: another run records into it: name another file", path);
    }
    ls_sink *s = ls_calloc(1, sizeof *s);
    s->fd = fd;
    s->regular = regular;
    s->go_on = go_on;
    s->ud = ud;
    if (ls_ends_with(path, ".zst")) s->zst = ls_zst_encoder_new();
    pthread_mutex_init(&s->lock, NULL);
    ls_cond_init(&s->changed);
    if (ls_thread_start(&s->thread, writer, s)) return *out = s, LS_OK;
    if (fd != STDOUT_FILENO) close(fd);
    free_sink(s);
    return ls_fail(err, LS_E_IO, "cannot start a thread: the system has no memory or file descriptors left");
}

void ls_sink_put(ls_sink *s, const void *p, size_t n) {
    patience w = {0};
    pthread_mutex_lock(&s->lock);
    while (s->waiting.n > MOST_WAITING && !s->error) wait_for_thread(s, &w);
    if (s->error) s->dropped += n;
    else ls_buf_add(&s->waiting, p, n);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int ls_sink_error(ls_sink *s) {
    pthread_mutex_lock(&s->lock);
    const int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

int ls_sink_close(ls_sink *s, uint64_t *dropped) {
    patience w = {0};
    *dropped = 0;
    if (!s) return 0;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    while (!s->ended && !s->given_up) wait_for_thread(s, &w);
    for (int i = 0; i < 5 && !s->ended; i++) wait_a_beat(s); // the thread sees given_up within one beat
    const bool alone = s->alone = !s->ended;
    int error = s->error;
    *dropped = s->dropped + s->waiting.n + s->under_way;
    const int fd = s->fd;
    const pthread_t thread = s->thread;
    pthread_mutex_unlock(&s->lock);
    if (alone) pthread_detach(thread);
    if (alone) return error; // the descriptor stays open: the thread still uses it
    pthread_join(thread, NULL);
    if (fd != STDOUT_FILENO && close(fd) && !error) error = errno;
    free_sink(s);
    return error;
}
