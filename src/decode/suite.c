#include "decode/suite.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20 };

void ls_suite_add(ls_suite *s, const char *name, const char *category) {
    s->items = ls_realloc(s->items, (s->n + 1) * sizeof *s->items);
    ls_suite_item *item = &s->items[s->n++];
    *item = (ls_suite_item){.name = ls_strdup(name), .category = ls_strdup(category), .first = s->n_turns};
    item->task = item->category;
}

void ls_suite_add_turn(ls_suite *s, const char *text, size_t n) {
    ls_suite_item *item = &s->items[s->n - 1];
    item->turns = ls_realloc(item->turns, (item->n_turns + 1) * sizeof *item->turns);
    item->turns[item->n_turns] = (ls_buf){0};
    ls_buf_add(&item->turns[item->n_turns++], text, n);
    s->n_turns++;
}

static void cut_turns(ls_suite_item *item, size_t n) {
    while (item->n_turns > n) ls_buf_free(&item->turns[--item->n_turns]);
}

static void free_item(ls_suite_item *item) {
    cut_turns(item, 0);
    free(item->turns);
    free(item->name);
    free(item->category);
    free(item->system);
}

void ls_suite_free(ls_suite *s) {
    for (size_t i = 0; i < s->n; i++) free_item(&s->items[i]);
    free(s->items);
    for (size_t i = 0; i < s->n_left_out; i++) free(s->left_out[i]);
    free(s->left_out);
    *s = (ls_suite){0};
}

static void count_turns(ls_suite *s) {
    s->n_turns = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->items[i].first = s->n_turns;
        s->n_turns += s->items[i].n_turns;
    }
}

void ls_suite_text(const ls_suite_item *item, ls_buf *out) {
    if (item->system) ls_buf_fmt(out, "system %zu %s", strlen(item->system), item->system);
    for (size_t t = 0; t < item->n_turns; t++) {
        ls_buf_fmt(out, "%zu ", item->turns[t].n);
        ls_buf_add(out, item->turns[t].p, item->turns[t].n);
    }
}

void ls_suite_drop(ls_suite *s, size_t item) {
    free_item(&s->items[item]);
    memmove(&s->items[item], &s->items[item + 1], (s->n - item - 1) * sizeof *s->items);
    s->n--;
    count_turns(s);
}

void ls_suite_cut(ls_suite *s, size_t items, size_t of_each_task, size_t turns) {
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t before = 0;
        for (size_t k = 0; k < kept; k++) before += !strcmp(s->items[k].task, s->items[i].task);
        if ((items && kept == items) || (of_each_task && before == of_each_task)) free_item(&s->items[i]);
        else s->items[kept++] = s->items[i];
    }
    s->n = kept;
    for (size_t i = 0; turns && i < kept; i++) cut_turns(&s->items[i], turns);
    count_turns(s);
}

// ---- one conversation

typedef struct {
    ls_suite *s;
    const char *name;
    char *where; // the conversation that is read, for messages
    bool strict;
    ls_err *err;
} reading;

static bool is_one_of(const ls_json *v, const char *words) {
    size_t n;
    const char *p = ls_json_str(v, &n);
    return p && ls_str_among((ls_str){p, n}, words) >= 0;
}

// A text, or the text parts of one (OpenAI's {"type": "text", "text": "..."}). False: there is something else.
static bool text_of(const ls_json *v, ls_buf *out) {
    size_t n;
    const char *p = ls_json_str(v, &n);
    if (p) ls_buf_add(out, p, n);
    for (size_t i = 0; i < ls_json_size(v); i++) {
        const ls_json *part = ls_json_at(v, i);
        p = ls_json_str(ls_json_get(part, "text"), &n);
        if (!p || !ls_json_is(ls_json_get(part, "type"), "text")) return false;
        ls_buf_add(out, p, n);
    }
    return p || ls_json_size(v);
}

// An element of a list of turns: a text, or a message with its role.
static ls_code add_turn(const reading *r, const ls_json *v, size_t i) {
    const ls_json *role = ls_json_get(v, "role") ? ls_json_get(v, "role") : ls_json_get(v, "from"),
                  *content = ls_json_get(v, "content") ? ls_json_get(v, "content") : ls_json_get(v, "value");
    const bool system = is_one_of(role, "system developer");
    if (ls_json_is_object(v) && role && !system && !is_one_of(role, "user human")) return LS_OK; // an answer
    ls_buf text = {0};
    ls_suite_item *item = &r->s->items[r->s->n - 1];
    const bool good = text_of(ls_json_is_object(v) ? content : v, &text);
    if (good && system && !item->system) item->system = ls_strndup(text.n ? text.p : "", text.n);
    else if (good && !system && text.n) ls_suite_add_turn(r->s, text.p, text.n);
    ls_buf_free(&text);
    return good ? LS_OK : ls_fail(r->err, LS_E_PARSE, "%s: turn %zu of the conversation is not text", r->where, i + 1);
}

// One text, with another one that belongs to it behind a blank line. False: the object has none.
static bool add_text(const reading *r, const ls_json *doc) {
    static const struct {
        const char *key, *more[2];
    } texts[] = {{"prompt", {NULL}}, {"question", {NULL}}, {"instruction", {"input", "context"}}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ls_buf text = {0};
        size_t n = 0;
        const char *p = ls_json_str(ls_json_get(doc, texts[i].key), &n);
        if (!p || !n) continue;
        ls_buf_add(&text, p, n);
        for (size_t k = 0; k < 2 && texts[i].more[k]; k++)
            if ((p = ls_json_str(ls_json_get(doc, texts[i].more[k]), &n)) && n) {
                ls_buf_str(&text, "\n\n");
                ls_buf_add(&text, p, n);
            }
        ls_suite_add_turn(r->s, text.p, text.n);
        ls_buf_free(&text);
        return true;
    }
    return false;
}

static ls_code add_turns(const reading *r, const ls_json *doc) {
    static const char *const lists[] = {"prompt", "turns", "messages", "conversations", "conversation"};
    const ls_json *body = ls_json_get(doc, "body"); // of a batch
    ls_code code = LS_OK;
    if (add_text(r, doc)) return LS_OK;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        const ls_json *list = ls_json_get(doc, lists[k]);
        if (!list && body) list = ls_json_get(body, lists[k]);
        for (size_t i = 0; i < ls_json_size(list) && !code; i++) code = add_turn(r, ls_json_at(list, i), i);
        if (code || r->s->items[r->s->n - 1].n_turns) return code;
    }
    return ls_fail(r->err, LS_E_PARSE,
                   "%s: no user text: none of \"prompt\", \"turns\", \"messages\", \"conversations\", \"question\" "
                   "and \"instruction\" has one",
                   r->where);
}

static ls_code add_item(const reading *r, const ls_json *doc, size_t number) {
    ls_suite *s = r->s;
    static const char *const ids[] = {"question_id", "id", "task_id", "custom_id", "conversation_id", "prompt_id"};
    const ls_json *id = NULL;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && !id; i++) id = ls_json_get(doc, ids[i]);
    const char *category = ls_json_str(ls_json_get(doc, "category"), NULL);
    int64_t value = (int64_t)number;
    ls_json_int(id, &value);
    char *name = ls_json_str(id, NULL) ? ls_strdup(ls_json_str(id, NULL)) : ls_format("%lld", (long long)value);
    // what Spec-Bench counts as one task (its evaluation/speed.py)
    static const char mt_bench[] = "writing roleplay reasoning math coding extraction stem humanities";
    const bool spec_bench = ls_json_get(doc, "turns") && ls_json_get(doc, "question_id");
    const size_t before = s->n;
    ls_suite_add(s, name, category ? category : "");
    if (spec_bench && is_one_of(ls_json_get(doc, "category"), mt_bench)) s->items[before].task = "mt_bench";
    const ls_code code = add_turns(r, doc);
    if (code) ls_suite_drop(s, before);
    free(name);
    return code;
}

// ---- the file

// Adds doc; NULL: the document of a line. Takes `where`. Goes on behind a malformed one unless it is strict.
static ls_code read_one(reading *r, char *where, const ls_json *doc, ls_str line, size_t number) {
    ls_json *own = NULL;
    r->where = where;
    ls_code code = doc ? LS_OK : ls_json_parse(&own, line.p, line.n, where, r->err);
    if (!code) code = add_item(r, doc ? doc : own, number);
    ls_json_free(own);
    free(where);
    if (!code || r->strict) return code;
    r->s->left_out = ls_grown(r->s->left_out, r->s->n_left_out, sizeof *r->s->left_out);
    r->s->left_out[r->s->n_left_out++] = ls_strdup(r->err->msg);
    *r->err = (ls_err){0};
    return LS_OK;
}

static ls_code read_lines(reading *r, const ls_buf *text) {
    ls_code code = LS_OK;
    size_t number = 0;
    for (size_t at = 0; at < text->n && !code;) {
        const char *line = text->p + at, *end = memchr(line, '\n', text->n - at);
        const size_t n = end ? (size_t)(end - line) : text->n - at;
        at += n + 1;
        number++;
        if (strspn(line, " \t\r") < n)
            code = read_one(r, ls_format("%s:%zu", r->name, number), NULL, (ls_str){line, n}, number);
    }
    return code;
}

static ls_code read_array(reading *r, const ls_json *doc) {
    ls_code code = LS_OK;
    for (size_t i = 0; i < ls_json_size(doc) && !code; i++)
        code = read_one(r, ls_format("%s: element %zu", r->name, i + 1), ls_json_at(doc, i), (ls_str){0}, i + 1);
    return code;
}

ls_code ls_suite_read(ls_suite *out, const char *path, bool strict, ls_err *err) {
    *out = (ls_suite){0};
    ls_buf text = {0};
    const bool is_stdin = !strcmp(path, "-");
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    if (!f) return ls_fail(err, LS_E_IO, "cannot read the suite %s: %s", path, strerror(errno));
    reading r = {.s = out, .name = is_stdin ? "standard input" : path, .strict = strict, .err = err};
    ls_code code = ls_read_all(&text, f, r.name, MAX_BYTES, err);
    if (!is_stdin) fclose(f);
    ls_json *doc = NULL;
    const size_t blanks = code || !text.n ? 0 : strspn(text.p, " \t\r\n");
    const char first = blanks < text.n ? text.p[blanks] : 0;
    if (!code && first == '[') {
        if (!(code = ls_json_parse(&doc, text.p, text.n, r.name, err))) code = read_array(&r, doc);
    } else if (!code && first == '{' && !ls_json_parse(&doc, text.p, text.n, r.name, NULL)) { // over many lines
        const ls_json *list = ls_json_get(doc, "data");
        code = list ? read_array(&r, list) : read_one(&r, ls_strdup(r.name), doc, (ls_str){0}, 1);
    } else if (!code) code = read_lines(&r, &text);
    ls_json_free(doc);
    ls_buf_free(&text);
    if (!code && !out->n && out->n_left_out)
        code = ls_fail(err, LS_E_RANGE, "the suite %s has no prompts; its first line: %s", path, out->left_out[0]);
    else if (!code && !out->n) code = ls_fail(err, LS_E_RANGE, "the suite %s has no prompts", path);
    if (code) ls_suite_free(out);
    return code;
}

void ls_suite_distinct(const char **names, size_t n) {
    size_t kept = 0;
    for (size_t p = 0; p < n; p++) {
        size_t i = 0;
        while (i < kept && strcmp(names[i], names[p])) i++;
        if (i == kept && *names[p]) names[kept++] = names[p];
    }
    names[kept] = NULL;
}
