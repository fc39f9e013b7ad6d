#include "trace/conversation.h"
#include "base/file.h"
#include "base/io.h"
#include "base/mem.h"
#include "trace/seen.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FRAME = 1 << 20 }; // bytes of text

// The start of a turn.
typedef struct {
    size_t frame, step; // its first frame and step
    uint64_t text;      // bytes of text before it
    size_t seen;        // number of known token ids before it
} turn_start;

struct ls_conversation {
    pthread_mutex_t lock; // guards the next fields up to n_turns, for ls_conversation_rescue
    ls_buf packed, tail;  // complete frames; text that is not in a frame yet
    size_t n_whole;       // bytes of complete frames in packed
    uint64_t text;        // bytes of text in these frames
    ls_kept_step *steps;
    size_t n_steps, cap_steps;
    turn_start *turns;
    size_t n_turns, cap_turns;
    struct { // end of the last turn, if it has ended; not written yet, because the turn may continue
        bool known;
        uint32_t turn;
        ls_finish reason;
        ls_stats totals;
    } end;
    ls_trace_writer w;
    ls_seen seen; // ids whose bytes are kept
    ls_zst_encoder *zst;
};

ls_conversation *ls_conversation_new(const ls_vocab *vocab) {
    ls_conversation *c = ls_calloc(1, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->w = (ls_trace_writer){.level = LS_LEVEL_FULL, .vocab = vocab};
    c->zst = ls_zst_encoder_new();
    ls_seen_init(&c->seen, ls_vocab_size(vocab));
    return c;
}

void ls_conversation_free(ls_conversation *c) {
    if (!c) return;
    ls_conversation_cut(c, 0);
    pthread_mutex_destroy(&c->lock);
    ls_zst_encoder_free(c->zst);
    ls_seen_free(&c->seen);
    ls_buf_free(&c->packed);
    ls_buf_free(&c->tail);
    ls_buf_free(&c->w.line);
    free(c->steps);
    free(c->turns);
    free(c);
}

size_t ls_conversation_turns(const ls_conversation *c) {
    return c->n_turns;
}

static void pack_tail(ls_conversation *c) {
    if (c->tail.n) ls_zst_encode(c->zst, c->tail.p, c->tail.n, true, &c->packed);
    c->n_whole = c->packed.n;
    c->text += c->tail.n;
    ls_buf_clear(&c->tail);
}

void ls_conversation_cut(ls_conversation *c, size_t turn) {
    if (turn >= c->n_turns) return;
    const turn_start *t = &c->turns[turn];
    pthread_mutex_lock(&c->lock);
    c->packed.n = c->n_whole = t->frame;
    c->text = t->text;
    ls_buf_clear(&c->tail);
    while (c->n_steps > t->step) ls_packed_free(c->steps[--c->n_steps].step);
    c->n_turns = turn;
    c->end.known = false;
    pthread_mutex_unlock(&c->lock);
    ls_seen_cut(&c->seen, t->seen);
}

static void keep_text(ls_conversation *c, const char *line, size_t n, const char *newline) {
    pthread_mutex_lock(&c->lock);
    ls_buf_add(&c->tail, line, n);
    ls_buf_str(&c->tail, newline);
    if (c->tail.n >= FRAME) pack_tail(c);
    pthread_mutex_unlock(&c->lock);
}

static void keep_line(ls_conversation *c) {
    keep_text(c, c->w.line.p, c->w.line.n, "");
}

// Writes the end of the last turn, when it cannot continue any more.
static void keep_end(ls_conversation *c) {
    if (!c->end.known) return;
    ls_trace_write_end(&c->w, c->end.turn, c->end.reason, &c->end.totals);
    keep_line(c);
    c->end.known = false;
}

// first: the number of the conversation's first turn; used only if this is that turn.
static void begin(ls_conversation *c, uint32_t turn, uint32_t first) {
    ls_conversation_cut(c, turn);
    keep_end(c);
    pthread_mutex_lock(&c->lock);
    pack_tail(c);
    if (c->n_turns == c->cap_turns) {
        c->turns = ls_realloc(c->turns, (2 * c->cap_turns + 16) * sizeof *c->turns);
        c->cap_turns = 2 * c->cap_turns + 16;
    }
    c->turns[c->n_turns++] = (turn_start){c->n_whole, c->n_steps, c->text, c->seen.order.n};
    if (turn == 0) c->w.first = first;
    pthread_mutex_unlock(&c->lock);
}

static void keep_tokens(ls_conversation *c, ls_ids *fresh) {
    if (fresh->n) {
        ls_trace_write_tokens(&c->w, fresh);
        keep_line(c);
    }
    ls_ids_free(fresh);
}

static void keep_step(ls_conversation *c, ls_packed *step) {
    pthread_mutex_lock(&c->lock);
    if (c->n_steps == c->cap_steps) {
        c->steps = ls_realloc(c->steps, (2 * c->cap_steps + 256) * sizeof *c->steps);
        c->cap_steps = 2 * c->cap_steps + 256;
    }
    c->steps[c->n_steps++] = (ls_kept_step){c->text + c->tail.n, step};
    pthread_mutex_unlock(&c->lock);
}

void ls_conversation_begin(ls_conversation *c, const ls_trace_header *h) {
    ls_ids fresh = {0};
    begin(c, h->turn, 0);
    ls_trace_write_header(&c->w, h);
    keep_line(c);
    ls_seen_ids(&c->seen, h->prompt.p, h->prompt.n, &fresh);
    keep_tokens(c, &fresh);
}

void ls_conversation_step(ls_conversation *c, const ls_step *s, ls_packed *packed) {
    ls_ids fresh = {0};
    c->end.known = false;
    ls_seen_step(&c->seen, s, &fresh);
    keep_tokens(c, &fresh);
    keep_step(c, packed);
}

void ls_conversation_end(ls_conversation *c, uint32_t turn, ls_finish reason, const ls_stats *totals) {
    c->end.turn = turn;
    c->end.reason = reason;
    c->end.totals = *totals;
    c->end.known = true;
}

void ls_conversation_copy(ls_conversation *c, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn) {
    ls_ids fresh = {0};
    const ls_trace_header *h = ls_trace_read_header(r);
    const ls_step *s = ls_trace_read_step(r);
    size_t n;
    const char *line = ls_trace_read_text(r, &n);
    if (kind == LS_TRACE_TOKENS) return; // written again from the vocabulary, because this turn may be removed
    if (kind == LS_TRACE_HEADER) begin(c, turn, h->turn);
    if (kind == LS_TRACE_STEP) {
        ls_seen_step(&c->seen, s, &fresh);
        keep_tokens(c, &fresh);
        ls_trace_write_step(&c->w, s);
        if (c->w.line.n == n + 1 && !memcmp(c->w.line.p, line, n)) {
            keep_step(c, ls_pack(s));
            return;
        }
    }
    keep_text(c, line, n, "\n");
    if (kind == LS_TRACE_HEADER) {
        ls_seen_ids(&c->seen, h->prompt.p, h->prompt.n, &fresh);
        keep_tokens(c, &fresh);
    }
}

ls_trace_reader *ls_conversation_read(ls_conversation *c, const char *name) {
    keep_end(c);
    pthread_mutex_lock(&c->lock);
    pack_tail(c);
    pthread_mutex_unlock(&c->lock);
    return ls_trace_read_kept(ls_lines_in(c->packed.p, c->packed.n, name), c->steps, c->n_steps);
}

// ---- writing

typedef struct {
    FILE *f;
    ls_zst_encoder *zst; // NULL: plain
    ls_buf text, frame;
    ls_trace_writer w;
    size_t step; // the next step to write
    ls_step room;
} saving;

static void flush(saving *v) {
    ls_buf_clear(&v->frame);
    if (v->zst) ls_zst_encode(v->zst, v->text.p, v->text.n, true, &v->frame);
    const ls_buf *out = v->zst ? &v->frame : &v->text;
    if (out->n) fwrite(out->p, 1, out->n, v->f);
    ls_buf_clear(&v->text);
}

static void write_bytes(saving *v, const char *p, size_t n) {
    ls_buf_add(&v->text, p, n);
    if (v->text.n >= FRAME) flush(v);
}

// Writes the steps before byte `until` of the text.
static void write_steps(saving *v, const ls_conversation *c, uint64_t until) {
    for (; v->step < c->n_steps && c->steps[v->step].text <= until; v->step++) {
        ls_unpack(c->steps[v->step].step, &v->room);
        ls_trace_write_step(&v->w, &v->room);
        write_bytes(v, v->w.line.p, v->w.line.n);
    }
}

static ls_code write_text(saving *v, const ls_conversation *c, ls_err *err) {
    ls_line line = {0};
    ls_lines *lines = ls_lines_in(c->packed.p, c->n_whole, "the conversation");
    ls_code code = LS_OK;
    while (c->n_whole && !(code = ls_lines_next(lines, &line, err)) && line.p) {
        write_steps(v, c, line.offset);
        write_bytes(v, line.p, line.n);
        write_bytes(v, "\n", 1);
    }
    ls_lines_close(lines);
    for (size_t at = 0, n; !code && at < c->tail.n; at += n) {
        write_steps(v, c, c->text + at);
        n = (size_t)((const char *)memchr(c->tail.p + at, '\n', c->tail.n - at) - (c->tail.p + at)) + 1;
        write_bytes(v, c->tail.p + at, n);
    }
    write_steps(v, c, UINT64_MAX);
    if (c->end.known) {
        ls_trace_write_end(&v->w, c->end.turn, c->end.reason, &c->end.totals);
        write_bytes(v, v->w.line.p, v->w.line.n);
    }
    flush(v);
    return code;
}

ls_code ls_conversation_save(const ls_conversation *c, const char *path, ls_err *err) {
    const size_t n = strlen(path);
    ls_atomic_file r;
    if (!c->n_turns) return ls_fail(err, LS_E_RANGE, "there is no conversation to save yet");
    ls_code code = ls_atomic_open(&r, path, LS_FILE_PRIVATE, err);
    if (code) return code;
    saving *v = ls_calloc(1, sizeof *v);
    v->f = r.f;
    v->w = (ls_trace_writer){.level = c->w.level, .first = c->w.first, .vocab = c->w.vocab};
    if (n >= 4 && !strcmp(path + n - 4, ".zst")) v->zst = ls_zst_encoder_new();
    code = write_text(v, c, err);
    ls_zst_encoder_free(v->zst);
    ls_buf_free(&v->text);
    ls_buf_free(&v->frame);
    ls_buf_free(&v->w.line);
    free(v);
    const ls_code closed = ls_atomic_close(&r, !code, code ? NULL : err);
    return code ? code : closed;
}

ls_code ls_conversation_rescue(ls_conversation *c, const char *path, ls_err *err) {
    // If the lock is not free within a second, its holder is the thread that ran out of memory. Then reading without
    // the lock is safe: the buffer that could not grow is unchanged, and n_whole excludes an incomplete frame.
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    const bool locked = !pthread_mutex_timedlock(&c->lock, &until);
    const ls_code code = ls_conversation_save(c, path, err);
    if (locked) pthread_mutex_unlock(&c->lock);
    return code;
}
