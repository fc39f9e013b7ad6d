#include "run/trace_read.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_trace_reader {
    ls_lines *lines;
    ls_line line;                 // the last that was read
    const ls_trace_place *places; // NULL: one after another
    size_t n_places, at_place;
    bool torn, has_header;
    ls_trace_header header;
    ls_step step;
    ls_finish finish;
    ls_event *tokens; // of the last tokens line
};

// One line being read. The first thing that is wrong is kept; what follows is not looked at.
typedef struct {
    const ls_trace_reader *r;
    ls_err *err;
    ls_code code;
} reading;

static void wrong(reading *g, const char *field, const char *what) {
    if (g->code) return;
    g->code =
        ls_fail(g->err, LS_E_PARSE, "%s:%zu: %s is not %s", ls_lines_name(g->r->lines), g->r->line.number, field, what);
}

static int64_t get_int(reading *g, const ls_json *o, const char *field, int64_t lo, int64_t hi) {
    int64_t v = lo;
    char what[80];
    if (ls_json_int(ls_json_get(o, field), &v) && v >= lo && v <= hi) return v;
    snprintf(what, sizeof what, "a whole number from %lld to %lld", (long long)lo, (long long)hi);
    wrong(g, field, what);
    return lo;
}

static double get_num(reading *g, const ls_json *o, const char *field) {
    double v = NAN;
    if (!ls_json_num(ls_json_get(o, field), &v)) wrong(g, field, "a number");
    return v;
}

static double get_maybe(reading *g, const ls_json *o, const char *field) { // NAN where a lower level left it out
    return ls_json_get(o, field) ? get_num(g, o, field) : NAN;
}

// What no clock tells: sums and scales of such times would be no numbers.
static bool is_time(double v) {
    return v == 0 || (v >= 1e-12 && v <= 1e15);
}

static double get_time(reading *g, const ls_json *o, const char *field) {
    const double v = get_num(g, o, field);
    if (!isnan(v) && !is_time(v)) wrong(g, field, "a time");
    return v;
}

static bool get_bool(reading *g, const ls_json *o, const char *field) {
    bool v = false;
    if (!ls_json_bool(ls_json_get(o, field), &v)) wrong(g, field, "true or false");
    return v;
}

static const char *get_str(reading *g, const ls_json *o, const char *field, size_t *n) {
    const char *v = ls_json_str(ls_json_get(o, field), n);
    if (!v) wrong(g, field, "a text");
    return v ? v : "";
}

static void copy_str(reading *g, const ls_json *o, const char *field, char *out, size_t size) {
    snprintf(out, size, "%s", get_str(g, o, field, NULL));
}

static const ls_json *get_array(reading *g, const ls_json *o, const char *field, size_t most) {
    const ls_json *a = ls_json_get(o, field);
    if (!ls_json_is_array(a)) wrong(g, field, "a list");
    else if (ls_json_size(a) > most) wrong(g, field, "a list of that many");
    return g->code ? NULL : a;
}

// Which of the names the field is; the list ends with NULL.
static int get_name(reading *g, const ls_json *o, const char *field, const char *(*name)(int), int n) {
    const char *v = get_str(g, o, field, NULL);
    for (int i = 0; i < n; i++)
        if (!strcmp(name(i), v)) return i;
    wrong(g, field, "a name that is known");
    return 0;
}

static const char *finish_name(int i) {
    return ls_finish_name((ls_finish)i);
}
static const char *from_name(int i) {
    return ls_from_name((ls_from)i);
}
static const char *state_name(int i) {
    return ls_node_state_name((ls_node_state)i);
}

static const char *level_name(int i) {
    return ls_trace_level_name((ls_trace_level)i);
}

static uint64_t get_u64(reading *g, const ls_json *o, const char *field) {
    return (uint64_t)get_int(g, o, field, 0, INT64_MAX);
}

static int32_t item_int(reading *g, const ls_json *a, size_t i, const char *field, int64_t lo, int64_t hi) {
    int64_t v = lo;
    if (!ls_json_int(ls_json_at(a, i), &v) || v < lo || v > hi) wrong(g, field, "a list of ids or rows in range");
    return (int32_t)v;
}

static void read_costs(reading *g, const ls_json *doc, ls_cost_curve *out) {
    const ls_json *c = ls_json_get(doc, "calibration");
    *out = (ls_cost_curve){0};
    if (ls_json_is_null(c)) return;
    const ls_json *rows = get_array(g, c, "rows", 64), *ms = get_array(g, c, "ms", 64);
    out->cost_context = (int32_t)get_int(g, c, "context_len", 0, INT32_MAX);
    out->slope_ms = get_num(g, c, "slope_ms"); // learnt: as small as it likes
    if (!(out->slope_ms >= 0 && out->slope_ms <= 1e6)) wrong(g, "slope_ms", "a time");
    const size_t n = ls_json_size(rows);
    if (!g->code && (n < 1 || ls_json_size(ms) != n)) wrong(g, "calibration", "as many rows as milliseconds");
    double before_ms = 0, before_rows = 0;
    for (size_t i = 0, at = 0; i < n && !g->code; i++) { // between the sizes that were measured: a straight line
        double t = 0;
        const int32_t r = item_int(g, rows, i, "rows", 1, LS_MAX_ROWS);
        if (!ls_json_num(ls_json_at(ms, i), &t) || !(t > 0 && is_time(t))) wrong(g, "ms", "a list of times");
        for (; at < LS_COST_SIZES && ls_cost_rows[at] <= r; at++)
            out->base_ms[at] = before_rows > 0
                                   ? before_ms + (t - before_ms) * (ls_cost_rows[at] - before_rows) / (r - before_rows)
                                   : t;
        before_ms = t;
        before_rows = r;
        if (i + 1 == n)
            for (; at < LS_COST_SIZES; at++) out->base_ms[at] = t * ls_cost_rows[at] / r;
    }
}

static void add_config(void *ud, const char *key, const ls_json *value) {
    const char *text = ls_json_str(value, NULL);
    ls_buf_fmt(ud, "%s%c%s%c", key, 0, text ? text : "", 0);
}

const char *ls_trace_config(const ls_trace_header *h, const char *key) {
    for (const char *p = h->config.p; h->config.n && p < h->config.p + h->config.n;) {
        const char *value = p + strlen(p) + 1;
        if (!strcmp(p, key)) return value;
        p = value + strlen(value) + 1;
    }
    return "";
}

static void read_header(reading *g, const ls_json *doc, ls_trace_header *h) {
    const ls_json *model = ls_json_get(doc, "model"), *backend = ls_json_get(doc, "backend");
    ls_ids_free(&h->prompt);
    ls_buf_free(&h->prompt_text);
    ls_buf_free(&h->config);
    *h = (ls_trace_header){0};
    if (strcmp(get_str(g, doc, "format", NULL), "logitspec-trace")) wrong(g, "format", "logitspec-trace");
    const int64_t version = get_int(g, doc, "version", 1, INT32_MAX);
    if (!g->code && version != 1) {
        g->code = ls_fail(g->err, LS_E_UNSUPPORTED, "%s:%zu: a trace of version %lld; this program reads version 1",
                          ls_lines_name(g->r->lines), g->r->line.number, (long long)version);
        return;
    }
    copy_str(g, doc, "program", h->program, sizeof h->program);
    copy_str(g, model, "name", h->model, sizeof h->model);
    copy_str(g, model, "sha256", h->sha256, sizeof h->sha256);
    h->n_vocab = (int32_t)get_int(g, model, "vocab", 1, 1 << 24);
    h->n_context = (int32_t)get_int(g, model, "context", 1, 1 << 24);
    h->eos = (int32_t)get_int(g, model, "eos", -1, h->n_vocab - 1);
    h->tokenizer_id = strtoull(get_str(g, model, "tokenizer", NULL), NULL, 16);
    copy_str(g, backend, "device", h->device, sizeof h->device);
    copy_str(g, backend, "dtype", h->dtype, sizeof h->dtype);
    copy_str(g, backend, "kernel", h->kernel, sizeof h->kernel);
    h->threads = (int32_t)get_int(g, backend, "threads", 1, INT32_MAX);
    h->exact = get_bool(g, backend, "exact");
    copy_str(g, doc, "method", h->method, sizeof h->method);
    copy_str(g, doc, "acceptance", h->acceptance, sizeof h->acceptance);
    h->seed = get_u64(g, doc, "seed");
    h->level = LS_LEVEL_FULL;
    if (ls_json_get(doc, "level")) h->level = (ls_trace_level)get_name(g, doc, "level", level_name, LS_LEVEL_FULL + 1);
    ls_json_each(ls_json_get(doc, "config"), add_config, &h->config);
    h->turn = (uint32_t)get_int(g, doc, "turn", 0, UINT32_MAX);
    h->prefill_ms = get_time(g, doc, "prefill_ms");
    size_t n;
    const char *text = get_str(g, doc, "prompt_text", &n);
    if (!g->code) ls_buf_add(&h->prompt_text, text, n);
    const ls_json *ids = get_array(g, doc, "prompt_ids", (size_t)h->n_context);
    for (size_t i = 0; i < ls_json_size(ids) && !g->code; i++)
        ls_ids_push(&h->prompt, item_int(g, ids, i, "prompt_ids", 0, h->n_vocab - 1));
    read_costs(g, doc, &h->costs);
}

static int read_top(reading *g, const ls_json *o, ls_top_entry *out, int most) {
    const ls_json *top = ls_json_get(o, "top") ? get_array(g, o, "top", (size_t)most) : NULL; // a lower level
    const int n = (int)ls_json_size(top);
    for (int i = 0; i < n && !g->code; i++) {
        const ls_json *pair = ls_json_at(top, (size_t)i);
        double logit = NAN;
        out[i].id = item_int(g, pair, 0, "top", 0, g->r->header.n_vocab - 1);
        if (!ls_json_num(ls_json_at(pair, 1), &logit)) wrong(g, "top", "a list of ids and logits");
        out[i].logit = (float)logit;
    }
    for (int i = n; i < most; i++) out[i] = (ls_top_entry){-1, 0};
    return n;
}

static void read_node(reading *g, const ls_json *o, int row, ls_step *s) {
    ls_node *n = &s->tree.nodes[row];
    const int32_t n_vocab = g->r->header.n_vocab;
    n->token = (int32_t)get_int(g, o, "token", 0, n_vocab - 1);
    n->parent = (int16_t)get_int(g, o, "parent", row ? 0 : -1, row - 1);
    n->depth = (int16_t)get_int(g, o, "depth", 0, LS_MAX_ROWS);
    if (!g->code && n->depth != (row ? s->tree.nodes[n->parent].depth + 1 : 0))
        wrong(g, "depth", "one more than the parent's");
    n->branch =
        (int16_t)get_int(g, o, "branch", row && g->r->header.level > LS_LEVEL_STEPS ? 0 : -1, s->tree.n_branches - 1);
    n->rank = (int16_t)get_int(g, o, "rank", -1, INT16_MAX);
    n->from = (uint8_t)get_name(g, o, "source", from_name, LS_FROM_COUNT);
    n->state = (uint8_t)get_name(g, o, "state", state_name, LS_NODE_NOT_REACHED + 1);
    n->match_n = (int16_t)get_int(g, o, "match_n", 0, INT16_MAX);
    n->match_pos = (int32_t)get_int(g, o, "match_pos", -1, s->context_len - 1);
    n->est_p = (float)get_maybe(g, o, "est_p");
    n->p = (float)get_maybe(g, o, "p");
    n->target = (int32_t)get_int(g, o, "target", -1, n_vocab - 1);
    n->target_p = (float)get_maybe(g, o, "target_p");
    n->entropy = (float)get_maybe(g, o, "entropy");
    n->lse = (float)get_maybe(g, o, "lse");
    read_top(g, o, n->top, LS_ROW_TOP);
}

static void read_branch(reading *g, const ls_json *o, int n_nodes, ls_branch *b) {
    b->rank = (int16_t)get_int(g, o, "rank", -1, INT16_MAX);
    b->match_n = (int16_t)get_int(g, o, "match_n", 0, INT16_MAX);
    b->match_pos = (int32_t)get_int(g, o, "match_pos", -1, INT32_MAX);
    b->found = (int16_t)get_int(g, o, "found", 0, INT16_MAX);
    b->first_node = (int16_t)get_int(g, o, "first_node", 1, n_nodes - 1);
    b->n_nodes = (int16_t)get_int(g, o, "n_nodes", 1, n_nodes - b->first_node);
    b->accepted = (int16_t)get_int(g, o, "accepted", 0, b->n_nodes);
}

static void read_path(reading *g, const ls_json *doc, ls_step *s) {
    const ls_json *path = get_array(g, doc, "path", (size_t)s->tree.n),
                  *emitted = get_array(g, doc, "emitted", LS_MAX_ROWS);
    s->n_path = (int16_t)ls_json_size(path);
    s->n_emitted = (int16_t)ls_json_size(emitted);
    for (int i = 0; i < s->n_path && !g->code; i++) {
        s->path[i] = item_int(g, path, (size_t)i, "path", 0, s->tree.n - 1);
        if (!g->code && s->tree.nodes[s->path[i]].parent != (i ? s->path[i - 1] : -1))
            wrong(g, "path", "a path from the root");
    }
    bool on_path[LS_MAX_ROWS] = {0};
    for (int i = 0; i < s->n_path && !g->code; i++) on_path[s->path[i]] = true;
    for (int i = 0; i < s->tree.n && !g->code; i++) {
        const bool reached = i == 0 || on_path[s->tree.nodes[i].parent];
        if (s->tree.nodes[i].state != (on_path[i] ? LS_NODE_ACCEPTED
                                       : reached  ? LS_NODE_REJECTED
                                                  : LS_NODE_NOT_REACHED))
            wrong(g, "state", "what the path says");
    }
    if (!g->code && (s->n_emitted < 1 || s->n_emitted > s->n_path)) wrong(g, "emitted", "one to as many as the path");
    for (int i = 0; i < s->n_emitted && !g->code; i++)
        if (item_int(g, emitted, (size_t)i, "emitted", 0, INT32_MAX) != s->tree.nodes[s->path[i]].token)
            wrong(g, "emitted", "the tokens of the path");
}

static void read_step(reading *g, const ls_json *doc, ls_step *s) {
    const ls_json *last = ls_json_get(doc, "last"), *us = ls_json_get(doc, "us");
    *s = (ls_step){.exact = g->r->header.exact && !strcmp(g->r->header.acceptance, "exact")};
    s->turn = (uint32_t)get_int(g, doc, "turn", 0, UINT32_MAX);
    s->index = (uint32_t)get_int(g, doc, "index", 0, UINT32_MAX);
    s->context_len = (int32_t)get_int(g, doc, "context_len", 0, g->r->header.n_context);
    s->output_pos = (int32_t)get_int(g, doc, "output_pos", 0, INT32_MAX);
    s->budget = (int16_t)get_int(g, doc, "budget", 1, LS_MAX_ROWS);
    s->forward = get_bool(g, doc, "forward");
    s->corrected = get_bool(g, doc, "corrected");
    s->finish = (uint8_t)get_name(g, doc, "finish", finish_name, LS_FINISH_ERROR + 1);
    s->top_lse = (float)get_maybe(g, last, "lse");
    s->top_entropy = (float)get_maybe(g, last, "entropy");
    s->n_top = (int16_t)read_top(g, last, s->top, LS_MAX_TOP);
    const bool all = g->r->header.level > LS_LEVEL_STEPS;
    const ls_json *branches = all ? get_array(g, doc, "branches", LS_MAX_ROWS) : NULL,
                  *nodes = get_array(g, doc, "nodes", LS_MAX_ROWS);
    s->tree.n_branches = (int32_t)ls_json_size(branches);
    s->tree.n = (int32_t)ls_json_size(nodes);
    s->rows = (int16_t)get_int(g, doc, "rows", 1, LS_MAX_ROWS);
    if (!g->code && (s->tree.n < 1 || s->tree.n > s->rows || (all && s->tree.n < s->rows)))
        wrong(g, "nodes", "a tree of that many rows");
    for (int i = 0; i < s->tree.n_branches && !g->code; i++)
        read_branch(g, ls_json_at(branches, (size_t)i), s->tree.n, &s->tree.branches[i]);
    for (int i = 0; i < s->tree.n && !g->code; i++) read_node(g, ls_json_at(nodes, (size_t)i), i, s);
    read_path(g, doc, s);
    s->t_draft_us = get_time(g, us, "draft");
    s->t_forward_us = get_time(g, us, "forward");
    s->t_verify_us = get_time(g, us, "verify");
    s->t_commit_us = get_time(g, us, "commit");
    s->t_total_us = get_time(g, us, "total");
    const double device_us = ls_json_get(us, "device") ? get_time(g, us, "device") : NAN;
    s->t_device_us = isnan(device_us) ? 0 : device_us;
    const double ar_us = get_time(g, doc, "ar_us");
    s->ar_us = isnan(ar_us) ? 0 : ar_us;
    s->pool_size = (int32_t)get_int(g, doc, "pool_size", 0, INT32_MAX);
}

// ---- tokens

typedef struct {
    reading *g;
    ls_ids ids, ends;
    ls_buf bytes;
} token_list;

static bool add_base64(const char *s, size_t n, ls_buf *out) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int have = 0;
    while (n && s[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        const char *at = s[i] ? strchr(alphabet, s[i]) : NULL;
        if (!at) return false;
        bits = bits << 6 | (uint32_t)(at - alphabet);
        if ((have += 6) >= 8) ls_buf_char(out, (char)(bits >> (have -= 8) & 255));
    }
    return true;
}

static void add_token(void *ud, const char *key, const ls_json *value) {
    token_list *l = ud;
    size_t n = 0;
    char *end;
    const char *text = ls_json_str(value, &n);
    const long id = strtol(key, &end, 10);
    if (end == key || *end || id < 0 || id >= l->g->r->header.n_vocab) wrong(l->g, "bytes", "an object of token ids");
    else if (!text || !add_base64(text, n, &l->bytes)) wrong(l->g, "bytes", "an object of base64 texts");
    else {
        ls_ids_push(&l->ids, (int32_t)id);
        ls_ids_push(&l->ends, (int32_t)l->bytes.n);
    }
}

static ls_event *read_tokens(reading *g, const ls_json *doc) {
    token_list l = {.g = g};
    ls_buf_str(&l.bytes, ""); // never NULL
    const ls_json *special = get_array(g, doc, "special", (size_t)g->r->header.n_vocab);
    if (!g->code && !ls_json_each(ls_json_get(doc, "bytes"), add_token, &l)) wrong(g, "bytes", "an object");
    ls_event *e = ls_event_new(LS_EV_TOKENS);
    e->tokens.n = (int32_t)l.ids.n;
    e->tokens.ids = l.ids.p;
    e->tokens.ends = l.ends.p;
    e->tokens.bytes = l.bytes.p;
    e->tokens.special = ls_calloc(l.ids.n + 1, 1);
    ls_map marked = {0};
    for (size_t i = 0; i < ls_json_size(special) && !g->code; i++)
        ls_map_put(&marked, (uint64_t)item_int(g, special, i, "special", 0, g->r->header.n_vocab - 1), 1);
    int32_t is;
    for (size_t k = 0; k < l.ids.n && marked.n; k++)
        e->tokens.special[k] = ls_map_get(&marked, (uint64_t)l.ids.p[k], &is);
    ls_map_free(&marked);
    return e;
}

ls_trace_reader *ls_trace_read_of(ls_lines *lines) {
    ls_trace_reader *r = ls_calloc(1, sizeof *r);
    r->lines = lines;
    return r;
}

ls_code ls_trace_read_open(ls_trace_reader **out, const char *path, ls_err *err) {
    ls_lines *lines;
    *out = NULL;
    const ls_code code = ls_lines_open(&lines, path, err);
    if (!code) *out = ls_trace_read_of(lines);
    return code;
}

void ls_trace_read_close(ls_trace_reader *r) {
    if (!r) return;
    ls_lines_close(r->lines);
    ls_ids_free(&r->header.prompt);
    ls_buf_free(&r->header.prompt_text);
    ls_buf_free(&r->header.config);
    ls_event_free(r->tokens);
    free(r);
}

void ls_trace_read_stop(ls_trace_reader *r, bool (*stop)(void *ud), void *ud) {
    ls_lines_stop(r->lines, stop, ud);
}

double ls_trace_read_progress(const ls_trace_reader *r) {
    return ls_lines_progress(r->lines);
}

static ls_trace_line read_document(reading *g, ls_trace_reader *r, const ls_json *doc) {
    const char *type = get_str(g, doc, "type", NULL);
    if (g->code) return LS_TRACE_NONE;
    if (!strcmp(type, "header")) {
        read_header(g, doc, &r->header);
        r->has_header = !g->code;
        return LS_TRACE_HEADER;
    }
    if (!r->has_header) {
        g->code = ls_fail(g->err, LS_E_PARSE, "%s:%zu: a '%.20s' line before any header: not a logitspec trace",
                          ls_lines_name(r->lines), r->line.number, type);
        return LS_TRACE_NONE;
    }
    if (!strcmp(type, "step")) {
        read_step(g, doc, &r->step);
        return LS_TRACE_STEP;
    }
    if (!strcmp(type, "end")) {
        r->finish = (ls_finish)get_name(g, doc, "reason", finish_name, LS_FINISH_ERROR + 1);
        return LS_TRACE_END;
    }
    if (!strcmp(type, "tokens")) {
        ls_event_free(r->tokens);
        r->tokens = read_tokens(g, doc);
        return LS_TRACE_TOKENS;
    }
    return LS_TRACE_OTHER;
}

static ls_code next_line(ls_trace_reader *r, ls_err *err) {
    if (r->places && r->at_place == r->n_places) return r->line.p = NULL, LS_OK;
    const ls_trace_place *p = r->places ? &r->places[r->at_place++] : NULL;
    const size_t before = r->line.number;
    ls_code code = p ? ls_lines_seek(r->lines, p->offset, p->number, err) : LS_OK;
    if (!code) code = ls_lines_next(r->lines, &r->line, err);
    if (!r->line.p) r->line.number = before; // an end is no line
    return code;
}

static ls_code parse(const ls_trace_reader *r, ls_json **doc, ls_err *err) {
    char where[600];
    snprintf(where, sizeof where, "%.500s:%zu", ls_lines_name(r->lines), r->line.number);
    return ls_json_parse(doc, r->line.p, r->line.n, where, err);
}

ls_code ls_trace_read_next(ls_trace_reader *r, ls_trace_line *kind, ls_err *err) {
    *kind = LS_TRACE_NONE;
    ls_code code = next_line(r, err);
    if (code) return code;
    if (!r->line.p)
        return r->line.number ? LS_OK
                              : ls_fail(err, LS_E_PARSE, "%s: empty, not a logitspec trace", ls_lines_name(r->lines));
    ls_json *doc;
    code = parse(r, &doc, err);
    if (code && !r->line.whole && r->has_header) { // the writer was stopped within the line
        r->torn = true;
        return LS_OK;
    }
    if (code) return code;
    reading g = {r, err, LS_OK};
    *kind = read_document(&g, r, doc);
    ls_json_free(doc);
    if (g.code) *kind = LS_TRACE_NONE;
    return g.code;
}

// ---- passing over lines

static ls_trace_line kind_named(const char *name, size_t n) {
    static const char *const names[] = {"", "header", "tokens", "step", "end"};
    for (int i = LS_TRACE_HEADER; i <= LS_TRACE_END; i++)
        if (strlen(names[i]) == n && !memcmp(names[i], name, n)) return (ls_trace_line)i;
    return LS_TRACE_OTHER;
}

ls_code ls_trace_read_pass(ls_trace_reader *r, ls_trace_line *kind, ls_line *line, ls_err *err) {
    static const char begin[] = "{\"type\":\"";
    enum { SKIP = sizeof begin - 1 };
    *kind = LS_TRACE_NONE;
    ls_code code = next_line(r, err);
    *line = r->line;
    if (code || !line->p) return code;
    const char *end = NULL;
    if (line->whole && line->n > SKIP && !memcmp(line->p, begin, SKIP)) // as our writer has it
        end = memchr(line->p + SKIP, '"', line->n - SKIP);
    if (end) return *kind = kind_named(line->p + SKIP, (size_t)(end - line->p) - SKIP), LS_OK;
    ls_json *doc;
    code = parse(r, &doc, err);
    if (code && !line->whole) {
        r->torn = true;
        line->p = NULL;
        return LS_OK;
    }
    if (code) return code;
    const char *type = ls_json_str(ls_json_get(doc, "type"), NULL);
    *kind = type ? kind_named(type, strlen(type)) : LS_TRACE_OTHER;
    ls_json_free(doc);
    return LS_OK;
}

void ls_trace_read_places(ls_trace_reader *r, const ls_trace_place *places, size_t n) {
    r->places = places;
    r->n_places = n;
    r->at_place = 0;
}

const char *ls_trace_read_text(const ls_trace_reader *r, size_t *n) {
    *n = r->line.n;
    return r->line.p;
}
bool ls_trace_read_torn(const ls_trace_reader *r) {
    return r->torn;
}
const ls_trace_header *ls_trace_read_header(const ls_trace_reader *r) {
    return &r->header;
}
const ls_step *ls_trace_read_step(const ls_trace_reader *r) {
    return &r->step;
}
ls_finish ls_trace_read_finish(const ls_trace_reader *r) {
    return r->finish;
}
ls_event *ls_trace_read_tokens(ls_trace_reader *r) {
    ls_event *e = r->tokens;
    r->tokens = NULL;
    return e;
}
