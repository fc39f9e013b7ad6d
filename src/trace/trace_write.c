#include "trace/trace.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool tells_tree(const ls_trace_writer *t) {
    return t->level > LS_LEVEL_STEPS;
}

enum { DIGITS = 9 }; // enough to restore a float exactly, so that a replay shows the same as the run

static void write_config(ls_trace_writer *t, const ls_buf *config) {
    for (const char *k = NULL, *v; ls_trace_next_setting(config, &k, &v);) ls_jw_field_str(&t->w, k, v);
}

static void write_bytes(ls_trace_writer *t, const ls_trace_tokens *o) {
    for (size_t i = 0; i < o->ids.n; i++) {
        char key[16];
        size_t n;
        const char *bytes = ls_vocab_bytes(t->vocab, o->ids.p[i], &n);
        snprintf(key, sizeof key, "%d", o->ids.p[i]);
        ls_jw_key(&t->w, key);
        ls_jw_base64(&t->w, bytes, n);
    }
}

static void write_pair(ls_jsonw *w, int32_t id, float number) {
    ls_jw_open(w, '[');
    ls_jw_int(w, id);
    ls_jw_num(w, (double)number, DIGITS);
    ls_jw_close(w, ']');
}

static void write_said_top(ls_jsonw *w, const ls_prediction *s) {
    for (int i = 0; i < LS_PREDICTION_TOP && s->id[i] >= 0; i++) write_pair(w, s->id[i], s->p[i]);
}

static void write_top(const ls_trace_writer *t, ls_jsonw *w, const ls_top_entry *top, int n) {
    if (t->level < LS_LEVEL_FULL && n > LS_ROW_TOP) n = LS_ROW_TOP;
    for (int i = 0; i < n && top[i].id >= 0; i++) write_pair(w, top[i].id, top[i].logit);
}

// Row i of `nodes`. At level steps only the path is written as the tree.
static const ls_node *node_told(ls_trace_writer *t, const ls_step *s, int i) {
    if (tells_tree(t)) return &s->tree.nodes[i];
    t->node = s->tree.nodes[s->path[i]];
    t->node.parent = (int16_t)(i - 1);
    t->node.branch = -1;
    t->node.prediction = 0;
    return &t->node;
}

// How the types of trace_fields.def are written; v is the field's place.
// clang-format off
#define IN(open, name, write, close) ls_jw_field_open(w, name, open); write; ls_jw_close(w, close)
#define EACH(name, n, write) IN('[', name, for (int i = 0; i < (n); i++) write, ']')
#define WRITE_TEXT(name, v) ls_jw_field_str(w, name, v)
#define WRITE_FORMAT WRITE_TEXT
#define WRITE_METHOD WRITE_TEXT
#define WRITE_BUF(name, v) WRITE_TEXT(name, v.p)
#define WRITE_HASH(name, v) char hash[20]; snprintf(hash, sizeof hash, "%016" PRIx64, v); WRITE_TEXT(name, hash)
#define WRITE_NAME(name, v, name_of, ...) WRITE_TEXT(name, name_of(v))
#define WRITE_REASON(name, v, ...) if (v) WRITE_NAME(name, v, __VA_ARGS__)
#define WRITE_LEVEL(name, v, name_of, ...) WRITE_TEXT(name, name_of(t->level))
#define WRITE_BOOL(name, v) ls_jw_field_bool(w, name, v)
#define WRITE_INT(name, v, ...) ls_jw_field_int(w, name, (int64_t)(v))
#define WRITE_VERSION WRITE_INT
#define WRITE_TURN(name, v) WRITE_INT(name, t->first + v)
#define WRITE_KEPT(name, v, most) if (v >= 0) WRITE_INT(name, v)
#define WRITE_NOTE(name, v) if (*v) WRITE_TEXT(name, v)
#define WRITE_NUMBER(name, v, digits) ls_jw_field_num(w, name, (double)(v), digits)
#define WRITE_TIME WRITE_NUMBER
#define WRITE_SLOPE WRITE_NUMBER
#define WRITE_MEASURED(name, v, digits) WRITE_NUMBER(name, v > 0 ? v : NAN, digits)
#define WRITE_OPTIONAL(name, v, digits) if (v > 0) WRITE_NUMBER(name, v, digits)
#define WRITE_CHANCE WRITE_OPTIONAL
#define WRITE_PLACE(name, v, most) if (v > 0) WRITE_INT(name, v)
#define WRITE_SAID(name, v, n) if (n) { EACH(name, n, write_said(t, &v)); }
#define WRITE_SAID_TOP(name, v) IN('[', name, write_said_top(w, &v), ']')
#define WRITE_ROUTES(name, v) if ((v).n_routes) { \
    EACH(name, (v).n_routes, write_pair(w, (v).routes[i].expert, (v).routes[i].weight)); \
}
#define WRITE_DRAWS(name, v) if ((v).n_draws) { EACH(name, (v).n_draws, ls_jw_int(w, (v).draw[i])); }
#define WRITE_IDS(name, v, most) ls_jw_key(w, name); ls_jw_ids(w, v.p, v.n)
#define WRITE_ENDS(name, v) if ((v).n) { ls_jw_key(w, name); ls_jw_ids(w, (v).ids, (size_t)(v).n); }
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
#define OBJECT(object, type) static void write_##object(ls_trace_writer *t, const type *o) { \
    ls_jsonw *w = &t->w; \
    ls_jw_open(w, '{');
#define LINE(line, type, sentence) OBJECT(line, type) WRITE_TEXT("type", #line);
#define END ls_jw_close(w, '}'); }
#include "trace/trace_fields.def"
// clang-format on

// ---- lines

void ls_trace_writer_free(ls_trace_writer *t) {
    ls_seen_free(&t->seen);
    ls_buf_free(&t->line);
}

static void begin_line(ls_trace_writer *t) {
    ls_buf_clear(&t->line);
    t->w = (ls_jsonw){.out = &t->line};
}

#define PUT_LINE(kind, o) (begin_line(t), write_##kind(t, o), ls_buf_char(&t->line, '\n'))

void ls_trace_write_header(ls_trace_writer *t, const ls_trace_header *h) {
    PUT_LINE(header, h);
}

// Takes the ids.
static void put_tokens(ls_trace_writer *t, ls_ids fresh) {
    ls_trace_tokens o = {.ids = fresh};
    for (size_t i = 0; i < fresh.n; i++)
        if (ls_vocab_is_special(t->vocab, fresh.p[i])) ls_ids_push(&o.special, fresh.p[i]);
    if (fresh.n) PUT_LINE(tokens, &o);
    else ls_buf_clear(&t->line);
    ls_ids_free(&o.special);
    ls_ids_free(&o.ids);
}

void ls_trace_write_ids(ls_trace_writer *t, const int32_t *ids, size_t n) {
    ls_ids fresh = {0};
    ls_seen_ids(&t->seen, ids, n, &fresh);
    put_tokens(t, fresh);
}

void ls_trace_write_ids_of(ls_trace_writer *t, const ls_step *s) {
    ls_ids fresh = {0};
    ls_seen_step(&t->seen, t->level, s, &fresh);
    put_tokens(t, fresh);
}

void ls_trace_write_step(ls_trace_writer *t, const ls_step *s) {
    PUT_LINE(step, s);
}

void ls_trace_write_end(ls_trace_writer *t, uint32_t turn, ls_finish reason, const ls_stats *totals) {
    PUT_LINE(end, (&(ls_trace_ending){turn, reason, totals}));
}

void ls_trace_write_request(ls_trace_writer *t, const ls_request_facts *f) {
    PUT_LINE(request, f);
}

void ls_run_describe(ls_run *r, const ls_model *m, const ls_session *s, const ls_decode_options *opt) {
    const ls_engine *b = m->engine;
    *r = (ls_run){.program = "logitspec " LS_VERSION,
                  .threads = b->threads,
                  .n_vocab = b->n_vocab,
                  .n_context = b->n_context,
                  .tokenizer_id = ls_vocab_id(m->vocab),
                  .ends = ls_vocab_ends(m->vocab),
                  .exact = b->exact,
                  .n_mixtures = b->n_mixtures,
                  .n_experts = b->n_experts,
                  .n_experts_used = b->n_experts_used,
                  .expert_bytes = (int64_t)b->expert_bytes};
    if (s) r->costs = *ls_session_costs(s);
    snprintf(r->model, sizeof r->model, "%s", m->name);
    snprintf(r->sha256, sizeof r->sha256, "%s", m->sha256);
    snprintf(r->device, sizeof r->device, "%s", b->device);
    snprintf(r->dtype, sizeof r->dtype, "%s", b->dtype);
    snprintf(r->kernel, sizeof r->kernel, "%s", b->kernel);
    snprintf(r->version, sizeof r->version, "%s", b->version);
    snprintf(r->method, sizeof r->method, "%s", opt->method);
    const ls_drafter *d = s ? ls_session_drafter(s) : NULL;
    if (d && d->draft_model) snprintf(r->draft_model, sizeof r->draft_model, "%s", d->draft_model->name);
    if (d && d->began) snprintf(r->memory, sizeof r->memory, "%016" PRIx64, d->began);
    if (m->chat) snprintf(r->chat, sizeof r->chat, "%s", ls_chat_hash(m->chat));
}

void ls_trace_describe(ls_trace_header *h, const ls_runner *r, double prefill_ms) {
    const ls_conversation *d = ls_session_conversation(r->session);
    const ls_turn *turn = ls_conversation_last(d);
    const ls_decode_options *opt = &r->setup->decode;
    *h = (ls_trace_header){.eos = ls_vocab_eos(r->model->vocab),
                           .seed = opt->sampling.seed,
                           .turn = (uint32_t)d->n_turns - 1,
                           .kept = (int32_t)turn->kept,
                           .begun = turn->n_begun ? (int32_t)turn->n_begun : -1,
                           .cached = r->other.begun ? (int32_t)r->other.kept : -1,
                           .prefill_ms = prefill_ms};
    ls_run_describe(&h->run, r->model, r->session, opt);
    memcpy(h->history, r->history, sizeof h->history);
    ls_accept_write(&opt->accept, h->acceptance, sizeof h->acceptance);
    ls_ids_add(&h->prompt, d->context.p, d->context.n);
    ls_buf_add(&h->prompt_text, turn->user.p, turn->user.n);
    for (const char *const *c = r->setup->config; c && *c; c += 2) ls_buf_fmt(&h->config, "%s%c%s%c", c[0], 0, c[1], 0);
}

// ---- ids whose bytes are known

void ls_seen_init(ls_seen *s, int32_t n_vocab) {
    free(s->known);
    s->known = ls_calloc((size_t)n_vocab, 1);
    s->n = n_vocab;
    s->order.n = 0;
}

void ls_seen_free(ls_seen *s) {
    free(s->known);
    ls_ids_free(&s->order);
    *s = (ls_seen){0};
}

void ls_seen_cut(ls_seen *s, size_t n) {
    while (s->order.n > n) s->known[s->order.p[--s->order.n]] = 0;
}

static void note(ls_seen *s, int32_t id, ls_ids *fresh) {
    if (id < 0 || id >= s->n || s->known[id]) return;
    s->known[id] = 1;
    ls_ids_push(&s->order, id);
    ls_ids_push(fresh, id);
}

void ls_seen_ids(ls_seen *s, const int32_t *ids, size_t n, ls_ids *fresh) {
    for (size_t i = 0; i < n; i++) note(s, ids[i], fresh);
}

void ls_seen_step(ls_seen *s, ls_trace_level level, const ls_step *step, ls_ids *fresh) {
    const bool tree = level > LS_LEVEL_STEPS, full = level == LS_LEVEL_FULL;
    for (int i = 0; tree && i < step->n_top && (full || i < LS_ROW_TOP); i++) note(s, step->top[i].id, fresh);
    for (int i = 0; i < (tree ? step->tree.n : step->n_path); i++) {
        const ls_node *n = &step->tree.nodes[tree ? i : step->path[i]];
        note(s, n->token, fresh);
        note(s, n->target, fresh);
        note(s, n->own, fresh);
        for (int j = 0; full && j < LS_ROW_TOP; j++) note(s, n->top[j].id, fresh);
    }
}
