#include "decode/suite.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20 };

void ls_suite_add(ls_suite *s, const char *name, const char *category, const char *prompt, size_t n) {
    s->items = ls_realloc(s->items, (s->n + 1) * sizeof *s->items);
    s->items[s->n++] = (ls_suite_item){ls_strdup(name), ls_strdup(category), ls_strndup(prompt, n), n};
}

void ls_suite_free(ls_suite *s) {
    for (size_t i = 0; i < s->n; i++) {
        free(s->items[i].name);
        free(s->items[i].category);
        free(s->items[i].prompt);
    }
    free(s->items);
    *s = (ls_suite){0};
}

static ls_code add_line(ls_suite *s, const char *line, size_t n, const char *where, size_t number, ls_err *err) {
    ls_json *doc;
    ls_code code = ls_json_parse(&doc, line, n, where, err);
    if (code) return code;
    const ls_json *id = ls_json_get(doc, "question_id"), *prompt = ls_json_get(doc, "prompt");
    if (!id) id = ls_json_get(doc, "id");
    if (!prompt) prompt = ls_json_at(ls_json_get(doc, "turns"), 0);
    const char *category = ls_json_str(ls_json_get(doc, "category"), NULL);
    size_t bytes = 0;
    const char *text = ls_json_str(prompt, &bytes);
    int64_t value = (int64_t)number;
    ls_json_int(id, &value);
    char *name = ls_json_str(id, NULL) ? ls_strdup(ls_json_str(id, NULL)) : ls_format("%lld", (long long)value);
    if (!text || !bytes) code = ls_fail(err, LS_E_PARSE, "%s: neither \"prompt\" nor \"turns\" holds a text", where);
    else ls_suite_add(s, name, category ? category : "", text, bytes);
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
