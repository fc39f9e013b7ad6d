#include "base/sink.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/zst.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WAITING = 64 << 20, BEAT_MS = 100, UNREAD_MS = 10000, HURRIED_MS = 2000 };

struct ls_sink {
    int fd;
    bool regular;
    ls_zst_encoder *zst; // NULL: not compressed
    ls_file_wait go_on;
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
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BEAT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
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

static ls_code cannot_open(const char *path, ls_err *err) {
    if (errno == ECANCELED) return ls_fail(err, LS_E_CANCELLED, "interrupted: no program reads %s", path);
    return ls_fail(err, LS_E_IO, "cannot write %s: %s", path, ls_write_reason(errno));
}

ls_code ls_sink_open(ls_sink **out, const char *path, ls_file_wait go_on, void *ud, ls_err *err) {
    *out = NULL;
    // The thread truncates the file at the first write, so a run that fails to start destroys nothing.
    const int fd = strcmp(path, "-") ? ls_open_output(path, O_CREAT, LS_FILE_PRIVATE, go_on, ud) : STDOUT_FILENO;
    if (fd < 0) return cannot_open(path, err);
    struct stat st;
    const bool regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
    if (regular && fd != STDOUT_FILENO && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return ls_fail(err, LS_E_IO, "cannot write %s: another run records into it: name another file", path);
    }
    ls_sink *s = ls_calloc(1, sizeof *s);
    const size_t n = strlen(path);
    s->fd = fd;
    s->regular = regular;
    s->go_on = go_on;
    s->ud = ud;
    if (n > 4 && !strcmp(path + n - 4, ".zst")) s->zst = ls_zst_encoder_new();
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
