#include "engine/load.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEMPLATE_BYTES = 16 << 20, TOKENIZER_BYTES = 256 << 20 };

// ---- the chat templates of a checkpoint, by name. A folder: chat_template.jinja and
// additional_chat_templates/NAME.jinja, otherwise chat_template of tokenizer_config.json, otherwise of
// chat_template.json. A GGUF file: tokenizer.chat_template and tokenizer.chat_template.NAME. A single template is named
// "default".

typedef struct {
    char *name;
    ls_buf text;
} template;

typedef struct {
    template *p;
    size_t n;
} templates;

static ls_buf *add(templates *t, const char *name, size_t n) {
    t->p = ls_realloc(t->p, (t->n + 1) * sizeof *t->p);
    t->p[t->n] = (template){.name = ls_format("%.*s", (int)n, name)};
    return &t->p[t->n++].text;
}

static void free_templates(templates *t) {
    for (size_t i = 0; i < t->n; i++) {
        free(t->p[i].name);
        ls_buf_free(&t->p[i].text);
    }
    free(t->p);
    *t = (templates){0};
}

static void add_json(templates *t, const char *name, const ls_json *text) {
    const ls_str s = ls_json_text(text);
    if (s.p) ls_buf_add(add(t, name, strlen(name)), s.p, s.n);
}

// A string, an object from names to strings, or a list of {"name", "template"}.
static void in_config(templates *t, const ls_json *v) {
    add_json(t, "default", v);
    for (ls_json_member m = {0}; ls_json_next(v, &m);) add_json(t, m.key, m.value);
    for (size_t i = 0; i < ls_json_size(v); i++) {
        const ls_json *one = ls_json_at(v, i);
        const char *name = ls_json_str(ls_json_get(one, "name"), NULL);
        if (name) add_json(t, name, ls_json_get(one, "template"));
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const template *)a)->name, ((const template *)b)->name);
}

// Reads NAME.jinja of a folder of templates, which is optional.
static ls_code in_folder(templates *t, const char *folder, ls_err *err) {
    static const char tail[] = ".jinja";
    DIR *dir = opendir(folder);
    ls_code code = dir || ls_is_missing(errno) ? LS_OK : ls_fail(err, LS_E_IO, "%s: %s", folder, strerror(errno));
    const size_t first = t->n;
    for (struct dirent *e; dir && !code && (e = readdir(dir));) {
        const size_t n = strlen(e->d_name), end = sizeof tail - 1;
        if (n > end && !strcmp(e->d_name + n - end, tail))
            code = ls_folder_read(folder, e->d_name, TEMPLATE_BYTES, add(t, e->d_name, n - end), err);
    }
    if (dir) closedir(dir);
    if (t->n > first) qsort(t->p + first, t->n - first, sizeof *t->p, by_name);
    return code;
}

static ls_code of_folder(templates *t, const char *folder, ls_str config, ls_err *err) {
    ls_buf text = {0};
    ls_json *doc = NULL;
    ls_code code = ls_folder_read(folder, "chat_template.jinja", TEMPLATE_BYTES, &text, err);
    if (text.p) *add(t, "default", 7) = text;
    char *more = ls_format("%s/additional_chat_templates", folder);
    if (!code) code = in_folder(t, more, err);
    free(more);
    if (code || t->n) return code;
    if (config.n && !(code = ls_json_parse_pythons(&doc, config.p, config.n, "tokenizer_config.json", err)))
        in_config(t, ls_json_get(doc, "chat_template"));
    ls_json_free(doc);
    doc = NULL;
    if (!code && !t->n) { // some vision models have this file
        code = ls_folder_read(folder, "chat_template.json", TEMPLATE_BYTES, &text, err);
        if (!code && text.p && !(code = ls_json_parse_pythons(&doc, text.p, text.n, "chat_template.json", err)))
            in_config(t, ls_json_get(doc, "chat_template"));
        ls_json_free(doc);
        ls_buf_free(&text);
    }
    if (code) ls_err_prefix(err, "%s", folder);
    return code;
}

static ls_code of_gguf(templates *t, const ls_gguf *g, ls_err *err) {
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

// config: the contents of tokenizer_config.json (n 0: none).
static ls_code read_templates(templates *t, const ls_checkpoint *c, ls_str config, ls_err *err) {
    return c->gguf ? of_gguf(t, c->gguf, err) : of_folder(t, c->folder, config, err);
}

static const ls_buf *find(const templates *t, const char *name) {
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->p[i].name, name)) return &t->p[i].text;
    return NULL;
}

static void list_names(const templates *t, ls_buf *out) {
    for (size_t i = 0; i < t->n; i++) ls_buf_fmt(out, "%s%.60s", i ? ", " : "", t->p[i].name);
    ls_buf_char(out, 0);
}

// Adds a file, or a template of configs/chat, as the last of t.
static ls_code from_file(templates *t, const char *name, const ls_buf **out, ls_err *err) {
    const bool plain = strchr(name, '/') || !access(name, F_OK);
    char *rel = ls_format("configs/chat/%s.jinja", name), *shipped = ls_data_path(rel);
    const char *path = plain || access(shipped, F_OK) ? name : shipped;
    ls_buf text = {0};
    int unopened;
    ls_code code = ls_read_any(&text, path, TEMPLATE_BYTES, &unopened, err);
    if (!unopened) {
        *add(t, path, strlen(path)) = text;
        *out = &t->p[t->n - 1].text;
    } else {
        char *folder = ls_data_path("configs/chat");
        templates known = {0};
        ls_buf own = {0}, others = {0};
        list_names(t, &own);
        if (!in_folder(&known, folder, err)) list_names(&known, &others);
        code = ls_fail(err, LS_E_IO,
                       "the chat template %s: %s; use a Jinja file, %s%s%sor a template of configs/chat (%s)", name,
                       strerror(unopened), t->n ? "a template of this model (" : "", t->n ? own.p : "",
                       t->n ? "), " : "", others.n ? others.p : "");
        ls_buf_free(&own);
        ls_buf_free(&others);
        free_templates(&known);
        free(folder);
    }
    free(rel);
    free(shipped);
    return code;
}

// *out is borrowed from t; NULL: the model has none, and name is NULL.
static ls_code choose_template(templates *t, const char *name, bool tools, const ls_buf **out, ls_err *err) {
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

// ---- vocabulary and template

// The other tokenizer files of a folder.
typedef struct {
    ls_buf config, special_map, added;
} beside;

static ls_code read_beside(beside *b, const char *folder, ls_err *err) {
    const struct {
        const char *name;
        ls_buf *to;
    } files[] = {{"tokenizer_config.json", &b->config},
                 {"special_tokens_map.json", &b->special_map},
                 {"added_tokens.json", &b->added}};
    ls_code code = LS_OK;
    for (size_t i = 0; i < 3 && !code; i++)
        code = ls_folder_read(folder, files[i].name, TOKENIZER_BYTES, files[i].to, err);
    return code;
}

static void free_beside(beside *b) {
    ls_buf_free(&b->config);
    ls_buf_free(&b->special_map);
    ls_buf_free(&b->added);
}

static ls_tokenizer_files files_of(const ls_checkpoint *c, const beside *b) {
    return (ls_tokenizer_files){.config = {b->config.p, b->config.n},
                                .special_map = {b->special_map.p, b->special_map.n},
                                .added = {b->added.p, b->added.n},
                                .usual_class = c->hparams.arch ? c->hparams.arch->tokenizer : NULL};
}

static ls_code vocab_of_folder(ls_vocab **out, const ls_checkpoint *c, const beside *b, ls_err *err) {
    static const struct {
        const char *name;
        ls_code (*read)(ls_vocab **out, ls_str text, const ls_tokenizer_files *beside, ls_err *err);
    } kinds[] = {{"tokenizer.json", ls_tokenizer_json},
                 {"tokenizer.model", ls_tokenizer_model},
                 {"tekken.json", ls_tokenizer_tekken}};
    const ls_tokenizer_files files = files_of(c, b);
    ls_buf text = {0}, merges = {0};
    ls_code code = LS_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !text.p && !code; i++) {
        code = ls_folder_read(c->folder, kinds[i].name, TOKENIZER_BYTES, &text, err);
        if (text.p && !code && (code = kinds[i].read(out, (ls_str){text.p, text.n}, &files, err)))
            ls_err_prefix(err, "%s/%s", c->folder, kinds[i].name);
    }
    if (!code && !text.p && !(code = ls_folder_read(c->folder, "vocab.json", TOKENIZER_BYTES, &text, err)) && text.p) {
        code = ls_folder_read(c->folder, "merges.txt", TOKENIZER_BYTES, &merges, err);
        if (!code && merges.p &&
            (code = ls_tokenizer_merges(out, (ls_str){text.p, text.n}, (ls_str){merges.p, merges.n}, &files, err)))
            ls_err_prefix(err, "%s", c->folder);
    }
    ls_buf_free(&text);
    ls_buf_free(&merges);
    return code || *out ? code
                        : ls_fail(err, LS_E_IO,
                                  "%s: no tokenizer; it needs tokenizer.json, tokenizer.model, tekken.json, or "
                                  "vocab.json with merges.txt",
                                  c->folder);
}

static void add_ends_of(ls_vocab *v, const ls_json *config) {
    const ls_json *eos = ls_json_get(config, "eos_token_id");
    int64_t id;
    if (ls_json_int(eos, &id) && id >= 0 && id <= INT32_MAX) ls_vocab_add_end(v, (int32_t)id);
    for (size_t i = 0; i < ls_json_size(eos); i++)
        if (ls_json_int(ls_json_at(eos, i), &id) && id >= 0 && id <= INT32_MAX) ls_vocab_add_end(v, (int32_t)id);
}

// Tokens that end an answer: eos_token_id of generation_config.json and config.json, one number or several. Warns if a
// file cannot be read, because answers might not stop at their end.
static void add_ends(ls_vocab *v, const char *folder, const char *name, const ls_engine_options *o) {
    ls_json *doc;
    ls_err err;
    char note[700];
    const ls_code code = ls_folder_json(folder, name, &doc, NULL, &err);
    add_ends_of(v, doc);
    add_ends_of(v, ls_json_get(doc, "text_config"));
    if (code && o->note) {
        snprintf(note, sizeof note, "%s; the file is ignored, and with it the tokens that end an answer", err.msg);
        o->note(o->ud, note);
    }
    ls_json_free(doc);
}

ls_code ls_load_template(const ls_checkpoint *c, const char *name, ls_buf *out, ls_buf *variables, ls_err *err) {
    beside b = {0};
    templates all = {0};
    const ls_buf *chosen = NULL;
    ls_vocab *v = NULL;
    ls_code code = c->folder ? read_beside(&b, c->folder, err) : LS_OK;
    if (!code && !(code = read_templates(&all, c, (ls_str){b.config.p, b.config.n}, err)))
        code = choose_template(&all, name, false, &chosen, err);
    if (!code && chosen) ls_buf_add(out, chosen->p, chosen->n);
    if (!code && c->folder) {
        const ls_tokenizer_files files = files_of(c, &b);
        code = ls_tokenizer_variables(&files, variables, err);
    } else if (!code && ls_gguf_has(c->gguf, "tokenizer.ggml.model") && !(code = ls_vocab_gguf(&v, c->gguf, err)))
        ls_buf_str(variables, ls_vocab_variables(v));
    ls_vocab_free(v);
    free_templates(&all);
    free_beside(&b);
    return code;
}

// A requested template must be usable. If the model's own template is not usable, the error appears when a chat begins.
static ls_code make_chat(ls_model *m, const ls_checkpoint *c, const ls_model_options *o, const beside *b, ls_err *err) {
    const char *name = o->chat_template, *variables = o->template_variables;
    templates all = {0};
    const ls_buf *text = NULL;
    ls_json *given = NULL;
    ls_err why = {0};
    ls_code code =
        variables ? ls_json_parse(&given, variables, strlen(variables), "the template's variables", err) : LS_OK;
    if (code) return code;
    if (!(code = read_templates(&all, c, (ls_str){b->config.p, b->config.n}, &why)))
        code = choose_template(&all, name, ls_json_given(given, "tools"), &text, &why);
    if (!code && !text) why = (ls_err){.msg = "the model has no chat template; set one with --template FILE"};
    else if (!code) code = ls_chat_new(&m->chat, m->vocab, text->p ? text->p : "", text->n, &why);
    snprintf(m->chat_problem, sizeof m->chat_problem, "%.*s", m->chat ? 0 : (int)sizeof m->chat_problem - 1, why.msg);
    m->chat_refused = !m->chat && (all.n || code);
    if (code && name && text) code = ls_fail(err, LS_E_UNSUPPORTED, "%s: %s", name, why.msg);
    else if (code && name) code = ls_fail(err, code, "%s", why.msg);
    else code = LS_OK;
    if (m->chat) ls_vocab_add_end(m->vocab, ls_chat_end(m->chat));
    // gpt-oss ends the call of a function with another token than an answer. Folders list both; GGUF files name one.
    if (m->chat && ls_vocab_special(m->vocab, "<|channel|>", 11) >= 0)
        ls_vocab_add_end(m->vocab, ls_vocab_special(m->vocab, "<|call|>", 8));
    if (m->chat && variables && !code) code = ls_chat_set(m->chat, variables, strlen(variables), err);
    ls_json_free(given);
    free_templates(&all);
    return code;
}

ls_code ls_load_text(ls_model *m, const ls_checkpoint *c, const ls_model_options *o, ls_err *err) {
    beside b = {0};
    ls_code code = LS_OK;
    if (c->folder) code = read_beside(&b, c->folder, err);
    if (!code && c->folder) code = vocab_of_folder(&m->vocab, c, &b, err);
    else if (!code && !ls_gguf_has(c->gguf, "tokenizer.ggml.model"))
        code = ls_fail(err, LS_E_PARSE, "%s: no tokenizer (metadata tokenizer.ggml.*)", c->files[0].path);
    else if (!code && (code = ls_vocab_gguf(&m->vocab, c->gguf, err))) ls_err_prefix(err, "%s", c->files[0].path);
    if (!code && c->n_tensors && (code = ls_vocab_pad(m->vocab, c->hparams.n_vocab, err)))
        ls_err_prefix(err, "%s", c->files[0].path);
    if (!code && c->folder) {
        add_ends(m->vocab, c->folder, "generation_config.json", &o->engine);
        add_ends(m->vocab, c->folder, "config.json", &o->engine);
    }
    if (!code) code = make_chat(m, c, o, &b, err);
    free_beside(&b);
    return code;
}
