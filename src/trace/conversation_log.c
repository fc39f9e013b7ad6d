#include "trace/conversation_log.h"
#include "base/system.h"
#include "base/file.h"
#include "base/io.h"
#include "base/mem.h"
#include "trace/autosave.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK = 1 << 20,    // bytes of text that are compressed at once
    MOST_QUEUED = 1024, // entries; of steps of 256 rows 52 MiB, which a screen holds as well
    STUCK_S = 5,        // without any progress of the thread
    SHORT_S = 1,        // the same, at the end of a turn
    RESCUE_NS = 1000000000,
    TOO_LONG = -1, // instead of an errno: beyond LS_AUTOSAVE_BYTES
    STUCK = -2     // instead of an errno: the disk does not respond
};

// What happened, for the thread. The bytes of new ids come before the line.
typedef struct entry {
    struct entry *next;
    enum { LINE, STEP, TURN, END, CLEAR, CLOSE } kind;
    size_t turn;         // TURN: this turn and those after it go
    ls_buf line;         // verbatim; of a STEP: empty if it is to be formatted
    ls_ids ids;          // TURN: of the prompt
    const ls_step *step; // STEP
} entry;

// Where a turn begins.
typedef struct {
    uint64_t at; // in the file
    size_t seen; // ids whose bytes were written before it
} turn_start;

struct ls_conversation_log {
    // the caller's
    size_t n_turns;
    ls_trace_writer head; // formats headers and ends
    bool told_lost;
    char *path; // NULL: in memory; changed with the lock held, for a rescue
    // shared
    pthread_t thread;
    pthread_mutex_t lock; // of the queue
    pthread_cond_t changed;
    entry *queue, **queue_end;
    size_t n_queued; // with the one that is worked on
    bool closing;
    bool clearing;    // a CLEAR is queued or worked on: what the thread loses before it is not missed
    atomic_int error; // errno, or TOO_LONG: the thread left the path
    atomic_int lost;  // errno, or STUCK: not even the file in memory could be written; entries are dropped
    // the thread's; the caller's while nothing is queued
    int fd;
    bool at_path;       // fd is the file at the path
    atomic_ullong n;    // bytes of the file
    uint64_t ended_at;  // where the end of the last turn begins, which may go on; 0: it has not ended
    bool open;          // a Zstandard frame has begun
    ls_buf text, bytes; // not written yet; compressed
    ls_trace_writer w;
    turn_start *turns;
    size_t n_started;
    ls_zst_encoder *zst;
};

static int in_memory(void) {
    return memfd_create("conversation", MFD_CLOEXEC);
}

static int write_at(int fd, const char *p, size_t n, uint64_t at) {
    while (n) {
        const ssize_t k = pwrite(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return k ? errno : ENOSPC;
        p += k, n -= (size_t)k, at += (size_t)k;
    }
    return 0;
}

// Copies the first n bytes. Returns 0 or errno. Needs no memory.
static int copy_file(int from, int to, uint64_t n) {
    char block[16384];
    for (uint64_t at = 0; at < n;) {
        const ssize_t k = pread(from, block, n - at < sizeof block ? (size_t)(n - at) : sizeof block, (off_t)at);
        if (k <= 0) return k ? errno : EIO;
        const int error = write_at(to, block, (size_t)k, at);
        if (error) return error;
        at += (uint64_t)k;
    }
    return 0;
}

// ---- the thread

static void lose(ls_conversation_log *c, int error) {
    pthread_mutex_lock(&c->lock);
    if (!c->clearing) c->lost = error;
    pthread_mutex_unlock(&c->lock);
}

// The file is lost: goes on in memory with what was written.
static void leave_file(ls_conversation_log *c, int error) {
    const int fd = in_memory();
    c->at_path = false;
    if (fd >= 0 && !copy_file(c->fd, fd, c->n)) {
        close(c->fd);
        c->fd = fd;
    } else if (fd >= 0) close(fd);
    atomic_store(&c->error, error);
}

static void flush(ls_conversation_log *c, bool ends) {
    if (!c->text.n && !(ends && c->open)) return;
    ls_buf_clear(&c->bytes);
    ls_zst_encode(c->zst, c->text.p, c->text.n, ends, &c->bytes);
    ls_buf_clear(&c->text);
    c->open = !ends;
    int error =
        c->at_path && c->n + c->bytes.n > LS_AUTOSAVE_BYTES ? TOO_LONG : write_at(c->fd, c->bytes.p, c->bytes.n, c->n);
    if (error && c->at_path) {
        leave_file(c, error);
        error = write_at(c->fd, c->bytes.p, c->bytes.n, c->n);
    }
    if (error) lose(c, error);
    else c->n += c->bytes.n;
}

static void put(ls_conversation_log *c, const ls_buf *line) {
    ls_buf_add(&c->text, line->p, line->n);
    if (c->text.n >= BLOCK) flush(c, false);
}

static void cut_at(ls_conversation_log *c, uint64_t at) {
    flush(c, true);
    c->n = at;
    if (ftruncate(c->fd, (off_t)at)) lose(c, errno);
    c->ended_at = 0;
}

static void cut_turns(ls_conversation_log *c, size_t turn) {
    if (turn >= c->n_started) return;
    cut_at(c, c->turns[turn].at);
    ls_seen_cut(&c->w.seen, c->turns[turn].seen);
    c->n_started = turn;
}

// The file at the path, if there was one, is the caller's to delete; where it was, the disk may be full.
static void clear(ls_conversation_log *c) {
    const int fd = c->at_path ? in_memory() : -1;
    cut_turns(c, 0);
    if (fd >= 0) {
        close(c->fd);
        c->fd = fd;
    }
    c->at_path = false;
    atomic_store(&c->error, 0); // nothing is left that could be incomplete
}

static void begin_turn(ls_conversation_log *c, const entry *e) {
    cut_turns(c, e->turn);
    flush(c, true);
    c->ended_at = 0;
    c->turns = ls_grown(c->turns, c->n_started, sizeof *c->turns);
    c->turns[c->n_started++] = (turn_start){c->n, c->w.seen.order.n};
}

static void write_entry(ls_conversation_log *c, const entry *e) {
    if ((e->kind == STEP || e->kind == END) && c->ended_at) cut_at(c, c->ended_at); // the turn went on
    if (e->kind == CLEAR) clear(c);
    if (e->kind == TURN) begin_turn(c, e);
    if (e->kind == END || e->kind == CLOSE) flush(c, true);
    if (e->kind == END) c->ended_at = c->n;
    if (e->kind == STEP) {
        ls_trace_write_ids_of(&c->w, e->step);
        put(c, &c->w.line);
        if (!e->line.n) {
            ls_trace_write_step(&c->w, e->step);
            put(c, &c->w.line);
        }
    }
    put(c, &e->line);
    ls_trace_write_ids(&c->w, e->ids.p, e->ids.n);
    put(c, &c->w.line);
    if (e->kind == END) flush(c, true); // so that it can be cut off
}

static void free_entry(entry *e) {
    ls_buf_free(&e->line);
    ls_ids_free(&e->ids);
    ls_step_free(e->step);
    free(e);
}

static void *writer(void *ud) {
    ls_conversation_log *c = ud;
    pthread_mutex_lock(&c->lock);
    while (c->queue || !c->closing) {
        entry *e = c->queue;
        if (!e) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        if (!(c->queue = e->next)) c->queue_end = &c->queue;
        const bool last = !c->queue;
        const bool cleared = e->kind == CLEAR;
        pthread_mutex_unlock(&c->lock);
        write_entry(c, e);
        if (last) flush(c, false);
        free_entry(e);
        pthread_mutex_lock(&c->lock);
        c->n_queued--;
        if (cleared) c->clearing = c->queue && c->queue->kind == CLEAR;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

// ---- the caller

// With the lock: waits until at most n entries are queued. False: for so many seconds the thread finished none.
static bool drain(ls_conversation_log *c, size_t n, int seconds) {
    while (c->n_queued > n) {
        const size_t before = c->n_queued;
        const struct timespec until = ls_time_after((uint64_t)seconds * 1000000000u);
        while (c->n_queued == before)
            if (pthread_cond_timedwait(&c->changed, &c->lock, &until) == ETIMEDOUT && c->n_queued == before)
                return false;
    }
    return true;
}

// With the lock: what waits in the queue is to be removed with the rest.
static void forget_queue(ls_conversation_log *c) {
    while (c->queue) {
        entry *next = c->queue->next;
        free_entry(c->queue);
        c->queue = next;
        c->n_queued--;
    }
    c->queue_end = &c->queue;
    c->clearing = true;
    c->lost = 0; // from here on the log is whole, though the thread may have to work on what was before
}

// If the disk does not respond, the log is lost, and the caller goes on.
static void hand_over(ls_conversation_log *c, entry e) {
    entry *q = ls_malloc(sizeof *q);
    *q = e;
    q->next = NULL;
    pthread_mutex_lock(&c->lock);
    if (e.kind == CLEAR) forget_queue(c);
    else if (!c->lost && !drain(c, MOST_QUEUED - 1, STUCK_S)) c->lost = STUCK;
    const bool drop = c->lost;
    if (!drop) {
        *c->queue_end = q;
        c->queue_end = &q->next;
        c->n_queued++;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    if (drop) free_entry(q);
}

// Everything is in the file, and whole. False: the disk does not respond.
static bool settle(ls_conversation_log *c, int seconds) {
    hand_over(c, (entry){.kind = CLOSE});
    pthread_mutex_lock(&c->lock);
    const bool all = drain(c, 0, seconds);
    pthread_mutex_unlock(&c->lock);
    return all;
}

ls_code ls_conversation_log_new(ls_conversation_log **out, const ls_vocab *vocab, ls_err *err) {
    ls_conversation_log *c = ls_calloc(1, sizeof *c);
    *out = NULL;
    c->fd = in_memory();
    const int error = c->fd < 0 ? errno : 0;
    c->queue_end = &c->queue;
    c->head = c->w = (ls_trace_writer){.level = LS_LEVEL_FULL, .vocab = vocab};
    c->zst = ls_zst_encoder_new();
    ls_seen_init(&c->w.seen, ls_vocab_size(vocab));
    pthread_mutex_init(&c->lock, NULL);
    ls_cond_init(&c->changed);
    if (!error && ls_thread_start(&c->thread, writer, c)) *out = c;
    if (*out) return LS_OK;
    c->closing = true;
    ls_fail(err, LS_E_IO, "cannot record the conversation: %s",
            error ? strerror(error) : "the system refuses another thread");
    ls_conversation_log_free(c);
    return LS_E_IO;
}

void ls_conversation_log_free(ls_conversation_log *c) {
    if (!c) return;
    const bool runs = !c->closing;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (runs) {
        pthread_join(c->thread, NULL);
        flush(c, true);
    }
    if (c->fd >= 0) close(c->fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    ls_zst_encoder_free(c->zst);
    ls_trace_writer_free(&c->w);
    ls_trace_writer_free(&c->head);
    ls_buf_free(&c->text);
    ls_buf_free(&c->bytes);
    free(c->turns);
    free(c->path);
    free(c);
}

size_t ls_conversation_log_turns(const ls_conversation_log *c) {
    return c->n_turns;
}

static ls_buf line_of(const char *p, size_t n, const char *newline) {
    ls_buf line = {0};
    ls_buf_add(&line, p, n);
    ls_buf_str(&line, newline);
    return line;
}

// line: with its newline; taken.
static void begin(ls_conversation_log *c, size_t turn, ls_buf line, const ls_ids *prompt) {
    entry e = {.kind = TURN, .turn = turn, .line = line};
    ls_ids_add(&e.ids, prompt->p, prompt->n);
    c->n_turns = turn + 1;
    hand_over(c, e);
}

static void on_begin(void *ud, const ls_runner *run, double prefill_ms) {
    ls_conversation_log *c = ud;
    ls_trace_header h;
    ls_trace_describe(&h, run, prefill_ms);
    if (h.turn == 0) c->head.first = 0;
    ls_trace_write_header(&c->head, &h);
    begin(c, h.turn, line_of(c->head.line.p, c->head.line.n, ""), &h.prompt);
    ls_trace_header_free(&h);
}

static void on_step(void *ud, const ls_step *step) {
    hand_over(ud, (entry){.kind = STEP, .step = ls_step_share(step)});
}

static void on_end(void *ud, uint32_t turn, ls_finish reason, const ls_stats *totals) {
    ls_conversation_log *c = ud;
    ls_trace_write_end(&c->head, turn, reason, totals);
    hand_over(c, (entry){.kind = END, .line = line_of(c->head.line.p, c->head.line.n, "")});
}

ls_run_sink ls_conversation_log_sink(ls_conversation_log *c) {
    return (ls_run_sink){on_begin, on_step, on_end, c};
}

void ls_conversation_log_copy(ls_conversation_log *c, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn) {
    const ls_trace_header *h = ls_trace_read_header(r);
    size_t n;
    const char *line = ls_trace_read_text(r, &n);
    if (kind == LS_TRACE_TOKENS) return; // written again from the vocabulary, because this turn may be removed
    const ls_buf verbatim = line_of(line, n, "\n");
    if (kind == LS_TRACE_HEADER) {
        if (turn == 0) c->head.first = h->turn;
        begin(c, turn, verbatim, &h->prompt);
    } else if (kind == LS_TRACE_STEP)
        hand_over(c, (entry){.kind = STEP, .line = verbatim, .step = ls_step_share(ls_trace_read_step(r))});
    else hand_over(c, (entry){.kind = kind == LS_TRACE_END ? END : LINE, .line = verbatim});
}

static ls_code not_kept(int error, ls_err *err) {
    if (error == TOO_LONG) return ls_fail(err, LS_E_RANGE, "the file is longer than %d MiB", LS_AUTOSAVE_BYTES >> 20);
    if (error == STUCK) return ls_fail(err, LS_E_IO, "the disk does not respond");
    return ls_fail(err, LS_E_IO, "%s", ls_write_reason(error));
}

static void set_path(ls_conversation_log *c, char *path) {
    pthread_mutex_lock(&c->lock);
    char *before = c->path;
    c->path = path;
    pthread_mutex_unlock(&c->lock);
    free(before);
}

ls_code ls_conversation_log_autosave(ls_conversation_log *c, const char *path, ls_err *err) {
    if (c->path) return LS_OK;
    const bool all = settle(c, STUCK_S);
    if (!all || c->lost) return not_kept(all ? c->lost : STUCK, err);
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const int error = fd < 0 ? errno : c->n > LS_AUTOSAVE_BYTES ? TOO_LONG : copy_file(c->fd, fd, c->n);
    if (error) {
        if (fd >= 0) close(fd), unlink(path);
        not_kept(error, err);
        return ls_err_prefix(err, "%s", path);
    }
    close(c->fd);
    c->fd = fd;
    c->at_path = true;
    set_path(c, ls_strdup(path));
    return LS_OK;
}

static void forget_path(ls_conversation_log *c) {
    if (c->path) unlink(c->path);
    set_path(c, NULL);
}

void ls_conversation_log_clear(ls_conversation_log *c) {
    hand_over(c, (entry){.kind = CLEAR});
    forget_path(c);
    c->n_turns = 0;
    c->told_lost = false;
}

bool ls_conversation_log_failed(ls_conversation_log *c, bool last, ls_err *err) {
    if (last) settle(c, SHORT_S);
    const int error = atomic_load(&c->error);
    if (!error || !c->path) return false;
    not_kept(error, err);
    forget_path(c);
    atomic_store(&c->error, 0);
    return true;
}

bool ls_conversation_log_lost(ls_conversation_log *c, ls_err *err) {
    const int error = atomic_load(&c->lost);
    if (!error || c->told_lost) return false;
    not_kept(error, err);
    ls_err_prefix(err, "the conversation can no longer be saved");
    return c->told_lost = true;
}

// Another descriptor of the whole file.
static ls_code open_again(ls_conversation_log *c, int *fd, ls_err *err) {
    const int error = settle(c, STUCK_S) ? atomic_load(&c->lost) : STUCK;
    *fd = error ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    if (*fd >= 0 && !lseek(*fd, 0, SEEK_SET)) return LS_OK;
    not_kept(error ? error : errno, err);
    return ls_err_prefix(err, "the recorded conversation cannot be read");
}

static ls_code lines_of(ls_conversation_log *c, const char *name, ls_lines **out, ls_err *err) {
    int fd;
    const ls_code code = open_again(c, &fd, err);
    return code ? code : ls_lines_of(out, fd, name, err);
}

ls_code ls_conversation_log_read(ls_conversation_log *c, const char *name, ls_trace_reader **out, ls_err *err) {
    ls_lines *lines;
    const ls_code code = lines_of(c, name, &lines, err);
    if (!code) *out = ls_trace_read_of(lines);
    return code;
}

static ls_code write_plain(ls_conversation_log *c, FILE *f, ls_err *err) {
    ls_lines *lines;
    ls_line line;
    ls_code code = lines_of(c, "the conversation", &lines, err);
    if (code) return code;
    while (!(code = ls_lines_next(lines, &line, err)) && line.p) {
        fwrite(line.p, 1, line.n, f);
        fputc('\n', f);
    }
    ls_lines_close(lines);
    return code;
}

static ls_code write_packed(ls_conversation_log *c, FILE *f, ls_err *err) {
    char block[16384];
    ssize_t n;
    int fd;
    const ls_code code = open_again(c, &fd, err);
    if (code) return code;
    while ((n = read(fd, block, sizeof block)) > 0) fwrite(block, 1, (size_t)n, f);
    const int error = n < 0 ? errno : 0;
    close(fd);
    return error ? ls_fail(err, LS_E_IO, "the recorded conversation cannot be read: %s", strerror(error)) : LS_OK;
}

// The decoder must not wait for a program that reads a FIFO. Returns a descriptor that keeps its reader there, or -1.
static ls_code open_fifo(const char *path, int *fd, ls_err *err) {
    struct stat st;
    *fd = -1;
    if (stat(path, &st) || !S_ISFIFO(st.st_mode)) return LS_OK;
    *fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd >= 0 || errno != ENXIO) return LS_OK;
    return ls_fail(err, LS_E_IO, "cannot write %s: no program reads this pipe; save into a file", path);
}

ls_code ls_conversation_log_save(ls_conversation_log *c, const char *path, ls_err *err) {
    int fifo;
    ls_atomic_file r;
    if (!c->n_turns) return ls_fail(err, LS_E_RANGE, "there is no conversation to save yet");
    ls_code code = open_fifo(path, &fifo, err);
    if (!code) code = ls_atomic_open(&r, path, LS_FILE_PRIVATE, err);
    if (fifo >= 0) close(fifo);
    if (code) return code;
    code = ls_ends_with(path, ".zst") ? write_packed(c, r.f, err) : write_plain(c, r.f, err);
    const ls_code closed = ls_atomic_close(&r, !code, code ? NULL : err);
    return code ? code : closed;
}

bool ls_conversation_log_rescue(ls_conversation_log *c, const char *path, char *where, size_t size) {
    const uint64_t until = ls_now_ns() + RESCUE_NS;
    bool locked = false;
    // The thread that ran out of memory may be the writer, or may hold the lock: what it has written is good.
    while (!locked && !pthread_equal(pthread_self(), c->thread) && ls_now_ns() < until) {
        locked = !pthread_mutex_trylock(&c->lock);
        if (locked && !c->n_queued) break;
        if (locked) pthread_mutex_unlock(&c->lock);
        locked = false;
        usleep(1000);
    }
    if (!locked) locked = !pthread_mutex_trylock(&c->lock);
    const char *at = c->lost || c->clearing ? NULL : c->path ? c->path : path;
    const int fd = at && !c->path ? open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    const bool ok = at && (c->path || (fd >= 0 && !copy_file(c->fd, fd, c->n)));
    if (fd >= 0) close(fd);
    if (ok) snprintf(where, size, "%s", at);
    if (locked) pthread_mutex_unlock(&c->lock);
    return ok;
}
