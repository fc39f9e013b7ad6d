#include "base/sink.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/zst.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WAITING = 64 << 20 };

struct ls_sink {
    int fd;
    ls_zst_encoder *zst; // NULL: as it is
    pthread_t thread;
    pthread_mutex_t lock; // over what follows
    pthread_cond_t changed;
    ls_buf waiting;
    bool closing;
    int error;
};

static int write_all(int fd, const char *p, size_t n) {
    while (n) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done ? errno : EIO;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

static int empty_file(int fd) {
    struct stat st;
    return fd != STDOUT_FILENO && !fstat(fd, &st) && S_ISREG(st.st_mode) && ftruncate(fd, 0) ? errno : 0;
}

static void *writer(void *ud) {
    ls_sink *s = ud;
    ls_buf now = {0}, packed = {0};
    bool begun = false;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->waiting.n && !s->closing) pthread_cond_wait(&s->changed, &s->lock);
        const bool last = s->closing && !s->waiting.n;
        if (last && !(begun && s->zst)) break;
        const ls_buf empty = now;
        now = s->waiting;
        s->waiting = empty;
        pthread_mutex_unlock(&s->lock);
        int error = begun ? 0 : empty_file(s->fd);
        begun = true;
        const ls_buf *out = &now;
        if (s->zst) {
            ls_buf_clear(&packed);
            ls_zst_encode(s->zst, now.p, now.n, last, &packed);
            out = &packed;
        }
        if (!error) error = write_all(s->fd, out->p, out->n);
        ls_buf_clear(&now);
        pthread_mutex_lock(&s->lock);
        if (error) s->error = error;
        pthread_cond_broadcast(&s->changed);
        if (error || last) break;
    }
    pthread_mutex_unlock(&s->lock);
    ls_buf_free(&now);
    ls_buf_free(&packed);
    return NULL;
}

ls_code ls_sink_open(ls_sink **out, const char *path, ls_err *err) {
    *out = NULL;
    // emptied when there is something to write: a run that fails to start loses nothing
    const int fd = strcmp(path, "-") ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : STDOUT_FILENO;
    if (fd < 0) return ls_fail(err, LS_E_IO, "cannot write %s: %s", path, strerror(errno));
    ls_sink *s = ls_calloc(1, sizeof *s);
    const size_t n = strlen(path);
    s->fd = fd;
    if (n > 4 && !strcmp(path + n - 4, ".zst")) s->zst = ls_zst_encoder_new();
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (ls_thread_start(&s->thread, writer, s)) return *out = s, LS_OK;
    if (fd != STDOUT_FILENO) close(fd);
    ls_zst_encoder_free(s->zst);
    free(s);
    return ls_fail(err, LS_E_IO, "the system refuses another thread");
}

void ls_sink_put(ls_sink *s, const void *p, size_t n) {
    pthread_mutex_lock(&s->lock);
    while (s->waiting.n > MOST_WAITING && !s->error) pthread_cond_wait(&s->changed, &s->lock);
    if (!s->error) ls_buf_add(&s->waiting, p, n);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int ls_sink_error(ls_sink *s) {
    pthread_mutex_lock(&s->lock);
    const int error = s->error;
    pthread_mutex_unlock(&s->lock);
    return error;
}

int ls_sink_close(ls_sink *s) {
    if (!s) return 0;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    int error = s->error;
    if (s->fd != STDOUT_FILENO && close(s->fd) && !error) error = errno;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    ls_zst_encoder_free(s->zst);
    ls_buf_free(&s->waiting);
    free(s);
    return error;
}
