#include "trace/conversation.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/zst.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FRAME = 1 << 20 }; // bytes of text

struct ls_conversation {
    pthread_mutex_t lock; // over what follows, for the rescue
    ls_buf packed, tail;  // frames; text that is in none yet
    size_t n_whole;       // bytes of packed that are whole frames
    size_t *starts;       // of each turn: where its first frame begins in packed
    size_t n_turns, cap;
    ls_zst_encoder *zst;
};

ls_conversation *ls_conversation_new(void) {
    ls_conversation *c = ls_calloc(1, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->zst = ls_zst_encoder_new();
    return c;
}

void ls_conversation_free(ls_conversation *c) {
    if (!c) return;
    pthread_mutex_destroy(&c->lock);
    ls_zst_encoder_free(c->zst);
    ls_buf_free(&c->packed);
    ls_buf_free(&c->tail);
    free(c->starts);
    free(c);
}

static void pack(ls_conversation *c) {
    if (c->tail.n) ls_zst_encode(c->zst, c->tail.p, c->tail.n, true, &c->packed);
    c->n_whole = c->packed.n;
    ls_buf_clear(&c->tail);
}

void ls_conversation_begin(ls_conversation *c) {
    pthread_mutex_lock(&c->lock);
    pack(c);
    if (c->n_turns == c->cap) {
        c->starts = ls_realloc(c->starts, (2 * c->cap + 16) * sizeof *c->starts);
        c->cap = 2 * c->cap + 16;
    }
    c->starts[c->n_turns++] = c->packed.n;
    pthread_mutex_unlock(&c->lock);
}

void ls_conversation_add(ls_conversation *c, const void *lines, size_t n) {
    pthread_mutex_lock(&c->lock);
    ls_buf_add(&c->tail, lines, n);
    if (c->tail.n >= FRAME) pack(c);
    pthread_mutex_unlock(&c->lock);
}

void ls_conversation_cut(ls_conversation *c, size_t turn) {
    if (turn >= c->n_turns) return;
    pthread_mutex_lock(&c->lock);
    c->packed.n = c->n_whole = c->starts[turn];
    ls_buf_clear(&c->tail);
    c->n_turns = turn;
    pthread_mutex_unlock(&c->lock);
}

size_t ls_conversation_turns(const ls_conversation *c) {
    return c->n_turns;
}

ls_lines *ls_conversation_lines(ls_conversation *c, const char *name) {
    pthread_mutex_lock(&c->lock);
    pack(c);
    pthread_mutex_unlock(&c->lock);
    return ls_lines_in(c->packed.p, c->packed.n, name);
}

static ls_code save_plain(ls_conversation *c, const char *path, ls_err *err) {
    ls_replacement r;
    ls_line line;
    ls_code code = ls_replace_open(&r, path, LS_FILE_PRIVATE, err);
    if (code) return code;
    ls_lines *lines = ls_conversation_lines(c, path);
    while (!(code = ls_lines_next(lines, &line, err)) && line.p) {
        fwrite(line.p, 1, line.n, r.f);
        putc('\n', r.f);
    }
    ls_lines_close(lines);
    const ls_code closed = ls_replace_close(&r, !code, code ? NULL : err);
    return code ? code : closed;
}

ls_code ls_conversation_save(ls_conversation *c, const char *path, ls_err *err) {
    const size_t n = strlen(path);
    if (!c->n_turns) return ls_fail(err, LS_E_RANGE, "there is no conversation to save yet");
    if (n < 4 || strcmp(path + n - 4, ".zst")) return save_plain(c, path, err);
    pthread_mutex_lock(&c->lock);
    pack(c);
    pthread_mutex_unlock(&c->lock);
    return ls_write_private(path, &c->packed, err);
}

ls_code ls_conversation_rescue(ls_conversation *c, const char *path, ls_err *err) {
    // Where the lock is not free within a second, its holder is the one that found no memory. Then the buffers are as
    // they were before: what could not grow is unchanged, and n_whole leaves out a frame that was begun.
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    const bool locked = !pthread_mutex_timedlock(&c->lock, &until);
    ls_zst_encoder *z = ls_zst_encoder_new(); // the other one may stand in the middle of a frame
    ls_buf tail = {0};
    ls_zst_encode(z, c->tail.n ? c->tail.p : "", c->tail.n, true, &tail);
    ls_code code = c->n_turns ? LS_OK : ls_fail(err, LS_E_RANGE, "there is no conversation to save yet");
    ls_replacement r;
    if (!code && !(code = ls_replace_open(&r, path, LS_FILE_PRIVATE, err))) {
        if (c->n_whole) fwrite(c->packed.p, 1, c->n_whole, r.f);
        fwrite(tail.p, 1, tail.n, r.f);
        code = ls_replace_close(&r, true, err);
    }
    ls_zst_encoder_free(z);
    ls_buf_free(&tail);
    if (locked) pthread_mutex_unlock(&c->lock);
    return code;
}
