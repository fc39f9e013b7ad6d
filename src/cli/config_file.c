#include "cli/options.h"
#include "base/alias.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20 };

// "a.b" as section and name.
typedef struct {
    char section[64];
    const char *name;
} key_parts;

static key_parts parts_of(const char *key) {
    key_parts k = {.name = strchr(key, '.') + 1};
    snprintf(k.section, sizeof k.section, "%.*s", (int)(k.name - 1 - key), key);
    return k;
}

static const ls_yaml *value_of(const ls_yaml *y, const char *key) {
    const key_parts k = parts_of(key);
    const ls_yaml *section = ls_yaml_get(y, k.section);
    const ls_yaml *v = section && section->kind == LS_YAML_MAPPING ? ls_yaml_get(section, k.name) : NULL;
    const char *before = v ? NULL : ls_name_before("key", key);
    return before ? value_of(y, before) : v;
}

static void write_scalar(ls_buf *out, const char *value) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+/-";
    if (*value && *value != '-' && strspn(value, plain) == strlen(value)) ls_buf_str(out, value);
    else ls_options_quoted(value, out);
}

// The offset of a line (from 1); the end of the text if there are fewer lines.
static size_t line_at(const ls_buf *text, int line) {
    size_t at = 0;
    while (--line > 0 && at < text->n) {
        while (at < text->n && text->p[at] != '\n') at++;
        at += at < text->n;
    }
    return at;
}

static void replace(ls_buf *text, size_t from, size_t to, const ls_buf *with) {
    ls_buf out = {0};
    ls_buf_add(&out, text->n ? text->p : "", from);
    ls_buf_add(&out, with->n ? with->p : "", with->n);
    ls_buf_add(&out, text->n ? text->p + to : "", text->n - to);
    ls_buf_str(&out, "");
    ls_buf_free(text);
    *text = out;
}

// The end of the scalar that begins at `at`, within its line. A comment after it is not part of it.
static size_t scalar_end(const ls_buf *text, size_t at) {
    const char quote = text->p[at] == '"' || text->p[at] == '\'' ? text->p[at] : 0;
    size_t i = at + (quote != 0), end = at;
    for (; i < text->n && text->p[i] != '\n'; i++) {
        if (quote == '"' && text->p[i] == '\\') i++;
        else if (quote && text->p[i] == quote) return i + 1;
        else if (!quote && text->p[i] == '#' && i > at && (text->p[i - 1] == ' ' || text->p[i - 1] == '\t')) break;
        else if (text->p[i] != ' ' && text->p[i] != '\t' && text->p[i] != '\r') end = i + 1;
    }
    return end;
}

static void set_one(ls_buf *text, const ls_yaml *y, const ls_config_change *c) {
    const key_parts k = parts_of(c->key);
    const ls_yaml *section = ls_yaml_get(y, k.section), *old = value_of(y, c->key);
    ls_buf line = {0};
    size_t from = text->n, to = from;
    if (old) {
        from = line_at(text, old->line) + (size_t)old->column - 1;
        to = scalar_end(text, from);
    } else if (section && section->kind == LS_YAML_MAPPING && section->n_items) {
        from = to = line_at(text, section->items[0].key_line); // a line before the first key, with its indent
        ls_buf_fmt(&line, "%*s%s: ", section->items[0].key_column - 1, "", k.name);
    } else ls_buf_fmt(&line, "%s%s:\n  %s: ", text->n && text->p[text->n - 1] != '\n' ? "\n" : "", k.section, k.name);
    write_scalar(&line, c->value);
    if (!old) ls_buf_char(&line, '\n');
    replace(text, from, to, &line);
    ls_buf_free(&line);
}

// Lists the values with their keys, without those that are to change.
static void list_others(const ls_yaml *y, const char *key, const ls_config_change *changes, int n, ls_buf *out) {
    for (int i = 0; i < n; i++)
        if (!strcmp(ls_name_now("key", key), changes[i].key)) return;
    if (y->kind == LS_YAML_SCALAR) ls_buf_fmt(out, "%s %zu %s\n", key, strlen(y->text), y->text);
    else if (y->kind == LS_YAML_SEQUENCE) ls_buf_fmt(out, "%s []\n", key);
    for (size_t i = 0; i < y->n_items; i++) {
        const char *name = y->kind == LS_YAML_MAPPING ? y->items[i].key : "-";
        char *inner = *key ? ls_format("%s.%s", key, name) : ls_strdup(name);
        list_others(&y->items[i], inner, changes, n, out);
        free(inner);
    }
}

// Whether the new document is the old one with exactly these changes.
static bool is_as_meant(const ls_yaml *before, const ls_yaml *now, const ls_config_change *changes, int n) {
    ls_buf old = {0}, new = {0};
    list_others(before, "", changes, n, &old);
    list_others(now, "", changes, n, &new);
    bool same = old.n == new.n && (!old.n || !memcmp(old.p, new.p, old.n));
    for (int i = 0; i < n; i++) {
        const ls_yaml *v = value_of(now, changes[i].key);
        same &= v && v->kind == LS_YAML_SCALAR && !strcmp(v->text, changes[i].value);
    }
    ls_buf_free(&old);
    ls_buf_free(&new);
    return same;
}

ls_code ls_config_file_change(const char *path, const ls_config_change *changes, int n, ls_err *err) {
    ls_buf text = {0};
    ls_yaml *before = NULL, *now = NULL;
    ls_make_folders(path);
    bool made;
    const int lock = ls_open_locked(path, &made); // so that two programs do not overwrite each other's changes
    ls_code code = lock < 0 ? ls_fail(err, LS_E_IO, "cannot write %s: %s", path,
                                      errno == EWOULDBLOCK ? "another program is writing it" : strerror(errno))
                            : ls_read_file(&text, path, MOST_BYTES, err);
    if (!code) code = ls_yaml_parse(&before, text.n ? text.p : "", text.n, path, err);
    for (int i = 0; i < n && !code; i++) { // parses again for each change, because lines and columns move
        ls_yaml_free(now);
        now = NULL;
        code = ls_yaml_parse(&now, text.n ? text.p : "", text.n, path, err);
        const ls_yaml *old = code ? NULL : value_of(now, changes[i].key);
        if (old && old->kind != LS_YAML_SCALAR)
            code = ls_fail(err, LS_E_USAGE, "%s:%d:%d: %s is not a plain value: edit it by hand", path, old->line,
                           old->column, changes[i].key);
        if (!code) set_one(&text, now, &changes[i]);
    }
    ls_yaml_free(now);
    now = NULL;
    if (!code && (ls_yaml_parse(&now, text.p, text.n, path, NULL) || !is_as_meant(before, now, changes, n)))
        code = ls_fail(err, LS_E_USAGE, "this program cannot edit the YAML layout of %s: set %s: %s by hand", path,
                       changes[0].key, changes[0].value);
    if (!code) code = ls_write_file(path, &text, err);
    if (code && made) unlink(path);
    if (lock >= 0) close(lock);
    ls_yaml_free(before);
    ls_yaml_free(now);
    ls_buf_free(&text);
    return code;
}
