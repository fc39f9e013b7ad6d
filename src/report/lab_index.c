#include "report/lab.h"
#include "base/alias.h"
#include "base/file.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char format[] = "logitspec-lab";
enum { VERSION = 1, MOST_BYTES = 16 << 20 };

static const char *const uses[LS_LAB_USES] = {
#define USE(name, text) text,
#include "report/lab_uses.def"
};

void ls_lab_index_free(ls_lab_index *x) {
    for (size_t i = 0; i < x->n_runs; i++) free(x->runs[i].places);
    for (size_t i = 0; i < x->n_items; i++) {
        free(x->items[i].name);
        free(x->items[i].category);
    }
    free(x->runs);
    free(x->items);
    *x = (ls_lab_index){0};
}

static ls_lab_run *run_of(ls_lab_index *x, const char *word, double temperature) {
    for (size_t i = 0; i < x->n_runs; i++)
        if (!strcmp(x->runs[i].word, word) && x->runs[i].temperature == temperature) return &x->runs[i];
    x->runs = ls_realloc(x->runs, (x->n_runs + 1) * sizeof *x->runs);
    ls_lab_run *r = &x->runs[x->n_runs++];
    *r = (ls_lab_run){.temperature = temperature};
    snprintf(r->word, sizeof r->word, "%s", word);
    return r;
}

void ls_lab_index_place(ls_lab_index *x, const char *word, double temperature, const ls_lab_place *place) {
    ls_lab_run *r = run_of(x, word, temperature);
    r->places = ls_realloc(r->places, (r->n_places + 1) * sizeof *r->places);
    r->places[r->n_places++] = *place;
}

void ls_lab_index_item(ls_lab_index *x, const char *name, const char *category) {
    x->items = ls_realloc(x->items, (x->n_items + 1) * sizeof *x->items);
    x->items[x->n_items++] = (ls_lab_item){ls_strdup(name), ls_strdup(category)};
}

const ls_lab_place *ls_lab_run_place(const ls_lab_run *r, ls_lab_use use) {
    for (size_t i = 0; i < r->n_places; i++)
        if (r->places[i].use == use) return &r->places[i];
    return NULL;
}

// ---- files

static char *index_path(const char *dir) {
    return ls_format("%s/traces/lab.jsonl", dir);
}

// Some systems do not allow all characters of a word in a file name: '~' replaces a colon, %2F a slash. The list may
// be hostile, so the result must not leave the folder.
static char *trace_path(const char *dir, const char *word, double temperature, size_t item) {
    ls_buf path = {0};
    ls_buf_fmt(&path, "%s/traces/", dir);
    for (const char *p = word; *p; p++)
        if (isalnum((unsigned char)*p) || strchr("-_+=@", *p) || (*p == '.' && p > word)) ls_buf_char(&path, *p);
        else if (*p == ':') ls_buf_char(&path, '~');
        else ls_buf_fmt(&path, "%%%02X", (unsigned char)*p);
    if (temperature > 0) ls_buf_fmt(&path, ",T=%g", temperature);
    ls_buf_fmt(&path, "/%04zu.jsonl.zst", item + 1);
    return path.p;
}

char *ls_lab_trace_path(const char *dir, const ls_lab_run *r, size_t item) {
    const char *before = ls_name_before("decode.method", r->word);
    if (before) { // an earlier version recorded this lab
        char *path = trace_path(dir, before, r->temperature, item);
        if (!access(path, F_OK)) return path;
        free(path);
    }
    return trace_path(dir, r->word, r->temperature, item);
}

// ---- reading

typedef struct {
    ls_lab_index *x;
    const char *where; // file and line
    const ls_json *doc;
    ls_err *err;
    ls_code code;
} line;

static ls_code wrong(line *l, const char *field, const char *what) {
    if (!l->code) l->code = ls_fail(l->err, LS_E_PARSE, "%s: %s is not %s", l->where, field, what);
    return l->code;
}

static const char *get_text(line *l, const ls_json *o, const char *field, size_t most) {
    size_t n = 0;
    const char *v = ls_json_str(ls_json_get(o, field), &n);
    if (v && n < most && strlen(v) == n) return v;
    wrong(l, field, "a text of allowed length");
    return "";
}

static double get_number(line *l, const ls_json *o, const char *field, double lo, double hi) {
    double v = NAN;
    if (!ls_json_num(ls_json_get(o, field), &v) || !(v >= lo && v <= hi)) wrong(l, field, "a number in range");
    return v;
}

static void read_run(line *l) {
    const ls_json *places = ls_json_get(l->doc, "shown");
    char word[LS_LAB_WORD];
    ls_label_now(get_text(l, l->doc, "word", LS_LAB_WORD), word, sizeof word);
    const double temperature = get_number(l, l->doc, "temperature", 0, 100);
    if (l->x->n_runs == LS_LAB_MOST_RUNS) wrong(l, "the number of runs", "within a lab's limit");
    if (!*word || !ls_json_size(places) || ls_json_size(places) > LS_LAB_MOST_RUNS)
        wrong(l, "a run", "valid: 'word' or 'shown' is missing or invalid");
    for (size_t i = 0; i < ls_json_size(places) && !l->code; i++) {
        const ls_json *o = ls_json_at(places, i);
        ls_lab_place p = {.x = get_number(l, o, "x", -1e9, 1e9)};
        const char *use = get_text(l, o, "use", LS_LAB_WORD);
        snprintf(p.series, sizeof p.series, "%s", get_text(l, o, "series", sizeof p.series));
        snprintf(p.label, sizeof p.label, "%s", get_text(l, o, "label", sizeof p.label));
        while (p.use < LS_LAB_USES && strcmp(uses[p.use], use)) p.use++;
        if (p.use == LS_LAB_USES || l->code) continue; // skip uses that this version does not know
        ls_lab_index_place(l->x, word, temperature, &p);
    }
}

static ls_code read_line(ls_lab_index *x, const char *text, size_t n, const char *where, bool first, ls_err *err) {
    ls_json *doc;
    ls_code code = ls_json_parse(&doc, text, n, where, err);
    if (code) return code;
    line l = {x, where, doc, err, LS_OK};
    int64_t version = 0, tokens = 0;
    if (first) {
        if (!ls_json_is(ls_json_get(doc, "format"), format)) wrong(&l, "the first line", "the header of a lab's list");
        else if (!ls_json_int(ls_json_get(doc, "version"), &version) || version != VERSION)
            l.code = ls_fail(err, LS_E_UNSUPPORTED, "%s: version %lld is not supported; this program reads version %d",
                             where, (long long)version, VERSION);
        else if (!ls_json_int(ls_json_get(doc, "max_tokens"), &tokens) || tokens < 1 || tokens > 1000000)
            wrong(&l, "max_tokens", "a number in range");
        x->max_tokens = (int32_t)tokens;
    } else if (ls_json_is(ls_json_get(doc, "type"), "run")) read_run(&l);
    else if (ls_json_is(ls_json_get(doc, "type"), "item")) {
        if (x->n_items == LS_LAB_MOST_ITEMS) wrong(&l, "the number of items", "within a lab's limit");
        const char *name = get_text(&l, doc, "name", 4096), *category = get_text(&l, doc, "category", 4096);
        if (!l.code) ls_lab_index_item(x, name, category);
    }
    ls_json_free(doc);
    return l.code;
}

ls_code ls_lab_index_read(ls_lab_index *out, const char *dir, ls_err *err) {
    *out = (ls_lab_index){0};
    ls_buf text = {0};
    ls_line l;
    int unopened;
    char *path = index_path(dir);
    ls_code code = ls_read_any(&text, path, MOST_BYTES, &unopened, err);
    if (unopened)
        ls_fail(err, LS_E_IO, "%s has no recordings of a lab (%s: %s); record them with --suite FILE -o DIR", dir, path,
                strerror(unopened));
    ls_lines *lines = ls_lines_in(text.p, text.n, path);
    while (!code && !(code = ls_lines_next(lines, &l, err)) && l.p) {
        char *where = ls_format("%s:%zu", path, l.number);
        code = read_line(out, l.p, l.n, where, l.number == 1, err);
        free(where);
    }
    ls_lines_close(lines);
    if (!code && (!out->n_runs || !out->n_items))
        code = ls_fail(err, LS_E_RANGE, "%s: the list has no run or no conversation", path);
    if (!code && out->n_runs * out->n_items > LS_LAB_MOST_ANSWERS)
        code = ls_fail(err, LS_E_RANGE, "%s: %zu runs of %zu conversations are more than the limit of %d answers", path,
                       out->n_runs, out->n_items, LS_LAB_MOST_ANSWERS);
    ls_buf_free(&text);
    free(path);
    if (code) ls_lab_index_free(out);
    return code;
}

// ---- writing

ls_code ls_lab_index_write(const ls_lab_index *x, const char *dir, ls_err *err) {
    ls_buf text = {0};
    ls_buf_fmt(&text, "{\"format\":\"%s\",\"version\":%d,\"max_tokens\":%d}\n", format, VERSION, x->max_tokens);
    for (size_t i = 0; i < x->n_runs; i++) {
        const ls_lab_run *r = &x->runs[i];
        ls_jsonw w = ls_jw_begin(&text);
        ls_jw_field_str(&w, "type", "run");
        ls_jw_field_str(&w, "word", r->word);
        ls_jw_field_num(&w, "temperature", r->temperature, 9);
        ls_jw_field_open(&w, "shown", '[');
        for (size_t k = 0; k < r->n_places; k++) {
            ls_jw_open(&w, '{');
            ls_jw_field_str(&w, "use", uses[r->places[k].use]);
            ls_jw_field_str(&w, "series", r->places[k].series);
            ls_jw_field_num(&w, "x", r->places[k].x, 9);
            ls_jw_field_str(&w, "label", r->places[k].label);
            ls_jw_close(&w, '}');
        }
        ls_jw_close(&w, ']');
        ls_jw_end(&w);
    }
    for (size_t i = 0; i < x->n_items; i++) {
        ls_jsonw w = ls_jw_begin(&text);
        ls_jw_field_str(&w, "type", "item");
        ls_jw_field_str(&w, "name", x->items[i].name);
        ls_jw_field_str(&w, "category", x->items[i].category);
        ls_jw_end(&w);
    }
    char *path = index_path(dir);
    const ls_code code = ls_write_file(path, &text, err);
    free(path);
    ls_buf_free(&text);
    return code;
}
