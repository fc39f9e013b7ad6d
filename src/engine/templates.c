#include "engine/templates.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEMPLATE_BYTES = 16 << 20 };

static ls_buf *add(ls_templates *t, const char *name, size_t n) {
    t->p = ls_realloc(t->p, (t->n + 1) * sizeof *t->p);
    t->p[t->n] = (ls_template){.name = ls_format("%.*s", (int)n, name)};
    return &t->p[t->n++].text;
}

void ls_templates_free(ls_templates *t) {
    for (size_t i = 0; i < t->n; i++) {
        free(t->p[i].name);
        ls_buf_free(&t->p[i].text);
    }
    free(t->p);
    *t = (ls_templates){0};
}

static void add_json(ls_templates *t, const char *name, const ls_json *text) {
    size_t n;
    const char *p = ls_json_str(text, &n);
    if (p) ls_buf_add(add(t, name, strlen(name)), p, n);
}

static void on_template(void *ud, const char *name, const ls_json *text) {
    add_json(ud, name, text);
}

// A string, an object from names to strings, or a list of {"name", "template"}.
static void in_config(ls_templates *t, const ls_json *v) {
    size_t n;
    add_json(t, "default", v);
    ls_json_each(v, on_template, t);
    for (size_t i = 0; i < ls_json_size(v); i++) {
        const ls_json *one = ls_json_at(v, i);
        const char *name = ls_json_str(ls_json_get(one, "name"), &n);
        if (name) add_json(t, name, ls_json_get(one, "template"));
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const ls_template *)a)->name, ((const ls_template *)b)->name);
}

// Reads NAME.jinja of a folder of templates, which is optional.
static ls_code in_folder(ls_templates *t, const char *folder, ls_err *err) {
    static const char tail[] = ".jinja";
    DIR *dir = opendir(folder);
    ls_code code = dir || ls_is_missing(errno) ? LS_OK : ls_fail(err, LS_E_IO, "%s: %s", folder, strerror(errno));
    const size_t first = t->n;
    bool there;
    for (struct dirent *e; dir && !code && (e = readdir(dir));) {
        const size_t n = strlen(e->d_name), end = sizeof tail - 1;
        if (n > end && !strcmp(e->d_name + n - end, tail))
            code = ls_folder_read(folder, e->d_name, TEMPLATE_BYTES, add(t, e->d_name, n - end), &there, err);
    }
    if (dir) closedir(dir);
    if (t->n > first) qsort(t->p + first, t->n - first, sizeof *t->p, by_name);
    return code;
}

static ls_code of_folder(ls_templates *t, const char *folder, ls_str config, ls_err *err) {
    ls_buf text = {0};
    ls_json *doc = NULL;
    bool there;
    ls_code code = ls_folder_read(folder, "chat_template.jinja", TEMPLATE_BYTES, &text, &there, err);
    if (!code && there) *add(t, "default", 7) = text;
    char *more = ls_format("%s/additional_chat_templates", folder);
    if (!code) code = in_folder(t, more, err);
    free(more);
    if (code || t->n) return code;
    if (config.n && !(code = ls_json_parse_pythons(&doc, config.p, config.n, "tokenizer_config.json", err)))
        in_config(t, ls_json_get(doc, "chat_template"));
    ls_json_free(doc);
    doc = NULL;
    if (!code && !t->n) { // some vision models have this file
        code = ls_folder_read(folder, "chat_template.json", TEMPLATE_BYTES, &text, &there, err);
        if (!code && there && !(code = ls_json_parse_pythons(&doc, text.p, text.n, "chat_template.json", err)))
            in_config(t, ls_json_get(doc, "chat_template"));
        ls_json_free(doc);
        ls_buf_free(&text);
    }
    if (code) ls_err_prefix(err, "%s", folder);
    return code;
}

static ls_code of_gguf(ls_templates *t, const ls_gguf *g, ls_err *err) {
    ls_str text, *names = NULL;
    size_t n = 0;
    ls_code code = LS_OK;
    if (ls_gguf_has(g, "tokenizer.chat_template") && !(code = ls_gguf_str(g, "tokenizer.chat_template", &text, err)))
        ls_buf_add(add(t, "default", 7), text.p, text.n);
    if (!code && ls_gguf_has(g, "tokenizer.chat_templates"))
        code = ls_gguf_str_array(g, "tokenizer.chat_templates", &names, &n, err);
    for (size_t i = 0; i < n && !code; i++) {
        char *key = ls_format("tokenizer.chat_template.%.*s", (int)(names[i].n < 200 ? names[i].n : 200), names[i].p);
        if (ls_gguf_has(g, key) && !(code = ls_gguf_str(g, key, &text, err)))
            ls_buf_add(add(t, names[i].p, names[i].n), text.p, text.n);
        free(key);
    }
    free(names);
    return code;
}

ls_code ls_templates_read(ls_templates *t, const ls_checkpoint *c, ls_str config, ls_err *err) {
    return c->gguf ? of_gguf(t, c->gguf, err) : of_folder(t, c->folder, config, err);
}

static const ls_buf *find(const ls_templates *t, const char *name) {
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->p[i].name, name)) return &t->p[i].text;
    return NULL;
}

static void list_names(const ls_templates *t, ls_buf *out) {
    for (size_t i = 0; i < t->n; i++) ls_buf_fmt(out, "%s%.60s", i ? ", " : "", t->p[i].name);
    ls_buf_char(out, 0);
}

// Adds a file, or a template of configs/chat, as the last of t.
static ls_code from_file(ls_templates *t, const char *name, const ls_buf **out, ls_err *err) {
    const bool plain = strchr(name, '/') || !access(name, F_OK);
    char *rel = ls_format("configs/chat/%s.jinja", name), *shipped = ls_data_path(rel);
    const char *path = plain || access(shipped, F_OK) ? name : shipped;
    FILE *f = fopen(path, "re");
    ls_code code = LS_OK;
    if (f) {
        ls_buf *text = add(t, path, strlen(path));
        code = ls_read_all(text, f, path, TEMPLATE_BYTES, err);
        fclose(f);
        *out = &t->p[t->n - 1].text;
    } else {
        const int why = errno;
        char *folder = ls_data_path("configs/chat");
        ls_templates known = {0};
        ls_buf own = {0}, others = {0};
        list_names(t, &own);
        if (!in_folder(&known, folder, err)) list_names(&known, &others);
        code = ls_fail(err, LS_E_IO,
                       "the chat template %s: %s; use a Jinja file, %s%s%sor a template of configs/chat (%s)", name,
                       strerror(why), t->n ? "a template of this model (" : "", t->n ? own.p : "", t->n ? "), " : "",
                       others.n ? others.p : "");
        ls_buf_free(&own);
        ls_buf_free(&others);
        ls_templates_free(&known);
        free(folder);
    }
    free(rel);
    free(shipped);
    return code;
}

ls_code ls_templates_choose(ls_templates *t, const char *name, bool tools, const ls_buf **out, ls_err *err) {
    ls_buf own = {0};
    *out = name ? find(t, name) : tools ? find(t, "tool_use") : NULL;
    if (!name && !*out) *out = find(t, "default");
    if (*out || (!name && !t->n)) return LS_OK;
    if (name) return from_file(t, name, out, err);
    list_names(t, &own);
    const ls_code code =
        ls_fail(err, LS_E_USAGE,
                "none of the model's chat templates is named 'default'; choose one with --template (%s)", own.p);
    ls_buf_free(&own);
    return code;
}
