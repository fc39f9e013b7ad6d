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
    item->turns[item->n_turns++] = (ls_suite_turn){ls_strndup(text, n), n};
    s->n_turns++;
}

static void cut_turns(ls_suite_item *item, size_t n) {
    while (item->n_turns > n) free(item->turns[--item->n_turns].text);
}

static void free_item(ls_suite_item *item) {
    cut_turns(item, 0);
    free(item->turns);
    free(item->name);
    free(item->category);
}

void ls_suite_free(ls_suite *s) {
    for (size_t i = 0; i < s->n; i++) free_item(&s->items[i]);
    free(s->items);
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
    for (size_t t = 0; t < item->n_turns; t++) {
        ls_buf_fmt(out, "%zu ", item->turns[t].n);
        ls_buf_add(out, item->turns[t].text, item->turns[t].n);
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

// What Spec-Bench counts as one task (its evaluation/speed.py).
static bool is_mt_bench(const char *category) {
    static const char *const kinds[] = {"writing", "roleplay",   "reasoning", "math",
                                        "coding",  "extraction", "stem",      "humanities"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(category, kinds[i])) return true;
    return false;
}

static ls_code add_line(ls_suite *s, const char *line, size_t n, const char *where, size_t number, ls_err *err) {
    ls_json *doc;
    ls_code code = ls_json_parse(&doc, line, n, where, err);
    if (code) return code;
    const ls_json *id = ls_json_get(doc, "question_id"), *prompt = ls_json_get(doc, "prompt"),
                  *turns = ls_json_get(doc, "turns");
    if (!id) id = ls_json_get(doc, "id");
    const char *category = ls_json_str(ls_json_get(doc, "category"), NULL);
    int64_t value = (int64_t)number;
    ls_json_int(id, &value);
    char *name = ls_json_str(id, NULL) ? ls_strdup(ls_json_str(id, NULL)) : ls_format("%lld", (long long)value);
    const bool spec_bench = turns && ls_json_get(doc, "question_id");
    const size_t n_turns = prompt ? 1 : ls_json_size(turns);
    const size_t before = s->n;
    ls_suite_add(s, name, category ? category : "");
    if (spec_bench && is_mt_bench(s->items[before].category)) s->items[before].task = "mt_bench";
    for (size_t i = 0; i < n_turns && !code; i++) {
        size_t bytes = 0;
        const char *text = ls_json_str(prompt ? prompt : ls_json_at(turns, i), &bytes);
        if (text && bytes) ls_suite_add_turn(s, text, bytes);
        else if (i) code = ls_fail(err, LS_E_PARSE, "%s: turn %zu of \"turns\" is not text", where, i + 1);
        else break;
    }
    if (!code && !s->items[s->n - 1].n_turns)
        code = ls_fail(err, LS_E_PARSE, "%s: neither \"prompt\" nor \"turns\" holds a text", where);
    if (code) ls_suite_drop(s, before);
    free(name);
    ls_json_free(doc);
    return code;
}

ls_code ls_suite_read(ls_suite *out, const char *path, ls_err *err) {
    return ls_suite_read_some(out, path, NULL, NULL, err);
}

ls_code ls_suite_read_some(ls_suite *out, const char *path, void (*skipped)(void *ud, const char *why), void *ud,
                           ls_err *err) {
    *out = (ls_suite){0};
    ls_buf text = {0};
    const bool is_stdin = !strcmp(path, "-");
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    if (!f) return ls_fail(err, LS_E_IO, "cannot read the suite %s: %s", path, strerror(errno));
    ls_code code = ls_read_all(&text, f, is_stdin ? "standard input" : path, MAX_BYTES, err);
    if (!is_stdin) fclose(f);
    size_t number = 0;
    for (size_t at = 0; at < text.n && !code;) {
        const char *line = text.p + at, *end = memchr(line, '\n', text.n - at);
        const size_t n = end ? (size_t)(end - line) : text.n - at;
        at += n + 1;
        number++;
        if (strspn(line, " \t\r") >= n) continue;
        char *where = ls_format("%s:%zu", is_stdin ? "standard input" : path, number);
        code = add_line(out, line, n, where, number, err);
        free(where);
        if (code && skipped) {
            skipped(ud, err->msg);
            *err = (ls_err){0};
            code = LS_OK;
        }
    }
    ls_buf_free(&text);
    if (!code && !out->n) code = ls_fail(err, LS_E_RANGE, "the suite %s has no prompts", path);
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
