#include "trace/trace_read.h"
#include "base/alias.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "decode/drafting.h"
#include "trace/by_request.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_trace_reader {
    ls_lines *lines;
    ls_line line;                 // the last line read
    const ls_trace_place *places; // lines to read in this order; NULL: all lines in sequence
    size_t n_places, at_place;
    bool torn, has_header;
    ls_guarantee guarantee; // of the header
    ls_trace_header header;
    ls_step *step; // the last one
    ls_trace_ending end;
    ls_request_facts request;
    ls_event *tokens; // of the last tokens line
    bool sorts;       // until the first line was read: the lines go through `requests`, if that one is of a server
    ls_by_request *requests; // NULL: they do not
};

// One line being read. Keeps the first error.
typedef struct {
    const ls_trace_reader *r;
    ls_err *err;
    ls_code code;
    const ls_trace_header *h; // the limits of fields depend on it, on the step so far, and on the node's row
    const ls_step *s;
    int row;
    const ls_json *branches, *cost_rows; // kept until the field is read that they are checked against
    ls_trace_tokens tokens;
} reading;

static void wrong(reading *g, const char *field, const char *what) {
    if (g->code) return;
    g->code =
        ls_fail(g->err, LS_E_PARSE, "%s:%zu: %s is not %s", ls_lines_name(g->r->lines), g->r->line.number, field, what);
}

// ---- values

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

// Whether a time is plausible, so that sums and ratios of times stay finite.
static bool is_time(double v) {
    return v == 0 || (v >= 1e-12 && v <= 1e15);
}

static const char *get_str(reading *g, const ls_json *o, const char *field, size_t *n) {
    const char *v = ls_json_str(ls_json_get(o, field), n);
    if (!v) wrong(g, field, "a text");
    return v ? v : "";
}

// What does not fit is cut off behind a whole character.
static void get_text(reading *g, const ls_json *o, const char *field, char *out, size_t size) {
    snprintf(out, size, "%s", get_str(g, o, field, NULL));
    const size_t n = strlen(out);
    for (size_t back = 1; back < 4 && back <= n; back++)
        if (!ls_utf8_decode(out + n - back, back, NULL)) out[n - back] = 0;
}

static const ls_json *get_array(reading *g, const ls_json *o, const char *field, size_t most) {
    const ls_json *a = ls_json_get(o, field);
    if (!ls_json_is_array(a)) wrong(g, field, "a list");
    else if (ls_json_size(a) > most) wrong(g, field, "a list of allowed length");
    return g->code ? NULL : a;
}

static int32_t item_int(reading *g, const ls_json *a, size_t i, const char *field, int64_t lo, int64_t hi) {
    int64_t v = lo;
    if (!ls_json_int(ls_json_at(a, i), &v) || v < lo || v > hi) wrong(g, field, "a list of ids or rows in range");
    return (int32_t)v;
}

static void get_ids(reading *g, const ls_json *o, const char *field, int32_t most, ls_ids *out) {
    const ls_json *ids = get_array(g, o, field, (size_t)most);
    for (size_t i = 0; i < ls_json_size(ids) && !g->code; i++)
        ls_ids_push(out, item_int(g, ids, i, field, 0, g->h->run.n_vocab - 1));
}

static void read_ends(reading *g, const ls_json *o, const char *field, ls_eos_set *out) {
    const ls_json *ids = ls_json_get(o, field) ? get_array(g, o, field, LS_MAX_EOS) : NULL;
    *out = (ls_eos_set){0};
    if (!ids && g->h->eos >= 0) ls_eos_set_add(out, g->h->eos);
    for (size_t i = 0; i < ls_json_size(ids) && !g->code; i++)
        ls_eos_set_add(out, item_int(g, ids, i, field, 0, g->h->run.n_vocab - 1));
}

// ---- fields

static void read_branch(reading *g, const ls_json *doc, ls_branch *o);
static void read_node(reading *g, const ls_json *doc, ls_node *o);

static void check_version(reading *g, int64_t version) {
    if (!g->code && version != LS_TRACE_VERSION)
        g->code = ls_fail(g->err, LS_E_UNSUPPORTED,
                          "%s:%zu: trace version %lld is not supported; this program reads version %d",
                          ls_lines_name(g->r->lines), g->r->line.number, (long long)version, LS_TRACE_VERSION);
}

static void read_config(reading *g, const ls_json *doc, const char *field, ls_buf *config) {
    (void)g;
    for (ls_json_member m = {0}; ls_json_next(ls_json_get(doc, field), &m);) {
        const char *text = ls_json_str(m.value, NULL), *now = ls_name_now("key", m.key);
        ls_buf_fmt(config, "%s%c%s%c", now, 0, text ? ls_name_now(now, text) : "", 0);
    }
}

static void read_cost_rows(reading *g, const ls_json *doc, const char *field, ls_cost_curve *z) {
    (void)z;
    g->cost_rows = get_array(g, doc, field, 64);
}

static void read_cost_ms(reading *g, const ls_json *doc, const char *field, ls_cost_curve *z) {
    const ls_json *ms = get_array(g, doc, field, 64);
    const size_t n = ls_json_size(g->cost_rows);
    if (!g->code && (n < 1 || ls_json_size(ms) != n)) wrong(g, "calibration", "as many rows as milliseconds");
    int32_t rows[64];
    double times[64];
    for (size_t i = 0; i < n && !g->code; i++) {
        rows[i] = item_int(g, g->cost_rows, i, "rows", i ? rows[i - 1] + 1 : 1, LS_MAX_ROWS);
        if (!ls_json_num(ls_json_at(ms, i), &times[i]) || !(times[i] > 0 && is_time(times[i])))
            wrong(g, field, "a list of times");
    }
    if (!g->code) ls_cost_of_points(z, rows, times, NULL, n);
}

static void add_token(reading *g, const char *key, const ls_json *value) {
    size_t n = 0;
    char *end;
    const char *text = ls_json_str(value, &n);
    const long id = strtol(key, &end, 10);
    if (end == key || *end || id < 0 || id >= g->h->run.n_vocab) wrong(g, "bytes", "an object of token ids");
    else if (!text || !ls_buf_unbase64(&g->tokens.bytes, (ls_str){text, n}))
        wrong(g, "bytes", "an object of base64 texts");
    else {
        ls_ids_push(&g->tokens.ids, (int32_t)id);
        ls_ids_push(&g->tokens.ends, (int32_t)g->tokens.bytes.n);
    }
}

static void read_bytes(reading *g, const ls_json *doc, const char *field, const ls_trace_tokens *o) {
    (void)o; // it is g's
    const ls_json *all = ls_json_get(doc, field);
    if (!ls_json_is_object(all)) wrong(g, field, "an object");
    for (ls_json_member m = {0}; ls_json_next(all, &m);) add_token(g, m.key, m.value);
}

// Item i, a pair of an id and a number. Returns the id.
static int32_t item_pair(reading *g, const ls_json *a, int i, const char *field, int64_t hi, const char *what,
                         float *number) {
    const ls_json *pair = ls_json_at(a, (size_t)i);
    const int32_t id = item_int(g, pair, 0, field, 0, hi);
    double x = NAN;
    if (!ls_json_num(ls_json_at(pair, 1), &x)) wrong(g, field, what);
    *number = (float)x;
    return id;
}

static int16_t read_top(reading *g, const ls_json *o, const char *field, ls_top_entry *out, int most) {
    const ls_json *top = ls_json_get(o, field) ? get_array(g, o, field, (size_t)most) : NULL; // absent at lower levels
    const int n = (int)ls_json_size(top);
    for (int i = 0; i < n && !g->code; i++)
        out[i].id = item_pair(g, top, i, field, g->h->run.n_vocab - 1, "a list of ids and logits", &out[i].logit);
    for (int i = n; i < most; i++) out[i] = (ls_top_entry){-1, 0};
    return (int16_t)n;
}

static void read_said_top(reading *g, const ls_json *doc, const char *field, ls_prediction *s) {
    const ls_json *top = get_array(g, doc, field, LS_PREDICTION_TOP);
    const int n = (int)ls_json_size(top);
    const char *what = "a list of ids and chances";
    for (int i = 0; i < LS_PREDICTION_TOP; i++) s->id[i] = -1;
    for (int i = 0; i < n && !g->code; i++) {
        s->id[i] = item_pair(g, top, i, field, g->h->run.n_vocab - 1, what, &s->p[i]);
        if (!(s->p[i] >= 0 && s->p[i] <= 1.001f)) wrong(g, field, what);
    }
}

static void read_draws(reading *g, const ls_json *doc, const char *field, ls_prediction *s) {
    const ls_json *draws = ls_json_get(doc, field) ? get_array(g, doc, field, LS_PREDICTION_TOP) : NULL;
    s->n_draws = (int32_t)ls_json_size(draws);
    for (int i = 0; i < s->n_draws && !g->code; i++)
        s->draw[i] = item_int(g, draws, (size_t)i, field, 0, g->h->run.n_vocab - 1);
}

static float get_chance(reading *g, const ls_json *doc, const char *field) {
    if (!ls_json_get(doc, field)) return 0;
    const double p = get_num(g, doc, field);
    if (!(p > 0 && p <= 1.001)) wrong(g, field, "a probability above 0 and up to 1"); // tolerate float rounding
    return (float)p;
}

static void read_branches(reading *g, const ls_json *doc, const char *field, ls_step *s) {
    g->branches = g->h->level > LS_LEVEL_STEPS ? get_array(g, doc, field, LS_MAX_ROWS) : NULL;
    s->tree.n_branches = (int32_t)ls_json_size(g->branches);
}

static inline void read_said(reading *g, const ls_json *doc, ls_prediction *o);
static void read_saids(reading *g, const ls_json *doc, const char *field, ls_step *s) {
    const ls_json *said = ls_json_get(doc, field) ? get_array(g, doc, field, LS_MAX_PREDICTIONS) : NULL;
    s->tree.n_predictions = (int32_t)ls_json_size(said);
    for (int i = 0; i < s->tree.n_predictions && !g->code; i++)
        read_said(g, ls_json_at(said, (size_t)i), &s->tree.predictions[i]);
}

static void read_nodes(reading *g, const ls_json *doc, const char *field, ls_step *s) {
    const ls_json *nodes = get_array(g, doc, field, LS_MAX_ROWS);
    s->tree.n = (int32_t)ls_json_size(nodes);
    if (!g->code && (s->tree.n < 1 || s->tree.n > s->rows || (g->h->level > LS_LEVEL_STEPS && s->tree.n < s->rows)))
        wrong(g, field, "a tree of `rows` rows");
    for (int i = 0; i < s->tree.n_branches && !g->code; i++)
        read_branch(g, ls_json_at(g->branches, (size_t)i), &s->tree.branches[i]);
    for (int i = 0; i < s->tree.n && !g->code; i++) {
        ls_node *n = &s->tree.nodes[g->row = i];
        read_node(g, ls_json_at(nodes, (size_t)i), n);
        if (!g->code && n->depth != (i ? s->tree.nodes[n->parent].depth + 1 : 0))
            wrong(g, "depth", "the parent's depth plus 1");
    }
}

static void read_routes(reading *g, const ls_json *doc, const char *field, ls_step *s) {
    const ls_run *r = &g->h->run;
    const int64_t of_row = (int64_t)r->n_mixtures * r->n_experts_used;
    const ls_json *routes = ls_json_get(doc, field) ? get_array(g, doc, field, LS_MAX_ROUTES) : NULL;
    s->n_routes = (int32_t)ls_json_size(routes);
    if (!g->code && s->n_routes && (!of_row || s->n_routes % of_row || s->n_routes > s->tree.n * of_row))
        wrong(g, field, "the experts of rows in each layer");
    for (int i = 0; i < s->n_routes && !g->code; i++)
        s->routes[i].expert =
            item_pair(g, routes, i, field, r->n_experts - 1, "a list of experts and weights", &s->routes[i].weight);
}

static void read_path(reading *g, const ls_json *doc, const char *field, ls_step *s) {
    const ls_json *path = get_array(g, doc, field, (size_t)s->tree.n);
    s->n_path = (int16_t)ls_json_size(path);
    for (int i = 0; i < s->n_path && !g->code; i++) {
        s->path[i] = item_int(g, path, (size_t)i, field, 0, s->tree.n - 1);
        if (!g->code && s->tree.nodes[s->path[i]].parent != (i ? s->path[i - 1] : -1))
            wrong(g, field, "a path from the root");
    }
    bool on_path[LS_MAX_ROWS] = {0};
    for (int i = 0; i < s->n_path && !g->code; i++) on_path[s->path[i]] = true;
    for (int i = 0; i < s->tree.n && !g->code; i++) {
        const bool reached = i == 0 || on_path[s->tree.nodes[i].parent];
        if (s->tree.nodes[i].state != (on_path[i] ? LS_NODE_ACCEPTED
                                       : reached  ? LS_NODE_REJECTED
                                                  : LS_NODE_NOT_REACHED))
            wrong(g, "state", "consistent with the path");
    }
}

static void read_emitted(reading *g, const ls_json *doc, const char *field, ls_step *s) {
    const ls_json *emitted = get_array(g, doc, field, LS_MAX_ROWS);
    s->n_emitted = (int16_t)ls_json_size(emitted);
    if (!g->code && (s->n_emitted < 1 || s->n_emitted > s->n_path))
        wrong(g, field, "a list of 1 to the path's number of tokens");
    for (int i = 0; i < s->n_emitted && !g->code; i++)
        if (item_int(g, emitted, (size_t)i, field, 0, INT32_MAX) != s->tree.nodes[s->path[i]].token)
            wrong(g, field, "the tokens of the path");
}

// How the types of trace_fields.def are read; v is the field's place, o the object's, doc its JSON.
// clang-format off
#define READ_TEXT(name, v) get_text(g, doc, name, v, sizeof v)
#define READ_FORMAT(name, v) if (strcmp(get_str(g, doc, name, NULL), v)) wrong(g, name, v)
#define READ_BUF(name, v) size_t n; const char *text = get_str(g, doc, name, &n); if (!g->code) ls_buf_add(&v, text, n)
#define READ_HASH(name, v) v = strtoull(get_str(g, doc, name, NULL), NULL, 16)
#define READ_NAME(name, v, name_of, first, end) const char *text = get_str(g, doc, name, NULL); \
    for (v = first; v < end && strcmp(name_of(v), text); v++); \
    if (v == end) wrong(g, name, "a known name"), v = first
#define READ_REASON(name, v, ...) if (ls_json_get(doc, name)) { READ_NAME(name, v, __VA_ARGS__); } else v = 0
#define READ_LEVEL(name, v, ...) if (ls_json_get(doc, name)) { READ_NAME(name, v, __VA_ARGS__); } else v = LS_LEVEL_FULL
#define READ_BOOL(name, v) if (!ls_json_bool(ls_json_get(doc, name), &v)) wrong(g, name, "true or false")
#define READ_INT(name, v, lowest, highest) v = (__typeof__(v))get_int(g, doc, name, lowest, highest)
#define READ_TURN(name, v) READ_INT(name, v, 0, UINT32_MAX)
#define READ_KEPT(name, v, highest) if (ls_json_get(doc, name)) { READ_INT(name, v, 0, highest); } else v = -1
#define READ_NOTE(name, v) if (ls_json_get(doc, name)) { READ_TEXT(name, v); } else *v = 0
#define READ_METHOD(name, v) READ_TEXT(name, v); ls_label_now(v, v, sizeof v)
#define READ_VERSION(name, v) check_version(g, get_int(g, doc, name, 1, INT32_MAX))
#define READ_NUMBER(name, v, digits) v = (__typeof__(v))(NEEDED || ls_json_get(doc, name) ? get_num(g, doc, name) : NAN)
#define READ_TIME(name, v, digits) v = get_num(g, doc, name); if (!isnan(v) && !is_time(v)) wrong(g, name, "a time")
#define READ_SLOPE(name, v, digits) v = get_num(g, doc, name); if (!(v >= 0 && v <= 1e6)) wrong(g, name, "a time")
#define READ_MEASURED(name, v, digits) READ_TIME(name, v, digits); if (isnan(v)) v = 0
#define READ_OPTIONAL(name, v, digits) if (ls_json_get(doc, name)) { READ_MEASURED(name, v, digits); } else v = 0
#define READ_CHANCE(name, v, digits) v = get_chance(g, doc, name)
#define READ_PLACE(name, v, highest) if (ls_json_get(doc, name)) { READ_INT(name, v, 1, highest); } else v = 0
#define READ_SAID(name, v, n) read_saids(g, doc, name, o)
#define READ_SAID_TOP(name, v) read_said_top(g, doc, name, &v)
#define READ_ROUTES(name, v) read_routes(g, doc, name, &v)
#define READ_DRAWS(name, v) read_draws(g, doc, name, &v)
#define READ_IDS(name, v, most) get_ids(g, doc, name, most, &v)
#define READ_ENDS(name, v) read_ends(g, doc, name, &v)
#define READ_ROWS(name, v, n, part) read_##part(g, doc, name, o)
#define READ_TIMES(name, v, n, part, digits) READ_ROWS(name, v, n, part)
#define READ_LIST(name, v, n, part, object) READ_ROWS(name, v, n, part)
#define READ_TOP(name, v, n) read_top(g, doc, name, v, n)
#define READ_LAST_TOP(name, v, n) n = read_top(g, doc, name, v, LS_MAX_TOP)
#define READ_TEXTS(name, v, part) read_##part(g, doc, name, v)
#define READ_OBJECT(name, v, object) read_##object(g, ls_json_get(doc, name), v)
#define READ_COSTS(name, v, object) if (!ls_json_is_null(ls_json_get(doc, name))) READ_OBJECT(name, v, object)
#define ROOT_OR(root, other) (g->row ? (other) : (root))
#define FIELD(type, name, place, level, unit, sentence, ...) { \
    enum { NEEDED = LS_LEVEL_##level == LS_LEVEL_STEPS }; \
    READ_##type(name, place, ##__VA_ARGS__); \
}
#define TOLD(...)
#define OBJECT(object, type) static inline void read_##object(reading *g, const ls_json *doc, type *o) { \
    (void)g, (void)doc, (void)o;
#define LINE(line, type, sentence) OBJECT(line, type)
#define END }
#include "trace/trace_fields.def"
// clang-format on

static const char *const level_names[] = {"steps", "nodes", "full"};

const char *ls_trace_level_name(ls_trace_level level) {
    return level_names[level];
}

ls_trace_level ls_trace_level_named(const char *name) {
    for (int i = 0; i < LS_LEVEL_FULL; i++)
        if (!strcmp(level_names[i], name)) return (ls_trace_level)i;
    return LS_LEVEL_FULL;
}

bool ls_trace_next_setting(const ls_buf *config, const char **key, const char **value) {
    const char *next = *key ? *value + strlen(*value) + 1 : config->p;
    if (!config->n || next == config->p + config->n) return false;
    *key = next;
    *value = next + strlen(next) + 1;
    return true;
}

const char *ls_trace_config(const ls_trace_header *h, const char *key) {
    for (const char *k = NULL, *v; ls_trace_next_setting(&h->config, &k, &v);)
        if (!strcmp(k, key)) return v;
    return "";
}

ls_guarantee ls_trace_guarantee(const ls_trace_header *h) {
    ls_accept a;
    if (ls_accept_read(&a, "", h->acceptance, NULL)) return LS_LOSSY;
    return ls_method_guarantee(h->run.method, &a, strtod(ls_trace_config(h, "decode.temperature"), NULL));
}

// ---- lines

static ls_event *tokens_event(const ls_trace_tokens *o) {
    ls_event *e = ls_event_new(LS_EV_TOKENS);
    e->tokens.n = (int32_t)o->ids.n;
    e->tokens.ids = o->ids.p;
    e->tokens.ends = o->ends.p;
    e->tokens.bytes = o->bytes.p;
    e->tokens.special = ls_calloc(o->ids.n + 1, 1);
    ls_map marked = {0};
    for (size_t i = 0; i < o->special.n; i++) ls_map_put(&marked, (uint64_t)o->special.p[i], 1);
    int32_t is;
    for (size_t k = 0; k < o->ids.n && marked.n; k++)
        e->tokens.special[k] = ls_map_get(&marked, (uint64_t)o->ids.p[k], &is);
    ls_map_free(&marked);
    return e;
}

void ls_trace_header_free(ls_trace_header *h) {
    ls_ids_free(&h->prompt);
    ls_buf_free(&h->prompt_text);
    ls_buf_free(&h->config);
    *h = (ls_trace_header){0};
}

ls_trace_reader *ls_trace_read_of(ls_lines *lines) {
    ls_trace_reader *r = ls_calloc(1, sizeof *r);
    r->lines = lines;
    r->step = ls_step_new();
    return r;
}

ls_code ls_trace_read_open(ls_trace_reader **out, const char *path, ls_err *err) {
    ls_lines *lines;
    *out = NULL;
    const ls_code code = ls_lines_open(&lines, path, err);
    if (code) return code;
    *out = ls_trace_read_of(lines);
    (*out)->sorts = true;
    return LS_OK;
}

void ls_trace_read_close(ls_trace_reader *r) {
    if (!r) return;
    ls_lines_close(r->lines);
    ls_trace_header_free(&r->header);
    ls_step_free(r->step);
    ls_event_free(r->tokens);
    ls_by_request_free(r->requests);
    free(r);
}

void ls_trace_read_stop(ls_trace_reader *r, bool (*stop)(void *ud), void *ud) {
    ls_lines_stop(r->lines, stop, ud);
}

double ls_trace_read_progress(const ls_trace_reader *r) {
    return ls_lines_progress(r->lines);
}

static ls_trace_line kind_named(const char *name, size_t n) {
    static const char *const names[] = {"", "header", "tokens", "step", "end", "request"};
    for (int i = LS_TRACE_HEADER; i <= LS_TRACE_REQUEST; i++)
        if (strlen(names[i]) == n && !memcmp(names[i], name, n)) return (ls_trace_line)i;
    return LS_TRACE_OTHER;
}

static ls_trace_line read_document(reading *g, ls_trace_reader *r, const ls_json *doc) {
    const char *type = get_str(g, doc, "type", NULL);
    const ls_trace_line kind = kind_named(type, strlen(type));
    if (!g->code && kind != LS_TRACE_HEADER && kind != LS_TRACE_REQUEST && !r->has_header)
        g->code = ls_fail(g->err, LS_E_PARSE, "%s:%zu: a '%.20s' line before any header: not a logitspec trace",
                          ls_lines_name(r->lines), r->line.number, type);
    if (g->code) return LS_TRACE_NONE;
    switch (kind) {
    case LS_TRACE_HEADER:
        ls_trace_header_free(&r->header);
        read_header(g, doc, &r->header);
        r->has_header = !g->code;
        r->guarantee = ls_trace_guarantee(&r->header);
        break;
    case LS_TRACE_STEP:
        ls_step_start(r->step, (ls_step){.exact = r->header.run.exact && r->guarantee == LS_SAME_TEXT,
                                         .same_distribution = r->guarantee == LS_SAME_DISTRIBUTION});
        read_step(g, doc, r->step);
        ls_step_round(r->step);
        break;
    case LS_TRACE_END: read_end(g, doc, &r->end); break;
    case LS_TRACE_REQUEST: read_request(g, doc, &r->request); break;
    case LS_TRACE_TOKENS:
        ls_buf_str(&g->tokens.bytes, ""); // never NULL
        read_tokens(g, doc, &g->tokens);
        ls_event_free(r->tokens);
        r->tokens = tokens_event(&g->tokens);
        ls_ids_free(&g->tokens.special);
        break;
    case LS_TRACE_NONE:
    case LS_TRACE_OTHER: break;
    }
    return kind;
}

static ls_code next_of_file(ls_trace_reader *r, ls_err *err) {
    if (r->places && r->at_place == r->n_places) return r->line.p = NULL, LS_OK;
    const ls_trace_place *p = r->places ? &r->places[r->at_place++] : NULL;
    const size_t before = r->line.number;
    ls_code code = p ? ls_lines_seek(r->lines, p->offset, p->number, err) : LS_OK;
    if (!code) code = ls_lines_next(r->lines, &r->line, err);
    if (!r->line.p) r->line.number = before; // the end of the file is not a line
    return code;
}

static ls_code parse(const ls_trace_reader *r, ls_json **doc, ls_err *err) {
    char where[600];
    snprintf(where, sizeof where, "%.500s:%zu", ls_lines_name(r->lines), r->line.number);
    const ls_code code = ls_json_parse(doc, r->line.p, r->line.n, where, err);
    if (!code || r->line.number != 1) return code;
    return ls_err_suffix(err, "a trace is expected ('logitspec generate --trace FILE' writes one)");
}

// The kind of the line; without its fields, but for those of a request. An incomplete last line is none.
static ls_code kind_of_line(ls_trace_reader *r, ls_trace_line *kind, ls_err *err) {
    static const char begin[] = "{\"type\":\"";
    enum { SKIP = sizeof begin - 1 };
    const ls_line *line = &r->line;
    *kind = LS_TRACE_NONE;
    if (!line->p) return LS_OK;
    const char *end = NULL;
    if (line->whole && line->n > SKIP && !memcmp(line->p, begin, SKIP)) // as this program writes it
        end = memchr(line->p + SKIP, '"', line->n - SKIP);
    if (end) *kind = kind_named(line->p + SKIP, (size_t)(end - line->p) - SKIP);
    if (end && *kind != LS_TRACE_REQUEST) return LS_OK;
    ls_json *doc;
    reading g = {.r = r, .err = err, .h = &r->header, .s = r->step};
    const ls_code code = parse(r, &doc, err);
    if (code && !line->whole) {
        r->torn = true;
        r->line.p = NULL;
        return LS_OK;
    }
    if (code) return code;
    const char *type = ls_json_str(ls_json_get(doc, "type"), NULL);
    *kind = type ? kind_named(type, strlen(type)) : LS_TRACE_OTHER;
    if (*kind == LS_TRACE_REQUEST) read_request(&g, doc, &r->request);
    ls_json_free(doc);
    return g.code;
}

// Of what a server tells watchers, the lines come request by request.
static ls_code next_line(ls_trace_reader *r, ls_err *err) {
    ls_line line;
    if (!r->requests) return next_of_file(r, err);
    for (bool more = true; !ls_by_request_next(r->requests, more, &line);) {
        ls_trace_line kind;
        ls_code code = more ? next_of_file(r, err) : LS_OK;
        if (!more) return r->line.p = NULL, LS_OK;
        if (!code) code = kind_of_line(r, &kind, err);
        if (code) return code;
        if ((more = r->line.p) && kind == LS_TRACE_REQUEST) ls_by_request_about(r->requests, &r->request);
        else if (more) ls_by_request_put(r->requests, kind, &r->line);
        else if (!r->has_header) // no recording has begun
            return ls_fail(err, LS_E_RANGE,
                           ls_by_request_lost(r->requests)
                               ? "%s: the server had no memory for what it told of requests (serve.watch_mib)"
                               : "%s: the server was watched, but no request was answered meanwhile",
                           ls_lines_name(r->lines));
    }
    r->line = line;
    return LS_OK;
}

// The first line tells whether the lines are those that a server tells watchers.
static ls_code first_line(ls_trace_reader *r, ls_err *err) {
    ls_trace_line kind;
    ls_code code = next_of_file(r, err);
    if (!code && r->line.whole) code = kind_of_line(r, &kind, err);
    if (code || !r->line.whole || kind != LS_TRACE_REQUEST) return code;
    r->requests = ls_by_request_new();
    ls_by_request_about(r->requests, &r->request);
    return next_line(r, err);
}

ls_code ls_trace_read_next(ls_trace_reader *r, ls_trace_line *kind, ls_err *err) {
    *kind = LS_TRACE_NONE;
    ls_code code = r->sorts ? first_line(r, err) : next_line(r, err);
    r->sorts = false;
    if (code) return code;
    if (!r->line.p)
        return r->line.number
                   ? LS_OK
                   : ls_fail(err, LS_E_PARSE, "%s: not a trace: it has no complete line", ls_lines_name(r->lines));
    ls_json *doc;
    code = parse(r, &doc, err);
    if (code && !r->line.whole && r->has_header) { // the writer stopped in the middle of the line
        r->torn = true;
        return LS_OK;
    }
    if (code) return code;
    reading g = {.r = r, .err = err, .h = &r->header, .s = r->step};
    *kind = read_document(&g, r, doc);
    ls_json_free(doc);
    if (g.code) *kind = LS_TRACE_NONE;
    return g.code;
}

ls_code ls_trace_read_pass(ls_trace_reader *r, ls_trace_line *kind, ls_line *line, ls_err *err) {
    *kind = LS_TRACE_NONE;
    ls_code code = next_line(r, err);
    if (!code) code = kind_of_line(r, kind, err);
    *line = r->line;
    return code;
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

void ls_trace_read_gaps(const ls_trace_reader *r, ls_trace_gaps *sum) {
    sum->torn += r->torn;
    if (r->requests) sum->lost += ls_by_request_lost(r->requests);
}

void ls_trace_gaps_text(const ls_trace_gaps *g, ls_buf *out) {
    if (g->torn) ls_buf_str(out, "the last line of a trace is incomplete and was skipped");
    if (g->lost)
        ls_buf_fmt(out,
                   "%s%" PRIu64 " line%s of requests %s missing, for which the server had no memory (serve.watch_mib)",
                   g->torn ? "; " : "", g->lost, ls_plural(g->lost), g->lost == 1 ? "is" : "are");
}

const ls_trace_header *ls_trace_read_header(const ls_trace_reader *r) {
    return &r->header;
}

const ls_step *ls_trace_read_step(const ls_trace_reader *r) {
    return r->step;
}
ls_finish ls_trace_read_finish(const ls_trace_reader *r) {
    return r->end.reason;
}
const ls_request_facts *ls_trace_read_request(const ls_trace_reader *r) {
    return &r->request;
}
void ls_trace_read_more(ls_trace_reader *r, ls_lines *lines) {
    ls_lines_close(r->lines);
    r->lines = lines;
    r->torn = false;
}
ls_event *ls_trace_read_tokens(ls_trace_reader *r) {
    ls_event *e = r->tokens;
    r->tokens = NULL;
    return e;
}
