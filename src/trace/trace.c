#include "trace/trace.h"
#include "base/io.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_trace {
    ls_sink *sink; // NULL: lines go to put
    void (*put)(void *ud, const char *p, size_t n);
    void *ud;
    char *path;
    ls_trace_writer w;
    bool reported, left; // left: see ls_trace_leave
    ls_buf end;          // the line of the last turn's end, not written yet, because the turn may go on; empty: none
};

ls_code ls_trace_open(ls_trace **out, const char *path, ls_trace_level level, ls_progress go_on, void *ud,
                      ls_err *err) {
    ls_sink *sink;
    *out = NULL;
    const ls_code code = ls_sink_open(&sink, path, go_on, ud, err);
    if (code) return code;
    ls_trace *t = ls_calloc(1, sizeof *t);
    t->sink = sink;
    t->path = ls_strdup(path);
    t->w.level = level;
    *out = t;
    return LS_OK;
}

ls_trace *ls_trace_to(void (*to)(void *ud, const char *p, size_t n), void *ud, ls_trace_level level) {
    ls_trace *t = ls_calloc(1, sizeof *t);
    t->put = to;
    t->ud = ud;
    t->w.level = level;
    return t;
}

static void put(ls_trace *t, const ls_buf *line) {
    if (!line->n) return;
    if (t->sink) ls_sink_put(t->sink, line->p, line->n);
    else t->put(t->ud, line->p, line->n);
}

static void put_end(ls_trace *t) {
    put(t, &t->end);
    ls_buf_clear(&t->end);
}

bool ls_trace_failed(ls_trace *t, ls_err *err) {
    const int error = t->reported || !t->sink ? 0 : ls_sink_error(t->sink);
    if (!error) return false;
    t->reported = true;
    ls_fail(err, LS_E_IO, "recording to %s stopped: %s", t->path, ls_write_reason(error));
    return true;
}

bool ls_trace_close(ls_trace *t, ls_err *err) {
    if (!t) return true;
    put_end(t);
    uint64_t dropped;
    const int error = t->sink ? ls_sink_close(t->sink, &dropped) : 0;
    if (error && t->reported) // repeat the reason, because the first message may have been on a closed screen
        ls_fail(err, LS_E_IO, "the trace %s is incomplete, without its last %" PRIu64 " bytes: %s", t->path, dropped,
                ls_write_reason(error));
    else if (error)
        ls_fail(err, LS_E_IO, "the trace %s is incomplete: %s; %" PRIu64 " bytes were not written", t->path,
                ls_write_reason(error), dropped);
    ls_trace_writer_free(&t->w);
    ls_buf_free(&t->end);
    free(t->path);
    free(t);
    return !error;
}

void ls_trace_leave(ls_trace *t) {
    if (!t) return;
    put_end(t);
    t->left = true;
}

bool ls_trace_in_turn(const ls_trace *t) {
    return !t->left;
}

static void on_begin(void *ud, const ls_runner *run, double prefill_ms) {
    ls_trace *t = ud;
    ls_trace_header h;
    put_end(t);
    t->left = false;
    t->w.vocab = run->model->vocab;
    ls_trace_describe(&h, run, prefill_ms);
    if (h.turn == 0 || !t->w.seen.known)
        ls_seen_init(&t->w.seen, ls_vocab_size(t->w.vocab)); // each conversation is self-contained
    ls_trace_write_header(&t->w, &h);
    put(t, &t->w.line);
    ls_trace_write_ids(&t->w, h.prompt.p, h.prompt.n);
    put(t, &t->w.line);
    ls_trace_header_free(&h);
}

static void on_step(void *ud, const ls_step *s) {
    ls_trace *t = ud;
    if (t->left) return;
    ls_buf_clear(&t->end); // the turn goes on
    ls_trace_write_ids_of(&t->w, s);
    put(t, &t->w.line);
    ls_trace_write_step(&t->w, s);
    put(t, &t->w.line);
}

static void on_end(void *ud, uint32_t turn, ls_finish reason, const ls_stats *totals) {
    ls_trace *t = ud;
    if (t->left) return;
    ls_trace_write_end(&t->w, turn, reason, totals);
    ls_buf_clear(&t->end);
    ls_buf_add(&t->end, t->w.line.p, t->w.line.n);
    if (reason != LS_FINISH_LENGTH) put_end(t);
}

ls_run_sink ls_trace_sink(ls_trace *t) {
    return (ls_run_sink){on_begin, on_step, on_end, t};
}
