// A benchmark as a JSON document, and back.
#include "base/alias.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/bench.h"
#include "trace/trace.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, MAX_BYTES = 1 << 30, MAX_METHODS = 1000 };

// The numeric fields of a result; reading and writing share this table.
static const struct {
    const char *key;
    size_t at;
    bool whole; // a uint64_t; else a double
} numbers[] = {
    {"emitted", offsetof(ls_result, stats.emitted), true},
    {"steps", offsetof(ls_result, stats.steps), true},
    {"forwards", offsetof(ls_result, stats.forwards), true},
    {"context", offsetof(ls_result, stats.context), true},
    {"draft_verified", offsetof(ls_result, stats.drafted), true},
    {"draft_accepted", offsetof(ls_result, stats.accepted), true},
    {"tokens_not_chosen", offsetof(ls_result, stats.lossy), true},
    {"decode_us", offsetof(ls_result, stats.total_us), false},
    {"draft_us", offsetof(ls_result, stats.draft_us), false},
    {"forward_us", offsetof(ls_result, stats.forward_us), false},
    {"draft_forward_us", offsetof(ls_result, stats.draft_forward_us), false},
    {"wait_us", offsetof(ls_result, stats.wait_us), false},
    {"verify_us", offsetof(ls_result, stats.verify_us), false},
    {"commit_us", offsetof(ls_result, stats.commit_us), false},
    {"waited_us", offsetof(ls_result, stats.waited_us), false},
    {"plain_us", offsetof(ls_result, plain_us), false},
    {"against_us", offsetof(ls_result, against_us), false},
    {"prefill_ms", offsetof(ls_result, prefill_ms), false},
    {"spread", offsetof(ls_result, spread), false},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

void ls_manifest_json(const ls_manifest *m, ls_jsonw *w) {
    ls_jw_open(w, '{');
#define TEXT(field, words)                                                                                             \
    if (*m->field) ls_jw_field_str(w, #field, m->field);
#define NUMBER(field, words, unit)                                                                                     \
    if (isfinite(m->field)) ls_jw_field_num(w, #field, m->field, 6);
#include "report/manifest.def"
    ls_jw_close(w, '}');
}

// row: of the method in the totals; behind it are those of its categories.
static void write_method(ls_jsonw *w, const ls_bench *b, int i, const ls_table *totals, size_t row, size_t categories) {
    ls_jw_open(w, '{');
    ls_table_fields(totals, row, w);
    ls_jw_field_bool(w, "lossy", !strcmp(b->methods[i].guarantee, "none"));
    ls_jw_field_str(w, "guarantee", b->methods[i].guarantee);
    ls_jw_field_bool(w, "plain", b->methods[i].plain);
    ls_jw_field_open(w, "categories", '[');
    for (size_t c = 1; c <= categories; c++) {
        ls_jw_open(w, '{');
        ls_table_fields(totals, row + c, w);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
    ls_jw_close(w, '}');
}

static void write_methods(ls_jsonw *w, const ls_bench *b) {
    const char **categories = ls_bench_categories(b);
    ls_table totals = ls_bench_totals(b, categories);
    size_t n = 0;
    while (categories[n]) n++;
    ls_jw_field_open(w, "methods", '[');
    for (int i = 0; i < b->n; i++) write_method(w, b, i, &totals, (size_t)i * (n + 1), n);
    ls_jw_close(w, ']');
    ls_table_free(&totals);
    free(categories);
}

static void write_run(ls_jsonw *w, const ls_bench *b, size_t p, int i) {
    const ls_result *r = ls_bench_result(b, p, i);
    ls_jw_open(w, '{');
    ls_jw_field_str(w, "prompt", b->prompts[p].name);
    ls_jw_field_str(w, "category", b->prompts[p].category);
    ls_jw_field_str(w, "task", b->prompts[p].task);
    ls_jw_field_str(w, "prompt_sha256", b->prompts[p].text);
    ls_jw_field_str(w, "method", b->methods[i].label);
    for (int k = 0; k < NUMBERS; k++) {
        const char *at = (const char *)r + numbers[k].at;
        if (numbers[k].whole) ls_jw_field_u64(w, numbers[k].key, *(const uint64_t *)(const void *)at);
        else ls_jw_field_num(w, numbers[k].key, *(const double *)(const void *)at, 9);
    }
    ls_jw_field_str(w, "finish_reason", ls_finish_name(r->finish));
    ls_jw_key(w, "first_difference");
    if (r->first_difference < 0) ls_jw_null(w);
    else ls_jw_int(w, r->first_difference);
    if (isfinite(r->gap) && r->first_difference >= 0) ls_jw_field_num(w, "gap", r->gap, 6);
    if (r->first_difference >= 0) {
        ls_jw_field_str(w, "reference_token", r->tokens[0]);
        ls_jw_field_str(w, "token", r->tokens[1]);
    }
    ls_jw_field_ids(w, "lengths", r->lengths.p, r->lengths.n);
    ls_jw_field_open(w, "turns", '[');
    for (size_t k = 0; k < r->turns; k++) {
        const ls_result_turn *t = &r->turn[k];
        ls_jw_open(w, '{');
        ls_jw_field_u64(w, "steps", t->steps);
        ls_jw_field_u64(w, "emitted", t->emitted);
        ls_jw_field_num(w, "decode_ms", t->decode_ms, 9);
        ls_jw_field_num(w, "prefill_ms", t->prefill_ms, 9);
        ls_jw_key(w, "text");
        ls_jw_strn(w, t->text, t->n);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
    ls_jw_close(w, '}');
}

void ls_bench_json(const ls_bench *b, ls_buf *out) {
    ls_jsonw w = ls_jw_begin(out);
    ls_jw_field_int(&w, "logitspec_bench", FORMAT);
    ls_jw_key(&w, "manifest");
    ls_manifest_json(&b->manifest, &w);
    ls_jw_field_str(&w, "settings", b->settings);
    ls_jw_field_bool(&w, "exact", b->exact);
    ls_jw_field_int(&w, "max_tokens", b->max_tokens);
    ls_jw_field_int(&w, "repeat", b->repeat);
    ls_jw_field_str(&w, "speedup_against", b->against);
    ls_jw_field_str(&w, "reference", b->judged);
    ls_jw_field_u64(&w, "disturbed_prompts", b->disturbed);
    ls_jw_field_ids(&w, "resumed", b->resumed.p, b->resumed.n);
    ls_jw_field_open(&w, "left_out", '[');
    for (size_t i = 0; i < b->n_left_out; i++) ls_jw_str(&w, b->left_out[i]);
    ls_jw_close(&w, ']');
    ls_jw_field_bool(&w, "complete", b->done == b->planned);
    ls_jw_field_u64(&w, "prompts", b->planned);
    write_methods(&w, b);
    ls_jw_field_bool(&w, "equal", ls_bench_equal(b));
    ls_jw_field_open(&w, "runs", '[');
    for (size_t p = 0; p < b->done; p++)
        for (int i = 0; i < b->n; i++) write_run(&w, b, p, i);
    ls_jw_close(&w, ']');
    ls_jw_end(&w);
}

// ---- reading

static void read_text(const ls_json *object, const char *key, char *out, size_t size) {
    size_t n = 0;
    const char *s = ls_json_str(ls_json_get(object, key), &n);
    if (s && n < size) memcpy(out, s, n + 1);
    else *out = 0;
}

static void read_label(const ls_json *object, const char *key, char *out, size_t size) {
    read_text(object, key, out, size);
    ls_label_now(out, out, size);
}

static bool read_count(const ls_json *object, const char *key, int64_t most, int64_t *out) {
    return ls_json_int(ls_json_get(object, key), out) && *out >= 0 && *out <= most;
}

static void read_manifest(const ls_json *o, ls_manifest *m) {
#define TEXT(field, words) read_text(o, #field, m->field, sizeof m->field);
#define NUMBER(field, words, unit)                                                                                     \
    if (!ls_json_num(ls_json_get(o, #field), &m->field)) m->field = NAN;
#include "report/manifest.def"
}

static bool read_turn(const ls_json *o, ls_result *r) {
    int64_t steps, emitted;
    size_t n = 0;
    ls_result_turn t;
    const char *text = ls_json_str(ls_json_get(o, "text"), &n);
    if (!text || !read_count(o, "steps", INT32_MAX, &steps) || !read_count(o, "emitted", INT32_MAX, &emitted) ||
        !ls_json_num(ls_json_get(o, "decode_ms"), &t.decode_ms) || !(t.decode_ms >= 0) ||
        !ls_json_num(ls_json_get(o, "prefill_ms"), &t.prefill_ms) || !(t.prefill_ms >= 0))
        return false;
    t.steps = (uint64_t)steps;
    t.emitted = (uint64_t)emitted;
    t.text = ls_strndup(text, n);
    t.n = n;
    r->turn = ls_realloc(r->turn, (r->turns + 1) * sizeof *r->turn);
    r->turn[r->turns++] = t;
    return true;
}

static bool read_run(const ls_json *o, ls_result *r) {
    const ls_json *turns = ls_json_get(o, "turns"), *lengths = ls_json_get(o, "lengths"),
                  *differs = ls_json_get(o, "first_difference");
    int64_t v;
    bool good = true;
    for (int k = 0; k < NUMBERS && good; k++) {
        char *at = (char *)r + numbers[k].at;
        double x;
        if (numbers[k].whole) {
            if ((good = read_count(o, numbers[k].key, INT64_MAX, &v))) *(uint64_t *)(void *)at = (uint64_t)v;
        } else if ((good = ls_json_num(ls_json_get(o, numbers[k].key), &x) && x >= 0)) *(double *)(void *)at = x;
    }
    r->first_difference = -1;
    if (good && !ls_json_is_null(differs)) {
        good = ls_json_int(differs, &v) && v >= 0;
        if (good) r->first_difference = (long)v;
        read_text(o, "reference_token", r->tokens[0], sizeof r->tokens[0]);
        read_text(o, "token", r->tokens[1], sizeof r->tokens[1]);
    }
    if (!ls_json_num(ls_json_get(o, "gap"), &r->gap)) r->gap = NAN; // earlier versions did not write it
    for (ls_finish f = LS_FINISH_EOS; f <= LS_FINISH_ERROR; f++)
        if (ls_json_is(ls_json_get(o, "finish_reason"), ls_finish_name(f))) r->finish = f;
    good = good && r->finish && ls_json_is_array(turns) && ls_json_is_array(lengths);
    for (size_t i = 0; good && i < ls_json_size(lengths); i++) {
        good = ls_json_int(ls_json_at(lengths, i), &v) && v >= 0 && v <= INT32_MAX;
        if (good) ls_ids_push(&r->lengths, (int32_t)v);
    }
    for (size_t i = 0; good && i < ls_json_size(turns); i++) good = read_turn(ls_json_at(turns, i), r);
    return good;
}

static ls_code read_methods(ls_bench *b, const ls_json *methods, const char *path, ls_err *err) {
    const size_t n = ls_json_size(methods);
    if (!n || n > MAX_METHODS) return ls_fail(err, LS_E_PARSE, "%s: the list of methods is missing", path);
    b->methods = ls_calloc(n, sizeof *b->methods);
    b->n = (int)n;
    for (int i = 0; i < b->n; i++) {
        const ls_json *m = ls_json_at(methods, (size_t)i);
        ls_bench_method *to = &b->methods[i];
        read_label(m, "method", to->label, sizeof to->label);
        read_text(m, "guarantee", to->guarantee, sizeof to->guarantee);
        if (!*to->guarantee) read_text(m, ls_name_before("bench", "guarantee"), to->guarantee, sizeof to->guarantee);
        const char *now = ls_name_now("guarantee", to->guarantee);
        if (now != to->guarantee) snprintf(to->guarantee, sizeof to->guarantee, "%s", now);
        if (!*to->label || !*to->guarantee || !ls_json_bool(ls_json_get(m, "plain"), &to->plain))
            return ls_fail(err, LS_E_PARSE, "%s: method %d has no name or no guarantee", path, i + 1);
    }
    return LS_OK;
}

static ls_code read_runs(ls_bench *b, const ls_json *runs, const char *path, ls_err *err) {
    const size_t n = ls_json_size(runs), methods = (size_t)b->n;
    if (!ls_json_is_array(runs) || n % methods || n / methods > b->planned)
        return ls_fail(err, LS_E_PARSE, "%s: the number of runs, %zu, does not fit %d methods and %zu prompts", path, n,
                       b->n, b->planned);
    b->n_prompts = n / methods;
    b->prompts = ls_calloc(b->n_prompts + 1, sizeof *b->prompts);
    ls_bench_begin(b);
    for (size_t k = 0; k < n; k++) {
        const ls_json *o = ls_json_at(runs, k);
        const size_t p = k / methods;
        const char *name = ls_json_str(ls_json_get(o, "prompt"), NULL),
                   *category = ls_json_str(ls_json_get(o, "category"), NULL),
                   *task = ls_json_str(ls_json_get(o, "task"), NULL);
        char label[sizeof b->methods->label];
        read_label(o, "method", label, sizeof label);
        if (!name || !category || !task || strcmp(label, b->methods[k % methods].label) ||
            (k % methods && strcmp(name, b->prompts[p].name)))
            return ls_fail(err, LS_E_PARSE, "%s: run %zu is out of order", path, k + 1);
        if (!(k % methods)) {
            b->prompts[p] =
                (ls_bench_prompt){.name = ls_strdup(name), .category = ls_strdup(category), .task = ls_strdup(task)};
            read_text(o, "prompt_sha256", b->prompts[p].text, sizeof b->prompts[p].text);
        }
        if (!read_run(o, ls_bench_result(b, p, (int)(k % methods))))
            return ls_fail(err, LS_E_PARSE, "%s: a number of run %zu is missing or invalid", path, k + 1);
    }
    b->done = n / methods;
    return LS_OK;
}

static ls_code read_document(ls_bench *b, const ls_json *doc, const char *path, ls_err *err) {
    int64_t format, max_tokens, repeat, prompts, disturbed;
    if (!ls_json_int(ls_json_get(doc, "logitspec_bench"), &format))
        return ls_fail(err, LS_E_PARSE, "%s: not written by 'logitspec bench methods -o FILE.json'", path);
    if (format != FORMAT)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: format %lld is not supported; this program reads %d", path,
                       (long long)format, FORMAT);
    if (!read_count(doc, "max_tokens", INT32_MAX, &max_tokens) || !read_count(doc, "repeat", 1000, &repeat) ||
        !read_count(doc, "prompts", 10000000, &prompts) || !read_count(doc, "disturbed_prompts", prompts, &disturbed) ||
        !ls_json_bool(ls_json_get(doc, "exact"), &b->exact))
        return ls_fail(err, LS_E_PARSE, "%s: a top-level field is missing or invalid", path);
    b->max_tokens = (int32_t)max_tokens;
    b->repeat = (int32_t)repeat;
    b->disturbed = (size_t)disturbed;
    read_manifest(ls_json_get(doc, "manifest"), &b->manifest);
    if (!(b->manifest.threads >= 1)) return ls_fail(err, LS_E_PARSE, "%s: the manifest has no number of threads", path);
    read_text(doc, "settings", b->settings, sizeof b->settings);
    read_label(doc, "speedup_against", b->against, sizeof b->against);
    read_label(doc, "reference", b->judged, sizeof b->judged);
    const ls_json *left_out = ls_json_get(doc, "left_out");
    for (size_t i = 0; i < ls_json_size(left_out); i++) {
        const char *why = ls_json_str(ls_json_at(left_out, i), NULL);
        if (why) ls_bench_leave_out(b, why);
    }
    const ls_json *resumed = ls_json_get(doc, "resumed");
    for (size_t i = 0; i < ls_json_size(resumed); i++) {
        int64_t v;
        if (ls_json_int(ls_json_at(resumed, i), &v) && v >= 0 && v <= prompts) ls_ids_push(&b->resumed, (int32_t)v);
    }
    ls_code code = read_methods(b, ls_json_get(doc, "methods"), path, err);
    if (code) return code;
    b->planned = (size_t)prompts;
    return read_runs(b, ls_json_get(doc, "runs"), path, err);
}

ls_code ls_bench_read(ls_bench *out, const char *path, ls_err *err) {
    *out = (ls_bench){0};
    ls_buf text = {0};
    ls_json *doc = NULL;
    int unopened;
    ls_code code = ls_read_any(&text, path, MAX_BYTES, &unopened, err);
    if (unopened) return ls_fail(err, LS_E_IO, "cannot read %s: %s", path, strerror(unopened));
    const char *line = text.n ? text.p : "", *end = text.n ? memchr(text.p, '\n', text.n) : NULL;
    if (!code && end && memmem(line, (size_t)(end - line), LS_TRACE_FORMAT, strlen(LS_TRACE_FORMAT)))
        code =
            ls_fail(err, LS_E_PARSE, "%s is a recording, not a benchmark: use 'logitspec report' or 'inspect'", path);
    if (!code) code = ls_json_parse(&doc, line, text.n, path, err);
    ls_buf_free(&text);
    if (!code) code = read_document(out, doc, path, err);
    if (doc) ls_json_free(doc);
    if (code) ls_bench_free(out);
    return code;
}
