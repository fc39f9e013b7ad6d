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
    s->items[s->n++] = (ls_suite_item){.name = ls_strdup(name), .category = ls_strdup(category), .first = s->n_turns};
}

void ls_suite_add_turn(ls_suite *s, const char *text, size_t n) {
    ls_suite_item *item = &s->items[s->n - 1];
    item->turns = ls_realloc(item->turns, (item->n_turns + 1) * sizeof *item->turns);
    item->turns[item->n_turns++] = (ls_suite_turn){ls_strndup(text, n), n};
    s->n_turns++;
}

void ls_suite_free(ls_suite *s) {
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < s->items[i].n_turns; k++) free(s->items[i].turns[k].text);
        free(s->items[i].turns);
        free(s->items[i].name);
        free(s->items[i].category);
    }
    free(s->items);
    *s = (ls_suite){0};
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
    const size_t n_turns = prompt ? 1 : ls_json_size(turns);
    ls_suite_add(s, name, category ? category : "");
    for (size_t i = 0; i < n_turns && !code; i++) {
        size_t bytes = 0;
        const char *text = ls_json_str(prompt ? prompt : ls_json_at(turns, i), &bytes);
        if (text && bytes) ls_suite_add_turn(s, text, bytes);
        else if (i) code = ls_fail(err, LS_E_PARSE, "%s: turn %zu of \"turns\" is not text", where, i + 1);
        else break;
    }
    if (!code && !s->items[s->n - 1].n_turns)
        code = ls_fail(err, LS_E_PARSE, "%s: neither \"prompt\" nor \"turns\" holds a text", where);
    free(name);
    ls_json_free(doc);
    return code;
}

ls_code ls_suite_read(ls_suite *out, const char *path, ls_err *err) {
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
