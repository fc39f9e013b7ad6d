#include "trace/trace.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/sink.h"
#include "trace/seen.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_trace {
    ls_sink *sink;         // NULL: in memory
    ls_conversation *kept; // there
    ls_ids marks;          // of each of its turns: how many ids were seen before it
    uint32_t first;        // `turn` of its first header: a recording may begin in the middle of a conversation
    char *path;
    ls_trace_level level;
    const ls_vocab *vocab;
    ls_seen seen; // ids whose bytes were written
    ls_buf line;
    ls_jsonw w;
    ls_node node; // see node_told
    bool reported;
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
    t->level = level;
    t->w.out = &t->line;
    *out = t;
    return LS_OK;
}

ls_trace *ls_trace_open_memory(const ls_vocab *vocab) {
    ls_trace *t = ls_calloc(1, sizeof *t);
    t->kept = ls_conversation_new();
    t->level = LS_LEVEL_FULL;
    t->vocab = vocab;
    t->w.out = &t->line;
    ls_seen_init(&t->seen, ls_vocab_size(vocab));
    return t;
}

ls_conversation *ls_trace_conversation(const ls_trace *t) {
    return t->kept;
}

void ls_trace_cut(ls_trace *t, uint32_t turn) {
    if (turn >= t->marks.n) return;
    ls_conversation_cut(t->kept, turn);
    ls_seen_cut(&t->seen, (size_t)t->marks.p[turn]);
    t->marks.n = turn;
}

static void begin_kept(ls_trace *t, uint32_t turn) {
    ls_trace_cut(t, turn);
    ls_ids_push(&t->marks, (int32_t)t->seen.order.n);
    ls_conversation_begin(t->kept);
}

bool ls_trace_failed(ls_trace *t, ls_err *err) {
    const int error = t->sink && !t->reported ? ls_sink_error(t->sink) : 0;
    if (!error) return false;
    t->reported = true;
    ls_fail(err, LS_E_IO, "the trace %s ends here: %s", t->path, ls_write_reason(error));
    return true;
}

bool ls_trace_close(ls_trace *t, ls_err *err) {
    if (!t) return true;
    uint64_t dropped;
    const int error = ls_sink_close(t->sink, &dropped);
    if (error && t->reported) // perhaps on a screen that is gone by now: repeats the reason
        ls_fail(err, LS_E_IO, "the trace %s lacks the last %" PRIu64 " bytes: %s", t->path, dropped,
                ls_write_reason(error));
    else if (error)
        ls_fail(err, LS_E_IO, "the trace %s is not whole: %s; %" PRIu64 " bytes were dropped", t->path,
                ls_write_reason(error), dropped);
    ls_buf_free(&t->line);
    ls_conversation_free(t->kept);
    ls_ids_free(&t->marks);
    ls_seen_free(&t->seen);
    free(t->path);
    free(t);
    return !error;
}

static void put(ls_trace *t, const char *line, size_t n) {
    if (t->sink) ls_sink_put(t->sink, line, n);
    else ls_conversation_add(t->kept, line, n);
}

static bool tells_tree(const ls_trace *t) {
    return t->level > LS_LEVEL_STEPS;
}

// ---- fields

enum { DIGITS = 9 }; // a float survives; so a replay draws what the run drew

static void write_config(ls_trace *t, const ls_buf *config) {
    for (size_t i = 0; i < config->n; i += strlen(config->p + i) + 1) {
        const char *key = config->p + i;
        i += strlen(key) + 1;
        ls_jw_field_str(&t->w, key, config->p + i);
    }
}

static void write_bytes(ls_trace *t, const ls_trace_tokens *o) {
    for (size_t i = 0; i < o->ids.n; i++) {
        char key[16];
        size_t n;
        const char *bytes = ls_vocab_bytes(t->vocab, o->ids.p[i], &n);
        snprintf(key, sizeof key, "%d", o->ids.p[i]);
        ls_jw_key(&t->w, key);
        ls_jw_base64(&t->w, bytes, n);
    }
}

static void write_top(const ls_trace *t, ls_jsonw *w, const ls_top_entry *top, int n) {
    if (t->level < LS_LEVEL_FULL && n > LS_ROW_TOP) n = LS_ROW_TOP;
    for (int i = 0; i < n && top[i].id >= 0; i++) {
        ls_jw_open(w, '[');
        ls_jw_int(w, top[i].id);
        ls_jw_num(w, (double)top[i].logit, DIGITS);
        ls_jw_close(w, ']');
    }
}

// Row i of `nodes`. At level steps the tree is the path.
static const ls_node *node_told(ls_trace *t, const ls_step *s, int i) {
    if (tells_tree(t)) return &s->tree.nodes[i];
    t->node = s->tree.nodes[s->path[i]];
    t->node.parent = (int16_t)(i - 1);
    t->node.branch = -1;
    return &t->node;
}

// How the types of trace_fields.def are written; v is the field's place.
// clang-format off
#define IN(open, name, write, close) ls_jw_field_open(w, name, open); write; ls_jw_close(w, close)
#define EACH(name, n, write) IN('[', name, for (int i = 0; i < (n); i++) write, ']')
#define WRITE_TEXT(name, v) ls_jw_field_str(w, name, v)
#define WRITE_FORMAT WRITE_TEXT
#define WRITE_BUF(name, v) WRITE_TEXT(name, v.p)
#define WRITE_HASH(name, v) char hash[20]; snprintf(hash, sizeof hash, "%016" PRIx64, v); WRITE_TEXT(name, hash)
#define WRITE_NAME(name, v, name_of, ...) WRITE_TEXT(name, name_of(v))
#define WRITE_LEVEL WRITE_NAME
#define WRITE_BOOL(name, v) ls_jw_field_bool(w, name, v)
#define WRITE_INT(name, v, ...) ls_jw_field_int(w, name, (int64_t)(v))
#define WRITE_VERSION WRITE_INT
#define WRITE_TURN(name, v) WRITE_INT(name, t->first + v)
#define WRITE_NUMBER(name, v, digits) ls_jw_field_num(w, name, (double)(v), digits)
#define WRITE_TIME WRITE_NUMBER
#define WRITE_SLOPE WRITE_NUMBER
#define WRITE_MEASURED(name, v, digits) WRITE_NUMBER(name, v > 0 ? v : NAN, digits)
#define WRITE_OPTIONAL(name, v, digits) if (v > 0) WRITE_NUMBER(name, v, digits)
#define WRITE_IDS(name, v, most) ls_jw_key(w, name); ls_jw_ids(w, v.p, v.n)
#define WRITE_ROWS(name, v, n, part) EACH(name, n, ls_jw_int(w, v))
#define WRITE_TIMES(name, v, n, part, digits) EACH(name, n, ls_jw_num(w, v, digits))
#define WRITE_LIST(name, v, n, part, object) EACH(name, n, write_##object(t, &v))
#define WRITE_TOP(name, v, n) IN('[', name, write_top(t, w, v, n), ']')
#define WRITE_LAST_TOP WRITE_TOP
#define WRITE_TEXTS(name, v, part) IN('{', name, write_##part(t, v), '}')
#define WRITE_OBJECT(name, v, object) ls_jw_key(w, name); write_##object(t, v)
#define WRITE_COSTS(name, v, object) ls_jw_key(w, name); if ((v)->base_ms[0] > 0) write_##object(t, v); else ls_jw_null(w)
#define FIELD(type, name, place, lowest, unit, sentence, ...) if (t->level >= LS_LEVEL_##lowest) { \
    WRITE_##type(name, place, ##__VA_ARGS__); \
}
#define TOLD FIELD
#define OBJECT(object, type) static void write_##object(ls_trace *t, const type *o) { \
    ls_jsonw *w = &t->w; \
    ls_jw_open(w, '{');
#define LINE(line, type, sentence) OBJECT(line, type) WRITE_TEXT("type", #line);
#define END ls_jw_close(w, '}'); }
#include "trace/trace_fields.def"
// clang-format on

// ---- lines

static void end_line(ls_trace *t) {
    ls_buf_char(&t->line, '\n');
    put(t, t->line.p, t->line.n);
    ls_buf_clear(&t->line);
    t->w.comma = false;
}

static void tell_tokens(ls_trace *t, const ls_ids *fresh) {
    ls_trace_tokens o = {.ids = *fresh};
    for (size_t i = 0; i < fresh->n; i++)
        if (ls_vocab_is_special(t->vocab, fresh->p[i])) ls_ids_push(&o.special, fresh->p[i]);
    if (fresh->n) {
        write_tokens(t, &o);
        end_line(t);
    }
    ls_ids_free(&o.ids);
    ls_ids_free(&o.special);
}

void ls_trace_begin(ls_trace *t, const ls_model *m, const ls_session *s, const ls_decode_options *opt,
                    const char *const *config, uint32_t turn, const char *text, double prefill_ms) {
    const ls_engine *b = m->engine;
    ls_trace_header h = {.program = "logitspec " LS_VERSION,
                         .level = t->level,
                         .n_vocab = b->n_vocab,
                         .n_context = b->n_context,
                         .eos = ls_vocab_eos(m->vocab),
                         .tokenizer_id = ls_vocab_id(m->vocab),
                         .threads = b->threads,
                         .exact = b->exact,
                         .seed = opt->sampling.seed,
                         .turn = turn,
                         .prompt = *ls_session_context(s), // borrowed
                         .prefill_ms = prefill_ms,
                         .costs = *ls_session_costs(s)};
    ls_ids fresh = {0};
    t->vocab = m->vocab;
    if (t->kept) {
        if (turn == 0) t->first = 0;
        begin_kept(t, turn);
    } else if (turn == 0 || !t->seen.known)
        ls_seen_init(&t->seen, ls_vocab_size(m->vocab)); // a conversation stands alone
    snprintf(h.model, sizeof h.model, "%s", m->name);
    snprintf(h.sha256, sizeof h.sha256, "%s", m->sha256);
    snprintf(h.device, sizeof h.device, "%s", b->device);
    snprintf(h.dtype, sizeof h.dtype, "%s", b->dtype);
    snprintf(h.kernel, sizeof h.kernel, "%s", b->kernel);
    snprintf(h.version, sizeof h.version, "%s", b->version);
    snprintf(h.method, sizeof h.method, "%s", opt->method);
    ls_accept_write(&opt->accept, h.acceptance, sizeof h.acceptance);
    ls_buf_str(&h.prompt_text, text);
    for (; config && config[0]; config += 2) ls_buf_fmt(&h.config, "%s%c%s%c", config[0], 0, config[1], 0);
    write_header(t, &h);
    end_line(t);
    ls_buf_free(&h.prompt_text);
    ls_buf_free(&h.config);
    ls_seen_ids(&t->seen, h.prompt.p, h.prompt.n, &fresh);
    tell_tokens(t, &fresh);
}

// The new ids that the step's line will use.
static void note_ids(ls_trace *t, const ls_step *s, ls_ids *fresh) {
    if (t->level == LS_LEVEL_FULL) {
        ls_seen_step(&t->seen, s, fresh);
        return;
    }
    const bool all = t->level == LS_LEVEL_NODES;
    for (int i = 0; all && i < s->n_top && i < LS_ROW_TOP; i++) ls_seen_ids(&t->seen, &s->top[i].id, 1, fresh);
    for (int i = 0; i < (all ? s->tree.n : s->n_path); i++) {
        const ls_node *n = &s->tree.nodes[all ? i : s->path[i]];
        ls_seen_ids(&t->seen, (const int32_t[]){n->token, n->target}, 2, fresh);
    }
}

void ls_trace_step(ls_trace *t, const ls_step *s) {
    ls_ids fresh = {0};
    note_ids(t, s, &fresh);
    tell_tokens(t, &fresh);
    write_step(t, s);
    end_line(t);
}

void ls_trace_end(ls_trace *t, uint32_t turn, ls_finish reason, const ls_stats *st) {
    write_end(t, &(ls_trace_ending){turn, reason, st});
    end_line(t);
}

void ls_trace_copy(ls_trace *t, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn) {
    ls_ids fresh = {0};
    const ls_trace_header *h = ls_trace_read_header(r);
    size_t n;
    const char *line = ls_trace_read_text(r, &n);
    switch (kind) {
    case LS_TRACE_HEADER:
        if (turn == 0) t->first = h->turn;
        begin_kept(t, turn);
        ls_seen_ids(&t->seen, h->prompt.p, h->prompt.n, &fresh);
        break;
    case LS_TRACE_STEP: ls_seen_step(&t->seen, ls_trace_read_step(r), &fresh); break;
    case LS_TRACE_TOKENS: // not copied: its turn may be cut, and the vocabulary has the bytes
    case LS_TRACE_NONE: return;
    case LS_TRACE_END:
    case LS_TRACE_OTHER: break;
    }
    if (kind != LS_TRACE_HEADER) tell_tokens(t, &fresh);
    put(t, line, n);
    put(t, "\n", 1);
    if (kind == LS_TRACE_HEADER) tell_tokens(t, &fresh);
}
